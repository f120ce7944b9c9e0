"""A real kubelet with containerd and runc that runs live pods on this machine, in a mount namespace of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from contextlib import ExitStack
from datetime import datetime, timezone
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubernetes import client

from tests.cluster import loadimage, nodeconfig
from tests.cluster.cgroups import CgroupTree
from tests.cluster.mountspace import MountNamespace
from tests.controlplane.processes import Daemon, free_port

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from tests.controlplane.plane import ControlPlane

PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "gcc", "unshare", "nsenter", "setpriv")
"""What must be on PATH; Debian has them in containerd, runc, gcc with libc6-dev, and util-linux."""

_PRIVATE = ("/var/lib", "/var/log", "/run")
"""Folders where the kubelet, containerd and its shims have fixed paths; they get empty ones."""

_SOCKET = Path("/run/containerd/containerd.sock")
"""The usual path, in the node's private /run."""

_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What the kubelet sets on its host; it finds these values in plain files and leaves the real ones alone."""


class LiveNode:
    """A node of the given control plane, Ready inside the ``with`` block. Needs root.

    Nothing of it is left behind: no process, mount or cgroup, even if the test run is killed. Logs stay in ``folder``.
    Like K3s, the kubelet has no threshold for memory eviction, and none for a disk that is full.
    """

    def __init__(self, plane: ControlPlane, folder: Path, name: str = "live") -> None:
        """``folder`` is created; it holds all files of the node."""
        self.name = name
        self.folder = folder
        self._plane = plane
        self._stack = ExitStack()
        self._cgroups = CgroupTree(f"edgeagent-{name}-{os.getpid()}")
        self._namespace = MountNamespace()
        self._state = folder / "state"

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()
        if str(self.folder) in Path("/proc/self/mountinfo").read_text():
            raise RuntimeError(f"mounts of {self.folder} are left on the machine")

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        return self._containerd, self._kubelet

    @property
    def cgroup_root(self) -> Path:
        """The folder in the memory hierarchy (v1) or the unified one (v2) that holds the node's ``kubepods``."""
        return self._cgroups.memory

    def pids_of(self, pod_uid: str, container_id: str = "**") -> set[int]:
        """Processes of a pod, its sandbox's too; only those of one container if its id (64 hex digits) is given."""
        found: set[int] = set()
        for file in self.cgroup_root.glob(f"kubepods/**/pod{pod_uid}/{container_id}/cgroup.procs"):
            with contextlib.suppress(OSError):  # the cgroup was removed meanwhile
                found.update(map(int, file.read_text().split()))
        return found

    def pid_of(self, pod: Any, container: str = "main") -> int:
        """The one process of a container of a running pod."""
        (status,) = (one for one in pod.status.container_statuses if one.name == container)
        (pid,) = self.pids_of(pod.metadata.uid, status.container_id.removeprefix("containerd://"))
        return pid

    def stop_kubelet(self, sig: signal.Signals = signal.SIGTERM) -> None:
        """Stop the kubelet alone; its pods run on."""
        self._kubelet.stop(sig)

    def start_kubelet(self) -> None:
        """Start the kubelet and wait until it has registered the node and it is Ready."""
        since = datetime.now(timezone.utc)
        self._kubelet.start()
        self._cgroups.adopt(self._kubelet.pid)
        self._kubelet.wait_ready(lambda: self._has_registered(since))

    def restart_kubelet(self) -> None:
        self.stop_kubelet()
        self.start_kubelet()

    @property
    def static_pods(self) -> Path:
        """Folder of static pod manifests that the kubelet watches."""
        return self.folder / "static-pods"

    def _start(self) -> None:
        self._stack.callback(shutil.rmtree, self._state, ignore_errors=True)
        self._stack.enter_context(self._namespace)
        self._cgroups.create()
        self._stack.callback(self._cgroups.remove)
        self._mount()
        self._start_containerd()
        self._kubelet = self._make_kubelet()
        self._stack.callback(self._kubelet.stop, signal.SIGKILL)
        self.start_kubelet()
        self._stack.callback(self._forget)

    def _forget(self) -> None:
        with contextlib.suppress(client.ApiException):  # a test may have deleted it
            self._plane.api.delete_node(self.name)

    def _mount(self) -> None:
        """Hide the machine's own folders and sysctls behind private ones, in the node's namespace only."""
        for hidden in _PRIVATE:
            private = self._state / hidden.strip("/").replace("/", "-")
            private.mkdir(parents=True)
            self._namespace.bind(private, Path(hidden))
        sysctls = self.folder / "sysctls"
        sysctls.mkdir()
        for number, (name, value) in enumerate(_SYSCTLS.items()):
            file = sysctls / str(number)
            file.write_text(f"{value}\n")
            self._namespace.bind(file, Path("/proc/sys", name))

    def _start_containerd(self) -> None:
        config = nodeconfig.write_containerd(self.folder, self._state, _SOCKET)
        self._containerd = self._daemon("containerd", "containerd", f"--config={config}")
        self._containerd.start()
        self._stack.callback(self._containerd.stop, signal.SIGKILL)
        # Before its first shim: whatever containerd starts inherits the cgroup.
        self._cgroups.adopt(self._containerd.pid)
        self._containerd.wait_ready(lambda: self._ctr("version").returncode == 0)
        image = loadimage.build(self.folder)
        self._ctr("images", "import", "--snapshotter=native", str(image)).check_returncode()

    def _make_kubelet(self) -> Daemon:
        config = nodeconfig.write_kubelet(
            self.folder,
            cgroup_root=self._cgroups.path,
            ca_file=self._plane.ca_file,
            socket=_SOCKET,
            address=_host_address(),
            port=free_port(),
        )
        return self._daemon(
            "kubelet",
            self._plane.binary("kubelet"),
            f"--config={config}",
            f"--kubeconfig={self._plane.node_kubeconfig(self.name, 'kubelet')}",
            f"--hostname-override={self.name}",
            f"--node-ip={_host_address()}",
        )

    def _daemon(self, name: str, *argv: str | Path) -> Daemon:
        return Daemon(name, argv, self.folder / f"{name}.log", inside=self._namespace.entry)

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*self._namespace.entry, "ctr", f"--address={_SOCKET}", "--namespace=k8s.io", *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    def _has_registered(self, since: datetime) -> bool:
        own = self._plane.credential_id(self.name, "kubelet")
        reports = self._plane.audit(credential=own, verb="patch", resource="nodes/status", since=since)
        if not any(report.code == HTTPStatus.OK for report in reports):
            return False
        conditions = self._plane.api.read_node(self.name).status.conditions
        return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)


def _host_address() -> str:
    """An address of this machine that is not a loopback one, which the kubelet refuses to report."""
    told = subprocess.run(["hostname", "-I"], check=True, capture_output=True, text=True)
    return told.stdout.split()[0]
