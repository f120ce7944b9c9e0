"""What the commands say where they cannot do it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeagent import cli
from edgeagent.errors import InputError
from edgeagent.install import program, systemd
from edgeagent.install.systemd import Systemd
from tests.unit.install.machine import Machine


def test_a_program_that_the_service_could_not_use_does_not_keep_a_dry_run_from_telling(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def hidden(_: Path) -> str:
        raise InputError("/srv/venv/bin/edgeagent: hidden")

    monkeypatch.setattr(program, "find", hidden)
    monkeypatch.setattr(systemd, "missing", lambda: ())

    assert cli.main(["install", "--root", str(machine.root), "--dry-run"]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"below {machine.root}:\nwould write /etc/sysusers.d/edgeagent.conf\n")
    assert "problem: /srv/venv/bin/edgeagent: hidden" in said
    assert cli.main(["install", "--root", str(machine.root)]) == 2
    assert not machine.has("etc/systemd/system/edgeagent.service")


def test_without_root_it_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    for command in ("install", "uninstall"):
        assert cli.main([command]) == 2
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", f"edgeagent: {command} needs root: sudo edgeagent {command}\n")


def test_without_systemd_it_says_what_else(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(machine.root))

    assert cli.main(["install", "--root", str(machine.root)]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert "systemctl, systemd-sysusers, systemd-tmpfiles not found" in said.err
    assert "edgeagent run" in said.err


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_root_that_is_no_folder_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert cli.main([command, "--root", str(tmp_path / "none")]) == 2
    assert "is no directory" in capsys.readouterr().err


def test_a_program_that_is_not_there_is_an_answer(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine.root))

    with pytest.raises(InputError, match=r"systemd-sysusers .*edgeagent\.conf: .*No such file"):
        Systemd(machine.root).make_user("edgeagent.conf")


def test_the_programs_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    tool = tmp_path / "systemctl"
    tool.touch(mode=0o755)

    assert systemd.missing() == ("systemd-sysusers", "systemd-tmpfiles")


def test_uninstall_goes_on_with_the_defaults_where_the_configuration_is_broken(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    machine.write("etc/edgeagent/config.yaml", "mode: of\n")

    assert cli.main(["uninstall", "--root", str(machine.root), "--files-only"]) == 0

    assert "the configuration is left aside" in capsys.readouterr().err
    assert machine.read("etc/edgeagent/config.yaml") == "mode: of\n"
