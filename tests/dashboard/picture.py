"""The picture of the dashboard in the documentation: ``python -m tests.dashboard.picture docs/images/dashboard.png``.

A healthy board with one pod that is over its budget. Where Pillow is installed, the colours are put into a palette,
which makes the file a third as large; nothing else needs it.
"""

from __future__ import annotations

import importlib
import math
import sys
from dataclasses import replace
from pathlib import Path

from edgeagent.facts.neighbours import Effect, Figures, Latency, Neighbour
from edgeagent.plan.types import Event
from edgeagent.serve.shown import Shown
from tests.unit.factories import MIB, Scene

from . import scenes
from .browsing import Browsing, chromium
from .serving import Endpoint

WIDTH, HEIGHT = 1440, 1200


def state() -> Shown:
    """What the picture shows."""
    whole = scenes.with_history(scenes.breach(), _scene)
    published = Event(
        reason="CapacityPublished",
        kind="Node",
        namespace="",
        name=scenes.NODE,
        uid="",
        note="edgeagent.dev/gpu-memory: 4381Mi.",
        at=scenes.NOW - 2840,
    )
    reason = (
        "Evicted: GPU memory 900 MiB exceeds the budget of 512 MiB (edgeagent.dev/gpu-memory), beside 96 MiB of host "
        "memory for 15 s. To run it here, raise edgeagent.dev/gpu-memory to 990Mi or more, or let the model use less."
    )
    return replace(
        whole,
        events=(*whole.events, published),
        incidents=scenes.Incident(1500, "ocr-batch-28734501-k8wz2", reason).lines(),
        vitals=scenes.VITALS,
        neighbours={one.uid: one for one in _neighbours()},
    )


def _neighbours() -> tuple[Neighbour, ...]:
    slower = Effect(
        pod="audio/whisper-6b7f9c5d4-mm2kd",
        seconds=610.0,
        before=Figures(p50_seconds=0.016, p99_seconds=0.034, requests_per_second=30.0),
        after=Figures(p50_seconds=0.018, p99_seconds=0.047, requests_per_second=29.8),
    )
    return (
        scenes.neighbour(
            scenes.LLM,
            cpu_throttled_ratio=0.02,
            latency=Latency(p50_seconds=0.212, p99_seconds=0.94, requests_per_second=3.4),
        ),
        scenes.neighbour(
            scenes.DETECTOR,
            cpu_throttled_ratio=0.11,
            memory_stall_ratio=0.004,
            latency=Latency(p50_seconds=0.018, p99_seconds=0.047, requests_per_second=29.8),
            since_newcomer=slower,
        ),
        scenes.neighbour(scenes.TRACKER, cpu_throttled_ratio=0.0, io_stall_ratio=0.012),
    )


def _scene(age: float) -> Scene:
    """The board so many seconds ago: a model that grows since five minutes, others that come and go a little."""
    grown = 1 / (1 + math.exp((age - 130) / 45))
    held = scenes.with_use(
        llm=int(1490 * MIB + 880 * MIB * grown) + scenes.wave(age, 9, 17),
        detector=790 * MIB + scenes.wave(age, 38, 31, 1.0),
        tracker=(344 if age < 610 else 212) * MIB + scenes.wave(age, 6, 23, 2.0),
        whisper=(655 if age % 240 < 150 else 540) * MIB + scenes.wave(age, 4, 11),
    )
    return scenes.orin(held=held)


def take(target: Path) -> None:
    """Write the picture."""
    with Endpoint(state()) as endpoint, Browsing(chromium()) as browser:
        page = browser.page(width=WIDTH, height=HEIGHT, scheme="dark")
        page.goto(endpoint.url)
        page.wait_for_selector("#pods .chart .line[d*=L]")
        page.screenshot(path=str(target), animations="disabled")
    _lessen(target)


def _lessen(target: Path) -> None:
    try:
        image = importlib.import_module("PIL.Image")
    except ImportError:
        return
    with image.open(target) as picture:
        small = picture.convert("RGB").quantize(200)
    small.save(target, optimize=True)


if __name__ == "__main__":
    take(Path(sys.argv[1]))
