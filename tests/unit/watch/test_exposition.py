"""The buckets of one histogram in a page that may hold anything."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.watch.exposition import LONGEST_LINE, MOST_BYTES, MOST_LINES, ScrapeError, buckets
from tests.unit.watch.making import page


def test_the_buckets_of_the_metric_and_of_no_other() -> None:
    text = page("vllm:e2e_seconds", {"0.1": 3, "+Inf": 5}) + page("vllm:e2e_seconds_more", {"0.1": 8, "+Inf": 9})
    assert buckets(text, "vllm:e2e_seconds") == {(): {0.1: 3.0, inf: 5.0}}


def test_series_are_told_apart_by_their_labels() -> None:
    text = page("x", {"1": 1, "+Inf": 2}, 'b="2",a="x y",') + page("x", {"1": 3, "+Inf": 4}, 'a="\\"{,}",')
    assert buckets(text, "x") == {
        (("a", "x y"), ("b", "2")): {1.0: 1.0, inf: 2.0},
        (("a", '"{,}'),): {1.0: 3.0, inf: 4.0},
    }


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"<html>not found</html>",
        b"x 1\nx_count 3\nx_sum 4\n",  # no histogram
        b'x_bucket{lee="1"} 3\n',  # no bound
        b'x_bucket{le="one"} 3\n',
        b'x_bucket{le="NaN"} 3\n',
        b'x_bucket{le="-Inf"} 3\n',
        b'x_bucket{le="1"} NaN\n',
        b'x_bucket{le="1"} -3\n',
        b'x_bucket{le="1"} +Inf\n',
        b'x_bucket{le="1"}\n',
        b'x_bucket{le="1" 3\n',
        b'x_bucket{le="\xff"} 3\n',
        b'x_bucket{le="1"} 3 \x00\n',
        b"x_bucket{" + b'a="b",' * LONGEST_LINE + b'le="1"} 3\n',
        b"".join(b'x_bucket{n="%d",le="1"} 1\n' % number for number in range(MOST_LINES + 1)),  # a flood of labels
    ],
)  # fmt: skip
def test_what_is_no_histogram_is_refused_with_a_reason(text: bytes) -> None:
    with pytest.raises(ScrapeError) as caught:
        buckets(text, "x")
    assert 0 < len(str(caught.value)) < 120


def test_all_lines_together_are_no_longer_than_allowed() -> None:
    line = b'x_bucket{a="%s",le="%02d"} 1'
    # 32 lines of 2048 bytes are 64 KiB: 22 bytes without the label's value, and 2026 with them.
    lines = [line % (b"y" * (2048 - len(line % (b"", number))), number) for number in range(32)]
    assert len(b"".join(lines)) == MOST_BYTES
    assert len(next(iter(buckets(b"\n".join(lines), "x").values()))) == 32
    with pytest.raises(ScrapeError, match="longer than 65536 bytes"):
        buckets(b"\n".join([*lines, b'x_bucket{le="+Inf"} 1']), "x")
    # What is beside them does not count.
    assert buckets(b"\n".join([b"y" * MOST_BYTES, *lines]), "x")


def test_only_what_begins_a_line_is_a_bucket() -> None:
    text = b'# x_bucket{le="1"} 8\nyx_bucket{le="1"} 9\nx_bucket{le="1"} 3'
    assert buckets(text, "x") == {(): {1.0: 3.0}}


@given(st.binary(max_size=300) | st.text(alphabet='x_bucket{le="1,}\\ +InfNa.e\n#0', max_size=300).map(str.encode))
def test_no_text_does_anything_but_tell_or_be_refused(rest: bytes) -> None:
    for text in (rest, b"x_bucket{" + rest, b'x_bucket{le="1"} ' + rest):
        try:
            found = buckets(text, "x")
        except ScrapeError:
            continue
        assert all(0 <= count < inf for bounds in found.values() for count in bounds.values())
