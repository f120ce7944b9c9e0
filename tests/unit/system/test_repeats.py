"""A line that comes again and again is said once a minute."""

from __future__ import annotations

from edgeagent.system.repeats import LIMIT, WINDOW, Repeats


def test_a_new_line_passes_and_its_repetitions_do_not() -> None:
    repeats = Repeats()

    assert repeats.pass_on("a", 0) == ["a"]
    assert repeats.pass_on("a", 1) == []
    assert repeats.pass_on("b", 2) == ["b"]
    assert repeats.pass_on("a", 3) == [], "also with others between"


def test_after_the_window_the_count_is_said_and_the_line_passes_again() -> None:
    repeats = Repeats()
    for second in range(10):
        repeats.pass_on("a", second)

    assert repeats.pending()
    assert repeats.pass_on("a", WINDOW) == ["a (came 9 more times)", "a"]
    assert not repeats.pending()


def test_one_repetition_is_said_as_it_came() -> None:
    repeats = Repeats()
    repeats.pass_on("a", 0)
    repeats.pass_on("a", 1)

    assert repeats.due(WINDOW - 0.1) == []
    assert repeats.due(WINDOW) == ["a"]
    assert repeats.due(WINDOW) == []


def test_at_the_end_everything_is_said() -> None:
    repeats = Repeats()
    for line in ("a", "b", "b", "b"):
        repeats.pass_on(line, 0)

    assert repeats.due(float("inf")) == ["b (came 2 more times)"]


def test_what_is_remembered_is_bounded() -> None:
    repeats = Repeats()
    repeats.pass_on("first", 0)
    repeats.pass_on("first", 0)
    repeats.pass_on("first", 0)
    for number in range(LIMIT - 1):
        repeats.pass_on(str(number), 1)

    assert repeats.pass_on("one more", 2) == ["first (came 2 more times)", "one more"]
    assert repeats.pass_on("first", 3)[-1] == "first"
