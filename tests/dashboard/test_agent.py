"""The page beside a whole agent: the demo's recorded board, its API server, and a model that outgrows its budget."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.controlplane.waiting import wait_for

from .conftest import Opener


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """The address of the dashboard of a demo whose time runs ten times as fast."""
    command = [sys.executable, "-m", "edgeagent", "demo", "--speed", "10", "--keep", "--bind", "127.0.0.1:0"]
    command += ["--runtime-dir", str(tmp_path / "run"), "--state-dir", str(tmp_path / "state")]
    log = tmp_path / "log"
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        address = tmp_path / "run" / "address"

        def listens() -> bool:
            assert process.poll() is None, log.read_text()
            return address.exists()

        wait_for("the agent's endpoint", listens)
        yield f"http://{address.read_text().strip()}/"
        process.terminate()


def test_a_model_outgrows_its_budget_and_is_evicted(agent: str, opened: Opener) -> None:
    page = opened(agent, expected="503")
    decisions = page.locator("#decisions")

    # It is over its budget for less than two seconds here, so what is looked at is what stays.
    expect(decisions).to_contain_text("MemoryBudgetExceeded pod default/chat", timeout=60_000)
    expect(decisions).to_contain_text("Evicted default/chat", timeout=60_000)
    expect(decisions).to_contain_text("Then: the API server accepted the eviction.", timeout=60_000)
    expect(page.locator("li.pod").filter(has_text="speech").locator(".measure-label")).to_contain_text(
        "GiB GPU · budget"
    )
    expect(page.locator("li.pod").filter(has_text="chat")).to_have_count(0)
    expect(page.locator("#link")).to_contain_text("live")
