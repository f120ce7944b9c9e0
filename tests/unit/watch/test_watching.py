"""The loop that watches: what it tells, when it looks, and that it holds up nobody."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from edgeagent.facts import CgroupOwner, HostFacts, PodFacts, Process
from edgeagent.facts.neighbours import DeviceActivity, Neighbour
from edgeagent.host.cgroups import PodCgroups
from edgeagent.host.files import Entry
from edgeagent.watch import jtop, watching
from edgeagent.watch.aside import Aside
from edgeagent.watch.health import Jtop
from edgeagent.watch.watching import JTOP_EVERY, JTOP_KEPT, View, Watch
from tests.unit import factories
from tests.unit.host.test_cgroups import SLICE, V2, C, U, v2
from tests.unit.host.test_podcounters import pressure, stat_v2
from tests.unit.host.test_thermal import ORIN, zone
from tests.unit.host.trees import FaultyFiles
from tests.unit.watch.making import Clock, host, shows

SCOPE = f"{SLICE}/cri-containerd-{C}.scope"


class Driver:
    """Says what it is told to."""

    says: tuple[DeviceActivity, ...] = ()
    error: Exception | None = None

    async def activity(self) -> tuple[DeviceActivity, ...]:
        if self.error:
            raise self.error
        return self.says


@dataclass
class Scene:
    """A board with one pod, and what watches it."""

    entries: dict[str, Entry] = field(default_factory=dict)
    pods: tuple[PodFacts, ...] | None = (factories.pod("a", uid=U),)
    ask_jtop: bool = False
    calm: bool = True
    host: HostFacts = field(default_factory=host)

    def __post_init__(self) -> None:
        self.clock, self.driver = Clock(), Driver()
        self.files = FaultyFiles({**V2, **v2(SLICE, 1000), **v2(SCOPE, 900), **self.entries})
        self.watch = Watch(self.files, self.driver, self._view, clock=self.clock)

    def _view(self) -> View | None:
        found = PodCgroups(self.files, self.clock).sample((U,))
        self.host = host(nvml=self.host.nvml.value or factories.ABSENT, processes=self.host.processes, pods=found)
        return View(self.host, self.pods, self.ask_jtop) if self.calm else None

    def count(self, periods: int, throttled: int, *, cpu: int = 0) -> None:
        """What the kernel has counted by now; ``cpu`` in microseconds of waiting."""
        stat = stat_v2(periods, throttled, throttled * 10_000)
        self.files.change({f"{SLICE}/cpu.stat": stat, f"{SLICE}/cpu.pressure": pressure(cpu)})

    async def look(self, seconds: float = 5.0) -> Neighbour:
        await self.watch.look()
        self.clock.now += seconds
        return self.watch.neighbours[U]


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Aside]]:
    """The threads that were asked for; they end with the test."""
    found: list[Aside] = []

    def noted(name: str) -> Aside:
        found.append(Aside(name))
        return found[-1]

    monkeypatch.setattr(watching, "Aside", noted)
    yield found
    for one in found:
        one.close()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what was begun beside the looks."""
    found: list[str] = []
    create = asyncio.create_task

    def noted(work: Any, *, name: str | None = None) -> asyncio.Task[Any]:
        found.append(name or "")
        return create(work, name=name)

    monkeypatch.setattr(watching.asyncio, "create_task", noted)  # type: ignore[attr-defined]
    return found


async def test_the_first_look_has_nothing_to_compare_and_the_second_has() -> None:
    scene = Scene()
    scene.count(1000, 100, cpu=0)
    first = await scene.look()
    assert first == Neighbour(at=1000.0, namespace="apps", name="a", uid=U, stalled={"cpu": 0.0})
    scene.count(1050, 120, cpu=1_250_000)
    second = await scene.look()
    assert second.at == 1005.0
    assert second.cpu_throttled_ratio == 0.4  # 20 of 50 periods
    assert second.cpu_stall_ratio == 0.25  # 1.25 of 5 s
    assert (second.memory_stall_ratio, second.io_stall_ratio) == (None, None)  # no such files
    assert second.gpu_utilization_ratio is None
    assert second.stalled == {"cpu": 1.25}


async def test_counters_only_rise_whatever_a_restart_does_to_those_of_the_kernel() -> None:
    scene = Scene()
    told = []
    for periods, throttled in ((1000, 100), (1050, 120), (10, 5), (30, 15)):  # + 50 / 20, made anew, + 20 / 10
        scene.count(periods, throttled)
        told.append((await scene.look()).counted)
    assert [(one.periods, one.throttled, round(one.throttled_seconds, 6)) if one else None for one in told] == [
        None,
        (50, 20, 0.2),
        (50, 20, 0.2),
        (70, 30, 0.3),
    ]


async def test_a_pod_without_a_quota_has_no_counters_of_one() -> None:
    scene = Scene()
    scene.count(0, 0)
    await scene.look()
    found = await scene.look()
    assert (found.cpu_throttled_ratio, found.counted) == (None, None)


async def test_how_busy_a_pod_keeps_the_gpu() -> None:
    card = factories.card(uuid="GPU-1", compute=factories.processes((7, 0)))
    process = Process(pid=7, start_ticks=1, name="x", owner=CgroupOwner(U, C))
    scene = Scene(host=host(nvml=factories.nvml(card), processes={7: process}))
    scene.driver.says = (DeviceActivity(uuid="GPU-1", processes={7: 0.5}),)
    assert (await scene.look()).gpu_utilization_ratio == 0.5


async def test_while_the_board_is_in_danger_nothing_is_read() -> None:
    scene = Scene()
    await scene.look()
    before = scene.files.calls.copy()
    scene.calm = False
    scene._view()  # noqa: SLF001 (what the agent itself reads)
    own = scene.files.calls - before
    await scene.watch.look()
    assert scene.files.calls - before - own == own


async def test_the_board_is_looked_at_too() -> None:
    scene = Scene(entries=dict(ORIN))
    await scene.look()
    vitals = scene.watch.vitals
    assert vitals is not None
    assert (vitals.at, vitals.power_mode, vitals.throttled) == (1000.0, "MAXN_SUPER", True)
    assert "over-current-oc3" not in vitals.throttle_reasons
    scene.files.change({"sys/class/hwmon/hwmon3/oc3_event_cnt": b"38\n"})  # 37 before
    await scene.look()
    assert scene.watch.vitals is not None
    assert "over-current-oc3" in scene.watch.vitals.throttle_reasons


async def test_without_a_cluster_the_board_is_watched_all_the_same(begun: list[str]) -> None:
    scene = Scene(entries=zone(0, "cpu-thermal", "40000"), pods=None)
    await scene.watch.look()
    assert scene.watch.neighbours == {}
    assert scene.watch.vitals is not None
    assert scene.watch.vitals.temperatures == (("cpu-thermal", 40.0),)
    assert begun == []


async def test_a_pod_that_is_gone_is_not_told_of_any_more() -> None:
    scene = Scene()
    await scene.look()
    scene.pods = ()
    await scene.watch.look()
    assert scene.watch.neighbours == {}


async def test_before_and_after_a_newcomer() -> None:
    scene = Scene()
    for periods, throttled in ((100, 10), (120, 15), (140, 20)):  # 5 of 20 periods each
        scene.count(periods, throttled)
        await scene.look(30.0)
    assert scene.pods is not None
    scene.pods = (*scene.pods, factories.pod("new"))
    scene.count(160, 35)  # 15 of 20
    found = (await scene.look(30.0)).since_newcomer
    assert found is not None
    assert found.pod == "apps/new"
    assert (found.before.cpu_throttled_ratio, found.after.cpu_throttled_ratio) == (0.25, 0.75)


async def test_latencies_are_scraped_beside_the_looks_and_once_at_a_time(begun: list[str]) -> None:
    scene = Scene(pods=(shows("a", uid=U),))
    hold = asyncio.Event()

    class Pages:
        async def get(self, _: str) -> bytes:
            await hold.wait()
            return b"x"

    scene.watch._latencies._pages = Pages()  # noqa: SLF001 (in the place of the network)
    for _ in range(4):
        await scene.look()
    assert begun == ["latencies"]
    hold.set()
    while not scene.watch._beside["latencies"].done():  # noqa: SLF001, ASYNC110
        await asyncio.sleep(0.001)
    assert (await scene.look()).latency_why == "no histogram latency_seconds"
    assert begun == ["latencies"] * 2
    scene.watch._beside["latencies"].cancel()  # noqa: SLF001


# --- what goes wrong ---------------------------------------------------------------------


class Blocked(FaultyFiles):
    """A sensor that does not answer until it is told to."""

    def __init__(self) -> None:
        super().__init__({})
        self.go = threading.Event()
        self.reading = 0

    def names(self, path: str) -> tuple[str, ...]:
        self.reading += 1
        self.go.wait()
        return super().names(path)


async def test_a_sensor_that_hangs_holds_up_nothing_but_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "PATIENCE", 0.01)
    files = Blocked()
    watch = Watch(files, Driver(), lambda: View(host(), ()), clock=Clock())
    for _ in range(3):
        with pytest.raises(asyncio.TimeoutError):
            await watch.look()
    assert files.reading == 1  # what hangs is not begun again
    files.go.set()
    monkeypatch.setattr(watching, "PATIENCE", 60.0)
    while watch.vitals is None:
        try:
            await watch.look()
        except asyncio.TimeoutError:  # the late answer is still under way
            await asyncio.sleep(0.001)
    assert watch.vitals is not None


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "ROUND", 0.001)
    monkeypatch.setattr(watching, "FIRST", 0.001)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


@pytest.mark.usefixtures("quick")
async def test_a_fault_is_told_once_and_the_loop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.driver.error = ValueError("what nobody thought of")
    running = asyncio.create_task(scene.watch.run())
    await until(lambda: scene.files.calls["read", f"{SLICE}/cpu.stat"] > 5)
    scene.driver.error = None
    await until(lambda: U in scene.watch.neighbours)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(caplog.records) == 1
    assert "nothing else did" in caplog.text


@pytest.mark.usefixtures("quick")
async def test_it_ends_at_once_whatever_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Blocked()
    watch = Watch(files, Driver(), lambda: View(host(), ()), clock=Clock())
    running = asyncio.create_task(watch.run())
    await until(lambda: files.reading > 0)
    running.cancel()
    await asyncio.wait_for(asyncio.gather(running, return_exceptions=True), 5)
    files.go.set()
    monkeypatch.undo()


# --- jetson-stats ------------------------------------------------------------------------


async def test_jetson_stats_is_asked_only_if_told_to_and_every_thirty_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def ask() -> Jtop:
        nonlocal asked
        asked += 1
        return Jtop(power_mode="25W")

    monkeypatch.setattr(jtop, "ask", ask)
    scene = Scene()
    await scene.look()
    assert asked == 0
    scene.ask_jtop = True
    for _ in range(7):  # 30 s
        await scene.look()
        await asyncio.gather(*scene.watch._beside.values())  # noqa: SLF001
    assert asked == 2
    assert JTOP_EVERY == 30.0
    await scene.look()
    assert scene.watch.vitals is not None
    assert scene.watch.vitals.power_mode == "25W"
    # What it said is kept for a while, and not for ever.
    scene.ask_jtop = False
    scene.clock.now += JTOP_KEPT
    await scene.look()
    assert scene.watch.vitals.power_mode is None


async def test_a_missing_jetson_stats_is_one_quiet_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def ask() -> Jtop:
        raise jtop.JtopError("jetson-stats is not installed")

    monkeypatch.setattr(jtop, "ask", ask)
    caplog.set_level(logging.INFO)
    scene = Scene(ask_jtop=True)
    for _ in range(4):
        await scene.look(JTOP_EVERY)
        await asyncio.gather(*scene.watch._beside.values())  # noqa: SLF001
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "jetson-stats is not used: jetson-stats is not installed")
    ]
    assert scene.watch.vitals is not None


async def test_the_first_look_does_not_wait_for_a_whole_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "FIRST", 0.001)
    scene = Scene(calm=False)
    running = asyncio.create_task(scene.watch.run())
    await asyncio.sleep(0.01)
    assert scene.watch.vitals is None
    scene.calm = True
    await asyncio.wait_for(until(lambda: scene.watch.vitals is not None), 5)  # a round is 10 s
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
