"""The buckets of one histogram in a text of the Prometheus format. The text may be anything.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import math
import re

from edgeagent.watch.histogram import Buckets, Series

MOST_LINES = 500
"""Buckets of all series together; more are refused."""
LONGEST_LINE = 4096
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|(?=\}))', re.ASCII)
_REST = re.compile(r"\s*\}\s*([-+.0-9A-Za-z]+)(?:\s+-?\d+)?(?:\s+#\s.*)?\s*", re.ASCII)
"""The value, a timestamp, and an exemplar, which OpenMetrics has."""
_ESCAPED = re.compile(r'\\[\\n"]')
_MEANT = {r"\\": "\\", r"\n": "\n", r"\"": '"'}


class ScrapeError(Exception):
    """A histogram that cannot be had; the text says why, in a few words."""


def buckets(body: bytes, metric: str) -> Buckets:
    """The buckets of the histogram ``metric``.

    Raises:
        ScrapeError: none, too many, or not in the format.
    """
    start = f"{metric}_bucket{{".encode()
    lines = [line for line in body.split(b"\n") if line.startswith(start)]
    if not lines:
        raise ScrapeError(f"no histogram {metric}")
    if len(lines) > MOST_LINES:
        raise ScrapeError(f"{metric} has more than {MOST_LINES} buckets")
    if any(len(line) > LONGEST_LINE for line in lines):
        raise ScrapeError(f"a line of {metric} is longer than {LONGEST_LINE} bytes")
    found: dict[Series, dict[float, float]] = {}
    try:
        for line in lines:
            labels, count = _sample(line.decode(), len(start))
            bound = float(labels.pop("le"))
            found.setdefault(tuple(sorted(labels.items())), {})[bound] = count
    except (KeyError, ValueError) as error:
        raise ScrapeError(f"the buckets of {metric} are malformed") from error
    counted = ((bound, count) for bounds in found.values() for bound, count in bounds.items())
    if not all(bound > -math.inf and 0 <= count < math.inf for bound, count in counted):  # which no NaN is, either
        raise ScrapeError(f"the buckets of {metric} hold what is no count")
    return found


def _sample(line: str, at: int) -> tuple[dict[str, str], float]:
    """Labels and value of a line whose labels begin at ``at``.

    Raises:
        ValueError: it is not in the format.
    """
    labels: dict[str, str] = {}
    while label := _LABEL.match(line, at):
        name, value, at = label[1], label[2], label.end()
        if name in labels:
            raise ValueError(name)
        labels[name] = _ESCAPED.sub(lambda match: _MEANT[match[0]], value)
    rest = _REST.fullmatch(line, at)
    if rest is None:
        raise ValueError(line)
    return labels, float(rest[1])
