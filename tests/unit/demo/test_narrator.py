"""How the story looks in a terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from edgeagent.demo import narrator
from edgeagent.demo.narrator import Narrator, columns


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "environ", "coloured"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        # no-color.org: an empty variable is as if it was not there.
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colour_is_for_terminals_whose_user_wants_it(out: Any, environ: dict[str, str], coloured: bool) -> None:  # noqa: FBT001
    Narrator(out, environ).say("It happens.")

    assert ("\x1b[" in out.getvalue()) is coloured


def test_a_resource_name_is_never_broken_in_two() -> None:
    out = io.StringIO()
    Narrator(out, {}).say("x" * 50 + " edgeagent.dev/gpu-memory")

    assert "edgeagent.dev/gpu-memory" in out.getvalue()


def test_columns_are_in_proportion() -> None:
    # 1792 MiB of reserves, 768 of host parts, twice 2048 and 964 free of 7620 MiB, on 69 columns:
    # ends at 16.2, 23.2, 41.7, 60.3 and 69.
    assert columns([1792, 768, 2048, 2048, 964], 69) == [16, 7, 19, 18, 9]


@given(amounts=st.lists(st.integers(0, 2**43), min_size=1).filter(any), width=st.integers(1, 200))
def test_columns_always_fill_the_width(amounts: list[int], width: int) -> None:
    found = columns(amounts, width)

    assert sum(found) == width
    assert all(column >= 0 for column in found)


def test_a_segment_says_as_much_as_it_has_room_for() -> None:
    segment = narrator.Segment("detector", 2 * 1024**3)

    assert narrator.fitted(segment, 16) == " detector 2.0  "
    assert narrator.fitted(segment, 13) == "detector 2.0"
    assert narrator.fitted(segment, 12) == " detector  "
    assert narrator.fitted(segment, 5) == "dete"
    assert narrator.fitted(segment, 1) == ""
