"""Times as the API server reads them."""

from __future__ import annotations

from edgeagent.cluster.objects import unix_time
from edgeagent.reconcile import stamps


def test_whole_seconds() -> None:
    assert stamps.seconds(86399.999) == "1970-01-01T23:59:59Z"


def test_microseconds_are_always_there() -> None:
    assert stamps.micros(86400) == "1970-01-02T00:00:00.000000Z"
    assert stamps.micros(0.25) == "1970-01-01T00:00:00.250000Z"


def test_what_is_written_can_be_read() -> None:
    assert unix_time(stamps.seconds(1795996800)) == 1795996800
    assert unix_time(stamps.micros(1795996800.5)) == 1795996800.5
