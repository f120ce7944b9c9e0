"""The agent's view of the cluster: its own node and the pods bound to it, each watched."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping

from edgeagent.cluster import node, pods
from edgeagent.cluster.client import Client
from edgeagent.cluster.watching import Watched, WatchHealth
from edgeagent.facts import ClusterFacts, NodeFacts, PodFacts


class ClusterView:
    """Own node and own pods, kept current between ``start`` and ``stop``.

    Args:
        client: an open client.
        name: of the node.
        clock: monotonic seconds, the same as of all readings.
        changed: set on every change of what ``facts`` would return; whoever waits for it clears it.
        rng: source of jitter.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        changed: asyncio.Event | None = None,
        rng: random.Random | None = None,
    ) -> None:
        rng = rng or random.Random()  # noqa: S311 (jitter, not secrets)
        self.changed = changed or asyncio.Event()
        self._node: Watched[NodeFacts] = Watched(
            client, "/api/v1/nodes", f"metadata.name={name}", node.parse, clock=clock, changed=self.changed, rng=rng
        )
        self._pods: Watched[PodFacts] = Watched(
            client, "/api/v1/pods", f"spec.nodeName={name}", pods.parse, clock=clock, changed=self.changed, rng=rng
        )

    def start(self) -> None:
        """Begin to watch, in two tasks."""
        self._node.start()
        self._pods.start()

    async def stop(self) -> None:
        """End both watches; what crashed one of them, a bug, is raised here."""
        await asyncio.gather(self._node.stop(), self._pods.stop())

    def facts(self, now: float) -> ClusterFacts:
        """The cluster as last heard of. ``fresh_at`` is the older view's; -inf before both were listed once."""
        found = self._node.values
        return ClusterFacts(
            node=found[0] if found else None,
            pods=self._pods.values if self._pods.complete else None,
            fresh_at=min(self._node.fresh_at(now), self._pods.fresh_at(now)),
        )

    def health(self) -> Mapping[str, WatchHealth]:
        """How the two watches are doing, by ``node`` and ``pods``."""
        return {"node": self._node.health(), "pods": self._pods.health()}
