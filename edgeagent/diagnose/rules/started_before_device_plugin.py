"""After a boot a pod was started before the device plugin was back, or refused for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from shlex import quote
from typing import TYPE_CHECKING

from edgeagent.diagnose import plugins
from edgeagent.diagnose.collected import pod_subject
from edgeagent.diagnose.rule import Rule

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import ContainerFacts, Finding, PodFacts

REFUSED = "UnexpectedAdmissionError"
"""What the kubelet says of a pod that it could give no device (kubernetes, pkg/kubelet/lifecycle)."""
_MOST_NAMED = 3
_MOST_TOLD = 5
"""Pods that evidence and remedy name."""
_CENTURY = 100 * 366 * 86400.0
_MINUTE = len("2026-01-31T12:00")


@dataclass(frozen=True, slots=True)
class _Plugin:
    """The device plugin, as far as it is known when it first ran since the boot."""

    pod: PodFacts
    made: float | None
    """Unix time when its pod was; None: not known."""
    since: float
    """Unix time."""
    again: bool
    """It was started again since then, so that runs before may have been forgotten."""


def look(seen: Collected) -> Iterator[Finding]:
    """Those that run without their device, then those that failed, which others have taken the place of."""
    plugin = _plugin(seen)
    if plugin is not None:
        for pod in seen.pods:
            if plugins.asks(pod) and not pod.terminating:
                early = [one for one in pod.containers if _early(seen, one, plugin)]
                if early:
                    yield from _of_pod(seen, pod, early, plugin)
    cluster = seen.facts.cluster
    yield from _failed(seen, (cluster.pods if cluster else None) or ())


def _plugin(seen: Collected) -> _Plugin | None:
    """None where nobody knows when it was started, or when the board was."""
    boot = _boot(seen)
    if boot is None:
        return None
    for pod in plugins.pods(seen.pods, seen.cluster):
        runs = [one for one in pod.containers if one.kind == "regular" and one.started_at is not None]
        formers = [one.former_started_at for one in runs if (one.former_started_at or boot) > boot]
        since = min((moment for moment in (*(one.started_at for one in runs), *formers) if moment), default=None)
        if since is not None and since >= boot:
            return _Plugin(pod, pod.created_at or pod.start_time, since, again=bool(formers))
    return None


def _boot(seen: Collected) -> float | None:
    """Unix time; None where the kernel does not tell, or nothing that can be."""
    uptime = seen.host.uptime
    return seen.facts.wall - uptime if uptime is not None and 0 <= uptime < _CENTURY else None


def _early(seen: Collected, one: ContainerFacts, plugin: _Plugin) -> bool:
    """It was started in this boot, before the plugin was, and holds no GPU.

    A start before the boot is one by a clock that was not set yet, if a process of it runs now.
    """
    boot, holders = _boot(seen), seen.host.holders
    asks = any(plugins.is_device(key) and amount for key, amount in one.requests.items())
    if not asks or one.kind in ("init", "ephemeral") or one.started_at is None or boot is None:
        return False
    if plugin.made is None or plugin.made >= max(one.started_at, boot):
        return False  # an update: another plugin was there before
    if one.started_at >= plugin.since or (one.started_at < boot and one.container_id not in holders.seen):
        return False
    return not any(holder.container_id == one.container_id for holder in holders.processes)


def _of_pod(seen: Collected, pod: PodFacts, early: Sequence[ContainerFacts], plugin: _Plugin) -> Iterator[Finding]:
    view = seen.view(pod)
    if view is not None and view.use.seen:
        return
    holders, boot = seen.host.holders, _boot(seen) or 0.0
    known = all(one.container_id in holders.seen and one.container_id not in holders.closed for one in early)
    # A plugin whose pod is younger than the boot may have followed another one: an update.
    same = plugin.made is not None and plugin.made < boot and not plugin.again
    names = ", ".join(one.name for one in early)
    yield RULE.finding(
        pod_subject(pod),
        f"Container {names} was started before the device plugin was back after the boot, and "
        + ("holds no GPU." if known else "may run without its GPU: whether it holds one is not known."),
        evidence=(
            # To the minute: it is a difference, and would be another one each time.
            f"/proc/uptime: booted at about {_clock(boot)[:_MINUTE]}Z",
            *(f"container {one.name} startedAt: {_clock(one.started_at or 0.0)}" for one in early),
            f"{pod_subject(plugin.pod)} (device plugin) startedAt: {_clock(plugin.since)}",
            *((f"/proc/*/fd of container {names}: no GPU device node",) if known else ()),
        ),
        remedy=_anew(pod),
        certainty="certain" if known and same else "suspected",
        pod=pod,
    )


def _failed(seen: Collected, bound: Sequence[PodFacts]) -> Iterator[Finding]:
    found = [
        pod for pod in bound if pod.phase == "Failed" and pod.told[0] == REFUSED and _for_gpu(pod) and plugins.asks(pod)
    ]
    if not found:
        return
    found.sort(key=lambda pod: pod.key)
    alone = [pod for pod in found if pod.owner is None]
    named = ", ".join(pod.key for pod in alone[:_MOST_NAMED]) + (" and others" if len(alone) > _MOST_NAMED else "")
    told = found[:_MOST_TOLD]
    more = len(found) - len(told)
    yield RULE.finding(
        seen.node_subject,
        # No number, and no names that a controller makes: every other one would be another event.
        "Pods failed because the device plugin had no GPU for them when the kubelet was to start them."
        + (f" Nobody makes {named} anew." if alone else ""),
        evidence=(
            f"pods with status.reason {REFUSED}: {len(found)}",
            *(f"{pod_subject(pod)} status.reason: {' '.join(filter(None, pod.told))}" for pod in told),
            *((f"and {more} more",) if more else ()),
        ),
        remedy="They are not started again, and hold nothing. Take them away, and make anew those without a "
        "controller:\n"
        + "\n".join(f"kubectl -n {quote(pod.namespace)} delete pod {quote(pod.name)}" for pod in told)
        + (f"\n# and {more} more: kubectl get pods -A --field-selector status.phase=Failed" if more else ""),
        severity="warning" if alone else "info",
    )


def _for_gpu(pod: PodFacts) -> bool:
    """The kubelet names the resource, if its message is known."""
    return not pod.told[1] or "nvidia.com/" in pod.told[1]


def _anew(pod: PodFacts) -> str:
    end = f"kubectl -n {quote(pod.namespace)} delete pod {quote(pod.name)}"
    if pod.owner is None:
        return (
            "Make the pod anew; nobody else does:\n"
            f"kubectl -n {quote(pod.namespace)} get pod {quote(pod.name)} -o yaml | kubectl replace --force -f -"
        )
    return f"Have the pod made anew, by its {pod.owner[0]}:\n{end}"


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


RULE = Rule(
    id="started-before-device-plugin",
    title="Started before the device plugin was back",
    severity="warning",
    looks_at="uptime, and when the containers that ask for `nvidia.com/gpu` and the device plugin's own were started; "
    "GPU device nodes that their processes hold open. A plugin that was only updated or started again later is none of "
    "this. Pods that failed with `UnexpectedAdmissionError` are counted, and not evicted",
    matters="After a power cut the kubelet starts what was there before, in no order (kubernetes/kubernetes#116125, "
    "#118559). A pod that comes before the plugin runs without its GPU until somebody makes it anew, or fails.",
    remedy="Delete the pod, so that its controller makes another one.",
    look=look,
)
RULES = (RULE,)
