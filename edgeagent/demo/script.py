"""The story, step by step: what board, kubelet and operator do, and waiting for what the others do about it.

It speaks to an API server and changes the files of a board, and knows neither the agent nor
which API server and scheduler are behind the address.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, Protocol

from edgeagent import quantity
from edgeagent.demo.orin import KIB, Board, Held, Model
from edgeagent.demo.stage import Cluster, StepError, until
from edgeagent.facts import GPU_MEMORY
from edgeagent.quantity import MIB, human, mib

MEMORY = "7802736Ki"
"""MemTotal of the board, which is what its kubelet reports as capacity and, under K3s, as allocatable."""
MACHINE_ID = "0d5f3c7a9b1e4826a4c1d7e05b3f9628"
SELECTOR = {"ai-capable": "true"}
GPU_REQUEST = "2Gi"
# The whole-board figure: 2Gi for the GPU and 384Mi beside it. Three of these are 7296Mi, so that by the memory that
# Kubernetes knows of all three pods would fit into the board's 7619Mi.
MEMORY_REQUEST = "2432Mi"
HOST_PART = 384 * MIB

_PATIENCE = 30.0
"""Seconds that a step may take longer than the clock of the story says."""
_STEPS = 80
"""Changes of the files while a model loads or grows: memory is taken bit by bit, as a real loader takes it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A model in the story. Amounts are bytes once it has loaded."""

    name: str
    command: str
    pid: int
    loaded: Held


DETECTOR = Part("detector", "python3", 4211, Held(1300 * MIB, 180 * MIB))
CHAT = Part("chat", "llama-server", 4388, Held(1700 * MIB, 220 * MIB))
SPEECH = Part("speech", "whisper-server", 5127, Held(1100 * MIB, 160 * MIB))
OUTGROWN = 2350 * MIB
"""GPU bytes of the chat model in the end, beyond its 2 GiB."""


class Audience(Protocol):
    """To whom the story is told."""

    def say(self, text: str) -> None:
        """What happens."""

    def quote(self, text: str) -> None:
        """What the API server has been told, in those words."""

    def picture(self) -> Awaitable[None]:
        """Show who holds what now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where the story takes place. ``speed``: how many times as fast as the clock."""

    cluster: Cluster
    board: Board
    audience: Audience
    node: str
    speed: float
    grace: float
    """Seconds for which a pod has to be over its budget, of the story's time."""
    models: dict[str, Model] = field(default_factory=dict)

    async def pause(self, seconds: float) -> None:
        """Time passes."""
        await asyncio.sleep(seconds / self.speed)

    def limit(self, seconds: float) -> float:
        """How long to wait for something that should take ``seconds`` of the story's time."""
        return seconds / self.speed + _PATIENCE


async def register(scene: Scene) -> None:
    """What comes before the story: a node without a word about its GPU.

    Raises:
        ClusterError: the API server did not answer, or there is such a node already.
    """
    await scene.cluster.register(scene.node, memory=MEMORY, machine_id=MACHINE_ID)
    total = human(quantity.parse(MEMORY))
    scene.audience.say(f"K3s registers the node {scene.node}: {total} of memory, and not a word about its GPU.")


async def play(scene: Scene) -> None:
    """The whole story.

    Raises:
        StepError: something that should have happened did not, in time.
        ClusterError: the API server did not answer, or refused.
    """
    await board_is_published(scene)
    await two_models_fit(scene)
    await third_waits(scene)
    await one_outgrows_its_budget(scene)
    await it_is_evicted(scene)
    await third_runs(scene)


async def board_is_published(scene: Scene) -> None:
    """The agent finds the GPU, and says on the node how much memory it can have."""
    capacity = await until(f"{GPU_MEMORY} in the node's capacity", lambda: _published(scene), scene.limit(5))
    scene.audience.say(
        f"The agent has looked at the board and published {GPU_MEMORY}: {mib(capacity)}, all memory but "
        "what the system, K3s, CMA and a safety margin need, and the label ai-capable=true."
    )
    await scene.audience.picture()
    await scene.pause(2.0)


async def two_models_fit(scene: Scene) -> None:
    """Two pods that find their place, and load."""
    before = await _capacity(scene)
    for part in (DETECTOR, CHAT):
        await _create(scene, part)
    scene.audience.say(
        f"Two models come, {DETECTOR.name} and {CHAT.name}. Each asks for {GPU_REQUEST} of GPU memory and "
        f"{MEMORY_REQUEST} of the board in all. The scheduler finds a place for both, and they load."
    )
    for part in (DETECTOR, CHAT):
        await _start(scene, part)
        await _grow(scene, part, Held(0, 0), part.loaded, seconds=5.0)
    await _shrunk(scene, before - 2 * HOST_PART)
    scene.audience.say(
        "What they need beside the GPU comes out of the same chips, "
        f"so the agent now offers {mib(2 * HOST_PART)} less: {mib(before - 2 * HOST_PART)}."
    )
    await scene.audience.picture()
    await scene.pause(2.0)


async def third_waits(scene: Scene) -> None:
    """A pod that does not fit beside the two."""
    await _create(scene, SPEECH)
    scene.audience.say(
        f"A third one, {SPEECH.name}, asks for as much. "
        "By the memory that Kubernetes itself counts it would be started, too."
    )
    message = await until(f"the scheduler says why {SPEECH.name} waits", lambda: _unschedulable(scene), scene.limit(5))
    scene.audience.quote(f"scheduler: {message.partition(' preemption:')[0]}")
    await scene.pause(4.0)


async def one_outgrows_its_budget(scene: Scene) -> None:
    """A pod takes more than it asked for, and is warned."""
    scene.audience.say(f"{CHAT.name} has a long conversation: its cache outgrows the {GPU_REQUEST} that it asked for.")
    await _grow(scene, CHAT, CHAT.loaded, CHAT.loaded._replace(gpu=OUTGROWN), seconds=6.0)
    await _quote_event(scene, "MemoryBudgetExceeded", scene.limit(5))
    await scene.audience.picture()


async def it_is_evicted(scene: Scene) -> None:
    """It does not shrink, so it goes; its neighbour stays."""
    uid = scene.models[CHAT.name].pod_uid
    await until(f"the eviction of {CHAT.name}", lambda: _terminating(scene, uid), scene.limit(scene.grace + 10))
    scene.audience.say(f"It did not shrink in time: the agent has evicted {CHAT.name}, and nobody else.")
    await _quote_event(scene, "MemoryBudgetEvicted", scene.limit(5))
    await scene.pause(3.0)
    await asyncio.to_thread(scene.board.end, scene.models[CHAT.name])
    await scene.cluster.play_end(CHAT.name, uid)
    await _unharmed(scene)
    scene.audience.say(f"Its process has ended and the memory is back. {DETECTOR.name} never noticed.")


async def third_runs(scene: Scene) -> None:
    """The place that has become free is taken by the pod that waited for it."""
    await _start(scene, SPEECH)
    scene.audience.say(f"The scheduler has found room for {SPEECH.name}, which loads now.")
    await _grow(scene, SPEECH, Held(0, 0), SPEECH.loaded, seconds=5.0)
    await _unharmed(scene)
    await scene.audience.picture()


# --- what the board and the kubelet do ---


async def _create(scene: Scene, part: Part) -> None:
    await scene.cluster.run(part.name, memory=MEMORY_REQUEST, gpu_memory=GPU_REQUEST, selector=SELECTOR)


async def _start(scene: Scene, part: Part) -> None:
    """Wait for the scheduler, then play the kubelet: the container runs."""
    pod = await until(f"a node for {part.name}", lambda: _bound(scene, part), scene.limit(10))
    model = Model(pod["metadata"]["uid"], uuid.uuid4().hex * 2, part.pid, part.command)
    scene.models[part.name] = model
    await asyncio.to_thread(scene.board.start, model)
    await scene.cluster.play_start(part.name, model.container_id)


async def _grow(scene: Scene, part: Part, before: Held, after: Held, *, seconds: float) -> None:
    model = scene.models[part.name]
    for step in range(1, _STEPS + 1):
        gpu, host = (one + (two - one) * step // _STEPS // KIB * KIB for one, two in zip(before, after, strict=True))
        await asyncio.to_thread(scene.board.hold, model, Held(gpu, host))
        await scene.pause(seconds / _STEPS)


# --- what the others do ---


async def _capacity(scene: Scene) -> int:
    node = await scene.cluster.node(scene.node)
    return quantity.parse(node["status"]["allocatable"].get(GPU_MEMORY, "0"))


async def _published(scene: Scene) -> int | None:
    node = await scene.cluster.node(scene.node)
    labelled = node["metadata"].get("labels", {}).items() >= SELECTOR.items()
    return await _capacity(scene) or None if labelled and not node.get("spec", {}).get("taints") else None


async def _shrunk(scene: Scene, capacity: int) -> None:
    async def look() -> bool | None:
        return await _capacity(scene) == capacity or None

    await until(f"{GPU_MEMORY} of {mib(capacity)} in the node's capacity", look, scene.limit(10))


async def _bound(scene: Scene, part: Part) -> dict[str, Any] | None:
    pod = await scene.cluster.pod(part.name)
    return pod if pod is not None and pod["spec"].get("nodeName") == scene.node else None


async def _unschedulable(scene: Scene) -> str | None:
    pod = await scene.cluster.pod(SPEECH.name)
    for condition in pod["status"].get("conditions", []) if pod else []:
        if condition["type"] == "PodScheduled" and f"Insufficient {GPU_MEMORY}" in condition.get("message", ""):
            return str(condition["message"])
    return None


async def _terminating(scene: Scene, uid: str) -> bool | None:
    pod = await scene.cluster.pod(CHAT.name)
    if pod is None or pod["metadata"]["uid"] != uid:
        raise StepError(f"{CHAT.name} is gone before anybody evicted it")
    return "deletionTimestamp" in pod["metadata"] or None


async def _quote_event(scene: Scene, reason: str, seconds: float) -> None:
    uid = scene.models[CHAT.name].pod_uid
    note = await until(f"the event {reason} of {CHAT.name}", lambda: scene.cluster.note(uid, reason), seconds)
    scene.audience.quote(f"event {reason}: {note}")


async def _unharmed(scene: Scene) -> None:
    """The neighbour is the pod that it was, and nobody asks it to go."""
    pod = await scene.cluster.pod(DETECTOR.name)
    same = pod is not None and pod["metadata"]["uid"] == scene.models[DETECTOR.name].pod_uid
    if pod is None or not same or "deletionTimestamp" in pod["metadata"] or pod["status"]["phase"] != "Running":
        raise StepError(f"{DETECTOR.name}, which did nothing wrong, does not run any more")
