"""What a command did, for people: in the order in which it happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """Lines for standard output. ``dry`` carries nothing out and says what would be done."""

    dry: bool = False
    done: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What stays as it is, and why."""
    problems: list[str] = field(default_factory=list)
    """What could not be done."""
    next: list[str] = field(default_factory=list)
    """What is left for people to do."""

    def step(self, did: str, would: str, act: Callable[[], object]) -> None:
        """Do something, and tell it: ``did`` as it was done, ``would`` as it would be."""
        if self.dry:
            self.done.append(f"would {would}")
            return
        act()
        self.done.append(did)

    def text(self, nothing: str) -> str:
        """The page; ``nothing`` where nothing was done and nothing is wrong."""
        lines = [*self.done, *self.notes, *(f"problem: {problem}" for problem in self.problems)]
        if not (self.done or self.problems):
            lines.insert(0, nothing)
        if self.next:
            lines += ["", "Next:", *(f"  {line}" for line in self.next)]
        return "\n".join(lines)
