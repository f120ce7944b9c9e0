"""What the other cluster tests take for granted of their own tools."""

from __future__ import annotations

import signal
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.cgroups import is_v2
from tests.cluster.hostroot import HostRoot
from tests.cluster.objects import create_pod, pod, wait_gone, wait_pod

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.livenode import LiveNode
    from tests.controlplane.plane import ControlPlane


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_the_api_server_returns_to_the_same_address_with_the_same_objects(
    control_plane: ControlPlane,
    hand_node: str,
    sig: signal.Signals,
) -> None:
    uid = control_plane.api.read_node(hand_node).metadata.uid

    control_plane.stop_apiserver(sig)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", control_plane.port))
    control_plane.start_apiserver()

    assert control_plane.api.read_node(hand_node).metadata.uid == uid
    reads = control_plane.audit(user="admin", verb="get", resource="nodes")
    assert [read.code for read in reads if read.name == hand_node][-2:] == [200, 200]


def test_a_host_root_shows_live_processes_and_cgroups_beside_recorded_files(
    control_plane: ControlPlane,
    live_node: LiveNode,
    namespace: str,
    tmp_path: Path,
) -> None:
    live = create_pod(control_plane.api, pod("shown", namespace=namespace, node=live_node.name, grace=1))
    live = wait_pod(control_plane.api, live, "Running")
    container = live.status.container_statuses[0].container_id.removeprefix("containerd://")
    (pid,) = live_node.pids_of(live.metadata.uid, container)

    with HostRoot(_recorded(tmp_path / "recorded"), tmp_path / "root") as root:
        root.show({pid})
        assert _read(root, "ls", "proc").split() == [str(pid), "meminfo", "uptime"]
        assert _read(root, "cat", "proc/meminfo") == "MemTotal: 8 kB\n"
        assert _read(root, "stat", "--file-system", "--format=%T", f"proc/{pid}") == "proc\n"
        assert f"/pod{live.metadata.uid}/" in _read(root, "cat", f"proc/{pid}/cgroup")
        memory = "sys/fs/cgroup" if is_v2() else "sys/fs/cgroup/memory"
        assert live_node.cgroup_root.name in _read(root, "ls", memory).split()
        assert not any((root.path / f"proc/{pid}").iterdir()), "the machine itself has none of these mounts"

        root.write("proc/meminfo", "MemTotal: 9 kB\n")
        assert _read(root, "cat", "proc/meminfo") == "MemTotal: 9 kB\n"

        control_plane.api.delete_namespaced_pod("shown", namespace)
        wait_gone(control_plane.api, live)
        assert _read(root, "ls", f"proc/{pid}") == ""
        root.show(set())
        assert _read(root, "ls", "proc").split() == ["meminfo", "uptime"]


def _recorded(folder: Path) -> Path:
    """A board with one recorded process, which is not of this machine and must not appear."""
    for name, text in {"proc/meminfo": "MemTotal: 8 kB\n", "proc/4242/stat": "", "sys/fs/cgroup/memory/x": ""}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _read(root: HostRoot, *command: str) -> str:
    """Standard output of a command in the root."""
    process: subprocess.Popen[Any] = root.popen(command, cwd=root.path, stdout=subprocess.PIPE, text=True)
    return str(process.communicate()[0])
