"""What the documentation computes, writes and links to is right: the program's own code reads its examples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgeagent import config
from edgeagent.cluster import pods
from edgeagent.config import Config
from edgeagent.facts import GPU_MEMORY
from edgeagent.host import k3s, meminfo, nvml_replay
from edgeagent.host.files import TreeFiles
from edgeagent.memory import pools
from edgeagent.memory.budgets import budget
from edgeagent.memory.types import Budget, Device, Pool
from edgeagent.quantity import GIB, MIB, floor_mib, mib, parse
from edgeagent.snapshot import recording
from tests.unit.test_docs import DOCS, PAGES, blocks, page, rows

NANO = b"MemTotal: 7802736 kB\nCmaTotal: 262144 kB\n"
"""The Orin Nano of the pages, as /proc/meminfo has it."""


# --- links ---------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """Anchors of headings, by GitHub's rule: lower case, blanks to dashes, punctuation left out."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_link_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8"))
    broken = []
    for link in links:
        if re.match(r"https?://", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        if not file.is_file() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(link)

    assert broken == []


def test_the_index_links_to_every_page() -> None:
    index = page("README.md")

    assert [
        path.name for path in PAGES if path.name != "README.md" and f"({path.relative_to(DOCS)})" not in index
    ] == []


# --- the arithmetic of the pages -----------------------------------------------------


def nano(settings: Config, files: Mapping[str, bytes]) -> Pool:
    """The pool of an Orin Nano 8 GB without pods, with the given files of K3s."""
    device = Device(uuid=None, name="tegra234", memory="unified", health="ok", tegra=True)
    key = pools.PoolKey(GPU_MEMORY, "unified", (device,))
    size = pools.size(key, settings, meminfo.parse(NANO), 0, k3s.settings(TreeFiles(dict(files))))
    assert size is not None
    return pools.fill(key, size, [], {}, settings)


def test_the_sum_of_the_orin_nano() -> None:
    # 7802736 kB = 7619.86 MiB; 768 + 512 + 256 + 256 = 1792; 7619.86 - 1792 = 5827.86.
    pool = nano(Config(), {})
    lines = [(line.name, line.bytes // MIB, line.origin) for line in pool.reserves]

    assert lines == [
        ("os", 768, "default"),
        ("k3s", 512, "default"),
        ("cma", 256, "measured"),
        ("headroom", 256, "default"),
    ]
    assert mib(floor_mib(pool.computed)) == "5827Mi"
    text = page("explanation/memory-model.md")
    assert all(figure in text for figure in ("7802736 kB", "7 990 001 664", "7619 MiB", "1792", "5827.86", "5827Mi"))


def figure(text: str) -> int | None:
    """A figure of the tables: ``2Gi``, ``none``, ``1 GiB``."""
    written = re.match(r"`?(\d+) ?([MG]i)B?`?", text)
    if text.startswith(("none", "0")):
        return None
    assert written, text
    return parse(written[1] + written[2])


def memory_rows() -> list[list[str]]:
    text = page("explanation/memory-model.md").split("## What `memory` means")[1].split("\n## ")[0]
    return list(rows(text))[1:]


@pytest.mark.parametrize("row", memory_rows(), ids="/".join)
def test_the_table_of_what_memory_means(row: list[str]) -> None:
    gpu, memory, host, taken = (figure(cell) for cell in row)
    limits = {key: str(amount) for key, amount in ((GPU_MEMORY, gpu), ("memory", memory)) if amount is not None}

    found = _budget({"containers": [{"name": "a", "resources": {"requests": limits, "limits": limits}}]}, {})

    assert found.host_request == (host or 0)
    assert found.gpu_request + found.host_request == taken
    assert any(problem.reason == "UnderRequested" for problem in found.problems) == ("UnderRequested" in row[2])


def _budget(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Budget:
    metadata = {"namespace": "n", "name": "p", "uid": "u", "annotations": annotations}
    pod = pods.parse({"metadata": metadata, "spec": spec})
    return budget(pod, GPU_MEMORY, "unified", Config().policy, primary=True)


# --- how-to: size a pod --------------------------------------------------------------


def manifests() -> list[Any]:
    return [yaml.safe_load(block) for block in blocks(page("how-to/size-a-pod.md"), "yaml")]


def test_the_deployment_books_and_may_use_what_its_table_says() -> None:
    spec = manifests()[0]["spec"]["template"]["spec"]
    found = _budget(spec, {})

    assert (found.gpu_request, found.host_request) == (2 * GIB, GIB)
    assert (found.gpu, found.total, found.problems) == (2 * GIB, 3 * GIB, ())

    (container,) = spec["containers"]
    container["resources"]["limits"]["memory"] = "4Gi"
    assert (_budget(spec, {}).host_request, _budget(spec, {}).total) == (GIB, 4 * GIB)
    for side in ("requests", "limits"):
        container["resources"][side]["memory"] = "2Gi"
    assert (_budget(spec, {}).host_request, _budget(spec, {}).total) == (2 * GIB, 4 * GIB)
    for side in ("requests", "limits"):
        del container["resources"][side]["memory"]
    assert (_budget(spec, {}).host_request, _budget(spec, {}).total) == (0, None)


def test_several_containers() -> None:
    found = _budget(manifests()[1], {})

    # 2 GiB GPU; (3 - 2) GiB + 256 MiB host.
    assert (found.gpu, found.total) == (2 * GIB, 3 * GIB + 256 * MIB)


def test_the_annotation() -> None:
    found = _budget({"containers": [{"name": "a"}]}, manifests()[2]["metadata"]["annotations"])

    assert (found.gpu, found.source, found.gpu_request) == (2 * GIB, "annotation", 0)


def every_container(value: Any) -> Iterator[Any]:
    for key, below in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else []):
        if key == "containers":
            yield from below
        else:
            yield from every_container(below)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_manifests_ask_for_whole_bytes_and_for_as_much_as_they_limit(path: Path) -> None:
    for block in blocks(path.read_text(encoding="utf-8"), "yaml"):
        for container in every_container(yaml.safe_load(block)):
            limits = container["resources"]["limits"]
            requests = {**limits, **container["resources"].get("requests", {})}
            assert requests.get(GPU_MEMORY) == limits.get(GPU_MEMORY)
            assert GPU_MEMORY not in limits or parse(limits[GPU_MEMORY]) >= MIB


# --- how-to: K3s' reserves -----------------------------------------------------------


def test_k3s_reserves_of_the_how_to_leave_the_pool_as_it_is() -> None:
    theirs, ours = blocks(page("how-to/set-k3s-reserves.md"), "yaml")
    path = theirs.splitlines()[0].removeprefix("# /")

    pool = nano(config.load([("how-to", ours)]), {path: theirs.encode()})

    lines = [(line.name, line.bytes // MIB, line.origin) for line in pool.reserves]
    assert lines == [
        ("os", 1024, "kubelet"),
        ("k3s", 512, "default"),
        ("cma", 0, "config"),
        ("headroom", 256, "default"),
    ]
    assert mib(floor_mib(pool.computed)) == "5827Mi"
    # The scheduler counts the same: 7619 - (1024 + 512 + 256) = 5827.
    assert pool.reserved == 1792 * MIB


# --- snapshots -----------------------------------------------------------------------


def test_the_snapshot_page_describes_a_snapshot_that_can_be_read(tmp_path: Path) -> None:
    about, frames = blocks(page("reference/snapshot.md"), "yaml")
    (nvml,) = blocks(page("reference/snapshot.md"), "json")
    for name, text in (("snapshot.yaml", about), ("frames.yaml", frames), ("nvml.json", nvml)):
        (tmp_path / name).write_text(text)

    found = recording.read(tmp_path)

    assert (found.node, found.arch, found.page_size) == ("orin-1", "aarch64", 4096)
    assert [sample.at for sample in found.samples] == [0.0, 2.0, 4.5]
    # 2026-03-01T12:00:00Z: 56 years of 365 days and 14 leap days, 59 days of 2026, 12 hours.
    assert found.wall(0.0) == ((56 * 365 + 14 + 59) * 24 + 12) * 3600
    (device,) = nvml_replay.parse(json.dumps(json.loads(nvml)).encode()).devices
    assert (device.name, device.errors) == ("NVIDIA GB10", {})
