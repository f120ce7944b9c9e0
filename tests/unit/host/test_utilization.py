"""What devices say beside their memory: the real binding over a library made for the test, and files in its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgeagent.facts.neighbours import DeviceActivity
from edgeagent.host.nvml_replay import ReplaySource
from edgeagent.host.utilization import by_pid, held_back
from tests.fakes.nvml import FakeNvml
from tests.unit.host.nvml_documents import H100_MIG, ORIN, T4, document

UUID = T4["uuid"]
ADDRESS = "0000:01:00.0"


def samples(*entries: tuple[int, int, int]) -> dict[str, Any]:
    """Samples of (pid, time stamp, percent)."""
    return {"code": 0, "samples": [{"pid": pid, "at": at, "sm": sm} for pid, at, sm in entries]}


def busy(**fields: Any) -> dict[str, Any]:
    """A card that tells everything."""
    told = {"utilization": {"code": 0, "gpu": 40, "memory": 5}, "temperature": 61, "clocks": 0x4 | 0x1}
    return {**T4, **told, "process_utilization": samples((4242, 100, 30), (5151, 100, 10)), **fields}


def test_the_first_reading_tells_from_when_on_and_the_second_who_ran(fake_nvml: FakeNvml) -> None:
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document(busy()))
        sampler.at(0.0)
        (first,) = sampler.activity()
        assert first == {
            "uuid": UUID,
            "minor": 0,
            "busy": 0.4,
            "processes": None,
            "celsius": 61.0,
            "held_back": ["power-cap"],  # 0x4; 0x1 is idle, which holds nothing back
        }
        newer = samples((4242, 100, 30), (4242, 200, 50), (4242, 300, 70), (5151, 100, 10))
        fake_nvml.say(document(busy(process_utilization=newer)))
        (second,) = sampler.activity()
        assert second["processes"] == {"4242": 0.6}  # (50 + 70) / 2 %; the sample of stamp 100 was seen before
        # Nobody ran anything since: NVML answers that it found nothing, which is no failure.
        (third,) = sampler.activity()
        assert third["processes"] == {}


def test_on_a_tegra_and_under_mig_it_is_not_supported_and_not_zero(fake_nvml: FakeNvml) -> None:
    for device in (
        {**ORIN, "utilization": {"code": 3}, "process_utilization": {"code": 3}, "temperature": {"code": 3}},
        {**H100_MIG, "utilization": {"code": 3}, "process_utilization": {"code": 3}},
        T4,  # a library without these functions
    ):
        with fake_nvml.samples() as sampler:
            fake_nvml.say(document(device))
            sampler.at(0.0)
            sampler.activity()
            (told,) = sampler.activity()
        assert (told["busy"], told["processes"], told["celsius"], told["held_back"]) == (None, None, None, None)


def test_a_card_that_is_left_alone_is_left_alone(fake_nvml: FakeNvml) -> None:
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document(busy(pci_bus_id=f"0000{ADDRESS}")), "log")
        sampler.at(0.0, busy=[ADDRESS])
        assert len(sampler.activity()) == 1
        sampler.at(2.0, asleep=[ADDRESS])
        fake_nvml.asked()
        assert sampler.activity() == []
        assert fake_nvml.asked() == []


def test_without_a_driver_there_is_nobody_to_ask(fake_nvml: FakeNvml) -> None:
    with fake_nvml.samples() as sampler:
        fake_nvml.say({"library": "present", "init": 9})
        sampler.at(0.0)
        assert sampler.activity() == []


def test_a_percentage_above_100_is_garbage() -> None:
    assert by_pid([(1, 50), (1, 4294967295), (2, 101)]) == {1: 0.5}


def test_reasons_have_names() -> None:
    # nvml.h: SwPowerCap 4, HwSlowdown 8, SwThermalSlowdown 0x20, HwThermalSlowdown 0x40, HwPowerBrakeSlowdown 0x80
    assert held_back(0x20 | 0x40) == ("thermal", "hardware-thermal")
    assert held_back(0x1 | 0x2 | 0x10 | 0x100) == ()  # idle, a setting, synchronised boost, the display


def test_a_file_in_the_place_of_the_driver_tells_the_same(tmp_path: Path) -> None:
    file = tmp_path / "nvml.json"
    file.write_text(json.dumps(document(busy())))
    assert ReplaySource(file).activity() == (
        DeviceActivity(uuid=UUID, minor=0, busy=0.4, processes={4242: 0.3, 5151: 0.1}),
    )
    file.write_text(json.dumps(document({**T4, "process_utilization": {"code": 3}})))
    assert ReplaySource(file).activity() == (DeviceActivity(uuid=UUID, minor=0),)
    file.write_text("[]")
    assert ReplaySource(file).activity() == ()
