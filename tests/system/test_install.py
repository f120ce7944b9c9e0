"""``edgeagent install`` and ``uninstall`` under a real systemd, from nothing to a running service and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.machine import UNIT, Machine
from tests.system.requirements import ROOT
from tests.system.unit import FOLDER

pytestmark = ROOT

PROGRAM = "/opt/edgeagent/bin/edgeagent"
BY_HAND = ("etc/systemd/system/edgeagent.service", "etc/sysusers.d/edgeagent.conf", "etc/tmpfiles.d/edgeagent.conf")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine with the program and nothing else of edgeagent."""
    with Machine(tmp_path) as booted:
        booted.run("systemctl", "disable", UNIT)
        booted.run("rm", "-r", *(f"/{path}" for path in BY_HAND), "/etc/edgeagent")
        booted.run("userdel", "edgeagent")
        booted.run("systemctl", "daemon-reload")
        # The program runs from the sources, where these files are links to this folder.
        for file in FOLDER.iterdir():
            booted.write(f"opt/edgeagent/own/systemd/{file.name}", file.read_text())
        yield booted


def test_from_nothing_to_a_running_service_and_back(machine: Machine) -> None:
    said = machine.run(PROGRAM, "install")

    assert "started edgeagent.service" in said
    assert "nothing is evicted until" in said
    assert "mode observe" in machine.run("journalctl", "--unit", UNIT, "--no-pager")
    # Type=notify: it has said READY.
    assert machine.show("ActiveState", "UnitFileState", "FragmentPath") == [
        "active",
        "enabled",
        "/etc/systemd/system/edgeagent.service",
    ]
    assert machine.get("/livez")[0] == 200
    pid = machine.main_pid
    assert machine.run(PROGRAM, "install") == "nothing to do: everything is as edgeagent install leaves it\n"
    assert machine.main_pid == pid

    machine.run(PROGRAM, "uninstall", "--purge")

    assert not any(
        machine.path(path).exists() for path in (*BY_HAND, "etc/edgeagent", "var/lib/edgeagent", "run/edgeagent")
    )
    assert machine.show("LoadState") == ["not-found"]
    assert "edgeagent" not in machine.path("etc/passwd").read_text() + machine.path("etc/group").read_text()
    assert machine.run(PROGRAM, "uninstall").startswith("nothing to do\n")


def test_after_a_new_version_at_the_same_path_the_service_is_restarted(machine: Machine) -> None:
    machine.run(PROGRAM, "install")
    pid = machine.main_pid
    module = "/opt/edgeagent/own/edgeagent/__init__.py"
    machine.run("cp", "--preserve", module, "/opt/new.py")
    machine.run("mount", "--bind", "/opt/new.py", module)

    assert machine.run(PROGRAM, "install") == "restarted edgeagent.service\n"

    assert machine.main_pid not in (0, pid)
    assert machine.run(PROGRAM, "install") == "nothing to do: everything is as edgeagent install leaves it\n"


def test_a_unit_of_another_program_is_restarted_and_an_edited_one_is_left_running(machine: Machine) -> None:
    machine.run(PROGRAM, "install")
    machine.write("etc/edgeagent/config.yaml", "mode: observe\n")
    pid = machine.main_pid
    unit = machine.path(BY_HAND[0])
    machine.write(BY_HAND[0], unit.read_text().replace("WatchdogSec=15", "WatchdogSec=30"))

    said = machine.run(PROGRAM, "install")

    assert "was edited and is kept" in said
    assert machine.main_pid == pid
    machine.run(PROGRAM, "install", "--force")
    assert "WatchdogSec=15" in unit.read_text()
    assert machine.main_pid not in (0, pid)
    assert machine.path("etc/edgeagent/config.yaml").read_text() == "mode: observe\n"


def test_a_service_that_is_starting_is_stopped_before_anything_is_removed(machine: Machine) -> None:
    machine.run(PROGRAM, "install", "--no-start")
    machine.write("etc/systemd/system/edgeagent.service.d/slow.conf", "[Service]\nExecStartPre=/bin/sleep 30\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "--no-block", UNIT)
    assert machine.show("ActiveState") == ["activating"]

    said = machine.run(PROGRAM, "uninstall", "--files-only", "--purge")

    assert "stopped edgeagent.service" in said
    assert "removed the user edgeagent" in said
    assert machine.show("ControlPID", "MainPID", "LoadState") == ["0", "0", "not-found"]


def test_a_service_that_waits_to_be_started_again_is_stopped(machine: Machine) -> None:
    machine.run(PROGRAM, "install", "--no-start")
    drop_in = "[Service]\nExecStartPre=/bin/false\nRestartSec=60\n"
    machine.write("etc/systemd/system/edgeagent.service.d/failing.conf", drop_in)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", UNIT, check=False)
    assert machine.show("SubState") == ["auto-restart"]

    assert "stopped edgeagent.service" in machine.run(PROGRAM, "uninstall", "--files-only")

    assert machine.show("ActiveState") == ["inactive"]


def test_a_broken_configuration_does_not_take_the_running_service_down(machine: Machine) -> None:
    machine.run(PROGRAM, "install")
    pid = machine.main_pid
    machine.write("etc/edgeagent/config.yaml", "mode: off\n")

    done = machine.tried(PROGRAM, "install", "--force")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("edgeagent: /etc/edgeagent/config.yaml: mode: ")
    assert done.stderr.count("\n") == 1
    assert machine.main_pid == pid
