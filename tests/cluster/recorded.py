"""A recorded Orin Nano 8 GB as a host root on disk, whose processes and GPU memory a test can change."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1024 * 1024

# MemTotal 7802736 kB is 7619 MiB; os 768, k3s 512, cma 256 and headroom 256 MiB are reserved.
EMPTY_BOARD = "5827Mi"


def recorded_board() -> Path:
    """The recording that ships with the package: ``host/`` and ``nvml.json``."""
    return Path(str(resources.files("edgeagent") / "demo" / "board"))


def nvmap_table(rows: list[tuple[str, int, int]], *, display: int = 2651) -> str:
    """The client table of nvmap as the driver prints it, from (process, pid, KiB): every record is 59 bytes.

    The display server of the board, with the pid ``display``, holds a little too: a table without any bytes is one of
    an unusable source.
    """
    lines = [f"{'CLIENT':<18} {'PROCESS':>18} {'PID':>8} {'SIZE':>11}\n"]
    rows = [("Xorg", display, 17876), *rows]
    lines += [f"{'user':<18} {name:>18} {pid:>8} {size:>10}K\n" for name, pid, size in rows]
    lines.append(f"{'total':<18} {'':>18} {'':>8} {sum(size for _, _, size in rows):>10}K\n")
    return "".join(lines)


@dataclass
class Board:
    """A host root at ``root``. ``write`` replaces one file of it whole."""

    root: Path
    write: Callable[[str, str], None] = field(init=False)
    _held: dict[int, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.write = self._write

    @classmethod
    def copy(cls, root: Path) -> Board:
        """A fresh copy of the recording at ``root``, which must not exist."""
        shutil.copytree(recorded_board() / "host", root, symlinks=True)
        board = cls(root)
        board.write("sys/kernel/debug/nvmap/iovmm/clients", nvmap_table([]))
        return board

    def process(self, pid: int, name: str, pod_uid: str, container_id: str, *, start: int = 90000) -> None:
        """Let a process of a pod's container run on the board."""
        fields = " ".join(
            [
                "S",
                "1",
                str(pid),
                str(pid),
                "0",
                "-1",
                "4194560",
                *["0"] * 8,
                "20",
                "0",
                "1",
                "0",
                str(start),
                *["0"] * 30,
            ]
        )
        self.write(f"proc/{pid}/stat", f"{pid} ({name}) {fields}\n")
        self.write(f"proc/{pid}/comm", f"{name}\n")
        self.write(f"proc/{pid}/status", f"Name:\t{name}\nVmSize:\t  1048576 kB\n")
        self.write(f"proc/{pid}/cgroup", f"0::/kubepods/burstable/pod{pod_uid}/{container_id}\n")

    def end(self, pid: int) -> None:
        """Let a process exit: its GPU memory is free at that moment."""
        self.hold(pid, "", 0)
        shutil.rmtree(self.root / f"proc/{pid}")

    def hold(self, pid: int, name: str, mib: int) -> None:
        """Let a process hold so many MiB of GPU memory."""
        self._held[pid] = (name, mib)
        if not mib:
            del self._held[pid]
        rows = [(name, pid, mib * 1024) for pid, (name, mib) in sorted(self._held.items())]
        self.write("sys/kernel/debug/nvmap/iovmm/clients", nvmap_table(rows))

    def _write(self, name: str, text: str) -> None:
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.fresh")
        fresh.write_text(text)
        fresh.replace(target)
