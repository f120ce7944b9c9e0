"""``image/build``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from layers import debian, lock, oci, wheels
from layers.interpreter import Interpreter
from layers.places import DIST_PACKAGES, MACHINES, PYTHON, REPOSITORY, Machine, native

_MIB = 1024 * 1024


def main() -> int:
    """Build the image; returns the exit code."""
    parser = argparse.ArgumentParser(prog="image/build", description="Build the container image as an OCI archive.")
    parser.add_argument(
        *("--output", "-o"),
        type=Path,
        default=REPOSITORY / "dist/edgeagent-image.tar",
        metavar="FILE",
        help="the archive (default dist/edgeagent-image.tar)",
    )
    parser.add_argument(
        "--name",
        default="docker.io/library/edgeagent",
        help="what containerd calls the image, without the tag (default: what `image: edgeagent` means)",
    )
    parser.add_argument(
        "--arch", choices=MACHINES, action="append", help="only this one; may be repeated (default: all)"
    )
    arguments = parser.parse_args()
    if os.geteuid():
        parser.error("needs root, for the owner of the files in the image")
    with tempfile.TemporaryDirectory(prefix="edgeagent-image-") as folder:
        _build(Path(folder), [MACHINES[arch] for arch in arguments.arch or MACHINES], arguments)
    return 0


def _build(folder: Path, machines: list[Machine], arguments: argparse.Namespace) -> None:
    os.umask(0o022)
    pins = lock.read()
    tools = folder / "tools"
    debian.tree(native(), pins, tools)
    interpreter = Interpreter(tools)
    wheel = wheels.build(folder / "wheel", pins.timestamp)
    labels = oci.labels(wheel)
    buildah = oci.Buildah(folder / "buildah", pins.timestamp)
    images = []
    for machine in machines:
        layers = _layers(interpreter, pins, machine, wheel, folder / machine.arch)
        images.append(buildah.image(machine, layers, labels))
        sys.stdout.write(f"{machine.arch}: {sum(map(_size, layers)) / _MIB:.1f} MiB\n")
    name = f"{arguments.name}:{labels['org.opencontainers.image.version']}"
    digest = buildah.archive(images, name, arguments.output)
    size = arguments.output.stat().st_size / _MIB
    sys.stdout.write(f"{arguments.output}: {size:.1f} MiB\n{name}@{digest}\n")


def _layers(interpreter: Interpreter, pins: lock.Lock, machine: Machine, wheel: Path, folder: Path) -> list[Path]:
    """What changes least lies lowest, so that an upgrade of the agent moves the top layer only."""
    system, dependencies, agent = folder / "debian", folder / "dependencies", folder / "agent"
    debian.tree(machine, pins, system)
    wheels.dependencies(interpreter, machine, wheel, folder / "downloads", dependencies)
    wheels.agent(wheel, agent)
    interpreter.compile(system, f"usr/lib/python{PYTHON}")
    interpreter.compile(dependencies, DIST_PACKAGES)
    interpreter.compile(agent, DIST_PACKAGES)
    return [system, dependencies, agent]


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_symlink() or file.is_file())


if __name__ == "__main__":
    sys.exit(main())
