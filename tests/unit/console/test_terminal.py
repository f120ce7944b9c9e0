"""``edgeagent top`` in a real terminal: keys, sizes, signals, and the terminal as it was afterwards."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator

import pytest

from edgeagent.console import screen
from edgeagent.console.frame import View
from edgeagent.plan.report.style import Style

from .agents import Agent, agent
from .documents import poisoned, state
from .terminal import ENTER, LEAVE, SHOW_CURSOR, Terminal, terminal

QUICK = ("--interval", "0.05")
COLOUR = re.compile(rb"\x1b\[[0-9;]*[1-9][0-9;]*m")


@pytest.fixture
def server() -> Iterator[Agent]:
    with agent(state()) as made:
        yield made


def left_as_it_was(found: Terminal, before: list[object]) -> bool:
    """The page is gone, the cursor is back, and keys are what they were."""
    end = found.written.rpartition(LEAVE)
    return found.settings == before and ENTER in end[0] and SHOW_CURSOR in found.written and b"\x1b[?25l" not in end[2]


def test_it_shows_the_pods_takes_keys_and_leaves_the_terminal_as_it_was(server: Agent) -> None:
    with terminal("top", "--address", server.address, *QUICK) as found:
        before = found.settings
        page = found.until("shop/llm", "q quit")
        assert "PODS by usage" in page
        assert found.settings != before
        assert COLOUR.search(found.written)

        found.press("s")
        found.until("PODS by excess")
        found.press("p")
        found.until("p go on", "paused for")
        found.press("p")
        found.until("p pause")
        found.press("q")

        assert found.end() == 0
        assert left_as_it_was(found, before)


def test_it_goes_on_with_what_the_agent_says_next_but_for_a_pause(server: Agent) -> None:
    with terminal("top", "--address", server.address, *QUICK) as found:
        found.until("edgeagent 0.1.0")
        server.document = state(version="0.2.0")
        found.until("edgeagent 0.2.0")

        found.press("p")
        found.until("paused")
        server.document = state(version="0.3.0")
        assert "edgeagent 0.2.0" in found.until("paused for 1 s")
        found.press("p")
        found.until("edgeagent 0.3.0")


def test_an_agent_that_falls_silent_is_flagged_and_comes_back(server: Agent) -> None:
    with terminal("top", "--address", server.address, *QUICK) as found:
        found.until("shop/llm")
        server.document = None
        assert "shop/llm" in found.until("NOT CURRENT", "closed without")
        server.document = state(version="0.2.0")
        assert "NOT CURRENT" not in found.until("edgeagent 0.2.0")


def test_a_look_that_does_not_come_back_is_said_but_for_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    view = View(state=state(), source="127.0.0.1:9843", agent=True)
    page = screen._Page(view, "usage", Style(), late=12.0)  # noqa: SLF001 (what a terminal is given)
    size = os.terminal_size((80, 24))

    now = 112.0
    assert "NOT CURRENT" not in page.drawn(size)
    now = 113.0
    assert f"NOT CURRENT, 13 s OLD  {screen.OVERDUE}" in page.drawn(size)
    page.take(b"p")
    assert "NOT CURRENT" not in page.drawn(size)
    page.take(b"p")
    page.news.append(view)
    page.take(b"")
    assert "NOT CURRENT" not in page.drawn(size)


@pytest.mark.parametrize("how", ["ctrl-c", "sigterm"])
def test_being_stopped_is_no_error_and_leaves_the_terminal_as_it_was(server: Agent, how: str) -> None:
    with terminal("top", "--address", server.address, *QUICK) as found:
        before = found.settings
        found.until("shop/llm")
        if how == "ctrl-c":
            found.press("\x03")
        else:
            found.process.send_signal(signal.SIGTERM)

        assert found.end() == 0
        assert left_as_it_was(found, before)


def test_an_error_leaves_the_terminal_as_it_was_and_is_read_there(server: Agent) -> None:
    with terminal("top", "--address", server.address, *QUICK) as found:
        before = found.settings
        found.until("shop/llm")
        server.document = state(pods=3)

        assert found.end() == 1
        assert left_as_it_was(found, before)
        assert b"TypeError" in found.written.rpartition(LEAVE)[2]


def test_another_size_is_another_page_at_once(server: Agent) -> None:
    # It does not look again in the next hour: only the size can be the reason.
    with terminal("top", "--address", server.address, "--interval", "3600", lines=40) as found:
        assert "HOST" in found.until("PODS by usage", "LATELY", "q quit")
        found.resize(60, 16)

        page = found.until("PODS by usage", "more lines", "q quit")
        assert "HOST" not in page
        assert "breach" in page


def test_forty_columns_are_cut_not_wrapped(server: Agent) -> None:
    with terminal("top", "--address", server.address, *QUICK, columns=40, lines=24) as found:
        page = found.until("shop/llm", "q quit")

        assert max(len(row) for row in page.splitlines()) <= 40


def test_hostile_names_are_no_commands_and_no_color_is_no_colour(server: Agent) -> None:
    server.document = poisoned(state())
    with terminal("top", "--address", server.address, *QUICK, NO_COLOR="1") as found:
        found.until("breach", "q quit")
        found.press("q")
        found.end()

    assert b"\x1b]" not in found.written
    assert b"\x07" not in found.written
    assert b"\xc2\x9b" not in found.written  # U+009B is what ESC [ is
    assert not COLOUR.search(found.written)


def test_a_locale_without_signs_gets_ascii(server: Agent) -> None:
    plain = terminal("top", "--address", server.address, *QUICK, LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    with plain as found:
        found.until("[#", "q quit")

    assert found.written.isascii()


def test_a_terminal_that_cannot_draw_gets_one_page(server: Agent) -> None:
    with terminal("top", "--address", server.address, TERM="dumb") as found:
        assert found.end() == 0

    assert b"shop/llm" in found.written
    assert b"\x1b" not in found.written


def test_without_an_agent_there_the_reason_is_one_line() -> None:
    with agent(state()) as gone:
        pass
    with terminal("top", "--address", gone.address) as found:
        before = found.settings

        assert found.end() == 2
        assert found.settings == before

    assert ENTER not in found.written
    assert b"Connection refused" in found.written
