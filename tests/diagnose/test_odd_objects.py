"""What no decision rests on, in a shape that nobody expects, loses neither the pod nor the node."""

from __future__ import annotations

from typing import Any

import pytest

from edgeagent.cluster import node as nodes
from edgeagent.cluster import pods
from tests.cases.making import KEY, node, pod


@pytest.mark.parametrize("odd", ["text", 3, ["x"], [{"name": 1}], {"a": "b"}])
@pytest.mark.parametrize("field", ["env", "image"])
def test_of_a_container(field: str, odd: Any) -> None:
    found = pod(limits={KEY: "1Gi"})
    found["spec"]["containers"][0][field] = odd
    assert pods.parse(found).containers[0].limits == {KEY: 1 << 30}


@pytest.mark.parametrize("odd", ["text", 3, ["x"], [{"name": 1}]])
@pytest.mark.parametrize("field", ["tolerations"])
def test_of_a_spec(field: str, odd: Any) -> None:
    assert pods.parse(pod(spec={field: odd})).name == "llm"


@pytest.mark.parametrize("odd", ["text", 3, ["x"], [{"type": 1}], [{"type": "PodScheduled", "status": "False"}]])
def test_of_a_status(odd: Any) -> None:
    assert pods.parse(pod(status={"conditions": odd})).name == "llm"


@pytest.mark.parametrize("odd", ["text", 3, ["x"], [{"value": 1}]])
def test_of_a_node(odd: Any) -> None:
    found = node()
    found["spec"] = {"taints": odd}
    assert nodes.parse(found).taints == ()


def test_what_a_container_says_of_itself() -> None:
    found = pod()
    found["spec"]["containers"][0]["env"] = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {}}},
    ]
    state = found["status"]["containerStatuses"][0]
    state |= {
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": {"terminated": {"reason": "Error", "exitCode": 137, "message": "gone"}},
        "restartCount": 4,
    }
    (one,) = pods.parse(found).containers
    assert one.visible_devices == "all"
    assert one.waiting == ("CrashLoopBackOff", "back-off")
    assert one.ended == ("Error", 137, "gone")
    assert one.restarts == 4
