"""What a pod that starts does to those beside it."""

from __future__ import annotations

from edgeagent.facts.neighbours import Figures
from edgeagent.watch.newcomers import Beside, effect, look

OLD, NEW, THIRD = "uid-old", "uid-new", "uid-third"
NAMES = {OLD: "apps/old", NEW: "apps/new", THIRD: "apps/third"}


def running(*uids: str) -> dict[str, str]:
    return {uid: NAMES[uid] for uid in uids}


def figures(p50: float | None = None, throttled: float | None = None, rate: float | None = None) -> Figures:
    return Figures(p50_seconds=p50, requests_per_second=rate, cpu_throttled_ratio=throttled)


def played(*looks: tuple[float, dict[str, str], dict[str, Figures]]) -> Beside:
    state = Beside()
    for now, there, told in looks:
        state = look(state, now, there, told)
    return state


def test_figures_before_and_after_are_averages() -> None:
    state = played(
        (0.0, running(OLD), {OLD: figures(0.1, 0.25)}),
        (60.0, running(OLD), {OLD: figures(0.3, 0.75)}),
        (65.0, running(OLD, NEW), {OLD: figures(0.5)}),
        (70.0, running(OLD, NEW), {OLD: figures(0.9, 0.6)}),
    )
    found = effect(state, 75.0, OLD)
    assert found is not None
    assert (found.pod, found.seconds) == ("apps/new", 10.0)
    assert found.before == figures(0.2, 0.5)  # (0.1 + 0.3) / 2, (0.25 + 0.75) / 2
    assert found.after == figures(0.7, 0.6)  # (0.5 + 0.9) / 2; throttling was told once


def test_who_is_there_at_the_first_look_is_no_newcomer() -> None:
    state = played((0.0, running(OLD, NEW), {OLD: figures(0.1)}), (5.0, running(OLD, NEW), {OLD: figures(0.1)}))
    assert effect(state, 5.0, OLD) is None


def test_neither_the_newcomer_nor_who_came_later_has_a_before() -> None:
    state = played(
        (0.0, running(OLD), {OLD: figures(0.1)}),
        (5.0, running(OLD, NEW), {OLD: figures(0.1), NEW: figures(0.1)}),
    )
    assert effect(state, 5.0, NEW) is None
    assert effect(state, 5.0, OLD) is not None


def test_a_pod_of_which_nothing_is_known_has_nothing_to_compare() -> None:
    state = played((0.0, running(OLD), {}), (5.0, running(OLD, NEW), {OLD: figures(0.1)}))
    assert effect(state, 5.0, OLD) is None


def test_after_is_not_more_than_five_minutes() -> None:
    state = played(
        (0.0, running(OLD), {OLD: figures(0.1)}),
        (5.0, running(OLD, NEW), {OLD: figures(0.2)}),
        (306.0, running(OLD, NEW), {OLD: figures(9.0)}),
    )
    found = effect(state, 306.0, OLD)
    assert found is not None
    assert found.after == figures(0.2)
    assert found.seconds == 301.0


def test_before_is_not_more_than_five_minutes() -> None:
    looks = [(10.0 * n, running(OLD), {OLD: figures(5.0 if n < 30 else 1.0)}) for n in range(62)]
    state = played(*looks, (615.0, running(OLD, NEW), {OLD: figures(1.0)}))
    found = effect(state, 615.0, OLD)
    assert found is not None
    # Steps that began at second 315 or later: those of the first 300 s, with 5.0, are long over.
    assert found.before == figures(1.0)
    assert len(state.steps[OLD]) <= 6


def test_the_latest_newcomer_counts() -> None:
    state = played(
        (0.0, running(OLD), {OLD: figures(0.1)}),
        (60.0, running(OLD, NEW), {OLD: figures(0.3)}),
        (120.0, running(OLD, NEW, THIRD), {OLD: figures(0.5)}),
    )
    found = effect(state, 120.0, OLD)
    assert found is not None
    assert found.pod == "apps/third"
    assert found.before == figures(0.2)  # (0.1 + 0.3) / 2
    assert found.after == figures(0.5)


def test_when_the_newcomer_leaves_or_an_hour_has_passed_it_is_over() -> None:
    state = played((0.0, running(OLD), {OLD: figures(0.1)}), (5.0, running(OLD, NEW), {OLD: figures(0.2)}))
    assert effect(look(state, 10.0, running(OLD), {}), 10.0, OLD) is None
    assert effect(look(state, 3605.0, running(OLD, NEW), {}), 3605.0, OLD) is not None
    assert effect(look(state, 3606.0, running(OLD, NEW), {}), 3606.0, OLD) is None


def test_what_is_gone_is_forgotten() -> None:
    state = played((0.0, running(OLD), {OLD: figures(0.1)}), (5.0, running(), {}))
    assert state.steps == {}
