"""Pods ask for GPUs by number, and nothing in the cluster hands them out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose import advice, plugins
from edgeagent.diagnose.rule import Rule

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import Finding, PodFacts

_QUESTION = "Whether the cluster has a device plugin for {}"


def look(seen: Collected) -> Iterator[Finding]:
    """Only where somebody asks: a pod that asks for memory of ours needs no device plugin."""
    node = seen.node
    if not seen.has_gpu or node is None or plugins.offered(node) or any(plugins.pods(seen.pods, seen.cluster)):
        return
    waiting = plugins.asking(pod for pod in seen.waiting if plugins.wanted_here(pod, node))
    running = plugins.asking(pod for pod in seen.pods if not _served(seen, pod))
    listed = seen.cluster.daemon_sets
    if listed.items is None:
        # Nobody may see who asks either, where unbound pods cannot be listed.
        if waiting or running or (listed.right and seen.cluster.waiting.items is None):
            yield RULE.cannot_tell(seen.node_subject, _QUESTION.format(_keys({**waiting, **running})), listed)
        return
    if plugins.sets(seen.cluster) or not (waiting or running):
        return
    sockets = plugins.sockets(seen.host.plugin_sockets or ())
    follows = (
        f"{', '.join(waiting)} cannot be scheduled" if waiting else f"{', '.join(running)} cannot be started again"
    )
    yield RULE.finding(
        seen.node_subject,
        f"Pods ask for {_keys({**waiting, **running})}, and no device plugin gives it out: {follows}.",
        evidence=(
            *plugins.told(node),
            "daemonsets: none is a device plugin for NVIDIA's GPUs",
            *(f"pod {key} asks for {asked}" for key, asked in {**waiting, **running}.items()),
            *(f"/var/lib/kubelet/device-plugins/{name} is there" for name in sockets),
        ),
        remedy=_remedy(seen, next(pod for pod in seen.everyone() if pod.key in {**waiting, **running})),
        severity="error" if waiting else "warning",
        # A socket is one that was not removed, or of a plugin that runs in no pod.
        certainty="suspected" if sockets else "certain",
    )


def across(seen: ClusterSeen) -> Iterator[Finding]:
    """Pods that wait for what no node offers, and no plugin in sight."""
    offers = {key for node in seen.nodes for key in plugins.offered(node)}
    lacking = {
        pod.key: asked
        for pod in seen.cluster.waiting.items or ()
        if not pod.terminating and plugins.asks(pod) and not offers
        for asked in plugins.asking([pod]).values()
    }
    everyone = (pod for bound in seen.bound.values() for pod in bound)
    if not lacking or any(plugins.pods(everyone, seen.cluster)) or plugins.sets(seen.cluster):
        return
    if seen.cluster.daemon_sets.items is None:
        yield RULE.cannot_tell("cluster", _QUESTION.format(_keys(lacking)), seen.cluster.daemon_sets)
        return
    yield RULE.finding(
        "cluster",
        f"Pods ask for {_keys(lacking)}, and no device plugin gives it out: {', '.join(lacking)} cannot be scheduled.",
        evidence=(
            "daemonsets: none is a device plugin for NVIDIA's GPUs",
            f"nodes: none of {len(seen.nodes)} offers any",
            *(f"pod {key} asks for {asked}" for key, asked in lacking.items()),
        ),
        remedy=_helm("nvidia"),
    )


def _served(seen: Collected, pod: PodFacts) -> bool:
    """It uses the GPU although the node never offered any: by DRA (KEP-5004) the key needs no plugin."""
    view = seen.view(pod)
    there = seen.node is not None and any(key in seen.node.allocatable for key in plugins.asks(pod))
    return pod.terminating or (view is not None and view.use.seen and not there)


def _keys(asking: dict[str, str]) -> str:
    keys = {part.rpartition(" ")[2] for asked in asking.values() for part in asked.split(", ")}
    return " and ".join(sorted(keys)) or plugins.KEY


def _remedy(seen: Collected, pod: PodFacts) -> str:
    named = advice.gpu_class(seen)
    label = f"kubectl label node {seen.node.name} nvidia.com/gpu.present=true\n" if seen.node else ""
    memory = f"Or ask for GPU memory, which needs no plugin:\n{advice.by_memory(seen, pod, '2Gi')}"
    if not seen.host.k3s:
        return f"Install NVIDIA's device plugin:\n{label}{_helm(named)}\n{memory}"
    chart = (
        "kubectl apply -f - <<'EOF'\n"
        "apiVersion: helm.cattle.io/v1\n"
        "kind: HelmChart\n"
        "metadata: {name: nvidia-device-plugin, namespace: kube-system}\n"
        "spec:\n"
        "  repo: https://nvidia.github.io/k8s-device-plugin\n"
        "  chart: nvidia-device-plugin\n"
        "  targetNamespace: nvidia-device-plugin\n"
        "  createNamespace: true\n" + (f"  set: {{runtimeClassName: {named}}}\n" if named else "") + "EOF"
    )
    return f"Install NVIDIA's device plugin, here by K3s' own Helm controller:\n{label}{chart}\n{memory}"


def _helm(named: str | None) -> str:
    return (
        "helm repo add nvdp https://nvidia.github.io/k8s-device-plugin && helm repo update\n"
        "helm upgrade -i nvdp nvdp/nvidia-device-plugin --namespace nvidia-device-plugin --create-namespace"
        + (f" --set runtimeClassName={named}" if named else "")
    )


RULE = Rule(
    id="device-plugin-missing",
    title="No device plugin",
    severity="error",
    looks_at="pods that ask for `nvidia.com/gpu` or its kind and may run here, `status.allocatable` of the node, all "
    "DaemonSets, this node's pods, and sockets in `/var/lib/kubelet/device-plugins`. A plugin is known by its image, "
    "its name or its labels, wherever it is installed. Told only where a pod asks",
    matters="Nothing but a device plugin makes `nvidia.com/gpu`. A pod that asks for it stays `Pending`; one that was "
    "started while there was a plugin is not started again.",
    remedy="Install NVIDIA's device plugin, or ask for `edgeagent.dev/gpu-memory`, which needs none: see the lines in "
    "the finding.",
    look=look,
    across=across,
)
RULES = (RULE,)
