"""What a pod may use: the limit of our resource, else our annotation, else others' keys, else the default."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.facts import PREFIX, MemoryKind
from edgeagent.memory import requests
from edgeagent.memory.types import Budget, BudgetProblem, BudgetSource
from edgeagent.quantity import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from edgeagent.config import Policy
    from edgeagent.facts import PodFacts

LIMIT_ANNOTATION = PREFIX + "gpu-memory-limit"

# Keys of other projects that say how much GPU memory a pod means to use, with their units.
# kube-share and KAI's container annotation are Kubernetes quantities; HAMi, volcano and KAI's
# pod annotation count MiB; gpu-manager counts 256 MiB; aliyun's unit is set by its operator.
_CONTAINER_ANNOTATION = re.compile(r"nvidia\.com/container\.(?P<name>.+)\.gpu-memory\.limit")
_ANNOTATIONS: dict[str, Callable[[str], int]] = {
    "gpu-memory": lambda text: int(text) * MIB,
    "tensor-fusion.ai/vram-limit": quantity.amount,
}
_RESOURCES = {
    "kube-share/gpu-mem": 1,
    "nvidia.com/gpumem": MIB,
    "volcano.sh/gpu-memory": MIB,
    "volcano.sh/vgpu-memory": MIB,
    "tencent.com/vcuda-memory": 256 * MIB,
}
_EACH = {"nvidia.com/gpumem": "nvidia.com/gpu", "volcano.sh/vgpu-memory": "volcano.sh/vgpu-number"}
"""Figures that count for each of the virtual GPUs that a container asks for (README of HAMi and of volcano's vGPU)."""
_SLICES = re.compile(r"nvidia\.com/gpu-(\d+)gb")


def budget(pod: PodFacts, resource: str, kind: MemoryKind, policy: Policy, *, primary: bool) -> Budget:
    """What ``pod`` may use of the pool behind ``resource``.

    ``primary`` is the node's ``gpu-memory`` pool: annotations, others' keys and the default
    budget, which name no pool, count there.
    """
    problems = [
        BudgetProblem("BudgetInvalid", f"{text} is ignored: it is no amount")
        for text in (pod.unparsable if primary else ())
    ]
    gpu: int | None = None
    source: BudgetSource = "none"
    key = ""
    if any(resource in container.limits for container in pod.containers):
        gpu, source, key = requests.total(pod, resource, "limits"), "limit", resource
    elif primary:
        gpu, source, key = _named_elsewhere(pod, policy, problems)
    bare = _bare(pod, resource, gpu, source)
    if bare is not None:
        problems.append(BudgetProblem("UnderRequested", _missing_suffix(key, bare)))
        gpu, source, key = None, "none", ""
    pod_gpu = gpu if source in ("annotation", "foreign") else None
    unified = kind == "unified"
    if unified and gpu is not None:
        problems += _small_memory(pod, resource, pod_gpu)
    limited = unified and gpu is not None and requests.memory_limited(pod)
    return Budget(
        gpu=gpu,
        source=source,
        key=key,
        gpu_request=requests.total(pod, resource, "requests"),
        host_request=requests.host_parts(pod, resource, pod_gpu, "requests") if unified else 0,
        total=gpu + requests.host_parts(pod, resource, pod_gpu, "limits") if limited and gpu is not None else None,
        problems=tuple(problems),
    )


def _named_elsewhere(
    pod: PodFacts, policy: Policy, problems: list[BudgetProblem]
) -> tuple[int | None, BudgetSource, str]:
    own = pod.annotations.get(LIMIT_ANNOTATION)
    if own is not None:
        try:
            return quantity.amount(own), "annotation", LIMIT_ANNOTATION
        except ValueError as error:
            problems.append(BudgetProblem("BudgetInvalid", f"annotation {LIMIT_ANNOTATION} is ignored: {error}"))
    for key, amount in _foreign(pod, policy, problems):
        return amount, "foreign", key
    if policy.default_budget is not None:
        return policy.default_budget, "default", "policy.default_budget"
    return None, "none", ""


def _foreign(pod: PodFacts, policy: Policy, problems: list[BudgetProblem]) -> Iterator[tuple[str, int]]:
    containers = {key: text for key, text in pod.annotations.items() if _CONTAINER_ANNOTATION.fullmatch(key)}
    parsed = [(key, _parsed(key, text, quantity.amount, problems)) for key, text in sorted(containers.items())]
    if parsed and all(amount is not None for _, amount in parsed):
        yield parsed[0][0], sum(amount or 0 for _, amount in parsed)
    limited = {key for container in pod.containers for key in container.limits}
    for key, unit in (_RESOURCES | {"aliyun.com/gpu-mem": GIB if policy.aliyun_unit == "Gi" else MIB}).items():
        if key in limited and (amount := requests.total(pod, key, "limits")):
            yield key, (_times(pod, key, _EACH[key]) if key in _EACH else amount) * unit
    for key in sorted(limited):
        slices = _SLICES.fullmatch(key)
        if slices:
            count = requests.total(pod, key, "limits")
            if count:
                yield key, count * int(slices[1]) * 10**9
    for key, parse in _ANNOTATIONS.items():
        if key in pod.annotations:
            found = _parsed(key, pod.annotations[key], parse, problems)
            if found is not None:
                yield key, found


def _times(pod: PodFacts, key: str, count: str) -> int:
    """Σ of the figures of ``key``, each as often as its container asks for ``count``, at least once."""
    return requests.effective(pod, lambda one: one.limits.get(key, 0) * max(1, one.limits.get(count, 1)))


def _parsed(key: str, text: str, parse: Callable[[str], int], problems: list[BudgetProblem]) -> int | None:
    try:
        return _positive(parse(text))
    except ValueError as error:
        problems.append(BudgetProblem("BudgetInvalid", f"annotation {key}: {text!r} is ignored: {error}"))
        return None


def _positive(amount: int) -> int:
    if amount < 0:
        raise ValueError("a budget cannot be below 0")
    return amount


def _bare(pod: PodFacts, resource: str, gpu: int | None, source: BudgetSource) -> int | None:
    """A figure above 0 and below 1 MiB, as it stands when its suffix was forgotten; None when there is none.

    Limits are looked at one by one: a sum over containers would hide it.
    """
    limits = [container.limits[resource] for container in pod.containers if resource in container.limits]
    figures = limits if source == "limit" else [] if gpu is None or source == "default" else [gpu]
    return next((figure for figure in figures if 0 < figure < MIB), None)


def likely(figure: int) -> str:
    """The suffix that was forgotten: it makes an amount of memory of real boards' size of a figure below 1 MiB."""
    # Up to 128 as GiB, up to 128 Gi as MiB.
    return next((unit for most, unit in ((128, "Gi"), (128 * 1024, "Mi")) if figure <= most), "Ki")


def _missing_suffix(resource: str, limit: int) -> str:
    return (
        f"{resource}: {limit} means {limit} bytes, so the pod has no budget; "
        f"{limit}{likely(limit)} was probably meant. Write the suffix in requests and limits."
    )


def _small_memory(pod: PodFacts, resource: str, pod_gpu: int | None) -> list[BudgetProblem]:
    names = requests.under_requested(pod, resource, pod_gpu)
    if not names:
        return []
    return [
        BudgetProblem(
            "UnderRequested",
            f"On this board CPU and GPU share one memory. The memory request of {', '.join(names)} is smaller than "
            f"its GPU memory and 256Mi, so it counts beside it. "
            "Request the whole-board figure: GPU and host memory together.",
        )
    ]
