"""A whole agent in virtual time: its loops, its client and its readers are the product's, the hours pass in seconds.

What is played: the clock of the event loop, threads (their work is done in the loop, in no time), the network below
the client, the API server behind it, and NVML. Board files are real files, so descriptors are real too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import selectors
import ssl
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar, cast
from unittest import mock

import aiohttp

from edgeagent.agent import Agent, Options
from edgeagent.cluster.client import Client
from edgeagent.facts import GPU_MEMORY, Nvml
from edgeagent.host import nvml_worker
from edgeagent.host.power import Power
from tests.cluster.recorded import Board, recorded_board
from tests.faults.conftest import write_kubeconfig
from tests.unit.factories import MIB, WALL, config

T = TypeVar("T")

NODE = "edge-1"
LATENCY = 0.005
"""Seconds that an answer takes."""
BOOKMARK = 60.0
KEPT_CHANGES = 200
FREE = 5000 * MIB
"""What is usable while no pod holds any GPU memory."""


# --- time ----------------------------------------------------------------------------


WORK = 1e-6
"""Seconds that each turn of the loop takes: where no time passes at all, rounding can keep a due thing undone."""


class _Selector(selectors.DefaultSelector):
    """Waits for nothing: the time that it is told to wait has passed at once."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        assert ready or timeout is not None, "nothing will ever happen again"
        self.loop.now += WORK if ready or timeout is None else max(WORK, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Passes the time between two things that happen in no time."""

    def __init__(self) -> None:
        self.now = 1000.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """The work of a thread, done here and now."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 (raised where it is awaited)
            done.set_exception(error)
        return done


class Driver(nvml_worker.NvmlWorker):
    """NVML without a thread. While ``hangs`` is set no call comes back; it does once that is cleared."""

    hangs = False
    _late: tuple[nvml_worker._Call, Power] | None = None

    def _ask(self, power: Power) -> nvml_worker._Call:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Nvml] = loop.create_future()
        call = nvml_worker._Call(self._clock(), answer)  # noqa: SLF001 (the class that this one plays)
        loop.call_later(0.001, self._answer, call, power)
        return call

    def _answer(self, call: nvml_worker._Call, power: Power) -> None:
        if type(self).hangs:
            asyncio.get_running_loop().call_later(1.0, self._answer, call, power)
        elif not call.answer.done():
            try:
                call.answer.set_result(self._source.sample(power))
            except Exception as error:  # noqa: BLE001 (as the thread has it)
                call.answer.set_exception(error)


# --- the API server ------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """One request as it was sent."""

    at: float
    method: str
    path: str
    query: Mapping[str, str]
    body: Any

    @property
    def watch(self) -> bool:
        return "watch" in self.query

    @property
    def eviction(self) -> bool:
        return self.path.endswith("/eviction")


Fault = Callable[["Api", Call], Awaitable["Response | None"]]
"""What happens to a call instead of its answer; None: it is answered as usual."""


class Response:
    """As much of aiohttp's as the client uses."""

    def __init__(self, status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.headers = dict(headers or {})
        self._body = body if isinstance(body, bytes) else json.dumps(body if body is not None else {}).encode()

    async def read(self) -> bytes:
        return self._body

    def close(self) -> None:
        """Nothing is open."""

    async def __aenter__(self) -> Response:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Watch(Response):
    """An open stream of events about one kind of objects."""

    def __init__(self, api: Api, kind: str, limits: aiohttp.ClientTimeout) -> None:
        super().__init__(200)
        self.kind = kind
        self.content = self
        self._api = api
        self._silence = limits.sock_read
        self._ends = asyncio.get_running_loop().time() + (limits.total or 1e9)
        self._chunks: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    def send(self, event: Any) -> None:
        """One line, or bytes as they are, or the end of the connection; empty bytes: the orderly end."""
        raw = isinstance(event, bytes | Exception)
        self._chunks.put_nowait(event if raw else json.dumps(event).encode() + b"\n")

    async def readany(self) -> bytes:
        left = self._ends - asyncio.get_running_loop().time()
        chunk = await asyncio.wait_for(self._chunks.get(), max(0.0, min(self._silence or left, left)))
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    def close(self) -> None:
        self._api.watches.discard(self)


class Api:
    """One node, its pods, and whatever goes wrong: ``fault`` is asked about every call."""

    def __init__(self) -> None:
        self.calls: deque[Call] = deque(maxlen=2000)
        self.answers: Counter[tuple[str, int]] = Counter()
        self.fault: Fault | None = None
        self.accepted: list[tuple[float, str]] = []
        """(second, pod uid) of every eviction that was carried out."""
        self.judge: Callable[[dict[str, Any]], None] = lambda _pod: None
        """Told of every pod that is about to be evicted."""
        self.events: dict[str, dict[str, Any]] = {}
        """By name, as they were created."""
        self.watches: set[Watch] = set()
        self.bookmarks = True
        self.deletes: Callable[[dict[str, Any]], None] = lambda _pod: None
        """Told of every pod that has begun to terminate, as a kubelet is."""
        self.pods: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.node: dict[str, Any] = {
            "kind": "Node",
            "metadata": {"name": NODE, "uid": "node-uid", "resourceVersion": "100", "labels": {}, "annotations": {}},
            "spec": {},
            "status": {"capacity": {"cpu": "6"}, "allocatable": {"cpu": "6"}, "conditions": []},
        }
        self._changes: deque[tuple[int, str, dict[str, Any]]] = deque(maxlen=KEPT_CHANGES)

    # --- what others do

    def put(self, pod: dict[str, Any]) -> None:
        """Create or change a pod."""
        name = pod["metadata"]["name"]
        kind = "MODIFIED" if name in self.pods else "ADDED"
        self.pods[name] = pod
        self._changed("pods", kind, pod)

    def remove(self, name: str) -> None:
        """The object is gone."""
        pod = self.pods.pop(name, None)
        if pod is not None:
            self._changed("pods", "DELETED", pod)

    def patch_node(self, body: Mapping[str, Any]) -> None:
        """As a merge patch, conditions by their type."""
        conditions = {one["type"]: one for one in self.node["status"]["conditions"]}
        told = body.get("status", {}).get("conditions", [])
        for one in told:
            conditions[one["type"]] = {**conditions.get(one["type"], {}), **one}
        self.node = _merged(self.node, body)
        self.node["status"]["conditions"] = list(conditions.values())
        self._changed("nodes", "MODIFIED", self.node)

    def break_watches(self, how: Any) -> None:
        """Every open stream ends so: bytes, an event or an exception."""
        for watch in list(self.watches):
            watch.send(how)
            if isinstance(how, bytes) and how:
                watch.send(b"")

    def _changed(self, plural: str, kind: str, item: dict[str, Any]) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        copy = json.loads(json.dumps(item))
        self._changes.append((self.version, plural, {"type": kind, "object": copy}))
        for watch in self.watches:
            if watch.kind == plural:
                watch.send({"type": kind, "object": copy})

    # --- what the client asks

    async def request(self, method: str, url: str, *, params: Any, data: bytes | None, timeout: Any, **_: Any) -> Any:
        """As ``aiohttp.ClientSession.request``."""
        path = re.sub(r"^https?://[^/]*", "", url)
        body = json.loads(data) if data else None
        call = Call(asyncio.get_running_loop().time(), method, path, dict(params), body)
        self.calls.append(call)
        limit = timeout.connect if call.watch else timeout.total
        answer = await asyncio.wait_for(self._answered(call, timeout), limit)
        self.answers[method, answer.status] += 1
        return answer

    async def close(self) -> None:
        """As the session's."""

    async def _answered(self, call: Call, limits: aiohttp.ClientTimeout) -> Response:
        await asyncio.sleep(LATENCY)
        if self.fault is not None:
            odd = await self.fault(self, call)
            if odd is not None:
                return odd
        return self.answer(call, limits)

    def answer(self, call: Call, limits: aiohttp.ClientTimeout | None = None) -> Response:
        """As the server does when it is well."""
        if call.method != "GET":
            return self._written(call)
        if call.watch:
            assert limits is not None
            return self._watch(call, limits)
        if call.path in ("/api/v1/nodes", "/api/v1/pods"):
            items = [self.node] if call.path.endswith("nodes") else list(self.pods.values())
            return Response(200, {"metadata": {"resourceVersion": str(self.version)}, "items": items})
        name = call.path.rpartition("/")[2]
        found = self.node if name == NODE else self.pods.get(name)
        return Response(200, found) if found else refusal(404, "NotFound")

    def _written(self, call: Call) -> Response:
        if call.eviction:
            return self._evict(call)
        if call.method == "PATCH" and "/nodes/" in call.path:
            self.patch_node(call.body)
            return Response(200, self.node)
        if call.method == "POST":
            name = call.body["metadata"]["name"]
            if name in self.events:
                return refusal(409, "AlreadyExists")
            self.events[name] = call.body
        if "/events/" in call.path:
            # Validation of events.k8s.io: a series counts two at least.
            if call.body["series"]["count"] < 2:
                return refusal(422, "Invalid")
            found = self.events.get(call.path.rpartition("/")[2])
            return Response(200, found) if found else refusal(404, "NotFound")
        return Response(201, {"metadata": {"name": "event", "resourceVersion": "1"}})

    def _watch(self, call: Call, limits: aiohttp.ClientTimeout) -> Response:
        since, plural = int(call.query["resourceVersion"] or 0), call.path.rpartition("/")[2]
        if self._changes and since < self._changes[0][0] - 1 and self.version - since >= KEPT_CHANGES:
            return refusal(410, "Expired")
        watch = Watch(self, plural, limits)
        for version, kind, event in self._changes:
            if version > since and kind == plural:
                watch.send(event)
        self.watches.add(watch)
        asyncio.get_running_loop().call_later(BOOKMARK, self._bookmark, watch)
        return watch

    def _bookmark(self, watch: Watch) -> None:
        if watch in self.watches:
            if self.bookmarks:
                watch.send({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}})
            asyncio.get_running_loop().call_later(BOOKMARK, self._bookmark, watch)

    def _evict(self, call: Call) -> Response:
        pod = self.pods.get(call.path.split("/")[-2])
        if pod is None:
            return refusal(404, "NotFound")
        options = call.body["deleteOptions"]
        if options["preconditions"]["uid"] != pod["metadata"]["uid"]:
            return refusal(409, "Conflict")
        self.judge(pod)
        self.accepted.append((call.at, pod["metadata"]["uid"]))
        if "deletionTimestamp" not in pod["metadata"]:
            pod["metadata"]["deletionTimestamp"] = stamp(asyncio.get_running_loop().time())
            pod["metadata"]["deletionGracePeriodSeconds"] = options["gracePeriodSeconds"]
            self.put(pod)
            self.deletes(pod)
        return Response(201, {"kind": "Status", "status": "Success"})


def _merged(old: Any, new: Any) -> Any:
    """A JSON merge patch (RFC 7396)."""
    if not isinstance(new, Mapping):
        return new
    base = dict(old) if isinstance(old, Mapping) else {}
    for key, value in new.items():
        if value is None:
            base.pop(key, None)
        else:
            base[key] = _merged(base.get(key), value)
    return base


def refusal(
    code: int, reason: str = "", message: str = "", *, retry: str = "", causes: tuple[str, ...] = ()
) -> Response:
    """A Status object."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message or reason}
    body["details"] = {"causes": [{"reason": cause} for cause in causes]}
    return Response(code, body, {"Retry-After": retry} if retry else {})


async def refused(_api: Api, _call: Call) -> Response | None:
    """Nobody listens."""
    raise ConnectionRefusedError(111, "Connection refused")


async def black_hole(_api: Api, _call: Call) -> Response | None:
    """No answer ever comes."""
    await asyncio.Event().wait()
    return None


async def wrong_certificate(_api: Api, _call: Call) -> Response | None:
    """Whoever answers has a certificate of somebody else."""
    raise ssl.SSLCertVerificationError(1, "certificate verify failed")


def says(code: int, reason: str = "", **more: Any) -> Fault:
    """Every call is refused so."""

    async def step(_api: Api, _call: Call) -> Response | None:
        return refusal(code, reason, **more)

    return step


def only(matters: Callable[[Call], bool], fault: Fault) -> Fault:
    """``fault`` for the calls that matter."""

    async def step(api: Api, call: Call) -> Response | None:
        return await fault(api, call) if matters(call) else None

    return step


async def cut_after(api: Api, call: Call) -> Response | None:
    """It is carried out, and the answer is lost."""
    if call.watch:
        raise aiohttp.ServerDisconnectedError
    api.answer(call)
    raise aiohttp.ServerDisconnectedError


# --- the board and the agent ---------------------------------------------------------


def stamp(second: float) -> str:
    """Virtual second as the API server writes times."""
    return datetime.fromtimestamp(WALL + second, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Load:
    """One pod and its GPU process."""

    name: str
    uid: str
    pid: int
    budget: int | None
    """MiB."""
    holds: int = 0
    """MiB."""
    over_since: float | None = None
    spared: str = ""
    """Why it must never go."""


@dataclass
class Outpost:
    """Board, API server and agent of one run. ``settings``: the agent's configuration."""

    folder: Path
    settings: str = ""
    api: Api = field(default_factory=Api)
    loads: dict[str, Load] = field(default_factory=dict)
    wall_offset: float = 0.0
    made: int = 0
    lowest: float = float("inf")
    """MiB, the least that was usable lately."""
    agent: Agent | None = None
    cycles: list[float] = field(default_factory=list)
    """When each cycle ended, of all agents."""
    _task: asyncio.Task[None] | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.board = Board.copy(self.folder / "host")
        self._meminfo = (self.board.root / "proc/meminfo").read_text()
        self._kubeconfig = write_kubeconfig(self.folder / "kubeconfig", "http://api.invalid")
        self.api.deletes = self._terminates
        self.show()

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    # --- the board

    @property
    def usable(self) -> int:
        """MiB."""
        return max(0, FREE // MIB - sum(load.holds for load in self.loads.values()))

    def show(self) -> None:
        """Let /proc/meminfo say what is so."""
        text = re.sub(r"(?m)^MemAvailable: .*$", f"MemAvailable: {self.usable * 1024:>10} kB", self._meminfo)
        self.board.write("proc/meminfo", text)

    def pod(self, name: str, budget: int | None, holds: int = 0, **metadata: Any) -> Load:
        """A pod that runs, and its process."""
        self.made += 1
        load = Load(name, f"{self.made:08d}-0000-4000-8000-000000000000", 20_000 + self.made, budget)
        container = f"{self.made:064x}"
        limits = {} if budget is None else {GPU_MEMORY: f"{budget}Mi"}
        self.loads[load.uid] = load
        self.board.process(load.pid, "infer", load.uid, container, start=90_000 + self.made)
        self.hold(load, holds)
        self.api.put(
            {
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "namespace": metadata.pop("namespace", "apps"),
                    "uid": load.uid,
                    "creationTimestamp": stamp(self.now),
                    **metadata,
                },
                "spec": {
                    "nodeName": NODE,
                    "terminationGracePeriodSeconds": 30,
                    "containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}],
                },
                "status": {
                    "phase": "Running",
                    "startTime": stamp(self.now),
                    "containerStatuses": [
                        {
                            "name": "main",
                            "containerID": f"containerd://{container}",
                            "state": {"running": {"startedAt": stamp(self.now)}},
                        }
                    ],
                },
            }
        )
        return load

    def hold(self, load: Load, mib: int) -> None:
        """From now on the pod's process holds so much."""
        load.holds = mib
        over = load.budget is not None and mib * MIB > load.budget * MIB + max(16 * MIB, -(-load.budget * MIB // 200))
        load.over_since = None if not over else self.now if load.over_since is None else load.over_since
        self.board.hold(load.pid, "infer", mib) if mib or load.pid in self.board._held else None  # noqa: SLF001
        self.show()

    def end(self, load: Load) -> None:
        """The process ends, its memory comes back, and the object goes."""
        if self.loads.pop(load.uid, None) is None:
            return
        if load.holds:
            self.board.end(load.pid)
        else:
            self.board.hold(load.pid, "infer", 1)
            self.board.end(load.pid)
        self.show()
        if self.api.pods.get(load.name, {}).get("metadata", {}).get("uid") == load.uid:
            self.api.remove(load.name)

    def _terminates(self, pod: dict[str, Any]) -> None:
        """The kubelet gives the pod its grace; it takes most of it."""
        load = self.loads[pod["metadata"]["uid"]]
        grace = 0.9 * pod["metadata"]["deletionGracePeriodSeconds"]
        asyncio.get_running_loop().call_later(grace, self.end, load)

    # --- the agent

    def start(self) -> Agent:
        """A new process."""
        options = Options(
            kubeconfig=self._kubeconfig,
            host_root=self.board.root,
            nvml_replay=recorded_board() / "nvml.json",
            state_dir=self.folder,
        )
        loop = asyncio.get_running_loop()
        given = config(f"node: {{name: {NODE}}}\n{self.settings}")
        self.agent = Agent(options, given, clock=loop.time, wall=lambda: WALL + loop.time() + self.wall_offset)
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self.agent.run(self._stop, self._shown), name="agent")
        return self.agent

    def _shown(self, _agent: Agent) -> None:
        self.cycles.append(self.now)
        if self._task is not None and self._task.done():
            self._task.result()

    async def stop(self, *, killed: bool = False) -> None:
        """The process ends; ``killed``: without a chance to write anything down."""
        assert self._task is not None
        assert self.agent is not None
        if killed:
            self.agent._options = replace(self.agent._options, state_dir=None)  # noqa: SLF001 (nothing is written)
            self.agent.chronicle._writer = None  # noqa: SLF001
        self._stop.set()
        await self._task
        self.agent._killer._files.close()  # noqa: SLF001 (what the end of a process closes)

    def evictions(self) -> list[str]:
        """Names of the pods for which an eviction was asked, in order."""
        return [call.path.split("/")[-2] for call in self.api.calls if call.eviction]

    async def settle(self, seconds: float = 30.0) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)
        assert self._task is not None
        if self._task.done():
            self._task.result()


@contextlib.contextmanager
def _played(api: Api) -> Iterator[None]:
    async def enter(client: Client) -> Client:
        client._session = cast("aiohttp.ClientSession", api)  # noqa: SLF001 (the seam below which all is played)
        return client

    async def leave(client: Client, *_: object) -> None:
        client._session = None  # noqa: SLF001

    Driver.hangs = False
    with (
        mock.patch.object(Client, "__aenter__", enter),
        mock.patch.object(Client, "__aexit__", leave),
        mock.patch("edgeagent.host.reader.NvmlWorker", Driver),
    ):
        yield


def play(folder: Path, story: Callable[[Outpost], Awaitable[T]], settings: str = "") -> T:
    """What ``story`` gives, told on an outpost in virtual time. No task outlives it."""
    loop = VirtualLoop()

    async def told() -> T:
        outpost = Outpost(folder, settings)
        with _played(outpost.api):
            async with _ending(outpost):
                return await story(outpost)

    try:
        return loop.run_until_complete(told())
    finally:
        left = asyncio.all_tasks(loop)
        loop.close()
        assert not left, f"tasks that nobody ended: {left}"


@contextlib.asynccontextmanager
async def _ending(outpost: Outpost) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if outpost._task is not None and not outpost._task.done():  # noqa: SLF001 (its own module)
            await outpost.stop()
