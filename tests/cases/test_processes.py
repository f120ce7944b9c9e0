"""Whose process it is: host pids and foreign ones, pids that are used again, processes that end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.holders import (
    KERNEL_THREAD,
    KTHREADD,
    SYSTEM,
    TWO_SMALL,
    Files,
    big,
    cache,
    card,
    cards,
    cid,
    client,
    cluster,
    entry,
    evicted,
    gb10,
    held_gpu,
    in_pod,
    listed,
    memory_v2,
    orin,
    pod_task,
    series,
    show,
    shown,
    simple,
    states,
    table,
    task,
    tells,
    thor,
    uid,
    without,
)
from tests.cases.making import GIB, MIB, device, nvml

# The GPU's memory is in no cgroup (mudler/vllm.cpp#357, rwlove/home-ops#12497)


def quiet_cgroup(number: int, current: int) -> Files:
    """A pod's group of the systemd driver without page cache, and its limit of 12 GiB."""
    group = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid(number).replace('-', '_')}.slice"
    return {
        **memory_v2(group, current, cache(0, 0)),
        f"host/sys/fs/cgroup{group}/memory.max": "12884901888\n",
        f"host/sys/fs/cgroup{group}/memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
    }


def test_a_quiet_cgroup_does_not_clear_a_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 28390195200 bytes = 27075 MiB by NVML, 428867584 = 409 MiB by the group (3 % of its limit), against 13 GiB.
    line = in_pod(uid(1), cid(1))
    files = {
        **thor(entry(4242, 28390195200)),
        **task(4242, line, fds=("/dev/nvidia0",)),
        **memory_v2(f"/kubepods/burstable/pod{uid(1)}", 428867584, cache(0, 0)),
        **cluster(simple(1, "pod-a", "13Gi", "12Gi")),
    }
    documents = shown(capsys, tmp_path, files, series([0, 8, 16]))

    (pod,) = documents[0]["pods"]
    assert (pod["gpu_bytes"], pod["host_bytes"]) == (28390195200, 428867584)
    assert (pod["gpu_budget_bytes"], pod["state"]) == (13 * GIB, "breach")
    assert evicted(documents) == [[], [], ["pod-a"]]
    # Both parts stand in the reason: 27075 MiB and 409 MiB.
    message = documents[2]["plan"]["evictions"][0]["message"]
    assert tells(message, 28390195200)
    assert tells(message, 428867584)


def test_a_full_board_with_everybody_within_budget_evicts_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # GB10 in a home cluster: kubectl top 8 %, MemAvailable 11.8 of 121.6 GiB. That is what the board was bought for.
    files = {
        **gb10(entry(4242, 60 * GIB), entry(5151, 45 * GIB), rows={"MemAvailable": 12373196}),
        **pod_task(1, 4242),
        **pod_task(2, 5151),
        **quiet_cgroup(1, 409 * MIB),
        **cluster(simple(1, "one", "64Gi"), simple(2, "two", "48Gi")),
    }
    documents = shown(capsys, tmp_path, files, series([0, 8, 16, 24, 32, 40]))
    assert evicted(documents) == [[]] * 6
    assert all(document["plan"]["held"] == [] for document in documents)
    assert states(documents[-1]) == {"one": "ok", "two": "ok"}


# Host pids (NVIDIA/nvidia-docker#1483, Project-HAMi/HAMi-core#112)


def kernel_thread(pid: int) -> Files:
    """A kernel thread: flag and no address space."""
    return task(pid, "0::/", name="kworker/0:1", flags=0x04008060 | KERNEL_THREAD, memory=False, fds=())


def test_a_host_pid_is_looked_up_under_the_hosts_root(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        **KTHREADD,
        **cards(card(entry(4242, 2 * GIB), used=2 * GIB)),
        **pod_task(1, 4242),
        **task(1, "0::/init.scope"),
    }
    document = show(capsys, tmp_path, files, task(17, SYSTEM), cluster(simple(1, "pod-a")))
    assert held_gpu(document) == {"pod-a": 2 * GIB}


@pytest.mark.parametrize("name", ["systemd", "init", "launcher", "bash", "(sd-pam)"])
def test_the_first_process_may_have_any_name(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = task(1, "0::/init.scope", name=name)
    files = {**KTHREADD, **first, **cards(card(entry(4242, GIB), used=GIB)), **pod_task(1, 4242)}
    assert held_gpu(show(capsys, tmp_path, files, cluster(simple(1, "pod-a")))) == {"pod-a": GIB}


@pytest.mark.parametrize("board", ["card", "thor", "orin"])
def test_a_process_table_that_is_not_the_hosts_names_nobody(
    board: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Pid 2 is kthreadd on every host; here it is a shell, so this is a container's view: 4242 may be anybody.
    foreign = {**task(1, "0::/", name="edgeagent"), **task(2, "0::/", name="sh")}
    boards = {
        "card": cards(card(entry(4242, 3 * GIB), used=3 * GIB)),
        "thor": thor(entry(4242, 3 * GIB)),
        "orin": orin(table(client(b"infer", 4242, 3 * 1024 * 1024))),
    }
    files = {**boards[board], **foreign, **pod_task(1, 4242), **cluster(simple(1, "pod-a", "1Gi"))}
    for document in shown(capsys, tmp_path, files, series([0, 8, 16, 24])):
        assert held_gpu(document) == {"pod-a": None}
        assert states(document) == {"pod-a": "unknown"}
        assert document["host"]["system_gpu_bytes"] is None
        assert document["plan"]["evictions"] == []
        assert document["plan"]["held"] == []


@pytest.mark.parametrize("sign", ["flag", "no address space", "both"])
def test_a_kernel_thread_owns_no_gpu_memory(sign: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # NVML says 17, which on the host is a kernel thread: the number is a container's.
    thread = {
        "flag": task(17, "0::/", name="kworker/0:1", flags=0x04008060 | KERNEL_THREAD),
        # stat could not be read
        "no address space": {name: one for name, one in kernel_thread(17).items() if not name.endswith("/stat")},
        "both": kernel_thread(17),
    }[sign]
    files = {**KTHREADD, **cards(card(entry(17, 2 * GIB), used=2 * GIB)), **thread, **pod_task(1, 4242)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "pod-a", "1Gi")))
    assert document["host"]["system_gpu_bytes"] == 0
    assert document["host"]["unattributed_gpu_bytes"] == 2 * GIB
    # Whose memory it is cannot be told: a pod that may use the GPU may have it.
    assert held_gpu(document) == {"pod-a": None}


def test_a_process_whose_gpu_is_being_torn_down_still_holds_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # kernel/exit.c: do_exit drops the address space before the files, so that VmSize is gone while the driver still
    # frees. PF_EXITING is 4; the flag of kernel threads is not set, and it is no zombie yet.
    dying = pod_task(1, 4242, state="D", flags=0x400100 | 4, memory=False, fds=())
    document = show(capsys, tmp_path, big(), dying, TWO_SMALL)
    assert held_gpu(document) == {"pod-a": 5 * GIB, "pod-b": 0}


def test_lists_of_two_namespaces_do_not_accuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Driver 560.35.03: host pids in one list, a container's in the other. 4242 and 17 are the same process.
    lists: dict[str, Any] = {"graphics": listed(entry(17, 3 * GIB))}
    files = {
        **KTHREADD, **kernel_thread(17),
        **cards(card(entry(4242, 3 * GIB), used=3 * GIB, **lists)), **pod_task(1, 4242),
        **cluster(simple(1, "pod-a", "4Gi")),
    }  # fmt: skip
    document = show(capsys, tmp_path, files)
    assert held_gpu(document) == {"pod-a": 3 * GIB}
    assert document["host"]["system_gpu_bytes"] == 0
    assert document["plan"]["held"] == []


# Identity is pid and start time (giampaolo/psutil#1724, shirou/gopsutil#837)


def test_a_pid_used_again_inherits_no_breach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # pod-a is over at 0 and 8. From 14 on the number is pod-b's: over at 14, 22 and 30, so 16 s at 30.
    mine = pod_task(1, 4242, start=881234)
    other = pod_task(2, 4242, start=990001)
    replaced = {name: content for name, content in other.items() if "/fd/" not in name}
    files = {**big(), **mine, **TWO_SMALL}
    documents = shown(capsys, tmp_path, files, series([0, 8, 14, 22, 30], {}, {}, replaced, replaced, replaced))
    assert [held_gpu(document) for document in documents] == [{"pod-a": 5 * GIB, "pod-b": 0}] * 2 + [
        {"pod-a": 0, "pod-b": 5 * GIB}
    ] * 3
    assert evicted(documents) == [[], [], [], [], ["pod-b"]]


def test_a_jump_of_the_wall_clock_is_nobodys_birth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # btime of /proc/stat jumps by 56 years = 1767225600 s; the start in ticks is the same. 16 s over at 16.
    jump = {"host/proc/stat": "cpu  1 1 1 1 0 0 0 0 0 0\nbtime 3534451200\n"}
    files = {
        **big(),
        **pod_task(1, 4242),
        **TWO_SMALL,
        "host/proc/stat": "cpu  1 1 1 1 0 0 0 0 0 0\nbtime 1767225600\n",
    }
    documents = shown(capsys, tmp_path, files, series([0, 8, 16], {}, jump, jump))
    assert evicted(documents) == [[], [], ["pod-a"]]


@pytest.mark.parametrize(
    "name", ["(a) b (c", ") S 1 1 1 0 -1", "))))", "a b c d e f", "Z) Z 0 0 0", "python3 (worker)"]
)
def test_a_name_with_brackets_does_not_shift_the_fields(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # man 5 proc: the name ends at the last ")".
    files = {**big(), **pod_task(1, 4242, name=name, start=881234), **TWO_SMALL}
    assert held_gpu(show(capsys, tmp_path, files)) == {"pod-a": 5 * GIB, "pod-b": 0}


def test_a_restarted_process_of_the_same_pod_goes_on_with_its_pods_breach(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The pod is over all the time, whichever of its processes it is: the budget is the pod's.
    second = {name: content for name, content in pod_task(1, 4242, start=990001).items() if "/fd/" not in name}
    documents = shown(
        capsys, tmp_path, big(), pod_task(1, 4242, start=881234), TWO_SMALL, series([0, 8, 16], {}, second, second)
    )
    assert evicted(documents) == [[], [], ["pod-a"]]


# Processes that end (XuehaiPan/nvitop#152, giampaolo/psutil#2793, apache/mxnet#4242)


@pytest.mark.parametrize("board", ["card", "thor", "gb10"])
def test_a_listed_process_that_is_gone_is_unattributed(
    board: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = (entry(4242, 2 * GIB), entry(5151, GIB))
    boards = {"card": cards(card(*entries, used=3 * GIB)), "thor": thor(*entries), "gb10": gb10(*entries)}
    files = {**boards[board], **pod_task(2, 5151)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "pod-a", "1Gi"), simple(2, "pod-b", "2Gi")))
    assert held_gpu(document) == {"pod-a": 0, "pod-b": GIB}
    assert document["host"]["unattributed_gpu_bytes"] == 2 * GIB
    assert document["host"]["system_gpu_bytes"] == 0
    assert document["plan"]["held"] == []


@pytest.mark.parametrize("missing", ["cgroup", "stat", "status", "comm"])
def test_a_file_that_vanishes_half_way_harms_nobody(
    missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = {name: content for name, content in pod_task(1, 4242).items() if not name.endswith(f"/{missing}")}
    files = {**cards(card(entry(4242, 2 * GIB), entry(5151, GIB), used=3 * GIB)), **half, **pod_task(2, 5151)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "pod-a", "3Gi"), simple(2, "pod-b", "2Gi")))
    assert held_gpu(document)["pod-b"] == GIB
    assert document["host"]["system_gpu_bytes"] == 0
    if missing == "cgroup":
        assert held_gpu(document)["pod-a"] == 0
        assert document["host"]["unattributed_gpu_bytes"] == 2 * GIB


def test_a_zombie_still_belongs_to_its_container(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A zombie has no address space either (fs/proc/array.c prints VmSize only with an mm), and is no kernel thread.
    dead = pod_task(1, 4242, state="Z", flags=0x40014C, memory=False, fds=())
    files = {**big(), **dead, "host/proc/4242/cmdline": "", **TWO_SMALL}
    document = show(capsys, tmp_path, files)
    assert held_gpu(document) == {"pod-a": 5 * GIB, "pod-b": 0}
    assert document["host"]["unattributed_gpu_bytes"] == 0


def test_a_process_that_hangs_in_the_driver_belongs_to_its_container(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # microsoft/pai#3375: state D
    document = show(capsys, tmp_path, big(), pod_task(1, 4242, state="D"), TWO_SMALL)
    assert held_gpu(document) == {"pod-a": 5 * GIB, "pod-b": 0}


def test_memory_without_any_process_is_left_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = shown(capsys, tmp_path, cards(card(used=9 * GIB)), TWO_SMALL, series([0, 8, 16, 24]))
    for document in documents:
        assert held_gpu(document) == {"pod-a": 0, "pod-b": 0}
        assert document["host"]["unattributed_gpu_bytes"] == 9 * GIB
        assert document["plan"]["evictions"] == []
        assert document["plan"]["held"] == []


def test_what_the_driver_keeps_is_not_left_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # NVIDIA/dcgm-exporter#136: the first call counts the reserved 450 MiB as used, the second one does not.
    memory = {"code": 0, "total": 15109 * MIB, "used": 1474 * MIB, "free": 13635 * MIB}
    apart = {**memory, "used": 1024 * MIB, "reserved": 450 * MIB}
    device_ = card(entry(4242, 1000 * MIB), total=15109 * MIB, memory=memory, memory_v2=apart)
    document = show(capsys, tmp_path, cards(device_), pod_task(1, 4242), TWO_SMALL)
    # 1024 − 1000
    assert document["host"]["unattributed_gpu_bytes"] == 24 * MIB


def test_the_hosts_use_of_unified_memory_is_not_left_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # XuehaiPan/nvitop#208, Syllo/nvtop#449: some drivers answer the memory query on a GB10, with about the whole board
    # and everybody's use. 20 GiB used of which 5 are listed say nothing of the other 15.
    memory = {"code": 0, "total": 127600748 * 1024, "used": 20 * GIB, "free": 127600748 * 1024 - 20 * GIB}
    both: dict[str, Any] = {
        "memory": memory,
        "memory_v2": {**memory, "reserved": 0},
        "compute": listed(entry(4242, 5 * GIB)),
    }
    chip = device("NVIDIA GB10", "GPU-cccccccc-0000-4000-8000-000000000001", **both)
    document = show(capsys, tmp_path, gb10(), {"nvml.json": nvml(chip)}, pod_task(1, 4242), TWO_SMALL)
    assert held_gpu(document) == {"pod-a": 5 * GIB, "pod-b": 0}
    assert document["host"]["unattributed_gpu_bytes"] == 0


def test_figures_that_are_not_of_one_moment_leave_nothing_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The list was read after the device's figure, and the process grew by 24 MiB between the two.
    files = {**cards(card(entry(4242, GIB), used=1000 * MIB)), **pod_task(1, 4242)}
    document = show(capsys, tmp_path, files, TWO_SMALL)
    assert held_gpu(document) == {"pod-a": GIB, "pod-b": 0}
    assert document["host"]["unattributed_gpu_bytes"] == 0


def test_shared_memory_without_an_owner_evicts_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#193: 30 GiB of shmem stayed after an OOM kill.
    rows = {"Shmem": 31457280, "MemAvailable": 40 * 1024 * 1024}
    files = {**gb10(entry(4242, 3 * GIB), rows=rows), **pod_task(1, 4242), **TWO_SMALL}
    documents = shown(capsys, tmp_path, files, series([0, 8, 16, 24]))
    assert evicted(documents) == [[]] * 4
    assert states(documents[-1]) == {"pod-a": "ok", "pod-b": "ok"}


def test_a_process_that_ends_ends_the_breach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Over at 0 and 8, gone at 16 (its memory still there), nothing held: no breach.
    files = {**big(), **pod_task(1, 4242), **TWO_SMALL}
    documents = shown(capsys, tmp_path, files, series([0, 8, 16, 24], {}, {}, without(4242), without(4242)))
    assert evicted(documents) == [[]] * 4
    assert [document["host"]["unattributed_gpu_bytes"] for document in documents] == [0, 0, 5 * GIB, 5 * GIB]
