"""A Jetson under K3s that has something to hide in every place, and the objects that its cluster has of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.snapshot.making import CONTAINER, UID, nvmap

HOST = "edge-warehouse7"
DOMAIN = "plant.acme.example"
USER, SECOND_USER = "marjolein", "gregor"
IPV4, PUBLIC_IPV4 = "10.20.30.41", "81.2.69.142"
IPV6 = "fd12:3456:789a::17"
MAC = "48:b0:2d:1a:2b:3c"
SERIAL = "1424719012345"
MACHINE_ID = "9b1d0c2e4f6a48c0a1b2c3d4e5f60718"
BOOT_ID = "5f3c1b7e-9d2a-4e6f-8b1c-0a2d4c6e8f01"
SYSTEM_UUID = "03000200-0400-0500-0006-000700080009"
NODE_UID = "7f0e5f3a-1d2c-4b5a-9e8d-7c6b5a493827"
GPU = "1f2e3d4c-5b6a-5798-8a9b-0c1d2e3f4a5b"
"""An integrated GPU's UUID, bare."""
CARD = "GPU-c0ffee00-1234-5678-9abc-def012345678"
TOKEN = "K10c3f0a1b2c3d4e5f60718293a4b5c6d7e8f9::server:swordfish"
PASSWORD = "hunter2-registry"
ARGUMENT = "--license-key=topsecretlicence"
VARIABLE = "DB_PASSWORD=correcthorse"

SECRETS = (
    *(HOST, HOST.upper(), "edge_warehouse7", "edgewarehouse7", "edge\\x2dwarehouse7", DOMAIN, "acme"),
    *(USER, SECOND_USER, IPV4, PUBLIC_IPV4, "10-20-30-41", IPV6, MAC, MAC.replace(":", "-"), SERIAL),
    *(MACHINE_ID, BOOT_ID, SYSTEM_UUID, NODE_UID, GPU, CARD, CARD.removeprefix("GPU-")),
    *(TOKEN, "swordfish", "c3f0a1b2", PASSWORD, "topsecretlicence", "license-key", "correcthorse", "DB_PASSWORD"),
    *("edge-warehouse", "edge-wareho", "hunter2", "flash-attn", "6443", "shadow-annotation", "secret-image"),
)
"""What must stand nowhere in a snapshot, in any letters."""

DATA = f"home/{USER}/k3s"
COMM = "edge-warehouse7-llm"[:15]
"""The kernel cuts names off: ``edge-warehouse7`` is all that is left, and of a longer one less than the host's name."""
CUT = "run-edge-wareho"
_ROWS = {"MemTotal": 7802736, "MemFree": 3000000, "MemAvailable": 4000000, "CmaTotal": 262144} | dict.fromkeys(
    ("Active(file)", "Inactive(file)", "SReclaimable", "SUnreclaim", "AnonPages", "Shmem", "KernelStack", "PageTables"),
    0,
)
MEMINFO = "".join(f"{row}: {kib} kB\n" for row, kib in _ROWS.items())
ORIN_NVML: dict[str, Any] = {
    "library": "present",
    "init": 0,
    "driver_version": "540.4.0",
    "cuda_version": 12060,
    "devices": [
        {
            "handle": 0,
            "name": "Orin (nvgpu)",
            "uuid": GPU,
            "cuda_capability": [8, 7],
            "memory": {"code": 3},
            "memory_v2": {"code": 3},
            "compute": {"code": 0, "processes": []},
        }
    ],
}


def stat(pid: int, name: str, flags: int = 4194560) -> str:
    return f"{pid} ({name}) S 1 {pid} {pid} 0 -1 {flags} " + "0 " * 8 + "20 0 1 0 88123 " + "0 " * 30 + "\n"


def files() -> dict[str, bytes | str]:
    """Files below the host's root."""
    pod = f"kubepods/burstable/pod{UID}"
    slices = f"{HOST}.slice/{pod}"
    return {
        "etc/hostname": f"{HOST}.{DOMAIN}\n",
        "etc/hosts": f"{IPV4} {HOST}.{DOMAIN} {HOST}\n",
        "etc/machine-id": f"{MACHINE_ID}\n",
        "etc/passwd": f"root:x:0:0::/root:/bin/sh\n{USER}:x:1000:1000:M:/home/{USER}:/bin/bash\n",
        f"home/{SECOND_USER}/notes": "mine",
        "etc/nv_tegra_release": "# R36 (release), REVISION: 4.4, GCID: 41062509, BOARD: generic\n# second row\n",
        "proc/meminfo": MEMINFO,
        "proc/device-tree/compatible": b"nvidia,p3767-0005\0nvidia,tegra234\0",
        "proc/device-tree/model": b"NVIDIA Jetson Orin Nano Developer Kit\0",
        "proc/device-tree/serial-number": f"{SERIAL}\0",
        "proc/sys/kernel/osrelease": f"5.15.148-tegra-{USER}\n",
        "proc/sys/kernel/random/boot_id": f"{BOOT_ID}\n",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  "
        f"Release Build  ({USER}@builder.{DOMAIN})\nGCC version: {HOST}\n",
        "proc/2/stat": stat(2, "kthreadd", 2129984),
        "proc/4242/stat": stat(4242, COMM),
        "proc/4242/comm": f"{COMM}\n",
        "proc/4242/cgroup": f"0::/{slices}/{CONTAINER}\n",
        "proc/4242/cmdline": f"/usr/bin/llm\0{ARGUMENT}\0--flash-attn\0",
        "proc/4242/environ": f"{VARIABLE}\0HOME=/home/{USER}\0",
        "proc/5151/status": f"Name:\t{CUT}\nState:\tS (sleeping)\nUid:\t1000\nVmSize:\t 100 kB\nSeccomp:\t{SERIAL}\n",
        "proc/5151/cgroup": f"0::/user.slice/{USER}.scope\n",
        "sys/devices/soc0/family": "Tegra\n",
        "sys/class/dmi/id/product_serial": f"{SERIAL}\n",
        "sys/class/dmi/id/product_uuid": f"{SYSTEM_UUID}\n",
        "sys/kernel/debug/nvmap/iovmm/clients": nvmap((COMM, 4242, 1500 * 1024), (CUT, 5151, 2048)),
        "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
        f"sys/fs/cgroup/{slices}/memory.current": "2147483648\n",
        f"sys/fs/cgroup/{slices}/memory.stat": "anon 1\nactive_file 4096\ninactive_file 4096\nslab_reclaimable 0\n",
        f"sys/fs/cgroup/{slices}/{CONTAINER}/memory.current": "1073741824\n",
        f"sys/fs/cgroup/{slices}/{CONTAINER}/memory.stat": "active_file 0\ninactive_file 0\nslab_reclaimable 0\n",
        "etc/systemd/system/k3s-agent.service": "[Service]\n"
        f"# token {TOKEN}\n"
        f"Environment='K3S_URL=https://{HOST}.{DOMAIN}:6443' 'K3S_TOKEN={TOKEN}' 'K3S_DATA_DIR=/{DATA}'\n"
        "EnvironmentFile=-/etc/systemd/system/%N.service.env\n"
        f"ExecStartPre=/bin/echo {PASSWORD}\n"
        f"ExecStart=/usr/bin/env {VARIABLE} /usr/local/bin/k3s agent --server https://{IPV4}:6443 \\\n"
        f"  --token {TOKEN} --node-name {HOST} --node-ip={IPV4} --kubelet-arg=system-reserved=memory=1Gi \\\n"
        f"  --kubelet-arg hostname-override={HOST} --node-label mac={MAC} -c /etc/rancher/{USER}/config.yaml\n",
        "etc/systemd/system/k3s-agent.service.d/10-site.conf": f"[Service]\nEnvironment={VARIABLE}\n",
        "etc/systemd/system/k3s-agent.service.env": f"K3S_TOKEN={TOKEN}\nK3S_NODE_NAME='{HOST}'\n",
        f"etc/systemd/system/backup-{USER}.service": "[Service]\nExecStart=/bin/true\n",
        f"etc/rancher/{USER}/config.yaml": f"token: {TOKEN}\nserver: https://{HOST}:6443\nnode-ip: {IPV6}\n"
        f"node-name: {HOST.upper()}\nkubelet-arg:\n- kube-reserved=memory=600Mi,cpu=1\n- node-ip={IPV4}\n"
        f"tls-san: [{PUBLIC_IPV4}]\n",
        f"{DATA}/agent/etc/kubelet.conf.d/00-k3s.conf": f"evictionHard: {{memory.available: 300Mi}}\n"
        f"clusterDNS: [{IPV4}]\nstaticPodPath: /home/{USER}/pods\n",
        f"{DATA}/agent/etc/containerd/config.toml": "version = 3\nimports = ['conf.d/*.toml']\n"
        f"root = '/home/{USER}/containerd'\n"
        "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]\n"
        "BinaryName = '/usr/bin/nvidia-container-runtime'\n"
        f"[plugins.'io.containerd.grpc.v1.cri'.registry.configs.'r.{DOMAIN}'.auth]\n"
        f"username = '{USER}'\npassword = '{PASSWORD}'\n",
        f"{DATA}/agent/etc/containerd/conf.d/site.toml": "version = 3\n"
        f"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia-cdi.options]\n"
        f"BinaryName = '/home/{USER}/bin/nvidia-container-runtime.cdi'\nSecret = '{PASSWORD}'\n",
        "usr/bin/nvidia-container-runtime": f"binary of {USER}",
        "var/lib/dbus/machine-id": f"{MACHINE_ID}\n",
    }


LINKS = {
    "proc/4242/fd/0": "/dev/nvmap",
    "proc/4242/fd/1": f"/home/{USER}/models/secret.gguf",
    "etc/systemd/system/multi-user.target.wants/k3s-agent.service": "/etc/systemd/system/k3s-agent.service",
}


def build(root: Path, content: dict[str, bytes | str] | None = None) -> Path:
    """The board on disk."""
    for name, text in (files() if content is None else content).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for name, target in LINKS.items() if content is None else ():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)
    return root


def replay(folder: Path, document: dict[str, Any] | None = None) -> Path:
    """NVML's answers as a file."""
    file = folder / "nvml-answers.json"
    file.write_text(json.dumps(ORIN_NVML if document is None else document))
    return file


def node() -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {
            "name": HOST,
            "uid": NODE_UID,
            "resourceVersion": "77",
            "labels": {
                "kubernetes.io/hostname": HOST,
                "kubernetes.io/arch": "arm64",
                "team": USER,
                "rack": SERIAL,
                "ai-capable": "true",
                "zone": "north",
                USER: "true",
            },
            "annotations": {
                "k3s.io/internal-ip": IPV4,
                "k3s.io/node-args": json.dumps(["agent", "--token", TOKEN]),
                "edgeagent.dev/owned-keys": '{"capacity":[],"conditions":[],"labels":["ai-capable"]}',
                "flannel.alpha.coreos.com/public-ip": PUBLIC_IPV4,
            },
            "managedFields": [
                {
                    "manager": f"kubectl-{USER}",
                    "operation": "Update",
                    "time": "2026-01-31T11:00:00Z",
                    "fieldsV1": {"f:status": {"f:capacity": {"f:edgeagent.dev/gpu-memory": {}}}},
                }
            ],
        },
        "spec": {"podCIDR": "10.42.7.0/24", "providerID": f"k3s://{HOST}"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": IPV4}, {"type": "Hostname", "address": HOST}],
            "capacity": {"memory": "7802736Ki", "cpu": "6", "edgeagent.dev/gpu-memory": "100Mi"},
            "allocatable": {"memory": "7802736Ki", "cpu": "6", "edgeagent.dev/gpu-memory": "100Mi"},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": f"{HOST} is ready"}
            ],
            "nodeInfo": {"machineID": MACHINE_ID, "systemUUID": SYSTEM_UUID, "bootID": BOOT_ID},
            "images": [{"names": ["secret-image"]}],
        },
    }


def pod() -> dict[str, Any]:
    limits = {"edgeagent.dev/gpu-memory": "1Gi", "memory": "3Gi"}
    return {
        "metadata": {
            "name": "llm",
            "namespace": "shop",
            "uid": UID,
            "labels": {"owner": USER},
            "annotations": {
                "shadow-annotation": TOKEN,
                "hami.io/vgpu-node": HOST,
                "nvidia.com/gpu-used": f"{CARD},NVIDIA,{IPV4},{MAC},[{IPV6}]:8080,https://{HOST}.{DOMAIN}:6443/x",
            },
            "ownerReferences": [{"kind": "ReplicaSet", "name": f"llm-{HOST}", "uid": NODE_UID, "controller": True}],
            "creationTimestamp": "2026-01-31T11:00:00Z",
        },
        "spec": {
            "nodeName": HOST,
            "nodeSelector": {"zone": "north", "kubernetes.io/hostname": HOST, USER: "true"},
            "hostAliases": [{"ip": IPV4, "hostnames": [HOST]}],
            "containers": [
                {
                    "name": "main",
                    "image": f"registry.{DOMAIN}/secret-image",
                    "args": [ARGUMENT, "--flash-attn"],
                    "command": ["/bin/sh", "-c", PASSWORD],
                    "env": [{"name": "DB_PASSWORD", "value": "correcthorse"}],
                    "resources": {"limits": limits, "requests": limits},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": IPV4,
            "hostIP": PUBLIC_IPV4,
            "startTime": "2026-01-31T11:00:00Z",
            "containerStatuses": [
                {
                    "name": "main",
                    "containerID": f"containerd://{CONTAINER}",
                    "image": "secret-image",
                    "state": {"running": {"startedAt": "2026-01-31T11:00:05Z"}},
                }
            ],
        },
    }


def static_pod() -> dict[str, Any]:
    """A mirror pod: the kubelet appends the node's name to its own."""
    return {
        "metadata": {
            "name": f"proxy-{HOST}",
            "namespace": "kube-system",
            "uid": "22222222-2222-3333-4444-000000000002",
            "annotations": {"kubernetes.io/config.mirror": "ab" * 16, "kubernetes.io/config.hash": "ab" * 16},
        },
        "spec": {"nodeName": HOST, "containers": [{"name": "proxy"}]},
        "status": {"phase": "Running", "startTime": "2026-01-31T11:00:00Z"},
    }
