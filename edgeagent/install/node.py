"""Takes what the agent has published off the node: asks the API server what is there, and writes what was decided."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from edgeagent.cluster import naming, node, pods
from edgeagent.cluster.client import Client
from edgeagent.cluster.credentials import KUBELET_KUBECONFIG, Credentials
from edgeagent.cluster.objects import ObjectError
from edgeagent.errors import AnswerError, ClusterError, NoCredentialsError
from edgeagent.host import k3s
from edgeagent.host.files import Files, there
from edgeagent.install import places
from edgeagent.plan.removal import removal
from edgeagent.reconcile.node import apply

if TYPE_CHECKING:
    from edgeagent.config import Config
    from edgeagent.facts import NodeFacts, PodFacts
    from edgeagent.plan.removal import Removal
    from edgeagent.plan.types import Request

SETTLE_SECONDS = 2.0
"""After this long an agent that still runs somewhere has put back what was removed for the first time.

Later it waits for longer, up to minutes; so the pods of a DaemonSet are looked for by name.
"""
AGENT_LABEL = ("app.kubernetes.io/name", "edgeagent")
"""What the pods of every DaemonSet of ours bear, be it from kustomize, a file or the chart."""
_NOT_FOUND = 404

Found = Literal["read", "no node", "no cluster", "unreachable"]


@dataclass(frozen=True, slots=True)
class Look:
    """What the API server says about this node."""

    found: Found
    name: str | None = None
    """The node's name, as far as it is known without the API server."""
    why: str = ""
    removal: Removal | None = None
    agents: tuple[str, ...] = ()
    """Live pods of a DaemonSet of the agent's on this node."""


class Cluster:
    """The cluster of the board below ``root``.

    Args:
        settings: the agent's configuration, for node name and K3s' data directory.
        root: where the board's files are.
        kubeconfig: credentials; None: as the agent finds them.
    """

    def __init__(self, settings: Config, root: Path, kubeconfig: Path | None) -> None:
        self._settings = settings
        self._root = root
        self._kubeconfig = kubeconfig
        files = places.host_files(root)
        self._kubelet = k3s.settings(files, settings.k3s.data_dir)
        self._k3s_kubeconfig = f"{settings.k3s.data_dir or self._kubelet.data_dir}/{KUBELET_KUBECONFIG}"
        given = kubeconfig is not None or bool(os.environ.get("KUBECONFIG"))
        self._expected = given or there(files, self._k3s_kubeconfig)
        self._machine_id = _machine_id(files)

    def look(self, *, force: bool) -> Look:
        """Read the node and its pods, and say what there is to remove. Nothing is written."""
        return asyncio.run(self._look(force=force))

    def clean(self, removal: Removal) -> str:
        """Carry a removal out, and look whether it lasts; why not, or an empty text."""
        return asyncio.run(self._clean(removal.requests))

    async def _look(self, *, force: bool) -> Look:
        name = self._known_name()
        try:
            async with self._client() as client:
                name = await self._name(client)
                if name is None:
                    return Look("unreachable", None, naming.UNCERTAIN)
                found = node.parse(await client.request("GET", _path(name)))
                listed = await _listed(client, name)
                return Look("read", name, "", removal(found, _pods(listed), force=force), agents(listed))
        except NoCredentialsError as error:
            # With credentials that were named, or K3s' own, there is a cluster: they cannot be used just now.
            return Look("unreachable" if self._expected else "no cluster", name, str(error))
        except AnswerError as error:
            if error.code == _NOT_FOUND:
                return Look("no node", name)
            return Look("unreachable", name, str(error))
        except ClusterError as error:
            return Look("unreachable", name, str(error))

    async def _clean(self, due: tuple[Request, ...]) -> str:
        if not due:
            return ""
        try:
            async with self._client() as client:
                done = await apply(client, due, statuses={}, wall=time.time())
                if done.error or done.refused:
                    refused = "; ".join(f"{part.part} was refused: {part.message}" for part in done.refused)
                    return done.error or refused
                await asyncio.sleep(SETTLE_SECONDS)
                return _back(node.parse(await client.request("GET", due[0].path.removesuffix("/status"))), due)
        except ClusterError as error:
            return str(error)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        credentials = Credentials(self._kubeconfig, k3s=Path(self._k3s_kubeconfig), root=self._root)
        await credentials.access()
        async with Client(credentials) as client:
            yield client

    def _known_name(self) -> str | None:
        return self._settings.node.name or os.environ.get("NODE_NAME") or self._kubelet.node_name

    async def _name(self, client: Client) -> str | None:
        return await naming.node_name(
            client,
            given=self._settings.node.name,
            environ=os.environ,
            k3s=self._kubelet.node_name,
            host_name=socket.gethostname(),
            machine_id=self._machine_id,
        )


def _machine_id(files: Files) -> str | None:
    try:
        return files.read("etc/machine-id").decode(errors="replace").strip() or None
    except OSError:
        return None


async def _listed(client: Client, name: str) -> list[Any] | None:
    """The pods of the node as the API server has them; None where it refuses."""
    try:
        listed = await client.request("GET", "/api/v1/pods", params={"fieldSelector": f"spec.nodeName={name}"})
    except AnswerError:
        return None
    return listed.get("items") or []


def _pods(listed: list[Any] | None) -> tuple[PodFacts, ...] | None:
    """The pods; None where one cannot be known, which may be the one that needs a label."""
    try:
        return None if listed is None else tuple(pods.parse(item) for item in listed)
    except ObjectError:
        return None


def agents(listed: list[Any] | None) -> tuple[str, ...]:
    """Those of the pods in which an agent runs, also one that waits before it puts back what was removed."""
    found = []
    for item in listed or ():
        try:
            pod = pods.parse(item)
        except ObjectError:
            continue
        if pod.live and (item["metadata"].get("labels") or {}).get(AGENT_LABEL[0]) == AGENT_LABEL[1]:
            found.append(pod.key)
    return tuple(sorted(found))


def _path(name: str) -> str:
    return f"/api/v1/nodes/{quote(name, safe='')}"


def _back(found: NodeFacts, due: tuple[Request, ...]) -> str:
    """What of the removed is on the node again."""
    present: dict[str, Mapping[str, str]] = {"capacity": found.capacity, "labels": found.labels}
    removed = [
        (part, key)
        for request in due
        for place in ("status", "metadata")
        for part in present
        for key, value in request.body.get(place, {}).get(part, {}).items()
        if value is None
    ]
    again = sorted(key for part, key in removed if key in present[part])
    if not again:
        return ""
    return (
        f"{', '.join(again)} came back: an agent still runs for this node, such as a DaemonSet; end it, and try again"
    )
