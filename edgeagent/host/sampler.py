"""One sample of the board: every reader of this package, asked in turn.

Nothing here may run in the event loop but ``meminfo``: a sample reads hundreds of files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from edgeagent.errors import ReadingError
from edgeagent.facts import (
    BoardFiles,
    HostFacts,
    HostProcess,
    KubeletSettings,
    MemInfo,
    NvmapTable,
    Nvml,
    NvmlProcess,
    Process,
    Reading,
    RuntimeFacts,
)
from edgeagent.host import containerd, k3s, meminfo, nvmap, outside, power, processes
from edgeagent.host.cgroups import PodCgroups
from edgeagent.host.files import Files
from edgeagent.host.paths import why
from edgeagent.host.probe import probe

_MEMINFO = "proc/meminfo"

_CHANGES_EVERY = 10.0
"""Seconds after which the files about hardware and configuration are read again; they hardly ever change."""

_HOLDERS_EVERY = 5.0
"""Seconds after which open files are looked through again: that walk costs more than all else in a sample."""

_HOST_PROCESSES_EVERY = 1.0
"""Seconds after which all processes are looked through again: near the floor samples follow faster than that helps."""


@dataclass(frozen=True, slots=True)
class _Settled:
    """What hardly ever changes."""

    board: BoardFiles
    kubelet: KubeletSettings
    runtime: RuntimeFacts


class HostSampler:
    """Samples the board whose files are given.

    ``arch`` and ``page_size`` belong to a recorded board; ``data_dir`` overrides K3s' own
    setting. ``clock`` gives monotonic seconds. ``sample`` is called from one thread at a time.
    """

    def __init__(
        self,
        files: Files,
        *,
        clock: Callable[[], float],
        arch: str | None = None,
        page_size: int | None = None,
        data_dir: str | None = None,
    ) -> None:
        self._files = files
        self._clock = clock
        self._arch = arch
        self._page_size = page_size
        self._data_dir = data_dir
        self._pods = PodCgroups(files, clock)
        self._settled: _Settled | None = None
        self._settle_at = 0.0
        self._displays: tuple[str, ...] = ()
        self._displays_at: float | None = None
        self._holders: Reading[int] | None = None
        self._outside: Reading[tuple[HostProcess, ...]] | None = None

    def meminfo(self) -> Reading[MemInfo]:
        """The memory of the board: one file that is held open, some ten microseconds."""
        at = self._clock()
        try:
            return Reading(at, meminfo.parse(self._files.read(_MEMINFO, keep=True)))
        except OSError as error:
            return Reading(at, None, why(error, _MEMINFO))
        except ReadingError as error:
            return Reading(at, None, str(error))

    def power(self) -> power.Power:
        """Which cards sleep, and which would if nobody looked: they are left alone."""
        displays = self._cards()
        asleep = power.asleep(self._files, displays)
        board = self._settled.board if self._settled else probe(self._files, arch=self._arch, page_size=self._page_size)
        if _is_tegra(board, None):  # what its own GPU holds stays in the board's memory while it is powered down
            return power.Power(busy=displays)
        awake = [one for one in displays if one not in asleep]
        idle = [one for one in awake if power.managed(self._files, one)]
        if idle and self._holding(self._clock()).value != 0:
            idle = []
        return power.Power(busy=tuple(one for one in awake if one not in idle), idle=tuple(idle), asleep=asleep)

    def sample(self, nvml: Reading[Nvml], wanted_pods: Collection[str], *, host_processes: bool = False) -> HostFacts:
        """Everything at once.

        ``wanted_pods``: uids, as cgroups spell them, of the pods whose memory is asked for. ``host_processes``: the
        largest process outside pods is asked for too.
        """
        settled = self._settle()
        board = replace(settled.board, pci_asleep=power.asleep(self._files, self._cards()))
        table = self._nvmap(board)
        # The processes that NVML lists in a WSL guest are Windows' own, under numbers of theirs.
        host_view = processes.host_view(self._files) and not board.wsl
        named = _named(nvml.value, table.value) if host_view else set()
        found = {pid: process for pid in sorted(named) if (process := processes.process(self._files, pid))}
        return HostFacts(
            files=board,
            meminfo=self.meminfo(),
            nvml=nvml,
            nvmap=table,
            gpu_node_holders=self._held(board, nvml.value, table.value),
            processes=found,
            pods=self._pods.sample(wanted_pods),
            kubelet=settled.kubelet,
            runtime=settled.runtime,
            host_view=host_view,
            host_processes=self._host_processes(found if host_view else None, board) if host_processes else None,
        )

    def _cards(self) -> tuple[str, ...]:
        """Addresses of NVIDIA's cards, which hardly ever change; whether one sleeps does, from sample to sample."""
        now = self._clock()
        if self._displays_at is None or now - self._displays_at >= _CHANGES_EVERY:
            self._displays, self._displays_at = power.displays(self._files), now
        return self._displays

    def _settle(self) -> _Settled:
        now = self._clock()
        if now < self._settle_at and self._settled:
            return self._settled
        kubelet = k3s.settings(self._files, self._data_dir)
        settled = _Settled(
            board=probe(self._files, arch=self._arch, page_size=self._page_size),
            kubelet=kubelet,
            runtime=containerd.runtime(self._files, kubelet.data_dir, kubelet.external_runtime),
        )
        # Anything new is looked at again in the next sample: a reading that failed once must
        # not be handed out as if it had failed in every sample since.
        self._settle_at = now + _CHANGES_EVERY if settled == self._settled else now
        self._settled = settled
        return settled

    def _nvmap(self, board: BoardFiles) -> Reading[NvmapTable]:
        at = self._clock()
        if not board.nvmap:
            return Reading(at, None, "there is no nvmap on this board")
        try:
            return Reading(at, nvmap.parse(self._files.read(nvmap.PATH)))
        except OSError as error:
            return Reading(at, None, why(error, nvmap.PATH))
        except ReadingError as error:
            return Reading(at, None, str(error))

    def _held(self, board: BoardFiles, nvml: Nvml | None, table: NvmapTable | None) -> Reading[int]:
        """Looked for only where no other source of a Tegra's processes holds a value."""
        now = self._clock()
        if not _is_tegra(board, nvml):
            return Reading(now, None, "only looked for on a Tegra")
        if any(process.used is not None for process in _nvml_processes(nvml)):
            return Reading(now, None, "not looked for: NVML lists processes")
        if table and any(row.bytes > 0 for row in table.rows):
            return Reading(now, None, "not looked for: nvmap lists processes")
        return self._holding(now)

    def _host_processes(self, known: Mapping[int, Process] | None, board: BoardFiles) -> tuple[HostProcess, ...]:
        """The candidates for the largest. ``known``: what the driver names; None: the pids are not the host's."""
        if known is None:
            return ()
        now = self._clock()
        if self._outside is None or now - self._outside.at >= _HOST_PROCESSES_EVERY:
            self._outside = Reading(now, outside.candidates(self._files, known, board.page_size))
        return self._outside.value or ()

    def _holding(self, now: float) -> Reading[int]:
        if self._holders is None or now - self._holders.at >= _HOLDERS_EVERY:
            self._holders = processes.holders(self._files, now)
        return self._holders


def _is_tegra(board: BoardFiles, nvml: Nvml | None) -> bool:
    return (
        board.nvmap
        or board.l4t_release is not None
        or (board.soc_family or "").lower().startswith("tegra")
        or any(entry.startswith("nvidia,tegra") for entry in board.compatible)
        # Without any file of the host's, its integrated GPU still has one of these names.
        or any(mark in (device.name or "") for device in (nvml.devices if nvml else ()) for mark in ("(nvgpu)", "Thor"))
    )


def _named(nvml: Nvml | None, table: NvmapTable | None) -> set[int]:
    """The pids that the driver's readings name; 0 stands for the kernel itself."""
    pids = {process.pid for process in _nvml_processes(nvml)}
    pids.update(row.pid for row in (table.rows if table else ()))
    return pids - {0}


def _nvml_processes(nvml: Nvml | None) -> Iterator[NvmlProcess]:
    for device in nvml.devices if nvml else ():
        lists = [device.compute, device.graphics, device.mps]
        for instance in device.mig:
            lists += [instance.compute, instance.graphics]
        for one in lists:
            yield from one.processes if one else ()
