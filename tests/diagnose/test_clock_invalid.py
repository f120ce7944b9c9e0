"""A board without a battery for its clock starts in 1970."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.making import about, pod, pods
from tests.diagnose.making import PODS, Capture, found, healthy, judged

ID = "clock-invalid"
TRIGGER = healthy(**{"snapshot.yaml": about(taken="1970-01-01T00:03:11Z")})
NEAR_MISS = healthy(**{"snapshot.yaml": about(taken="2019-03-11T17:03:27Z")})


@pytest.mark.parametrize("taken", ["1970-01-01T00:03:11Z", "1999-12-31T23:59:59Z"])
def test_a_clock_that_was_never_set(tmp_path: Path, capsys: Capture, taken: str) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{"snapshot.yaml": about(taken=taken)}), ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert taken[:10] in one["summary"]


@pytest.mark.parametrize(
    ("start", "number"),
    # An hour of difference is borne: 12:00 is now.
    [("2026-01-31T11:00:00Z", 0), ("2026-01-31T13:00:00Z", 0), ("2026-01-31T13:00:01Z", 1)],
)
def test_a_clock_behind_the_clusters_is_suspected(tmp_path: Path, capsys: Capture, start: str, number: int) -> None:
    rows = found(capsys, tmp_path, healthy(**{PODS: pods(pod(status={"startTime": start}))}), ID)
    assert [judged(one) for one in rows] == [("warning", "suspected", "node edge-07")] * number
