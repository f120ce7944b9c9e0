"""Layers become an image for each machine, and these one archive, by buildah. Nothing is run in them."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from layers.places import Machine

_ENVIRON = {
    "PATH": "/usr/bin",
    "LANG": "C.UTF-8",
    # Asks NVIDIA's container runtime, where it starts the container, for the devices and for NVML, not for CUDA.
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_DRIVER_CAPABILITIES": "utility",
}
_VARIANTS = {"amd64": "", "arm64": "v8"}


@dataclass(frozen=True)
class Buildah:
    """buildah with a storage of its own in ``folder``. Every file gets the time ``timestamp``, seconds since 1970."""

    folder: Path
    timestamp: int

    def image(self, machine: Machine, layers: Sequence[Path], labels: Mapping[str, str]) -> str:
        """Commit folders as layers, lowest first; returns the image's id."""
        base = "scratch"
        for layer in layers:
            container = self._run("from", "--arch", machine.arch, "--variant", _VARIANTS[machine.arch], base)
            self._run("add", "--quiet", "--chown=0:0", container, str(layer), "/")
            if layer is layers[-1]:
                self._configure(container, labels)
            self._run("config", "--created-by", f"image/build: {layer.name}", container)
            options = ("--quiet", "--rm", "--format=oci", f"--timestamp={self.timestamp}")
            base = self._run("commit", *options, container)
        return base

    def archive(self, images: Sequence[str], name: str, file: Path) -> str:
        """Write images, one for each machine, as an OCI archive that containerd imports as ``name``.

        Returns the digest of the index, by which a registry and a manifest name the image.
        """
        layout = self.folder / "layout"
        self._run("manifest", "create", "all")
        for image in images:
            self._run("manifest", "add", "all", image)
        self._run("manifest", "push", "--quiet", "--all", "--format=oci", "all", f"oci:{layout}")
        top = json.loads((layout / "index.json").read_text())
        (index,) = top["manifests"]
        tag = name.rpartition(":")[2]
        index["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
        (layout / "index.json").write_text(json.dumps(top))
        self._pack(layout, file)
        return str(index["digest"])

    def _configure(self, container: str, labels: Mapping[str, str]) -> None:
        options = [option for name, value in labels.items() for option in ("--label", f"{name}={value}")]
        options += [option for name, value in _ENVIRON.items() for option in ("--env", f"{name}={value}")]
        options += ["--user", "0:0", "--workingdir", "/", "--entrypoint", '["edgeagent"]', "--cmd", "run"]
        self._run("config", *options, container)

    def _pack(self, layout: Path, file: Path) -> None:
        def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.mtime, entry.mode = self.timestamp, 0o755 if entry.isdir() else 0o644
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            return entry

        file.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(file, "w") as archive:
            for path in sorted(layout.rglob("*")):
                archive.add(path, path.relative_to(layout), recursive=False, filter=plain)

    def _run(self, *arguments: str) -> str:
        """Run buildah; returns the last word it prints.

        Raises:
            subprocess.CalledProcessError: it failed; its message is on stderr.
        """
        # vfs: plain copies, which need no kernel module and no user namespace.
        where = ["--root", str(self.folder / "storage"), "--runroot", str(self.folder / "run"), "--storage-driver=vfs"]
        command = ["buildah", *where, *arguments]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return (done.stdout.split() or [""])[-1]


def labels(wheel: Path) -> dict[str, str]:
    """The image's labels (image-spec, annotations.md), from the agent's own metadata."""
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        told: Any = HeaderParser().parsestr(archive.read(name).decode())
    found = {
        "title": told["Name"],
        "version": told["Version"],
        "description": told["Summary"],
        "licenses": told["License-Expression"],
    }
    addresses = dict(row.split(", ", 1) for row in told.get_all("Project-URL", []))
    found |= {key.lower(): value for key, value in addresses.items() if key in ("Source", "Documentation")}
    return {f"org.opencontainers.image.{key}": value for key, value in found.items()}
