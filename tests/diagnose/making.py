"""A board on which nothing is wrong, and what is asked of it. A case changes as little of it as it can."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgeagent import cli
from tests.cases.machines import COMPATIBLE, ORIN_NANO
from tests.cases.making import KEY, about, meminfo, node, pod, pods
from tests.unit.snapshot.making import write

Capture = pytest.CaptureFixture[str]
Files = dict[str, Any]

TOTAL_KIB = 7802368
"""7619.5 MiB: less os 768, k3s 512, headroom 256 MiB = 6083.5, which is published as 6083Mi."""
OFFER = "6083Mi"
BINARY = "/usr/bin/nvidia-container-runtime"
CSV = "host/etc/nvidia-container-runtime/host-files-for-container.d/drivers.csv"
LIBCUDA = "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1"
CONTAINERD = "host/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
CONTAINERD_PATH = CONTAINERD.removeprefix("host")
TEMPLATE = f"{CONTAINERD.removesuffix('config.toml')}config-v3.toml.tmpl"
K3S_CONFIG = "host/etc/rancher/k3s/config.yaml"
SWAPS = "host/proc/swaps"
CLASSES = "cluster/runtimeclasses.json"
EVENTS = "cluster/events.json"
PODS = "cluster/pods.json"
NODE_JSON = "cluster/node.json"


def healthy(**files: Any) -> Files:
    """An Orin Nano under K3s with the NVIDIA runtime, its class and the agent's capacity; files given replace its."""
    return {
        "snapshot.yaml": about(),
        "host/proc/meminfo": meminfo(TOTAL_KIB),
        COMPATIBLE: ORIN_NANO,
        "host/sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
        CONTAINERD: containerd(nvidia=BINARY),
        f"host{BINARY}": "",
        CSV: f"lib, {LIBCUDA}\n",
        f"host{LIBCUDA}": "",
        K3S_CONFIG: "kubelet-arg:\n  - eviction-hard=memory.available<256Mi\n",
        NODE_JSON: node({KEY: OFFER}),
        PODS: pods(),
        CLASSES: classes(nvidia="nvidia"),
        EVENTS: {"kind": "EventList", "items": []},
        "cluster/daemonsets.json": {"kind": "DaemonSetList", "items": []},
        **files,
    }


def without(files: Files, *names: str) -> Files:
    """``files`` without some of them."""
    return {name: content for name, content in files.items() if name not in names}


def containerd(default: str = "", **binaries: str) -> str:
    """The configuration of containerd in version 3 with runc and these runtimes, as K3s writes it."""
    table = "[plugins.'io.containerd.cri.v1.runtime'.containerd"
    rows = ["version = 3", f"{table}]"]
    rows += [f'default_runtime_name = "{default}"'] if default else []
    rows += [f"{table}.runtimes.runc]", 'runtime_type = "io.containerd.runc.v2"']
    for name, binary in binaries.items():
        rows += [f"{table}.runtimes.'{name}'.options]", f'BinaryName = "{binary}"']
    return "".join(f"{row}\n" for row in rows)


def classes(**handlers: str) -> dict[str, Any]:
    """``cluster/runtimeclasses.json``: handlers by name of the class."""
    return {
        "kind": "RuntimeClassList",
        "items": [{"metadata": {"name": name}, "handler": handler} for name, handler in handlers.items()],
    }


def event(reason: str, message: str, kind: str, name: str, uid: str = "") -> dict[str, Any]:
    """One warning of the namespace default, as ``kubectl get events -o json`` has it."""
    return {
        "metadata": {"name": f"{name}.1", "namespace": "default"},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": kind, "namespace": "default", "name": name, "uid": uid},
        "lastTimestamp": "2026-01-31T11:59:00Z",
    }


def creating(name: str = "llm", *, spec: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    """A pod that is bound here and has started no container."""
    waits = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
    return pod(name, spec=spec, status={"phase": "Pending", "containerStatuses": [waits]}, **given)


def waiting(name: str, limits: dict[str, str], *, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    """A pod that is bound to no node, for want of what it asks for."""
    told = f"0/1 nodes are available: {', '.join(f'1 Insufficient {key}' for key in limits)}."
    status = {
        "phase": "Pending",
        "startTime": None,
        "containerStatuses": [],
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": told}],
    }
    return pod(name, limits=limits, spec={"nodeName": None, **(spec or {})}, status=status)


def findings(capsys: Capture, folder: Path, files: Files) -> list[dict[str, Any]]:
    """What ``explain`` finds, at last, which is what ``doctor`` finds; its exit code is that of errors."""
    write(folder, files)
    assert cli.main(["explain", str(folder), "--format", "json"]) == 0
    out = capsys.readouterr().out
    document = out.splitlines()[-1] if "frames.yaml" in files else out
    explained: list[dict[str, Any]] = json.loads(document)["findings"]
    code = cli.main(["doctor", str(folder), "--format", "json"])
    told = json.loads(capsys.readouterr().out)["findings"]
    assert [{key: value for key, value in one.items() if key != "docs"} for one in told] == explained
    assert code == (1 if any(one["severity"] == "error" for one in explained) else 0)
    return explained


def found(capsys: Capture, folder: Path, files: Files, name: str) -> list[dict[str, Any]]:
    """The findings of one rule."""
    return [one for one in findings(capsys, folder, files) if one["id"] == name]


def judged(one: dict[str, Any]) -> tuple[str, str, str]:
    """Severity, certainty and subject of a finding."""
    return one["severity"], one["certainty"], one["subject"]
