"""Which processes NVML lists for a pool's devices: merged, checked, and unknown rather than half."""

from __future__ import annotations

from typing import Any

import pytest

from edgeagent.facts import MigInstance, NvmlDevice, NvmlMemory, NvmlProcess, NvmlProcesses
from edgeagent.memory.processlists import Row, in_use, listed
from edgeagent.memory.types import Device
from tests.unit.factories import CARD_UUID, GIB, MIB, card, igpu, nvml, processes

BOARD = 128 * GIB
"""What the host has: no process on unified memory holds more."""


def device(uuid: str | None = CARD_UUID, **fields: Any) -> Device:
    return Device(**{"uuid": uuid, "name": "Card", "memory": "discrete", "health": "ok", "total_bytes": GIB, **fields})


def rows(*devices: NvmlDevice, of: Device | None = None) -> dict[int, int | None] | None:
    found, _ = listed(nvml(*devices), [of or device()], BOARD)
    return None if found is None else {row.pid: row.bytes for row in found}


def test_the_largest_of_the_lists_counts_once() -> None:
    # rbonghi/jetson_stats#849: a process that renders and computes stands in both lists.
    both = card(
        compute=processes((4242, 100 * MIB)),
        graphics=processes((4242, 90 * MIB), (900, 50 * MIB)),
        mps=processes((4242, 95 * MIB)),
    )
    assert rows(both) == {4242: 100 * MIB, 900: 50 * MIB}


def test_two_contexts_of_one_process_add_up() -> None:
    assert rows(card(compute=processes((4242, MIB), (4242, 2 * MIB)))) == {4242: 3 * MIB}


def test_unknown_memory_is_neither_zero_nor_the_number_that_says_so() -> None:
    assert rows(card(compute=processes((4242, None), (5151, 0), (700, MIB)))) == {4242: None, 5151: 0, 700: MIB}


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ((4294967295, 5151), "pid"),  # 32-byte records read in steps of 24
        ((0, MIB), "pid"),
        ((4242, GIB + 1), "more than there are"),
    ],
)
def test_one_impossible_entry_makes_the_answer_worthless(entry: tuple[int, int], word: str) -> None:
    found, why = listed(nvml(card(compute=processes((700, MIB), entry))), [device()], BOARD)
    assert found is None
    assert word in why


def test_entries_that_hold_more_than_the_card_together_do_so_too() -> None:
    assert rows(card(compute=processes((1, GIB), (2, 1)))) is None


@pytest.mark.parametrize("name", ["compute", "graphics", "mps"])
@pytest.mark.parametrize("code", [1, 2, 4, 7, 9, 10, 15, 16, 27, 999])
def test_a_list_that_failed_is_not_empty(name: str, code: int) -> None:
    lists: dict[str, Any] = {"compute": processes((700, MIB)), name: NvmlProcesses(code)}
    assert rows(card(**lists)) is None


@pytest.mark.parametrize("code", [3, 13])
def test_a_second_list_that_does_not_exist_hides_nobody_but_the_first_must_be_there(code: int) -> None:
    assert rows(card(compute=processes((700, MIB)), graphics=NvmlProcesses(code), mps=None)) == {700: MIB}
    assert rows(card(compute=NvmlProcesses(code), graphics=processes((700, MIB)))) is None
    assert rows(card(compute=None)) is None


@pytest.mark.parametrize("health", ["asleep", "lost"])
def test_nobody_holds_memory_of_a_card_without_power(health: Any) -> None:
    # Whatever NVML says: 0, and not unknown. beclab/Olares#3803: memory on a card keeps it powered up, even if
    # the process that has it is stopped.
    for lists in ({"compute": processes((700, MIB))}, {"compute": None}, {"compute": NvmlProcesses(15)}):
        assert rows(card(**lists), of=device(health=health)) == {}
    assert listed(nvml(), [device(health=health)], BOARD) == ((), "")


def test_one_of_two_cards_sleeps() -> None:
    cards = nvml(card("GPU-1", compute=processes((700, MIB))), card("GPU-2", compute=None))
    found, _ = listed(cards, [device("GPU-1"), device("GPU-2", health="asleep")], BOARD)
    assert found == (Row(700, MIB),)


def test_a_process_on_two_cards_holds_both() -> None:
    cards = nvml(card("GPU-1", compute=processes((700, MIB))), card("GPU-2", compute=processes((700, 2 * MIB))))
    assert listed(cards, [device("GPU-1"), device("GPU-2")], BOARD)[0] == (Row(700, 3 * MIB),)


def test_cards_that_tell_no_uuid_cannot_be_told_apart() -> None:
    nameless = card(uuid=None, compute=processes((700, MIB)))
    assert rows(nameless, of=device(uuid=None)) == {700: MIB}
    assert rows(nameless, nameless, of=device(uuid=None)) is None
    # All of them together are no riddle.
    other = card(uuid=None, compute=processes((701, MIB)))
    found, _ = listed(nvml(nameless, other), [device(uuid=None)] * 2, BOARD)
    assert found == (Row(700, MIB), Row(701, MIB))


# --- MIG -----------------------------------------------------------------------------


def part(number: int, *entries: tuple[int, int], **fields: Any) -> MigInstance:
    """An instance; its processes stand under its own numbers."""
    listed_here = NvmlProcesses(0, tuple(NvmlProcess(pid, used, number, 0) for pid, used in entries))
    return MigInstance(**{"uuid": f"MIG-{number}", "compute": listed_here, **fields})


def test_an_instance_has_its_own_processes_and_the_whole_cards_list_says_nothing() -> None:
    parent = card(
        mig_mode=1, mig=(part(1, (700, MIB)), part(2, (701, MIB))), compute=processes((700, 5 * MIB), (900, MIB))
    )
    assert rows(parent, of=device("MIG-1")) == {700: MIB}
    assert rows(parent, of=device("MIG-2")) == {701: MIB}


def test_a_thor_in_parts_is_one_pool_with_the_processes_of_all_of_them() -> None:
    thor = igpu("NVIDIA Thor", uuid="GPU-1", mig_mode=1, compute=processes((700, 5 * MIB)))
    parts = (part(1, (700, MIB)), part(2, (700, 2 * MIB), (701, 3 * MIB), graphics=processes((900, MIB))))
    whole = device("GPU-1", memory="unified", total_bytes=None, tegra=True)
    # 700 is in two parts: 1 + 2 MiB
    assert rows(NvmlDevice(**{**fields(thor), "mig": parts}), of=whole) == {700: 3 * MIB, 701: 3 * MIB, 900: MIB}


@pytest.mark.parametrize("broken", [None, NvmlProcesses(4), NvmlProcesses(15)])
def test_a_part_that_lists_nothing_makes_the_whole_unknown(broken: NvmlProcesses | None) -> None:
    parts = (part(1, (700, MIB)), part(2, compute=broken))
    thor = igpu("NVIDIA Thor", uuid="GPU-1", mig_mode=1, mig=parts)
    assert rows(thor, of=device("GPU-1", memory="unified", total_bytes=None, tegra=True)) is None


def fields(one: NvmlDevice) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}


# --- what a device itself says is in use ---------------------------------------------


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        # v2, total = reserved + used + free: 1024 = 64 + 300 + 660
        ({"memory_v2": NvmlMemory(code=0, total=GIB, reserved=64 * MIB, used=300 * MIB, free=660 * MIB)}, 300 * MIB),
        # v2 of a driver that counts what it keeps as used, too: 1024 = 364 + 660
        ({"memory_v2": NvmlMemory(code=0, total=GIB, reserved=64 * MIB, used=364 * MIB, free=660 * MIB)}, 300 * MIB),
        # v1 alone does not tell what is kept
        ({"memory": NvmlMemory(code=0, total=GIB, used=364 * MIB, free=660 * MIB), "memory_v2": None}, 364 * MIB),
        ({"memory_v2": NvmlMemory(code=0, total=GIB, reserved=0, used=2 * GIB, free=0)}, None),  # more than there is
        ({"memory_v2": NvmlMemory(code=0, total=GIB, reserved=0)}, None),
        ({"memory_v2": NvmlMemory(code=3)}, None),
    ],
)
def test_what_is_in_use_leaves_out_what_the_driver_keeps(memory: dict[str, Any], expected: int | None) -> None:
    assert in_use(nvml(card(**memory)), [device()]) == expected


def test_compute_instances_of_one_gpu_instance_use_one_memory() -> None:
    memory = NvmlMemory(code=0, total=GIB, reserved=0, used=100 * MIB, free=924 * MIB)
    parts = tuple(MigInstance(uuid=f"MIG-{number}", gi=2, memory_v2=memory) for number in range(2))
    devices = [device(uuid=one.uuid, shares=(CARD_UUID, 2)) for one in parts]
    assert in_use(nvml(card(mig_mode=1, mig=parts)), devices) == 100 * MIB
