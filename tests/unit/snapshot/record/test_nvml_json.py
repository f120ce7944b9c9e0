"""nvml.json as it is written says what the sample said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.facts import MigInstance, Nvml, NvmlDevice, NvmlMemory, NvmlProcess, NvmlProcesses
from edgeagent.facts.codes import FUNCTION_NOT_FOUND, LIBRARY_NOT_FOUND
from edgeagent.host.nvml_replay import ABSENT, parse
from edgeagent.snapshot.record import nvml_json
from tests.unit.host.nvml_documents import DOCUMENTS

U32, U64 = 2**32 - 1, 2**64 - 1
"""The highest number of a field is NVML's sign for none, so that the reader makes None of it."""

failures = st.integers(1, U32)
refused = failures.filter(lambda code: code != FUNCTION_NOT_FOUND)
# NVML's texts end at a NUL, and a byte that is no text was replaced when it was read.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
numbers = st.integers(0, U32)
amounts = st.integers(0, U64)
known_or_not = st.none() | st.integers(0, U64 - 1)
places = st.none() | st.integers(0, U32 - 1)

processes = st.builds(NvmlProcess, pid=numbers, used=known_or_not, gi=places, ci=places)
lists = st.builds(NvmlProcesses, code=st.just(0), processes=st.lists(processes, max_size=3).map(tuple)) | st.builds(
    NvmlProcesses, code=failures
)


def memories(reserved: st.SearchStrategy[int | None]) -> st.SearchStrategy[NvmlMemory]:
    answered = st.builds(
        NvmlMemory, code=st.just(0), total=amounts, reserved=reserved, used=known_or_not, free=known_or_not
    )
    return answered | st.builds(NvmlMemory, code=failures)


v1, v2 = memories(st.none()), memories(amounts)
instances = st.builds(
    MigInstance,
    uuid=st.none() | texts,
    memory=st.none() | v1,
    memory_v2=st.none() | v2,
    compute=st.none() | lists,
    graphics=st.none() | lists,
)
addresses = st.none() | st.from_regex(r"\A[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")

PLAIN = {
    "name": texts,
    "uuid": texts,
    "minor": numbers,
    "cuda_capability": st.tuples(numbers, numbers),
}
"""Fields that failed have their code among the errors, whichever it is."""
STRUCTURED = {"memory": v1, "memory_v2": v2, "compute": lists, "graphics": lists, "mps": lists}
"""These have their code themselves; among the errors stands only that the library does not have the function."""


@st.composite
def devices(draw: st.DrawFn) -> NvmlDevice:
    handle = draw(st.just(0) | failures)
    if handle:
        return NvmlDevice(handle=handle)
    values: dict[str, Any] = {}
    errors: dict[str, int] = {}
    for name, strategy in PLAIN.items():
        if draw(st.booleans()):
            values[name] = draw(strategy)
        else:
            errors[name] = draw(failures)
    for name, structured in STRUCTURED.items():
        if draw(st.booleans()):
            values[name] = draw(structured)
        else:
            errors[name] = FUNCTION_NOT_FOUND
    if draw(st.booleans()):
        mode = values["mig_mode"] = draw(st.integers(0, 1))
        values["mig"] = tuple(draw(st.lists(instances, max_size=2))) if mode else ()
    else:
        errors["mig_mode"] = draw(failures)
    return NvmlDevice(handle=0, pci_address=draw(addresses), errors=errors, **values)


@st.composite
def samples(draw: st.DrawFn) -> Nvml:
    listed = tuple(draw(st.lists(devices(), max_size=3)))
    answered = draw(st.booleans())
    return Nvml(
        library="present",
        driver_version=draw(st.none() | texts),
        cuda_version=draw(st.none() | numbers),
        count=len(listed) if answered else None,
        devices=listed if answered else (),
    )


def again(nvml: Nvml) -> Nvml:
    return parse(json.dumps(nvml_json.document(nvml)).encode())


@given(samples() | st.builds(Nvml, library=st.just("present"), init=failures) | st.just(ABSENT))
def test_what_is_written_reads_as_the_same_sample(nvml: Nvml) -> None:
    assert again(nvml) == nvml


@pytest.mark.parametrize("name", DOCUMENTS)
def test_recorded_answers_too(name: str) -> None:
    nvml = parse(json.dumps(DOCUMENTS[name]).encode())

    assert again(nvml) == nvml


def test_a_missing_library_is_no_failed_one() -> None:
    assert nvml_json.document(Nvml(library="absent", init=LIBRARY_NOT_FOUND)) == {"library": "absent"}
    assert nvml_json.document(Nvml(library="present", init=9)) == {"library": "present", "init": 9}


def test_a_function_that_is_missing_and_one_that_failed_are_two_things() -> None:
    device = NvmlDevice(handle=0, name="n", errors={"uuid": FUNCTION_NOT_FOUND, "minor": 3, "mig_mode": 999})
    (written,) = nvml_json.document(Nvml(library="present", count=1, devices=(device,)))["devices"]

    assert written == {"handle": 0, "name": "n", "minor": {"code": 3}, "mig": {"code": 999}}
