"""A fresh machine for each test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgeagent.host.nvml import NvmlSource
from edgeagent.host.reader import nvml_source
from edgeagent.install import reserves
from tests.cluster.recorded import recorded_board
from tests.unit.install.machine import Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The driver's answers are those that were recorded with the board, whatever this machine has."""

    def recorded(_: Path | None, clock: Callable[[], float]) -> NvmlSource:
        return nvml_source(recorded_board() / "nvml.json", clock)

    monkeypatch.setattr(reserves, "nvml_source", recorded)
    return Machine(tmp_path / "machine")
