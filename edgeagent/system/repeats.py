"""Says the same line once a minute, however often it is logged."""

from __future__ import annotations

WINDOW = 60.0
"""Seconds for which a line stands for its repetitions."""
LIMIT = 256
"""Different lines that are remembered."""


class Repeats:
    """Lines that were written lately, each with how often it came again since."""

    def __init__(self) -> None:
        self._lately: dict[str, tuple[float, int]] = {}
        """By line, oldest first: (second it was written, repetitions since)."""

    def pass_on(self, line: str, now: float) -> list[str]:
        """What is to be written now that ``line`` has come."""
        due = self.due(now)
        if line in self._lately:
            written, times = self._lately[line]
            self._lately[line] = (written, times + 1)
            return due
        if len(self._lately) >= LIMIT:
            due += self._forget(next(iter(self._lately)))
        self._lately[line] = (now, 0)
        return [*due, line]

    def due(self, now: float) -> list[str]:
        """The repetitions of lines that were written a window ago; with ``inf``, all."""
        old = [line for line, (written, _) in self._lately.items() if now - written >= WINDOW]
        return [said for line in old for said in self._forget(line)]

    def pending(self) -> bool:
        """Whether ``due`` will have something to say."""
        return any(times for _, times in self._lately.values())

    def _forget(self, line: str) -> list[str]:
        _, times = self._lately.pop(line)
        return [f"{line} (came {times} more times)"] if times > 1 else [line] if times else []
