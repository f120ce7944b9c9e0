"""Is the board in danger? By what the rules say of readings of its memory, in another way than the product does it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

from tests.properties import due
from tests.properties.life import GIB, MIB, Memory, Rules


@dataclass(slots=True)
class Danger:
    """What the readings so far mean."""

    total: int | None = None
    """MemTotal, as far as it is believed."""
    doubt: tuple[int, int, float] = (0, 0, 0.0)
    """Another MemTotal, the readings in a row that told it, and the time of the last of them."""
    read: Memory | None = None
    """The last reading; None while none can be believed."""
    readings: tuple[tuple[float, int], ...] = ()
    low: int = 0
    falling: int = 0
    since: float | None = None
    calm: float | None = None
    below: bool = False
    """Usable memory was below the floor in two readings in a row since the danger began."""
    need: int = 0
    """Bytes that must come free."""

    def copy(self) -> Danger:
        return copy(self)

    def believe(self, memory: Memory) -> None:
        """Take one more reading, which may tell of another board: that takes three in a row."""
        self.read = None
        if not memory.readable:
            return
        if self.total is None or abs(memory.total - self.total) <= self.total / 100:
            self.total = memory.total if self.total is None else self.total
            self.doubt, self.read = (0, 0, 0.0), memory
            return
        total, times, at = self.doubt
        if total != memory.total:
            self.doubt = (memory.total, 1, memory.at)
        elif memory.at > at:
            self.doubt = (total, times + 1, memory.at)
        if self.doubt[1] >= 3:
            self.total, self.doubt, self.read = memory.total, (0, 0, 0.0), memory

    def see(self, rules: Rules) -> None:
        """What the reading that is believed means, if any is."""
        memory = self.read
        self.need = 0
        if self.total is None or memory is None or memory.available is None:
            return
        usable = max(0, memory.available - memory.cma_free)
        floor = due.floor(self.total, rules)
        fresh = not self.readings or memory.at > self.readings[-1][0]
        if fresh and self.readings and memory.at - self.readings[-1][0] > rules.max_age:
            self.readings, self.low, self.falling, self.calm = ((memory.at, usable),), 0, 0, None
        elif fresh:
            recent = tuple(one for one in self.readings if memory.at - one[0] <= 5.0) or self.readings[-1:]
            self.readings = (*recent, (memory.at, usable))
        falls = self._falls(usable - floor)
        ahead = usable - rules.horizon * max([0.0, *falls])
        if fresh:
            self._judge(memory.at, usable, floor, soon=ahead < floor)
        if usable < floor:
            self.need = floor + 128 * MIB - usable
        elif ahead < floor:
            self.need = floor + 128 * MIB - int(ahead)

    def _falls(self, spare: float) -> list[float]:
        """Rates of fall, over the time to the floor at 2 GiB/s (0.05 to 0.4 s), or 0.05 s for a quarter of the way."""
        usual = sorted((0.05, spare / (2 * GIB), 0.4))[1]
        found, start = [], 0
        for index in range(1, len(self.readings)):
            seconds = self.readings[index][0] - self.readings[start][0]
            fall = self.readings[start][1] - self.readings[index][1]
            counts = seconds >= (0.05 if 4 * fall >= spare else usual)
            if counts:
                found.append(fall / seconds)
            if counts or fall <= 0:
                start = index
        return found

    def _judge(self, at: float, usable: int, floor: int, *, soon: bool) -> None:
        self.low = self.low + 1 if usable < floor else 0
        self.falling = self.falling + 1 if usable < floor or soon else 0
        if self.falling >= 2:
            self.since = at if self.since is None else self.since
            self.calm = None
        elif self.since is not None and usable > floor + max(256 * MIB, floor / 4):
            self.calm = at if self.calm is None else self.calm
            if at - self.calm >= 60.0:
                self.since = self.calm = None
        else:
            self.calm = None
        self.below = self.since is not None and (self.below or self.low >= 2)
