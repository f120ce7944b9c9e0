"""What is pinned: all of it, for both machines alike, within what pyproject.toml allows, and no more than is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.image import built

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

IMAGE = built.REPOSITORY / "image"
ENVIRONMENT = {"python_version": "3.13", "python_full_version": "3.13.5", "platform_python_implementation": "CPython"}
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def pins(file: str) -> dict[str, tuple[str, int]]:
    """(version, number of hashes) of each pinned distribution; every line of the file belongs to one."""
    text = (IMAGE / file).read_text()
    found: dict[str, tuple[str, int]] = {}
    for name, version, hashes in PIN.findall(text):
        found[canonicalize_name(name)] = (version, hashes.count("--hash"))
    assert PIN.sub("", text).startswith("# ")
    assert PIN.sub("", text).count("\n") == 1
    return found


def wanted(requirements: list[str]) -> list[Requirement]:
    """Those that apply to the image's Python."""
    parsed = map(Requirement, requirements)
    return [one for one in parsed if one.marker is None or one.marker.evaluate({**ENVIRONMENT, "extra": ""})]


def test_what_pyproject_asks_for_is_pinned_within_its_ranges() -> None:
    project = tomllib.loads((built.REPOSITORY / "pyproject.toml").read_text())["project"]
    pinned = pins("requirements.txt")

    for requirement in wanted(project["dependencies"]):
        version, hashes = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version)
        assert hashes in (1, 2)  # one wheel for both machines, or one for each


def test_the_wheels_of_the_image_need_each_other_and_nothing_else(root: Path) -> None:
    project = tomllib.loads((built.REPOSITORY / "pyproject.toml").read_text())["project"]
    pinned = {name: version for name, (version, _) in pins("requirements.txt").items()}
    installed = {}
    for file in (root / "usr/lib/python3/dist-packages").glob("*.dist-info/METADATA"):
        told = HeaderParser().parsestr(file.read_text())
        installed[canonicalize_name(told["Name"])] = (told["Version"], told.get_all("Requires-Dist", []))

    assert {name: version for name, (version, _) in installed.items() if name != "edgeagent"} == pinned
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
    assert needed == set(pinned)


def test_the_build_backend_is_pinned_within_its_range() -> None:
    system = tomllib.loads((built.REPOSITORY / "pyproject.toml").read_text())["build-system"]
    (requirement,) = map(Requirement, system["requires"])

    assert requirement.specifier.contains(pins("build-requirements.txt")[requirement.name][0])


def test_both_machines_have_the_same_packages_of_debian() -> None:
    rows = [line.split() for line in (IMAGE / "debian.lock").read_text().splitlines() if line[:3] in ("amd", "arm")]
    files = {
        arch: {path.rpartition("/")[2].rpartition("_")[0] for machine, _, path, _ in rows if machine == arch}
        for arch in ("amd64", "arm64")
    }

    assert files["amd64"] == files["arm64"]
    assert all(re.fullmatch(r"[0-9a-f]{64}", sha256) for _, _, _, sha256 in rows)
    assert all(archive in ("debian", "debian-security") for _, archive, _, _ in rows)


def test_every_library_that_a_program_or_a_library_needs_is_in_the_image(root: Path) -> None:
    binaries = [root / "usr/bin/python3.13", *(file for file in root.rglob("*.so*") if file.is_file())]
    binaries = [file for file in binaries if file.read_bytes()[:4] == b"\x7fELF"]
    told = subprocess.run(["readelf", "--dynamic", *binaries], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", told))

    assert {"libc.so.6", "libssl.so.3"} <= needed
    assert needed <= {file.name for file in root.rglob("*.so*")}


def test_the_image_has_the_wheels_of_the_packages() -> None:
    shipped = (built.REPOSITORY / "packaging/locks/wheels.sha256").read_text()
    hashes = re.findall(r"sha256:([0-9a-f]{64})", (IMAGE / "requirements.txt").read_text())

    assert len(hashes) > 10
    assert [one for one in hashes if one not in shipped] == []
