"""What a restart of the agent remembers, and what it does not believe."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.plan import keeping
from edgeagent.plan.decide import decide
from edgeagent.plan.state import State
from edgeagent.plan.types import Plan
from tests.unit.factories import GIB, Held, Run, Scene, at, evicted, held_codes, pod

BOOT = keeping.Origin("3b0c9a52-7d41-4e0f-8a6c-51f2d9e7b034", "/")
OVER = Scene(
    pods=(pod("a", GIB, owner=("ReplicaSet", "shop-5d8f")), pod("b", GIB)),
    held={"a": Held(gpu=3 * GIB), "b": Held(gpu=2 * GIB)},
)


def after_an_eviction() -> State:
    """``a``, which is over by more, was evicted at 16 s."""
    run = Run()
    plan = run.steps(OVER, 0.0, 8.0, 16.0)
    assert evicted(plan) == ["uid-a"]
    return run.state


def again(document: Any, boot: keeping.Origin = BOOT, now: float = 20.0) -> State | None:
    return keeping.restored(json.loads(json.dumps(document)), boot, now)


def decided(state: State, scene: Scene, *seconds: float) -> Plan:
    """The plan of the last of several samples."""
    plans = []
    for second in seconds:
        state, plan = decide(state, at(scene, second).facts(), second)
        plans.append(plan)
    return plans[-1]


def test_what_follows_from_an_eviction_survives() -> None:
    before = after_an_eviction()
    after = again(keeping.kept(before, BOOT))
    assert after is not None
    assert (after.victims, after.backoff, after.evicted_at) == (before.victims, before.backoff, before.evicted_at)
    assert after.hold_down_until == before.hold_down_until
    assert after.windows == {}

    # The victim still holds its memory: its neighbour waits as if nothing had happened.
    plan = decided(after, OVER, 20.0, 28.0, 36.0)
    assert evicted(plan) == []
    assert held_codes(plan) == {"uid-b": "releasing"}


def test_the_successor_of_the_evicted_pod_meets_the_back_off() -> None:
    state = again(keeping.kept(after_an_eviction(), BOOT))
    assert state is not None
    successor = Scene(pods=(pod("c", GIB, owner=("ReplicaSet", "shop-5d8f")),), held={"c": Held(gpu=3 * GIB)})
    plan = decided(state, successor, 30.0, 38.0, 46.0)
    # Evicted at 16 s, left alone for a minute.
    assert [(held.code, held.seconds_left) for held in plan.held] == [("backoff", 30.0)]


@pytest.mark.parametrize(
    ("change", "boot", "now"),
    [
        ({}, BOOT._replace(boot_id="another"), 20.0),
        ({}, BOOT._replace(boot_id=None), 20.0),
        ({}, BOOT._replace(host_root="/host"), 20.0),
        ({"format": 2}, BOOT, 20.0),
        ({"evicted_at": "yesterday"}, BOOT, 20.0),
        ({"victims": [{}]}, BOOT, 20.0),
        ({"backoff": None}, BOOT, 20.0),
        ({}, BOOT, 5.0),  # before what is said to have happened
        ({"hold_down_until": float("inf")}, BOOT, 20.0),
        ({"evicted_at": [float("nan")]}, BOOT, 20.0),
        ({"hold_down_until": 10**400}, BOOT, 20.0),
        ({"backoff": [{"owner": "abc", "minutes": float("inf"), "until": 0, "breached_at": 0}]}, BOOT, 20.0),
    ],
)
def test_what_is_not_believed(change: dict[str, Any], boot: keeping.Origin, now: float) -> None:
    assert again(keeping.kept(after_an_eviction(), BOOT) | change, boot, now) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    JSON
    | st.fixed_dictionaries(
        dict.fromkeys(keeping.kept(State(), BOOT), JSON)
        | {"boot_id": st.just(BOOT.boot_id), "host_root": st.just("/"), "format": st.just(1)}
    )
)
def test_no_document_breaks_the_start(document: Any) -> None:
    state = keeping.restored(document, BOOT, 20.0)
    assert state is None or decide(state, at(OVER, 20.0).facts(), 20.0)
