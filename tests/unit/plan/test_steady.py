"""An hour of a running board: load moves, nothing is written."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from edgeagent.facts import NodeFacts
from edgeagent.plan.types import MERGE_PATCH, Plan
from tests.unit.factories import GIB, MIB, Held, Run, Scene, at, container, meminfo, node, pod, resources

HOUR, INTERVAL = 3600, 2


def applied(found: NodeFacts, plan: Plan) -> NodeFacts:
    """The node after the plan's writes, as the API server applies them."""
    for request in plan.node.requests:
        status = request.body.get("status", {})
        if request.content_type == MERGE_PATCH:
            metadata = request.body.get("metadata", {})
            found = replace(
                found,
                capacity=merged(found.capacity, status.get("capacity", {})),
                allocatable=merged(found.allocatable, status.get("allocatable", {})),
                labels=merged(found.labels, metadata.get("labels", {})),
                annotations=merged(found.annotations, metadata.get("annotations", {})),
            )
        else:
            changed = {condition["type"]: condition for condition in status["conditions"]}
            kept = [condition for condition in found.conditions if condition["type"] not in changed]
            found = replace(found, conditions=(*kept, *changed.values()))
    return found


def merged(before: Any, patch: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**before, **patch}.items() if value is not None}


def test_an_hour_of_changing_load_writes_nothing_after_the_first_publication() -> None:
    rng, run, found = random.Random(7), Run(), node()
    ask = resources(2 * GIB, 2560 * MIB)
    pods = tuple(
        pod(name, containers=(container(container_id="main-id", requests=ask, limits=ask),))
        for name in ("chat", "eyes")
    )
    writes = []
    for second in range(0, HOUR, INTERVAL):
        held = {one.name: Held(gpu=rng.randrange(2 * GIB), host=rng.randrange(512 * MIB)) for one in pods}
        scene = Scene(pods=pods, held=held, node=found, meminfo=meminfo(available=rng.randrange(GIB, 6 * GIB)))
        plan = run.step(at(scene, float(second)))
        writes += [(second, request.body) for request in plan.node.requests]
        found = applied(found, plan)

    assert {second for second, _ in writes} == {0}
    # 8192 MiB less os 768 (6 % would be 492), k3s 512, headroom 256 and two host parts of 512
    assert found.capacity["edgeagent.dev/gpu-memory"] == "5632Mi"
