"""What is in the archive: the same bytes from any build, for both machines, and nothing that is not needed."""

from __future__ import annotations

import hashlib
import re
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import PurePosixPath

import pytest

from edgeagent import __version__
from tests.image import built
from tests.packages.requirements import ONCE

pytestmark = ONCE

BOTH = ("amd64", "arm64")
MIB = 1024 * 1024
# ELF's e_machine (elf.h): EM_X86_64, EM_AARCH64
ELF_MACHINES = {"amd64": 62, "arm64": 183}
LOCKED = re.compile(r"^date (\d{8}T\d{6}Z)$", re.MULTILINE)


def test_two_builds_give_the_same_bytes(builds: tuple[built.Build, built.Build], image: built.Image) -> None:
    other = builds[1].wait()

    assert other.digest == image.digest
    digests = {hashlib.sha256(one.archive.read_bytes()).hexdigest() for one in (image, other)}
    assert len(digests) == 1


def test_the_build_says_what_it_made(image: built.Image) -> None:
    assert image.name == f"docker.io/library/edgeagent:{__version__}"
    assert image.said.splitlines()[-1] == f"{image.name}@{image.digest}"


def test_it_is_for_both_machines(image: built.Image) -> None:
    assert set(image.manifests) == set(BOTH)
    for arch in BOTH:
        assert image.config(arch)["architecture"] == arch
        assert image.config(arch)["os"] == "linux"


@pytest.mark.parametrize("arch", BOTH)
def test_every_program_and_library_is_for_its_machine(image: built.Image, arch: str) -> None:
    machines = {}
    with tarfile.open(image.archive) as archive:
        for blob in image.manifests[arch]["layers"]:
            with tarfile.open(fileobj=archive.extractfile(f"blobs/{blob['digest'].replace(':', '/')}")) as layer:
                for entry in layer:
                    stream = layer.extractfile(entry) if entry.isreg() else None
                    head = stream.read(20) if stream else b""
                    if head.startswith(b"\x7fELF"):
                        machines[entry.name] = int.from_bytes(head[18:20], "little")

    # Python itself, the C library, a module of a wheel
    assert {"usr/bin/python3.13", "usr/lib/python3/dist-packages/yaml"} <= {
        name if name.startswith("usr/bin") else str(PurePosixPath(name).parent) for name in machines
    }
    assert set(machines.values()) == {ELF_MACHINES[arch]}


@pytest.mark.parametrize("arch", BOTH)
def test_it_is_small(image: built.Image, arch: str) -> None:
    unpacked = sum(entry.size for entry in image.entries(arch))
    compressed = sum(layer.compressed for layer in image.layers(arch))
    sys.stdout.write(f"{arch}: {unpacked / MIB:.1f} MiB, to be moved {compressed / MIB:.1f} MiB\n")

    assert unpacked < 80 * MIB
    assert compressed < 30 * MIB


@pytest.mark.parametrize("arch", BOTH)
def test_an_upgrade_of_the_agent_moves_the_top_layer_alone(image: built.Image, arch: str) -> None:
    names = [layer.created_by for layer in image.layers(arch)]
    folders = [any("/edgeagent/" in entry.name for entry in layer.entries) for layer in image.layers(arch)]

    assert names == ["image/build: debian", "image/build: dependencies", "image/build: agent"]
    assert folders == [False, False, True]
    assert image.layers(arch)[-1].compressed < 2 * MIB


@pytest.mark.parametrize("arch", BOTH)
def test_every_entry_is_roots_of_the_pinned_time_and_gives_nobody_rights(image: built.Image, arch: str) -> None:
    found = LOCKED.search((built.REPOSITORY / "image/debian.lock").read_text())
    assert found
    pinned = datetime.strptime(found[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()

    for entry in image.entries(arch):
        assert (entry.uid, entry.gid, entry.mtime) == (0, 0, pinned), entry.name
        assert entry.mode & 0o6000 == 0, f"{entry.name} is setuid or setgid"
        others_write = entry.mode & 0o002 and not entry.issym()
        assert not others_write or entry.mode & 0o1000, f"{entry.name} can be written by anybody"
        assert entry.isreg() or entry.isdir() or entry.issym() or entry.islnk(), f"{entry.name} is a device"
    assert {entry.pax_headers.get("SCHILY.xattr.security.capability") for entry in image.entries(arch)} == {None}


@pytest.mark.parametrize("arch", BOTH)
def test_python_and_the_agent_are_the_only_programs(image: built.Image, arch: str) -> None:
    board = "usr/lib/python3/dist-packages/edgeagent/demo/board/"  # a recording: its programs are empty files
    files = [entry for entry in image.entries(arch) if not entry.isdir() and not entry.name.startswith(board)]
    programs = {entry.name for entry in files if PurePosixPath(entry.name).parent.name in ("bin", "sbin", "libexec")}
    assert programs == {"usr/bin/python3.13", "usr/bin/edgeagent"}
    names = {PurePosixPath(entry.name).name for entry in files}
    assert not names & {"sh", "bash", "dash", "busybox", "ldconfig", "apt", "dpkg", "pip", "perl", "ensurepip"}


@pytest.mark.parametrize("arch", BOTH)
def test_nothing_of_a_package_manager_is_left_but_what_scanners_read(image: built.Image, arch: str) -> None:
    names = {entry.name.rstrip("/") for entry in image.entries(arch)}
    lock = (built.REPOSITORY / "image/debian.lock").read_text().splitlines()
    debs = {row.split()[2].rpartition("/")[2].partition("_")[0] for row in lock if row.startswith(f"{arch} ")}

    assert {name for name in names if name.startswith("var/lib/dpkg/")} == {
        "var/lib/dpkg/status.d",
        *(f"var/lib/dpkg/status.d/{deb}" for deb in debs),
    }
    for left in ("var/lib/apt", "var/cache/apt", "var/log/apt", "usr/share/man", "root/.cache", "etc/apt"):
        assert not {name for name in names if name == left or name.startswith(f"{left}/")}
    assert {f"usr/share/doc/{deb}/copyright" for deb in ("libc6", "libssl3t64", "python3.13-minimal")} <= names


@pytest.mark.parametrize("arch", BOTH)
def test_the_configuration_says_what_it_is_and_starts_the_agent(image: built.Image, arch: str) -> None:
    config = image.config(arch)["config"]
    labels = config["Labels"]

    assert labels["org.opencontainers.image.title"] == "edgeagent"
    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert (config["Entrypoint"], config["Cmd"], config["User"]) == (["edgeagent"], ["run"], "0:0")
    # What NVIDIA's container runtime reads: every device, and NVML of the driver's libraries.
    assert {"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=utility"} <= set(config["Env"])


@pytest.mark.parametrize("arch", BOTH)
def test_the_nvidia_runtime_knows_it_as_a_debian(image: built.Image, arch: str) -> None:
    # By this file libnvidia-container chooses /usr/lib/<triplet>, where the loader looks (nvc_container.c).
    assert "etc/debian_version" in {entry.name for entry in image.entries(arch)}
