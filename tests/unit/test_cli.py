"""The command line's own manners."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from edgeagent import cli, config
from edgeagent.demo import play


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "COMMAND"),
        (["fly"], "fly"),
        (["explain", "--format", "xml"], "xml"),
        (["run", "--nonsense"], "--nonsense"),
        (["demo", "--speed", "0"], "--speed"),
        (["demo", "--speed", "fast"], "--speed"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    captured = capsys.readouterr()
    assert ended.value.code == 2
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert said in captured.err


def test_config_check_lists_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("polcy: {}\nmode: of\nserve: {bind: '0.0.0.0:9843'}\n")
    assert cli.main(["config", "check", str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(str(file) in line for line in lines)
    assert "the nearest known key is policy" in lines[0]

    file.write_text("mode: observe\n")
    assert cli.main(["config", "check", str(file)]) == 0
    assert cli.main(["config", "check", str(tmp_path / "none.yaml")]) == 2


def test_a_configuration_that_cannot_be_used_stops_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("sampling: {interval: soon}\n")
    assert cli.main(["run", "--config", str(file), "--runtime-dir", str(tmp_path / "run")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "sampling.interval" in captured.err


def test_the_configuration_of_the_machine_is_not_that_of_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = tmp_path / "config.yaml"
    machine.write_text("mode: observe\n")
    monkeypatch.setattr(config, "DEFAULT_FILE", machine)
    modes: list[str] = []

    def played(_: argparse.Namespace, found: config.Config) -> int:
        modes.append(found.mode)
        return 0

    monkeypatch.setattr(play, "run", played)

    assert cli.main(["demo"]) == 0
    assert cli.main(["demo", "--config", str(machine)]) == 0
    assert modes == ["enforce", "observe"]


def test_explain_of_a_recording_loads_neither_http_nor_a_driver() -> None:
    board = Path(__file__).parent.parent / "boards/desktop-rtx3060/snapshot"
    script = (
        "import sys; from edgeagent.cli import main; code = main(['explain', sys.argv[1]]); "
        "print([name for name in ('aiohttp', 'pynvml', 'kubernetes', 'prometheus_client') if name in sys.modules]); "
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(board)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_empty_board_and_one_without_a_cluster_are_two_things(capsys: pytest.CaptureFixture[str]) -> None:
    board = Path(__file__).parent.parent / "boards/desktop-rtx3060/snapshot"
    assert cli.main(["explain", str(board)]) == 0
    assert "Pods: not known" in capsys.readouterr().out
