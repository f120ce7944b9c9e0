"""What to write, as metrics and as a document of the API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from edgeagent.facts import GPU_MEMORY
from edgeagent.plan.advice import advice, documents
from edgeagent.plan.peaks import Peaks
from edgeagent.plan.peaktime import DAY, HOUR
from edgeagent.serve import api, metrics
from edgeagent.serve.look import Look
from tests.unit.plan.workloads import GIB, MIB, fold, plan, view

from .states import NOW, WALL, shown

LLM = {"namespace": "apps", "owner_kind": "Deployment", "owner": "llm", "container": "main"}
POOL = {**LLM, "pool": GPU_MEMORY}


def workloads() -> Peaks:
    """``llm`` held 1740 MiB two days ago and holds 640 now, of a budget of 1 GiB; ``idle`` uses no GPU."""
    before = fold(Peaks(), plan(view(gpu=1740 * MIB, host=505 * MIB)), NOW - 2 * DAY)
    limits = {GPU_MEMORY: GIB, "memory": 2 * GIB}
    idle = view("idle", 0, 40 * MIB, owner=None)
    peaks = fold(before, plan(view(gpu=640 * MIB, host=300 * MIB, limits=limits), idle), NOW - 8.0)
    return fold(peaks, plan(view(gpu=640 * MIB, host=300 * MIB, limits=limits), idle), NOW)


def scraped(now: float = NOW, **changes: Any) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Labels and value of every series of a workload, by name."""
    text = metrics.text(shown(peaks=workloads(), **changes), now, WALL + (now - NOW)).decode()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith("edgeagent_workload_"):
                found.setdefault(sample.name.removeprefix("edgeagent_workload_"), []).append(
                    (sample.labels, sample.value)
                )
    return found


def test_the_metrics_of_a_workload() -> None:
    assert scraped() == {
        "gpu_peak_bytes": [({**POOL, "window": "1d"}, 640 * MIB), ({**POOL, "window": "7d"}, 1740 * MIB)],
        "host_peak_bytes": [({**LLM, "window": "1d"}, 300 * MIB), ({**LLM, "window": "7d"}, 505 * MIB)],
        "gpu_budget_bytes": [(POOL, 1024 * MIB)],
        # 1740 + 174, up to whole 64.
        "recommended_gpu_bytes": [(POOL, 1920 * MIB)],
        # The host's part of the limit, 2048 − 1024, stays before a day of watching.
        "recommended_memory_bytes": [(LLM, (1920 + 1024) * MIB)],
        "watched_seconds": [(LLM, 8.0)],
    }


def test_peaks_are_told_however_old_the_last_sample_is() -> None:
    later = scraped(now=NOW + HOUR)
    assert later == scraped()
    assert later == scraped(plan=None)


def test_what_is_not_known_is_an_absent_series() -> None:
    found = plan(view(gpu=None, host=None, limits={GPU_MEMORY: GIB}))
    text = metrics.text(shown(peaks=fold(Peaks(), found, NOW), plan=found), NOW, WALL).decode()
    told = {line.partition("{")[0] for line in text.splitlines() if line.startswith("edgeagent_workload_")}
    assert told == {"edgeagent_workload_gpu_budget_bytes", "edgeagent_workload_watched_seconds"}


def test_the_api_tells_all_workloads_also_while_the_sample_is_stale() -> None:
    whole = shown(peaks=workloads())
    status, body = api.answer("budgets", Look(whole, NOW, WALL))
    assert status == 200
    assert body == {"budgets": documents(advice(workloads(), whole.plan))}
    assert [one["owner"]["name"] for one in body["budgets"]] == ["llm", "idle"]
    assert api.answer("budgets", Look(whole, NOW + HOUR, WALL)) == (status, body)
    assert api.answer("budgets", Look(replace(whole, peaks=Peaks()), NOW, WALL)) == (200, {"budgets": []})
