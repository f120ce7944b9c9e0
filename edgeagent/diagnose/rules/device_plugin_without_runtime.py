"""The device plugin runs, or tries to, and has no GPU to give out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose import advice, plugins
from edgeagent.diagnose.collected import pod_subject
from edgeagent.diagnose.rule import Rule

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import ContainerFacts, Finding, PodFacts

PATIENCE = 60.0
"""Seconds that a plugin has to look for GPUs, and the kubelet to tell of them."""
_BACK_OFF = "CrashLoopBackOff"


def look(seen: Collected) -> Iterator[Finding]:
    """A plugin under another runtime than NVIDIA's."""
    used = seen.host.containerd
    for pod in _idle(seen):
        if used.problem:
            if pod.runtime_class is None:
                yield RULE.finding(
                    pod_subject(pod),
                    f"The device plugin gives out no GPU. It names no RuntimeClass, and whether the default runtime is "
                    f"NVIDIA's cannot be told: {used.problem}.",
                    evidence=(used.problem, *_evidence(seen, pod)),
                    remedy=_remedy(seen, pod),
                    severity="info",
                    certainty="cannot-tell",
                    pod=pod,
                )
        elif used.nvidia and _handler(seen, pod) not in (*used.nvidia, None):
            yield RULE.finding(
                pod_subject(pod),
                f"The device plugin runs under {_handler(seen, pod)}, not under NVIDIA's runtime, so it sees no GPU "
                "and gives out none.",
                evidence=(
                    f"spec.runtimeClassName: {pod.runtime_class or 'absent'}",
                    f"{used.path}: default {used.default or 'runc'}, runtimes {', '.join(sorted(used.runtimes))}",
                    *_evidence(seen, pod),
                ),
                remedy=_remedy(seen, pod),
                pod=pod,
            )


def blind(seen: Collected) -> Iterator[Finding]:
    """A plugin that has NVIDIA's runtime and finds no GPU all the same."""
    used = seen.host.containerd
    for pod in _idle(seen):
        if not used.problem and _handler(seen, pod) in used.nvidia:
            yield BLIND.finding(
                pod_subject(pod),
                "The device plugin runs under NVIDIA's runtime and gives out no GPU: it may be too old for this board, "
                "or fail at something that its log tells.",
                evidence=(
                    f"spec.runtimeClassName: {pod.runtime_class or 'absent'}",
                    *(f"image: {one.image}" for one in pod.containers if one.image),
                    *_evidence(seen, pod),
                ),
                remedy=f"See what it says, and update it if it does not know the board:\n{_log(pod)}",
                pod=pod,
            )


def across(seen: ClusterSeen) -> Iterator[Finding]:
    """By the API alone the default runtime is not known: a plugin that crashes without a class may lack one."""
    for node in seen.nodes:
        for pod in plugins.pods(seen.bound.get(node.name, ()), seen.cluster):
            if pod.runtime_class is None and not plugins.offered(node) and any(map(_crashes, pod.containers)):
                yield RULE.finding(
                    pod_subject(pod),
                    f"The device plugin ends again and again on node {node.name} and gives out no GPU. It names no "
                    "RuntimeClass: under runc it sees none.",
                    evidence=("spec.runtimeClassName: absent", *plugins.told(node), *_states(pod)),
                    remedy=_patch(pod, "nvidia"),
                    certainty="suspected",
                    pod=pod,
                )


def _idle(seen: Collected) -> Iterator[PodFacts]:
    """Plugins that have had time enough and give out nothing, on a board whose driver is well."""
    node, nvml = seen.node, seen.facts.host.nvml.value
    if not seen.has_gpu or node is None or plugins.offered(node) or not seen.host.containerd.pods:
        return
    if nvml and nvml.library == "present" and nvml.init:
        return
    for pod in plugins.pods(seen.pods, seen.cluster):
        if not pod.terminating and any(_had_time(one, seen.facts.wall) for one in pod.containers):
            yield pod


def _had_time(one: ContainerFacts, wall: float) -> bool:
    if one.kind == "init":
        return False
    return _crashes(one) or (one.started_at is not None and wall - one.started_at >= PATIENCE)


def _crashes(one: ContainerFacts) -> bool:
    waits = one.waiting is not None and one.waiting[0] == _BACK_OFF
    return one.kind != "init" and (waits or (one.ended is not None and one.started_at is None))


def _handler(seen: Collected, pod: PodFacts) -> str | None:
    """The runtime that its containers get; None where that is told elsewhere, or not known."""
    if pod.runtime_class is None:
        default = seen.host.containerd.default or "runc"
        return default if seen.host.containerd.has(default) else None
    classes = seen.cluster.runtime_classes.items
    if classes is None:
        return pod.runtime_class if pod.runtime_class in seen.host.containerd.runtimes else None
    handler = next((one.handler for one in classes if one.name == pod.runtime_class), None)
    return handler if handler and seen.host.containerd.has(handler) else None


def _evidence(seen: Collected, pod: PodFacts) -> tuple[str, ...]:
    return (*(plugins.told(seen.node) if seen.node else ()), *_states(pod))


def _states(pod: PodFacts) -> Iterator[str]:
    for one in pod.containers:
        if one.waiting:
            yield f"container {one.name} waits: {' '.join(one.waiting).strip()}"
        if one.ended:
            reason, code, message = one.ended
            yield f"container {one.name} ended: {reason}, exit code {code} {message}".strip()
        if one.started_at is not None:
            yield f"container {one.name} runs"


def _remedy(seen: Collected, pod: PodFacts) -> str:
    named = advice.gpu_class(seen) or "nvidia"
    classes = seen.cluster.runtime_classes.items
    make = ""
    if classes is not None and named not in {one.name for one in classes}:
        used = seen.host.containerd
        make = f"{advice.runtime_class(named, next(iter(used.nvidia), 'nvidia'))}\n"
    return f"{make}{_patch(pod, named)}"


def _patch(pod: PodFacts, named: str) -> str:
    if pod.owner is None or pod.owner[0] != "DaemonSet":
        return f"Add to the spec of {pod.key}, and make it anew:\nruntimeClassName: {named}"
    change = json.dumps({"spec": {"template": {"spec": {"runtimeClassName": named}}}})
    return (
        f"kubectl -n {pod.namespace} patch daemonset {pod.owner[1]} --type merge -p '{change}'\n"
        f"What a chart made it changes back; there it is the value runtimeClassName: {named}."
    )


def _log(pod: PodFacts) -> str:
    return f"kubectl -n {pod.namespace} logs {pod.name} --all-containers --tail 50"


RULE = Rule(
    id="device-plugin-without-runtime",
    title="The device plugin runs without NVIDIA's runtime",
    severity="error",
    looks_at="`spec.runtimeClassName` of the device plugin's pod, the handler of that class and the default runtime of "
    "containerd, where the node offers no `nvidia.com/gpu` although the pod crashes or has run for a minute. Not told "
    "while the driver fails or containerd has no NVIDIA runtime: that comes first",
    matters="The plugin looks for GPUs from inside its own container. Under runc it finds no library of the driver's, "
    "and ends again and again or waits without a word; a pod that runs proves nothing.",
    remedy="Give the plugin's pods the RuntimeClass, for instance:\n"
    "helm upgrade -i nvdp nvdp/nvidia-device-plugin -n nvidia-device-plugin --reuse-values "
    "--set runtimeClassName=nvidia",
    look=look,
    across=across,
)
BLIND = Rule(
    id="device-plugin-finds-no-gpu",
    title="The device plugin finds no GPU",
    severity="warning",
    looks_at="the same as `device-plugin-without-runtime`, where the pod does have NVIDIA's runtime",
    matters="Older plugins do not know newer boards: a Jetson needs 0.13 or later, and on a GB10, whose memory cannot "
    "be asked for, they end before 0.17.4 (NVIDIA/gpu-operator#1794).",
    remedy="Read the plugin's log, and update it.",
    look=blind,
    certain=False,
    event="DevicePluginFindsNoGPU",
)
RULES = (RULE, BLIND)
