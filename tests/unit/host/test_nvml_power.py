"""A card that sleeps, and the library that would wake it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.nvml import FakeNvml
from tests.unit.host.nvml_documents import ORIN, T4, document, replayed, without

A, B = "0000:01:00.0", "0000:65:00.0"
FIRST = {**T4, "pci_bus_id": "00000000:01:00.0"}
SECOND = {**T4, "uuid": "GPU-2", "pci_bus_id": "00000000:65:00.0"}
NOBODY = {"code": 0, "processes": []}


def unused(device: dict[str, Any]) -> dict[str, Any]:
    """The card as it last told of itself, without processes."""
    return {**device, "compute": NOBODY, "graphics": NOBODY, "mps": NOBODY}


def test_a_card_that_sleeps_from_the_start_is_asked_once(fake_nvml: FakeNvml) -> None:
    # Nobody else would wake it: without its size there is no capacity, and without capacity no pod.
    fake_nvml.say(document(FIRST), "log")
    with fake_nvml.samples() as sampler:
        assert sampler.at(0.0, asleep=[A]) == replayed(document(FIRST))
        assert fake_nvml.asked().count("init") == 1
        # Nobody holds it, so it is let go of and falls asleep again.
        for power in ({"idle": [A]}, {"asleep": [A]}, {"asleep": [A]}):
            assert sampler.at(2.0, **power) == replayed(document(unused(FIRST)))
        assert sampler.at(3600.0, asleep=[A]) == replayed(document(unused(FIRST)))
        assert fake_nvml.asked() == []
        assert sampler.at(3602.0, busy=[A]) == replayed(document(FIRST))


@pytest.mark.parametrize("state", ["idle", "asleep"])
@pytest.mark.parametrize("memory", [{"code": 999}, {"code": 0, "total": 0, "reserved": 0, "used": 0, "free": 0}])
def test_a_card_is_left_alone_once_its_size_is_known(fake_nvml: FakeNvml, state: str, memory: dict[str, Any]) -> None:
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document({**FIRST, "memory": {"code": 999}, "memory_v2": memory}), "log")
        for at in (0.0, 2.0):
            fake_nvml.asked()
            assert sampler.at(at, **{state: [A]})["devices"][0]["memory_v2"]["code"] == memory["code"]
            assert "0.memory_v2" in fake_nvml.asked()
        fake_nvml.say(document(FIRST), "log")
        assert sampler.at(4.0, **{state: [A]}) == replayed(document(FIRST))
        fake_nvml.asked()
        assert sampler.at(6.0, **{state: [A]}) == replayed(document(unused(FIRST)))
        assert fake_nvml.asked() == []


@pytest.mark.parametrize("memory", [{"code": 3}, {"code": 15}])
def test_what_was_known_once_need_not_be_asked_again(fake_nvml: FakeNvml, memory: dict[str, Any]) -> None:
    # 3: memory that is the host's has no size of its own. 15: it was lost after it had told its size.
    changed = {**FIRST, "memory": memory, "memory_v2": memory}
    with fake_nvml.samples() as sampler:
        if memory["code"] == 15:
            fake_nvml.say(document(FIRST))
            sampler.at(0.0, busy=[A])
        fake_nvml.say(document(changed), "log")
        assert sampler.at(2.0, busy=[A]) == replayed(document(changed))
        fake_nvml.asked()
        assert sampler.at(4.0, asleep=[A]) == replayed(document(unused(changed)))
        assert fake_nvml.asked() == []


def test_a_card_that_did_not_even_tell_its_address_is_not_known_yet(fake_nvml: FakeNvml) -> None:
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document(FIRST, {"handle": 999}))
        assert [card["handle"] for card in sampler.at(0.0, asleep=[A, B])["devices"]] == [0, 999]
        fake_nvml.say(document(FIRST, {**SECOND, "memory": {"code": 999}, "memory_v2": {"code": 999}}))
        sampler.at(2.0, asleep=[A, B])
        fake_nvml.say(document(FIRST, SECOND))
        assert sampler.at(4.0, asleep=[A, B]) == replayed(document(SECOND, unused(FIRST)))


def test_while_the_driver_is_not_ready_a_sleeping_card_is_asked_at_a_slow_pace(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(document(FIRST, init=9), "log")
    with fake_nvml.samples() as sampler:
        assert [sampler.at(at, asleep=[A])["init"] for at in (0.0, 2.0, 29.0)] == [9, 9, 9]
        assert fake_nvml.asked() == ["init"]
        fake_nvml.say(document(FIRST), "log")
        assert sampler.at(29.5, asleep=[A])["init"] == 9
        assert sampler.at(30.0, asleep=[A]) == replayed(document(FIRST))
        fake_nvml.asked()
        assert sampler.at(32.0, asleep=[A]) == replayed(document(unused(FIRST)))
        assert fake_nvml.asked() == []


def test_a_card_that_fell_asleep_is_as_it_was_without_processes(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(document(FIRST), "log")
    with fake_nvml.samples() as sampler:
        assert sampler.at(0.0, busy=[A]) == replayed(document(FIRST))
        assert "init" in fake_nvml.asked()
        fake_nvml.say({"library": "present", "init": 999}, "log")  # what it answers now does not matter
        assert [sampler.at(at, asleep=[A]) for at in (2.0, 4.0, 600.0)] == [replayed(document(unused(FIRST)))] * 3
        assert fake_nvml.asked() == []
        fake_nvml.say(document(FIRST), "log")
        assert sampler.at(602.0, busy=[A]) == replayed(document(FIRST))
        # What is initialised keeps a card awake, so it was not any more.
        assert fake_nvml.asked().count("init") == 1


def test_a_card_that_nobody_holds_is_let_go_of_once_it_is_known(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(document(FIRST), "log")
    with fake_nvml.samples() as sampler:
        assert sampler.at(0.0, idle=[A]) == replayed(document(FIRST))  # awake anyway
        fake_nvml.asked()
        assert sampler.at(2.0, idle=[A]) == replayed(document(unused(FIRST)))
        assert fake_nvml.asked() == []
        assert sampler.at(4.0, busy=[A]) == replayed(document(FIRST))


@pytest.mark.parametrize("state", ["idle", "asleep"])
def test_one_of_two_is_left_alone_and_the_other_asked_by_its_address(fake_nvml: FakeNvml, state: str) -> None:
    fake_nvml.say(document(FIRST, SECOND), "log")
    with fake_nvml.samples() as sampler:
        sampler.at(0.0, busy=[A, B])
        fake_nvml.asked()
        sample = sampler.at(2.0, busy=[B], **{state: [A]})
        expected = replayed(document(SECOND, unused(FIRST)))
        assert sample == expected
        asked = {key for key in fake_nvml.asked() if key.startswith("0.")}
        assert asked == {"0.pci_bus_id"}  # which the fake library looks its devices up by


def test_one_of_two_that_sleeps_from_the_start(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(document(FIRST, SECOND), "log")
    with fake_nvml.samples() as sampler:
        assert sampler.at(0.0, busy=[B], asleep=[A]) == replayed(document(FIRST, SECOND))
        fake_nvml.asked()
        assert sampler.at(2.0, busy=[B], asleep=[A]) == replayed(document(SECOND, unused(FIRST)))
        assert {key for key in fake_nvml.asked() if key.startswith("0.")} == {"0.pci_bus_id"}


@pytest.mark.parametrize("state", ["busy", "asleep"])
def test_a_card_that_is_not_nvmls_is_left_out(fake_nvml: FakeNvml, state: str) -> None:
    # 0000:99:00.0 is bound to another driver, or to none.
    other = "0000:99:00.0"
    powers = {"busy": [B], "asleep": [A]}
    powers[state] = [*powers[state], other]
    fake_nvml.say(document(FIRST, SECOND))
    with fake_nvml.samples() as sampler:
        for expected in ([A, B], [B, A]):
            sample = sampler.at(0.0, **powers)
            assert [card["pci_address"] for card in sample["devices"]] == expected


def test_a_sleeping_card_that_nvml_does_not_know_keeps_nobody_awake(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(document(), "log")
    with fake_nvml.samples() as sampler:
        for at in (0.0, 2.0, 4.0):
            assert sampler.at(at, asleep=[A]) == replayed(document(count={"code": 0, "value": 0}))
        assert fake_nvml.asked().count("init") == 1


@pytest.mark.parametrize("sized", [True, False])
def test_a_card_that_is_lost_is_looked_for_although_nobody_holds_it(fake_nvml: FakeNvml, *, sized: bool) -> None:
    with fake_nvml.samples() as sampler:
        if sized:
            fake_nvml.say(document(FIRST))
            sampler.at(0.0, busy=[A])
            fake_nvml.say(document({**FIRST, "memory": {"code": 15}, "memory_v2": {"code": 15}}))
            sampler.at(0.0, busy=[A])
        fake_nvml.say(document({**FIRST, "memory": {"code": 15}, "memory_v2": {"code": 15}}))
        assert sampler.at(0.0, idle=[A])["devices"][0]["memory"]["code"] == 15
        fake_nvml.say(document(FIRST))
        assert sampler.at(2.0, idle=[A]) == replayed(document(FIRST))


def test_beside_a_gpu_that_has_no_address_all_are_asked(fake_nvml: FakeNvml) -> None:
    # Its processes must be seen, and it cannot be asked alone: three devices, two cards on the bus.
    value = document(ORIN, FIRST, SECOND)
    fake_nvml.say(value)
    with fake_nvml.samples() as sampler:
        for at in (0.0, 2.0):
            assert sampler.at(at, asleep=[A], busy=[B]) == replayed(value), at
        assert sampler.at(4.0, asleep=[A, B]) == replayed(value)


def test_without_addresses_nothing_can_be_left_alone(fake_nvml: FakeNvml) -> None:
    value = document(without(FIRST, "pci_bus_id"))
    fake_nvml.say(value)
    with fake_nvml.samples() as sampler:
        assert sampler.at(0.0, busy=[A]) == replayed(value)
        assert sampler.at(2.0, idle=[A]) == replayed(value)
