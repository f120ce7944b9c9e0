"""The demo's board reads, to the agent's own readers, as the board that was recorded, with what its models hold."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from edgeagent.demo import script
from edgeagent.demo.orin import Board, Held, Model
from edgeagent.facts import HostFacts, Reading
from edgeagent.host.files import RootFiles
from edgeagent.host.nvml_replay import ReplaySource
from edgeagent.host.sampler import HostSampler

MIB = 1024**2
KIB = 1024
CHAT = Model("0cc4df72-aaf7-4d0d-8b37-4766b0e8d197", "a" * 64, 4388, "llama-server")
DETECTOR = Model("f3d0dd42-5fd4-4b1e-a7a2-9eb7e61d2a30", "b" * 64, 4211, "python3")


@pytest.fixture
def board(tmp_path: Path) -> Board:
    unpacked = Board(tmp_path / "host", tmp_path / "nvml.json")
    unpacked.unpack()
    return unpacked


def sampled(board: Board, *wanted: Model) -> HostFacts:
    files = RootFiles(board.root)
    try:
        sampler = HostSampler(files, clock=time.monotonic)
        nvml = Reading(time.monotonic(), ReplaySource(board.nvml).sample())
        return sampler.sample(nvml, [model.pod_uid for model in wanted])
    finally:
        files.close()


def test_an_idle_board_is_the_recorded_one(board: Board) -> None:
    found = sampled(board)

    assert found.files.compatible == ("nvidia,p3768-0000+p3767-0005", "nvidia,p3767-0005", "nvidia,tegra234")
    assert (found.files.soc_family, found.files.nvmap) == ("Tegra", True)
    assert found.meminfo.value is not None
    assert (found.meminfo.value.total, found.meminfo.value.cma_total) == (7802736 * KIB, 262144 * KIB)
    assert found.runtime.nvidia == {"nvidia": ("/usr/bin/nvidia-container-runtime", True)}
    # Nothing holds the GPU: the table is there and empty, which is not the same as unknown.
    assert found.nvmap.value is not None
    assert (found.nvmap.value.rows, found.gpu_node_holders.value) == ((), 0)


def test_nvml_says_that_it_does_not_know_the_memory_of_an_orin(board: Board) -> None:
    nvml = sampled(board).nvml.value

    assert nvml is not None
    (device,) = nvml.devices
    assert (device.name, device.memory and device.memory.code) == ("Orin (nvgpu)", 3)
    assert device.compute is not None
    assert device.compute.processes == ()


def test_what_models_hold_stands_where_the_board_would_show_it(board: Board) -> None:
    idle = sampled(board).meminfo.value
    board.start(CHAT)
    board.hold(CHAT, Held(1700 * MIB, 220 * MIB))
    board.start(DETECTOR)
    board.hold(DETECTOR, Held(1300 * MIB, 180 * MIB))
    found = sampled(board, CHAT, DETECTOR)

    assert found.nvmap.value is not None
    assert {row.pid: row.bytes for row in found.nvmap.value.rows} == {4388: 1700 * MIB, 4211: 1300 * MIB}
    assert found.nvmap.value.total_bytes == 3000 * MIB
    owner = found.processes[4388].owner
    assert owner is not None
    assert (owner.pod_uid, owner.container_id) == (CHAT.pod_uid, CHAT.container_id)
    assert (found.pods[CHAT.pod_uid].host_bytes, found.pods[CHAT.pod_uid].exact) == (220 * MIB, True)
    assert idle is not None
    now = found.meminfo.value
    assert now is not None
    # 1700 + 1300 + 220 + 180 = 3400 MiB are taken, 400 of them as anonymous memory.
    assert (idle.available or 0) - (now.available or 0) == 3400 * MIB
    assert (now.anon_pages or 0) - (idle.anon_pages or 0) == 400 * MIB


def test_file_pages_go_before_free_memory_runs_out(board: Board) -> None:
    idle = sampled(board).meminfo.value
    board.start(CHAT)
    board.hold(CHAT, Held(4000 * MIB, 0))
    now = sampled(board).meminfo.value

    assert idle is not None
    assert now is not None
    # 3668508 kB were free, of which 128 MiB stay: 4000 MiB + 128 MiB - 3668508 kB come from inactive file pages.
    assert now.free == 128 * MIB
    assert (idle.inactive_file or 0) - (now.inactive_file or 0) == 4128 * MIB - 3668508 * KIB


def test_all_is_as_before_when_a_model_has_ended(board: Board) -> None:
    before = sampled(board, CHAT)
    board.start(CHAT)
    board.hold(CHAT, Held(1700 * MIB, 220 * MIB))
    board.end(CHAT)
    after = sampled(board, CHAT)

    assert after.meminfo.value == before.meminfo.value
    assert after.nvmap.value == before.nvmap.value
    assert (after.processes, after.pods) == ({}, {})
    assert not (board.root / "proc/4388").exists()


def test_the_story_never_takes_more_than_the_board_has() -> None:
    peak = script.DETECTOR.loaded.gpu + script.OUTGROWN
    host = script.DETECTOR.loaded.host + script.CHAT.loaded.host

    # MemFree of the recording and the inactive file pages that the demo drops, less the 128 MiB that stay free.
    assert peak + host <= (3668508 + 854980) * KIB - 128 * MIB
