"""GPU memory that is asked for and never used. A pod is 3595 s old unless a case says otherwise."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from edgeagent.host.files import TreeFiles
from edgeagent.plan import peaks
from edgeagent.plan.decide import decide
from edgeagent.plan.peaks import Course, Peaks, Record
from edgeagent.plan.peaktime import HOUR, BoardTime
from edgeagent.plan.state import State
from edgeagent.rounds import Rounds
from edgeagent.snapshot import recording, replay
from tests.cases.holders import KTHREADD, client, table
from tests.cases.making import KEY, pod, pods
from tests.diagnose.containers import process, seen
from tests.diagnose.making import PODS, Capture, Files, found, healthy, judged
from tests.unit.snapshot.making import write

ID = "requested-but-idle"
NVIDIA = {"runtimeClassName": "nvidia"}
CLIENTS = "host/sys/kernel/debug/nvmap/iovmm/clients"
CAMERA = {CLIENTS: table(client(b"argus", 900, 1024))}
"""A table that holds a value, so that who is not in it holds none."""
POD = pods(pod(limits={KEY: "2Gi"}, spec=NVIDIA))
TRIGGER = healthy(**{PODS: POD}, **CAMERA)
NEAR_MISS = healthy(**{PODS: pods(pod(spec=NVIDIA))}, **CAMERA)


def test_a_pod_that_never_touched_it(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("info", "suspected", "pod default/llm")
    assert "2.00 GiB of edgeagent.dev/gpu-memory" in one["summary"]
    assert "edgeagent doctor pod default/llm" in one["remedy"].splitlines()
    assert '"requests": {"edgeagent.dev/gpu-memory": null}' in one["remedy"]


@pytest.mark.parametrize(
    ("files", "number"),
    [
        ({}, 1),
        ({"config.yaml": {"policy": {"start_grace": "5min"}}}, 0),  # 75 minutes
        ({"config.yaml": {"policy": {"start_grace": "1s"}}}, 1),
        ({CLIENTS: "not a table\n"}, 0),
        ({CLIENTS: table(client(b"llm", 4242, 1024)), **process("/dev/nvmap"), **KTHREADD}, 0),
        ({"snapshot.yaml": {"format": 1, "taken": "1970-01-01T00:10:00Z", "node": "edge-07", "arch": "aarch64"}}, 0),
    ],
    ids=["an-hour", "not-for-long", "for-long", "nobody-knows", "it-uses-some", "the-clock-is-not-set"],
)
def test_only_what_is_known_to_be_unused_for_long(tmp_path: Path, capsys: Capture, files: Files, number: int) -> None:
    assert len(seen(capsys, tmp_path, {**TRIGGER, **files}, ID)) == number


def kept(held: int, watched: float) -> Peaks:
    """What an agent kept of the deployment."""
    record = Record({KEY: Course(((4, held),), watched, 5 * HOUR)}, Course(), {KEY: 1 << 31}, None, 5 * HOUR)
    who = peaks.Workload("default", "Pod", "llm", "main")
    return Peaks(time=BoardTime(seconds=5 * HOUR), records={who: record})


@pytest.mark.parametrize(
    ("peak", "watched", "certainty"),
    [(0, 1800.0, "certain"), (0, 1799.0, "suspected"), (4096, 1800.0, None), (4096, 2.0, None)],
)
def test_an_agent_knows_what_it_held_before(tmp_path: Path, peak: int, watched: float, certainty: str | None) -> None:
    # 15 times policy.start_grace are 1800 s.
    recorded = recording.read(write(tmp_path, TRIGGER))
    facts = replace(next(iter(replay.looks(recorded)))[1], findings=())
    rounds = Rounds(
        TreeFiles(recorded.samples[0].host),
        client=lambda: None,
        clock=lambda: 100.0,
        changed=asyncio.Event(),
        peaks=lambda: kept(peak, watched),
    )
    rounds.saw(facts, decide(State(), facts, 100.0)[1])
    asyncio.run(rounds._round())  # noqa: SLF001 (its pace is another question)
    assert [one.certainty for one in rounds.findings or () if one.id == ID] == ([certainty] if certainty else [])
