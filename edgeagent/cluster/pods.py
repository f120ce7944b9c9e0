"""A v1 Pod, reduced to what decisions need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from edgeagent import quantity
from edgeagent.cluster import accounts, injection, objects
from edgeagent.cluster.placement import placement
from edgeagent.facts import PREFIX, ContainerFacts, ContainerKind, Placement, PodFacts

_KEPT_ANNOTATIONS = (
    PREFIX,
    # Devices by their CDI name, for containerd itself (cdi.k8s.io/) and for NVIDIA's NRI plug-in.
    "cdi.k8s.io/",
    "nvidia.cdi.k8s.io/",
    # How other ways of sharing a GPU say what a pod needs; read, never written.
    "nvidia.com/",
    "gpu-fraction",
    "gpu-memory",
    "hami.io/",
    "kube-share/",
    "kubeshare/",
    "mps",
    "runai/",
    "sharedgpu/",
    "tensor-fusion.ai/",
)
VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
_MIRROR = "kubernetes.io/config.mirror"
_CONFIG_HASH = "kubernetes.io/config.hash"
_DEFAULT_GRACE = 30
_EXCLUDING = ("NotIn", "DoesNotExist")
"""Operators that a label can fail by being there."""

_KINDS: tuple[tuple[str, str, ContainerKind], ...] = (
    ("initContainers", "initContainerStatuses", "init"),
    ("containers", "containerStatuses", "regular"),
    ("ephemeralContainers", "ephemeralContainerStatuses", "ephemeral"),
)


def parse(obj: Mapping[str, Any]) -> PodFacts:
    """The facts of one pod, as the API server or a recording has it.

    Raises:
        ObjectError: its shape is not that of a pod.
    """
    return objects.read("pod", obj, _pod)


def _pod(obj: Mapping[str, Any]) -> PodFacts:
    metadata, spec, status = obj["metadata"], obj["spec"], objects.mapping(obj.get("status"))
    annotations = objects.strings(metadata.get("annotations"))
    uid = objects.text(metadata["uid"])
    mirror = _MIRROR in annotations
    containers = tuple(_containers(spec, status))
    requests, limits = _pod_level(spec, status, containers)
    expressions = dict(_expressions(spec))
    grace = spec.get("terminationGracePeriodSeconds")
    return PodFacts(
        namespace=objects.text(metadata["namespace"]),
        name=objects.text(metadata["name"]),
        uid=uid,
        phase=status.get("phase") or "Pending",
        # The kubelet names the cgroup of a static pod after the hash of its manifest, and the
        # mirror object's own uid stands nowhere on the node.
        config_hash=annotations.get(_CONFIG_HASH) if mirror else None,
        start_time=objects.unix_time(status.get("startTime")),
        created_at=objects.unix_time(metadata.get("creationTimestamp")),
        terminating=metadata.get("deletionTimestamp") is not None,
        grace_seconds=_DEFAULT_GRACE if grace is None else int(grace),
        priority=int(spec.get("priority") or 0),
        owner=_owner(metadata),
        mirror=mirror,
        ip=status.get("podIP") or None,
        annotations={key: text for key, text in annotations.items() if key.startswith(_KEPT_ANNOTATIONS)},
        required_labels=frozenset((*objects.strings(spec.get("nodeSelector")), *expressions)),
        excluded_labels=frozenset(key for key, operator in expressions.items() if operator in _EXCLUDING),
        unparsable=tuple(_unparsable(spec)),
        containers=containers,
        pod_requests=requests,
        pod_limits=limits,
        overhead=_amounts(spec.get("overhead")),
        runtime_class=spec.get("runtimeClassName") or None,
        groups=objects.lenient(lambda: accounts.groups(spec), ()),
        strict_groups=objects.lenient(lambda: accounts.strict(spec), default=False),
        placement=objects.lenient(lambda: placement(spec), Placement()),
        told=(str(status.get("reason") or ""), str(status.get("message") or "")),
        unschedulable=objects.lenient(lambda: _unschedulable(status), None),
    )


def _containers(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[ContainerFacts]:
    for listed, reported, kind in _KINDS:
        # By name: statuses stand in another order than the containers they belong to.
        statuses = {state["name"]: state for state in objects.sequence(status.get(reported))}
        for container in objects.sequence(spec.get(listed)):
            sidecar = kind == "init" and container.get("restartPolicy") == "Always"
            found = _container(container, statuses.get(container["name"], {}), "sidecar" if sidecar else kind)
            none: tuple[str, ...] = ()
            unsaid: tuple[int | None, int | None] = (None, None)
            user, group = objects.lenient(partial(accounts.ids, spec, container), unsaid)
            ways = objects.lenient(partial(injection.ways, spec, container), none)
            yield replace(found, other_ways=ways, user=user, group=group)


def _container(container: Mapping[str, Any], state: Mapping[str, Any], kind: ContainerKind) -> ContainerFacts:
    wanted = objects.mapping(container.get("resources"))
    actual = objects.mapping(state.get("resources"))
    limits = _amounts(wanted.get("limits"))
    # The API server fills in a missing request from the limit; manifests and recordings may not have passed it.
    requests = {**limits, **_amounts(wanted.get("requests"))}
    running = objects.mapping(objects.mapping(state.get("state")).get("running"))
    former = objects.mapping(objects.mapping(state.get("lastState")).get("terminated"))
    return ContainerFacts(
        name=objects.text(container["name"]),
        kind=kind,
        # While a resize is under way the larger figure is what the scheduler and the kubelet count.
        requests=_larger(requests, _amounts(actual.get("requests")), _amounts(state.get("allocatedResources"))),
        limits=_larger(limits, _amounts(actual.get("limits"))),
        container_id=_id(state),
        former_id=_id(former),
        started_at=objects.unix_time(running.get("startedAt")),
        former_started_at=objects.unix_time(former.get("startedAt")),
        image=str(container.get("image") or ""),
        visible_devices=objects.lenient(lambda: _visible_devices(container), None),
        waiting=objects.lenient(lambda: _waiting(state), None),
        ended=objects.lenient(lambda: _ended(state), None),
        restarts=objects.lenient(lambda: int(state.get("restartCount") or 0), 0),
    )


def _visible_devices(container: Mapping[str, Any]) -> str | None:
    """What the manifest sets the variable to that tells NVIDIA's runtime which GPUs a container gets."""
    named = (one for one in objects.sequence(container.get("env")) if one.get("name") == VISIBLE_DEVICES)
    return next((str(one.get("value") or "") for one in named if one.get("valueFrom") is None), None)


def _waiting(state: Mapping[str, Any]) -> tuple[str, str] | None:
    found = objects.mapping(objects.mapping(state.get("state")).get("waiting"))
    return (str(found.get("reason") or ""), str(found.get("message") or "")) if found else None


def _ended(state: Mapping[str, Any]) -> tuple[str, int, str] | None:
    """How it ended, or the run before this one did."""
    for which in ("state", "lastState"):
        found = objects.mapping(objects.mapping(state.get(which)).get("terminated"))
        if found:
            return str(found.get("reason") or ""), int(found.get("exitCode") or 0), str(found.get("message") or "")
    return None


def _unschedulable(status: Mapping[str, Any]) -> str | None:
    for condition in map(objects.mapping, objects.sequence(status.get("conditions"))):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return None


def _id(state: Mapping[str, Any]) -> str | None:
    return str(state.get("containerID") or "").rpartition("://")[2] or None


def _pod_level(
    spec: Mapping[str, Any], status: Mapping[str, Any], containers: tuple[ContainerFacts, ...]
) -> tuple[dict[str, int], dict[str, int]]:
    """Requests and limits of the pod as a whole.

    A request that is missing is the containers' sum if any of them has one, else the limit.
    """
    wanted = objects.mapping(spec.get("resources"))
    actual = objects.mapping(status.get("resources"))
    limits = _amounts(wanted.get("limits"))
    summed = {key for container in containers for key in container.requests}
    requests = {key: amount for key, amount in limits.items() if key not in summed} | _amounts(wanted.get("requests"))
    # The status carries sums for pods without pod-level resources too: those are not the pod's own figures.
    allocated = _larger(_amounts(actual.get("requests")), _amounts(status.get("allocatedResources")))
    return (
        _larger(requests, {key: amount for key, amount in allocated.items() if key in requests}),
        _larger(limits, {key: amount for key, amount in _amounts(actual.get("limits")).items() if key in limits}),
    )


def _amounts(resources: Any) -> dict[str, int]:
    """Memory and every resource with a domain, in bytes or units; cpu and the like decide nothing here."""
    parsed = ((key, _amount(given)) for key, given in objects.mapping(resources).items() if _counts(key))
    return {key: amount for key, amount in parsed if amount is not None}


def _counts(key: str) -> bool:
    return key == "memory" or "/" in key


def _amount(given: Any) -> int | None:
    """The number that a quantity stands for; None for what is no quantity, or below 0, which no server accepts."""
    try:
        amount = quantity.parse(given)
    except ValueError:
        return None
    return amount if amount >= 0 else None


def _unparsable(spec: Mapping[str, Any]) -> Iterator[str]:
    """Amounts in the manifest that say nothing."""
    for listed, _, _ in _KINDS:
        for container in objects.sequence(spec.get(listed)):
            for side in ("requests", "limits"):
                for key, given in objects.mapping(objects.mapping(container.get("resources")).get(side)).items():
                    if _counts(key) and _amount(given) is None:
                        yield f"{key}: {given}"


def _larger(*amounts: Mapping[str, int]) -> dict[str, int]:
    keys = {key: None for each in amounts for key in each}
    return {key: max(each[key] for each in amounts if key in each) for key in keys}


def _owner(metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    for reference in objects.sequence(metadata.get("ownerReferences")):
        if reference.get("controller"):
            return objects.text(reference["kind"]), objects.text(reference["name"])
    return None


def _expressions(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Label keys of the required node affinity, each with its operator."""
    affinity = objects.mapping(objects.mapping(spec.get("affinity")).get("nodeAffinity"))
    required = objects.mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    for term in objects.sequence(required.get("nodeSelectorTerms")):
        for expression in objects.sequence(term.get("matchExpressions")):
            yield objects.text(expression["key"]), str(expression.get("operator") or "")
