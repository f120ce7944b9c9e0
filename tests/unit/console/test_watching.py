"""From whom ``edgeagent top`` takes what it shows, and what it does when that one falls silent."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import pytest

from edgeagent.console.client import Endpoint, NoAnswerError
from edgeagent.console.frame import View
from edgeagent.console.watching import Watcher
from edgeagent.errors import EdgeAgentError, InputError

from .documents import state


class Agent:
    """An endpoint that says what it is told to say."""

    address = "127.0.0.1:9843"

    def __init__(self, *answers: dict[str, Any] | EdgeAgentError) -> None:
        self._answers = list(answers)

    def state(self) -> dict[str, Any]:
        answer = self._answers.pop(0)
        if isinstance(answer, EdgeAgentError):
            raise answer
        return answer

    def find(self) -> Endpoint:
        return self  # type: ignore[return-value]


SILENT = NoAnswerError("127.0.0.1:9843: Connection refused")


def watcher(*answers: dict[str, Any] | EdgeAgentError, board: Callable[[], dict[str, Any]] | None = None) -> Watcher:
    times = iter(range(0, 1000, 10))
    return Watcher(Agent(*answers).find, board, clock=lambda: next(times))


def test_an_agent_that_answers_is_asked() -> None:
    view = watcher(state()).look()

    assert (view.agent, view.source, view.trouble, view.state) == (True, "127.0.0.1:9843", "", state())


def test_where_none_answers_the_board_is_read_until_one_does() -> None:
    watched = watcher(SILENT, state(), SILENT, board=lambda: state(node=None))

    first, second, third = watched.look(), watched.look(), watched.look()

    assert [view.agent for view in (first, second, third)] == [False, True, False]
    assert "the board itself is read" in first.trouble
    assert "Connection refused" in first.trouble
    assert first.state["node"] is None


def test_an_agent_that_refuses_is_not_passed_over() -> None:
    def board() -> dict[str, Any]:
        raise AssertionError

    with pytest.raises(InputError, match="wants a token"):
        watcher(InputError("wants a token"), board=board).look()


def test_another_machines_agent_that_falls_silent_is_shown_as_it_was() -> None:
    watched = watcher(state(), SILENT, InputError("wants a token"), state())

    views = [watched.look() for _ in range(4)]

    assert [view.trouble for view in views] == ["", str(SILENT), "wants a token", ""]
    # The clock goes on by 10 s each time that it is asked: at the answer, then once for each age.
    assert [view.age for view in views] == [0, 10, 20, 0]
    assert views[1].state == state()


def test_another_machines_agent_that_never_answered_is_an_error() -> None:
    with pytest.raises(NoAnswerError):
        watcher(SILENT).look()


def test_following_looks_again_and_again_and_ends_with_what_it_fails_with() -> None:
    def broken() -> dict[str, Any]:
        raise InputError("no such board")

    seen = queue.Queue[View | Exception]()
    watched = watcher(state(), state(), SILENT, board=broken)

    watched.follow(0.001, seen.put)

    found = [seen.get(timeout=20) for _ in range(3)]
    assert [isinstance(one, View) for one in found] == [True, True, False]
    assert str(found[2]) == "no such board"


def test_nobody_looks_after_the_end() -> None:
    looks = queue.Queue[View | Exception]()
    watched = watcher(*[state()] * 100)
    watched.stop()

    watched.follow(0.001, looks.put)

    with pytest.raises(queue.Empty):
        looks.get(timeout=0.1)
