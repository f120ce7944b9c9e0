"""The buckets of one histogram in a text of the Prometheus format. The text may be anything."""

from __future__ import annotations

import math
from collections.abc import Iterator

from edgeagent.watch.histogram import Buckets, Series

MOST_LINES = 500
"""Buckets of all series together; more are refused."""
LONGEST_LINE = 4096
MOST_BYTES = 64 * 1024
"""Of all these lines together. A label costs the parser far more than the network: a full page takes it seconds."""


class ScrapeError(Exception):
    """A histogram that cannot be had; the text says why, in a few words."""


def buckets(body: bytes, metric: str) -> Buckets:
    """The buckets of the histogram ``metric``.

    Raises:
        ScrapeError: none, too many, or not in the format.
    """
    # Not before a pod shows its latency: few do.
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    start = f"{metric}_bucket{{".encode()
    lines: list[bytes] = []
    room = MOST_BYTES
    for line in _lines(body, start):
        lines.append(line)
        room -= len(line)
        if len(lines) > MOST_LINES:
            raise ScrapeError(f"{metric} has more than {MOST_LINES} buckets")
        if len(line) > LONGEST_LINE:
            raise ScrapeError(f"a line of {metric} is longer than {LONGEST_LINE} bytes")
        if room < 0:
            raise ScrapeError(f"the buckets of {metric} are longer than {MOST_BYTES} bytes")
    if not lines:
        raise ScrapeError(f"no histogram {metric}")
    found: dict[Series, dict[float, float]] = {}
    try:
        for family in text_string_to_metric_families(b"\n".join(lines).decode()):
            for sample in family.samples:
                labels = dict(sample.labels)
                bound, count = float(labels.pop("le")), float(sample.value)
                found.setdefault(tuple(sorted(labels.items())), {})[bound] = count
    except Exception as error:  # whatever a hostile text makes the parser do
        raise ScrapeError(f"the buckets of {metric} are malformed") from error
    counted = ((bound, count) for bounds in found.values() for bound, count in bounds.items())
    if not all(bound > -math.inf and 0 <= count < math.inf for bound, count in counted):  # which no NaN is, either
        raise ScrapeError(f"the buckets of {metric} hold what is no count")
    return found


def _lines(body: bytes, start: bytes) -> Iterator[bytes]:
    """The lines that begin with ``start``. The others, which may be a million, are never made."""
    at = body.find(start)
    while at >= 0:
        end = body.find(b"\n", at)
        end = len(body) if end < 0 else end
        if at == 0 or body[at - 1] == ord("\n"):
            yield body[at:end]
        at = body.find(start, end)
