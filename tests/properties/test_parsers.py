"""Readers against arbitrary bytes: none ever fails with anything but its own error, none makes up a value."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeagent import quantity
from edgeagent.errors import InputError, ReadingError
from edgeagent.facts import MemInfo
from edgeagent.host import cgroup_path, containerd, k3s, meminfo, nvmap, nvml_replay, processes
from edgeagent.host.probe import probe
from edgeagent.host.tree import TreeFiles
from tests.properties import boards as worlds
from tests.properties.boards import KIB, Board, boards

BYTES = st.binary(max_size=400)


def numbers(content: bytes) -> set[int]:
    """Every run of digits in a text."""
    return {int(run) for run in re.findall(rb"\d{1,25}", content)}


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The text with one part cut out, doubled, or replaced by anything."""
    start = draw(st.integers(0, len(content)))
    end = draw(st.integers(start, min(len(content), start + 80)))
    middle = draw(st.sampled_from([b"", content[start:end] * 2]) | st.binary(max_size=20) | st.just(b"9" * 12))
    tail = draw(st.sampled_from([content[end:], content[end:], b""]))
    return content[:start] + middle + tail


# --- one parser at a time ------------------------------------------------------------


@pytest.mark.parametrize(
    "parse",
    [meminfo.parse, nvmap.parse, nvml_replay.parse, cgroup_path.owner],
    ids=["meminfo", "nvmap", "nvml.json", "cgroup"],
)
@settings(max_examples=150)
@given(content=BYTES)
def test_arbitrary_bytes_give_a_value_or_the_readers_own_error(parse: Callable[[bytes], Any], content: bytes) -> None:
    with contextlib.suppress(ReadingError):
        parse(content)


@settings(max_examples=150)
@given(st.text(max_size=30))
def test_a_quantity_is_a_number_or_refused(text: str) -> None:
    try:
        amount = quantity.parse(text)
    except ValueError:
        return
    assert re.search(r"\d", text)
    assert amount >= 0 or "-" in text


@settings(max_examples=200)
@given(st.data(), boards())
def test_a_damaged_meminfo_holds_only_what_stands_in_it(data: st.DataObject, board: Board) -> None:
    content = data.draw(damaged(worlds.meminfo(board).encode()))
    try:
        info = meminfo.parse(content)
    except ReadingError:
        return
    there = numbers(content)
    for one in fields(MemInfo):
        value = getattr(info, one.name)
        assert value is None or value == 0 or value // KIB in there
    assert info.total > 0
    assert info.available is None or 0 <= info.available <= info.total


@settings(max_examples=200)
@given(st.data(), boards(("orin",)))
def test_a_damaged_nvmap_table_holds_only_what_stands_in_it(data: st.DataObject, board: Board) -> None:
    content = data.draw(damaged(worlds.nvmap(board).encode()))
    try:
        table = nvmap.parse(content)
    except ReadingError:
        return
    there = numbers(content)
    for row in table.rows:
        assert row.pid in there
        assert any(row.bytes == number * unit for number in there for unit in (1, KIB, KIB**2, KIB**3))


UID = "11111111-2222-3333-4444-000000000001"
CGROUPS = (
    f"0::/kubepods/burstable/pod{UID}/{'c' * 64}\n",
    f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{'c' * 64}.scope\n",
)


@settings(max_examples=200)
@given(st.data(), st.sampled_from(CGROUPS))
def test_a_damaged_cgroup_file_names_no_pod_that_does_not_stand_in_it(data: st.DataObject, path: str) -> None:
    content = data.draw(damaged(path.encode()))
    found = cgroup_path.owner(content)
    text = content.decode(errors="surrogateescape").replace("_", "-")
    if found is not None:
        assert f"pod{found.pod_uid}" in text
        assert found.container_id is None or found.container_id in text


# --- the readers of a whole board ----------------------------------------------------

PATHS = (
    "proc/device-tree/compatible", "proc/device-tree/model", "sys/devices/soc0/family", "etc/nv_tegra_release",
    "proc/driver/nvidia/version", "proc/sys/kernel/osrelease", "sys/bus/pci/devices/0000:01:00.0/vendor",
    "sys/bus/pci/devices/0000:01:00.0/class", "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node0/meminfo", "sys/class/devfreq/17000000.gpu/device/of_node/name",
    "etc/rancher/k3s/config.yaml", "etc/rancher/k3s/config.yaml.d/10.yaml", "etc/systemd/system/k3s-agent.service",
    "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/10.conf", "var/lib/kubelet/config.yaml",
    "var/lib/rancher/k3s/agent/etc/containerd/config.toml", "proc/7/stat", "proc/7/status", "proc/7/cgroup",
)  # fmt: skip


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(PATHS), BYTES))
def test_no_content_of_any_file_stops_the_readers(contents: dict[str, bytes]) -> None:
    files = TreeFiles(contents)
    found = probe(files, arch="aarch64")
    assert not found.nvmap
    assert found.cpuless_numa_bytes == 0 or found.cpuless_numa_bytes // KIB in numbers(
        contents.get("sys/devices/system/node/node0/meminfo", b"")
    )
    k3s.settings(files)
    containerd.runtime(files, "/var/lib/rancher/k3s")
    processes.process(files, 7)
    processes.holders(files, 0.0)


@settings(max_examples=100)
@given(boards(), st.data())
def test_damage_to_one_file_of_a_board_is_refused_or_costs_that_files_figures_alone(
    board: Board, data: st.DataObject
) -> None:
    entries = worlds.files(board)
    name = data.draw(st.sampled_from(sorted(entries)))
    broken = {**entries, name: data.draw(damaged(entries[name]))}
    arch = "x86_64" if board.family == "card" else "aarch64"
    try:
        answer = worlds.explain_files(broken, arch=arch)
    except (InputError, ValueError):
        assert name.endswith(".json")  # a recording that is no JSON is refused as a whole
        return
    there = numbers(broken["host/proc/meminfo"]) | numbers(broken.get("nvml.json", b""))
    for pool in answer["pools"]:
        if name not in ("host/proc/meminfo", "nvml.json") and pool["kind"] == "unified":
            assert pool["total_bytes"] == worlds.pool_total(board)
    for device in answer["devices"]:
        assert device["total_bytes"] is None or device["total_bytes"] in there
    available = answer["host"]["available_bytes"]
    assert available is None or available // KIB in there
