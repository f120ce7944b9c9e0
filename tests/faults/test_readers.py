"""One file of a board that cannot be read, in every way a kernel says so: it costs its own figures and nothing else."""

from __future__ import annotations

import errno
from dataclasses import fields
from typing import Any

import pytest

from edgeagent.facts import HostFacts, Reading
from edgeagent.host.files import Entry
from edgeagent.host.nvml_replay import ABSENT
from edgeagent.host.sampler import HostSampler
from tests.unit.host.test_sampler import BOARD, CLIENTS, POD, U
from tests.unit.host.trees import FaultyFiles

K3S = "etc/rancher/k3s/config.yaml"
CONTAINERD = "var/lib/rancher/k3s/agent/etc/containerd/config.toml"
COSTS = {
    "proc/meminfo": {"meminfo"},
    CLIENTS: {"nvmap"},
    "proc/4242/stat": {"processes"},
    "proc/4242/cgroup": {"processes"},
    f"{POD}/memory.current": {"pods"},
    f"{POD}/memory.stat": {"pods"},
    K3S: {"kubelet"},
    CONTAINERD: {"runtime"},
    "proc/device-tree/compatible": {"files"},
}
"""By file, what of a sample may differ. The table of nvmap names the processes, and its rows spare a walk."""
LATER = 20.0
"""Seconds after which everything is looked at again."""


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def plain(facts: HostFacts) -> dict[str, Any]:
    """The sample without its times."""
    found = {item.name: getattr(facts, item.name) for item in fields(facts)}
    return {
        name: (value.value, bool(value.why)) if isinstance(value, Reading) else value for name, value in found.items()
    }


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOENT, errno.EIO, errno.ESTALE], ids=errno.errorcode.get)
@pytest.mark.parametrize("path", COSTS)
def test_a_file_that_fails_costs_its_own_figures_until_it_is_back(path: str, number: int) -> None:
    entries: dict[str, Entry] = dict(BOARD)
    files, clock = FaultyFiles(entries), Clock()
    sampler = HostSampler(files, clock=clock, arch="aarch64", page_size=4096)

    def sample() -> dict[str, Any]:
        clock.now += LATER
        return plain(sampler.sample(Reading(clock.now, ABSENT), (U,)))

    sample()
    before = sample()
    files.faults = {path: number}
    sample()  # what is new in the files about the hardware and K3s is confirmed by the next sample
    during = sample()
    files.faults = {}
    sample()
    after = sample()

    assert after == before
    indirect = {"processes", "gpu_node_holders"} if path == CLIENTS else set()
    assert {name for name, value in during.items() if value != before[name]} <= COSTS[path] | indirect
    if path == "proc/meminfo":
        assert during["meminfo"] == (None, True)
    if path == CLIENTS:
        assert during["nvmap"] == (None, True)
    if path == f"{POD}/memory.stat":
        # Without it the figure is an upper bound, and said to be one.
        assert (during["pods"][U].host_bytes, during["pods"][U].exact) == (1000, False)
