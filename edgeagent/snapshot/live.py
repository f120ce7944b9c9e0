"""One look at the real board, and at its cluster only where credentials were given."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeagent.cluster import node
from edgeagent.diagnose.decided import decided
from edgeagent.errors import ClusterError, InputError
from edgeagent.facts import ClusterFacts, Facts
from edgeagent.facts.diagnosis import ClusterLook, ContainerLog, HostLook, Listed, no_cluster
from edgeagent.host.closer import look as closer
from edgeagent.host.files import RootFiles
from edgeagent.host.reader import BoardReader, nvml_source
from edgeagent.plan.state import State
from edgeagent.snapshot.podlist import understood

if TYPE_CHECKING:
    from edgeagent.cluster.client import Client
    from edgeagent.config import Config
    from edgeagent.facts import HostFacts, PodFacts
    from edgeagent.host.nvml import NvmlSource
    from edgeagent.plan.types import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a board is read."""

    host_root: Path
    nvml_replay: Path | None = None
    """A file with NVML's answers; None: the driver is asked."""
    kubeconfig: Path | None = None
    """None: no cluster is asked, unless ``discover``."""
    discover: bool = False
    """Credentials are looked for as a running agent does. Where there are none, or no answer, no cluster is known."""

    def open(self) -> tuple[RootFiles, NvmlSource]:
        """The host's files and its NVML.

        Raises:
            InputError: ``host_root`` is no directory.
        """
        if not self.host_root.is_dir():
            raise InputError(f"{self.host_root}: is no directory")
        return RootFiles(self.host_root), nvml_source(self.nvml_replay, time.monotonic)


@dataclass(frozen=True, slots=True)
class Examined:
    """A single sample of this board, and all that was looked at for its findings."""

    facts: Facts
    plan: Plan
    host: HostLook
    cluster: ClusterLook


def look(config: Config, source: Source) -> tuple[Facts, Plan]:
    """(facts, plan): what a single sample of this board says; a single sample never evicts.

    Raises:
        InputError: there is no such board, or this node's name is not certain.
        ClusterError: the API server could not be asked.
    """
    found = examine(config, source)
    return found.facts, found.plan


def examine(config: Config, source: Source) -> Examined:
    """As :func:`look`, with what was looked at for the findings.

    Raises:
        InputError: there is no such board, or this node's name is not certain.
        ClusterError: the API server could not be asked.
    """
    files, nvml = source.open()
    return asyncio.run(_examine(config, files, nvml, source))


async def _examine(config: Config, files: RootFiles, nvml: NvmlSource, source: Source) -> Examined:
    reader = BoardReader(files, nvml, data_dir=config.k3s.data_dir, clock=time.monotonic)
    try:
        host = await reader.sample(())
        cluster, listed = await _cluster(config, host, source)
        if cluster is not None:
            host = await reader.sample([pod.cgroup_uid for pod in cluster.pods or ()])
    finally:
        reader.close()
    facts = Facts(wall=time.time(), config=config, host=host, cluster=cluster)
    now = time.monotonic()
    more = await asyncio.to_thread(closer.look, files, host, now)
    _, facts, plan = decided(State(), facts, now, more, listed)
    return Examined(facts, plan, more, listed)


async def _cluster(config: Config, host: HostFacts, source: Source) -> tuple[ClusterFacts | None, ClusterLook]:
    if not (source.kubeconfig or source.discover):
        return None, no_cluster("no cluster was asked")
    from edgeagent.cluster import looking  # noqa: PLC0415

    try:
        found, items = await objects(config, host, source)
        more = looking.understood(await lists(config, host, source))
    except (ClusterError, InputError) as error:
        if source.kubeconfig:
            raise
        return None, no_cluster(str(error))
    bound = tuple(facts for _, facts in understood(items))
    return ClusterFacts(node=node.parse(found), pods=bound, fresh_at=time.monotonic()), more


def logs(config: Config, source: Source, host: HostFacts, pod: PodFacts) -> tuple[ContainerLog, ...]:
    """The ends of the logs of a pod's containers, read with the credentials that the cluster was asked with."""
    return asyncio.run(_logs(config, source, host, pod))


async def _logs(config: Config, source: Source, host: HostFacts, pod: PodFacts) -> tuple[ContainerLog, ...]:
    from edgeagent.cluster import podlogs  # noqa: PLC0415

    async with _client(config, host, source) as client:
        return await podlogs.read(client, pod)


async def lists(config: Config, host: HostFacts, source: Source) -> dict[str, Listed[Mapping[str, Any]]]:
    """The objects that only a diagnosis needs, by the plural of their kind, read once."""
    from edgeagent.cluster import looking  # noqa: PLC0415

    async with _client(config, host, source) as client:
        return await looking.ask(client)


def _client(config: Config, host: HostFacts, source: Source) -> Client:
    from edgeagent.cluster.client import Client  # noqa: PLC0415
    from edgeagent.cluster.credentials import KUBELET_KUBECONFIG, Credentials  # noqa: PLC0415

    k3s = Path(config.k3s.data_dir or host.kubelet.data_dir) / KUBELET_KUBECONFIG if source.discover else None
    return Client(Credentials(source.kubeconfig, k3s=k3s, root=source.host_root))


async def objects(config: Config, host: HostFacts, source: Source) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """This node and its pods as the API server has them, read once. The HTTP library is loaded only here.

    Raises:
        InputError: this node's name is not certain.
        ClusterError: the API server could not be asked.
    """
    from edgeagent.cluster import naming  # noqa: PLC0415

    async with _client(config, host, source) as client:
        name = await naming.node_name(
            client,
            given=config.node.name,
            environ=os.environ,
            k3s=host.kubelet.node_name,
            host_name=socket.gethostname(),
            machine_id=host.files.machine_id,
        )
        if name is None:
            raise InputError(naming.UNCERTAIN)
        listed: dict[str, Any] = await client.request(
            "GET", "/api/v1/pods", params={"fieldSelector": f"spec.nodeName={name}"}
        )
        found = await client.request("GET", f"/api/v1/nodes/{name}")
    return found, listed["items"]
