"""Swap as large as the memory, or in much use, on a board whose GPU shares it (dusty-nv/jetson-containers#342)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.machines import COMPATIBLE, NVIDIA_CARD, card, on_x86
from tests.cases.making import meminfo, nvml
from tests.diagnose.making import SWAPS, TOTAL_KIB, Capture, Files, found, healthy, judged, without

ID = "swap-hides-pressure"
HEAD = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def swap(*rows: tuple[str, int, int]) -> Files:
    """(name, KiB, KiB used) of each."""
    total = sum(size for _, size, _ in rows)
    lines = [f"{name}\tpartition\t{size}\t\t{used}\t\t5\n" for name, size, used in rows]
    return {"host/proc/meminfo": meminfo(TOTAL_KIB, SwapTotal=total), SWAPS: HEAD + "".join(lines)}


# JetPack's own: as many devices as cores, together half of the memory (nvzramconfig)
ZRAM = [(f"/dev/zram{number}", TOTAL_KIB // 12, 0) for number in range(6)]
TRIGGER = healthy(**swap(*ZRAM, ("/swapfile", 23068672 - TOTAL_KIB // 2, 0)))
NEAR_MISS = healthy(**swap(*ZRAM))


def test_it_says_how_much(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("warning", "certain", "node edge-07")
    assert "22.00 GiB" in one["summary"]  # 23068672 KiB
    assert one["remedy"].endswith("\nsudo swapoff -a")


# Three quarters of the memory are available.
@pytest.mark.parametrize(
    ("used", "command", "first"),
    [
        (0, "sudo swapoff -a", "Switch it off"),
        (TOTAL_KIB // 2, "sudo swapoff -a", "end pods first"),
        (TOTAL_KIB, "sudo reboot", "OOM killer"),
    ],
)
def test_what_is_swapped_out_is_to_find_room(
    tmp_path: Path, capsys: Capture, used: int, command: str, first: str
) -> None:
    (one,) = found(capsys, tmp_path, healthy(**swap(("/swapfile", TOTAL_KIB * 2, used))), ID)
    assert one["remedy"].splitlines()[1:] == [command]
    assert first in one["remedy"]


def test_where_it_is_not_known_how_much_is_swapped_out_the_board_is_restarted(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, without(TRIGGER, SWAPS), ID)
    assert one["remedy"].endswith("\nsudo reboot")


@pytest.mark.parametrize(
    ("rows", "certainty"),
    [
        ([("/swapfile", TOTAL_KIB, 0)], "certain"),
        ([("/swapfile", TOTAL_KIB - 1, 0)], ""),
        ([("/dev/zram0", TOTAL_KIB, 0)], "certain"),
        ([("/dev/zram0", TOTAL_KIB // 2, TOTAL_KIB // 4)], "suspected"),  # a quarter of the memory has moved there
        ([("/dev/zram0", TOTAL_KIB // 2, TOTAL_KIB // 4 - 1)], ""),
    ],
)
def test_where_it_begins(tmp_path: Path, capsys: Capture, rows: list[tuple[str, int, int]], certainty: str) -> None:
    certainties = [one["certainty"] for one in found(capsys, tmp_path, healthy(**swap(*rows)), ID)]
    assert certainties == ([certainty] if certainty else [])


def test_zram_is_switched_off_another_way(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, healthy(**swap(("/dev/zram0", TOTAL_KIB, 0))), ID)
    assert one["remedy"].splitlines()[1:] == ["sudo systemctl disable nvzramconfig", "sudo reboot"]


def test_a_card_has_memory_of_its_own(tmp_path: Path, capsys: Capture) -> None:
    files = without({**TRIGGER, **on_x86(), **NVIDIA_CARD, "nvml.json": nvml(card(1))}, COMPATIBLE)
    assert found(capsys, tmp_path, files, ID) == []
