"""Which boards live when one pod fills them, and that nobody else pays for it.

The board, its clock and the delays of evictions and kills are those of ``tests/bench/fills.py``; every expectation
is arithmetic on the rules of docs/explanation/decisions.md.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench.fills import (
    FLOOR_8,
    HALF,
    HEADROOM,
    NEVER,
    PRESSURE_ALONE,
    SIX_PER_SECOND,
    Fill,
    fill_of,
    play,
    replay,
    said,
    worst,
)
from tests.unit.factories import GIB, MIB

BOARD = "8 GB"
"""MemTotal 7620 MiB: headroom and what is usable with it alone 256 MiB (2 % are 153), floor 128, critical 64."""


def nano(rate: float, start: str = HEADROOM, settings: str = "") -> Fill:
    """An Orin Nano whose culprit takes ``rate`` MiB/s."""
    return fill_of(BOARD, start, rate * MIB, settings)


def test_the_eviction_comes_before_the_floor() -> None:
    # 3 s ahead at 6 GiB/s: 34 − 18 = 16 and 28 − 18 = 10 are above the floor of 8, 22 − 18 = 4 and 16 − 18 are not.
    # So two readings ask for it at second 4, with 16 GiB usable.
    assert replay(SIX_PER_SECOND, FLOOR_8, total=122 * GIB, budget=20 * GIB) == (4.0, 16 * GIB)


def test_by_the_floor_alone_it_would_not_have_come() -> None:
    # The last reading, 10 GiB, is above the floor of 8.
    blind = "pressure: {floor: 8Gi, horizon: 1ms}\nsampling: {interval: 1s}"
    with pytest.raises(LookupError):
        replay(SIX_PER_SECOND, blind, total=122 * GIB, budget=20 * GIB)


def test_a_slow_fill_is_evicted_in_time() -> None:
    # A reading each 0.1 s. 256 − 3 × 50 is below the floor of 128 as soon as the whole fall of 50 MiB/s is seen, so two
    # to three readings decide. Then 0.1 s to the call, 2 s of grace and 1 s of teardown: 3.2 to 3.4 s, 160 to 170 MiB.
    found = worst(nano(50, settings=NEVER), phases=5)
    assert found.lives
    assert found.ending.by == "eviction"
    assert found.ending.grace == 2
    assert 256 - 170 <= found.ending.lowest / MIB <= 256 - 160


def test_a_quick_fill_is_killed_in_time() -> None:
    # 256 MiB/s for the 3.1 s of an eviction are 794 MiB, three times what there is.
    assert not play(nano(256, settings=NEVER)).lives
    # usable − 0.5 × 256 < 64 holds below 192 MiB; a reading comes each 25.6 MiB. The decision comes with the second
    # reading below it, or with the first after the answer to the eviction: after at most 0.3 s + 0.1 s + 0.1 s, at
    # 128 MiB. The signal takes 0.02 s, 5 MiB.
    found = worst(nano(256), phases=9)
    assert found.lives
    assert found.ending.by == "kill"
    assert 256 - 128 - 6 <= found.ending.lowest / MIB <= 192 - 25 - 5


def test_what_is_faster_than_three_readings_is_not_survived() -> None:
    # 256 MiB at 2 GiB/s last for 0.125 s. Two readings ask for the eviction, a third for the kill: 0.2 s at least.
    found = worst(nano(2048), phases=5)
    assert found.died == found.of


def test_an_eviction_with_a_long_grace_does_not_save_a_small_board() -> None:
    # At 100 MiB/s half of the board, 3810 MiB, lasts for 38 s. The breach has its 15 s, then the pod its 30 s and a
    # second of teardown: 46 s.
    found = play(nano(100, HALF, NEVER))
    assert (found.lives, found.grace) == (False, 30)
    assert found.evicted_at is not None
    assert 15 <= found.evicted_at <= 15 + 4  # at most two samples of 2 s until the first and after the last
    # The last resort does: usable − 0.5 × 100 < 64 holds below 114 MiB, and two readings of 10 MiB decide.
    saved = worst(nano(100, HALF), phases=2)
    assert (saved.lives, saved.ending.by) == (True, "kill")
    assert 114 - 3 * 10 - 2 <= saved.ending.lowest / MIB < 114


def test_a_slow_leak_is_said_not_to_be_survived() -> None:
    # 256 MiB in the 18 s of a mature breach, 0.1 s, 30 s of grace and 1 s of teardown: 5.21 MiB/s.
    assert said(nano(1, HEADROOM, NEVER)) / MIB == pytest.approx(256 / 49.1)
    assert worst(nano(5, settings=NEVER), phases=2).lives
    # 6 MiB/s last for 42.7 s. Pressure comes after 128 / 6 - 3 = 18.3 s, after a breach of 15 s and the sample that
    # sees it; then 31.1 s are too much. At 20 MiB/s pressure comes after 128 / 20 - 3 = 3.4 s.
    found = worst(nano(6, settings=NEVER), phases=2)
    assert (found.lives, found.ending.grace) == (False, 30)
    assert worst(nano(20, settings=NEVER), phases=2).lives


def test_what_is_said_to_be_survived_is_survived() -> None:
    near = nano(1, HEADROOM, PRESSURE_ALONE)
    told = said(near)
    assert worst(replace(near, rate=0.95 * told)).lives
    assert not worst(replace(near, rate=1.05 * told), to_the_first=True).lives
    far = nano(1, HALF, PRESSURE_ALONE)
    assert worst(replace(far, rate=0.95 * said(far)), phases=2).lives


@pytest.mark.parametrize("settings", ["", NEVER])
@pytest.mark.parametrize("rate", [50, 512, 4096])
def test_nobody_innocent_is_ever_evicted_or_killed(rate: float, settings: str) -> None:
    """The neighbour holds all of its budget, whether the board lives or dies."""
    for start in (HALF, HEADROOM):
        found = worst(nano(rate, start, settings), phases=2)
        assert found.harmed == ()
        assert found.ending.evicted_at is not None or not found.lives
