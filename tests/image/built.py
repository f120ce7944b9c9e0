"""The image, built by the recipe from a copy of its sources, and what is in its archive."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
SOURCES = ("image", "packaging", "edgeagent", "systemd", "pyproject.toml", "README.md", "LICENSE", ".gitignore")
"""All that the image is made from; Debian's packages are pinned in ``image``, wheels in ``packaging``."""

_SHM = Path("/dev/shm")  # noqa: S108 (a place for large temporary files, no name in it)
_ROOM = 8 * 1024**3
"""A build writes everything several times; in memory, where there is enough, that takes a third of the time."""

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
NATIVE = ARCHITECTURES[os.uname().machine]


def lacking() -> str:
    """What this machine lacks for building the image, and how to get it; empty for nothing."""
    programs = [program for program in ("buildah", "dpkg-deb", "apt-get") if not shutil.which(program)]
    if programs:
        return f"{', '.join(programs)}: apt-get install buildah, on Debian or Ubuntu"
    return "" if os.geteuid() == 0 else "root, for the owner of the files in the image"


def copy(sources: Path, folder: Path) -> Path:
    """Copy what the image is made from to ``folder``, with the time of now; returns it."""
    folder.mkdir(parents=True)
    for name in SOURCES:
        if (sources / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(sources / name, folder / name, copy_function=shutil.copy, ignore=ignored)
        else:
            shutil.copy(sources / name, folder / name)
    return folder


class Build:
    """A build that is under way; several may be at once."""

    def __init__(self, sources: Path, archive: Path, *arguments: str, umask: int = 0o022, **environ: str) -> None:
        """``arguments`` are those of image/build; ``environ`` is set over the environment."""
        self.archive = archive
        memory = {"TMPDIR": str(_SHM)} if _SHM.is_dir() and shutil.disk_usage(_SHM).free > _ROOM else {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "layers", "--output", archive, *arguments],
            cwd=archive.parent,
            env={
                **os.environ,
                "PYTHONPATH": f"{sources / 'image'}:{sources / 'packaging'}",
                "PYTHONDONTWRITEBYTECODE": "1",
                **memory,
                **environ,
            },
            stdout=subprocess.PIPE,
            text=True,
            umask=umask,
        )

    def wait(self) -> Image:
        """The image, when it is built."""
        said, _ = self._process.communicate()
        assert self._process.returncode == 0, said
        return Image(self.archive, said)

    def close(self) -> None:
        """Stop it if nobody waited."""
        if self._process.stdout is None or self._process.stdout.closed:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # it removes its folder, as it would not when killed
        self._process.communicate()


@dataclass(frozen=True)
class Layer:
    """One layer of an image, lowest first."""

    created_by: str
    entries: tuple[tarfile.TarInfo, ...]
    compressed: int


@dataclass(frozen=True)
class Image:
    """An OCI archive, read as the image-spec has it: nothing here knows the recipe."""

    archive: Path
    said: str
    """What image/build printed."""

    @property
    def name(self) -> str:
        """What containerd calls it."""
        return str(self._json("index.json")["manifests"][0]["annotations"]["io.containerd.image.name"])

    @property
    def digest(self) -> str:
        """Of the index, ``sha256:`` and 64 hex digits."""
        return str(self._json("index.json")["manifests"][0]["digest"])

    @cached_property
    def manifests(self) -> dict[str, Any]:
        """The manifest of each architecture."""
        index = self.blob(self.digest)
        return {one["platform"]["architecture"]: self.blob(one["digest"]) for one in index["manifests"]}

    def config(self, arch: str) -> Any:
        """The image configuration of an architecture."""
        return self.blob(self.manifests[arch]["config"]["digest"])

    def layers(self, arch: str) -> list[Layer]:
        """Its layers, lowest first."""
        found = []
        histories = self.config(arch)["history"]
        with tarfile.open(self.archive) as archive:
            for blob, history in zip(self.manifests[arch]["layers"], histories, strict=True):
                with tarfile.open(fileobj=archive.extractfile(_path(blob["digest"]))) as layer:
                    entries = tuple(layer.getmembers())
                found.append(Layer(history["created_by"], entries, blob["size"]))
        return found

    def entries(self, arch: str) -> list[tarfile.TarInfo]:
        """Everything in the image."""
        return [entry for layer in self.layers(arch) for entry in layer.entries]

    def unpack(self, arch: str, root: Path) -> Path:
        """Make ``root`` its root file system; returns it."""
        root.mkdir()
        with tarfile.open(self.archive) as archive:
            for blob in self.manifests[arch]["layers"]:
                stream = archive.extractfile(_path(blob["digest"]))
                assert stream
                subprocess.run(["tar", "--extract", "--gzip", "--directory", root], input=stream.read(), check=True)
        return root

    def blob(self, digest: str) -> Any:
        """A JSON blob, which has to be what its name says."""
        return self._json(_path(digest), digest)

    def _json(self, name: str, digest: str = "") -> Any:
        with tarfile.open(self.archive) as archive:
            stream = archive.extractfile(name)
            assert stream
            content = stream.read()
        assert not digest or digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
        return json.loads(content)


def _path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"
