"""``edgeagent status`` and ``edgeagent top`` as commands: what they print, and their exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent import cli, console
from edgeagent import config as config_module
from edgeagent.cli import top
from edgeagent.config import Config, Reserves, Serve, Tls, plain
from edgeagent.console.podtable import ORDERS
from edgeagent.console.summary import summary

from .agents import Agent, agent
from .documents import pod, state, unsampled

ORIN = Path(__file__).parents[2] / "boards/orin-nano-8gb-jp62/snapshot/host"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def server() -> Iterator[Agent]:
    with agent(state()) as made:
        yield made


def test_ready_is_0_and_not_ready_is_1(server: Agent, capsys: Capture) -> None:
    assert cli.main(["status", "--address", server.address]) == 0
    assert "ready      yes\n" in capsys.readouterr().out

    server.document = unsampled(("nvml-stalled", "nvml stalled 120 s"))
    assert cli.main(["status", "--address", server.address]) == 1
    assert "ready      no: nvml-stalled: nvml stalled 120 s\n" in capsys.readouterr().out


def test_status_as_json_is_the_summary(server: Agent, capsys: Capture) -> None:
    assert cli.main(["status", "--address", server.address, "--format", "json"]) == 0

    assert json.loads(capsys.readouterr().out) == summary(state(), server.address)


def test_the_agent_of_this_machine_is_the_one_in_the_runtime_directory(
    server: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "address").write_text(f"{server.address}\n")

    assert cli.main(["status", "--runtime-dir", str(tmp_path)]) == 0
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    assert cli.main(["status"]) == 0
    assert capsys.readouterr().out.count(server.address) == 2


def test_the_configuration_that_is_named_says_where_the_agent_listens(
    server: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    (tmp_path / "config.yaml").write_text(f"serve: {{bind: '{server.address}'}}\n")

    assert cli.main(["status", "--config", str(tmp_path / "config.yaml")]) == 0


def test_without_an_agent_status_says_so_and_what_to_do(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["status", "--runtime-dir", str(tmp_path)]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[0].startswith("edgeagent: no agent answers: ")
    assert "systemctl start edgeagent" in said.err.splitlines()[1]


@pytest.mark.parametrize("command", ["status", "top"])
def test_what_cannot_be_used_is_one_line_and_exit_code_2(command: str, capsys: Capture) -> None:
    assert cli.main([command, "--address", "nowhere"]) == 2

    said = capsys.readouterr()
    assert (said.out, len(said.err.splitlines())) == ("", 1)


def test_top_prints_one_page_where_there_is_no_terminal(server: Agent, capsys: Capture) -> None:
    assert cli.main(["top", "--address", server.address, "--sort", "name"]) == 0

    text = capsys.readouterr().out
    assert "PODS by name" in text
    assert "shop/llm" in text
    assert "\x1b" not in text
    assert "q quit" not in text


def test_top_reads_the_board_itself_where_no_agent_answers(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["top", "--once", "--runtime-dir", str(tmp_path), "--host-root", str(ORIN)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert cli.main(["explain", "--host-root", str(ORIN), "--format", "json"]) == 0
    (pool,) = json.loads(capsys.readouterr().out)["pools"]

    assert "NO AGENT no agent answers, so the board itself is read, and nobody acts:" in text
    assert f"POOL gpu-memory {pool['total_bytes'] / 1024**3:.2f} GiB" in text
    assert "PODS not known: no cluster is asked" in text


def test_another_machines_board_is_not_read(capsys: Capture) -> None:
    with agent(state()) as gone:
        pass

    assert cli.main(["top", "--once", "--address", gone.address, "--host-root", str(ORIN)]) == 2
    assert capsys.readouterr().out == ""


def test_without_the_extra_a_terminal_gets_one_page_and_a_hint(
    server: Agent, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.delitem(sys.modules, "edgeagent.console.screen", raising=False)
    monkeypatch.delattr(console, "screen", raising=False)
    monkeypatch.setattr(top, "_draws", lambda: True)

    assert cli.main(["top", "--address", server.address]) == 0
    said = capsys.readouterr()
    assert "shop/llm" in said.out
    assert said.err.count("\n") == 1
    ways = ("Debian package", "offline bundle", "pip install '.[top]'", "pip install './FILE.whl[top]'")
    assert [way for way in ways if way not in said.err] == []

    assert cli.main(["top", "--once", "--address", server.address]) == 0
    assert capsys.readouterr().err == ""


TYPO = "polcy: {grace: 10s}\nserve: {bind: '127.0.0.1:1'}\n"


@pytest.mark.parametrize("command", [["status"], ["top", "--once"], ["budgets"]], ids=lambda words: words[0])
def test_a_mistake_in_the_configuration_does_not_hide_the_agent_that_runs(
    server: Agent, tmp_path: Path, capsys: Capture, command: list[str]
) -> None:
    (tmp_path / "address").write_text(f"{server.address}\n")
    config = tmp_path / "config.yaml"
    config.write_text(TYPO)
    here = [*command, "--runtime-dir", str(tmp_path), "--config", str(config)]

    assert cli.main(here) == 0
    said = capsys.readouterr()
    assert said.out
    assert said.err == (f"edgeagent: warning: {config}: unknown key polcy; the nearest known key is policy\n")

    # Where no agent runs, nobody else has a better one.
    (tmp_path / "address").unlink()
    assert cli.main(here) == 2
    assert f"{config}: unknown key polcy" in capsys.readouterr().err


def test_what_is_right_of_a_wrong_configuration_is_used(server: Agent, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "address").write_text(f"{server.address}\n")
    (tmp_path / "config.yaml").write_text(f"polcy: 1\nserve: {{token_file: {tmp_path / 'token'}}}\n")

    # It is not there, so it was looked for.
    assert cli.main(["status", "--runtime-dir", str(tmp_path), "--config", str(tmp_path / "config.yaml")]) == 2
    assert f"{tmp_path / 'token'}: the token cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["explain", "doctor"])
def test_the_board_is_explained_with_what_the_agent_has_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, command: str
) -> None:
    monkeypatch.setattr(config_module, "DEFAULT_FILE", tmp_path / "config.yaml")
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    (tmp_path / "config.yaml").write_text(TYPO)
    asked = [command, "--host-root", str(ORIN), "--format", "json"]

    assert cli.main(asked) == 2
    assert "unknown key polcy" in capsys.readouterr().err

    good = Config(mode="observe", reserves=Reserves(os=1024**3), serve=Serve(tls=Tls(cert="/a", key="/b")))
    with agent({"config": {"digest": "", "values": plain(good)}}) as running:
        (tmp_path / "address").write_text(f"{running.address}\n")
        assert cli.main(asked) in (0, 1)
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        f"edgeagent: warning: {tmp_path / 'config.yaml'}: unknown key polcy; the nearest known key is policy",
        "edgeagent: warning: what the running agent has in force is used in its place",
    ]
    if command == "explain":
        (pool,) = json.loads(said.out)["pools"]
        assert {"name": "os", "bytes": 1024**3, "origin": "config"} in pool["reserves"]


def test_the_orders_of_the_option_are_those_of_the_table() -> None:
    assert tuple(ORDERS) == top.SORTS


def test_a_page_for_a_pod_whose_name_is_long_keeps_it_whole(server: Agent, capsys: Capture) -> None:
    server.document = state(pods=[pod("a" * 150, "ok", 1, 1, 2)])

    assert cli.main(["top", "--once", "--address", server.address]) == 0
    assert f"shop/{'a' * 150}\n" in capsys.readouterr().out


def test_asking_loads_no_http_server_and_no_driver(server: Agent) -> None:
    script = (
        "import sys; from edgeagent.cli import main; main(sys.argv[1:]); "
        "print([name for name in ('aiohttp', 'pynvml', 'kubernetes', 'rich', 'yaml') if name in sys.modules])"
    )
    for command in (["status"], ["top", "--once"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *command, "--address", server.address],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-1] == "[]"
