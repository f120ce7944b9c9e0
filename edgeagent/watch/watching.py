"""The loop that watches: every few seconds, beside the cycles that decide; not at all while the board is in danger."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from edgeagent.facts.neighbours import Neighbour, PodCounters
from edgeagent.facts.vitals import BoardReadings, Vitals
from edgeagent.host import podcounters, thermal
from edgeagent.watch import health, jtop
from edgeagent.watch.aside import Aside
from edgeagent.watch.latencies import Latencies
from edgeagent.watch.pods import Look, Pods, runs
from edgeagent.watch.scraping import Scraper

if TYPE_CHECKING:
    from edgeagent.facts import HostFacts, PodFacts
    from edgeagent.facts.neighbours import DeviceActivity
    from edgeagent.host.files import Files

log = logging.getLogger(__name__)

ROUND = 10.0
"""Seconds between two looks: with 110 pods they are some six hundred files."""
FIRST = 1.0
"""Seconds until it is tried again, as long as there was no look yet."""
JTOP_EVERY = 30.0
JTOP_KEPT = 90.0
"""Seconds for which an answer of jetson-stats counts."""
PATIENCE = 2.0
"""Seconds that the files may take."""
_MOST_SAID = 32
"""Different lines of this loop in the log, at most, each of them once."""


Work = Callable[[], Coroutine[Any, Any, None]]


class Driver(Protocol):
    """The driver, in a thread of its own."""

    async def activity(self) -> tuple[DeviceActivity, ...]:
        """See ``NvmlWorker.activity``."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """What the agent knows by now, and what it is told to do."""

    host: HostFacts
    pods: tuple[PodFacts, ...] | None
    """None: they are not known, or there is no cluster."""
    ask_jtop: bool = False


class Watch:
    """Watches pods and board.

    Args:
        files: the host's.
        driver: NVML.
        view: what the agent knows; None: now is not the time to look.
        clock: monotonic seconds.

    Attributes:
        neighbours: how the pods fare, by uid.
        vitals: how the board is; None before the first look.
    """

    def __init__(
        self, files: Files, driver: Driver, view: Callable[[], View | None], *, clock: Callable[[], float]
    ) -> None:
        self.neighbours: Mapping[str, Neighbour] = {}
        self.vitals: Vitals | None = None
        self._files = files
        self._driver = driver
        self._view = view
        self._clock = clock
        self._thread, self._jtop_thread = Aside("watch"), Aside("jetson-stats")
        self._scraper = Scraper()
        self._latencies = Latencies(self._scraper, clock)
        self._pods = Pods(self._latencies.told)
        self._board: BoardReadings | None = None
        """At the last look."""
        self._jtop: tuple[float, health.Jtop] | None = None
        self._asked_at = float("-inf")
        self._beside: dict[str, asyncio.Task[None]] = {}
        """What goes on beside the looks and does not hold them up, by name."""
        self._said: set[str] = set()

    async def run(self) -> None:
        """Watch until cancelled. What goes wrong in here is told of in the log, and stops nothing else."""
        try:
            while True:
                await self._guarded(self.look, "the files about pods and sensors cannot be read in time")
                await asyncio.sleep(ROUND if self.vitals else FIRST)
        finally:
            for task in self._beside.values():
                task.cancel()
            await asyncio.gather(*self._beside.values(), return_exceptions=True)
            await self._scraper.close()
            self._thread.close()
            self._jtop_thread.close()

    async def look(self) -> None:
        """One look at everything that is due.

        Raises:
            asyncio.TimeoutError: the files cannot be read in time.
        """
        view = self._view()
        if view is None:
            return
        at = self._clock()
        counters, board = await self._thread.do(partial(self._read, view.host), PATIENCE)
        devices = await self._driver.activity()
        if view.ask_jtop and at - self._asked_at >= JTOP_EVERY:
            self._asked_at = at
            self._begin("jetson-stats", self._ask_jtop)
        told = self._jtop[1] if self._jtop and at - self._jtop[0] <= JTOP_KEPT else None
        self.vitals = health.vitals(at, board, self._board, devices, told)
        self._board = board
        if view.pods is not None:
            self._begin("latencies", partial(self._latencies.scrape, [pod for pod in view.pods if runs(pod)]))
            look = Look(at=at, host=view.host, pods=view.pods, counters=counters, devices=devices)
            self.neighbours = self._pods.neighbours(look)

    def _read(self, host: HostFacts) -> tuple[dict[str, PodCounters], BoardReadings]:
        return podcounters.counters(self._files, host.pods), thermal.readings(self._files)

    async def _ask_jtop(self) -> None:
        try:
            self._jtop = self._clock(), await self._jtop_thread.do(jtop.ask, 2 * jtop.PATIENCE)
        except jtop.JtopError as error:
            self._say(f"jetson-stats is not used: {error}")

    # --- what goes wrong stays in here ---

    def _begin(self, name: str, work: Work) -> None:
        """Go about ``work`` beside the looks, unless the last of its kind is still under way."""
        before = self._beside.get(name)
        if before is None or before.done():
            self._beside[name] = asyncio.create_task(self._guarded(work, f"{name}: no answer"), name=name)

    async def _guarded(self, work: Work, late: str) -> None:
        try:
            await work()
        except asyncio.TimeoutError:
            self._say(late)
        except Exception as error:
            if self._is_new(repr(error)):
                log.exception("watching pods and board went wrong, and nothing else did")

    def _say(self, text: str) -> None:
        if self._is_new(text):
            log.info("%s", text)

    def _is_new(self, text: str) -> bool:
        new = text not in self._said and len(self._said) < _MOST_SAID
        if new:
            self._said.add(text)
        return new
