"""NVML from a file."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.errors import ReadingError
from edgeagent.facts import MigInstance, Nvml, NvmlDevice, NvmlMemory, NvmlProcess, NvmlProcesses
from edgeagent.host.nvml_replay import MalformedError, ReplaySource, parse
from tests.unit.host.nvml_documents import DOCUMENTS, FIELDS, GIB, H100_MIG, ORIN, T4, document, without


def read(value: Any) -> Nvml:
    return parse(json.dumps(value).encode())


def test_a_discrete_card() -> None:
    assert read(document(T4)) == Nvml(
        library="present",
        init=0,
        driver_version="580.82.09",
        cuda_version=13000,
        count=1,
        devices=(
            NvmlDevice(
                handle=0,
                name="Tesla T4",
                uuid="GPU-00000000-0000-4000-8000-000000000001",
                minor=0,
                cuda_capability=(7, 5),
                memory=NvmlMemory(code=0, total=16 * GIB, used=9 * GIB, free=7 * GIB),
                memory_v2=NvmlMemory(code=0, total=16 * GIB, reserved=GIB // 2, used=9 * GIB, free=6 * GIB + GIB // 2),
                compute=NvmlProcesses(0, (NvmlProcess(4242, 1610612736), NvmlProcess(5151, None), NvmlProcess(700, 0))),
                graphics=NvmlProcesses(0, (NvmlProcess(4242, 1610612736), NvmlProcess(900, 52428800))),
                mps=NvmlProcesses(0, ()),
                errors={"mig_mode": 3},
            ),
        ),
    )


def test_an_orin_supports_little_and_says_so() -> None:
    (device,) = read(document(ORIN)).devices
    assert device.memory == device.memory_v2 == NvmlMemory(code=3)
    assert (device.graphics, device.mps) == (NvmlProcesses(3), None)
    assert device.errors == {"minor": 3, "mig_mode": 13, "mps": 13}


def test_mig_instances() -> None:
    (device,) = read(document(H100_MIG)).devices
    first, second = device.mig
    assert (device.mig_mode, device.memory) == (1, NvmlMemory(code=4))
    assert first.compute == NvmlProcesses(0, (NvmlProcess(11, 5, gi=1, ci=0),))
    assert second == MigInstance(uuid=None, memory=NvmlMemory(code=15))


def test_a_missing_field_is_a_missing_function() -> None:
    for key in FIELDS:
        name = "mig_mode" if key == "mig" else key
        (device,) = read(document(without(T4, key))).devices
        assert device.errors[name] == 13
        assert getattr(device, name) is None


def test_what_fails_above_the_devices() -> None:
    assert read({"library": "absent"}) == Nvml(library="absent", init=12)
    assert read(document(T4, init=18)) == Nvml(library="present", init=18)
    failed = read(document(T4, count={"code": 9}))
    assert (failed.init, failed.count, failed.devices, failed.driver_version) == (0, None, (), "580.82.09")
    assert read(document(T4, count={"code": 0, "value": 2})).devices[1] == NvmlDevice(handle=6)
    assert [one.name for one in read(document(T4, ORIN, count={"code": 0, "value": 1})).devices] == ["Tesla T4"]


def test_bytes_that_are_no_text() -> None:
    (device,) = read(document({**T4, "name": "\udcf8\udc9aX\0rest"})).devices
    assert device.name == "��X"


WRONG: dict[str, tuple[Any, str]] = {
    "not an object": ([], "the document is not an object"),
    "no library": ({}, "library is neither"),
    "another library": ({"library": "maybe"}, "library is neither"),
    "library of another type": ({"library": []}, "library is neither"),
    "init": (document(init="0"), "init is not a whole number"),
    "init true": (document(init=True), "init is not a whole number"),
    "count": (document(count=1), "count is not an object"),
    "count without value": (document(count={"code": 0}), "count.value is not"),
    "count too large": (document(count={"value": 10**9}), "count.value is not"),
    "devices": (document(devices={}), "devices is not a list"),
    "a device": (document(devices=[1]), "devices[0] is not an object"),
    "handle": (document({"handle": None}), "devices[0].handle is not"),
    "name": (document({**T4, "name": 5}), "devices[0].name is not a text"),
    "a name that no bytes are": (document({**T4, "name": "\ud800"}), "devices[0].name is not a text"),
    "a name without error": (document({**T4, "name": {"code": 0}}), "devices[0].name is not a text"),
    "minor": (document(T4, {**T4, "minor": -1}), "devices[1].minor is not"),
    "capability": (document({**T4, "cuda_capability": [7]}), "devices[0].cuda_capability is not a pair"),
    "memory": (document({**T4, "memory": 5}), "devices[0].memory is not an object"),
    "memory null": (document({**T4, "memory": None}), "devices[0].memory is not an object"),
    "memory code": (document({**T4, "memory": {"code": "3"}}), "devices[0].memory.code is not"),
    "memory without total": (document({**T4, "memory": {"code": 0, "used": 1}}), "devices[0].memory.total is not"),
    "memory used": (document({**T4, "memory": {"code": 0, "total": 1, "used": "x"}}), "devices[0].memory.used is not"),
    "memory negative": (
        document({**T4, "memory": {"code": 0, "total": -1, "used": 0, "free": 0}}),
        "devices[0].memory.total is not",
    ),
    "memory of 2^64": (
        document({**T4, "memory": {"code": 0, "total": 2**64, "used": 0, "free": 0}}),
        "devices[0].memory.total is not",
    ),
    "memory fraction": (
        document({**T4, "memory": {"code": 0, "total": 1.5, "used": 0, "free": 0}}),
        "devices[0].memory.total is not",
    ),
    "no reserved": (
        document({**T4, "memory_v2": {"code": 0, "total": 1, "used": 1, "free": 0}}),
        "devices[0].memory_v2.reserved is not",
    ),
    "processes": (
        document({**T4, "compute": {"code": 0, "processes": {}}}),
        "devices[0].compute.processes is not a list",
    ),
    "a process": (
        document({**T4, "mps": {"code": 0, "processes": [5]}}),
        "devices[0].mps.processes[0] is not an object",
    ),
    "a pid": (
        document({**T4, "compute": {"code": 0, "processes": [{"pid": "5"}]}}),
        "devices[0].compute.processes[0].pid is not",
    ),
    "used": (
        document({**T4, "compute": {"code": 0, "processes": [{"pid": 5, "used": "5"}]}}),
        "devices[0].compute.processes[0].used is not",
    ),
    "mig": (document({**T4, "mig": 1}), "devices[0].mig is not an object"),
    "mig without mode": (document({**T4, "mig": {}}), "devices[0].mig.mode is not"),
    "an instance": (
        document({**T4, "mig": {"mode": 1, "instances": [5]}}),
        "devices[0].mig.instances[0] is not an object",
    ),
}


@pytest.mark.parametrize(("value", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_malformed_document_is_named(value: Any, message: str) -> None:
    with pytest.raises(ReadingError) as caught:
        read(value)
    assert message in str(caught.value)


def test_every_malformed_field_is_named() -> None:
    wrong = {**T4, "name": 5, "minor": -1, "memory": 7, "compute": {"code": 0, "processes": [1, {"pid": "x"}]}}
    with pytest.raises(MalformedError) as caught:
        read(document(T4, {"name": {"code": "3"}}, wrong, cuda_version="13"))
    places = [problem.partition(" is ")[0] for problem in caught.value.problems]
    assert sorted(places) == sorted(
        [
            *("devices[1].name.code", "devices[2].name", "devices[2].minor", "devices[2].memory", "cuda_version"),
            *("devices[2].compute.processes[0]", "devices[2].compute.processes[1].pid"),
        ]
    )


def test_used_memory_is_what_the_library_says() -> None:
    # The highest figure is no "not available" here: a driver that answers so is at fault, and that has to show.
    most = 2**64 - 1
    (device,) = read(document({**T4, "memory": {"code": 0, "total": 1, "used": most, "free": 0}})).devices
    assert device.memory == NvmlMemory(code=0, total=1, used=most, free=0)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}", b"NaN"])
def test_what_is_no_json_is_an_error(content: bytes) -> None:
    with pytest.raises(ReadingError, match=r"^nvml\.json: "):
        parse(content)


@given(st.binary())
def test_any_bytes_are_a_sample_or_an_error(content: bytes) -> None:
    with contextlib.suppress(ReadingError):
        parse(content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from([*T4, "code"]), below, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(DOCUMENTS)), st.data())
def test_any_value_in_any_place_is_a_sample_or_an_error(name: str, data: st.DataObject) -> None:
    value = json.loads(json.dumps(DOCUMENTS[name]))
    place = value
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()) or not isinstance(place[key], dict | list):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    with contextlib.suppress(ReadingError):
        read(value)


def test_the_file_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "nvml.json"
    source = ReplaySource(path)
    assert source.sample() == Nvml(library="absent", init=12)
    path.write_text(json.dumps(document(T4)))
    assert source.sample().count == 1
    path.write_text(json.dumps(document(T4, ORIN)))
    assert source.sample().count == 2
    path.write_text("{")
    with pytest.raises(ReadingError, match="not JSON"):
        source.sample()
    path.unlink()
    path.mkdir()
    with pytest.raises(ReadingError, match="Is a directory"):
        source.sample()
    path.rmdir()
    assert source.sample().library == "absent"
    source.close()
