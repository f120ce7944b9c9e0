"""An agent and live pods on a board whose memory the test tells, while its processes and cgroups are real."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.agentprocess import AgentProcess
from tests.cluster.hostroot import HostRoot
from tests.cluster.objects import (
    GPU_MEMORY,
    STRATEGIC_MERGE_PATCH,
    create_pod,
    patch_node_status,
    pod,
    wait_pod,
)
from tests.cluster.recorded import nvmap_table, recorded_board
from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from typing_extensions import Self

    from tests.cluster.livenode import LiveNode
    from tests.controlplane.audit import Request
    from tests.controlplane.plane import ControlPlane

LIMITS = {GPU_MEMORY: "1Gi", "memory": "1536Mi"}
"""1 GiB of GPU memory and 512 MiB for the host: three such pods fit on the recorded board."""

_NVMAP = "sys/kernel/debug/nvmap/iovmm/clients"
_MEMINFO = "proc/meminfo"
_CONDITIONS = ("GPUMemoryPressure", "GPUUnavailable", "GPURuntimeMisconfigured")


class LiveScene:
    """The board of ``node`` between enter and exit, with pods in ``namespace``; both agent and board end with it."""

    def __init__(self, plane: ControlPlane, node: LiveNode, namespace: str, folder: Path) -> None:
        """``folder`` takes the files of board and agent."""
        self.plane = plane
        self.node = node
        self.namespace = namespace
        self._folder = folder
        self._root = HostRoot(recorded_board() / "host", folder / "root", procfs=True)
        self._stack = ExitStack()
        self._agents: list[AgentProcess] = []

    def __enter__(self) -> Self:
        self._stack.enter_context(self._root)
        self.hold({})
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()
        for agent in self._agents:
            sys.stdout.write(agent.log.read_text())  # what a failing test shows
        keys = {GPU_MEMORY: None, "edgeagent.dev/gpu-milli": None}
        owned = {"labels": {"ai-capable": None}, "annotations": {"edgeagent.dev/owned-keys": None}}
        api, status = self.plane.api, {"capacity": keys, "allocatable": keys}
        patch_node_status(api, self.node.name, {"metadata": owned, "status": status})
        gone = [{"$patch": "delete", "type": condition} for condition in _CONDITIONS]
        api.patch_node_status(self.node.name, {"status": {"conditions": gone}}, _content_type=STRATEGIC_MERGE_PATCH)

    def agent(self, config: str) -> AgentProcess:
        """Start an agent; returns when it is ready."""
        folder = self._folder / "agent"
        process = AgentProcess(
            self.plane, self.node.name, self._root.path, folder, config=config, popen=self._root.popen
        )
        self._agents.append(process)
        self._stack.enter_context(process).wait_ready()
        return process

    def model(self, name: str, *, limits: Mapping[str, str] = LIMITS) -> dict[str, Any]:
        """A pod for this board that ends at once when it is told to, to be edited at will."""
        return pod(
            name,
            namespace=self.namespace,
            limits=limits,
            selector={"kubernetes.io/hostname": self.node.name},
            args=["--hold", "20"],
            grace=2,
        )

    def start(self, *manifests: dict[str, Any]) -> list[Any]:
        """Create pods, let the scheduler place them, and wait until they run."""
        made = [create_pod(self.plane.api, manifest) for manifest in manifests]
        return [wait_pod(self.plane.api, each, "Running") for each in made]

    def hold(self, held: Mapping[int, int]) -> None:
        """These processes hold so many MiB of GPU memory from now on, and no others but the display server.

        That is a process of the host that surely runs: the test itself.
        """
        rows = [("load", pid, mib * 1024) for pid, mib in held.items()]
        self._root.write(_NVMAP, nvmap_table(rows, display=os.getpid()))

    def leave(self, mib: int) -> None:
        """So many MiB of the board's memory are available from now on, next to none of them in caches."""
        told = {"MemAvailable": mib * 1024, "MemFree": mib * 1024, "Active(file)": 0, "Inactive(file)": 0}
        lines = (recorded_board() / "host" / _MEMINFO).read_text().splitlines()
        text = "".join(
            f"{name}: {told[name]} kB\n" if name in told else f"{line}\n"
            for line in lines
            for name in [line.split(":")[0]]
        )
        self._root.write(_MEMINFO, text)

    def evictions(self) -> list[Request]:
        """The agent's eviction calls for pods of the namespace, in order."""
        credential = self.plane.credential_id(self.node.name)
        calls = self.plane.audit(credential=credential, resource="pods/eviction")
        return [call for call in calls if call.namespace == self.namespace]

    def wait_evicted(self, name: str, *, seconds: float = 30.0) -> Request:
        """Wait until an eviction of the pod was accepted; returns the call."""

        def accepted() -> Request | None:
            return next((call for call in self.evictions() if (call.name, call.code) == (name, 201)), None)

        return wait_for(f"{name} evicted", accepted, seconds=seconds, every=0.2)

    def wait_event(self, reason: str, pod: Any, *, seconds: float = 30.0) -> str:
        """Wait for the one event with this reason about a pod; returns its message."""

        def told() -> list[str]:
            events = self.plane.api.list_namespaced_event(self.namespace).items
            return [
                event.message
                for event in events
                if event.reason == reason and event.involved_object.uid == pod.metadata.uid
            ]

        messages = wait_for(f"{reason} of {pod.metadata.name}", told, seconds=seconds, every=0.2)
        assert len(messages) == 1, messages
        return messages[0]


def wait_ended(pid: int, *, since: datetime | None = None, seconds: float = 30.0) -> tuple[datetime, datetime]:
    """Wait for the end of a process; returns a moment at which it ran and when it was first missed.

    The former is ``since``, when it is known to have run, until it is seen later than that.
    """
    end = time.monotonic() + seconds
    last = since or datetime.min.replace(tzinfo=timezone.utc)
    while True:
        before = datetime.now(timezone.utc)
        if not _runs(pid):
            return last, datetime.now(timezone.utc)
        last = before
        assert time.monotonic() < end, f"process {pid} lives on after {seconds:g} s"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """A zombie has ended: its memory is back, whenever somebody asks how it ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def held(agent: AgentProcess) -> dict[str, tuple[str, float | None]]:
    """(code, seconds left) of the pods that the agent holds, by uid."""
    plan = agent.get("/api/v1/plan")[1].get("plan", {"held": []})
    return {one["uid"]: (one["code"], one["seconds_left"]) for one in plan["held"]}


def metric(agent: AgentProcess, series: str) -> float:
    """The value of a series, named with its labels as the agent prints it; 0 while there is none."""
    lines = agent.text("/metrics").splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == series), 0.0)
