"""One look at the real board, and at its cluster only where credentials were given."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgeagent.cluster import node
from edgeagent.errors import InputError
from edgeagent.facts import ClusterFacts, Facts
from edgeagent.host.files import RootFiles
from edgeagent.host.reader import BoardReader, nvml_source
from edgeagent.plan.decide import decide
from edgeagent.plan.state import State
from edgeagent.snapshot.podlist import understood

if TYPE_CHECKING:
    from pathlib import Path

    from edgeagent.config import Config
    from edgeagent.facts import HostFacts
    from edgeagent.host.nvml import NvmlSource
    from edgeagent.plan.types import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a board is read."""

    host_root: Path
    nvml_replay: Path | None = None
    """A file with NVML's answers; None: the driver is asked."""
    kubeconfig: Path | None = None
    """None: no cluster is asked."""

    def open(self) -> tuple[RootFiles, NvmlSource]:
        """The host's files and its NVML.

        Raises:
            InputError: ``host_root`` is no directory.
        """
        if not self.host_root.is_dir():
            raise InputError(f"{self.host_root}: is no directory")
        return RootFiles(self.host_root), nvml_source(self.nvml_replay, time.monotonic)


def look(config: Config, source: Source) -> tuple[Facts, Plan]:
    """(facts, plan): what a single sample of this board says; a single sample never evicts.

    Raises:
        InputError: there is no such board, or this node's name is not certain.
        ClusterError: the API server could not be asked.
    """
    files, nvml = source.open()
    return asyncio.run(_look(config, files, nvml, source))


async def _look(config: Config, files: RootFiles, nvml: NvmlSource, source: Source) -> tuple[Facts, Plan]:
    reader = BoardReader(files, nvml, data_dir=config.k3s.data_dir, clock=time.monotonic)
    try:
        host = await reader.sample(())
        cluster = await _cluster(config, host, source) if source.kubeconfig else None
        if cluster is not None:
            host = await reader.sample([pod.cgroup_uid for pod in cluster.pods or ()])
    finally:
        reader.close()
    facts = Facts(wall=time.time(), config=config, host=host, cluster=cluster)
    return facts, decide(State(), facts, time.monotonic())[1]


async def _cluster(config: Config, host: HostFacts, source: Source) -> ClusterFacts:
    found, items = await objects(config, host, source)
    bound = tuple(facts for _, facts in understood(items))
    return ClusterFacts(node=node.parse(found), pods=bound, fresh_at=time.monotonic())


async def objects(config: Config, host: HostFacts, source: Source) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """This node and its pods as the API server has them, read once. The HTTP library is loaded only here.

    Raises:
        InputError: this node's name is not certain.
        ClusterError: the API server could not be asked.
    """
    from edgeagent.cluster import naming  # noqa: PLC0415
    from edgeagent.cluster.client import Client  # noqa: PLC0415
    from edgeagent.cluster.credentials import Credentials  # noqa: PLC0415

    async with Client(Credentials(source.kubeconfig, root=source.host_root)) as client:
        name = await naming.node_name(
            client,
            given=config.node.name,
            environ=os.environ,
            k3s=host.kubelet.node_name,
            host_name=socket.gethostname(),
            machine_id=host.files.machine_id,
        )
        if name is None:
            raise InputError("which node this is is not certain; give --node")
        listed: dict[str, Any] = await client.request(
            "GET", "/api/v1/pods", params={"fieldSelector": f"spec.nodeName={name}"}
        )
        found = await client.request("GET", f"/api/v1/nodes/{name}")
    return found, listed["items"]
