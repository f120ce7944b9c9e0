"""Some hours of random faults in virtual time; the whole day is ``python -m tests.bench.soak``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.soak import soak

pytestmark = pytest.mark.may_block("what threads do is done in the loop here, so that time can be virtual")

HOURS = 0.5


@pytest.mark.parametrize("seed", [1])
def test_no_fault_leads_to_a_wrong_eviction_or_leaves_anything_behind(seed: int, tmp_path: Path) -> None:
    found = soak(tmp_path, HOURS * 3600, seed)
    assert found.wrong == []
    # The run is worth something: pods went, faults came, the agent was started anew.
    assert found.evictions >= 3
    assert len(found.faults) >= 8
    assert found.restarts >= 1
    # Link, two watches, two writers, the agent, its two waits, the story: and what is under way at that moment.
    assert max(found.tasks) <= 20
    assert max(found.descriptors) <= found.descriptors[0] + 2
    assert found.objects[-1] <= found.objects[0] * 1.05


def test_the_judge_sees_a_wrong_eviction(tmp_path: Path) -> None:
    """Else the test above would prove nothing. Two pods that are spared by default hold more than they may."""
    found = soak(tmp_path, 300, 2, "policy: {protect: [], daemonsets: evict}")
    assert sorted(one.partition(": ")[2] for one in found.wrong) == [
        "daemon is spared: DaemonSet",
        "system is spared: policy.protect",
    ]
