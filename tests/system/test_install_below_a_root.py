"""systemd's own programs below a root: what they make, and that the second time nothing is left to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeagent import cli
from edgeagent.install import program
from edgeagent.install.setup import Wish, install
from edgeagent.install.systemd import Systemd
from edgeagent.install.teardown import Wish as Removal
from edgeagent.install.teardown import uninstall
from tests.unit.factories import config
from tests.unit.install.machine import PROGRAM, Machine

from .requirements import ROOT

pytestmark = ROOT


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


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


def test_the_commands_do_it_below_a_root(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "find", lambda _: PROGRAM)
    root = str(machine.root)

    assert cli.main(["install", "--root", root, "--dry-run"]) == 0
    assert not machine.has("etc/systemd/system/edgeagent.service")
    assert "would write /etc/systemd/system/edgeagent.service" in capsys.readouterr().out
    assert cli.main(["install", "--root", root]) == 0
    assert capsys.readouterr().out.startswith(f"below {root}:\nwrote /etc/sysusers.d/edgeagent.conf\n")
    assert cli.main(["install", "--root", root]) == 0
    assert capsys.readouterr().out == (f"below {root}:\nnothing to do: everything is as edgeagent install leaves it\n")
    assert cli.main(["uninstall", "--root", root, "--files-only", "--purge"]) == 0
    assert "removed the user edgeagent" in capsys.readouterr().out
