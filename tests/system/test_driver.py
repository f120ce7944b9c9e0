"""A running agent and the real NVML binding, over a driver that fails in every way and comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.waiting import wait_for
from tests.fakes.nvml import FakeNvml, build
from tests.system.service import QUICK
from tests.unit.host.nvml_documents import T4, document

CARD = "sys/bus/pci/devices/0000:01:00.0"
FIRST = {**T4, "pci_bus_id": "00000000:01:00.0"}
SECOND = {**T4, "uuid": "GPU-2", "minor": 1, "pci_bus_id": "00000000:65:00.0"}
BOTH = [(T4["uuid"], "ok"), ("GPU-2", "ok")]
TOTAL = 16 * 1024**3


class Agent:
    """``edgeagent run`` on a machine with two cards, whose driver answers what a test says.

    ``more`` are further arguments.
    """

    def __init__(self, folder: Path, *more: str) -> None:
        self.driver: FakeNvml = build(folder)
        self.host = folder / "host"
        self._run = folder / "run"
        self.write("proc/meminfo", "MemTotal: 16000000 kB\nMemFree: 8000000 kB\nMemAvailable: 9000000 kB\n")
        for address in ("0000:01:00.0", "0000:65:00.0"):
            self.write(f"sys/bus/pci/devices/{address}/vendor", "0x10de\n")
            self.write(f"sys/bus/pci/devices/{address}/class", "0x030200\n")
        (folder / "config.yaml").write_text(QUICK)
        self.driver.say(document(FIRST, SECOND))
        arguments = ["--config", folder / "config.yaml", "--host-root", self.host, "--bind", "127.0.0.1:0"]
        arguments += ["--state-dir", folder / "state", "--runtime-dir", self._run]
        environment = {**os.environ, **self.driver.environment}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "edgeagent", "run", *map(str, arguments), *more],
            env={name: text for name, text in environment.items() if name != "KUBECONFIG"},
        )

    def write(self, path: str, text: str) -> None:
        place = self.host / path
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name("new")
        new.write_text(text)
        new.replace(place)

    def get(self, path: str) -> Any:
        """The JSON that it answers, within a second; None before the first plan."""
        address = (self._run / "address").read_text().strip()
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=1) as answer:
                return json.load(answer)
        except urllib.error.HTTPError:
            return None

    def devices(self) -> list[tuple[str, str]]:
        board = self.get("/api/v1/board")
        return [(device["uuid"], device["health"]) for device in board["devices"]] if board else []

    def total(self) -> int:
        """Bytes of the only pool; 0 where there is none."""
        return sum(pool["total_bytes"] for pool in self.get("/api/v1/pools")["pools"])

    def shows(self, *devices: tuple[str, str]) -> None:
        """Waits until the agent shows these devices. It never ends, and it always answers at once."""
        wait_for(f"{devices}", lambda: self.process.poll() is None and self.devices() == list(devices))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    started = Agent(tmp_path)
    try:
        wait_for("the endpoint", (tmp_path / "run/address").exists)
        yield started
    finally:
        started.process.terminate()
        assert started.process.wait(timeout=20) == 0


def test_a_driver_that_hangs_and_comes_back(agent: Agent) -> None:
    agent.shows(*BOTH)
    agent.driver.say(document(FIRST, SECOND), "hang count 4")
    agent.shows((T4["uuid"], "unknown"), ("GPU-2", "unknown"))
    assert agent.total() == 2 * TOTAL
    assert agent.get("/livez")["status"] == "ok"
    agent.driver.say(document(FIRST, SECOND))
    agent.shows(*BOTH)


def test_a_card_that_is_lost_and_comes_back(agent: Agent) -> None:
    agent.shows(*BOTH)
    agent.driver.say(document({"handle": 15}, SECOND))
    agent.shows((T4["uuid"], "lost"), ("GPU-2", "ok"))
    wait_for("the sum without the lost card", lambda: agent.total() == TOTAL)
    agent.driver.say(document(FIRST, SECOND))
    agent.shows(*BOTH)
    wait_for("the sum of both", lambda: agent.total() == 2 * TOTAL)


def test_a_card_that_sleeps_is_not_woken(agent: Agent) -> None:
    agent.shows(*BOTH)
    agent.write(f"{CARD}/power/runtime_status", "suspended\n")
    agent.shows((T4["uuid"], "asleep"), ("GPU-2", "ok"))
    agent.driver.say(document(FIRST, SECOND), "log")
    asked: list[str] = []

    def ten_samples() -> bool:
        asked.extend(agent.driver.asked())
        return asked.count("count") >= 10

    wait_for("ten samples", ten_samples)
    # The sample under way when the library began to note what it is asked may have begun before.
    later = asked[asked.index("count") :]
    assert "1.memory_v2" in later
    # The fake library looks up its devices by their addresses.
    assert {key for key in later if key.startswith("0.")} == {"0.pci_bus_id"}
    assert agent.total() == 2 * TOTAL
    agent.write(f"{CARD}/power/runtime_status", "active\n")
    agent.shows(*BOTH)
