"""Swap takes away the sign by which the end of a shared memory is seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose.rule import Rule
from edgeagent.quantity import human

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import Finding


def look(seen: Collected) -> Iterator[Finding]:
    """As much swap as memory, or a good part of the memory's size in use. A Jetson's zram has half of it."""
    memory = seen.facts.host.meminfo.value
    if not seen.has_gpu or not seen.plan.board.unified or memory is None:
        return
    rows = seen.host.swaps or ()
    total = max(memory.swap_total, sum(row.bytes for row in rows))
    used = sum(row.used for row in rows)
    if total < memory.total and used < memory.total // 4:
        return
    what = "zram, which is memory itself" if rows and all(row.zram for row in rows) else "swap"
    size = f"{human(total)} of {what}, beside {human(memory.total)} of memory"
    yield RULE.finding(
        seen.node_subject,
        f"The board has {size}: host memory moves there while GPU memory, which cannot, takes its place, so that "
        "pressure shows late, and then at once.",
        evidence=(
            f"/proc/meminfo: MemTotal {memory.total}, SwapTotal {memory.swap_total}",
            *(f"/proc/swaps: {row.path} {row.bytes}" for row in rows),
        ),
        remedy=_remedy(
            memory.available, None if seen.host.swaps is None else used, zram=bool(rows) and all(r.zram for r in rows)
        ),
        certainty="suspected" if total < memory.total else "certain",
    )


def _remedy(available: int | None, used: int | None, *, zram: bool) -> str:
    """What is swapped out comes back when swap is switched off; ``used``: None where that is not known."""
    if zram:
        return (
            "Make it smaller than half of the memory, or do without from the next start on. Switched off at once, all "
            "that is in it would come back into memory:\nsudo systemctl disable nvzramconfig\nsudo reboot"
        )
    if used == 0:
        return "Switch it off, and take it out of /etc/fstab:\nsudo swapoff -a"
    if used is None or available is None or used > available:
        told = "What is swapped out" if used is None else f"{human(used)} are swapped out, which"
        return (
            f"Take it out of /etc/fstab, and restart the board. {told} may not find room in memory: switching swap off "
            "now could end in the OOM killer.\nsudo reboot"
        )
    return (
        f"{human(used)} are swapped out and come back into memory, of which {human(available)} are available: end pods "
        "first. Then switch it off, and take it out of /etc/fstab:\nsudo swapoff -a"
    )


RULE = Rule(
    id="swap-hides-pressure",
    title="Swap hides pressure",
    severity="warning",
    looks_at="`SwapTotal` in `/proc/meminfo` and `/proc/swaps`, on boards whose GPU shares the host's memory: as much "
    "swap as memory, or a quarter of the memory's size in use. A Jetson's own zram has half of the memory's size",
    matters="GPU memory is pinned and cannot be swapped out. With a large swap the host's memory gives way instead: "
    "free memory stays above the floor while the board gets slower and slower, and ends in a hang. No capacity ever "
    "counts swap.",
    remedy="Take the swap out of `/etc/fstab`, of zram `sudo systemctl disable nvzramconfig`, and restart the board. "
    "`sudo swapoff -a` does at once where little is swapped out: all of it comes back into memory, so end pods first.",
    look=look,
)
RULES = (RULE,)
