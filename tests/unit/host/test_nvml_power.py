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


def test_a_card_that_sleeps_from_the_start_is_not_asked_and_nothing_is_known_of_it(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(document(FIRST), "log")
    with fake_nvml.samples() as sampler:
        fake_nvml.asked()
        sample = sampler.at(0.0, asleep=[A])
        assert fake_nvml.asked() == []
        assert (sample["library"], sample["init"], sample["count"]) == ("present", 0, None)
        (card,) = sample["devices"]
        assert (card["handle"], card["pci_address"], card["uuid"], card["memory_v2"]) == (0, A, None, None)
        # It wakes up, and is one card.
        assert sampler.at(2.0, busy=[A]) == replayed(document(FIRST))


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
    fake_nvml.say(document(FIRST, SECOND))
    with fake_nvml.samples() as sampler:
        sample = sampler.at(0.0, busy=[B], asleep=[A])
    assert sample["count"] == 2
    assert [(card["pci_address"], card["uuid"]) for card in sample["devices"]] == [(B, "GPU-2"), (A, None)]


def test_a_card_that_is_not_nvmls_is_left_out(fake_nvml: FakeNvml) -> None:
    # 0000:99:00.0 is bound to another driver.
    fake_nvml.say(document(FIRST, SECOND))
    with fake_nvml.samples() as sampler:
        sample = sampler.at(0.0, busy=[B, "0000:99:00.0"], asleep=[A])
    assert [card["pci_address"] for card in sample["devices"]] == [B, A]


def test_a_card_that_is_lost_is_looked_for_although_nobody_holds_it(fake_nvml: FakeNvml) -> None:
    with fake_nvml.samples() as sampler:
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
