"""A board on which the Debian package was just installed; these tests change nothing there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages.building import Built
from tests.packages.conftest import furnished
from tests.packages.looking import board
from tests.packages.machine import Machine
from tests.packages.requirements import MACHINE, ONCE

pytestmark = [MACHINE, ONCE]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, debian: Path, built: Built, older: Path) -> Iterator[Machine]:
    with furnished(tmp_path_factory.mktemp("board"), debian, built, older) as machine:
        machine.run("dpkg -i /media/edgeagent.deb")
        yield machine


def test_the_machine_has_no_network_and_no_pip(installed: Machine) -> None:
    assert installed.run("tail -n +3 /proc/net/dev | cut -d: -f1").split() == ["lo"]
    installed.fails("python3 -m pip --version")
    installed.fails("python3 -m ensurepip --version")


def test_it_is_installed_and_runs(installed: Machine) -> None:
    assert installed.state() == ("active", "enabled")
    assert installed.run("systemctl show --property=User --value edgeagent").strip() == "edgeagent"
    assert installed.run("id -nG edgeagent").split() == ["edgeagent", "video", "render"]
    assert installed.run("stat -c '%U %a' /etc/edgeagent /etc/edgeagent/config.d").split() == ["root", "755"] * 2
    assert installed.run("ls /etc/edgeagent/config.d") == ""
    assert installed.run("dpkg --verify edgeagent; dpkg --audit") == ""


@pytest.mark.parametrize("user", ["root", "edgeagent", "nobody"])
def test_its_commands_work_for(installed: Machine, user: str) -> None:
    version = installed.run("dpkg-query --show --showformat='${Version}' edgeagent")

    assert installed.run("edgeagent --version", user=user) == f"edgeagent {version.removesuffix('-1')}\n"
    assert board(installed, user) == "jetson"
    assert installed.run("edgeagent config check", user=user) == "/etc/edgeagent/config.yaml: ok\n"


def test_it_begins_with_a_look_that_evicts_nobody(installed: Machine) -> None:
    assert "mode observe" in installed.run("journalctl --unit edgeagent --no-pager")
    assert installed.run("stat -c '%U %a' /etc/edgeagent/config.yaml") == "root 644\n"


def test_its_environment_is_its_own_and_small(installed: Machine) -> None:
    # All is root's, and nobody else can write there; links have no mode of their own.
    assert installed.run(r"find /opt/edgeagent \( ! -user root -o ! -type l -perm /022 \)") == ""
    # Links lead to the system's Python and are no copies of it.
    assert installed.run("readlink -f /opt/edgeagent/bin/python3").strip() == "/usr/bin/python3.11"
    # It was made under another name, which no file has kept.
    installed.fails("grep -rIl edgeagent.new /opt/edgeagent")
    # 40 MB is what the agent may take on a board.
    kib = int(installed.run("du -s --apparent-size /opt/edgeagent").split()[0])
    assert kib * 1024 < 40e6


def test_top_is_live(installed: Machine) -> None:
    # script, which every Debian has, gives it a terminal; the key comes when the page is there.
    live = "stty rows 40 cols 100; TERM=xterm timeout --foreground 30 edgeagent top"
    key = "timeout 30 sh -c 'until grep -q quit /tmp/page; do sleep 0.1; done 2>&-; printf q'"

    said = installed.run(f"{key} | script --quiet --flush --return --command '{live}' /tmp/page", user="nobody")

    assert "q quit" in said


def test_the_same_python_changes_nothing(installed: Machine) -> None:
    before = installed.main_pid()

    installed.run("dpkg-trigger --no-await /usr/bin/python3 && dpkg --configure --pending")

    assert installed.main_pid() == before
