"""What a running agent has loaded: its memory is the board's."""

from __future__ import annotations

import subprocess
import sys

LOAD = "import sys; import edgeagent.cli, edgeagent.daemon; print(*sorted(sys.modules), sep='\\n')"
NOT_NEEDED = {
    # commands of people and of the installation
    *("edgeagent.console", "edgeagent.demo", "edgeagent.fleet", "edgeagent.install", "edgeagent.snapshot"),
    # libraries of people and of tests
    *("curses", "jsonschema", "jtop", "kubernetes", "markdown_it", "prometheus_client.parser", "rich"),
    # of the standard library: databases, processes and documents
    *("multiprocessing", "sqlite3", "unittest", "xml", "xmlrpc"),
}  # fmt: skip


def loaded() -> set[str]:
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_an_agent_loads_nothing_that_it_does_not_need() -> None:
    names = loaded()
    assert {"edgeagent.daemon", "aiohttp", "yaml"} <= names, "the list is that of an agent"
    assert {name for name in names if any(name == one or name.startswith(f"{one}.") for one in NOT_NEEDED)} == set()
