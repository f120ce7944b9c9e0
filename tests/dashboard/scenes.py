"""Boards as the endpoint is shown them: recorded kinds of hardware, pods put on them, decided on by the real code."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from edgeagent.config import Reserves
from edgeagent.facts import CgroupOwner, NvmlMemory, PodFacts, Process
from edgeagent.facts.neighbours import Neighbour
from edgeagent.facts.vitals import Vitals
from edgeagent.plan.describing import stamp
from edgeagent.plan.peaks import Peaks, fold
from edgeagent.plan.types import Event, Plan
from edgeagent.serve.shown import ClusterHealth, ConfigHealth, Feed, LoopHealth, ReadingHealth, Shown
from edgeagent.serve.trail import STEP, Trail
from tests.unit.factories import (
    GIB,
    MIB,
    Held,
    Run,
    Scene,
    card,
    card_files,
    igpu,
    meminfo,
    nvml,
    orin_files,
    pod,
    processes,
)

IGPU_MEMORY = "edgeagent.dev/igpu-memory"
NOW = 10_000.0
"""Monotonic second of the latest sample of every scene."""
WALL = 1_790_000_000.0
NODE = "orin-packing-3"
TOTAL = 7619 * MIB
"""MemTotal 7802736 kB of a recorded Orin Nano with 8 GB."""
CMA = 256 * MIB
SYSTEM = 900 * MIB
"""What the system uses in these scenes, beside pods."""

LLM = pod("llm-chat-7c9f4d6b8-x2lqp", 2 * GIB, 2560 * MIB, namespace="shop")
DETECTOR = pod("detector-5d8c7b9f4-9wz7n", 1 * GIB, 1280 * MIB, namespace="vision")
TRACKER = pod("tracker-0", 512 * MIB, 768 * MIB, namespace="vision")
SPEECH = pod("whisper-6b7f9c5d4-mm2kd", 768 * MIB, 1024 * MIB, namespace="audio")
GATEWAY = pod("gateway-tx9rb", None, 96 * MIB, namespace="shop")
DNS = pod("coredns-ccb96694c-hj4bq", None, 70 * MIB, namespace="kube-system")
PODS = (LLM, DETECTOR, TRACKER, SPEECH, GATEWAY, DNS)
USE = {
    LLM.name: Held(gpu=1720 * MIB, host=412 * MIB),
    DETECTOR.name: Held(gpu=790 * MIB, host=231 * MIB),
    TRACKER.name: Held(gpu=344 * MIB, host=148 * MIB),
    SPEECH.name: Held(gpu=655 * MIB, host=187 * MIB),
    GATEWAY.name: Held(host=64 * MIB),
    DNS.name: Held(host=28 * MIB),
}


def orin(pods: tuple[PodFacts, ...] = PODS, held: Mapping[str, Held] = USE, **fields: Any) -> Scene:
    """An Orin Nano whose available memory is what is left when system and pods have taken theirs."""
    taken = SYSTEM + sum((one.gpu or 0) + (one.host or 0) for one in held.values()) + fields.get("system", 17 * MIB)
    given: dict[str, Any] = {
        "files": orin_files(
            model="NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super", l4t_release="R36, REVISION: 4.4"
        ),
        "meminfo": meminfo(TOTAL, TOTAL - taken, cma_total=CMA, cma_free=96 * MIB),
        "nvml": nvml(igpu()),
        "system": 17 * MIB,
        "at": NOW,
    }
    return Scene(pods=pods, held=dict(held), **{**given, **fields})


READING_FEEDS: dict[str, frozenset[Feed]] = {
    "meminfo": frozenset({"memory"}),
    "nvml": frozenset({"devices"}),
    "attribution": frozenset({"gpu"}),
}


def shown(plan: Plan, at: float = NOW, **changes: Any) -> Shown:
    """A plan as the agent shows it while all is well."""
    whole = Shown(
        plan=plan,
        at=at,
        max_age=10.0,
        settings=Reserves(),
        config=ConfigHealth(digest="5f2d1c9ab07e44d0a1b2c3d4e5f60718293a4b5c6d7e8f90"),
        loops={"cycle": LoopHealth(beat_at=at, allowed=1e9)},
        readings={
            name: ReadingHealth(succeeded_at=at, max_age=10.0, feeds=feeds) for name, feeds in READING_FEEDS.items()
        },
        cluster=ClusterHealth(node=NODE, complete=True, fresh_at=at, succeeded_at=at, published=True),
        configured={"sampling": {"max_age": 10.0}},
    )
    return replace(whole, **changes)


def with_use(**gpu: int) -> dict[str, Held]:
    """USE with other GPU bytes for the pods whose name begins so."""
    return {
        name: replace(held, gpu=next((amount for start, amount in gpu.items() if name.startswith(start)), held.gpu))
        for name, held in USE.items()
    }


def planned(scene: Scene, *before: float) -> Plan:
    """The plan for a scene that was the same at these many seconds before."""
    return Run().steps(scene, *(scene.at - earlier for earlier in before), scene.at)


def healthy() -> Shown:
    return shown(planned(orin(), 4, 2))


OVER = with_use(llm=2 * GIB + 310 * MIB)


def breach() -> Shown:
    """The first pod over its budget for six seconds of fifteen."""
    return shown(planned(orin(held=OVER), 6, 4, 2), events=(over_event(),))


def over_event() -> Event:
    return Event(
        reason="MemoryBudgetExceeded",
        kind="Pod",
        namespace=LLM.namespace,
        name=LLM.name,
        uid=LLM.uid,
        note="GPU memory 2.30 GiB exceeds the budget of 2.00 GiB (edgeagent.dev/gpu-memory).",
        at=NOW - 6,
    )


def pressure() -> Shown:
    """Nearly out of memory, and nobody over a budget: a pod without one has taken it."""
    loose = pod("notebook-0", None, None, namespace="lab")
    taken = sum((one.gpu or 0) + (one.host or 0) for one in USE.values()) + 17 * MIB + SYSTEM
    # What is left is 220 MiB, of which 96 MiB are CMA pages: 124 MiB usable, below the floor of 128 MiB.
    rest = TOTAL - taken - 220 * MIB
    held = {**USE, loose.name: Held(gpu=rest - 300 * MIB, host=300 * MIB)}
    return shown(planned(orin((*PODS, loose), held), 4, 2))


def stale(seconds: float = 12.0) -> Shown:
    """Healthy, but who holds GPU memory was read so long ago."""
    whole = healthy()
    reading = replace(whole.readings["attribution"], succeeded_at=NOW - seconds, why="nvmap: permission denied")
    return replace(whole, readings={**whole.readings, "attribution": reading})


def standalone() -> Shown:
    """Without a cluster."""
    return shown(planned(orin((), {}, cluster=False, system=1200 * MIB), 2), cluster=None)


def unreachable() -> Shown:
    """With a cluster that was last heard of two minutes ago."""
    whole = healthy()
    assert whole.cluster is not None
    lost = replace(whole.cluster, fresh_at=NOW - 125, succeeded_at=NOW - 120, error="connection refused")
    return replace(whole, cluster=lost)


def without_gpu() -> Shown:
    """An ordinary machine."""
    files = card_files(pci_listed=True, pci_displays=0, proc_driver=None, proc_gpus=0)
    pods = (GATEWAY, DNS)
    held = {one.name: USE[one.name] for one in pods}
    return shown(planned(Scene(files=files, at=NOW, pods=pods, held=held), 4, 2))


TRAINER = pod("finetune-2", 12 * GIB, 4 * GIB, namespace="lab")
CARD = 20475 * MIB
CARD_RESERVED = 355 * MIB


def mixed() -> Shown:
    """A board with a GPU of its own and a card. The key of a board's only memory is the card's here."""
    on_board = pod(LLM.name, 2 * GIB, 3 * GIB, IGPU_MEMORY, namespace="shop")
    rows = ((20_001, 9300 * MIB), (20_002, 400 * MIB))
    used = sum(amount for _, amount in rows)
    memory = NvmlMemory(code=0, total=CARD, reserved=CARD_RESERVED, used=used, free=CARD - CARD_RESERVED - used)
    owner = CgroupOwner(TRAINER.cgroup_uid, "main-id")
    scene = orin(
        (on_board, TRAINER),
        {on_board.name: USE[LLM.name], TRAINER.name: Held(host=820 * MIB)},
        files=orin_files(model="NVIDIA IGX Orin Development Kit", pci_displays=1),
        meminfo=meminfo(62 * GIB, 48 * GIB),
        nvml=nvml(igpu(), card(name="NVIDIA RTX 4000 SFF Ada", memory_v2=memory, compute=processes(*rows))),
        extra=(
            (Process(pid=20_001, start_ticks=7, name="python3", owner=owner), 0),
            (Process(pid=20_002, start_ticks=8, name="Xorg"), 0),
        ),
    )
    return shown(planned(scene, 4, 2))


# --- what is beside the sample --------------------------------------------------------


def with_history(whole: Shown, at: Callable[[float], Scene], points: int = 180) -> Shown:
    """``whole`` with history and peaks: ``at`` gives the scene of each step before it, by its age in seconds."""
    trail, run, most = Trail(), Run(outcome=None), Peaks()
    for back in range(points - 1, -1, -1):
        age = float(back * STEP)
        second = NOW - age
        plan = run.step(replace(at(age), at=second))
        trail.take(shown(plan, second), second)
        most = fold(most, plan, second, WALL + second - NOW, 10.0)
    return replace(whole, trail=trail.points, peaks=most)


def wave(age: float, size: float, period: float, phase: float = 0.0) -> int:
    """A figure that moves as real ones do, in bytes."""
    return int(size * MIB * (math.sin(age / period + phase) + 0.4 * math.sin(2.7 * age / period + phase)))


@dataclass(frozen=True)
class Incident:
    """An eviction as the journal has it."""

    seconds_ago: float
    name: str
    reason: str

    def lines(self) -> tuple[bytes, ...]:
        when = {"wall_plausible": True, "boot_id": None, "seconds": 5000.0, "format": 1, "id": f"inc-{self.name}"}
        decision: dict[str, Any] = {
            **when,
            "line": "decision",
            "wall": stamp(WALL - self.seconds_ago),
            "node": NODE,
            "kind": "eviction",
            "mode": "enforce",
            "pod": {"namespace": "lab", "name": self.name, "uid": "uid-gone", "owner": None},
            "breach": "gpu",
            "resource": "edgeagent.dev/gpu-memory",
            "used_bytes": 900 * MIB,
            "budget_bytes": 512 * MIB,
            "excess_bytes": 388 * MIB,
            "over_since": -15.0,
            "place": 1,
            "places": 1,
            "reason": self.reason,
            "grace_seconds": 30,
            "pids": [],
            "more_pids": 0,
            "pods": [],
            "more_pods": 0,
            "before": [],
            "left_out": 0,
        }
        outcome = {
            **when,
            "line": "outcome",
            "wall": stamp(WALL - self.seconds_ago + 3),
            "t": 3.0,
            "ended": "back",
            "attempts": 1,
            "outcomes": [{"t": 0.1, "outcome": "accepted", "message": ""}],
            "after": [],
        }
        return tuple(json.dumps(line).encode() for line in (decision, outcome))


VITALS = Vitals(
    at=NOW,
    power_mode="MAXN_SUPER",
    temperatures=(("cpu-thermal", 54.2), ("gpu-thermal", 57.8)),
    throttled=False,
    fan_ratio=0.42,
    busy={"tegra": 0.71},
)


def neighbour(one: PodFacts, **figures: Any) -> Neighbour:
    """How a pod fares beside the others; what is not given is not known."""
    return Neighbour(at=NOW, namespace=one.namespace, name=one.name, uid=one.uid, **figures)
