"""The command line's own manners."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgeagent import cli, config
from edgeagent.cli import arguments as options_of
from edgeagent.demo import play
from tests.unit.snapshot.making import orin, write


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "COMMAND"),
        (["fly"], "fly"),
        (["explain", "--format", "xml"], "xml"),
        (["run", "--nonsense"], "--nonsense"),
        (["run", "--kubecnfig", "x"], "did you mean --kubeconfig? (see edgeagent run --help)"),
        (["fleet", "observe", "--nonsense"], "(see edgeagent fleet observe --help)"),
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


@pytest.mark.parametrize("command", ["explain", "doctor"])
def test_what_a_snapshot_does_not_heed_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = str(write(tmp_path / "board", orin(0)))
    assert cli.main([command, board, "--kubeconfig", "x", "--host-root", "/host"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("edgeagent: --kubeconfig, --host-root: not beside a snapshot")
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("environ", "options", "warned"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.43.0.1"}, [], True),
        ({"KUBERNETES_SERVICE_HOST": "10.43.0.1"}, ["--host-root"], False),
        ({}, [], False),
    ],
    ids=["in-a-pod", "the-board-from-a-pod", "no-pod"],
)
@pytest.mark.parametrize("command", ["explain", "record"])
def test_in_a_pod_it_is_said_that_the_container_is_looked_at(
    command: str,
    environ: dict[str, str],
    options: list[str],
    warned: bool,  # noqa: FBT001 (a parameter of the cases)
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "host/proc").mkdir(parents=True)
    monkeypatch.setattr(options_of, "MOUNTED", tmp_path / "host")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    target = [str(tmp_path / "snapshot")] if command == "record" else []
    cli.main([command, *target, "--config", os.devnull, *options, *([str(tmp_path / "host")] if options else [])])
    assert ("--host-root" in capsys.readouterr().err) is warned


def test_the_help_of_the_demo_tells_its_own_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["demo", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "/var/lib/edgeagent" not in told
    assert "/run/edgeagent" not in told
    assert "(default /)" not in told
    assert "in which a node and pods are made" in told


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


def test_config_check_warns_of_a_token_that_everybody_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token, file = tmp_path / "token", tmp_path / "config.yaml"
    token.write_text("secret")
    file.write_text(f"serve: {{token_file: {token}}}\n")

    for mode, warned in ((0o644, True), (0o640, False), (0o600, False)):
        token.chmod(mode)
        assert cli.main(["config", "check", str(file)]) == 0
        said = capsys.readouterr()
        assert said.out == f"{file}: ok\n"
        told = f"warning: serve.token_file: {token}: everybody on this machine can read the token (mode 0644)"
        assert (told in said.err, bool(said.err)) == (warned, warned)

    token.unlink()  # as where the configuration of another machine is checked
    assert cli.main(["config", "check", str(file)]) == 0
    assert capsys.readouterr().err == ""


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


# --- explain: the terminal -----------------------------------------------------------


@pytest.fixture
def board(tmp_path: Path) -> str:
    """An Orin whose pod is over its budget."""
    return str(write(tmp_path / "board", orin(3000)))


def terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Standard output is a terminal of so many columns."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_file_gets_no_colour_and_80_columns(
    board: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["explain", board]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert 70 < max(len(line) for line in out.splitlines()) <= 80


@pytest.mark.parametrize(("columns", "least", "most"), [(40, 50, 60), (100, 90, 100), (300, 110, 120)])
def test_a_terminal_gets_colour_and_its_own_width(
    board: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    columns: int,
    least: int,
    most: int,
) -> None:
    terminal(monkeypatch, columns)
    assert cli.main(["explain", board]) == 0
    out = capsys.readouterr().out
    assert "\x1b[31m" in out
    # The bar is as wide as the page but for two blanks on either side.
    (bar,) = [line for line in out.splitlines() if line.startswith("  [")]
    assert least < len(bar.replace("\x1b[31m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")) <= most


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_refused(
    board: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    terminal(monkeypatch, 80)
    monkeypatch.setenv(name, value)
    assert cli.main(["explain", board]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("setting", [{"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "latin-1"}])
def test_a_locale_without_the_signs_gets_ascii(board: str, setting: dict[str, str]) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONIO"))}
    done = subprocess.run(
        [sys.executable, "-m", "edgeagent", "explain", board], capture_output=True, check=True, env=environ | setting
    )
    assert done.stdout.isascii()
    assert b"  [###" in done.stdout


# --- explain: would it fit? ----------------------------------------------------------


def test_would_it_fit(board: str, capsys: pytest.CaptureFixture[str]) -> None:
    # The pool has 6083 MiB after its reserves, and 2048 of them are booked.
    assert cli.main(["explain", board, "--would-fit", "a=gpu:2Gi", "b=gpu:1Gi", "--would-fit", "c=gpu:512Mi"]) == 0
    assert capsys.readouterr().out.endswith("Yes: all 3 fit together.\n")

    assert cli.main(["explain", board, "--would-fit", "a=gpu:4Gi"]) == 1
    # 2048 + 4096 - 6083.86, rounded up.
    assert "edgeagent.dev/gpu-memory: 61 MiB short" in capsys.readouterr().out


def test_every_malformed_model_is_a_line(board: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", board, "--would-fit", "a=gpu:2", "b", "c=gpu:1Gi", "d*0=gpu:1Gi"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.split(": ")[:3] for line in captured.err.splitlines()] == [
        ["edgeagent", "--would-fit", "a"],
        ["edgeagent", "--would-fit", "'b'"],
        ["edgeagent", "--would-fit", "d"],
    ]


def test_the_document_has_the_answer_only_if_asked(board: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", board, "--format", "json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert cli.main(["explain", board, "--format", "json", "--would-fit", "a=gpu:4Gi"]) == 1
    asked = json.loads(capsys.readouterr().out)
    answer = asked.pop("would_fit")
    assert asked == plain
    assert answer["fits"] is False
    assert answer["models"][0]["requests"] == {"edgeagent.dev/gpu-memory": 4 * 2**30}


def test_of_a_series_the_last_sample_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    series = {
        "frames.yaml": [{"frame": "0000", "at": 0.0}, {"frame": "0001", "at": 1.0}],
        "frames/0001/cluster/pods.json": {"kind": "PodList", "items": []},
    }
    board = str(write(tmp_path, orin(100) | series))
    assert cli.main(["explain", board, "--would-fit", "a=gpu:5Gi"]) == 0
    assert capsys.readouterr().out.count("WOULD IT FIT?") == 1
    assert cli.main(["explain", board, "--format", "json", "--would-fit", "a=gpu:5Gi"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ["would_fit" in line for line in lines] == [False, True]


def test_a_folder_that_may_not_be_entered_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(_: Path) -> bool:
        raise PermissionError(13, "Permission denied", "/root/agent.yaml")

    monkeypatch.setattr(Path, "exists", closed)
    assert cli.main(["config", "check", "/root/agent.yaml"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "edgeagent: /root/agent.yaml: Permission denied; run it as root\n"


def test_a_full_disk_behind_stdout_is_said_in_one_line(board: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "edgeagent", "explain", board],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, "edgeagent: No space left on device: not all was written\n")
