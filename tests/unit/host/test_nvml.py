"""The real NVML binding over a library that answers what a test says, and the thread that it runs in."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from edgeagent.host.nvml import RETRY
from tests.fakes.nvml import FakeNvml
from tests.unit.host.nvml_documents import DOCUMENTS, ORIN, T4, document, replayed


def test_the_driver_and_a_recording_give_equal_samples(fake_nvml: FakeNvml) -> None:
    # One process for all: two retries apart, a failed start is tried anew and a lost device is looked for again.
    with fake_nvml.samples() as sampler:
        for number, (name, value) in enumerate(DOCUMENTS.items()):
            fake_nvml.say(value)
            assert sampler.at(number * 2 * RETRY) == replayed(value), name


def test_no_library_is_absent(fake_nvml: FakeNvml, tmp_path: Any) -> None:
    elsewhere = dataclasses.replace(fake_nvml, folder=tmp_path)
    with elsewhere.samples() as sampler:
        assert sampler.at(0.0) == replayed({"library": "absent"})
        assert sampler.at(2.0) == replayed({"library": "absent"})


def test_a_failed_start_is_tried_again_at_a_slow_pace(fake_nvml: FakeNvml) -> None:
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document(T4, init=18))
        assert sampler.at(0.0)["init"] == 18
        fake_nvml.say(document(T4))
        assert sampler.at(RETRY - 1)["init"] == 18
        assert sampler.at(RETRY) == replayed(document(T4))


def test_a_driver_that_goes_away_is_started_again(fake_nvml: FakeNvml) -> None:
    gone = document(T4, count={"code": 999})
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document(T4))
        assert sampler.at(0.0)["count"] == 1
        fake_nvml.say(gone)
        assert sampler.at(2.0) == replayed(gone)
        fake_nvml.say(document(T4, driver_version="590.1"))
        assert sampler.at(4.0) == replayed(gone)  # not yet
        assert sampler.at(2.0 + RETRY)["driver_version"] == "590.1"


def test_a_lost_device_leaves_the_others_and_is_looked_for_again(fake_nvml: FakeNvml) -> None:
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document(T4, {"handle": 15}), "starts")
        first = sampler.at(0.0)
        assert ([device["handle"] for device in first["devices"]], first["cuda_version"]) == ([0, 15], 1)
        fake_nvml.say(document(T4, ORIN), "starts")
        # It may answer again by itself; the new start is due all the same, and only one.
        assert [
            (sampler.at(at)["count"], sampler.at(at)["cuda_version"]) for at in (2, RETRY, RETRY + 2, 9 * RETRY)
        ] == [
            (2, 1),
            (2, 2),
            (2, 2),
            (2, 2),
        ]


def test_a_process_list_that_grows_meanwhile_is_asked_for_again(fake_nvml: FakeNvml) -> None:
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document(T4), "grow 2")
        assert sampler.at(0.0) == replayed(document(T4))
        fake_nvml.say(document(T4), "grow 1000")
        assert sampler.at(2.0)["devices"][0]["compute"] == {"code": 7, "processes": []}


# nvml.h, nvmlReturn_t: all there are, one that no header has yet, and what says that nobody knows.
CODES = [*range(1, 30), 77, 999]
PLACES = ["name", "uuid", "minor", "cuda_capability", "memory", "memory_v2", "compute", "graphics", "mps", "mig"]
AGES = 10 * RETRY


def test_whatever_any_call_about_a_device_answers_is_noted_and_over_when_it_is_well_again(fake_nvml: FakeNvml) -> None:
    now = 0.0
    with fake_nvml.samples() as sampler:
        for place in PLACES:
            for code in CODES:
                failing = document({**T4, place: {"code": code}})
                fake_nvml.say(failing)
                assert sampler.at(now) == replayed(failing), (place, code)
                fake_nvml.say(document(T4))
                assert sampler.at(now + RETRY) == replayed(document(T4)), (place, code)
                now += AGES


@pytest.mark.parametrize("failing", ["init", "count", "handle"])
def test_whatever_a_call_above_the_devices_answers_is_noted_and_the_driver_is_started_again(
    fake_nvml: FakeNvml, failing: str
) -> None:
    now = 0.0
    with fake_nvml.samples() as sampler:
        for code in CODES:
            answer = {
                "init": document(T4, init=code),
                "count": document(T4, count={"code": code}),
                "handle": document({"handle": code}, ORIN),
            }[failing]
            if failing == "init":  # it is called only after something else has failed
                fake_nvml.say(document(T4, count={"code": 999}))
                assert sampler.at(now)["count"] is None
                now += RETRY
            fake_nvml.say(answer)
            # A library that says of itself that it is not there is none.
            expected = {"library": "absent"} if (failing, code) == ("init", 12) else answer
            assert sampler.at(now) == replayed(expected), code
            fake_nvml.say(document(T4))
            assert sampler.at(now + RETRY) == replayed(document(T4)), code
            now += AGES


def test_a_list_that_fails_is_not_a_list_without_processes(fake_nvml: FakeNvml) -> None:
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document({**T4, "compute": {"code": 999}}))
        assert sampler.at(0.0)["devices"][0]["compute"] == {"code": 999, "processes": []}
        fake_nvml.say(document({**T4, "compute": {"code": 0, "processes": []}}))
        assert sampler.at(2.0)["devices"][0]["compute"] == {"code": 0, "processes": []}


def test_memory_of_a_process_that_the_driver_does_not_know_is_unknown(fake_nvml: FakeNvml) -> None:
    # nvml.h: NVML_VALUE_NOT_AVAILABLE, all bits set. 0 is 0.
    listed = [{"pid": 4242, "used": None}, {"pid": 5151, "used": 0}]
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document({**T4, "compute": {"code": 0, "processes": listed}}))
        found = sampler.at(0.0)["devices"][0]["compute"]["processes"]
    assert [(process["pid"], process["used"]) for process in found] == [(4242, None), (5151, 0)]


def test_fewer_devices_than_before_and_all_of_them_again(fake_nvml: FakeNvml) -> None:
    other = {**T4, "uuid": "GPU-2"}
    with fake_nvml.samples() as sampler:
        seen = []
        for now, devices in enumerate([(T4, other), (other,), (), (T4, other)]):
            fake_nvml.say(document(*devices))
            sample = sampler.at(2.0 * now)
            seen.append((sample["count"], [device["uuid"] for device in sample["devices"]]))
    assert seen == [(2, [T4["uuid"], "GPU-2"]), (1, ["GPU-2"]), (0, []), (2, [T4["uuid"], "GPU-2"])]


@pytest.mark.parametrize("call", ["name", "memory_v2", "compute", "mps"])
@pytest.mark.parametrize("code", [15, 16])
def test_a_device_that_any_call_tells_is_lost_is_looked_for_anew(fake_nvml: FakeNvml, call: str, code: int) -> None:
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document({**T4, call: {"code": code}}), "starts")
        # The CUDA version is the number of starts: one until the next is due.
        assert [sampler.at(at)["cuda_version"] for at in (0.0, RETRY - 1, RETRY)] == [1, 1, 2]
