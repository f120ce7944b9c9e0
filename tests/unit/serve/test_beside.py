"""What is watched beside the sample, as JSON and as series."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from edgeagent.facts.neighbours import Neighbour
from edgeagent.facts.vitals import Vitals
from edgeagent.serve import beside, metrics

from .states import NEIGHBOUR, NOW, VITALS, WALL, shown

BARE = Neighbour(at=NOW, namespace="apps", name="idle", uid="uid-idle")
POD = 'namespace="apps",pod="llm",pod_uid="uid-llm"'


def series(**changes: object) -> dict[str, float]:
    """Series by name and labels, of those that are watched."""
    text = metrics.text(shown(**changes), NOW, WALL).decode()
    rows = [row.rpartition(" ") for row in text.splitlines() if not row.startswith("#")]
    names = (
        "pod_cpu",
        "pod_pressure",
        "pod_gpu_util",
        "pod_lat",
        "pod_req",
        "temp",
        "power",
        "board_th",
        "fan",
        "device_u",
    )
    return {name: float(value) for name, _, value in rows if name.removeprefix("edgeagent_").startswith(names)}


def test_a_neighbour_as_json() -> None:
    assert beside.neighbours([NEIGHBOUR], NOW) == [
        {
            "namespace": "apps",
            "name": "llm",
            "uid": "uid-llm",
            "cpu_throttled_ratio": 0.25,
            "cpu_stall_ratio": 0.5,
            "memory_stall_ratio": 0.0,
            "io_stall_ratio": None,
            "gpu_utilization_ratio": 0.75,
            "latency": {"p50_seconds": 0.05, "p99_seconds": 0.2, "requests_per_second": 2.0},
            "latency_why": "",
            "since_newcomer": {
                "pod": "apps/odd",
                "seconds": 61.2,
                "before": {
                    "p50_seconds": 0.04,
                    "p99_seconds": None,
                    "requests_per_second": None,
                    "cpu_throttled_ratio": 0.0,
                },
                "after": {
                    "p50_seconds": 0.05,
                    "p99_seconds": None,
                    "requests_per_second": None,
                    "cpu_throttled_ratio": 0.25,
                },
            },
        }
    ]


def test_every_figure_that_is_unknown_is_null() -> None:
    (found,) = beside.neighbours([BARE], NOW)
    told = {key: value for key, value in found.items() if value not in (None, "")}
    assert told == {"namespace": "apps", "name": "idle", "uid": "uid-idle"}


def test_neighbours_stand_in_the_order_of_their_names_and_the_old_ones_are_left_out() -> None:
    old = replace(BARE, at=NOW - 35.5)
    assert [one["name"] for one in beside.neighbours([NEIGHBOUR, BARE], NOW)] == ["idle", "llm"]
    assert beside.neighbours([old], NOW) == []


def test_vitals_as_json() -> None:
    assert beside.vitals(VITALS, NOW) == {
        "power_mode": "MAXN_SUPER",
        "temperatures": [{"zone": "cpu-thermal", "celsius": 49.781}, {"zone": "cv0-thermal", "celsius": None}],
        "throttled": True,
        "throttle_reasons": ["over-current-oc3"],
        "fan_ratio": 0.4,
        "devices": [{"uuid": "tegra", "utilization_ratio": 0.413}],
        "source": "files",
    }
    assert beside.vitals(replace(VITALS, at=NOW - 35.5), NOW) is None
    assert beside.vitals(None, NOW) is None


def test_the_series() -> None:
    assert series() == {
        f"edgeagent_pod_cpu_periods_total{{{POD}}}": 200,
        f"edgeagent_pod_cpu_throttled_periods_total{{{POD}}}": 50,
        f"edgeagent_pod_cpu_throttled_seconds_total{{{POD}}}": 2.5,
        f'edgeagent_pod_pressure_seconds_total{{{POD},resource="cpu"}}': 12.5,
        f'edgeagent_pod_pressure_seconds_total{{{POD},resource="memory"}}': 0,
        f"edgeagent_pod_gpu_utilization_ratio{{{POD}}}": 0.75,
        f"edgeagent_pod_latency_p50_seconds{{{POD}}}": 0.05,
        f"edgeagent_pod_latency_p99_seconds{{{POD}}}": 0.2,
        f"edgeagent_pod_requests_total{{{POD}}}": 30,
        'edgeagent_temperature_celsius{zone="cpu-thermal"}': 49.781,  # cv0 is switched off
        "edgeagent_board_throttled": 1,
        'edgeagent_board_throttle_reason{reason="over-current-oc3"}': 1,
        'edgeagent_power_mode_info{mode="MAXN_SUPER"}': 1,
        "edgeagent_fan_ratio": 0.4,
        'edgeagent_device_utilization_ratio{device="tegra"}': 0.413,
    }


def test_series_of_what_is_old_or_unknown_are_gone() -> None:
    old = {"uid-llm": replace(NEIGHBOUR, at=NOW - 35.5)}
    assert series(neighbours=old, vitals=replace(VITALS, at=NOW - 35.5)) == {}
    assert series(neighbours={"uid-idle": BARE}, vitals=Vitals(at=NOW)) == {}
    assert series(neighbours={}, vitals=None) == {}


def test_not_throttled_is_a_series_and_not_known_is_none() -> None:
    well = Vitals(at=NOW, throttled=False)
    assert series(neighbours={}, vitals=well) == {"edgeagent_board_throttled": 0}


def test_the_queries_of_the_page_ask_for_series_that_there_are() -> None:
    docs = Path(__file__).parents[3] / "docs"
    asked = set(re.findall(r"edgeagent_\w+", (docs / "how-to" / "watch-neighbours.md").read_text()))
    assert asked == {
        "edgeagent_pod_latency_p99_seconds",
        "edgeagent_pod_requests_total",
        "edgeagent_pod_cpu_throttled_periods_total",
        "edgeagent_pod_cpu_periods_total",
        "edgeagent_pod_pressure_seconds_total",
    }
    assert asked <= {name.partition("{")[0] for name in series()}
