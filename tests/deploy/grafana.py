"""Panels, and the JSON that Grafana wants of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WIDTH = 24
"""Columns of Grafana's grid."""
BOARD = "{{node}} {{instance}}"
"""What a line is called that there is one of for each board."""
CHOSEN = 'node=~"$node", instance=~"$instance"'
"""The boards that are chosen above the panels; ``@`` in a query stands for it."""
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Panel:
    """One panel. ``queries`` by what a line, a column or a figure of them is called."""

    title: str
    queries: dict[str, str]
    about: str
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 8
    stacked: bool = False
    thresholds: tuple[tuple[float, str], ...] = ()
    """From which value on which colour; green below."""
    most: float | None = None
    """The end of the scale; None: what there is."""


@dataclass(frozen=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


def chosen(query: str) -> str:
    """A query with the choice of boards in it."""
    return query.replace("{@", "{" + CHOSEN)


def figure(title: str, query: str, about: str, *, unit: str = "short", bad: float | None = None) -> Panel:
    """One figure over all chosen boards, red from ``bad`` on."""
    thresholds = () if bad is None else ((bad, "red"),)
    return Panel(title, {"": query}, about, kind="stat", unit=unit, width=4, height=4, thresholds=thresholds)


def table(title: str, query: str, about: str, *, width: int = 12) -> Panel:
    """The labels of what there is now, and its value."""
    return Panel(title, {"": query}, about, kind="table", width=width)


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """The dashboard, as Grafana imports it."""
    return {
        "uid": "edgeagent",
        "title": "edgeagent",
        "description": "GPU and host memory of edge boards: who holds what, who is over, and how the agents fare.",
        "tags": ["edgeagent", "gpu"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), _choice("node", "{}"), _choice("instance", '{node=~"$node"}')]},
        "annotations": {"list": [_evictions()]},
        "panels": _panels(rows),
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _choice(label: str, among: str) -> dict[str, Any]:
    """A choice of boards by a label that need not be there: a target without it belongs to All."""
    query = f"label_values(edgeagent_build_info{among}, {label})"
    return {
        "name": label,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": label},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _evictions() -> dict[str, Any]:
    return {
        "name": "Evictions",
        "datasource": SOURCE,
        "enable": True,
        "iconColor": "red",
        "expr": chosen('increase(edgeagent_evictions_total{@, outcome="accepted"}[$__rate_interval]) > 0'),
        "titleFormat": "evicted ({{breach}})",
        "textFormat": BOARD,
    }


def _panels(rows: Sequence[Row]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        found.append(
            _placed({"type": "row", "title": row.title, "collapsed": False, "panels": []}, 0, top, WIDTH, 1, found)
        )
        top += 1
        left = tallest = 0
        for panel in row.panels:
            if left + panel.width > WIDTH:
                top, left, tallest = top + tallest, 0, 0
            found.append(_placed(_panel(panel), left, top, panel.width, panel.height, found))
            left, tallest = left + panel.width, max(tallest, panel.height)
        top += tallest
    return found


def _placed(
    panel: dict[str, Any], left: int, top: int, width: int, height: int, before: list[dict[str, Any]]
) -> dict[str, Any]:
    return {"id": len(before) + 1, "gridPos": {"x": left, "y": top, "w": width, "h": height}, **panel}


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "targets": [_target(panel, number, *one) for number, one in enumerate(panel.queries.items())],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
        **(_TABLE if panel.kind == "table" else {}),
    }


def _target(panel: Panel, number: int, name: str, query: str) -> dict[str, Any]:
    now = panel.kind != "timeseries"
    return {
        "refId": chr(ord("A") + number),
        "datasource": SOURCE,
        "expr": chosen(query),
        "legendFormat": name,
        "instant": now,
        "range": not now,
        **({"format": "table"} if panel.kind == "table" else {}),
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    steps = [{"color": "green", "value": None}, *({"color": colour, "value": at} for at, colour in panel.thresholds)]
    found: dict[str, Any] = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.most is not None:
        found["max"] = panel.most
    if panel.kind == "timeseries":
        found["custom"] = {
            "fillOpacity": 30 if panel.stacked else 0,
            "lineWidth": 1,
            "showPoints": "never",
            # A gap is a value that was not known, and stays one.
            "spanNulls": False,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    return found


_LAST = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_OPTIONS: dict[str, dict[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {"reduceOptions": _LAST, "colorMode": "value", "graphMode": "none", "textMode": "auto"},
    "bargauge": {"reduceOptions": _LAST, "displayMode": "lcd", "orientation": "horizontal", "showUnfilled": True},
    "table": {"showHeader": True, "footer": {"show": False}},
}
_HIDDEN = ("Time", "__name__", "job", "endpoint", "container", "prometheus")
_TABLE = {
    "transformations": [
        {"id": "organize", "options": {"excludeByName": dict.fromkeys(_HIDDEN, True), "renameByName": {}}}
    ]
}
