"""A Jetson's lists of files for containers are missing, or name files that are not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose.rule import Rule

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import Finding
    from edgeagent.facts.diagnosis import CsvLists

_SETTINGS = "/etc/nvidia-container-runtime/config.toml"
_NEEDED = re.compile(
    r"lib(?:cuda|cudnn|cublas|cufft|curand|cusolver|cusparse|nvinfer|nvrm|nvos|nvsci|nvsocsys|nvtegrahv|nvcucompat"
    r"|nvidia-(?:ml|rmapi|ptxjit|nvvm|gpucomp|fatbin))"
)
"""What CUDA and what is built on it load. Of the rest, as cameras and desktops need it, no Jetson has everything."""
_SHOWN = 3
_REINSTALL = (
    "sudo apt-get update\n"
    "sudo apt-get install --reinstall nvidia-l4t-core nvidia-l4t-cuda nvidia-l4t-3d-core nvidia-l4t-init"
)
_SMALL = 0.5
"""Share of what is listed from which it is missing by mistake, whatever it is."""


def look(seen: Collected) -> Iterator[Finding]:
    """On a Tegra alone, and not where devices come by name."""
    lists, mode = seen.host.csv, seen.host.toolkit_mode
    if lists is None or not seen.has_gpu or seen.plan.board.kind == "discrete" or mode == "cdi":
        return
    if mode == "legacy":
        yield _legacy(seen)
    if lists.problem:
        yield RULE.finding(
            seen.node_subject,
            f"Whether the lists of files for containers are complete cannot be told: {lists.problem}.",
            evidence=(lists.problem,),
            remedy=f"Let the agent read it:\nsudo chmod -R a+rX {lists.folder}",
            severity="info",
            certainty="cannot-tell",
        )
    elif not lists.files:
        yield from _none(seen, lists)
    elif lists.listed == lists.devices:
        yield _empty(seen, lists)
    else:
        yield from _missing(seen, lists)


def _legacy(seen: Collected) -> Finding:
    # A Thor, or a card beside it, has an NVML that the legacy way works with as well.
    sure = seen.plan.board.kind == "jetson" and seen.plan.board.soc != "tegra264"
    return RULE.finding(
        seen.node_subject,
        'NVIDIA\'s runtime is set to mode "legacy", in which it reads none of the lists of files: the libraries of a '
        "Jetson will not be mounted.",
        evidence=(f"{_SETTINGS}: nvidia-container-runtime.mode legacy",),
        remedy="Let it choose by the board:\n"
        "sudo nvidia-ctk config --in-place --set nvidia-container-runtime.mode=auto",
        severity="error" if sure else "warning",
        certainty="certain" if sure else "suspected",
    )


def _none(seen: Collected, lists: CsvLists) -> Iterator[Finding]:
    host = seen.host
    runtime = host.toolkit or host.containerd.nvidia
    by_name = any(spec.kind.startswith("nvidia.com/") for spec in host.cdi) and host.toolkit_mode != "csv"
    if not (runtime or lists.settings) or by_name:
        return
    # Where nothing at all of NVIDIA's settings was seen, they may be where nobody looked.
    state = "does not exist" if lists.files is None else "is empty"
    yield RULE.finding(
        seen.node_subject,
        f"{lists.folder} {state}: NVIDIA's runtime does not know which libraries to mount, so containers get none.",
        evidence=(f"{lists.folder}: {state}", *(f"{path}: there" for path in host.toolkit[:1])),
        remedy=f"The lists come with the package nvidia-l4t-init:\n{_REINSTALL}",
        severity="error" if lists.settings else "info",
        certainty="certain" if lists.settings else "suspected",
    )


def _empty(seen: Collected, lists: CsvLists) -> Finding:
    names = ", ".join(lists.files or ())
    return RULE.finding(
        seen.node_subject,
        f"The lists in {lists.folder} name no library, so containers get none.",
        evidence=(f"{lists.folder}: {names}", f"listed: {lists.listed}, of them {lists.devices} device nodes"),
        remedy=f"The lists come with the package nvidia-l4t-init:\n{_REINSTALL}",
        severity="warning" if lists.devices else "error",
        certainty="suspected" if lists.devices else "certain",
    )


def _missing(seen: Collected, lists: CsvLists) -> Iterator[Finding]:
    """Device nodes are left out: the lists name those of all boards (NVIDIA/nvidia-container-runtime#123)."""
    missing = [path for path in lists.missing if not path.startswith("/dev/")]
    if not missing:
        return
    total = lists.listed - lists.devices
    needed = [path for path in missing if _NEEDED.match(path.rpartition("/")[2])]
    grave = bool(needed) or len(missing) > total * _SMALL
    first = (needed + [path for path in missing if path not in needed])[:_SHOWN]
    named = ", ".join(first) + (" …" if len(missing) > len(first) else "")
    yield RULE.finding(
        seen.node_subject,
        f"Libraries will not be mounted into containers: {len(missing)} of {total} listed files are missing: {named}."
        + ("" if grave else " CUDA needs none of them."),
        evidence=(
            f"{lists.folder}: {', '.join(lists.files or ())}",
            *(f"{path}: does not exist" for path in first),
        ),
        remedy="Install again what brings the files and the lists. Which package a file is of: dpkg -S FILE\n"
        f"{_REINSTALL}",
        severity="error" if grave else "info",
        certainty="certain" if grave else "suspected",
    )


RULE = Rule(
    id="csv-files-missing",
    title="Lists of files for a Jetson's containers are missing or stale",
    severity="error",
    looks_at="`/etc/nvidia-container-runtime/host-files-for-container.d/*.csv` and whether the files that they name "
    "exist, device nodes and patterns left out; `nvidia-container-runtime.mode` in "
    "`/etc/nvidia-container-runtime/config.toml`. On Tegra boards alone, and not in mode `cdi`. A note where only such "
    "files are missing as CUDA does not need",
    matters="On a Jetson NVIDIA's runtime mounts what the lists name, and says nothing of what is not there. The "
    "container starts, and CUDA finds no device in it.",
    remedy="Install the packages again that bring lists and libraries:\n" + _REINSTALL,
    look=look,
    condition=True,
)
RULES = (RULE,)
