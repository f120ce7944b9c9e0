"""What in a manifest may give a container a device beside NVIDIA's runtime and device plugins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from edgeagent.cluster import objects

_DEVICE_PATH = re.compile(r"/?|/dev/?|/dev/(?:nv|dri|dxg|char).*")
"""Of a hostPath volume: the root of the host, its devices, and the GPU's among them. Not /dev/shm, nor /dev/video0."""


def ways(spec: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[str, ...]:
    """Each as it stands in the manifest: ``privileged``, ``hostPath /dev``, ``resource claim gpu``."""
    return tuple(_ways(spec, container))


def is_device(volume: Mapping[str, Any]) -> bool:
    """Whether a volume is of the host's device nodes."""
    path = objects.mapping(volume.get("hostPath")).get("path")
    return isinstance(path, str) and _DEVICE_PATH.fullmatch(path) is not None


def _ways(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[str]:
    if objects.mapping(container.get("securityContext")).get("privileged"):
        yield "privileged"
    mounted = {one.get("name") for one in objects.sequence(container.get("volumeMounts"))}
    for volume in objects.sequence(spec.get("volumes")):
        if is_device(volume) and volume.get("name") in mounted:
            yield f"hostPath {volume['hostPath']['path']}"
    for claim in objects.sequence(objects.mapping(container.get("resources")).get("claims")):
        yield f"resource claim {claim.get('name')}"
