"""The how-tos for packages, each command run as it stands there, in its order."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages.building import REPOSITORY, Built
from tests.packages.conftest import OLDER
from tests.packages.machine import Machine
from tests.packages.requirements import MACHINE, ONCE

pytestmark = [MACHINE, ONCE]

# The board's user is root here.
SUDO = 'set -e; cd /root; sudo() { "$@"; }\n'


def commands(name: str) -> dict[str, str]:
    """The indented blocks of a how-to by the heading that they are under."""
    text = (REPOSITORY / f"docs/how-to/{name}.md").read_text()
    sections = re.split(r"^#+ (.*)\n", text, flags=re.MULTILINE)[1:]
    blocks = (re.findall(r"^ {4}(.*)$", body, flags=re.MULTILINE) for body in sections[1::2])
    return {heading: "\n".join(lines) for heading, lines in zip(sections[::2], blocks, strict=True) if lines}


@pytest.fixture
def board(tmp_path: Path, debian: Path, built: Built, older: Path) -> Iterator[Machine]:
    """A board with what was copied to it, in /root."""
    machine = Machine(tmp_path, debian)
    for pattern in ("*.deb", "*-offline.tar.gz"):
        for file in built.folder.glob(pattern):
            shutil.copy(file, machine.shared)
    (machine.shared / "older").mkdir()
    shutil.copy(older, machine.shared / "older")
    with machine:
        machine.run("cp /media/*.deb /media/*.gz /root")
        yield machine


def test_install_a_package(board: Machine) -> None:
    steps = commands("install-a-package")
    assert list(steps) == [
        "1. Build it", "2. Install", "3. Check", "Remove", "The wheel alone",
    ]  # fmt: skip

    board.run(SUDO + steps["2. Install"])
    said = board.run(SUDO + steps["3. Check"])

    assert "/etc/edgeagent/config.yaml: ok" in said
    assert "Status: " in said
    assert "mode observe" in board.run("journalctl --unit edgeagent --no-pager")
    remove, settle, purge = re.split(r"\n(?=sudo systemctl stop|sudo dpkg --purge)", steps["Remove"])
    board.run(SUDO + settle)
    board.run(SUDO + remove)
    assert "\nmode: observe\n" in board.run("cat /etc/edgeagent/config.yaml")
    board.run(SUDO + purge)
    assert board.run("ls -d /etc/edgeagent /var/lib/edgeagent /opt/edgeagent 2>/dev/null", check=False) == ""


def test_upgrade(board: Machine) -> None:
    steps = commands("upgrade")
    assert list(steps) == ["Upgrade", "Check", "From an installation by hand"]

    board.run("dpkg --install /media/older/*.deb")
    # With both in one folder, as they gather there.
    board.run("cp /media/older/*.deb /root")
    board.run(SUDO + steps["Upgrade"])
    said = board.run(SUDO + steps["Check"])

    assert said.startswith("edgeagent ")
    assert OLDER not in said.splitlines()[0]
    assert said.splitlines()[1] == "active"


def test_from_an_installation_by_hand(board: Machine) -> None:
    bundle = commands("air-gapped")
    board.run(SUDO + bundle["2. Install"].replace("./install.sh", "./install.sh --venv"))
    board.run("/opt/edgeagent/bin/edgeagent install && echo 'mode: observe' >/etc/edgeagent/config.yaml")
    board.write("/var/lib/edgeagent/other", "kept")

    board.run(SUDO + commands("upgrade")["From an installation by hand"])

    assert board.state() == ("active", "enabled")
    assert board.run("systemctl show --property=FragmentPath --value edgeagent").endswith(
        "lib/systemd/system/edgeagent.service\n"
    )
    assert board.run("cat /etc/edgeagent/config.yaml /var/lib/edgeagent/other") == "mode: observe\nkept"


def test_air_gapped(board: Machine) -> None:
    steps = commands("air-gapped")
    assert list(steps) == ["1. Make the bundle", "2. Install", "Without dpkg", "Into an environment of your own"]

    board.run(SUDO + steps["2. Install"])

    assert board.state() == ("active", "enabled")


def test_air_gapped_without_dpkg(board: Machine) -> None:
    steps = commands("air-gapped")
    board.run(SUDO + steps["2. Install"].replace("sudo ./install.sh", ""))

    board.run(SUDO + "cd edgeagent-*-offline\n" + steps["Without dpkg"])

    assert board.state() == ("active", "enabled")


def test_what_is_said_of_the_machine_that_builds_is_what_the_tests_do() -> None:
    assert commands("install-a-package")["1. Build it"] == "packaging/build.py"
    assert commands("air-gapped")["1. Make the bundle"].startswith("packaging/build.py\n")
