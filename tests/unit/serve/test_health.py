"""Which check fails for what, and that only a dead loop makes the agent look dead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent.serve import health
from edgeagent.serve.shown import LoopHealth, Refused, Shown

from .states import NOW, PLAN, cluster, reading, shown

NEVER = float("-inf")
NO_GPU = replace(PLAN, board=replace(PLAN.board, kind="none", devices=()))

# name: (state, time, names of the failed checks, whether a restart would help)
CASES: dict[str, tuple[Shown | None, float, list[str], bool]] = {
    "all well": (shown(), NOW, [], False),
    "before the first cycle": (None, NOW, ["first-reading"], False),
    "no complete reading yet": (shown(plan=None), NOW, ["first-reading"], False),
    "standalone": (shown(cluster=None), NOW, [], False),
    # allowed 30 s
    "loop at its limit": (shown(loops={"cycle": LoopHealth(beat_at=NOW - 30, allowed=30)}), NOW, [], False),
    "loop beyond": (
        shown(loops={"cycle": LoopHealth(beat_at=NOW - 31, allowed=30)}),
        NOW,
        ["loop-stalled:cycle"],
        True,
    ),
    # max_age 10 s
    "sample at its limit": (shown(at=NOW - 10), NOW, [], False),
    "sample too old": (shown(at=NOW - 10.5), NOW, ["sample-stale"], False),
    "one failed reading, value still good": (shown(readings=reading("nvmap", why="EIO")), NOW, [], False),
    "stale": (shown(readings=reading("nvmap", succeeded_at=NOW - 11)), NOW, ["reading-stale:nvmap"], False),
    "never read": (shown(readings=reading("nvmap", succeeded_at=None)), NOW, ["reading-stale:nvmap"], False),
    "never read, and cannot be": (
        shown(readings=reading("nvmap", succeeded_at=None, why="foreign", never="not here")),
        NOW,
        [],
        False,
    ),
    "driver hangs": (shown(readings=reading("nvml", waiting_since=NOW - 120)), NOW, ["nvml-stalled"], False),
    "API down for 1 h": (
        shown(cluster=cluster(fresh_at=NOW - 3600, succeeded_at=NOW - 3600)),
        NOW,
        ["cluster-unreachable"],
        False,
    ),
    "API never answered": (
        shown(cluster=cluster(complete=False, fresh_at=NEVER, succeeded_at=None, published=False)),
        NOW,
        ["cluster-unreachable", "view-incomplete", "not-published"],
        False,
    ),
    # Nobody was asked, so nobody is unreachable.
    "credentials that cannot be used": (
        shown(
            cluster=cluster(
                node=None,
                complete=False,
                fresh_at=NEVER,
                succeeded_at=None,
                published=False,
                unusable="k is not a kubeconfig",
                error="unusable credentials: k is not a kubeconfig",
            )
        ),
        NOW,
        ["credentials-unusable", "view-incomplete", "node-name", "not-published"],
        False,
    ),
    # The watch is open, so the view is current, whenever the last answer was.
    "quiet cluster": (shown(cluster=cluster(fresh_at=NOW, succeeded_at=NOW - 50)), NOW, [], False),
    "API answers, lists do not": (shown(cluster=cluster(fresh_at=NOW - 11)), NOW, ["view-stale"], False),
    "not published": (shown(cluster=cluster(published=False)), NOW, ["not-published"], False),
    "nothing to publish": (shown(plan=NO_GPU, cluster=cluster(published=False)), NOW, [], False),
    "no node name": (shown(cluster=cluster(node=None)), NOW, ["node-name"], False),
    "a call is denied": (
        shown(cluster=cluster(refused=(Refused(part="patch nodes/status", code=403, message="no"),))),
        NOW,
        ["forbidden:patch nodes/status"],
        False,
    ),
}


@pytest.mark.parametrize(("state", "now", "failed", "restart"), CASES.values(), ids=CASES)
def test_which_checks_fail(state: Shown | None, now: float, failed: list[str], restart: bool) -> None:  # noqa: FBT001
    ready, body = health.readyz(state, now)
    alive, _ = health.livez(state, now)

    assert [reason["name"] for reason in body["reasons"]] == failed
    assert all(reason["message"] for reason in body["reasons"])
    assert (ready, body["status"]) == ((503, "unavailable") if failed else (200, "ok"))
    assert alive == (503 if restart else 200)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (shown(readings=reading("nvml", waiting_since=NOW - 120)), "nvml stalled 120 s"),
        (
            shown(readings=reading("nvmap", succeeded_at=NOW - 11, why="Permission denied")),
            "11 s ago: Permission denied",
        ),
        (shown(cluster=cluster(fresh_at=NOW - 60, succeeded_at=NOW - 60, error="refused")), "60 s ago: refused"),
        (shown(cluster=cluster(unusable="k is not a kubeconfig")), "k is not a kubeconfig"),
        (shown(cluster=cluster(refused=(Refused(part="evict", code=422, message="policy"),))), "422: policy"),
    ],
    ids=["stalled", "stale", "unreachable", "unusable", "refused"],
)
def test_the_message_names_the_cause(state: Shown, said: str) -> None:
    _, body = health.readyz(state, NOW)

    (reason,) = body["reasons"]
    assert said in reason["message"]


def test_healthz_answers_200_and_tells_all_the_same() -> None:
    assert health.healthz(shown(), NOW) == (200, {"status": "ok", "reasons": []})

    status, body = health.healthz(shown(readings=reading("nvml", waiting_since=NOW - 120)), NOW)

    assert (status, body["status"]) == (200, "degraded")
    assert [reason["name"] for reason in body["reasons"]] == ["nvml-stalled"]


def test_verbose_lists_what_is_well_too() -> None:
    _, body = health.readyz(shown(cluster=cluster(published=False)), NOW, verbose=True)

    checks = {check["name"]: check["ok"] for check in body["checks"]}
    assert checks["not-published"] is False
    assert {name for name, ok in checks.items() if ok} >= {
        "loop-stalled:cycle",
        "reading-stale:meminfo",
        "sample-stale",
    }
    assert "checks" not in health.readyz(shown(), NOW)[1]


def test_verbose_says_what_a_board_cannot_give() -> None:
    status, body = health.readyz(
        shown(readings=reading("nvmap", succeeded_at=None, never="not here")), NOW, verbose=True
    )

    assert status == 200
    told = {"name": "reading-stale:nvmap", "ok": True, "message": "not here"}
    assert {**told, "age_seconds": None, "allowed_seconds": 10} in body["checks"]


def checks(state: Shown, **options: Any) -> dict[str, dict[str, Any]]:
    listed = health.readyz(state, NOW, verbose=True, **options)[1]["checks"]
    return {check.pop("name"): check for check in listed}


def test_verbose_tells_the_age_of_loops_readings_sample_and_view() -> None:
    loops = {"cycle": LoopHealth(beat_at=NOW - 2, allowed=30), "reconcile": LoopHealth(beat_at=NEVER, allowed=30)}
    readings = reading("nvmap", succeeded_at=NOW - 11)
    told = checks(shown(at=NOW - 4, loops=loops, readings=readings, cluster=cluster(fresh_at=NOW - 1)))

    ages = {name: (check["age_seconds"], check["allowed_seconds"]) for name, check in told.items() if len(check) > 2}
    assert ages == {
        "loop-stalled:cycle": (2, 30),
        "loop-stalled:reconcile": (None, 30),
        "sample-stale": (4, 10),
        "reading-stale:meminfo": (0, 10),
        "reading-stale:nvmap": (11, 10),
        "reading-stale:cgroups": (0, 10),
        "reading-stale:nvml": (0, 10),
        "view-stale": (1, 10),
    }
    assert told["loop-stalled:reconcile"]["message"] == "it has ended, and only a restart brings it back"
    assert told["cluster-unreachable"] == {"ok": True, "message": "the last good answer came 3 s ago"}


def test_why_a_cluster_was_never_reached_is_said_once() -> None:
    never = cluster(complete=False, fresh_at=NEVER, succeeded_at=None, published=False, error="no route to host")
    told = checks(shown(cluster=never))

    assert told["cluster-unreachable"]["message"] == "no good answer yet: no route to host"
    assert told["view-incomplete"]["message"] == "own node and own pods were not listed yet"


def test_what_is_excluded_does_not_count_and_is_marked() -> None:
    state = shown(cluster=cluster(published=False, complete=False))
    status, body = health.readyz(state, NOW, without={"not-published", "no-such-check"})

    assert (status, [reason["name"] for reason in body["reasons"]]) == (503, ["view-incomplete"])
    assert health.readyz(state, NOW, without={"not-published", "view-incomplete"})[0] == 200
    assert checks(state, without={"not-published"})["not-published"] == {"ok": True, "message": "excluded"}


def test_a_restart_that_would_help_can_be_excluded_too() -> None:
    state = shown(loops={"cycle": LoopHealth(beat_at=NOW - 31, allowed=30)})

    assert health.livez(state, NOW)[0] == 503
    assert health.livez(state, NOW, without={"loop-stalled:cycle"})[0] == 200


def test_lines_are_one_word_while_all_is_well() -> None:
    _, body = health.readyz(shown(), NOW, verbose=True)

    assert health.lines("readyz", body, verbose=False) == b"ok\n"
    rows = health.lines("readyz", body, verbose=True).decode().splitlines()
    assert len(rows) == len(body["checks"]) + 1
    assert rows[-1] == "readyz check passed"
    assert "[+]cluster-unreachable ok: the last good answer came 3 s ago" in rows


def test_loops_that_turn_after_the_last_cycle_are_seen() -> None:
    loops = {"watch": LoopHealth(beat_at=NOW - 100, allowed=90)}
    state = shown(loops=loops)
    assert health.livez(state, NOW)[0] == 503

    loops["watch"] = LoopHealth(beat_at=NOW, allowed=90)

    assert health.livez(state, NOW)[0] == 200
