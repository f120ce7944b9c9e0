"""Runs decisions over a recording, as the agent would have made them on that board."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgeagent.diagnose.decided import decided
from edgeagent.errors import InputError
from edgeagent.facts import ClusterFacts, Facts, Reading
from edgeagent.host import nvml_replay
from edgeagent.host.closer.look import look
from edgeagent.host.files import TreeFiles
from edgeagent.host.sampler import HostSampler
from edgeagent.plan import outcomes
from edgeagent.plan.state import State
from edgeagent.plan.types import EvictionResult, Plan
from edgeagent.snapshot import sources
from edgeagent.snapshot.lists import cluster_look
from edgeagent.snapshot.podlist import understood

if TYPE_CHECKING:
    from edgeagent.facts.diagnosis import ClusterLook, HostLook
    from edgeagent.snapshot.recording import Recording, Sample


def plans(recording: Recording) -> Iterator[tuple[float, Plan]]:
    """(time, plan) of every sample, as :func:`looks` has them."""
    return ((at, plan) for at, _, plan in looks(recording))


def looks(recording: Recording) -> Iterator[tuple[float, Facts, Plan]]:
    """(time, facts, plan) of every sample.

    An eviction is taken as accepted, and nothing as killed: pod and processes are gone when a later sample says so.

    Raises:
        InputError: a source of the recording is malformed.
    """
    for at, facts, plan, _, _ in diagnosed(recording):
        yield at, facts, plan


def diagnosed(recording: Recording) -> Iterator[tuple[float, Facts, Plan, HostLook, ClusterLook]]:
    """As :func:`looks`, with what was looked at for the findings.

    Raises:
        InputError: a source of the recording is malformed.
    """
    state = State()
    before: HostLook | None = None
    for sample in recording.samples:
        files = _files(recording, sample)
        facts = _facts(recording, sample, files)
        host = look(files, facts.host, sample.at)
        cluster = cluster_look(f"{recording.name}/cluster", sample.lists)
        state, facts, plan = decided(state, facts, sample.at, host, cluster, before=before)
        before = host
        told = plan.events
        for eviction in plan.evictions:
            state, events = outcomes.learn(state, plan, EvictionResult(uid=eviction.uid, outcome="accepted"), sample.at)
            told += events
        yield sample.at, facts, replace(plan, events=told), host, cluster


def _facts(recording: Recording, sample: Sample, files: TreeFiles) -> Facts:
    """Everything that one sample says, read by the readers that read a live board."""
    cluster = _cluster(recording, sample)
    sampler = HostSampler(
        files,
        arch=recording.arch,
        page_size=recording.page_size,
        clock=lambda: sample.at,
        data_dir=recording.config.k3s.data_dir,
    )
    wanted = [pod.cgroup_uid for pod in (cluster.pods or ())] if cluster else []
    nvml = nvml_replay.ABSENT if sample.nvml is None else sources.nvml(f"{recording.name}/nvml.json", sample.nvml)
    host = sampler.sample(Reading(sample.at, nvml), wanted, host_processes=True)
    return Facts(wall=recording.wall(sample.at), config=recording.config, host=host, cluster=cluster)


def _files(recording: Recording, sample: Sample) -> TreeFiles:
    try:
        return TreeFiles(sample.host)
    except ValueError as error:
        raise InputError(f"{recording.name}/host: {error}") from error


def _cluster(recording: Recording, sample: Sample) -> ClusterFacts | None:
    """The recorded view; None, standalone, without a pod list."""
    if "pods" not in sample.lists:
        return None
    folder = f"{recording.name}/cluster"
    found = sources.node(f"{folder}/node.json", sample.lists["node"]) if "node" in sample.lists else None
    name = found.name if found else recording.node
    items = sources.items(f"{folder}/pods.json", sample.lists["pods"])
    pods = tuple(facts for _, facts in understood(item for item in items if _bound(item, name)))
    return ClusterFacts(node=found, pods=pods, fresh_at=sample.at)


def _bound(item: Any, name: str | None) -> bool:
    """The pod is bound to this node; pods that wait for a node are in a list for diagnosis only."""
    spec = item.get("spec") if isinstance(item, Mapping) else None
    bound = spec.get("nodeName") if isinstance(spec, Mapping) else None
    return bool(bound) and (name is None or bound == name)
