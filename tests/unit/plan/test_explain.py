"""The explain document keeps to its published schema, and the schema to the types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from edgeagent.facts import BoardFiles, MemoryKind, NvmlDevice
from edgeagent.memory.types import BoardKind, Health, Origin
from edgeagent.plan import explain
from edgeagent.plan.breaches import Breach, PodState
from edgeagent.plan.conditions import TYPES
from edgeagent.plan.types import MERGE_PATCH, STRATEGIC_MERGE_PATCH, HeldCode, Kill, Plan
from tests.unit.factories import (
    GIB,
    MIB,
    Held,
    Run,
    Scene,
    at,
    card,
    card_scene,
    config,
    container,
    igpu,
    meminfo,
    node,
    nvml,
    pod,
    processes,
)

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs" / "reference" / "explain.schema.json").read_text(encoding="utf-8")
)
VALIDATOR = Draft202012Validator(SCHEMA)


def document(plan: Plan, second: float = 0.0) -> dict[str, Any]:
    """The document as a reader gets it: through JSON."""
    found: dict[str, Any] = json.loads(json.dumps(explain.document(plan, second, config().reserves), allow_nan=False))
    return found


def a_plan_with_everything() -> Plan:
    run = Run("blocked")
    pods = (
        pod("a", GIB, 2 * GIB),
        pod("b", GIB, priority=5),
        pod("c"),
        pod("d", 7),
        pod("e", GIB, mirror=True),
        pod("f", GIB),
        pod("g", 60 * GIB, containers=(container("x", container_id=None),)),
        pod("h", 9 * GIB, 12 * GIB),
    )
    held = {name: Held(gpu=2 * GIB, host=GIB) for name in "abcdef"}
    scene = Scene(pods=pods, held=held, node=node(), meminfo=meminfo(16 * GIB), system=MIB)
    run.step(scene)
    deleted = replace(scene, pods=tuple(replace(one, terminating=one.name == "f") for one in pods))
    plan = run.steps(deleted, 8.0, 15.0)
    return replace(plan, events=tuple(run.told))


SCENES = {
    "jetson": Scene(),
    "standalone": Scene(cluster=False),
    "none": Scene(files=BoardFiles(arch="x86_64")),
    "unknown": Scene(files=BoardFiles(arch="x86_64"), nvml=None, meminfo=None),
    "blind": Scene(pods=(pod("a", GIB),), readable=False, meminfo=None),
    "mixed": Scene(pods=(pod("a", GIB),), nvml=nvml(igpu(), card(minor=1))),
    "card": card_scene(card(compute=processes((4242, None))), pods=(pod("a", 100 * GIB),)),
    "per-device": card_scene(
        card(), card("GPU-2", minor=1), pods=(pod("a"),), config=config("discrete: {pools: device}")
    ),
    "lost": card_scene(NvmlDevice(handle=15)),
    "mismatch": card_scene(
        card(), nvml=nvml(init=18, count=None), node=node(capacity={"edgeagent.dev/gpu-memory": "1Gi"})
    ),
    "too-small": Scene(meminfo=meminfo(256 * MIB), config=config("reserves: {ceiling: 1Mi}")),
}


@pytest.mark.parametrize("name", SCENES)
def test_documents_keep_to_the_schema(name: str) -> None:
    run = Run()
    for second in (0.0, 2.0):
        found = document(run.step(at(SCENES[name], second)), second)
        assert [error.message for error in VALIDATOR.iter_errors(found)] == []


def test_a_document_with_everything_keeps_to_the_schema() -> None:
    plan = a_plan_with_everything()
    plan = replace(plan, kills=(Kill(uid="uid-a", processes=((4242, 7),), message="why"),))
    found = document(plan, 15.0)
    assert [error.message for error in VALIDATOR.iter_errors(found)] == []
    # it has a value in every list, so that the schema of none goes unused
    assert all(found["plan"].values())
    assert {one["state"] for one in found["pods"]} == {"breach", "unbudgeted", "protected", "terminating", "ok"}
    assert found["findings"]
    assert found["node"]["requests"]


def test_the_schema_itself_is_valid() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema of an object with named keys."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for part in schema.values():
            yield from objects(part)


def test_every_key_is_required_and_no_other_allowed() -> None:
    found = list(objects(SCHEMA))
    # document, board, device, pool, reserve, host, pod, its pool, container, node, condition, request,
    # plan, eviction, kill, held, event, finding
    assert len(found) == 18
    for schema in found:
        # The answer to --would-fit is there only when it was asked.
        assert schema["required"] == [key for key in schema["properties"] if key != "would_fit"]
        assert schema["additionalProperties"] is False


def values(*path: str) -> set[str]:
    """The values that the schema allows at a place."""
    schema = SCHEMA
    for key in path:
        schema = schema["properties"][key]
        schema = schema.get("items", schema)
    return set(schema["enum"])


def test_the_schema_allows_what_the_types_do() -> None:
    assert values("board", "kind") == set(get_args(BoardKind))
    assert values("devices", "memory") == values("pools", "kind") == set(get_args(MemoryKind))
    assert values("devices", "health") == set(get_args(Health))
    assert values("pools", "reserves", "origin") == set(get_args(Origin))
    assert values("pods", "state") == set(get_args(PodState))
    assert values("plan", "evictions", "breach") == set(get_args(Breach))
    assert values("plan", "held", "code") == set(get_args(HeldCode))
    assert values("node", "conditions", "type") == set(TYPES)
    assert values("node", "requests", "content_type") == {MERGE_PATCH, STRATEGIC_MERGE_PATCH}


# --- what stands in it ---------------------------------------------------------------


def test_a_pod_with_one_pool_carries_its_figures_on_top() -> None:
    scene = Scene(pods=(pod("a", 2 * GIB, 4 * GIB),), held={"a": Held(gpu=GIB, host=MIB)})
    (found,) = document(Run().step(scene))["pods"]
    assert (found["gpu_bytes"], found["host_bytes"]) == (GIB, MIB)
    assert (found["gpu_budget_bytes"], found["total_budget_bytes"]) == (2 * GIB, 4 * GIB)
    assert found["pools"] == [{"resource": "edgeagent.dev/gpu-memory", "gpu_bytes": GIB, "gpu_budget_bytes": 2 * GIB}]
    assert found["containers"] == [{"name": "main", "gpu_bytes": GIB, "host_bytes": None}]


def test_a_pod_with_two_pools_has_none_on_top() -> None:
    found = document(Run().step(SCENES["mixed"]))
    assert [pool["resource"] for pool in found["pools"]] == ["edgeagent.dev/gpu-memory", "edgeagent.dev/igpu-memory"]
    (one,) = found["pods"]
    assert (one["gpu_bytes"], one["gpu_budget_bytes"], one["total_budget_bytes"]) == (None, None, None)
    assert [pool["gpu_budget_bytes"] for pool in one["pools"]] == [GIB, None]


def test_unknown_is_null_and_never_zero() -> None:
    found = document(Run().step(SCENES["blind"]))
    assert found["host"] == {
        "available_bytes": None,
        "usable_bytes": None,
        "system_gpu_bytes": None,
        "unattributed_gpu_bytes": None,
        "leaving_bytes": 0,
        "pressure": False,
    }
    assert found["pods"][0]["gpu_bytes"] is None
    assert found["pods"][0]["state"] == "unknown"


def test_devices_tell_sizes_of_cards_only() -> None:
    found = document(Run().step(SCENES["mixed"]))["devices"]
    # 46 068 MiB, of which the driver keeps 450
    assert [(d["memory"], d["total_bytes"], d["usable_bytes"]) for d in found] == [
        ("discrete", 46_068 * MIB, 45_618 * MIB),
        ("unified", None, None),
    ]


def test_pods_are_listed_by_namespace_and_name_and_only_while_they_live() -> None:
    pods = (pod("b"), pod("a", namespace="z"), pod("c", phase="Succeeded"), pod("a"), pod("p", phase="Pending"))
    found = document(Run().step(Scene(pods=pods)))["pods"]
    assert [(one["namespace"], one["name"]) for one in found] == [
        ("apps", "a"),
        ("apps", "b"),
        ("apps", "p"),
        ("z", "a"),
    ]


def test_a_ceiling_is_shown_only_where_it_bites() -> None:
    def names(setting: str) -> list[str]:
        plan = Run().step(Scene(config=config(f"reserves: {{ceiling: {setting}}}")))
        return [line["name"] for line in document(plan)["pools"][0]["reserves"]]

    assert names("8Gi") == ["os", "k3s", "cma", "headroom"]
    assert names("1Gi") == ["os", "k3s", "cma", "headroom", "ceiling"]
