"""Scenes of pods that hold more than their budget, for the tests of victims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edgeagent.facts import PodFacts
from edgeagent.plan.types import Plan
from tests.unit.factories import (
    GIB,
    MIB,
    Held,
    Run,
    Scene,
    config,
    meminfo,
    pod,
)

SAMPLES = (0.0, 8.0, 15.0)
"""Over in all three, a breach has lasted for the grace of 15 s at the last."""


def scene(*pods: PodFacts, text: str = "", free: int = 8 * GIB, excess: int = GIB, **held: Held) -> Scene:
    """Pods of which each holds ``excess`` above its budget, unless ``held`` says what it holds."""
    found = {
        given.name: held.get(
            given.name, Held(gpu=(given.containers[0].limits.get("edgeagent.dev/gpu-memory", 0)) + excess)
        )
        for given in pods
    }
    return Scene(
        pods=pods,
        held=found,
        config=config(text),
        meminfo=meminfo(64 * GIB, available=free),
    )


def a_pod(name: str, **fields: Any) -> PodFacts:
    return pod(name, GIB, **fields)


def settled(given: Scene) -> Plan:
    """The plan once every breach has lasted for its grace."""
    return Run().steps(given, *SAMPLES)


def pressed(given: Scene, free: int = 10 * MIB) -> Plan:
    """The plan under pressure by the floor."""
    return Run().steps(replace(given, meminfo=meminfo(64 * GIB, available=free)), 0.0, 1.0)


def left(plan: Plan) -> dict[str, tuple[str, float | None]]:
    return {held.uid: (held.code, held.seconds_left) for held in plan.held}
