"""One Prometheus for all tests here, and two agents that it scrapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.cluster.recorded import Board
from tests.prometheus.composed import Composed, state
from tests.prometheus.server import Prometheus, Target
from tests.system.service import Service, furnish, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blockbuster import BlockBuster


@pytest.fixture(autouse=True)
def no_blocking_calls(blocking_detector: BlockBuster) -> None:
    """Nothing is watched: the endpoint of these tests runs in a thread, and the other in a process of its own."""


@dataclass(frozen=True)
class Scraped:
    """What Prometheus looks at, and Prometheus.

    ``service`` is a whole agent on the recorded board ``board``, without a cluster. ``composed`` is an endpoint whose
    state the tests make up; its target has a namespace and a pod of its own, as the operator gives them.
    """

    service: Service
    board: Board
    composed: Composed
    prometheus: Prometheus


@pytest.fixture(scope="session")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    folder = tmp_path_factory.mktemp("prometheus")
    furnish(folder)
    with running(folder) as service, Composed() as composed:
        composed.show(state())
        own = {"node": "board-7", "namespace": "edgeagent-system", "pod": "edgeagent-x7k2p"}
        prometheus = Prometheus(folder, [Target(service.address, {}), Target(composed.address, own)])
        prometheus.start()
        try:
            yield Scraped(service, Board(folder / "host"), composed, prometheus)
        finally:
            prometheus.stop()
