"""Host bytes of a pod, from the pod's own cgroup, on every layout that kubelets and runtimes make of it.

v2: memory.current − active_file − inactive_file − slab_reclaimable (Documentation/admin-guide/cgroup-v2.rst).
v1: memory.usage_in_bytes − total_active_file − total_inactive_file (Documentation/admin-guide/cgroup-v1/memory.rst).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.holders import (
    HASH,
    MIRROR,
    Files,
    by_container,
    cache,
    card,
    cards,
    cid,
    client,
    cluster,
    entry,
    evicted,
    gb10,
    held_codes,
    held_gpu,
    held_host,
    memory_v1,
    memory_v2,
    orin,
    series,
    show,
    shown,
    simple,
    states,
    table,
    task,
    tenant,
    uid,
)
from tests.cases.making import GIB, KEY, KIB, MIB

U, C, D = uid(1), cid(1), cid(13)
S = U.replace("-", "_")

# 2048 − 300 − 500 − 48 = 1200 MiB
V2_CURRENT, V2_STAT, V2_HOST = 2048 * MIB, cache(300 * MIB, 500 * MIB, 48 * MIB), 1200 * MIB

# 2048 − 300 − 500 = 1248 MiB. The rows without "total_" are those of the group alone, which holds next to nothing, and
# reclaimable slab is no part of usage_in_bytes that could be subtracted (kmem is counted apart).
V1_STAT = {
    "cache": 4 * MIB, "rss": 0, "active_file": 3 * MIB, "inactive_file": MIB, "slab_reclaimable": 48 * MIB,
    "total_cache": 800 * MIB, "total_rss": 1248 * MIB, "total_active_file": 300 * MIB, "total_inactive_file": 500 * MIB,
}  # fmt: skip
V1_USAGE, V1_HOST = 2048 * MIB, 1248 * MIB


def board(pid: int = 4242) -> Files:
    """An Orin on which one process holds 512 MiB."""
    return orin(table(client(b"infer", pid, 512 * 1024)))


KUBELET = "kubelet-kubepods-burstable"
SLICES = "/kubepods.slice/kubepods-burstable.slice/"
V2_LAYOUTS = {
    # name: the pod's group, the container's group
    "systemd": (f"{SLICES}kubepods-burstable-pod{S}.slice", f"cri-containerd-{C}.scope"),
    "systemd, best effort": (
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{S}.slice",
        f"cri-containerd-{C}.scope",
    ),
    "systemd, guaranteed": (f"/kubepods.slice/kubepods-pod{S}.slice", f"cri-containerd-{C}.scope"),
    "cgroupfs": (f"/kubepods/burstable/pod{U}", C),
    "cgroupfs, guaranteed": (f"/kubepods/pod{U}", C),
    "cri-o": (f"{SLICES}kubepods-burstable-pod{S}.slice", f"crio-{C}.scope"),
    "cri-dockerd": (f"{SLICES}kubepods-burstable-pod{S}.slice", f"docker-{C}.scope"),
    "kubelet slice": (
        f"/kubelet.slice/kubelet-kubepods.slice/{KUBELET}.slice/{KUBELET}-pod{S}.slice",
        f"cri-containerd-{C}.scope",
    ),
    # k3s-io/k3s#3005
    "k3s rootless": (f"/user.slice/user-1001.slice/user@1001.service/k3s-rootless.service/kubepods/pod{U}", C),
    # rancher/k3s: --kubelet-arg=cgroup-root, --kubelet-arg=kubelet-cgroups=/k3s
    "k3s below a slice of its own": (f"/k3s.slice/kubepods/burstable/pod{U}", C),
    "k3d": (f"/docker/{D}/kubepods/burstable/pod{U}", C),
}


@pytest.mark.parametrize("layout", V2_LAYOUTS)
@pytest.mark.parametrize("child", ["", "/init", f"/docker/{D}"], ids=["flat", "init", "docker"])
def test_v2_host_bytes_are_the_pods_without_its_page_cache(
    layout: str, child: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group, container = V2_LAYOUTS[layout]
    files = {
        **memory_v2(group, V2_CURRENT, V2_STAT),
        # 900 − 100 − 200 − 0 = 600 MiB; the rest of the pod is other containers', ended ones', the sandbox's
        **memory_v2(f"{group}/{container}", 900 * MIB, cache(100 * MIB, 200 * MIB)),
        **(memory_v2(f"{group}/{container}{child}", 900 * MIB, cache(100 * MIB, 200 * MIB)) if child else {}),
        **task(4242, f"0::{group}/{container}{child}"),
    }
    document = show(capsys, tmp_path, board(), files, cluster(simple(1, "infer"), simple(2, "elsewhere")))
    assert held_host(document)["infer"] == V2_HOST
    assert held_gpu(document)["infer"] == 512 * MIB
    assert by_container(document, "infer", "host_bytes") == {"main": 600 * MIB}
    # No group of this pod is there: not 0.
    assert held_host(document)["elsewhere"] is None


def v1_lines(path: str, *rest: str) -> str:
    """A v1 cgroup file."""
    names = ("cpuset", "cpu,cpuacct", "memory", "devices", "name=systemd")
    return "\n".join([f"{number}:{name}:{path}" for number, name in enumerate(names, start=3)][::-1] + list(rest))


@pytest.mark.parametrize(
    "rest", [(), ("0::/",), ("0::/system.slice/containerd.service",)], ids=["v1", "hybrid", "named"]
)
@pytest.mark.parametrize(
    "layout", ["systemd", "cgroupfs", "cgroupfs, guaranteed", "k3s below a slice of its own", "k3d"]
)
def test_v1_host_bytes_are_the_pods_without_its_page_cache(
    layout: str, rest: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group, container = V2_LAYOUTS[layout]
    # 900 − 100 − 200 = 600 MiB
    own = {"active_file": 0, "inactive_file": 0, "total_active_file": 100 * MIB, "total_inactive_file": 200 * MIB}
    files = {
        **memory_v1(group, V1_USAGE, V1_STAT),
        **memory_v1(f"{group}/{container}", 900 * MIB, own),
        **task(4242, v1_lines(f"{group}/{container}", *rest)),
    }
    document = show(capsys, tmp_path, board(), files, cluster(simple(1, "infer")))
    assert held_host(document) == {"infer": V1_HOST}
    assert by_container(document, "infer", "host_bytes") == {"main": 600 * MIB}


def test_a_hybrid_mount_of_v2_without_memory_is_not_the_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # systemd's hybrid layout: v2 at unified/, without controllers; memory is v1's.
    group, container = V2_LAYOUTS["systemd"]
    files = {
        **memory_v1(group, V1_USAGE, V1_STAT),
        "host/sys/fs/cgroup/unified/cgroup.controllers": "\n",
        f"host/sys/fs/cgroup/unified{group}/{container}/cgroup.procs": "4242\n",
        f"host/sys/fs/cgroup/systemd{group}/{container}/cgroup.procs": "4242\n",
        **task(4242, v1_lines(f"{group}/{container}", f"0::{group}/{container}")),
    }
    assert held_host(show(capsys, tmp_path, board(), files, cluster(simple(1, "infer")))) == {"infer": V1_HOST}


@pytest.mark.parametrize(
    "layout", ["systemd", "systemd, best effort", "systemd, guaranteed", "cgroupfs", "cgroupfs, guaranteed"]
)
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_pod_without_gpu_processes_has_host_bytes_too(
    layout: str, version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group, _ = V2_LAYOUTS[layout]
    files = memory_v2(group, V2_CURRENT, V2_STAT) if version == "v2" else memory_v1(group, V1_USAGE, V1_STAT)
    document = show(capsys, tmp_path, board(), files, cluster(simple(1, "web")))
    assert held_host(document) == {"web": V2_HOST if version == "v2" else V1_HOST}


def test_the_group_of_a_static_pod_carries_its_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # vectordotdev/vector#6001, DataDog/datadog-agent#45408
    pod = tenant("static-edge-07", uid(2), {"main": C}, annotations=MIRROR)
    group = f"{SLICES}kubepods-burstable-pod{HASH}.slice"
    document = show(capsys, tmp_path, board(), memory_v2(group, V2_CURRENT, V2_STAT), cluster(pod))
    assert held_host(document) == {"static-edge-07": V2_HOST}


# containerd with SystemdCgroup = false below a kubelet with the systemd driver: the kubelet makes the pod's slice, and
# the container lands beside it, in a group whose name is the slice's, unexpanded (coroot/coroot-node-agent's fixtures).
COLON = f"/system.slice/k3s-agent.service/kubepods-burstable-pod{S}.slice:cri-containerd:{C}"


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("beside", ["empty slice", "no slice"])
def test_a_colon_group_beside_an_empty_slice_does_not_make_a_pod_weightless(
    version: str, beside: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = memory_v2 if version == "v2" else memory_v1
    line = f"0::{COLON}" if version == "v2" else v1_lines(COLON)
    files = {
        **made(COLON, V2_CURRENT, V2_STAT if version == "v2" else V1_STAT),
        **(made(V2_LAYOUTS["systemd"][0], 0, {}) if beside == "empty slice" else {}),
        **task(4242, line),
    }
    document = show(capsys, tmp_path, board(), files, cluster(simple(1, "infer")))
    assert held_host(document) == {"infer": V2_HOST if version == "v2" else V1_HOST}


# Without memory.stat: an upper bound, shown, never grounds by itself


def sharing(stat: dict[str, int] | None, current: int, gpu_mib: int = 512) -> Files:
    """A pod of an Orin with 1Gi for its GPU and 2Gi in all."""
    group, container = V2_LAYOUTS["systemd"]
    return {
        **orin(table(client(b"infer", 4242, gpu_mib * 1024))),
        **memory_v2(group, current, stat),
        **task(4242, f"0::{group}/{container}", fds=("/dev/nvhost-gpu",)),
        **cluster(simple(1, "infer", "1Gi", "2Gi")),
    }


def test_page_cache_is_no_breach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 512 + (6144 − 5000 − 100 − 44) = 1512 MiB of 2048, though the group's limit would call it 6 GiB
    files = sharing(cache(5000 * MIB, 100 * MIB, 44 * MIB), 6144 * MIB)
    documents = shown(capsys, tmp_path, files, series([0, 8, 16, 24]))
    assert [states(document) for document in documents] == [{"infer": "ok"}] * 4
    assert held_host(documents[0]) == {"infer": 1000 * MIB}
    assert documents[0]["pods"][0]["total_budget_bytes"] == 2 * GIB


def test_host_and_gpu_bytes_together_are_a_breach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 512 + 3072 = 3584 MiB of 2048
    documents = shown(capsys, tmp_path, sharing(cache(0, 0), 3 * GIB), series([0, 8, 16]))
    assert evicted(documents) == [[], [], ["infer"]]
    assert documents[2]["plan"]["evictions"][0]["breach"] == "shared"


def test_an_upper_bound_is_shown_and_accuses_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = shown(capsys, tmp_path, sharing(None, 3 * GIB), series([0, 8, 16, 24]))
    for document in documents:
        assert held_host(document) == {"infer": 3 * GIB}
        assert states(document) == {"infer": "ok"}
        assert document["plan"]["evictions"] == []
        assert held_codes(document) == {}


def test_an_upper_bound_does_not_protect_from_a_gpu_breach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = shown(capsys, tmp_path, sharing(None, 3 * GIB, gpu_mib=1500), series([0, 8, 16]))
    assert evicted(documents) == [[], [], ["infer"]]
    assert documents[2]["plan"]["evictions"][0]["breach"] == "gpu"


def test_an_upper_bound_within_the_budget_is_within_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = show(capsys, tmp_path, sharing(None, GIB))
    assert states(document) == {"infer": "ok"}
    assert held_host(document) == {"infer": GIB}


@pytest.mark.parametrize("text", ["", "max", "-5", "12x", "1.5", " "])
def test_a_figure_that_is_no_number_is_unknown(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {**sharing(cache(0, 0), 0), f"host/sys/fs/cgroup{V2_LAYOUTS['systemd'][0]}/memory.current": text}
    document = show(capsys, tmp_path, files)
    assert held_host(document) == {"infer": None}
    assert held_gpu(document) == {"infer": 512 * MIB}


def test_more_page_cache_than_memory_is_not_below_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The two files are read one after the other; between them the cache may have grown.
    document = show(capsys, tmp_path, sharing(cache(300 * MIB, 0), 200 * MIB))
    assert held_host(document)["infer"] in (0, None)


def test_an_own_group_of_zero_is_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert held_host(show(capsys, tmp_path, sharing(cache(0, 0), 0))) == {"infer": 0}


# Which memory counts where


def test_a_containers_limit_says_nothing_of_the_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # mudler/vllm.cpp#357, GB10: 12 GiB of CUDA memory, memory.current 409 MiB, and oom_kill 0
    group, container = V2_LAYOUTS["systemd"]
    files = {
        **gb10(entry(4242, 12 * GIB)),
        **memory_v2(group, 409 * MIB, cache(0, 0)),
        f"host/sys/fs/cgroup{group}/memory.max": f"{8 * GIB}\n",
        f"host/sys/fs/cgroup{group}/memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
        **task(4242, f"0::{group}/{container}"),
        **cluster(simple(1, "infer", "8Gi")),
    }
    document = show(capsys, tmp_path, files)
    assert (held_gpu(document), held_host(document)) == ({"infer": 12 * GIB}, {"infer": 409 * MIB})
    assert states(document) == {"infer": "breach"}


def test_managed_memory_is_the_hosts_on_a_gb10(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # gpuopenanalytics/pynvml#63: 60 GB of cudaMallocManaged are shown as 5 GB. UVM pages are charged to the group
    # (open-gpu-kernel-modules, uvm_mem.c), so 5 + 60 GiB are held, of 40 in all: gpu 30, memory 40 -> host part 10.
    group, container = V2_LAYOUTS["systemd"]
    files = {
        **gb10(entry(4242, 5 * GIB)),
        **memory_v2(group, 60 * GIB, cache(0, 0)),
        **task(4242, f"0::{group}/{container}"),
        **cluster(simple(1, "infer", "30Gi", "40Gi")),
    }
    documents = shown(capsys, tmp_path, files, series([0, 8, 16]))
    assert held_gpu(documents[0]) == {"infer": 5 * GIB}
    assert held_host(documents[0]) == {"infer": 60 * GIB}
    assert documents[0]["pods"][0]["total_budget_bytes"] == 40 * GIB
    assert evicted(documents) == [[], [], ["infer"]]
    assert documents[2]["plan"]["evictions"][0]["breach"] == "shared"


def test_on_a_card_host_bytes_are_information(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group, container = V2_LAYOUTS["systemd"]
    files = {
        **cards(card(entry(4242, GIB), used=GIB)),
        **memory_v2(group, 60 * GIB, cache(0, 0)),
        **task(4242, f"0::{group}/{container}"),
        **cluster(simple(1, "infer", "2Gi", "4Gi")),
    }
    documents = shown(capsys, tmp_path, files, series([0, 8, 16, 24]))
    assert held_host(documents[0]) == {"infer": 60 * GIB}
    assert [states(document) for document in documents] == [{"infer": "ok"}] * 4
    assert evicted(documents) == [[], [], [], []]


def test_rss_is_in_no_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A process maps 12 GiB of the GPU's memory: VmRSS has them, the group has not. 4096-byte pages in statm.
    group, container = V2_LAYOUTS["systemd"]
    files = {
        **board(),
        **memory_v2(group, 100 * MIB, cache(0, 0)),
        **task(4242, f"0::{group}/{container}"),
        "host/proc/4242/status": f"Name:\tinfer\nVmSize:\t{20 * GIB // KIB} kB\nVmRSS:\t{12 * GIB // KIB} kB\n",
        "host/proc/4242/statm": f"{20 * GIB // 4096} {12 * GIB // 4096} 0 0 0 0 0\n",
        **cluster(simple(1, "infer")),
    }
    document = show(capsys, tmp_path, files)
    assert (held_gpu(document), held_host(document)) == ({"infer": 512 * MIB}, {"infer": 100 * MIB})


Maker = Callable[..., Files]


@pytest.mark.parametrize("made", [memory_v2, memory_v1], ids=["v2", "v1"])
def test_two_pods_side_by_side_keep_apart(made: Maker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        **board(),
        **made(
            f"/kubepods/burstable/pod{uid(1)}",
            100 * MIB,
            {"total_active_file": 0, "total_inactive_file": 0} | cache(0, 0),
        ),
        **made(f"/kubepods/pod{uid(2)}", 700 * MIB, {"total_active_file": 0, "total_inactive_file": 0} | cache(0, 0)),
        **made("/kubepods/burstable", 100 * MIB, {}),
        **made("/kubepods", 800 * MIB, {}),
    }
    document = show(capsys, tmp_path, files, cluster(simple(1, "one"), simple(2, "two")))
    assert held_host(document) == {"one": 100 * MIB, "two": 700 * MIB}


def test_two_containers_have_their_own_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = f"/kubepods/burstable/pod{U}"
    pod = tenant("two", U, {"web": cid(1), "infer": cid(2)}, limits={"infer": {KEY: "1Gi"}})
    files = {
        **orin(table(client(b"infer", 4242, 1024))),
        **memory_v2(group, 1000 * MIB, cache(100 * MIB, 0)),
        **memory_v2(f"{group}/{cid(1)}", 300 * MIB, cache(50 * MIB, 0)),
        **memory_v2(f"{group}/{cid(2)}", 500 * MIB, cache(0, 50 * MIB)),
        **task(4242, f"0::{group}/{cid(2)}"),
        **cluster(pod),
    }
    document = show(capsys, tmp_path, files)
    assert held_host(document) == {"two": 900 * MIB}
    assert by_container(document, "two", "host_bytes") == {"web": 250 * MIB, "infer": 450 * MIB}
    assert by_container(document, "two") == {"web": 0, "infer": MIB}


@pytest.mark.parametrize("page", [4096, 16384, 65536])
def test_the_page_size_changes_no_host_figure(page: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = {"format": 1, "taken": "2026-01-31T12:00:00Z", "node": "edge-07", "arch": "aarch64", "page_size": page}
    files = {**sharing(cache(100 * MIB, 100 * MIB), GIB), "snapshot.yaml": about}
    assert held_host(show(capsys, tmp_path, files)) == {"infer": 824 * MIB}


def test_each_frame_is_a_fresh_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Frames two seconds apart, in which the pod and its container grow from 1000 to 3000 MiB.
    group, container = V2_LAYOUTS["systemd"]
    grown = [
        {
            **memory_v2(group, mib * MIB, cache(0, 0)),
            **memory_v2(f"{group}/{container}", mib * MIB, cache(0, 0)),
        }
        for mib in (1000, 2000, 3000)
    ]
    documents = shown(capsys, tmp_path, sharing(cache(0, 0), 0), grown[0], series([0, 2, 4], *grown))
    assert [held_host(document)["infer"] for document in documents] == [1000 * MIB, 2000 * MIB, 3000 * MIB]
    assert [by_container(document, "infer", "host_bytes")["main"] for document in documents] == [
        1000 * MIB,
        2000 * MIB,
        3000 * MIB,
    ]


def test_a_pods_group_that_appears_in_a_later_frame_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A pod is made at second 2, below a slice that was not there before.
    files = {**board(), **task(4242, "0::/system.slice/gdm.service"), **cluster(simple(1, "old"), simple(2, "new"))}
    later = memory_v2(f"/kubepods/burstable/pod{uid(2)}", 700 * MIB, cache(0, 0))
    documents = shown(
        capsys, tmp_path, files, memory_v2(f"/kubepods.slice/kubepods-pod{S}.slice", 100 * MIB, cache(0, 0)),
        series([0, 2, 4], {}, later, later),
    )  # fmt: skip
    assert [held_host(document) for document in documents] == [
        {"old": 100 * MIB, "new": None},
        {"old": 100 * MIB, "new": 700 * MIB},
        {"old": 100 * MIB, "new": 700 * MIB},
    ]


def test_a_pods_group_that_goes_is_unknown_and_not_what_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = f"/kubepods/burstable/pod{U}"
    files = {**board(), **memory_v2(group, 700 * MIB, cache(0, 0)), **cluster(simple(1, "web"))}
    gone = {"removed.txt": f"host/sys/fs/cgroup{group}\n"}
    documents = shown(capsys, tmp_path, files, series([0, 2, 4], {}, gone))
    assert [held_host(document)["web"] for document in documents] == [700 * MIB, None, 700 * MIB]
