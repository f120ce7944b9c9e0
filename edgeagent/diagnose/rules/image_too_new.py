"""The name of an image says that it needs a newer driver, or another JetPack, than the node has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeagent.diagnose import injection
from edgeagent.diagnose.collected import pod_subject
from edgeagent.diagnose.rule import Rule
from edgeagent.facts import PREFIX, Severity

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import ContainerFacts, Finding, PodFacts

_L4T = re.compile(r"(?:(?<![a-z0-9])r|l4t[^:]*[-_:]|l4t)(3\d)\.(\d{1,3})(?!\d)", re.IGNORECASE)
"""``l4t-base:r36.2.0``, ``ollama:r36.4-cu126``, ``l4t-jetpack:36.4.0``."""
_JETPACK = re.compile(r"(?<![a-z])(?:jetpack|jp)[-_.:]?([4-9])(?:[-_.]?(\d))?", re.IGNORECASE)
"""``latest-jetson-jetpack6``, ``jp62``, ``jetpack-5.1.2``."""
_CUDA = re.compile(r"(?<![a-z])(?:cuda[-_:]?|cu)(1\d)(?:[._-]?(\d))?(?![a-z])", re.IGNORECASE)
"""``cuda:13.0.1-base``, ``2.8.0-cuda12.9-cudnn9``, ``cu130``."""
_JETPACKS = {32: 4, 34: 5, 35: 5, 36: 6, 38: 7, 39: 7}
"""JetPack by the release of Jetson Linux (L4T) that it is made of."""
_CUDA_OF_L4T = {32: 10, 34: 11, 35: 11, 36: 12, 38: 13, 39: 13}
_CUDA_OF_DRIVER = ((580, 13), (525, 12), (450, 11), (440, 10))
"""The least driver for each CUDA (CUDA toolkit's release notes)."""
_LABELS = tuple(f"{PREFIX}{name}" for name in ("jetson.l4t", "cuda.version", "driver.version"))
_SOURCES = ("/etc/nv_tegra_release", "largest CUDA of the driver", "driver")


@dataclass(frozen=True, slots=True)
class _Has:
    """What a node has; None: not known, or it is no Jetson."""

    l4t: tuple[int, int] | None
    cuda: int | None
    """The largest CUDA that its driver knows."""
    rows: tuple[str, ...]
    """Where that stands."""


@dataclass(frozen=True, slots=True)
class _Misfit:
    wants: str
    has: str
    severity: Severity = "warning"


def look(seen: Collected) -> Iterator[Finding]:
    """Pods that are bound here, and are not known to compute on the GPU already."""
    board = seen.plan.board
    if not seen.has_gpu:
        return
    has = _has((board.l4t, board.cuda_version, board.driver_version), _SOURCES)
    for view in seen.plan.pods:
        if not view.pod.terminating and not view.use.processes:
            yield from _of_pod(view.pod, has)


def across(seen: ClusterSeen) -> Iterator[Finding]:
    """Pods of all nodes, by the labels of theirs."""
    for node in seen.nodes:
        has = _has([node.labels.get(key) for key in _LABELS], [f"node {node.name} label {key}" for key in _LABELS])
        for pod in seen.bound.get(node.name, ()):
            if not pod.terminating:
                yield from _of_pod(pod, has)


# --- what a node has ---------------------------------------------------------------------------


def _has(told: Sequence[str | None], sources: Sequence[str]) -> _Has:
    """``told``: release of Jetson Linux, CUDA, driver; ``sources``: where each stands."""
    release, largest, branch = map(_pair, told)
    rows = [f"{source}: {text}" for source, text in zip(sources, told, strict=True) if text is not None]
    if largest:
        most: int | None = largest[0]
    elif release:
        most = _CUDA_OF_L4T.get(release[0])
    else:
        most = next((number for least, number in _CUDA_OF_DRIVER if branch and branch[0] >= least), None)
    return _Has(release, most, tuple(rows))


def _pair(version: str | None) -> tuple[int, int] | None:
    match = re.match(r"(\d{1,6})(?!\d)(?:\.(\d{1,6})(?!\d))?", version or "")
    return (int(match[1]), int(match[2] or 0)) if match else None


# --- what an image wants -----------------------------------------------------------------------


def _of_pod(pod: PodFacts, has: _Has) -> Iterator[Finding]:
    for container in injection.lasting(pod):
        image = container.image.partition("@")[0].rpartition("/")[2]
        misfit = _of_jetson(image, has) or _of_cuda(pod, container, image, has)
        if misfit:
            yield _finding(pod, container, misfit, has)


def _of_jetson(image: str, has: _Has) -> _Misfit | None:
    if not has.l4t:
        return None
    mine = f"Jetson Linux {has.l4t[0]}.{has.l4t[1]}"
    match = _L4T.search(image)
    if match:
        wanted = int(match[1]), int(match[2])
        name = f"Jetson Linux {wanted[0]}.{wanted[1]}"
        if _JETPACKS.get(wanted[0], wanted[0]) != _JETPACKS.get(has.l4t[0], has.l4t[0]):
            return _Misfit(name, mine)
        return _Misfit(name, mine, "info") if wanted > has.l4t else None
    match, jetpack = _JETPACK.search(image), _JETPACKS.get(has.l4t[0])
    if match and jetpack and int(match[1]) != jetpack:
        return _Misfit(f"JetPack {match[1]}", f"JetPack {jetpack} ({mine})")
    return None


def _of_cuda(pod: PodFacts, container: ContainerFacts, image: str, has: _Has) -> _Misfit | None:
    """Within one major number newer images run with an older driver (CUDA's minor version compatibility)."""
    match = _CUDA.search(image)
    asks = (
        injection.asked(container, PREFIX, injection.BY_PLUGIN)
        or injection.given_by_variable(container)
        or (pod.runtime_class or "").startswith("nvidia")
    )
    if match and asks and has.cuda and int(match[1]) > has.cuda:
        return _Misfit(f"CUDA {match[1]}", f"a driver for CUDA up to {has.cuda}")
    return None


def _finding(pod: PodFacts, container: ContainerFacts, misfit: _Misfit, has: _Has) -> Finding:
    return RULE.finding(
        pod_subject(pod),
        f"The image of container {container.name} is for {misfit.wants} by its name, and the node has {misfit.has}.",
        evidence=(f"container {container.name}: image {container.image}", *has.rows),
        remedy=f"Use an image for what the node has ({misfit.has}), or bring the node to {misfit.wants}. Whether it "
        f"works all the same:\nkubectl -n {pod.namespace} logs {pod.name} -c {container.name} | grep -i cuda",
        severity=misfit.severity,
        pod=pod,
    )


RULE = Rule(
    id="image-too-new",
    title="An image is for a newer driver or another JetPack",
    severity="warning",
    looks_at="names and tags of the images of pods that are bound to the node: `l4t-…:r36.4`, `jetpack6`, `cuda13`, "
    "`cu130`; the node's Jetson Linux, and the largest CUDA that its driver knows. Nothing is told of a pod that "
    "computes on the GPU all the same. A note where the image is for a later release within one JetPack",
    matters="The driver in the kernel refuses a newer CUDA, and the libraries of one JetPack do not load in an image "
    "for another one. Many programs then go on without the GPU. An image may bring what makes it run on an older "
    "driver, which its name does not tell.",
    remedy="Use an image for what the node has, or upgrade the node.",
    look=look,
    across=across,
    certain=False,
)
RULES = (RULE,)
