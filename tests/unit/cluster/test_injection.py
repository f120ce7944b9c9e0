"""What in a manifest may give a container a device, and what is kept of it in a recording."""

from __future__ import annotations

from typing import Any

import pytest

from edgeagent.cluster import pods
from edgeagent.snapshot.record import objects_json
from edgeagent.snapshot.record.redact import Identity, Redactor

VOLUMES = [
    {"name": "dev", "hostPath": {"path": "/dev"}},
    {"name": "models", "hostPath": {"path": "/home/alice/models"}},
    {"name": "secret", "secret": {"secretName": "token"}},
]


def manifest(volumes: Any = None, **container: Any) -> dict[str, Any]:
    """A pod with one container."""
    return {
        "metadata": {"name": "llm", "namespace": "default", "uid": "u"},
        "spec": {
            "containers": [{"name": "main", **container}],
            "volumes": VOLUMES if volumes is None else volumes,
        },
        "status": {},
    }


def mounts(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "mountPath": f"/{name}"} for name in names]


@pytest.mark.parametrize(
    ("container", "ways"),
    [
        ({}, ()),
        ({"securityContext": {"privileged": True}}, ("privileged",)),
        ({"securityContext": {"privileged": False}}, ()),
        ({"securityContext": None, "volumeMounts": None, "resources": None}, ()),
        ({"volumeMounts": mounts("dev", "models")}, ("hostPath /dev",)),
        ({"volumeMounts": mounts("models", "secret")}, ()),
        ({"resources": {"claims": [{"name": "gpu"}]}}, ("resource claim gpu",)),
        ({"securityContext": "odd"}, ()),
        ({"volumeMounts": ["odd"]}, ()),
    ],
)
def test_ways_beside_the_runtime(container: dict[str, Any], ways: tuple[str, ...]) -> None:
    assert pods.parse(manifest(**container)).containers[0].other_ways == ways


@pytest.mark.parametrize(
    ("path", "number"),
    [("/", 1), ("/dev", 1), ("/dev/", 1), ("/dev/nvidia0", 1), ("/dev/dri/renderD128", 1), ("/dev/video0", 0),
     ("/devices", 0), ("/srv/dev", 0), (7, 0)],
)  # fmt: skip
def test_which_folders_of_the_host_are_meant(path: Any, number: int) -> None:
    found = manifest([{"name": "x", "hostPath": {"path": path}}], volumeMounts=mounts("x"))
    assert len(pods.parse(found).containers[0].other_ways) == number


def test_a_recording_keeps_them_and_no_other_volume() -> None:
    found = manifest(
        volumeMounts=mounts("dev", "models", "secret"),
        securityContext={"privileged": True, "seLinuxOptions": {"user": "4711"}},
        resources={"claims": [{"name": "gpu"}]},
    )
    kept = objects_json.pod(Redactor(Identity()), found)
    assert pods.parse(kept).containers == pods.parse(found).containers
    text = str(kept)
    assert [part for part in ("alice", "models", "token") if part in text] == []
