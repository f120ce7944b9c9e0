"""A container that asked for a GPU computes on the CPU and looks healthy (ollama/ollama#3211, k3s-io/k3s#10034)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from edgeagent.diagnose import injection
from edgeagent.diagnose.collected import pod_subject
from edgeagent.diagnose.rule import Rule
from edgeagent.facts import PREFIX
from edgeagent.plan.decide import PLAUSIBLE_WALL

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.diagnose.injection import Barred
    from edgeagent.facts import ContainerFacts, Finding
    from edgeagent.plan.breaches import PodView

BUSY = 0.5
"""Of one core, on average: a server that waits for requests needs next to nothing."""
_SHORTEST = 1.0
"""Seconds between two looks from which a share of the CPU can be told."""
_LOADING = 2
"""Times ``policy.start_grace`` until nothing that a container does is taken for its start any more."""
_MPS = "nvidia-cuda-mps"


@dataclass(frozen=True, slots=True)
class _Case:
    """One container that asks for a GPU and runs."""

    seen: Collected
    view: PodView
    container: ContainerFacts
    asked: dict[str, str]
    """By what it asks, and how that stands in the manifest."""
    held: bool | None
    """A process of it uses a GPU; None: cannot tell."""

    @property
    def age(self) -> float | None:
        """Seconds for which it has run; None where one of the two clocks is not set."""
        told, wall = self.container.started_at, self.seen.facts.wall
        return wall - told if told is not None and PLAUSIBLE_WALL < told <= wall else None

    @property
    def cores(self) -> float | None:
        """The share of a core that it used since it started or since the last look, whichever is more."""
        name, host, before = self.container.container_id or "", self.seen.host, self.seen.before
        used, age = host.cpu_seconds.get(name), self.age
        if used is None:
            return None
        shares = [used / age] if age else []
        if before and name in before.cpu_seconds and host.at - before.at >= _SHORTEST:
            shares.append((used - before.cpu_seconds[name]) / (host.at - before.at))
        return max(shares, default=None)

    @property
    def without(self) -> bool:
        """It is known to use no GPU. Where open files cannot be read NVML's lists tell, which a Tegra does not have."""
        board, use = self.seen.plan.board, self.view.use
        if board.kind == "wsl":  # its device node is another one, and it lists no processes
            return False
        own = use.containers.get(self.container.name)
        listed = own is not None and own.gpu == 0 and not any(device.tegra for device in board.devices)
        return listed if self.held is None else not self.held

    def busy(self, found: Finding) -> bool:
        """It keeps the CPU busy. Once that was ``found`` it stays so until the container uses the GPU, or ends."""
        known = {(one.id, one.uid, one.summary) for one in self.seen.facts.findings or ()}
        return (self.cores or 0.0) >= BUSY or (found.id, found.uid, found.summary) in known

    def started(self, graces: int) -> bool:
        """It has run for so many times ``policy.start_grace``."""
        grace = self.seen.facts.config.policy.start_grace
        return self.age >= graces * grace if self.age is not None else graces == 1 and self.view.start_left <= 0


def look(seen: Collected) -> Iterator[Finding]:
    """Every container that runs long enough. Nobody knows the memory of an MPS server's clients."""
    if not seen.has_gpu:
        return
    served = any(process.name.startswith(_MPS) for process in seen.facts.host.processes.values())
    for case in _cases(seen):
        barred = None if case.held else injection.barred(seen, case.view.pod, case.container)
        if barred is not None:
            yield from _certain(case, barred)
        elif not served and case.without:
            yield from _suspected(case)


def _cases(seen: Collected) -> Iterator[_Case]:
    for view in seen.plan.pods:
        for container in injection.lasting(view.pod) if not view.pod.terminating else ():
            asked = _asked(container)
            if asked and container.started_at is not None and container.container_id is not None:
                yield _Case(seen, view, container, asked, injection.holds(seen, view, container))


def _asked(container: ContainerFacts) -> dict[str, str]:
    found = injection.asked(container, PREFIX, injection.BY_PLUGIN)
    rows = {key: f"container {container.name} requests {key}: {amount}" for key, amount in found.items()}
    if injection.given_by_variable(container):
        rows[injection.VARIABLE] = f"container {container.name}: {injection.VARIABLE}={container.visible_devices}"
    return rows


def _certain(case: _Case, barred: Barred) -> Iterator[Finding]:
    """By the configuration alone. Of one that asks for nothing but ours device-not-injected tells while it is idle."""
    pod, container = case.view.pod, case.container
    found = RULE.finding(
        pod_subject(pod),
        f"Container {container.name} asks for a GPU ({', '.join(case.asked)}) and runs without: {barred.why}.",
        evidence=(*case.asked.values(), *barred.evidence, *_rows(case)),
        remedy=injection.remedy(case.seen, pod, container, by_runtime=barred.by_runtime),
        pod=pod,
    )
    told_elsewhere = all(key.startswith(PREFIX) for key in case.asked)
    if case.started(1) and (not told_elsewhere or case.cores is None or case.busy(found)):
        yield found


def _suspected(case: _Case) -> Iterator[Finding]:
    """By what it does."""
    pod, name = case.view.pod, case.container.name
    found = RULE.finding(
        pod_subject(pod),
        f"Container {name} asks for a GPU ({', '.join(case.asked)}), uses none and keeps the CPU busy.",
        evidence=(*case.asked.values(), *_rows(case)),
        remedy="What it says of CUDA and what it was given tell why; often its image is built for another JetPack, or "
        "without CUDA.\n"
        f"kubectl -n {pod.namespace} logs {pod.name} -c {name} | grep -iE 'cuda|gpu|nvidia' | head -n 20\n"
        f"kubectl -n {pod.namespace} exec {pod.name} -c {name} -- "
        f"sh -c 'ls -d /dev/nv*; echo {injection.VARIABLE}=${injection.VARIABLE}'",
        severity="warning",
        certainty="suspected",
        pod=pod,
    )
    if case.started(_LOADING) and case.busy(found):
        yield found


def _rows(case: _Case) -> Iterator[str]:
    """What is known of its processes."""
    holders, own = case.seen.host.holders, case.view.use.containers.get(case.container.name)
    memory = "not known" if own is None or own.gpu is None else str(own.gpu)
    yield f"GPU memory of its processes: {memory}"
    unread = holders.problem or "the open files of its processes cannot be read"
    yield f"GPU device nodes that they hold open: {f'not known ({unread})' if case.held is None else 'none'}"
    if case.container.started_at is not None:
        moment = datetime.fromtimestamp(case.container.started_at, timezone.utc)
        yield f"started: {moment.strftime('%Y-%m-%dT%H:%M:%SZ')}"
    yield f"CPU: {'not known' if case.cores is None else f'{case.cores:.1f} cores'}"


RULE = Rule(
    id="silent-cpu-fallback",
    title="A container that asks for a GPU runs on the CPU",
    severity="error",
    looks_at="each container that asks for a GPU (a resource of NVIDIA's or edgeagent's, or `NVIDIA_VISIBLE_DEVICES` "
    "in its manifest) and has run for longer than `policy.start_grace`: whether its processes hold GPU memory or a GPU "
    "device node; whether it can get a device at all, as in [device-not-injected](#device-not-injected), and then it "
    "is certain. Otherwise it is suspected, a warning, of one that has run for twice that and keeps half a core or "
    "more busy",
    matters="It is `Running` and answers, ten or a hundred times slower than it should, while the memory that it asked "
    "for is kept from others. Kubernetes sees nothing wrong.",
    remedy="Let it run under NVIDIA's runtime, and use an image that is built for this board's CUDA:\n"
    "spec:\n"
    "  runtimeClassName: nvidia",
    look=look,
    event="SilentCPUFallback",
)
RULES = (RULE,)
