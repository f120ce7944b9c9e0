"""A recorded Jetson Orin Nano 8 GB as files under a root, which change as models load, grow and end.

Files are replaced whole, by a rename, as a reader of procfs never sees half of one. What the
models hold stands in every place where the board itself would show it: the nvmap table, the
pods' cgroups, /proc/meminfo, /proc/<pid>. All methods block.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

KIB = 1024

_RECORDED = Path(__file__).with_name("board")
_MEMINFO = "proc/meminfo"
_NVMAP = "sys/kernel/debug/nvmap/iovmm/clients"
_PODS = "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice"
_SYSTEM = {1: "systemd", 871: "k3s-agent"}
"""Processes outside pods; neither holds the GPU open."""
_BOOT_TICKS = 8_640_000
"""Clock ticks since boot at which the first model may start: a day, at 100 Hz."""
_RECORDED_FREE = 3_668_508 * KIB
"""MemFree in the recording."""
_KEPT_FREE = 128 * KIB * KIB
_ROW = re.compile(r"(?P<name>\S+):( +)(?P<amount>\d+)( kB)?")
_GPU_NODES = {"9": "/dev/nvmap", "10": "/dev/nvgpu/igpu0/ctrl"}


@dataclass(frozen=True, slots=True)
class Model:
    """A process that runs a model, in the only container of a pod. ``command`` has at most 15 characters."""

    pod_uid: str
    container_id: str
    pid: int
    command: str


class Held(NamedTuple):
    """Bytes that a model holds."""

    gpu: int
    host: int


class Board:
    """The board's files.

    Args:
        root: folder that becomes the root of its files.
        nvml: file that becomes the recorded answers of NVML.
    """

    def __init__(self, root: Path, nvml: Path) -> None:
        self.root = root
        self.nvml = nvml
        self._held: dict[Model, Held] = {}
        self._meminfo = ""

    def unpack(self) -> None:
        """Lay out the recording; the root may exist, and what is in it is written over."""
        for file in filter(Path.is_file, (_RECORDED / "host").rglob("*")):
            _copy(file, self.root / file.relative_to(_RECORDED / "host"))
        _copy(_RECORDED / "nvml.json", self.nvml)
        self._meminfo = (self.root / _MEMINFO).read_text(encoding="ascii")
        (self.root / _PODS).mkdir(parents=True)
        for pid, command in _SYSTEM.items():
            self._add_process(pid, command, "/system.slice/k3s-agent.service" if pid > 1 else "/init.scope", {})

    def start(self, model: Model) -> None:
        """The process is there, with the GPU's device nodes open; it holds nothing yet."""
        pod = f"kubepods-burstable-pod{model.pod_uid.replace('-', '_')}.slice"
        scope = f"cri-containerd-{model.container_id}.scope"
        (self.root / _PODS / pod / scope).mkdir(parents=True)
        self._held[model] = Held(0, 0)
        self._write_cgroup(model)
        path = f"/{_PODS.removeprefix('sys/fs/cgroup/')}/{pod}/{scope}"
        self._add_process(model.pid, model.command, path, _GPU_NODES)

    def hold(self, model: Model, held: Held) -> None:
        """The model now holds ``held`` in all."""
        self._held[model] = held
        self._write_cgroup(model)
        self._write_memory()

    def end(self, model: Model) -> None:
        """The process is gone, and all that it held is back."""
        del self._held[model]
        self._write_memory()
        self._remove(self.root / f"proc/{model.pid}")
        self._remove(self._pod(model))

    def _pod(self, model: Model) -> Path:
        return self.root / _PODS / f"kubepods-burstable-pod{model.pod_uid.replace('-', '_')}.slice"

    def _add_process(self, pid: int, command: str, cgroup: str, nodes: Mapping[str, str]) -> None:
        folder = self.root / f"proc/{pid}"
        (folder / "fd").mkdir(parents=True)
        for number, target in nodes.items():
            (folder / "fd" / number).symlink_to(target)
        ticks = _BOOT_TICKS + pid if nodes else pid
        # Fields 3 to 22 of proc_pid_stat(5): the state, the parent, eleven that nobody reads here, times, the start.
        fields = f"S 1 {pid} {pid} 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 {ticks}"
        _write(folder / "stat", f"{pid} ({command}) {fields} 0 0\n")
        _write(folder / "comm", f"{command}\n")
        _write(folder / "status", f"Name:\t{command}\nState:\tS (sleeping)\nPid:\t{pid}\nVmSize:\t  204800 kB\n")
        _write(folder / "cgroup", f"0::{cgroup}\n")

    def _write_cgroup(self, model: Model) -> None:
        held = self._held[model].host
        # Of what the kernel charges to the pod all is anonymous memory; the GPU's share it charges to nobody.
        stat = f"anon {held}\nfile 0\nactive_file 0\ninactive_file 0\nslab_reclaimable 0\n"
        pod = self._pod(model)
        for folder in (pod / f"cri-containerd-{model.container_id}.scope", pod):
            _write(folder / "memory.stat", stat)
            _write(folder / "memory.current", f"{held}\n")

    def _write_memory(self) -> None:
        """The nvmap table and /proc/meminfo, which both are sums over all models."""
        rows = [
            f"{'user':<18} {model.command:>18} {model.pid:>8} {held.gpu // KIB:>10}K\n"
            for model, held in self._held.items()
        ]
        gpu = sum(held.gpu for held in self._held.values())
        host = sum(held.host for held in self._held.values())
        title = f"{'CLIENT':<18} {'PROCESS':>18} {'PID':>8} {'SIZE':>11}\n"
        total = f"{'total':<18} {'':>18} {'':>8} {gpu // KIB:>10}K\n"
        _write(self.root / _NVMAP, title + "".join(rows) + total)
        rows = self._meminfo.splitlines(keepends=True)
        _write(self.root / _MEMINFO, "".join(_changed(row, _changes(gpu, host)) for row in rows))

    def _remove(self, folder: Path) -> None:
        """Folders vanish at once, as in procfs, and are cleared away where nobody looks."""
        away = self.root / f".gone-{folder.name}"
        folder.rename(away)
        shutil.rmtree(away)


def _changes(gpu: int, host: int) -> dict[str, int]:
    """By how many bytes rows of /proc/meminfo differ from the recorded ones.

    What the models take comes out of free memory. Before that runs out the kernel drops file pages, which
    MemAvailable counts as available either way.
    """
    used = gpu + host
    dropped = max(0, used - _RECORDED_FREE + _KEPT_FREE)
    return {
        "MemFree": dropped - used,
        "MemAvailable": -used,
        "Cached": -dropped,
        "Inactive": host - dropped,
        "Inactive(anon)": host,
        "Inactive(file)": -dropped,
        "AnonPages": host,
    }


def _changed(row: str, changes: Mapping[str, int]) -> str:
    match = _ROW.match(row)
    if not match or match["name"] not in changes:
        return row
    amount = int(match["amount"]) + changes[match["name"]] // KIB
    return f"{match['name']}:{amount:>{len(match[0]) - len(match['name']) - len(': kB')}} kB\n"


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text, encoding="ascii")
    fresh.replace(path)


def _copy(source: Path, target: Path) -> None:
    # The bytes alone: an installed package may be read-only, and what is copied must not be.
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())
