"""Node labels: what they say, how a value is made valid, and which must not be touched while a pod needs them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from edgeagent.facts import PREFIX
from edgeagent.quantity import MIB

if TYPE_CHECKING:
    from edgeagent.config import Labels
    from edgeagent.facts import PodFacts, RuntimeFacts
    from edgeagent.memory.types import Board

AI_CAPABLE = "ai-capable"
_LONGEST = 63
_INVALID = re.compile(r"[^A-Za-z0-9_.]+")
_EDGES = "-_."


def value(text: str | None) -> str | None:
    """``text`` as a label value: at most 63 characters, alphanumeric at both ends; None if nothing valid is left.

    One invalid value makes the API server refuse the whole patch, capacity included.
    """
    cleaned = _INVALID.sub("-", text or "").strip(_EDGES)[:_LONGEST].strip(_EDGES)
    return cleaned or None


def describe(board: Board, memory_bytes: int | None) -> dict[str, str]:
    """The labels that describe ``board``; only its kind on a node without a GPU, none while the kind is unknown.

    ``memory_bytes`` is the static total of the pool behind ``gpu-memory``.
    """
    if board.kind == "unknown":
        return {}
    if board.kind == "none":
        return {PREFIX + "gpu.kind": "none"}
    texts = {
        "gpu.kind": board.kind,
        "gpu.count": str(len(board.devices)),
        "gpu.product": board.product,
        "gpu.memory-mib": str(memory_bytes // MIB) if memory_bytes is not None else None,
        "memory.unified": "true" if board.unified else "false",
        "driver.version": board.driver_version,
        "cuda.version": board.cuda_version,
        "cuda.arch": board.cuda_arch,
        "jetson.soc": board.soc,
        "jetson.module": board.module,
        "jetson.l4t": board.l4t,
        "jetson.jetpack": board.jetpack,
    }
    return {PREFIX + name: valid for name, text in texts.items() if (valid := value(text))}


def ai_key(settings: Labels) -> str | None:
    """The key that says the GPU path works; None when it is switched off."""
    if settings.ai_capable is True:
        return AI_CAPABLE
    return settings.ai_capable or None


def gpu_path_proven(board: Board, runtime: RuntimeFacts, *, gpu_seen: bool) -> bool:
    """A device is well, and a container can reach it: a runtime that exists is configured, or a pod was seen using it."""
    configured = any(exists for _, exists in runtime.nvidia.values())
    return any(device.health == "ok" for device in board.devices) and (configured or gpu_seen)


def required(pods: Iterable[PodFacts]) -> dict[str, list[str]]:
    """Label keys that admitted live pods require, with the pods that do.

    A restarted kubelet checks node selectors of running pods again and stops those that no
    longer match, without a disruption budget.
    """
    needs: dict[str, list[str]] = {}
    for pod in pods:
        if pod.admitted:
            for key in pod.required_labels:
                needs.setdefault(key, []).append(pod.key)
    return needs


def guard(wanted: Mapping[str, str], present: Mapping[str, str], owned: Iterable[str], needs: Mapping[str, list[str]]) -> dict[str, str]:
    """``wanted``, but a label of ours that is on the node and that a pod requires keeps its present value."""
    kept = {key: present[key] for key in owned if key in present and key in needs}
    return {**wanted, **kept}
