"""Wheels: our own, and those that it needs, each by its hash."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from recipe import tools
from recipe.targets import CACHE, FOLDER, MACHINES, PLATFORMS, ROOT

LOCK = FOLDER / "locks/wheels.sha256"
"""Name and hash of each wheel from the package index, in the format of ``sha256sum``."""


@dataclass(frozen=True)
class Wheel:
    """One line of the lock. A wheel's name says what it is and where it runs (PEP 427)."""

    sha256: str
    name: str

    @property
    def requirement(self) -> str:
        """Project and version, as pip takes them."""
        project, version = self.name.split("-")[:2]
        return f"{project}=={version}"

    @property
    def tags(self) -> tuple[str, str, list[str]]:
        """Python, ABI and platforms: ``("cp310", "cp310", ["manylinux2014_aarch64", …])``."""
        python, abi, platforms = self.name.removesuffix(".whl").split("-")[-3:]
        return python, abi, platforms.split(".")

    @property
    def runs(self) -> tuple[str, ...]:
        """Python, ABI and machine, as the tags have them."""
        python, abi, _ = self.tags
        return python, abi, *(machine for machine in MACHINES.values() if self.runs_on(machine))

    def runs_on(self, machine: str) -> bool:
        """Whether it is for this ``uname -m`` or for all."""
        return all(tag == "any" or tag.endswith(f"_{machine}") for tag in self.tags[2])

    def runs_with(self, python: str) -> bool:
        """Whether it is for this Python, such as ``3.13``, or for later ones too."""
        needed, abi, _ = self.tags
        return needed == f"cp{python.replace('.', '')}" or abi in ("abi3", "none")


def locked() -> list[Wheel]:
    """All wheels of the lock."""
    lines = LOCK.read_text().splitlines()
    return [Wheel(*line.split("  ")) for line in lines if not line.startswith("#")]


def digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch(wanted: list[Wheel]) -> list[Path]:
    """The wheels as files in the cache; those that are missing come from the package index.

    Raises:
        SystemExit: a file has another hash than the lock says.
    """
    folder = CACHE / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    missing: dict[tuple[str, ...], list[Wheel]] = {}
    for wheel in wanted:
        if not (folder / wheel.name).exists():
            missing.setdefault(wheel.runs, []).append(wheel)
    if missing:
        tools.say(f"downloading {sum(map(len, missing.values()))} wheels into {folder} (once)")
    for wheels in missing.values():
        _download(wheels, folder)
    for wheel in wanted:
        if digest(folder / wheel.name) != wheel.sha256:
            raise SystemExit(f"{folder / wheel.name} is not the file of {LOCK.name}; remove it and look into why")
    return [folder / wheel.name for wheel in wanted]


def _download(wheels: list[Wheel], folder: Path) -> None:
    """Download wheels that run on the same machines with the same Pythons."""
    python, abi, _ = wheels[0].tags
    # A pure wheel runs on any; of one for "CPython 3.6 and later" every Python that is supported is one.
    version = python.removeprefix("cp") if python == abi else "312"
    options = ["--python-version", version, "--implementation", "cp"]
    options += ["--abi", abi] if abi != "none" else []
    platforms = sorted({platform for wheel in wheels for platform in wheel.tags[2]})
    options += [option for platform in platforms for option in ("--platform", platform)]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        _pip_download(Path(place), *options, *(wheel.requirement for wheel in wheels))
        for found in Path(place).iterdir():
            found.replace(folder / found.name)


def resolve(requirements: Path, python: str, machine: str, folder: Path) -> None:
    """Download what ``requirements`` names for one Python on one machine."""
    _pip_download(folder, *fitting(python, machine), "--requirement", requirements)


def fitting(python: str, machine: str) -> list[str]:
    """Options of ``pip download`` for one Python on one machine."""
    platforms = [option for platform in PLATFORMS for option in ("--platform", f"{platform}_{machine}")]
    return ["--implementation", "cp", "--python-version", python, *platforms]


def _pip_download(folder: Path, *arguments: str | Path) -> None:
    tools.pip(tools.python(), "download", "--no-deps", "--only-binary=:all:", "--dest", folder, *arguments)


def build(out: Path, when: str) -> tuple[Path, Path]:
    """Build wheel and sdist, with ``when`` (``tools.epoch``) for their time; the two files in ``out``."""
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(
            [tools.python(), "-I", "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", place],
            cwd=ROOT,
            env={**tools.environment(when), "HATCH_QUIET": "1"},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (wheel,), (sdist,) = Path(place).glob("*.whl"), Path(place).glob("*.tar.gz")
        for file in (wheel, sdist):
            shutil.copyfile(file, out / file.name)
    return out / wheel.name, out / sdist.name
