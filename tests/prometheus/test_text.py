"""The text of the endpoint, judged by promtool in every state that an agent can be in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgeagent.serve import metrics
from edgeagent.serve.shown import Shown
from tests.prometheus.promtool import judge
from tests.prometheus.requirements import PROMETHEUS
from tests.unit.serve.states import BOARD, DISCRETE, NOW, PLAN, POOL, READINGS, WALL, cluster, shown
from tests.unit.serve.whole import whole

pytestmark = PROMETHEUS

NO_GPU = replace(PLAN, board=replace(BOARD, kind="none", devices=()), pools=(), advertised={}, pods=())
MIXED = replace(
    DISCRETE,
    pools=(POOL, replace(DISCRETE.pools[0], resource="edgeagent.dev/igpu-memory")),
    board=replace(DISCRETE.board, kind="mixed"),
)
HOSTILE = replace(BOARD, product='a"b\\c\nd{e="f"} 7\n# TYPE x bogus', module="\u2603 \x1b[31m")

STATES: dict[str, Shown | None] = {
    "before the first cycle": None,
    "nothing read yet": shown(plan=None),
    "breach": shown(),
    **whole(),
    "all readings stale": shown(readings={name: replace(one, succeeded_at=NOW - 60) for name, one in READINGS.items()}),
    "sample too old": shown(at=NOW - 60),
    "no GPU": shown(plan=NO_GPU),
    "mixed": shown(plan=MIXED),
    "standalone": shown(cluster=None),
    "never connected": shown(cluster=cluster(complete=False, fresh_at=float("-inf"), succeeded_at=None)),
    "hostile names": shown(plan=replace(PLAN, board=HOSTILE)),
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_promtool_has_nothing_to_complain_of(state: Shown | None) -> None:
    assert judge("check", "metrics", given=metrics.text(state, NOW, WALL)) == ""


def test_promtool_would_complain() -> None:
    said = judge(
        "check", "metrics", given=b"# HELP edgeagent_waits Waits.\n# TYPE edgeagent_waits counter\nedgeagent_waits 1\n"
    )

    assert "counter metrics should have" in said
    assert judge("check", "metrics", given=b'edgeagent_ready{a="b} 1\n')
