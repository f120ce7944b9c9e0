"""The way to the cluster: credentials, node name, view and reconciler, found whenever they appear.

A K3s agent writes its kubeconfig late, and an edge board boots without its uplink; the agent
measures and serves all the same and looks again every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from edgeagent.cluster import naming
from edgeagent.cluster.client import Client
from edgeagent.cluster.view import ClusterView
from edgeagent.errors import ClusterError, NoCredentialsError, NothingFoundError
from edgeagent.facts import ClusterFacts

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from edgeagent.cluster.credentials import Credentials
    from edgeagent.reconcile.reconciler import Reconciler

log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
_UNREAD = float("-inf")


class Link:
    """One connection to the cluster, for as long as the agent runs.

    Args:
        credentials: where access comes from, asked at each attempt.
        expected: access was configured, so its absence is a fault and not standalone operation.
        name: resolves the node's name; None: not certain, so nothing is written.
        reconciler: makes the reconciler of a node from client and name.
        changed: set whenever the view changed.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        credentials: Callable[[], Credentials],
        *,
        expected: bool,
        name: Callable[[Client], Awaitable[str | None]],
        reconciler: Callable[[Client, str], Reconciler],
        changed: asyncio.Event,
        clock: Callable[[], float],
    ) -> None:
        self.client: Client | None = None
        """Open, and of a node whose name is known."""
        self.latest: Client | None = None
        """The last one, open or closed: it knows when it was answered last, and how often."""
        self.view: ClusterView | None = None
        self.reconciler: Reconciler | None = None
        self.node: str | None = None
        self.problem = ""
        """Why there is no view yet."""
        self.unusable = ""
        """Why credentials that were given or found cannot be used; empty: they can, or there are none."""
        self._credentials = credentials
        self._expected = expected
        self.looked = asyncio.Event()
        """Credentials were looked for, so that it is known whether a cluster is expected."""
        self._nothing_found = False
        """The last look for credentials found none. Before the first look a cluster may be there."""
        self._name = name
        self._reconciler = reconciler
        self._changed = changed
        self._clock = clock

    @property
    def standalone(self) -> bool:
        """No cluster is known, and one was looked for; everything but the cluster part works."""
        return self.client is None and not self._expected and self._nothing_found

    def facts(self, now: float) -> ClusterFacts | None:
        """The cluster's view; without node and pods until it was read, None standalone."""
        if self.view is not None:
            return self.view.facts(now)
        return None if self.standalone else ClusterFacts(node=None, pods=None, fresh_at=_UNREAD)

    async def run(self) -> None:
        """Connect when possible and hold the connection until cancelled."""
        while True:
            try:
                await self._hold()
            except NothingFoundError as error:
                self._nothing_found, self.unusable = True, ""
                self.looked.set()
                self._told(f"no credentials: {error}")
            except NoCredentialsError as error:
                # Somebody meant this machine to be in a cluster: to call that standalone would hide the fault.
                self._nothing_found, self.unusable = False, str(error)
                self.looked.set()
                self._told(f"unusable credentials: {error}")
            except ClusterError as error:
                self._told(str(error))
            await asyncio.sleep(RETRY_SECONDS)

    async def _hold(self) -> None:
        credentials = self._credentials()
        await credentials.access()
        self._nothing_found, self.unusable = False, ""
        self.looked.set()
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(credentials, clock=self._clock))
            if self.latest is not None:
                # What is counted is counted for as long as the agent runs.
                client.calls, client.last_success = self.latest.calls, self.latest.last_success
            self.latest = client
            self.node = await self._name(client)
            if self.node is None:
                self._told(naming.UNCERTAIN)
                return
            self.client = client
            stack.callback(self._forget)
            self.view = ClusterView(client, self.node, clock=self._clock, changed=self._changed)
            self.reconciler = self._reconciler(client, self.node)
            self.view.start()
            stack.push_async_callback(self.view.stop)
            self.reconciler.start()
            stack.push_async_callback(self.reconciler.stop)
            log.info("node %s, as %s", self.node, credentials.identity)
            self.problem = ""
            await asyncio.Event().wait()

    def _forget(self) -> None:
        """A closed client answers nobody."""
        self.client = None

    def _told(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("%s%s", problem, "; running standalone" if self.standalone else "")
        self.problem = problem
