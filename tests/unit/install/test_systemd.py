"""systemd's own programs below a root: what they make, and that the second time nothing is left to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeagent import cli
from edgeagent.errors import InputError
from edgeagent.install import program, systemd
from edgeagent.install.setup import Wish, install
from edgeagent.install.systemd import Systemd
from edgeagent.install.teardown import Wish as Removal
from edgeagent.install.teardown import uninstall
from tests.system.requirements import SYSTEMD
from tests.unit.factories import config
from tests.unit.install.machine import PROGRAM, Machine


@SYSTEMD
def test_user_folders_and_the_link_that_starts_it_at_boot_are_made_and_taken_away(machine: Machine) -> None:
    real = Systemd(machine.root)

    install(Wish(root=machine.root), real, PROGRAM)

    assert (machine.root / "etc/systemd/system/multi-user.target.wants/edgeagent.service").is_symlink()
    assert real.has_user()
    assert machine.has("etc/edgeagent/config.d")
    assert not real.running
    again = install(Wish(root=machine.root), real, PROGRAM)
    assert again.done == []

    gone = uninstall(Removal(root=machine.root, purge=True), config(), real, None)
    assert gone.problems == []
    assert not (machine.root / "etc/systemd/system/multi-user.target.wants/edgeagent.service").is_symlink()
    assert "edgeagent" not in machine.read("etc/passwd") + machine.read("etc/group")


@SYSTEMD
def test_the_commands_do_it_below_a_root(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "find", lambda _: PROGRAM)
    root = str(machine.root)

    assert cli.main(["install", "--root", root, "--dry-run"]) == 0
    assert not machine.has("etc/systemd/system/edgeagent.service")
    assert "would write /etc/systemd/system/edgeagent.service" in capsys.readouterr().out
    assert cli.main(["install", "--root", root]) == 0
    assert capsys.readouterr().out.startswith("wrote /etc/sysusers.d/edgeagent.conf\n")
    assert cli.main(["install", "--root", root]) == 0
    assert capsys.readouterr().out == "nothing to do: everything is as edgeagent install leaves it\n"
    assert cli.main(["uninstall", "--root", root, "--files-only", "--purge"]) == 0
    assert "removed the user edgeagent" in capsys.readouterr().out


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
