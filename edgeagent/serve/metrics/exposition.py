"""Families as text of the Prometheus format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgeagent.serve.metrics.families import Family, Row, Series

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def render(families: Iterable[Family]) -> bytes:
    """The families that have a series."""
    return "".join([text for family in families if (text := _family(family))]).encode()


def _family(family: Family) -> str:
    lines = "".join([_lines(series) for series in family.series])
    if not lines:
        return ""
    return f"# HELP {family.name} {family.about}\n# TYPE {family.name} {family.kind}\n{lines}"


def _lines(series: Series) -> str:
    places = ",".join([f'{label}="%s"' for label in series.labels])
    form = f"{series.name}{{{places}}} %r\n" if series.labels else f"{series.name} %r\n"
    lines = _filled(form, series.rows)
    quotes = 2 * len(series.labels) * len(series.rows)
    if lines.count('"') == quotes and lines.count("\n") == len(series.rows) and "\\" not in lines:
        return lines
    # Some label has what must be escaped. To look into each of them first would take most of the time.
    return _filled(form, [([text.translate(_ESCAPES) for text in labels], value) for labels, value in series.rows])


def _filled(form: str, rows: Sequence[Row]) -> str:
    # + 0: true is 1
    return "".join([form % (*labels, value + 0) for labels, value in rows if value is not None])
