"""CPU quotas and pressure of pods, as the files of both versions of cgroups tell them."""

from __future__ import annotations

import errno

from edgeagent.facts import PodCgroup
from edgeagent.facts.neighbours import PodCounters, Throttling
from edgeagent.host.cgroups import PodCgroups
from edgeagent.host.files import Entry
from edgeagent.host.podcounters import counters
from tests.unit.host.test_cgroups import SLICE, V2, C, Clock, D, U, v1, v2
from tests.unit.host.trees import FaultyFiles

ROOT = "sys/fs/cgroup"
POD_V1 = "kubepods/burstable/pod" + U


def stat_v2(periods: int, throttled: int, microseconds: int) -> bytes:
    """Documentation/admin-guide/cgroup-v2.rst, cpu.stat with the controller enabled; bursts came with 5.14."""
    rows = f"usage_usec 900\nuser_usec 800\nsystem_usec 100\nnr_periods {periods}\nnr_throttled {throttled}\n"
    return f"{rows}throttled_usec {microseconds}\nnr_bursts 0\nburst_usec 0\n".encode()


def stat_v1(periods: int, throttled: int, nanoseconds: int) -> bytes:
    """Documentation/scheduler/sched-bwc.rst."""
    return f"nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time {nanoseconds}\n".encode()


def pressure(total: int) -> bytes:
    """Documentation/accounting/psi.rst; microseconds."""
    some = f"some avg10=1.53 avg60=0.87 avg300=0.22 total={total}\n"
    return f"{some}full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n".encode()


def found(files: FaultyFiles) -> PodCounters:
    """What is counted for the pod whose memory is found in ``files``."""
    return counters(files, PodCgroups(files, Clock()).sample((U,)))[U]


def tree_v2() -> dict[str, Entry]:
    scope = f"{SLICE}/cri-containerd-{C}.scope"
    return {
        **V2,
        **v2(SLICE, 1000),
        **v2(scope, 700),
        f"{SLICE}/cpu.stat": stat_v2(600, 120, 4_500_000),
        f"{scope}/cpu.stat": stat_v2(580, 290, 9_000_000),
        f"{SLICE}/cpu.pressure": pressure(2_500_000),
        f"{SLICE}/memory.pressure": pressure(0),
        f"{SLICE}/io.pressure": pressure(125_000),
    }


def test_version_2_counts_for_the_pod_and_each_container() -> None:
    assert found(FaultyFiles(tree_v2())) == PodCounters(
        throttling={"": Throttling(600, 120, 4.5), C: Throttling(580, 290, 9.0)},
        stalled={"cpu": 2.5, "memory": 0.0, "io": 0.125},
    )


def test_version_1_counts_cpu_time_beside_the_memory_and_has_no_pressure() -> None:
    memory = {**v1(f"{ROOT}/memory/{POD_V1}", 1000), **v1(f"{ROOT}/memory/{POD_V1}/{C}", 700)}
    for mount in ("cpu", "cpu,cpuacct"):
        files = FaultyFiles(
            {
                **memory,
                f"{ROOT}/{mount}/{POD_V1}/cpu.stat": stat_v1(600, 120, 4_500_000_000),
                f"{ROOT}/{mount}/{POD_V1}/{C}/cpu.stat": stat_v1(10, 0, 0),
            }
        )
        assert found(files) == PodCounters(throttling={"": Throttling(600, 120, 4.5), C: Throttling(10, 0, 0.0)})


def test_a_kernel_without_pressure_or_quotas_tells_nothing_which_is_not_zero() -> None:
    # L4T's kernels up to 5.15 are configured without PSI, some without CFS bandwidth: three rows of cpu.stat remain.
    without_psi = {path: entry for path, entry in tree_v2().items() if not path.endswith(".pressure")}
    bare = {path: b"usage_usec 9\nuser_usec 8\nsystem_usec 1\n" for path in tree_v2() if path.endswith("cpu.stat")}
    assert found(FaultyFiles({**without_psi, **bare})) == PodCounters()


def test_pressure_that_was_switched_off_at_boot_is_not_told() -> None:
    off = {f"{SLICE}/{resource}.pressure": errno.EOPNOTSUPP for resource in ("cpu", "memory", "io")}
    assert found(FaultyFiles(tree_v2(), off)).stalled == {}


def test_what_is_malformed_is_not_told() -> None:
    for broken in (b"", b"some avg10=0.00 total=-5\n", b"full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"):
        files = FaultyFiles({**tree_v2(), f"{SLICE}/cpu.pressure": broken})
        assert found(files).stalled == {"memory": 0.0, "io": 0.125}
    for broken in (b"", b"nr_periods -1\nnr_throttled 0\nthrottled_usec 0\n", b"nr_periods 1\nnr_throttled 0\n"):
        files = FaultyFiles({**tree_v2(), f"{SLICE}/cpu.stat": broken})
        assert found(files).throttling.keys() == {C}


def test_a_container_beside_its_pod_counts_too() -> None:
    beside = f"{SLICE}:cri-containerd:{D}"
    files = FaultyFiles({**tree_v2(), **v2(beside, 5), f"{beside}/cpu.stat": stat_v2(4, 2, 1000)})
    assert found(files).throttling[D] == Throttling(4, 2, 0.001)


def test_a_pod_whose_cgroup_is_not_known_has_no_counters() -> None:
    assert counters(FaultyFiles(tree_v2()), {U: PodCgroup(host_bytes=1, exact=True)}) == {}
