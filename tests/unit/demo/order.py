"""What has to have happened in the demo, and in which order, from the requests that an API server received."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgeagent.cluster import looking
from edgeagent.demo.apiserver import Request
from edgeagent.demo.setting import AGENT, SCRIPT

GPU = "edgeagent.dev/gpu-memory"


@dataclass(frozen=True)
class Order:
    """``requests`` in the order of their arrival, of the users AGENT and SCRIPT."""

    requests: Sequence[Request]
    node: str
    namespace: str

    @property
    def pods(self) -> str:
        """Path of the pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def writes(self, user: str, method: str, path: str) -> list[tuple[int, Any]]:
        """Place in the order, and body."""
        return [
            (at, one.body)
            for at, one in enumerate(self.requests)
            if (one.user, one.method, one.path) == (user, method, path)
        ]

    def node_writes(self) -> list[tuple[int, Any]]:
        """The agent's."""
        return self.writes(AGENT, "PATCH", f"/api/v1/nodes/{self.node}/status")

    def capacities(self) -> list[tuple[int, str]]:
        """Every value of the pool that was published."""
        found = [(at, body.get("status", {}).get("capacity", {}).get(GPU)) for at, body in self.node_writes()]
        return [(at, value) for at, value in found if value is not None]

    def events(self, reason: str) -> list[tuple[int, Any]]:
        """The agent's events of one reason."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        return [(at, body) for at, body in self.writes(AGENT, "POST", path) if body["reason"] == reason]

    def created(self, name: str) -> int:
        """When a pod was created."""
        (place,) = (at for at, body in self.writes(SCRIPT, "POST", self.pods) if body["metadata"]["name"] == name)
        return place

    def started(self, name: str) -> int:
        """When the kubelet was played for a pod."""
        ((at, _),) = self.writes(SCRIPT, "PATCH", f"{self.pods}/{name}/status")
        return at


def the_empty_board_is_published_first(order: Order) -> None:
    (at, body), *_ = order.node_writes()

    # MemTotal 7802736 kB = 7619.9 MiB, less os 768, k3s 512, cma 256 and headroom 256 MiB: 5827.9, in whole MiB.
    assert body["status"]["capacity"][GPU] == body["status"]["allocatable"][GPU] == "5827Mi"
    assert body["metadata"]["labels"]["ai-capable"] == "true"
    assert body["metadata"]["labels"]["edgeagent.dev/gpu.kind"] == "jetson"
    assert at < min(order.started("detector"), order.started("chat"))


def host_parts_lower_it_before_anything_is_over_its_budget(order: Order) -> None:
    at, last = order.capacities()[-1]

    # Each pod books 2432 - 2048 = 384 MiB of host memory: 5827 - 2 x 384 = 5059. When the third takes the place of
    # the second, it stays.
    assert last == "5059Mi"
    assert at < order.events("MemoryBudgetExceeded")[0][0]


def the_pod_over_its_budget_is_warned_and_evicted_and_the_third_takes_its_place(order: Order) -> None:
    ((warned, warning),) = order.events("MemoryBudgetExceeded")
    ((evicted, eviction),) = order.writes(AGENT, "POST", f"{order.pods}/chat/eviction")
    ((said, reason),) = order.events("MemoryBudgetEvicted")
    ended, _ = order.writes(SCRIPT, "DELETE", f"{order.pods}/chat")[0]

    places = [order.created("speech"), warned, evicted, said, ended, order.started("speech")]
    assert places == sorted(places)
    assert warning["regarding"]["name"] == reason["regarding"]["name"] == "chat"
    assert eviction["deleteOptions"]["preconditions"] == {"uid": warning["regarding"]["uid"]}
    # The pod's own grace, which is within policy.max_grace.
    assert eviction["deleteOptions"]["gracePeriodSeconds"] == 30


def the_neighbour_is_never_touched(order: Order) -> None:
    last = order.started("speech")
    touched = [
        (one.user, one.method, one.path)
        for one in order.requests[:last]
        if one.path.startswith(f"{order.pods}/detector") and one.method != "GET"
    ]

    assert touched == [(SCRIPT, "PATCH", f"{order.pods}/detector/status")]
    assert not [one for one in order.requests if one.user == AGENT and "/pods/detector" in one.path]


def nothing_that_the_agent_sends_is_refused(order: Order) -> None:
    answers = [(one.method, one.path, one.status) for one in order.requests if one.user == AGENT]
    # A node may not list what only a diagnosis would like to see, and is told so.
    lists = [("GET", path, 403) for path, _ in (looking.DAEMON_SETS, looking.EVENTS, looking.PODS)]

    assert [answer for answer in answers if answer[2] >= 400 and answer not in lists] == []


ALL = (
    the_empty_board_is_published_first,
    host_parts_lower_it_before_anything_is_over_its_budget,
    the_pod_over_its_budget_is_warned_and_evicted_and_the_third_takes_its_place,
    the_neighbour_is_never_touched,
    nothing_that_the_agent_sends_is_refused,
)
