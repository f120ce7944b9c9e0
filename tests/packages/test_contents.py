"""What is in the Debian packages, of the architecture too that cannot be run here."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from tests.packages.building import Built
from tests.packages.pythons import PYTHONS
from tests.packages.requirements import DPKG, LINTIAN, ONCE, READELF

pytestmark = [DPKG, ONCE]

# Name in Debian, name in wheels, e_machine of elf.h: EM_X86_64, EM_AARCH64.
ARCHITECTURES = [("amd64", "x86_64", 62), ("arm64", "aarch64", 183)]
GLIBC = (2, 34)
"""The C library that the package depends on; Ubuntu 22.04 has 2.35."""


@dataclass(frozen=True)
class Package:
    """One package, unpacked."""

    deb: Path
    tree: Path

    @property
    def wheels(self) -> list[Path]:
        return sorted(self.tree.glob("usr/lib/edgeagent/wheels/*"))

    def field(self, name: str) -> str:
        told = subprocess.run(["dpkg-deb", "--field", self.deb, name], check=True, capture_output=True, text=True)
        return told.stdout.strip()

    def libraries(self) -> dict[str, bytes]:
        """The compiled parts of all wheels."""
        found: dict[str, bytes] = {}
        for path in self.wheels:
            with zipfile.ZipFile(path) as wheel:
                found |= {
                    f"{path.name}/{name}": wheel.read(name)
                    for name in wheel.namelist()
                    if re.search(r"\.so(\.|$)", name)
                }
        return found


@pytest.fixture(scope="module", params=ARCHITECTURES, ids=[name for name, _, _ in ARCHITECTURES])
def target(request: pytest.FixtureRequest) -> tuple[str, str, int]:
    found: tuple[str, str, int] = request.param
    return found


@pytest.fixture(scope="module")
def package(target: tuple[str, str, int], built: Built, tmp_path_factory: pytest.TempPathFactory) -> Package:
    tree = tmp_path_factory.mktemp("package")
    deb = built.deb(target[0])
    subprocess.run(["dpkg-deb", "--raw-extract", deb, tree], check=True)
    return Package(deb, tree)


def test_every_library_is_for_its_machine(package: Package, target: tuple[str, str, int]) -> None:
    libraries = package.libraries()

    # aiohttp, frozenlist, multidict, propcache, psutil, PyYAML and yarl have compiled parts.
    assert len({name.split("-")[0] for name in libraries}) == 7
    for name, content in libraries.items():
        # elf.h: magic, 64 bit, little-endian; e_machine is the half-word at 18.
        assert content[:6] == b"\x7fELF\x02\x01", name
        assert int.from_bytes(content[18:20], "little") == target[2], name


def test_no_library_needs_a_newer_system_than_it_depends_on(package: Package) -> None:
    needed = {
        (2, int(minor))
        for content in package.libraries().values()
        for minor in re.findall(rb"\0GLIBC_2\.(\d+)", content)
    }

    assert needed
    assert max(needed) <= GLIBC
    assert f"libc6 (>= {GLIBC[0]}.{GLIBC[1]})" in package.field("Depends")


@READELF
def test_no_library_needs_another_that_it_does_not_depend_on(package: Package, tmp_path: Path) -> None:
    needed = set()
    for index, content in enumerate(package.libraries().values()):
        library = tmp_path / str(index)
        library.write_bytes(content)
        told = subprocess.run(["readelf", "--dynamic", library], check=True, capture_output=True, text=True)
        needed |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", told.stdout))

    owners = {
        "libc6": {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"},
        "libstdc++6": {"libstdc++.so.6"},
        "libgcc-s1": {"libgcc_s.so.1"},
    }
    depended = {name.split()[0] for name in package.field("Depends").split(", ")}
    assert needed
    assert needed <= {library for owner in depended for library in owners.get(owner, set())}


@pytest.mark.parametrize("python", PYTHONS)
def test_everything_for_a_python_is_there(package: Package, target: tuple[str, str, int], python: str) -> None:
    tags = set(_tags(python, target[1]))
    environment = {"python_version": python, "python_full_version": f"{python}.0", "platform_machine": target[1]}
    wanted, seen = [Requirement("edgeagent[top]"), Requirement("pip")], set[str]()

    while wanted:
        requirement = wanted.pop()
        about = _newest(package.wheels, requirement, tags)
        seen.add(canonicalize_name(requirement.name))
        asked = map(Requirement, about.get_all("Requires-Dist", ()))
        wanted += [
            one
            for one in asked
            if canonicalize_name(one.name) not in seen
            and (
                one.marker is None
                or any(one.marker.evaluate({**environment, "extra": extra}) for extra in ("", *requirement.extras))
            )
        ]

    assert {"aiohttp", "pyyaml", "psutil", "nvidia-ml-py", "prometheus-client", "rich"} <= seen
    assert "kubernetes" not in seen
    assert ("tomli" in seen) == (python == "3.10")


def _tags(python: str, machine: str) -> list[Tag]:
    """What a Python of a system with glibc 2.35 takes."""
    version = tuple(map(int, python.split(".")))
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(35, 16, -1)] + [f"manylinux2014_{machine}"]
    interpreter = f"cp{python.replace('.', '')}"
    return [
        *cpython_tags(version, platforms=platforms),
        *compatible_tags(version, interpreter=interpreter, platforms=platforms),
    ]


def _newest(wheels: list[Path], requirement: Requirement, tags: set[Tag]) -> Message:
    """The metadata of the wheel that pip takes: the newest that fits and is allowed."""
    found: dict[Version, Path] = {}
    for path in wheels:
        name, version, _, offered = parse_wheel_filename(path.name)
        if name == canonicalize_name(requirement.name) and offered & tags and version in requirement.specifier:
            found[version] = path
    assert found, f"no wheel for {requirement}"
    with zipfile.ZipFile(found[max(found)]) as wheel:
        (place,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parse(io.StringIO(wheel.read(place).decode()))


def test_it_is_offered_to_the_pythons_that_it_has_wheels_for(package: Package) -> None:
    oldest, newest = PYTHONS[0], int(PYTHONS[-1].split(".")[1])

    assert f"python3 (>= {oldest}), python3 (<< 3.{newest + 1}~)" in package.field("Depends")


def test_it_ships_no_configuration(package: Package) -> None:
    assert not (package.tree / "etc").exists()
    assert not (package.tree / "DEBIAN/conffiles").exists()
    assert not (package.tree / "opt").exists()


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ("bash", "usr/share/bash-completion/completions/edgeagent"),
        ("zsh", "usr/share/zsh/vendor-completions/_edgeagent"),
        ("fish", "usr/share/fish/vendor_completions.d/edgeagent.fish"),
    ],
)
def test_each_shell_finds_the_completion_that_the_program_prints(package: Package, shell: str, place: str) -> None:
    (wheel,) = (path for path in package.wheels if path.name.startswith("edgeagent-"))
    told = subprocess.run(
        [sys.executable, "-m", "edgeagent", "completion", shell],
        check=True,
        capture_output=True,
        text=True,
        cwd=package.tree,
        env={**os.environ, "PYTHONPATH": str(wheel)},
    )

    assert (package.tree / place).read_text() == told.stdout


def test_its_files_are_roots_and_have_their_sums(package: Package) -> None:
    listed = subprocess.run(["dpkg-deb", "--contents", package.deb], check=True, capture_output=True, text=True)
    rows = [line.split(maxsplit=5) for line in listed.stdout.splitlines()]

    assert {(mode, owner) for mode, owner, *_ in rows} == {
        (mode, "root/root") for mode in ("drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x", "lrwxrwxrwx")
    }
    subprocess.run(["md5sum", "--check", "--quiet", "DEBIAN/md5sums"], cwd=package.tree, check=True)
    files = [row for row in rows if row[0].startswith("-")]
    assert len((package.tree / "DEBIAN/md5sums").read_text().splitlines()) == len(files)


def test_every_wheel_has_its_licence_and_the_copyright_file_says_where(package: Package) -> None:
    told = (package.tree / "usr/share/doc/edgeagent/copyright").read_text()

    assert len(package.wheels) > 30
    for path in package.wheels:
        project = path.name.split("-")[0]
        with zipfile.ZipFile(path) as wheel:
            texts = [
                name for name in wheel.namelist() if re.search(r"\.dist-info/(.*/)?(LICEN[CS]E|COPYING)[^/]*$", name)
            ]
            if project == "nvidia_ml_py":
                # No licence file: the text is at the head of its only module.
                assert "Redistribution and use in source and binary forms" in wheel.read("pynvml.py").decode()[:2000]
                texts = ["pynvml.py"]
        assert texts, path.name
        if project != "edgeagent":
            assert [text for text in texts if f"\n {text}\n" not in told] == []
            assert told.count(f"\nFiles: usr/lib/edgeagent/wheels/{project}-*\n") == 1


@pytest.mark.parametrize(
    ("project", "holder"),
    [
        # As their licences have it, which is not what their metadata says of the author.
        ("aiohttp", "Copyright © 2018 Fedor Indutny"),  # llhttp, which is compiled into it
        ("aiosignal", "Copyright 2013-2019 Nikolay Kim and Andrew Svetlov"),
        ("nvidia_ml_py", "Copyright (c) 2011-2025, NVIDIA Corporation. All rights reserved."),
        ("typing_extensions", "Copyright (c) 1995-2001 Corporation for National Research Initiatives;"),
        (
            "typing_extensions",
            "Copyright (c) 1991 - 1995, Stichting Mathematisch Centrum Amsterdam, The Netherlands.",
        ),
    ],
)
def test_the_copyright_file_names_the_holders(package: Package, project: str, holder: str) -> None:
    paragraphs = (package.tree / "usr/share/doc/edgeagent/copyright").read_text().split("\n\n")
    (paragraph,) = (one for one in paragraphs if one.startswith(f"Files: usr/lib/edgeagent/wheels/{project}-*\n"))

    assert holder in paragraph


@LINTIAN
def test_lintian_finds_nothing(package: Package) -> None:
    command = ["lintian", "--allow-root", "--fail-on=error,warning", "--tag-display-limit=0", str(package.deb)]
    found = subprocess.run(command, check=False, capture_output=True, text=True)

    # Overrides have to be used, too: one that is not is a hint.
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize(
    ("version", "debian"),
    [("0.1.0", "0.1.0-1"), ("1.0rc1", "1.0~rc1-1"), ("1.0a2", "1.0~a2-1"), ("1.0.dev3", "1.0~dev3-1")],
)
def test_a_version_sorts_in_debian_as_in_python(version: str, debian: str) -> None:
    recipe = Path(__file__).parents[2] / "packaging"
    code = f"from recipe.targets import debian_version; print(debian_version({version!r}))"
    told = subprocess.run([sys.executable, "-c", code], cwd=recipe, check=True, capture_output=True, text=True)

    assert told.stdout.strip() == debian
    final = f"{Version(version).base_version}-1"
    subprocess.run(["dpkg", "--compare-versions", debian, "eq" if debian == final else "lt", final], check=True)
