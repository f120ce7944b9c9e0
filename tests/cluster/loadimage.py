"""The one container image of the live pods, built from image/load.c without a registry."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from pathlib import Path
from typing import Any

NAME = "localhost/load:t"

_SOURCE = Path(__file__).parent / "image" / "load.c"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_MEDIA = "application/vnd.oci.image"


def build(folder: Path) -> Path:
    """Compile load.c statically and pack it as an OCI image layout (image-spec 1.0) in ``folder``/load.tar.

    Raises:
        subprocess.CalledProcessError: gcc failed; its message is on stderr.
    """
    program, archive = folder / "load", folder / "load.tar"
    subprocess.run(["gcc", "-O2", "-Wall", "-static", "-o", program, _SOURCE], check=True)
    layer = _tar({"load": program.read_bytes()})
    platform_ = {"architecture": _ARCHITECTURES[platform.machine()], "os": "linux"}
    config = _json(
        platform_ | {"config": {"Entrypoint": ["/load"]}, "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]}},
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}.manifest.v1+json",
            "config": _descriptor(f"{_MEDIA}.config.v1+json", config),
            "layers": [_descriptor(f"{_MEDIA}.layer.v1.tar", layer)],
        },
    )
    named = _descriptor(f"{_MEDIA}.manifest.v1+json", manifest) | {"annotations": {"io.containerd.image.name": NAME}}
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [named]}),
    }
    files |= {f"blobs/sha256/{_digest(blob)[7:]}": blob for blob in (layer, config, manifest)}
    archive.write_bytes(_tar(files))
    return archive


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
