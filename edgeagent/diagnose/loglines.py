"""Lines of containers' logs that say why there is no GPU, as CUDA, NVML, L4T and frameworks write them.

Of a log nothing is told but the words that are known: what else stands in it may be anybody's secret.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from edgeagent.diagnose.story import Step

if TYPE_CHECKING:
    from edgeagent.facts.diagnosis import ContainerLog

LONGEST = 120
"""Characters of a line that are told."""
_LONGEST_ROW = 4096
"""Characters of a line that are looked at: who prints more than that at once says nothing to people."""


class Known(NamedTuple):
    """One thing that a log may say, and what it means."""

    words: re.Pattern[str]
    means: str


def _known(words: str, means: str) -> Known:
    return Known(re.compile(words, re.ASCII), means)


KNOWN = (
    # cudaErrorNoDevice of the CUDA runtime, and CUDA_ERROR_NO_DEVICE of the driver; PyTorch's own words for the same.
    _known(
        r"no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE|Found no NVIDIA driver on your system",
        "It sees no GPU: it runs under another runtime than NVIDIA's, or NVIDIA_VISIBLE_DEVICES names none.",
    ),
    # cudaErrorInsufficientDriver.
    _known(
        r"CUDA driver version is insufficient for CUDA runtime version|The NVIDIA driver on your system is too old",
        "Its image is built for a newer CUDA than this board's driver has: use one for this JetPack or driver.",
    ),
    # cudaErrorNoKernelImageForDevice.
    _known(
        r"no kernel image is available for execution on the device",
        "Its image has no code for this GPU: use one that is built for this architecture.",
    ),
    _known(
        r"Torch not compiled with CUDA enabled|no compatible GPUs were discovered",
        "Its program was built without CUDA, or has found no GPU, and runs on the CPU.",
    ),
    # NVML_ERROR_LIB_RM_VERSION_MISMATCH.
    _known(
        r"Failed to initialize NVML: Driver/library version mismatch",
        "The driver's library is another version than its kernel module: restart the board.",
    ),
    # NVIDIA/nvidia-container-toolkit#48: after `systemctl daemon-reload` a container loses its device nodes.
    _known(
        r"Failed to initialize NVML: Unknown Error",
        "It had the GPU and has lost its device nodes, as after `systemctl daemon-reload`: end the pod.",
    ),
    # NVIDIA/k8s-device-plugin#478, #1220 and #1134: the plugin itself runs without NVIDIA's runtime.
    _known(
        r"(?i:failed to initialize NVML: (?:could not load NVML library|ERROR_LIBRARY_NOT_FOUND))"
        r"|libnvidia-ml\.so(?:\.1)?: cannot open shared object file|(?i:incompatible strategy detected auto)"
        r"|No devices found\. Waiting indefinitely",
        "NVML's library is not in the container: NVIDIA's runtime did not start it. Name its RuntimeClass in the pod.",
    ),
    _known(
        r"libcuda\.so(?:\.1)?: cannot open shared object file",
        "The driver's library is not in the container: NVIDIA's runtime did not start it, or, on a Jetson, the files "
        "that its lists name are missing on the board.",
    ),
    # anduril/jetpack-nixos#118.
    _known(
        r"NvRmMemInitNvmap failed(?: with|:) (?:error )?Permission denied",
        "It may not open /dev/nvmap: run it as root, or in the board's group video, by its number.",
    ),
    # dusty-nv/jetson-containers#384.
    _known(
        r"NvRmMemInitNvmap failed(?: with|:) (?:error )?No such file or directory",
        "There is no /dev/nvmap in the container: NVIDIA's runtime did not start it.",
    ),
    # ggml-org/llama.cpp#23732 (L4T R36.4.7) and 0xShug0/audio.cpp#12: the driver has no memory, the board has.
    _known(
        r"NvMapMem(?:AllocInternalTagged|HandleAlloc): (?:\d+ )?error (?:12|0)\b",
        "The driver of this L4T release refused the memory, which it does at times while there is enough: it is no "
        "breach of a budget. Restart the pod or the board, keep a larger headroom, or upgrade L4T.",
    ),
    _known(
        r"CUDA out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
        r"|NV_ERR_NO_MEMORY",
        "There was no GPU memory left: see who else holds some.",
    ),
)
"""More than one may stand in a line."""


def steps(logs: Iterable[ContainerLog]) -> tuple[Step, ...]:
    """A question for each log, with its answer."""
    return tuple(_step(one) for one in logs)


def _step(log: ContainerLog) -> Step:
    question = f"Does the log of container {log.container} say why?"
    if log.text is None:
        right = f" It needs the right to {log.right}." if log.right else ""
        return Step(question, answer=None, told=f"Cannot tell: {log.why}.{right}")
    rows = log.text.splitlines()
    found = Counter(_matches(rows))
    if not found:
        return Step(
            question, answer=None, told=f"None of the known lines is in it ({len(rows)} lines read).", plain=True
        )
    meant = " ".join(dict.fromkeys(known.means for known, _ in found))
    said = tuple(f"{words}{f' ({times} times)' if times > 1 else ''}" for (_, words), times in found.items())
    return Step(question, answer=False, told=meant, evidence=said)


def _matches(rows: Iterable[str]) -> Iterator[tuple[Known, str]]:
    for row in rows:
        for known in KNOWN:
            match = known.words.search(row[:_LONGEST_ROW])
            if match:
                yield known, match.group()[:LONGEST]
