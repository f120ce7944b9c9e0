"""The memory is nearly gone, and nobody is killed. Two frames: one sample proves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cases.holders import CLIENTS, client, in_pod, table, task
from tests.cases.making import GIB, KEY, KIB, frames, meminfo, pod, pods
from tests.diagnose.containers import CONTAINER, FIRST
from tests.diagnose.making import PODS, TOTAL_KIB, Capture, found, healthy, judged

ID = "memory-critical"


def board(available_mib: int) -> dict[str, Any]:
    """A pod holds 3 GiB of its 4 GiB, and so much is usable; pressure.critical is 64 MiB."""
    return healthy(
        **{
            "host/proc/meminfo": meminfo(TOTAL_KIB, MemAvailable=available_mib * KIB),
            CLIENTS: table(client(b"llm", 812, 3 * KIB * KIB)),
            **task(812, in_pod(FIRST, CONTAINER), name="llm", fds=()),
            PODS: pods(pod(limits={KEY: "4Gi"}, spec={"runtimeClassName": "nvidia"})),
            **frames({}, {}),
        }
    )


TRIGGER = board(40)
NEAR_MISS = board(80)


def test_it_names_who_holds_most_and_how_to_end_it(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", f"pool {KEY}")
    assert f"pod default/llm holds: {3 * GIB}" in one["evidence"]
    assert "kubectl -n default delete pod llm" in one["remedy"].splitlines()
