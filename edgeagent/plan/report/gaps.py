"""What is not known, why, and what would make it known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeagent.facts import Facts, HostFacts
    from edgeagent.plan.types import Plan

_AS_ROOT = "run it as root: sudo edgeagent explain"
_ON_THE_BOARD = "on the board itself, as root: sudo edgeagent explain"
_AGAIN = "record again on the board itself, as root: sudo edgeagent record DIR"
_DEBUGFS = "as root, with debugfs mounted: mount -t debugfs none /sys/kernel/debug"
_DRIVER = "install the driver's user space: libnvidia-ml.so.1 on the loader path"


@dataclass(frozen=True, slots=True)
class Gap:
    """One thing that is not known."""

    what: str
    why: str
    remedy: str
    """What would make it known; empty where nothing is known to."""


def gaps(plan: Plan, facts: Facts, *, recorded: bool) -> Iterator[Gap]:
    """Every gap, the widest first. ``recorded``: the facts come from a snapshot, which cannot be asked again."""
    yield from _cluster(plan, facts, recorded=recorded)
    for gap in (*_board(plan, facts), *_memory(facts), *_pods(plan, facts)):
        yield replace(gap, remedy=_when_recording(gap.remedy)) if recorded and gap.remedy else gap


def _when_recording(remedy: str) -> str:
    return _AGAIN if remedy in (_AS_ROOT, _ON_THE_BOARD) else f"when recording: {remedy}"


def _board(plan: Plan, facts: Facts) -> Iterator[Gap]:
    nvml = facts.host.nvml
    driverless = plan.board.kind in ("none", "jetson")
    if nvml.value is None:
        yield Gap("NVML", nvml.why or "no answer", "see whether nvidia-smi answers, and dmesg for Xid errors")
    elif nvml.value.library == "absent" and not driverless:
        yield Gap("NVML", "there is no NVML library", _DRIVER)
    elif nvml.value.library == "present" and nvml.value.init != 0:
        yield Gap("NVML", f"nvmlInit answered {nvml.value.init}", "nvidia-smi says more; often a reboot is due")
    for device in plan.board.devices:
        answered = nvml.value is not None and nvml.value.library == "present" and nvml.value.init == 0
        if answered and device.memory == "discrete" and device.total_bytes is None:
            yield Gap(f"size of {device.name}", device.why or "NVML did not tell it", "")
    yield from _attribution(plan, facts)


def _attribution(plan: Plan, facts: Facts) -> Iterator[Gap]:
    """Who holds GPU memory."""
    if plan.usage.trusted or not plan.pools:
        return
    host = facts.host
    why = "; ".join(plan.usage.problems)
    if host.files.wsl:
        remedy = ""  # the processes are those of Windows
    elif not host.host_view:
        remedy = "share the host's process table: hostPID: true, or --host-root where the host's /proc is"
    elif any(device.tegra for device in plan.board.devices):
        remedy = _of_nvmap(host)
    else:
        remedy = "a driver whose NVML lists processes"
    yield Gap("who holds GPU memory", why, remedy)


def _of_nvmap(host: HostFacts) -> str:
    """What would make a Tegra's holders known. Only a refusal proves that the reader is not root."""
    if "ermission" in host.nvmap.why:
        return _AS_ROOT
    return _ON_THE_BOARD if host.nvmap.value is not None or not host.files.nvmap else _DEBUGFS


def _memory(facts: Facts) -> Iterator[Gap]:
    host = facts.host
    if host.meminfo.value is None:
        yield Gap("the board's memory", host.meminfo.why, "/proc/meminfo, below --host-root")
    elif host.meminfo.value.available is None:
        yield Gap("usable memory", "/proc/meminfo has no plausible MemAvailable", "")
    for problem in host.kubelet.problems:
        yield Gap("settings of K3s or the kubelet", problem, _AS_ROOT if "ermission" in problem else "")


def _cluster(plan: Plan, facts: Facts, *, recorded: bool) -> Iterator[Gap]:
    if not plan.listed:
        yield Gap(
            "the pods of this node",
            "no cluster was asked; the figures are those of an empty board",
            _add("pods") if recorded else "give --kubeconfig FILE",
        )
    elif facts.cluster is not None and facts.cluster.node is None:
        yield Gap("what the node carries now", "its object is not there", _add("node") if recorded else "")


def _add(name: str) -> str:
    return f"record again with --kubeconfig FILE, or add cluster/{name}.json to the snapshot"


def _pods(plan: Plan, facts: Facts) -> Iterator[Gap]:
    hidden = [view.pod.key for view in plan.pods if view.use.host is None]
    if hidden:
        why = f"no cgroup was found of {', '.join(hidden[:2])}" + (
            f" and {len(hidden) - 2} more" if len(hidden) > 2 else ""  # noqa: PLR2004 (as many are named)
        )
        yield Gap("host memory of pods", why, "on the node itself: /sys/fs/cgroup, below --host-root")
    if plan.board.kind not in ("none", "unknown") and not facts.host.runtime.readable:
        yield Gap(
            "whether containers get the GPU",
            f"{facts.host.runtime.path} is not there or not readable",
            "as root on the node itself; a pod that is seen using the GPU proves it too",
        )
