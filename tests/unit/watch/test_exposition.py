"""The buckets of one histogram in a page that may hold anything."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

from edgeagent.watch.exposition import LONGEST_LINE, MOST_LINES, ScrapeError, buckets
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


@given(st.binary(max_size=300) | st.text(alphabet='x_bucket{le="1,}\\ +InfNa.e\n#0', max_size=300).map(str.encode))
def test_no_text_does_anything_but_tell_or_be_refused(rest: bytes) -> None:
    for text in (rest, b"x_bucket{" + rest, b'x_bucket{le="1"} ' + rest):
        try:
            found = buckets(text, "x")
        except ScrapeError:
            continue
        assert all(0 <= count < inf for bounds in found.values() for count in bounds.values())


LABELS = st.dictionaries(
    st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True).filter(lambda name: name != "le"),
    st.text(alphabet='ab \\"\n{}=,', max_size=6),
    max_size=3,
)


@given(st.lists(st.tuples(LABELS, st.integers(0, 9), st.integers(0, 10**6)), min_size=1, max_size=5))
def test_it_reads_what_the_prometheus_client_writes(observed: list[tuple[dict[str, str], int, int]]) -> None:
    family = Metric("x", "", "histogram")
    wanted: dict[object, dict[float, float]] = {}
    for labels, bound, count in observed:
        family.add_sample("x_bucket", {**labels, "le": str(bound)}, count)
        wanted.setdefault(tuple(sorted(labels.items())), {})[bound] = count
    registry = CollectorRegistry()
    registry.register(Collected(family))
    assert buckets(generate_latest(registry), "x") == wanted


class Collected(Collector):
    """One family, as it is."""

    def __init__(self, family: Metric) -> None:
        self.family = family

    def collect(self) -> Iterator[Metric]:
        yield self.family


@pytest.mark.parametrize("end", ["", " 1700000000000", ' # {trace_id="a"} 0.4 1700000000.1', "\r"])
def test_a_time_stamp_and_an_exemplar_are_no_part_of_the_count(end: str) -> None:
    assert buckets(f'x_bucket{{ a = "b" , le = "+Inf" , }} 3{end}\n'.encode(), "x") == {(("a", "b"),): {inf: 3.0}}


@pytest.mark.parametrize(
    "labels", ['a="b",a="c",le="1"', 'a="b" le="1"', 'a=b,le="1"', ',,le="1"', 'le="1', '1a="b",le="1"']
)
def test_labels_that_are_none_are_refused(labels: str) -> None:
    with pytest.raises(ScrapeError, match="malformed"):
        buckets(f"x_bucket{{{labels}}} 3\n".encode(), "x")


@pytest.mark.parametrize("value", ["1_0", "0x10", "one", "\N{ARABIC-INDIC DIGIT ONE}"])
def test_a_count_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(ScrapeError, match="malformed"):
        buckets(f'x_bucket{{le="1"}} {value}\n'.encode(), "x")
