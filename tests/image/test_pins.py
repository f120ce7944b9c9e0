"""What is pinned: all of it, for both machines alike, within what pyproject.toml allows, and no more than is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from tests.image import built
from tests.packages.requirements import ONCE, READELF

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

pytestmark = ONCE

IMAGE = built.REPOSITORY / "image"
ENVIRONMENT = {"python_version": "3.13", "python_full_version": "3.13.5", "platform_python_implementation": "CPython"}
LOCKED = re.compile(r"[0-9a-f]{64}  [A-Za-z0-9._-]+\.whl")


def locked() -> set[tuple[str, str]]:
    """Name and version of each wheel of the lock for the image's Python; every line has a hash and a wheel."""
    found = set()
    for line in (built.REPOSITORY / "packaging/locks/wheels.sha256").read_text().splitlines():
        assert LOCKED.fullmatch(line), line
        name, version, _, tags = parse_wheel_filename(line.split()[1])
        if any(tag.interpreter in ("cp313", "py3") or tag.abi == "abi3" for tag in tags):
            found.add((str(name), str(version)))
    return found


def wanted(requirements: list[str]) -> list[Requirement]:
    """Those that apply to the image's Python."""
    parsed = map(Requirement, requirements)
    return [one for one in parsed if one.marker is None or one.marker.evaluate({**ENVIRONMENT, "extra": ""})]


def test_the_wheels_of_the_image_are_those_of_the_packages_that_it_needs(root: Path) -> None:
    project = tomllib.loads((built.REPOSITORY / "pyproject.toml").read_text())["project"]
    installed = {}
    for file in (root / "usr/lib/python3/dist-packages").glob("*.dist-info/METADATA"):
        told = HeaderParser().parsestr(file.read_text())
        installed[canonicalize_name(told["Name"])] = (told["Version"], told.get_all("Requires-Dist", []))
    del installed[canonicalize_name("edgeagent")]

    assert {(name, version) for name, (version, _) in installed.items()} <= locked()
    needed: set[str] = set()
    todo = wanted(project["dependencies"])
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        version, requirements = installed[name]
        assert requirement.specifier.contains(version), f"{requirement}, not {version}"
        if name not in needed:
            needed.add(name)
            todo += wanted(requirements)
    assert needed == set(installed)


def test_both_machines_have_the_same_packages_of_debian() -> None:
    rows = [line.split() for line in (IMAGE / "debian.lock").read_text().splitlines() if line[:3] in ("amd", "arm")]
    files = {
        arch: {path.rpartition("/")[2].rpartition("_")[0] for machine, _, path, _ in rows if machine == arch}
        for arch in ("amd64", "arm64")
    }

    assert files["amd64"] == files["arm64"]
    assert all(re.fullmatch(r"[0-9a-f]{64}", sha256) for _, _, _, sha256 in rows)
    assert all(archive in ("debian", "debian-security") for _, archive, _, _ in rows)


@READELF
def test_every_library_that_a_program_or_a_library_needs_is_in_the_image(root: Path) -> None:
    binaries = [root / "usr/bin/python3.13", *(file for file in root.rglob("*.so*") if file.is_file())]
    binaries = [file for file in binaries if file.read_bytes()[:4] == b"\x7fELF"]
    told = subprocess.run(["readelf", "--dynamic", *binaries], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", told))

    assert {"libc.so.6", "libssl.so.3"} <= needed
    assert needed <= {file.name for file in root.rglob("*.so*")}
