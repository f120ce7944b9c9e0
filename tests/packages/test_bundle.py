"""The offline bundle, unpacked and used on a board without network."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages.building import Built
from tests.packages.conftest import BOARD
from tests.packages.looking import board
from tests.packages.machine import Machine
from tests.packages.requirements import MACHINE, ONCE

pytestmark = [MACHINE, ONCE]


@pytest.fixture
def unpacked(tmp_path: Path, debian: Path, built: Built) -> Iterator[Machine]:
    """A board with the bundle's files in /root/bundle."""
    machine = Machine(tmp_path, debian)
    shutil.copy(built.one("*-offline.tar.gz"), machine.shared / "bundle.tar.gz")
    shutil.copytree(BOARD, machine.shared / "board")
    with machine:
        machine.run("mkdir /root/bundle && tar -xzf /media/bundle.tar.gz --strip-components=1 -C /root/bundle")
        yield machine


def test_it_installs_the_package(unpacked: Machine) -> None:
    unpacked.run("/root/bundle/install.sh")

    assert unpacked.state() == ("active", "enabled")
    assert board(unpacked, "nobody") == "jetson"
    # The package has that place now.
    assert "the package edgeagent is installed here" in unpacked.fails("/root/bundle/install.sh --venv")
    assert board(unpacked, "nobody") == "jetson"


def test_it_makes_an_environment_where_there_is_no_dpkg(unpacked: Machine) -> None:
    unpacked.run("mv /usr/bin/dpkg /usr/bin/dpkg.away")

    assert "install.sh --venv" in unpacked.fails("/root/bundle/install.sh")
    said = unpacked.run("/root/bundle/install.sh --venv")
    # Once more is an upgrade.
    unpacked.run("/root/bundle/install.sh --venv")

    assert said.endswith("Next: /opt/edgeagent/bin/edgeagent install\n")
    unpacked.run("ln -s /opt/edgeagent/bin/edgeagent /usr/local/bin/edgeagent")
    assert board(unpacked, "nobody") == "jetson"
    # What it says is next works, with what came in the wheel.
    assert "nothing is evicted until" in unpacked.run(said.rpartition("Next: ")[2])
    assert "mode observe" in unpacked.run("journalctl --unit edgeagent --no-pager")
    assert unpacked.state() == ("active", "enabled")


@pytest.mark.parametrize("change", ["echo >>wheels/edgeagent-*.whl", "rm make-venv"])
def test_a_damaged_bundle_installs_nothing(unpacked: Machine, change: str) -> None:
    unpacked.run(f"cd /root/bundle && {change}")

    assert "the bundle is damaged" in unpacked.fails("/root/bundle/install.sh")
    assert unpacked.run("ls /opt") == ""


def test_only_root_installs_and_unknown_options_do_nothing(unpacked: Machine) -> None:
    unpacked.run("cp -r /root/bundle /srv/bundle")

    assert "run it as root" in unpacked.run("/srv/bundle/install.sh || true", user="nobody")
    assert "usage" in unpacked.fails("/root/bundle/install.sh --help")
    assert unpacked.run("ls /opt") == ""


def test_it_has_packages_and_wheels_for_both_architectures(built: Built) -> None:
    with tarfile.open(built.one("*-offline.tar.gz")) as archive:
        names = archive.getnames()
        owners = {(member.uid, member.gid, member.uname, member.mtime) for member in archive}

    assert owners == {(0, 0, "root", 1700000000)}
    for part in (
        "_amd64.deb",
        "_arm64.deb",
        "_aarch64.whl",
        "_x86_64.whl",
        "/install.sh",
        "/SHA256SUMS",
        "-offline/LICENSE",
    ):
        assert [name for name in names if name.endswith(part)], part
