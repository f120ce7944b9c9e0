"""The package as it is installed, and the guard that every test runs under."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from blockbuster import BlockingError

import edgeagent

REPOSITORY = Path(__file__).parents[2]


def test_the_installed_version_is_the_one_in_the_source() -> None:
    assert metadata.version("edgeagent") == edgeagent.__version__


def test_the_changelog_has_the_version() -> None:
    assert f"## [{edgeagent.__version__}]" in (REPOSITORY / "CHANGELOG.md").read_text()


def test_the_command_and_the_module_are_one_program() -> None:
    (command,) = metadata.entry_points(group="console_scripts", name="edgeagent")
    module = subprocess.run([sys.executable, "-m", "edgeagent", "--help"], capture_output=True, text=True, check=True)

    assert command.value == "edgeagent.cli:main"
    assert callable(command.load())
    assert module.stdout.startswith("usage: edgeagent ")


def _blocks() -> None:
    """Sleep in the event loop, in a frame that looks like the product's."""
    source = "import time\nasync def sleep():\n    time.sleep(0)\n"
    scope: dict[str, object] = {}
    exec(compile(source, str(Path(edgeagent.__file__).with_name("imagined.py")), "exec"), scope)  # noqa: S102
    asyncio.run(scope["sleep"]())  # type: ignore[operator]


def test_a_blocking_call_in_the_event_loop_fails_a_test() -> None:
    with pytest.raises(BlockingError, match=r"time\.sleep"):
        _blocks()


@pytest.mark.may_block("shows that the marker lifts the guard")
def test_a_marked_test_may_block() -> None:
    _blocks()
