"""The ends of containers' logs, asked of the API server: only where somebody wants it, and never much."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from edgeagent.cluster.looking import FORBIDDEN
from edgeagent.errors import ClusterError
from edgeagent.facts.diagnosis import ContainerLog

if TYPE_CHECKING:
    from edgeagent.cluster.client import Client
    from edgeagent.facts import ContainerFacts, PodFacts

LINES = 200
"""From the end of each log."""
BYTES = 64 * 1024
"""Of each log, whatever the server sends."""
SECONDS = 5.0
"""For each log."""
MOST = 8
"""Containers of a pod whose logs are read."""


async def read(client: Client, pod: PodFacts) -> tuple[ContainerLog, ...]:
    """The logs of the pod's containers, one after the other; in place of one that there is not, why."""
    lasting = [one for one in pod.containers if one.kind != "ephemeral"]
    found = [await _read(client, pod, one) for one in lasting[:MOST]]
    found += [ContainerLog(container=one.name, why=f"{MOST} logs were read already") for one in lasting[MOST:]]
    return tuple(found)


async def _read(client: Client, pod: PodFacts, one: ContainerFacts) -> ContainerLog:
    if one.container_id is None:
        return ContainerLog(container=one.name, why="it has not run yet")
    path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}/log"
    query = {"container": one.name, "tailLines": str(LINES), "limitBytes": str(BYTES)}
    try:
        text = await client.text(path, query, most=BYTES, timeout=SECONDS)
    except ClusterError as error:
        if getattr(error, "code", None) == FORBIDDEN:
            right = f"get pods/log in the namespace {pod.namespace}"
            return ContainerLog(
                container=one.name, why=f"the API server does not let these credentials {right}", right=right
            )
        return ContainerLog(container=one.name, why=str(error))
    return ContainerLog(container=one.name, text=text.decode(errors="replace"))
