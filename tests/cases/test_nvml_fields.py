"""NVML answers of which one field or another fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.machines import (
    COMPATIBLE,
    LABEL,
    OFFER,
    ORIN_NANO,
    ORIN_UUID,
    THOR,
    Capture,
    board,
    card,
    on_x86,
)
from tests.cases.making import MIB, device, explain, gpu, nvml

# Fields that fail one by one (Atoptool/atop#236 and #243, vllm-project/vllm#12904, nvidia-cosmos/cosmos-reason1#61)

OPTIONAL = (
    "name",
    "uuid",
    "pci_bus_id",
    "minor",
    "cuda_capability",
    "compute",
    "graphics",
    "mps",
    "mig",
    "utilization",
)


@pytest.mark.parametrize("field", OPTIONAL)
@pytest.mark.parametrize("answer", [{"code": 3}, {"code": 13}, {"code": 999}, {"code": 4}, None])
def test_any_field_but_the_memory_may_fail_on_a_card(
    tmp_path: Path, capsys: Capture, field: str, answer: dict[str, int] | None
) -> None:
    found = card(1, 24576, 512, pci_bus_id="00000000:01:00.0", cuda_capability=[8, 6])
    found["minor"] = 0
    if answer is None:
        found.pop(field, None)
    else:
        found[field] = answer
    files = board(**on_x86(), **{"nvml.json": {**nvml(), "count": {"code": 0, "value": 1}, "devices": [found]}})
    (document,) = explain(capsys, tmp_path, files)
    assert gpu(document) == "24064Mi"
    (one,) = document["devices"]
    assert one["health"] == "ok"
    assert one["name"] not in ("", None)
    assert all(LABEL.fullmatch(value) for value in document["node"]["labels"].values())


@pytest.mark.parametrize("field", [*OPTIONAL, "memory", "memory_v2"])
@pytest.mark.parametrize("answer", [{"code": 3}, {"code": 13}, None])
@pytest.mark.parametrize(("compatible", "name"), [(ORIN_NANO, "Orin (nvgpu)"), (THOR, "NVIDIA Thor")])
def test_on_a_tegra_even_the_memory_may_fail(
    tmp_path: Path, capsys: Capture, field: str, answer: dict[str, int] | None, compatible: bytes, name: str
) -> None:
    found = {**device(name, ORIN_UUID), "minor": 0}
    if answer is None:
        found.pop(field, None)
    else:
        found[field] = answer
    files = board(**{COMPATIBLE: compatible, "nvml.json": {**nvml(), "count": {"code": 0, "value": 1}}})
    files["nvml.json"]["devices"] = [found]
    (document,) = explain(capsys, tmp_path, files)
    assert document["board"]["kind"] == "jetson"
    assert gpu(document) == OFFER
    assert [one["health"] for one in document["devices"]] == ["ok"]


def test_functions_that_the_library_does_not_know_are_not_zero(tmp_path: Path, capsys: Capture) -> None:
    found = {"handle": 0, "memory": {"code": 0, "total": 24576 * MIB}}
    files = board(**on_x86(), **{"nvml.json": {"library": "present", "init": 0, "devices": [found]}})
    (document,) = explain(capsys, tmp_path, files)
    (one,) = document["devices"]
    assert (one["uuid"], one["total_bytes"]) == (None, 24576 * MIB)
    # v1 alone: 3 % of 24576 = 737.28 for the driver, so 23838.72
    assert gpu(document) == "23838Mi"
    assert document["host"]["system_gpu_bytes"] is None
