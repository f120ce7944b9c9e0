"""The Debian package on a board: a small Debian with systemd as its first process, and no network."""

from __future__ import annotations

import json

import pytest

from edgeagent.install import marks
from tests.packages.conftest import OLDER
from tests.packages.looking import board, files, running
from tests.packages.machine import Machine
from tests.packages.pythons import find, lay
from tests.packages.requirements import MACHINE, ONCE

pytestmark = [MACHINE, ONCE]

INSTALL = "dpkg -i /media/edgeagent.deb"
CONFIG = "# mine\nmode: observe\nsampling: {interval: 1s}\n"
# No version writes a format 0, and none knows this key.
STATE = '{"format": 0, "of": "another version"}'


@pytest.fixture
def installed(machine: Machine) -> Machine:
    machine.run(INSTALL)
    return machine


def test_an_upgrade_keeps_configuration_and_state(machine: Machine) -> None:
    machine.run("dpkg -i /media/older.deb")
    machine.write("/etc/edgeagent/config.yaml", CONFIG)
    machine.write("/etc/edgeagent/config.d/site.yaml", "node: {name: orin-7}\n")
    machine.run("systemctl stop edgeagent")
    machine.write("/var/lib/edgeagent/state.json", STATE)
    machine.write("/var/lib/edgeagent/other", "kept")
    machine.run("chown -R edgeagent: /var/lib/edgeagent; systemctl start edgeagent")
    before = machine.main_pid()

    said = machine.run(INSTALL)

    assert f"over ({OLDER}-1)" in said
    assert machine.state() == ("active", "enabled")
    assert machine.main_pid() not in (0, before)
    assert OLDER not in machine.run("edgeagent --version")
    _is_kept(machine)
    # The state of another version is not used, and does not keep the agent from running.
    assert "state.json is not used: it is of another version" in machine.run("journalctl --unit edgeagent --no-pager")


def test_a_downgrade_keeps_them_too(installed: Machine) -> None:
    installed.write("/etc/edgeagent/config.yaml", CONFIG)
    installed.write("/etc/edgeagent/config.d/site.yaml", "node: {name: orin-7}\n")
    installed.write("/var/lib/edgeagent/other", "kept")
    before = installed.main_pid()

    installed.run("dpkg -i /media/older.deb")

    assert installed.run("edgeagent --version") == f"edgeagent {OLDER}\n"
    assert installed.state() == ("active", "enabled")
    assert installed.main_pid() not in (0, before)
    _is_kept(installed)


def _is_kept(machine: Machine) -> None:
    assert machine.run("cat /etc/edgeagent/config.yaml") == CONFIG
    assert machine.run("cat /etc/edgeagent/config.d/site.yaml") == "node: {name: orin-7}\n"
    assert machine.run("cat /var/lib/edgeagent/other") == "kept"
    assert machine.run("ls /etc/edgeagent /etc/edgeagent/config.d").split() == [
        "/etc/edgeagent:", "config.d", "config.yaml", "/etc/edgeagent/config.d:", "site.yaml",
    ]  # fmt: skip


def test_who_disabled_the_service_is_not_overruled(machine: Machine) -> None:
    machine.run("dpkg -i /media/older.deb; systemctl disable --now edgeagent")

    machine.run(INSTALL)

    assert machine.state() == ("inactive", "disabled")


def test_a_configuration_that_cannot_be_used_leaves_the_package_installed(machine: Machine) -> None:
    machine.write("/etc/edgeagent/config.yaml", "mode: maybe\n")

    machine.run(INSTALL)

    assert machine.state() == ("failed", "enabled")
    assert machine.run("dpkg --audit") == ""
    machine.fails("edgeagent config check")


def test_removed_it_leaves_configuration_and_state(installed: Machine) -> None:
    installed.write("/etc/edgeagent/config.yaml", CONFIG)
    installed.write("/var/lib/edgeagent/other", "kept")
    assert running(installed)

    installed.run("dpkg --remove edgeagent")

    assert installed.run("cat /etc/edgeagent/config.yaml") == CONFIG
    assert installed.run("cat /var/lib/edgeagent/other") == "kept"
    assert installed.run("ls /opt; ls -d /usr/bin/edgeagent /usr/lib/edgeagent 2>/dev/null", check=False) == ""
    assert not running(installed)
    # Installed again it goes on where it was.
    installed.run(INSTALL)
    assert installed.state() == ("active", "enabled")
    assert installed.run("cat /etc/edgeagent/config.yaml") == CONFIG


def test_an_api_server_that_is_down_does_not_keep_it_installed(installed: Machine) -> None:
    # K3s' own kubelet's credential, and nobody who listens at the address in it.
    cluster = {"name": "k3s", "cluster": {"server": "https://127.0.0.1:6443", "insecure-skip-tls-verify": True}}
    kubeconfig = {
        "clusters": [cluster],
        "users": [{"name": "node", "user": {"token": "none"}}],
        "contexts": [{"name": "here", "context": {"cluster": "k3s", "user": "node"}}],
        "current-context": "here",
    }
    installed.write("/var/lib/rancher/k3s/agent/kubelet.kubeconfig", json.dumps(kubeconfig))
    installed.write("/etc/edgeagent/config.yaml", "node: {name: orin-7}\n")

    said = installed.run("dpkg --remove edgeagent")

    assert "what was published is still on the node" in said
    assert installed.run("ls /opt") == ""
    assert installed.run("dpkg --audit") == ""


def test_purged_it_leaves_nothing(machine: Machine) -> None:
    before = files(machine)
    users = machine.run("cat /etc/passwd")
    machine.run(INSTALL)
    machine.write("/etc/edgeagent/config.yaml", CONFIG)
    machine.write("/var/lib/edgeagent/other", "gone")
    assert files(machine) - before

    machine.run("dpkg --purge edgeagent")

    assert files(machine) == before
    assert machine.run("cat /etc/passwd") == users
    groups = machine.run("cut -d: -f1,4 /etc/group").splitlines()
    assert not [line for line in groups if "edgeagent" in line]
    assert machine.run("systemctl status edgeagent", check=False).startswith(
        "Unit edgeagent.service could not be found"
    )
    assert machine.run("ls /run/edgeagent 2>/dev/null", check=False) == ""


@pytest.mark.parametrize(
    "change",
    [
        # Only what is essential has to be there at a purge, and passwd is not.
        "mv /usr/sbin/userdel /usr/sbin/groupdel /usr/sbin/usermod /root",
        # The user's group does not go with the user.
        "sed -i 's/^USERGROUPS_ENAB.*/USERGROUPS_ENAB no/' /etc/login.defs",
    ],
)
def test_it_is_purged_whatever_there_is_for_removing_users(installed: Machine, change: str) -> None:
    installed.run("dpkg --remove edgeagent")
    installed.run(change)

    installed.run("dpkg --purge edgeagent")

    assert installed.run("dpkg-query --show edgeagent 2>&1", check=False) == (
        "dpkg-query: no packages found matching edgeagent\n"
    )
    assert installed.run("ls -d /etc/edgeagent /var/lib/edgeagent 2>/dev/null", check=False) == ""
    left = installed.run("getent passwd edgeagent; getent group edgeagent", check=False).splitlines()
    assert len(left) == (2 if "userdel" in change else 0)


def test_what_was_made_by_hand_is_not_overwritten(machine: Machine) -> None:
    machine.write("/opt/edgeagent/bin/edgeagent", "mine")
    before = files(machine)

    said = machine.fails(INSTALL)

    assert "/opt/edgeagent was not made by this package" in said
    assert files(machine) == before
    assert machine.run("cat /opt/edgeagent/bin/edgeagent") == "mine"


def test_a_unit_made_by_hand_would_hide_that_of_the_package(machine: Machine) -> None:
    unit = "/etc/systemd/system/edgeagent.service"
    text = marks.marked("[Service]\nExecStart=/srv/edgeagent/bin/edgeagent run\n").decode()
    machine.write(unit, text)
    before = files(machine)

    said = machine.fails(INSTALL)

    assert f"{unit} was written by edgeagent install" in said
    assert "sudo /srv/edgeagent/bin/edgeagent uninstall --files-only --keep-config" in said
    assert "rm -r" not in said
    assert files(machine) == before


def test_the_first_installation_begins_with_a_look_and_no_later_one(machine: Machine) -> None:
    said = machine.run("dpkg -i /media/older.deb")
    assert "nothing is evicted until /etc/edgeagent/config.yaml says mode: enforce" in said
    assert "\nmode: observe\n" in machine.run("cat /etc/edgeagent/config.yaml")

    # Without a configuration the defaults hold, and an upgrade leaves it at that.
    machine.run("rm /etc/edgeagent/config.yaml")
    assert "nothing is evicted" not in machine.run(INSTALL)
    assert machine.run("ls /etc/edgeagent") == "config.d\n"
    machine.run("dpkg --remove edgeagent")
    machine.run(INSTALL)
    assert machine.run("ls /etc/edgeagent") == "config.d\n"


def test_a_configuration_that_is_there_at_the_first_installation_stays(machine: Machine) -> None:
    machine.write("/etc/edgeagent/config.yaml", CONFIG)

    assert "nothing is evicted" not in machine.run(INSTALL)
    assert machine.run("cat /etc/edgeagent/config.yaml") == CONFIG


@pytest.mark.parametrize("edited", [False, True])
def test_what_k3s_was_told_goes_with_a_purge_unless_it_was_edited(installed: Machine, edited: bool) -> None:  # noqa: FBT001 (a case)
    told = "/etc/rancher/k3s/config.yaml.d/90-edgeagent-reserves.yaml"
    text = marks.marked("kubelet-arg+:\n  - system-reserved=memory=1024Mi\n").decode()
    installed.write(told, text + ("# mine\n" if edited else ""))

    said = installed.run("dpkg --purge edgeagent")

    assert f"{told} was edited and stays" in said if edited else f"removed {told}" in said
    assert installed.path(told).exists() == edited


def test_a_new_python_of_the_system_gets_an_environment_of_its_own(installed: Machine) -> None:
    seen = {installed.main_pid()}
    for version in ("3.10", "3.12"):  # of JetPack 6 and 7; the system's own here is 3.11
        lay(find(version), installed)
        # As the distribution's upgrade does it: another program under the same name, then the triggers.
        installed.run(f"ln -sf python{version} /usr/bin/python3 && dpkg-trigger --no-await /usr/bin/python3")
        installed.run("dpkg --configure --pending")

        assert installed.run("ls /opt/edgeagent/lib") == f"python{version}\n"
        assert board(installed, "edgeagent") == "jetson"
        assert installed.state() == ("active", "enabled")
        assert installed.main_pid() not in {0, *seen}
        seen.add(installed.main_pid())
