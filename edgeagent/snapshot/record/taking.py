"""Samples of the real board for a snapshot, with everything that their readers asked for and were told."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from edgeagent.cluster import looking
from edgeagent.cluster import node as nodes
from edgeagent.facts import ClusterFacts, Facts
from edgeagent.facts.diagnosis import ClusterLook, HostLook, Listed, no_cluster
from edgeagent.host import outside, podcounters, thermal
from edgeagent.host.closer import look as closer
from edgeagent.host.nvml_worker import NvmlWorker
from edgeagent.host.sampler import HostSampler
from edgeagent.plan.decide import decide
from edgeagent.plan.state import State
from edgeagent.snapshot import live
from edgeagent.snapshot.podlist import understood
from edgeagent.snapshot.record.noting import NotingFiles

if TYPE_CHECKING:
    from edgeagent.config import Config
    from edgeagent.facts import HostFacts, HostProcess, PodFacts
    from edgeagent.host.files import RootFiles
    from edgeagent.host.nvml import NvmlSource
    from edgeagent.snapshot.live import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample of all sources."""

    at: float
    """Monotonic second."""
    wall: float
    """Unix time."""
    host: HostFacts
    noted: NotingFiles
    node: Mapping[str, Any] | None
    """The v1 Node; None: no cluster was asked."""
    pods: tuple[Mapping[str, Any], ...]
    bound: tuple[PodFacts, ...]
    look: HostLook
    lists: Mapping[str, Listed[Mapping[str, Any]]]
    """Objects for a diagnosis, by the plural of their kind; empty where no cluster was asked."""


async def samples(
    files: RootFiles, nvml: NvmlSource, config: Config, source: Source, times: list[float]
) -> list[Sample]:
    """A sample at each of ``times``, in seconds from now."""
    worker = NvmlWorker(nvml, clock=time.monotonic)
    start = time.monotonic()
    taken = []
    try:
        for due in times:
            await asyncio.sleep(max(0.0, start + due - time.monotonic()))
            taken.append(await _sample(files, worker, config, source))
    finally:
        worker.close()
    return taken


async def _sample(files: RootFiles, worker: NvmlWorker, config: Config, source: Source) -> Sample:
    """One sample in which nothing is taken over from an earlier one: that is what a replay makes of it."""
    node: Mapping[str, Any] | None = None
    listed: tuple[tuple[Mapping[str, Any], PodFacts], ...] = ()
    lists: Mapping[str, Listed[Mapping[str, Any]]] = {}
    if source.kubeconfig:
        host = await _host(HostSampler(files, clock=time.monotonic, data_dir=config.k3s.data_dir), worker, ())
        node, items = await live.objects(config, host, source)
        listed = tuple(understood(items))
        lists = await live.lists(config, host, source)
    noted = NotingFiles(files)
    sampler = HostSampler(noted, clock=time.monotonic, data_dir=config.k3s.data_dir)
    at, wall = time.monotonic(), int(time.time() * 1000) / 1000  # as it is written
    host = await _host(sampler, worker, [facts.cgroup_uid for _, facts in listed])
    await asyncio.get_running_loop().run_in_executor(None, _watched, noted, host)
    sample = Sample(
        at=at,
        wall=wall,
        host=host,
        noted=noted,
        node=node,
        pods=tuple(item for item, _ in listed),
        bound=tuple(facts for _, facts in listed),
        look=await asyncio.get_running_loop().run_in_executor(None, _look, files, noted, host, at),
        lists=lists,
    )
    if decide(State(), facts(config, sample), at)[1].host_over:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, _host_processes, files, noted, host)
        sample = replace(sample, host=replace(host, host_processes=found))
    return sample


def _watched(noted: NotingFiles, host: HostFacts) -> None:
    """What is watched beside the sample, for the files alone."""
    podcounters.counters(noted, host.pods)
    thermal.readings(noted)


def _host_processes(files: RootFiles, noted: NotingFiles, host: HostFacts) -> tuple[HostProcess, ...]:
    """The candidates for the largest process outside pods. What else runs on the board is looked at and not noted."""
    page_size = host.files.page_size
    found = outside.candidates(files, host.processes, page_size)
    return outside.candidates(noted, host.processes, page_size, among=[one.pid for one in found])


def _look(files: RootFiles, noted: NotingFiles, host: HostFacts, at: float) -> HostLook:
    """The closer look. Of processes only those in containers and those that hold a GPU are noted."""
    found = closer.look(files, host, at).holders
    return closer.look(noted, host, at, among={*found.inside, *(one.pid for one in found.processes)})


def cluster(sample: Sample) -> ClusterLook:
    """What a snapshot has of the cluster for a diagnosis. That pods which wait could not be listed is not in it."""
    if sample.node is None:
        return no_cluster("no cluster was asked")
    found = looking.understood(sample.lists)
    return found if found.waiting.items is not None else replace(found, waiting=Listed(items=()))


async def _host(sampler: HostSampler, worker: NvmlWorker, wanted: Any) -> HostFacts:
    loop = asyncio.get_running_loop()
    nvml = await worker.sample(await loop.run_in_executor(None, sampler.power))
    return await loop.run_in_executor(None, sampler.sample, nvml, wanted)


def facts(config: Config, sample: Sample) -> Facts:
    """What a decision about the board itself is made from, at the time of ``sample``."""
    node = nodes.parse(sample.node) if sample.node is not None else None
    cluster = ClusterFacts(node=node, pods=sample.bound, fresh_at=sample.at) if node else None
    return Facts(wall=sample.wall, config=config, host=sample.host, cluster=cluster)


def unread(samples: list[Sample]) -> Iterator[str]:
    """What could not be read, one line for all processes alike."""
    nvml = dict.fromkeys(sample.host.nvml.why for sample in samples if sample.host.nvml.value is None)
    yield from (f"NVML: {why}" for why in nvml)
    refused = Counter(
        (re.sub(r"^proc/\d+/", "proc/*/", path), why)
        for path, why in {path: why for sample in samples for path, why in sample.noted.refused.items()}.items()
    )
    for (path, why), count in sorted(refused.items()):
        yield f"{path}: {why}" + (f" ({count} of them)" if count > 1 else "")
