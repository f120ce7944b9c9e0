"""A container asks for a device by a name that no CDI specification defines (NVIDIA/nvidia-container-toolkit#1239)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from edgeagent.diagnose import cdi, injection
from edgeagent.diagnose.collected import pod_subject
from edgeagent.diagnose.rule import Rule
from edgeagent.facts import PREFIX, Certainty

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import ContainerFacts, Finding, PodFacts
    from edgeagent.facts.diagnosis import ClusterLook

KIND = "nvidia.com/gpu"
"""What NVIDIA's runtime puts before a device that is asked for by number, UUID or ``all``."""
_MADE_AT_ONCE = "runtime.nvidia.com/gpu"
"""NVIDIA's runtime makes these itself when they are asked for."""
_NAME = r"[\w.-]+/[\w.-]+=\w(?:[\w.:-]*\w)?"
_SAID = re.compile(rf"unresolvable CDI devices ({_NAME}(?:, {_NAME})*)")
"""As the library says it that all runtimes use (pkg/cdi/cache.go)."""
_ANNOTATIONS = ("cdi.k8s.io/", "nvidia.cdi.k8s.io/")
_BY_NAME_ALONE = ".cdi"
"""Ending of the binary that knows devices by name alone, whatever the mode is."""
_TEGRA = f"{KIND}=tegra"
"""As NVIDIA's device plugin calls a Jetson's GPU (kubeedge/kubeedge#6425)."""
_SHOWN = 6
_SETTINGS = "/etc/nvidia-container-runtime/config.toml"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A name, and where it stands."""

    name: str
    row: str
    certainty: Certainty = "certain"


def look(seen: Collected) -> Iterator[Finding]:
    """Pods that are bound here: what their manifests name, and what runtimes have said of them."""
    if not seen.has_gpu:
        return
    known = cdi.defined(seen.host.cdi)
    told = False
    for pod in seen.pods:
        asked = () if pod.terminating else (*_asked(seen, pod), *_said(seen.cluster, pod))
        lacking = [one for one in asked if one.name not in known and cdi.kind(one.name) != _MADE_AT_ONCE]
        if lacking:
            told = True
            yield _of_pod(seen, pod, lacking)
    if not told:
        yield from _of_node(seen)


def across(seen: ClusterSeen) -> Iterator[Finding]:
    """What runtimes have said on any node."""
    for pod in seen.everyone():
        said = list(_said(seen.cluster, pod))
        if said and not pod.terminating:
            names = _names(said)
            yield RULE.finding(
                pod_subject(pod),
                f"The pod cannot start: on its node no CDI specification defines {names}.",
                evidence=[one.row for one in said],
                remedy=f"On the node:\n{_GENERATE}",
                pod=pod,
            )


# --- what is asked for ------------------------------------------------------------------------


def _asked(seen: Collected, pod: PodFacts) -> Iterator[_Asked]:
    for key, text in sorted(pod.annotations.items()):
        if key.startswith(_ANNOTATIONS):
            yield from (_Asked(name, f"annotation {key}: {text}") for name in _listed(text) if cdi.is_name(name))
    used, handler = seen.host.containerd, injection.handler(seen, pod)
    unknown = handler is None and bool(used.problem or seen.cluster.runtime_classes.items is None)
    if not unknown and handler not in used.nvidia:
        return
    for container in pod.containers:
        row = f"container {container.name}: {injection.VARIABLE}={container.visible_devices}"
        named = _listed(container.visible_devices or "") if injection.given_by_variable(container) else ()
        certainty: Certainty = "suspected" if unknown else "certain"
        yield from (_Asked(name, row, certainty) for name in named if cdi.is_name(name))
        if handler is not None and _by_name_alone(seen, handler):
            yield from (_Asked(f"{KIND}={name}", row) for name in named if not cdi.is_name(name))
            yield from _given(seen, container)


def _given(seen: Collected, container: ContainerFacts) -> Iterator[_Asked]:
    """A device whose name is not in the manifest: a plugin, or the image, says which."""
    asks = injection.asked(container, PREFIX, injection.BY_PLUGIN)
    if container.visible_devices is None and asks and not any(cdi.is_nvidia(spec.kind) for spec in seen.host.cdi):
        yield _Asked(f"{KIND}=all", f"container {container.name} asks for {', '.join(asks)}", "suspected")


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _by_name_alone(seen: Collected, handler: str) -> bool:
    binary, _ = seen.host.containerd.runtimes[handler]
    return seen.host.toolkit_mode == "cdi" or binary.endswith(_BY_NAME_ALONE)


def _runs(pod: PodFacts) -> bool:
    return all(one.started_at is not None for one in injection.lasting(pod))


def _said(cluster: ClusterLook, pod: PodFacts) -> Iterator[_Asked]:
    """Of containers that do not run, and while not all do of the pod."""
    if _runs(pod):
        return
    notes = [note for one in pod.containers if one.started_at is None for note in _notes(one)]
    notes += [event.note for event in cluster.events.items or () if event.uid == pod.uid]
    for note in dict.fromkeys(notes):
        for match in _SAID.finditer(note):
            yield from (_Asked(name, f"told: {match[0]}") for name in _listed(match[1]))


def _notes(container: ContainerFacts) -> Iterator[str]:
    if container.waiting:
        yield container.waiting[1]
    if container.ended:
        yield container.ended[2]


# --- what is told -------------------------------------------------------------------------------


def _names(asked: Iterable[_Asked]) -> str:
    return ", ".join(dict.fromkeys(one.name for one in asked))


def _of_pod(seen: Collected, pod: PodFacts, lacking: list[_Asked]) -> Finding:
    names = _names(lacking)
    closed = [spec.problem for spec in seen.host.cdi if spec.closed and cdi.is_read(spec)]
    if closed:
        return RULE.finding(
            pod_subject(pod),
            f"Whether a CDI specification defines {names} cannot be told: {'; '.join(closed)}.",
            evidence=(*_rows(lacking), *closed),
            remedy="Let the agent read it:\n"
            f"sudo chmod a+r {' '.join(quote(spec.path) for spec in seen.host.cdi if spec.closed)}",
            severity="info",
            certainty="cannot-tell",
            pod=pod,
        )
    runs = _runs(pod)
    follows = "it runs, but will not start again" if runs else "it cannot start"
    return RULE.finding(
        pod_subject(pod),
        f"The pod asks for {names}, which no CDI specification on this node defines: {follows}.",
        evidence=(*_rows(lacking), *_specs(seen, {cdi.kind(one.name) for one in lacking})),
        remedy=_remedy(seen, lacking),
        severity="warning" if runs else "error",
        certainty="certain" if any(one.certainty == "certain" for one in lacking) else "suspected",
        pod=pod,
    )


def _of_node(seen: Collected) -> Iterator[Finding]:
    """Without a pod that asks: in this mode all that will ask fail."""
    if seen.host.toolkit_mode != "cdi" or any(cdi.is_nvidia(spec.kind) or spec.closed for spec in seen.host.cdi):
        return
    yield RULE.finding(
        seen.node_subject,
        f'NVIDIA\'s runtime is set to mode "cdi", and no specification defines a device of the kind {KIND}: containers '
        "that ask for the GPU will not start.",
        evidence=(f"{_SETTINGS}: nvidia-container-runtime.mode cdi", *_specs(seen, {KIND})),
        remedy=_GENERATE,
    )


def _rows(asked: Iterable[_Asked]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.row for one in asked))


def _specs(seen: Collected, kinds: set[str]) -> Iterator[str]:
    found = False
    for spec in seen.host.cdi:
        if spec.problem:
            yield f"{spec.path}: is not used: {spec.problem}"
        elif not cdi.is_read(spec):
            yield f"{spec.path}: is not read: its name ends neither in .json nor in .yaml"
        elif spec.kind in kinds:
            found = True
            names = ", ".join(spec.devices[:_SHOWN]) + (" …" if len(spec.devices) > _SHOWN else "")
            yield f"{spec.path}: kind {spec.kind}, devices {names or 'none'}"
    if not found:
        yield f"{cdi.STATIC}, {cdi.DYNAMIC}: no specification of the kind {', '.join(sorted(kinds))}"


_GENERATE = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml\nnvidia-ctk cdi list"


def _remedy(seen: Collected, lacking: list[_Asked]) -> str:
    if any(one.name == _TEGRA for one in lacking):
        return (
            "tegra is what the device plugin calls a Jetson's GPU, and known by lists of files alone. Let the runtime "
            "use those:\nsudo nvidia-ctk config --in-place --set nvidia-container-runtime.mode=csv"
        )
    kinds = {cdi.kind(one.name) for one in lacking}
    others = sorted(name for name in cdi.defined(seen.host.cdi) if cdi.kind(name) in kinds)
    lines = (
        [f"Ask for one that there is: {', '.join(others[:_SHOWN])}. Or describe what the node has anew:"]
        if others
        else []
    )
    odd = [spec for spec in seen.host.cdi if not cdi.is_read(spec) and spec.kind in kinds]
    if odd:
        path = odd[0].path
        ending = f"{path.rpartition('.')[0]}.yaml"
        return f"Give the file an ending that is read:\nsudo mv {quote(path)} {quote(ending)}"
    if not all(map(cdi.is_nvidia, kinds)):
        return "\n".join(
            [*lines, f"Let what offers {', '.join(sorted(kinds))} write its specification to {cdi.STATIC}."]
        )
    if kinds == {KIND}:
        return "\n".join([*lines, _GENERATE])
    return "\n".join(
        [*lines, f"{', '.join(sorted(kinds))} is described by a component of NVIDIA's: restart its pod on this node."]
    )


RULE = Rule(
    id="cdi-name-unresolved",
    title="A device by a name that no CDI specification defines",
    severity="error",
    looks_at="annotations `cdi.k8s.io/…`, names such as `nvidia.com/gpu=all` in `NVIDIA_VISIBLE_DEVICES` of pods under "
    "NVIDIA's runtime, and any value of it where that runtime knows names alone (mode `cdi`, "
    "`nvidia-container-runtime.cdi`); what runtimes said of containers that do not start; the files `*.json` and "
    "`*.yaml` in `/etc/cdi` and `/var/run/cdi`",
    matters="The container does not start: *unresolvable CDI devices*. A specification is written by a command or a "
    "service, often in a folder that is empty after a restart, and names the GPUs of the moment.",
    remedy="Describe the devices, and look what they are called:\n" + _GENERATE,
    look=look,
    across=across,
)
RULES = (RULE,)
