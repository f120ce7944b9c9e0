"""Configuration files of a live node's kubelet and containerd."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from tests.cluster import loadimage

if TYPE_CHECKING:
    from pathlib import Path

_LOOPBACK = {"cniVersion": "0.4.0", "name": "loopback", "plugins": [{"type": "loopback"}]}

_CONTAINERD = """\
version = 2
root = "{state}/containerd"
state = "/run/containerd"

[grpc]
address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
restrict_oom_score_adj = true
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
BinaryName = "{folder}/nvidia-container-runtime"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{folder}/cni"
conf_dir = "{folder}/cni"
"""


def write_containerd(folder: Path, state: Path, socket: Path) -> Path:
    """Write containerd's configuration and a network that needs no plug-in as long as pods use the host's.

    Beside runc it has a runtime by the name of NVIDIA's, which is runc too.
    """
    runc = shutil.which("runc")
    assert runc
    (folder / "nvidia-container-runtime").symlink_to(runc)
    cni, file = folder / "cni", folder / "containerd.toml"
    cni.mkdir()
    (cni / "10-loopback.conflist").write_text(json.dumps(_LOOPBACK))
    file.write_text(_CONTAINERD.format(state=state, socket=socket, folder=folder, image=loadimage.NAME))
    return file


def write_kubelet(folder: Path, *, cgroup_root: str, ca_file: Path, socket: Path, address: str, port: int) -> Path:
    """Write a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) for ``address``:``port``.

    There the API server asks for logs, and passes on what kubectl wants to exec; clients need a certificate.
    """
    file, static_pods = folder / "kubelet.json", folder / "static-pods"
    static_pods.mkdir()
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "port": port,
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(ca_file)}},
        "containerRuntimeEndpoint": f"unix://{socket}",
        "staticPodPath": str(static_pods),
        "resolvConf": "",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup_root,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        # As K3s: no memory threshold. And none for disks, so that the machine's own filling does not matter.
        "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        # Errors when it changes what belongs to the host are ignored.
        "featureGates": {"KubeletInUserNamespace": True},
    }
    file.write_text(json.dumps(config, indent=1))
    return file
