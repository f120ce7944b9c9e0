"""Bookings are those of the pods as they are, and are found once for each."""

from __future__ import annotations

from dataclasses import replace

from edgeagent.facts import GPU_MEMORY, GPU_MILLI
from edgeagent.plan import bookings
from edgeagent.plan.bookings import Places
from edgeagent.quantity import GIB
from tests.unit import factories

PLACES: Places = ((GPU_MEMORY, "unified", True),)
POLICY = factories.config().policy


def test_what_a_pod_asks_for_is_its_booking() -> None:
    asked = {GPU_MEMORY: 2 * GIB, GPU_MILLI: 250}
    pod = factories.pod("a", containers=(factories.container(requests=asked, limits=asked),))
    found = bookings.find(None, [pod], PLACES, POLICY).by_uid["uid-a"]
    assert (found.budgets[GPU_MEMORY].gpu, found.budgets[GPU_MEMORY].gpu_request, found.milli) == (
        2 * GIB,
        2 * GIB,
        250,
    )


def test_a_pod_that_is_the_same_is_looked_at_once() -> None:
    pod = factories.pod("a", GIB)
    first = bookings.find(None, [pod], PLACES, POLICY)
    # Other pods come and go meanwhile.
    second = bookings.find(first, [factories.pod("b", GIB), pod], PLACES, POLICY)
    assert second.by_uid["uid-a"] is first.by_uid["uid-a"]
    assert second.by_uid.keys() == {"uid-a", "uid-b"}


def test_a_pod_that_has_changed_is_looked_at_again() -> None:
    first = bookings.find(None, [factories.pod("a", GIB)], PLACES, POLICY)
    resized = bookings.find(first, [factories.pod("a", 3 * GIB)], PLACES, POLICY)
    assert resized.by_uid["uid-a"].budgets[GPU_MEMORY].gpu == 3 * GIB


def test_a_pod_that_is_gone_is_forgotten() -> None:
    first = bookings.find(None, [factories.pod("a", GIB)], PLACES, POLICY)
    assert bookings.find(first, [], PLACES, POLICY).by_uid == {}


def test_another_policy_and_other_pools_count_at_once() -> None:
    pod = factories.pod("a")
    first = bookings.find(None, [pod], PLACES, POLICY)
    assert first.by_uid["uid-a"].budgets[GPU_MEMORY].gpu is None
    defaults = bookings.find(first, [pod], PLACES, replace(POLICY, default_budget=GIB))
    assert defaults.by_uid["uid-a"].budgets[GPU_MEMORY].gpu == GIB
    elsewhere = bookings.find(first, [pod], ((f"{GPU_MEMORY}-0", "discrete", False),), POLICY)
    assert elsewhere.by_uid["uid-a"].budgets.keys() == {f"{GPU_MEMORY}-0"}


def test_the_configuration_that_is_read_again_counts_in_the_next_decision() -> None:
    run = factories.Run()
    scene = factories.Scene(pods=(factories.pod("a"),))
    (view,) = run.step(scene).pods
    assert view.budgets[GPU_MEMORY].gpu is None
    (view,) = run.step(factories.at(scene, scene.at + 2, config=factories.config("policy: {default_budget: 1Gi}"))).pods
    assert view.budgets[GPU_MEMORY].gpu == GIB
