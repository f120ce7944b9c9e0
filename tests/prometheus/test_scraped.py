"""A real Prometheus scrapes real endpoints: what it keeps, what the dashboard finds, which alerts fire."""

from __future__ import annotations

import re
import signal
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from edgeagent.facts import GPU_MEMORY
from edgeagent.serve.shown import ConfigHealth, Counters
from tests.cluster.recorded import EMPTY_BOARD
from tests.controlplane.waiting import wait_for
from tests.deploy import dashboard
from tests.prometheus.composed import readings, state
from tests.prometheus.requirements import PROMETHEUS
from tests.unit.serve.states import CLUSTER, DISCRETE, MIB, PLAN
from tests.unit.serve.whole import KNOWN, beside

if TYPE_CHECKING:
    from tests.prometheus.conftest import Scraped

pytestmark = PROMETHEUS

CALM = replace(PLAN, pods=PLAN.pods[:1], held=())
"""The board of the unit tests without the pod in breach and without the one whose use is not known."""
QUIET = Counters(cycles=1)


def test_both_agents_are_scraped(scraped: Scraped) -> None:
    ask = scraped.prometheus
    wait_for("both targets up", lambda: sorted(value for _, value in ask.query("up")) == [1, 1])

    of_board = f'{{instance="{scraped.service.address}"}}'
    ((labels, value),) = wait_for("the pool", lambda: ask.query(f"edgeagent_pool_advertised_bytes{of_board}"))
    assert (labels["pool"], value) == (GPU_MEMORY, int(EMPTY_BOARD.removesuffix("Mi")) * MIB)
    # Every cycle was counted among the durations; one that runs during the scrape is in neither.
    ((_, cycles),) = ask.query(f"edgeagent_cycles_total{of_board}")
    ((_, timed),) = ask.query(f"edgeagent_cycle_duration_seconds_count{of_board}")
    assert cycles == timed > 0


def test_the_pod_that_is_told_of_is_not_the_agents_own(scraped: Scraped) -> None:
    scraped.composed.show(state())

    found = wait_for("the pod's series", lambda: scraped.prometheus.query('edgeagent_pod_gpu_bytes{pod="llm"}'))

    ((labels, value),) = found
    assert (labels["namespace"], labels["node"], value) == ("apps", "board-7", 2900 * MIB)


def test_every_query_of_the_dashboard_is_answered(scraped: Scraped) -> None:
    """On a board that has everything, each query finds something but those that look for what is wrong elsewhere."""
    stages = [KNOWN, DISCRETE, replace(KNOWN, pools=(replace(PLAN.pools[0], gpu_committed=9000 * MIB),))]
    queries, empty = dashboard.queries(), set(dashboard.queries())
    for number, plan in enumerate(stages):
        counters = Counters(
            cycles=100 * number,
            evictions={("gpu", "accepted"): number},
            kills={"killed": number},
            api_calls={("PATCH", "200"): number},
        )
        kept = beside(time.monotonic())
        stale = readings(cgroups=60 * (number == 2))
        scraped.composed.show(state(plan=plan, counters=counters, readings=stale, **kept))
        seen = f'edgeagent_cycles_total{{node="board-7"}} == {100 * number}'
        wait_for("the stage", partial(scraped.prometheus.query, seen))
        empty -= {name for name in empty if scraped.prometheus.query(queries[name])}

    assert empty == set()


def test_what_is_stale_vanishes_at_once_and_comes_back(scraped: Scraped) -> None:
    ask, of_pod = scraped.prometheus, 'edgeagent_pod_gpu_bytes{pod="llm"}'
    scraped.composed.show(state())
    wait_for("the pod's series", lambda: ask.query(of_pod))

    scraped.composed.show(state(readings=readings(nvmap=60)))

    # Without a mark from Prometheus an instant query would find the last value for five minutes.
    wait_for("its end", lambda: not ask.query(of_pod), seconds=20)
    assert ask.query('edgeagent_reading_stale{reading="nvmap"}')[0][1] == 1
    assert ask.query('edgeagent_pod_gpu_budget_bytes{pod="llm"}')
    scraped.composed.show(state())
    wait_for("its return", lambda: ask.query(of_pod))


def test_no_alert_fires_on_a_board_that_is_well(scraped: Scraped) -> None:
    scraped.composed.show(state(plan=CALM, counters=QUIET))

    # What an earlier test counted is an increase for as long as it is in the window.
    lasting = {"PodEvictedForMemory", "GPUProcessKilled"}
    firing = scraped.prometheus.firing
    wait_for("quiet", lambda: firing(scraped.composed.address) <= lasting, seconds=20)
    wait_for("quiet", lambda: not firing(scraped.service.address), seconds=20)


def test_alerts_fire_for_what_is_wrong_and_end_with_it(scraped: Scraped) -> None:
    danger = replace(PLAN.danger, active=True)
    wrong = replace(DISCRETE, danger=danger, pools=(replace(PLAN.pools[0], gpu_committed=9000 * MIB),))
    expected = {
        "EdgeAgentNotReady",
        "EdgeAgentConfigurationRejected",
        "PodOverItsGPUMemoryBudget",
        "PodGPUMemoryUnknown",
        "GPUMemoryOvercommitted",
        "BoardUnderMemoryPressure",
        "GPUNotHealthy",
    }
    scraped.composed.show(
        state(
            plan=wrong,
            config=ConfigHealth(digest="abc123", refused=("mode: wrong",)),
            cluster=replace(CLUSTER, published=False),
        )
    )
    firing = scraped.prometheus.firing

    wait_for("all of them", lambda: firing(scraped.composed.address) >= expected, seconds=20)
    scraped.composed.show(state(plan=CALM, counters=QUIET))
    wait_for("none of them", lambda: not firing(scraped.composed.address) & expected, seconds=20)


def test_an_eviction_that_is_refused_is_an_alert_the_first_time(scraped: Scraped) -> None:
    ask = scraped.prometheus
    scraped.composed.show(state(plan=CALM, counters=QUIET))
    none = 'edgeagent_evictions_total{node="board-7", breach="gpu", outcome="forbidden"} == 0'
    wait_for("the count of none", lambda: ask.query(none))

    scraped.composed.show(state(plan=CALM, counters=replace(QUIET, evictions={("gpu", "forbidden"): 1})))

    wait_for("the alert", lambda: "EvictionRefused" in ask.firing(scraped.composed.address), seconds=20)


def test_a_real_agent_on_a_board_whose_memory_ends(scraped: Scraped) -> None:
    meminfo = (scraped.board.root / "proc/meminfo").read_text()
    firing = scraped.prometheus.firing
    address = scraped.service.address

    scraped.board.write("proc/meminfo", re.sub(r"(?m)^MemAvailable: .*$", "MemAvailable:      40960 kB", meminfo))
    wait_for("pressure", lambda: "BoardUnderMemoryPressure" in firing(address), seconds=20)

    scraped.board.write("proc/meminfo", "nothing of it\n")
    # What was read last is used for max_age, 5 s with this configuration, and then told no more.
    wait_for("not ready", lambda: "EdgeAgentNotReady" in firing(address), seconds=30)
    wait_for("no pressure", lambda: "BoardUnderMemoryPressure" not in firing(address), seconds=20)
    reasons = {labels["reason"] for labels, _ in scraped.prometheus.query("edgeagent_unready_reason")}
    assert "reading-stale:meminfo" in reasons

    scraped.board.write("proc/meminfo", meminfo)
    # The board counts as under pressure for a minute after the last low reading; that it is read is told at once.
    wait_for("ready", lambda: "EdgeAgentNotReady" not in firing(address), seconds=20)


def test_an_agent_that_does_not_answer_is_an_alert_though_its_series_are_gone(scraped: Scraped) -> None:
    ask, address = scraped.prometheus, scraped.service.address
    scraped.service.process.send_signal(signal.SIGSTOP)
    try:
        wait_for("the alert", lambda: "EdgeAgentDown" in ask.firing(address), seconds=20)
        assert not ask.query(f'edgeagent_ready{{instance="{address}"}}')
    finally:
        scraped.service.process.send_signal(signal.SIGCONT)

    wait_for("its end", lambda: "EdgeAgentDown" not in ask.firing(address), seconds=20)
