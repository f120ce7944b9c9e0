"""The Debian package where systemd is there and does not run: an image that is being built, a container."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.packages.building import Built, architecture
from tests.packages.looking import files, running
from tests.packages.machine import NOTHING, Machine
from tests.packages.requirements import MACHINE, ONCE

pytestmark = [MACHINE, ONCE]


@pytest.fixture
def image(tmp_path: Path, debian: Path, built: Built) -> Machine:
    machine = Machine(tmp_path, debian, NOTHING)
    shutil.copy(built.deb(architecture()), machine.shared / "edgeagent.deb")
    return machine


def test_it_is_enabled_for_the_first_boot_and_nothing_is_started(image: Machine) -> None:
    with image as machine:
        before = files(machine)

        machine.run("dpkg -i /media/edgeagent.deb")

        assert machine.run("systemctl is-enabled edgeagent") == "enabled\n"
        assert not running(machine)
        assert machine.run("edgeagent --version", user="edgeagent").startswith("edgeagent ")

        machine.run("dpkg --purge edgeagent")

        assert files(machine) == before
