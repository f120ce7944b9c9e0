"""Seconds of the board, whatever its clocks say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.plan.peaktime import DAY, HOUR, BoardTime, moved, rebooted

WALL = 1_790_000_000.0
"""A plausible Unix time."""
UNSET = 0.0
"""1970: nobody has set the clock."""


def run(before: BoardTime, *moments: tuple[float, float]) -> BoardTime:
    """The time after moments of one boot, each (monotonic second, Unix time)."""
    time = before
    for at, wall in moments:
        time = moved(time, at, wall)
    return time


def an_hour() -> BoardTime:
    """A boot that was watched for an hour, with the right clock."""
    return run(BoardTime(), (100.0, WALL), (100.0 + HOUR, WALL + HOUR))


def booted(*moments: tuple[float, float]) -> float:
    """Seconds that an hour and the boot after it make, the latter with these (second, Unix time after the hour)."""
    return run(rebooted(an_hour()), *moments).seconds


def test_seconds_begin_with_the_first_sample_and_go_on_with_the_boot() -> None:
    assert run(BoardTime(), (5000.0, WALL)).seconds == 0.0
    assert an_hour().seconds == HOUR
    assert run(an_hour(), (100.0 + 3 * HOUR, WALL)).seconds == 3 * HOUR


def set_at(*walls: float) -> list[tuple[float, float]]:
    """A sample every 10 s of a new boot, with each of these clocks, counted from the end of the boot before."""
    return [(10.0 + 10.0 * number, WALL + HOUR + wall) for number, wall in enumerate(walls)]


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        # The board was off for two hours, then sampled twice within 10 s.
        (set_at(2 * HOUR, 2 * HOUR + 10), HOUR + 2 * HOUR + 10),
        # For a month, or its clock is wrong: a day.
        (set_at(30 * DAY, 30 * DAY + 10), HOUR + DAY + 10),
        (set_at(80 * 365 * DAY, 80 * 365 * DAY + 10), HOUR + DAY + 10),
        # The clock went back: nothing is known of the time that it was off.
        (set_at(-3 * DAY, -3 * DAY + 10), HOUR + 10),
        # It was set late in the boot, as far as it matters: to 2 h after the end.
        ([(10.0, UNSET), *set_at(0, 2 * HOUR)[1:]], HOUR + 2 * HOUR),
        (set_at(5.0, 15.0, 2 * HOUR), HOUR + 2 * HOUR),
        # It was never set.
        ([(10.0, UNSET), (20.0, UNSET)], HOUR + 10),
        # It jumps to and fro: a day in all.
        (set_at(80 * 365 * DAY, 0, 90 * 365 * DAY, 0, 30 * DAY), HOUR + DAY + 40),
    ],
)
def test_the_time_that_a_board_was_off_counts_by_its_clock_and_up_to_a_day(
    moments: list[tuple[float, float]], expected: float
) -> None:
    assert booted(*moments) == pytest.approx(expected, abs=0.001)


def test_a_boot_without_a_clock_does_not_hide_when_the_one_before_it_ended() -> None:
    dark = run(rebooted(an_hour()), (10.0, UNSET), (10.0 + 600.0, UNSET))
    # Off for 1 h 50 min in all, 10 minutes of which it ran.
    after = run(rebooted(dark), (10.0, WALL + HOUR + 2 * HOUR))
    assert after.seconds == pytest.approx(HOUR + 2 * HOUR)


def test_a_board_that_is_off_for_long_again_and_again_forgets_its_week() -> None:
    time = an_hour()
    for boot in range(1, 9):
        time = run(rebooted(time), (10.0, WALL + boot * 30 * DAY))
    assert time.seconds >= 8 * DAY


MOMENTS = st.lists(st.tuples(st.floats(0, 1e7), st.sampled_from([UNSET, WALL, WALL + DAY, WALL + 1e9])), max_size=12)


@given(st.lists(MOMENTS, max_size=5))
def test_it_never_goes_back_and_no_boot_adds_more_than_a_day_to_what_it_ran(
    boots: list[list[tuple[float, float]]],
) -> None:
    time = BoardTime()
    for moments in boots:
        time, began = rebooted(time), time.seconds
        ran = max((at for at, _ in moments), default=0.0) - min((at for at, _ in moments), default=0.0)
        for at, wall in sorted(moments):
            before, time = time.seconds, moved(time, at, wall)
            assert time.seconds >= before
        assert time.seconds - began <= ran + DAY + 0.001
