"""From a v1 Node to facts."""

from __future__ import annotations

from typing import Any

import pytest

from edgeagent.cluster import node
from edgeagent.cluster.objects import ObjectError
from edgeagent.facts import GPU_MEMORY


def managed(manager: str, time: str | None, *keys: str, under: str = "f:capacity") -> dict[str, Any]:
    return {"manager": manager, "time": time, "fieldsV1": {"f:status": {under: {f"f:{key}": {} for key in keys}}}}


def test_what_is_kept_of_a_node() -> None:
    facts = node.parse(
        {
            "metadata": {
                "name": "edge-07",
                "uid": "0000-7",
                "resourceVersion": "12",
                "labels": {"ai-capable": "true"},
                "annotations": {"edgeagent.dev/mode": "observe"},
            },
            "status": {
                "capacity": {"memory": "8000000Ki", GPU_MEMORY: "6083Mi", "example.com/count": 5},
                "allocatable": {"memory": "7900000Ki"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"machineID": "4c4c"},
                "images": [{"names": None, "sizeBytes": 1}],
            },
        }
    )
    assert (facts.name, facts.uid, facts.machine_id) == ("edge-07", "0000-7", "4c4c")
    assert facts.version == "12"
    assert facts.capacity == {"memory": "8000000Ki", GPU_MEMORY: "6083Mi", "example.com/count": "5"}
    assert facts.allocatable == {"memory": "7900000Ki"}
    assert facts.labels == {"ai-capable": "true"}
    assert facts.annotations == {"edgeagent.dev/mode": "observe"}
    assert facts.conditions == ({"type": "Ready", "status": "True"},)
    assert facts.managers == {}


def test_node_without_a_status_yet() -> None:
    facts = node.parse({"metadata": {"name": "edge-07"}})
    assert facts.machine_id is None
    assert (facts.uid, facts.version) == ("", "")
    assert (facts.capacity, facts.labels, facts.conditions) == ({}, {}, ())


def test_manager_of_a_capacity_key_is_who_wrote_it_last() -> None:
    facts = node.parse(
        {
            "metadata": {
                "name": "n",
                "uid": "u",
                "managedFields": [
                    managed("other-tool", "2026-11-30T11:00:02Z", GPU_MEMORY, "example.com/count"),
                    managed("edgeagent", "2026-11-30T11:00:01Z", GPU_MEMORY, "edgeagent.dev/gpu-milli"),
                    managed("k3s", "2026-11-30T11:00:03Z", GPU_MEMORY, under="f:allocatable"),
                    {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:labels": {}}}},
                    {"manager": "old"},
                ],
            }
        }
    )
    assert facts.managers == {GPU_MEMORY: "other-tool", "edgeagent.dev/gpu-milli": "edgeagent"}


@pytest.mark.parametrize("odd", [{}, {"status": "True"}, {"type": None}, {"type": ["Ready"]}])
def test_a_condition_without_a_name_hides_nothing(odd: Any) -> None:
    ready = {"type": "Ready", "status": "True"}
    facts = node.parse({"metadata": {"name": "n", "uid": "u"}, "status": {"conditions": [odd, ready]}})
    assert facts.conditions == (ready,)


@pytest.mark.parametrize(
    "obj",
    [{}, {"metadata": {"uid": "u"}}, {"metadata": {"name": "n", "uid": "u"}, "status": {"conditions": ["Ready"]}}],
)
def test_odd_node_is_one_documented_error(obj: Any) -> None:
    with pytest.raises(ObjectError, match=r"node .* is not understood"):
        node.parse(obj)
