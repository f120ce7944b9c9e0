"""A real process whose driver does not come back and whose API server never answers: what it tells, and how soon."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.controlplane.waiting import wait_for
from tests.faults.conftest import write_kubeconfig
from tests.system.test_driver import BOTH, FIRST, SECOND, Agent
from tests.unit.host.nvml_documents import document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STUCK = 600
"""Seconds that a call of the driver takes: longer than any test."""
SOON = 5.0
"""Seconds for an answer on a busy machine; one that waited for either would take minutes."""
PATHS = ("/livez", "/readyz", "/readyz?verbose", "/healthz", "/metrics", "/api/v1/board", "/api/v1/pods")


@contextlib.contextmanager
def abyss() -> Iterator[int]:
    """A port where every connection is accepted and nothing is ever said."""
    taken = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(listening.accept()[0])

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for one in taken:
                one.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with abyss() as port:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{port}")
        started = Agent(tmp_path, "--kubeconfig", str(kubeconfig), "--node", "board-7")
        try:
            wait_for("the endpoint", (tmp_path / "run/address").exists)
            yield started
        finally:
            started.process.kill()
            started.process.wait()


def ask(folder: Path, path: str) -> tuple[int, str]:
    """Status and body of an answer that comes soon."""
    address = (folder / "run/address").read_text().strip()
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=SOON) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def reasons(folder: Path) -> set[str]:
    return {reason["name"] for reason in json.loads(ask(folder, "/readyz")[1])["reasons"]}


def cycles(folder: Path) -> float:
    found = re.search(r"^edgeagent_cycles_total (\S+)$", ask(folder, "/metrics")[1], re.MULTILINE)
    assert found
    return float(found[1])


def test_answers_are_quick_and_right_while_driver_and_api_server_hang(agent: Agent, tmp_path: Path) -> None:
    agent.shows(*BOTH)
    agent.driver.say(document(FIRST, SECOND), f"hang count {STUCK}")
    expected = {"nvml-stalled", "reading-stale:nvml", "cluster-unreachable", "view-incomplete", "not-published"}

    def settled() -> bool:
        # Asked again and again: before the hang is noticed nothing may wait for it either.
        answers = [ask(tmp_path, path)[0] for path in PATHS]
        assert (answers[0], answers[3], answers[4]) == (200, 200, 200)
        return reasons(tmp_path) >= expected

    wait_for("both noticed", settled, seconds=40)
    statuses = {path: ask(tmp_path, path)[0] for path in PATHS}
    assert statuses == dict.fromkeys(PATHS, 200) | dict.fromkeys(PATHS[1:3], 503)
    metrics = ask(tmp_path, "/metrics")[1]
    assert '\nedgeagent_reading_stale{reading="nvml"} 1.0\n' in metrics
    assert "\nedgeagent_device_health{" not in metrics
    # The loop goes on without either, so a restart would be no help.
    before = cycles(tmp_path)
    wait_for("further cycles", lambda: cycles(tmp_path) > before)
    checks = {one["name"]: one for one in json.loads(ask(tmp_path, "/readyz?verbose")[1])["checks"]}
    assert checks["loop-stalled:cycle"]["ok"]
    assert checks["reading-stale:meminfo"]["age_seconds"] < 5
    assert checks["reading-stale:nvml"]["age_seconds"] > 5
    assert re.fullmatch(r"nvml stalled \d+ s: a call does not come back", checks["nvml-stalled"]["message"])
