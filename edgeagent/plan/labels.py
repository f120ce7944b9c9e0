"""Node labels: what they say, how a value is made valid, and which must not be touched while a pod needs them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from edgeagent.facts import PREFIX
from edgeagent.memory.devices import apart
from edgeagent.plan.types import GpuPath
from edgeagent.quantity import MIB

if TYPE_CHECKING:
    from edgeagent.config import Labels
    from edgeagent.facts import PodFacts, RuntimeFacts
    from edgeagent.memory.types import Board

AI_CAPABLE = "ai-capable"
KIND = PREFIX + "gpu.kind"
_NAMES = (
    "gpu.kind",
    "gpu.count",
    "gpu.product",
    "gpu.memory-mib",
    "memory.unified",
    "driver.version",
    "cuda.version",
    "cuda.arch",
    "jetson.soc",
    "jetson.module",
    "jetson.l4t",
    "jetson.jetpack",
    "jetson.power-mode",
)
DESCRIBED = tuple(PREFIX + name for name in _NAMES)
"""The labels that describe a board with a GPU."""
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

    ``memory_bytes`` is the total of the pool behind ``gpu-memory``; cards have their own together, lost or not, and
    however they are shared out into pools.
    """
    if board.kind == "unknown":
        return {}
    if board.kind == "none":
        return {KIND: "none"}
    cards = [device.total_bytes for device in apart(board.devices) if device.total_bytes is not None]
    memory_bytes = sum(cards) if cards else memory_bytes
    texts = (
        board.kind,
        str(len(board.devices)),
        board.product,
        str(memory_bytes // MIB) if memory_bytes is not None else None,
        "true" if board.unified else "false",
        board.driver_version,
        board.cuda_version,
        board.cuda_arch,
        board.soc,
        board.module,
        board.l4t,
        board.jetpack,
        board.power_mode,
    )
    return {key: valid for key, text in zip(DESCRIBED, texts, strict=True) if (valid := value(text))}


def ai_key(settings: Labels) -> str | None:
    """The key that says the GPU path works; None when it is switched off."""
    if settings.ai_capable is True:
        return AI_CAPABLE
    return settings.ai_capable or None


def gpu_path(board: Board, runtime: RuntimeFacts, *, gpu_seen: bool) -> bool | None:
    """Whether a device is well and a container can reach it; None: not proven, and not disproven either.

    A container reaches it where a runtime that exists is configured, or a pod was seen using it.
    """
    return reasoned(board, runtime, gpu_seen=gpu_seen).proven


def reasoned(board: Board, runtime: RuntimeFacts, *, gpu_seen: bool) -> GpuPath:
    """As ``gpu_path``, with the reason."""
    if board.kind == "none":
        return GpuPath(proven=False, why="No NVIDIA GPU was found on this board.")
    healths = {device.health for device in board.devices}
    if not healths and not board.readable:
        return GpuPath(None, "Which GPUs there are cannot be told: the driver does not answer.")
    if "ok" not in healths:
        told = ", ".join(sorted(healths)) or "there is none"
        return GpuPath(None if healths & {"unknown", "asleep"} else False, f"No GPU is well: {told}.")
    return _reached(runtime, gpu_seen=gpu_seen)


def _reached(runtime: RuntimeFacts, *, gpu_seen: bool) -> GpuPath:
    """Whether a container can reach a device that is well."""
    installed = sorted(name for name, (_, exists) in runtime.nvidia.items() if exists)
    if installed:
        return GpuPath(proven=True, why=f"{runtime.path} names the runtime {installed[0]}, whose binary exists.")
    if gpu_seen:
        return GpuPath(proven=True, why="A pod was seen using the GPU since the board started.")
    if not runtime.readable:
        return GpuPath(None, f"{runtime.path} is not readable, and no pod was seen using the GPU.")
    gone = sorted(binary or name for name, (binary, _) in runtime.nvidia.items())
    lack = f"names {', '.join(gone)}, which does not exist" if gone else "names no NVIDIA runtime"
    return GpuPath(proven=False, why=f"{runtime.path} {lack}, and no pod was seen using the GPU.")


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


def excluded(pods: Iterable[PodFacts]) -> frozenset[str]:
    """Label keys that an admitted live pod wants not to be there: adding one would stop it as removing others would."""
    return frozenset(key for pod in pods if pod.admitted for key in pod.excluded_labels)


def guard(
    wanted: Mapping[str, str],
    present: Mapping[str, str],
    owned: Iterable[str],
    needs: Mapping[str, list[str]],
    unwanted: Collection[str] = (),
) -> dict[str, str]:
    """``wanted``, but a label that we own or would set stays as it is while a pod requires it.

    ``unwanted``: keys that a pod wants not to be there.
    """
    kept = {key: present[key] for key in (*owned, *wanted) if key in present and key in needs}
    return {**{key: text for key, text in wanted.items() if key in present or key not in unwanted}, **kept}
