"""Host memory of pods, under every layout of the cgroup file system."""

from __future__ import annotations

import pytest

from edgeagent.facts import PodCgroup
from edgeagent.host.cgroups import PodCgroups
from edgeagent.host.files import Entry
from tests.unit.host.trees import EACCES, FaultyFiles

U = "11111111-2222-3333-4444-000000000001"
V = "11111111-2222-3333-4444-000000000002"
U_ = U.replace("-", "_")
C = "c" * 64
D = "d" * 64
ROOT = "sys/fs/cgroup"
V2 = {f"{ROOT}/cgroup.controllers": b"cpuset cpu io memory pids\n"}
SLICE = f"{ROOT}/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{U_}.slice"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def v2(path: str, current: int, *, active: int = 0, inactive: int = 0, slab: int = 0) -> dict[str, Entry]:
    """A cgroup v2 directory with the rows around those that are used."""
    stat = f"anon 1\nfile 2\ninactive_anon 7\nactive_file {active}\ninactive_file {inactive}\nslab_reclaimable {slab}\n"
    return {f"{path}/memory.current": b"%d\n" % current, f"{path}/memory.stat": f"{stat}slab 9\n".encode()}


def v1(path: str, usage: int, *, active: int = 0, inactive: int = 0) -> dict[str, Entry]:
    """A cgroup v1 directory. Its own rows are those of the directory alone, which holds no process."""
    stat = f"active_file 0\ninactive_file 0\ntotal_active_file {active}\ntotal_inactive_file {inactive}\n"
    return {f"{path}/memory.usage_in_bytes": b"%d\n" % usage, f"{path}/memory.stat": stat.encode()}


def sample(entries: dict[str, Entry], *uids: str) -> dict[str, PodCgroup]:
    return PodCgroups(FaultyFiles(entries), Clock()).sample(uids or (U,))


def test_version_2_leaves_out_what_can_be_reclaimed() -> None:
    pods = sample(
        {
            **V2,
            **v2(SLICE, 1000, active=100, inactive=200, slab=50),
            **v2(f"{SLICE}/cri-containerd-{C}.scope", 700, active=100, inactive=150, slab=20),
            **v2(f"{SLICE}/cri-containerd-{D}.scope", 10),
            **v2(f"{SLICE}/crio-conmon-{D}.scope", 9),
        }
    )
    # 1000 - 100 - 200 - 50; 700 - 100 - 150 - 20
    assert pods == {U: PodCgroup(host_bytes=650, exact=True, containers={C: 430, D: 10})}


def test_version_1_uses_the_rows_that_include_the_containers() -> None:
    pod = f"{ROOT}/memory/kubepods/burstable/pod{U}"
    pods = sample({**v1(pod, 1000, active=100, inactive=200), **v1(f"{pod}/{C}", 900, active=100, inactive=100)})
    assert pods == {U: PodCgroup(host_bytes=700, exact=True, containers={C: 700})}


@pytest.mark.parametrize(
    "pod",
    [
        f"kubepods/pod{U}",
        f"kubepods/besteffort/pod{U}",
        f"kubepods.slice/kubepods-pod{U_}.slice",
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{U_}.slice",
        f"k8sr/kubepods/burstable/pod{U}",
        f"docker/{D}/kubepods/burstable/pod{U}",
        f"system.slice/docker-{D}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{U_}.slice",
        f"system.slice/k3s-agent.service/kubepods/burstable/pod{U}",
        f"user.slice/user-1001.slice/user@1001.service/k3s-rootless.service/kubepods/burstable/pod{U}",
    ],
)
@pytest.mark.parametrize("version", ["v2", "v1", "hybrid", "unified", "recorded"])
def test_a_pod_is_found_wherever_the_kubelet_put_it(pod: str, version: str) -> None:
    entries: dict[str, Entry]
    if version == "v2":
        entries = {**V2, **v2(f"{ROOT}/{pod}", 5)}
    elif version == "v1":
        entries = {**v1(f"{ROOT}/memory/{pod}", 5), f"{ROOT}/cpu/{pod}/cpu.shares": b"2\n"}
    elif version == "hybrid":  # v2 is mounted for systemd alone
        entries = {
            **v1(f"{ROOT}/memory/{pod}", 5),
            f"{ROOT}/unified/cgroup.controllers": b"\n",
            f"{ROOT}/unified/{pod}/cgroup.procs": b"",
        }
    elif version == "unified":  # v2 beside v1, with the memory controller
        entries = {**v2(f"{ROOT}/unified/{pod}", 5), f"{ROOT}/unified/cgroup.controllers": b"memory\n"}
    else:  # only what is read of a pod
        entries = v2(f"{ROOT}/{pod}", 5)
    assert sample(entries) == {U: PodCgroup(host_bytes=5, exact=True)}


def test_containers_beside_an_empty_pod_cgroup_add_up() -> None:
    # containerd with the cgroupfs driver under a kubelet with the systemd driver
    beside = f"{ROOT}/system.slice/k3s-agent.service/kubepods-burstable-pod{U_}.slice:cri-containerd:"
    pods = sample({**V2, **v2(SLICE, 3), **v2(beside + C, 40, active=4), **v2(beside + D, 500)})
    assert pods == {U: PodCgroup(host_bytes=3 + 36 + 500, exact=True, containers={C: 36, D: 500})}


def test_only_wanted_pods_are_read() -> None:
    files = FaultyFiles(
        {**V2, **v2(SLICE, 1), **v2(f"{ROOT}/kubepods.slice/kubepods-pod{V.replace('-', '_')}.slice", 2)}
    )
    pods = PodCgroups(files, Clock())
    assert pods.sample([]) == {}
    assert not files.calls
    assert set(pods.sample([U])) == {U}
    assert set(pods.sample([U, V])) == {U, V}
    assert set(pods.sample([V])) == {V}


UNKNOWN = PodCgroup(host_bytes=None, exact=False)
DAMAGED: dict[str, tuple[dict[str, Entry], PodCgroup]] = {
    "no memory.stat": ({f"{SLICE}/memory.current": b"1000\n"}, PodCgroup(host_bytes=1000, exact=False)),
    "a row is missing": (
        {f"{SLICE}/memory.current": b"1000\n", f"{SLICE}/memory.stat": b"active_file 1\ninactive_file 2\n"},
        PodCgroup(host_bytes=1000, exact=False),
    ),
    "a row is cut off": (
        {f"{SLICE}/memory.current": b"1000\n", f"{SLICE}/memory.stat": b"active_file 1\ninactive_file 2\nslab_reclaim"},
        PodCgroup(host_bytes=1000, exact=False),
    ),
    "a row is no number": (
        {
            f"{SLICE}/memory.current": b"1000\n",
            f"{SLICE}/memory.stat": b"active_file x\ninactive_file 2\nslab_reclaimable 3\n",
        },
        PodCgroup(host_bytes=1000, exact=False),
    ),
    "less than nothing": (v2(SLICE, 100, active=60, inactive=41), UNKNOWN),
    "exactly nothing": (v2(SLICE, 100, active=60, inactive=40), PodCgroup(host_bytes=0, exact=True)),
    "no figure": ({f"{SLICE}/memory.current": b"\n", f"{SLICE}/memory.stat": b""}, UNKNOWN),
    "not a figure": ({f"{SLICE}/memory.current": b"max\n"}, UNKNOWN),
    "negative": ({f"{SLICE}/memory.current": b"-5\n"}, UNKNOWN),
    "no memory controller": ({f"{SLICE}/cgroup.procs": b""}, UNKNOWN),
}


@pytest.mark.parametrize(("entries", "expected"), DAMAGED.values(), ids=DAMAGED.keys())
def test_what_cannot_be_told_is_unknown_or_an_upper_bound(entries: dict[str, Entry], expected: PodCgroup) -> None:
    assert sample({**V2, **entries}) == {U: expected}


def test_one_unknown_container_leaves_the_others_and_the_pod() -> None:
    pods = sample(
        {**V2, **v2(SLICE, 9), **v2(f"{SLICE}/cri-containerd-{C}.scope", 5), f"{SLICE}/cri-containerd-{D}.scope/x": b""}
    )
    assert pods == {U: PodCgroup(host_bytes=9, exact=True, containers={C: 5, D: None})}


def test_a_directory_that_may_not_be_looked_into_is_unknown() -> None:
    files = FaultyFiles({**V2, **v2(SLICE, 9)}, {f"{SLICE}/memory.current": EACCES})
    assert PodCgroups(files, Clock()).sample([U]) == {U: UNKNOWN}
    files = FaultyFiles({**V2, **v2(SLICE, 9)}, {SLICE: EACCES})
    assert PodCgroups(files, Clock()).sample([U])[U].host_bytes == 9
    files = FaultyFiles({**V2, **v2(SLICE, 9)}, {ROOT: EACCES})
    assert PodCgroups(files, Clock()).sample([U]) == {}


def test_the_walk_is_not_repeated() -> None:
    files = FaultyFiles({**V2, **v2(SLICE, 9), f"{ROOT}/system.slice/x.service/cgroup.procs": b""})
    clock = Clock()
    pods = PodCgroups(files, clock)
    pods.sample([U])
    assert files.calls["folders", f"{ROOT}/system.slice"] == 1
    files.calls.clear()
    for clock.now in range(2, 290, 2):
        assert pods.sample([U])[U].host_bytes == 9
    assert not [what for what, _ in files.calls if what == "folders"]
    clock.now = 300.0  # all the same once in a while
    pods.sample([U])
    assert files.calls["folders", f"{ROOT}/system.slice"] == 1


def test_a_new_pod_is_found_without_a_walk_and_a_missing_one_by_few() -> None:
    entries = {**V2, **v2(SLICE, 9), f"{ROOT}/system.slice/x.service/cgroup.procs": b""}
    files = FaultyFiles(entries)
    clock = Clock()
    pods = PodCgroups(files, clock)
    pods.sample([U])
    files.calls.clear()
    # Another class of service than any pod had so far: its folder lies below kubepods, too.
    new = f"{ROOT}/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{V.replace('-', '_')}.slice"
    files.change(v2(new, 4))
    clock.now = 2.0
    assert pods.sample([U, V])[V].host_bytes == 4
    assert not files.calls["folders", f"{ROOT}/system.slice"]
    for clock.now in range(4, 64, 2):
        assert set(pods.sample([U, V, "not-there"])) == {U, V}
    # at 30 and 60 seconds after the first walk
    assert files.calls["folders", f"{ROOT}/system.slice"] == 2


def test_a_new_pod_beside_others_is_found_without_a_walk() -> None:
    home = f"{ROOT}/system.slice/k3s-agent.service"
    files = FaultyFiles({**V2, **v2(f"{home}/kubepods-pod{U_}.slice:cri-containerd:{C}", 9)})
    pods = PodCgroups(files, Clock())
    pods.sample([U])
    files.change(v2(f"{home}/kubepods-pod{V.replace('-', '_')}.slice:cri-containerd:{D}", 4))
    assert pods.sample([U, V])[V] == PodCgroup(host_bytes=4, exact=True, containers={D: 4})
    assert files.calls["folders", ROOT] == 1


def test_a_pod_that_vanishes_is_gone_at_once_and_found_again() -> None:
    files = FaultyFiles({**V2, **v2(SLICE, 9)})
    clock = Clock()
    pods = PodCgroups(files, clock)
    pods.sample([U])
    files.change({f"{ROOT}/kubepods.slice/kubepods-burstable.slice": None}, removed=SLICE)
    clock.now = 2.0
    assert pods.sample([U]) == {}
    files.change(v2(SLICE, 9))
    clock.now = 4.0
    assert pods.sample([U])[U].host_bytes == 9


def test_single_containers_are_read_more_slowly_than_their_pod() -> None:
    container = f"{SLICE}/cri-containerd-{C}.scope"
    files = FaultyFiles({**V2, **v2(SLICE, 9), **v2(container, 5)})
    clock = Clock()
    pods = PodCgroups(files, clock)
    pods.sample([U])
    files.change({**v2(SLICE, 19), **v2(container, 15)})
    for clock.now in (2.0, 4.0, 6.0):
        assert pods.sample([U])[U] == PodCgroup(host_bytes=19, exact=True, containers={C: 5})
    clock.now = 8.0
    assert pods.sample([U])[U] == PodCgroup(host_bytes=19, exact=True, containers={C: 15})


def test_a_container_that_comes_or_goes_is_seen_at_once() -> None:
    files = FaultyFiles({**V2, **v2(SLICE, 9), **v2(f"{SLICE}/cri-containerd-{C}.scope", 5)})
    pods = PodCgroups(files, Clock())
    assert pods.sample([U])[U].containers == {C: 5}
    restarted = v2(f"{SLICE}/cri-containerd-{D}.scope", 6)
    files.change(restarted, removed=f"{SLICE}/cri-containerd-{C}.scope")
    assert pods.sample([U])[U].containers == {D: 6}
