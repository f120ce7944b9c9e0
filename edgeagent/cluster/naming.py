"""Which node this is. Without certainty there is no name, and without a name nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from edgeagent.cluster import objects
from edgeagent.cluster.client import Client
from edgeagent.errors import AnswerError

UNCERTAIN = "which node this is is not certain; name it: node.name in config.yaml, or --node"
"""What is told where there is no name."""
_NOT_OURS = (403, 404)


async def node_name(
    client: Client,
    *,
    given: str | None,
    environ: Mapping[str, str],
    k3s: str | None,
    host_name: str | None,
    machine_id: str | None,
) -> str | None:
    """The node's name: as given, ``NODE_NAME``, K3s' own setting, else the host name if that node is this machine.

    ``machine_id`` is the board's own; a node whose machineID is another one, or unknown, is not ours.

    Raises:
        ClusterError: the host name is all there is, and the API server could not be asked.
    """
    # K3s lower-cases its setting as it does the host name.
    told = given or environ.get("NODE_NAME") or (k3s.lower() if k3s else None)
    if told:
        return told
    if not host_name or not machine_id:
        return None
    name = host_name.lower()
    try:
        found = await client.request("GET", f"/api/v1/nodes/{quote(name, safe='')}")
    except AnswerError as error:
        if error.code in _NOT_OURS:
            return None
        raise
    return name if objects.read("node", found, _machine_id) == machine_id else None


def _machine_id(node: Mapping[str, Any]) -> Any:
    return node["status"]["nodeInfo"]["machineID"]
