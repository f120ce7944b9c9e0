"""Whose memory it is: pods that come and go, containers that restart, pids that are used again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.holders import (
    CLIENTS,
    KERNEL_THREAD,
    KTHREADD,
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
    in_pod,
    listed,
    memory_v2,
    orin,
    running,
    series,
    show,
    shown,
    simple,
    states,
    table,
    task,
    tells,
    tenant,
    thor,
    uid,
    without,
)
from tests.cases.making import GIB, KEY, MIB, about, device, meminfo, node, nvml

SYSTEM = "0::/system.slice/gdm.service"
HASH = "0123456789abcdef0123456789abcdef"
MIRROR = {"kubernetes.io/config.hash": HASH, "kubernetes.io/config.mirror": HASH, "kubernetes.io/config.source": "file"}


def pod_task(number: int, pid: int, **keys: Any) -> Files:
    """A process in pod ``number``, with the GPU open."""
    return task(pid, in_pod(uid(number), cid(number)), **{"fds": ("/dev/nvidia0",), **keys})


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
    assert document["host"]["system_gpu_bytes"] in (0, None)
    assert document["host"]["unattributed_gpu_bytes"] in (2 * GIB, None)
    assert held_gpu(document)["pod-a"] in (0, None)


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
    assert held_gpu(document)["pod-a"] in (3 * GIB, None)
    assert document["host"]["system_gpu_bytes"] in (0, None)
    assert document["plan"]["held"] == []


# Identity is pid and start time (giampaolo/psutil#1724, shirou/gopsutil#837)


def big(pid: int = 4242) -> Files:
    """A card on which this process holds 5 GiB."""
    return cards(card(entry(pid, 5 * GIB), used=5 * GIB))


TWO_SMALL = cluster(simple(1, "pod-a", "4Gi"), simple(2, "pod-b", "4Gi"))


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
    assert document["host"]["unattributed_gpu_bytes"] in (0, None)


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


# Static pods (vectordotdev/vector#6001, DataDog/datadog-agent#45408)


@pytest.mark.parametrize(
    "line",
    [
        f"0::/kubepods/burstable/pod{HASH}/{cid(1)}",
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{HASH}.slice/cri-containerd-{cid(1)}.scope",
        f"0::/system.slice/k3s.service/kubepods-pod{HASH}.slice:cri-containerd:{cid(1)}",
    ],
)
def test_a_static_pod_is_found_by_its_hash_and_never_evicted(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = [{"kind": "Node", "name": "edge-07", "apiVersion": "v1", "uid": "n", "controller": True}]
    pod = simple(1, "static-edge-07", "1Gi", annotations=MIRROR, ownerReferences=owner)
    documents = shown(capsys, tmp_path, big(), task(4242, line), cluster(pod), series([0, 8, 16, 24]))
    assert held_gpu(documents[0]) == {"static-edge-07": 5 * GIB}
    assert by_container(documents[0], "static-edge-07") == {"main": 5 * GIB}
    assert states(documents[0]) == {"static-edge-07": "protected"}
    assert evicted(documents) == [[]] * 4
    assert documents[-1]["host"]["leaving_bytes"] == 0


def test_a_hash_that_no_pod_has_is_no_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"0::/kubepods/burstable/pod{'f' * 32}/{cid(1)}"
    document = show(capsys, tmp_path, big(), task(4242, line), cluster(simple(1, "static", annotations=MIRROR)))
    assert held_gpu(document) == {"static": 0}
    assert document["host"]["system_gpu_bytes"] == 0


# Containers (Project-HAMi/HAMi#863, #3079)

FETCH, PROXY, WEB, INFER, OLD, DEBUG = (cid(number) for number in (21, 22, 23, 24, 25, 26))


def service(**changes: Any) -> dict[str, Any]:
    """A pod of an init container, a sidecar, web and infer, whose statuses are in another order than its spec."""
    status: dict[str, Any] = {
        "containerStatuses": [running("infer", INFER), running("web", WEB)],
        "initContainerStatuses": [
            running("proxy", PROXY),
            {"name": "fetch", "containerID": f"containerd://{FETCH}", "state": {"terminated": {"exitCode": 0}}},
        ],
        **changes,
    }
    spec = {"initContainers": [{"name": "fetch"}, {"name": "proxy", "restartPolicy": "Always"}]}
    limits = {"infer": {KEY: "4Gi"}}
    return tenant("svc", uid(1), {"web": WEB, "infer": INFER}, limits=limits, spec=spec, status=status)


def unified(*held: tuple[int, int], **keys: Any) -> Files:
    """An Orin whose processes hold so many MiB."""
    return orin(table(*(client(b"infer", pid, mib * 1024) for pid, mib in held)), **keys)


def test_the_figure_is_its_containers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = show(capsys, tmp_path, unified((4242, 3000)), task(4242, in_pod(uid(1), INFER)), cluster(service()))
    assert held_gpu(document) == {"svc": 3000 * MIB}
    found = by_container(document, "svc")
    assert (found["infer"], found["web"]) == (3000 * MIB, 0)


def test_a_sidecars_memory_is_the_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {**unified((4242, 3000), (77, 500)), **task(4242, in_pod(uid(1), INFER)), **task(77, in_pod(uid(1), PROXY))}
    document = show(capsys, tmp_path, files, cluster(service()))
    assert held_gpu(document) == {"svc": 3500 * MIB}
    assert by_container(document, "svc")["proxy"] == 500 * MIB
    assert document["host"]["leaving_bytes"] == 0


def test_an_init_container_at_work_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The pod is still in its init phase: fetch runs and warms up an engine, the others wait.
    pod = service(
        initContainerStatuses=[running("fetch", FETCH), running("proxy", None)],
        containerStatuses=[running("web", None), running("infer", None)],
        phase="Pending",
    )
    document = show(capsys, tmp_path, unified((4242, 700)), task(4242, in_pod(uid(1), FETCH)), cluster(pod))
    assert held_gpu(document) == {"svc": 700 * MIB}
    assert document["host"]["leaving_bytes"] == 0


def test_an_ephemeral_container_counts_to_the_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = service(ephemeralContainerStatuses=[running("debugger", DEBUG)])
    pod["spec"]["ephemeralContainers"] = [{"name": "debugger", "targetContainerName": "infer"}]
    files = {**unified((4242, 3000), (77, 500)), **task(4242, in_pod(uid(1), INFER)), **task(77, in_pod(uid(1), DEBUG))}
    document = show(capsys, tmp_path, files, cluster(pod))
    assert held_gpu(document) == {"svc": 3500 * MIB}
    assert document["host"]["leaving_bytes"] == 0


def restarted() -> dict[str, Any]:
    """The pod after infer was restarted: its former id is in lastState."""
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "containerID": f"containerd://{OLD}"}}
    return service(containerStatuses=[running("infer", INFER, restartCount=1, lastState=ended), running("web", WEB)])


def test_a_former_containers_memory_is_leaving(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 3000 + 3000 MiB would be over 4Gi; the old 3000 are on their way out.
    files = {
        **unified((4242, 3000), (4000, 3000)),
        **task(4242, in_pod(uid(1), INFER)),
        **task(4000, in_pod(uid(1), OLD)),
    }
    documents = shown(capsys, tmp_path, files, cluster(restarted()), series([0, 8, 16, 24]))
    for document in documents:
        assert held_gpu(document) == {"svc": 3000 * MIB}
        assert by_container(document, "svc")["infer"] == 3000 * MIB
        assert document["host"]["leaving_bytes"] == 3000 * MIB
        assert document["host"]["system_gpu_bytes"] == 0
    assert evicted(documents) == [[]] * 4


def test_a_former_containers_memory_is_leaving_while_another_container_never_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # web cannot be pulled for hours, so that one id of the pod is not known. OLD is known, as infer's former one.
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "containerID": f"containerd://{OLD}"}}
    waiting = {"name": "web", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    pod = service(containerStatuses=[running("infer", INFER, restartCount=1, lastState=ended), waiting])
    files = {
        **unified((4242, 3000), (4000, 3000)),
        **task(4242, in_pod(uid(1), INFER)), **task(4000, in_pod(uid(1), OLD)),
    }  # fmt: skip
    documents = shown(capsys, tmp_path, files, cluster(pod), series([0, 8, 16]))
    assert evicted(documents) == [[]] * 3
    assert held_gpu(documents[0]) == {"svc": 3000 * MIB}
    assert documents[0]["host"]["leaving_bytes"] == 3000 * MIB


def test_a_container_that_is_down_leaves_its_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # CrashLoopBackOff: no current process of infer, and its last id is still in use by one that hangs.
    ended = {"terminated": {"exitCode": 1, "containerID": f"containerd://{OLD}"}}
    waiting = {"name": "infer", "containerID": f"containerd://{OLD}", "lastState": ended,
               "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3}  # fmt: skip
    pod = service(containerStatuses=[waiting, running("web", WEB)])
    document = show(capsys, tmp_path, unified((4000, 3000)), task(4000, in_pod(uid(1), OLD), state="D"), cluster(pod))
    # Ended and still holding: leaving, or the pod's, but counted once and nobody else's.
    held = held_gpu(document)["svc"]
    assert held is not None
    assert held + document["host"]["leaving_bytes"] == 3000 * MIB
    assert document["host"]["system_gpu_bytes"] == 0


@pytest.mark.parametrize(
    "statuses",
    [
        [],
        [running("web", None), running("infer", None)],
        [running("web", WEB), running("infer", None)],
    ],
    ids=["none yet", "both to come", "one to come"],
)
def test_a_container_that_the_status_does_not_have_yet_is_the_pods(
    statuses: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The kubelet tells of a container after it has started it. Until then its id is new, not former.
    pod = service(containerStatuses=statuses, phase="Pending" if len(statuses) == 0 else "Running")
    document = show(capsys, tmp_path, unified((4242, 5000)), task(4242, in_pod(uid(1), INFER)), cluster(pod))
    assert held_gpu(document) == {"svc": 5000 * MIB}
    assert states(document) == {"svc": "breach"}
    assert document["host"]["leaving_bytes"] == 0


# Pods that go


def terminating(number: int, name: str, **keys: Any) -> dict[str, Any]:
    """A pod that was deleted 40 s ago with a grace of 600 s."""
    # Deletion timestamps are the end of the grace: 12:00:00 − 40 s + 600 s.
    return simple(number, name, "4Gi", deletionTimestamp="2026-01-31T12:09:20Z", deletionGracePeriodSeconds=600, **keys)


def test_a_terminating_pods_memory_is_leaving(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # NVIDIA/k8s-device-plugin#335: teardown takes minutes. 20 GiB + 1 GiB of host memory go with it.
    files = {
        **unified((4242, 20 * 1024), (5151, 4500)),
        **pod_task(1, 4242), **pod_task(2, 5151),
        **memory_v2(f"/kubepods/burstable/pod{uid(1)}", GIB, cache(0, 0)),
        **cluster(terminating(1, "pod-a"), simple(2, "pod-b", "4500Mi")),
    }  # fmt: skip
    documents = shown(capsys, tmp_path, files, series([0, 8, 16, 24, 32, 40]))
    for document in documents:
        assert held_gpu(document) == {"pod-a": 20 * GIB, "pod-b": 4500 * MIB}
        assert states(document) == {"pod-a": "terminating", "pod-b": "ok"}
        assert document["host"]["leaving_bytes"] == 21 * GIB
    assert evicted(documents) == [[]] * 6


def test_no_second_victim_while_the_first_one_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # pod-a is far over and goes at 16. pod-b is over as well, and waits for pod-a's processes.
    files = {
        **unified((4242, 20 * 1024), (5151, 5000)), **pod_task(1, 4242), **pod_task(2, 5151),
        **cluster(simple(1, "pod-a", "4Gi"), simple(2, "pod-b", "4Gi")),
    }  # fmt: skip
    documents = shown(capsys, tmp_path, files, series([0, 8, 16, 24, 32, 40]))
    assert evicted(documents) == [[], [], ["pod-a"], [], [], []]
    assert states(documents[3]) == {"pod-a": "terminating", "pod-b": "breach"}
    assert documents[3]["host"]["leaving_bytes"] == 20 * GIB
    assert held_codes(documents[5])[uid(2)] in ("one-at-a-time", "releasing")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pods_leftover_is_leaving(phase: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = simple(1, "job", "1Gi", status={"phase": phase, "reason": "UnexpectedAdmissionError"})
    files = {**unified((4242, 3000), (5151, 100)), **pod_task(1, 4242), **pod_task(2, 5151)}
    documents = shown(capsys, tmp_path, files, cluster(done, simple(2, "pod-b", "1Gi")), series([0, 8, 16]))
    for document in documents:
        assert held_gpu(document) == {"pod-b": 100 * MIB}
        assert document["host"]["leaving_bytes"] == 3000 * MIB
        assert document["host"]["system_gpu_bytes"] == 0
    assert evicted(documents) == [[]] * 3


def test_a_pod_that_the_api_no_longer_has_is_leaving(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {**unified((4242, 3000)), **pod_task(77, 4242)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "pod-a")))
    assert held_gpu(document) == {"pod-a": 0}
    assert document["host"]["leaving_bytes"] == 3000 * MIB
    assert document["host"]["system_gpu_bytes"] == 0
    assert document["host"]["unattributed_gpu_bytes"] == 0


def test_a_pod_of_the_same_name_starts_with_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # kubernetes/kubernetes#64923: db-0 came back with another uid, and its predecessor's process still hangs.
    before = {"cluster/pods.json": cluster(simple(1, "db-0", "1Gi"))["cluster/pods.json"]}
    files = {**unified((4242, 3000)), **pod_task(1, 4242), **cluster(simple(2, "db-0", "1Gi"))}
    documents = shown(capsys, tmp_path, files, series([0, 8, 16, 24], before, before))
    assert [held_gpu(document) for document in documents] == [{"db-0": 3000 * MIB}] * 2 + [{"db-0": 0}] * 2
    assert [document["host"]["leaving_bytes"] for document in documents] == [0, 0, 3000 * MIB, 3000 * MIB]
    assert evicted(documents) == [[]] * 4


def test_without_a_cluster_there_are_no_pods_and_no_victims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = show(capsys, tmp_path, unified((4242, 3000), (900, 100)), pod_task(1, 4242), task(900, SYSTEM))
    assert document["pods"] == []
    assert document["host"]["system_gpu_bytes"] == 100 * MIB
    assert document["plan"]["evictions"] == []


# Several pods on one card (NVIDIA/dcgm-exporter#151, #186, #201, #307, #582; NVIDIA/k8s-device-plugin#323, #732)


def test_three_pods_that_share_a_t4_hold_what_their_processes_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # T4: 15109 MiB. Ids like GPU-…::3 and a count of 50 replicas say nothing of memory.
    shared = {"limits": {"nvidia.com/gpu.shared": "1"}}
    pods = [simple(number, f"pod-{number}") for number in (1, 2, 3)]
    for pod in pods:
        pod["spec"]["containers"][0]["resources"] = shared
        pod["metadata"]["annotations"] = {"kubernetes.io/device-ids": f"GPU-bbbb::{pod['metadata']['name'][-1]}"}
    files = {
        **cards(card(entry(4242, 9000 * MIB), entry(5151, 4000 * MIB), total=15109 * MIB, used=13000 * MIB)),
        **pod_task(1, 4242), **pod_task(2, 5151), **cluster(*pods),
        "cluster/node.json": node({"nvidia.com/gpu.shared": "50"}),
    }  # fmt: skip
    document = show(capsys, tmp_path, files)
    assert held_gpu(document) == {"pod-1": 9000 * MIB, "pod-2": 4000 * MIB, "pod-3": 0}
    assert [pool["total_bytes"] for pool in document["pools"]] == [15109 * MIB]
    assert document["host"]["unattributed_gpu_bytes"] == 0
    assert document["host"]["system_gpu_bytes"] == 0


def test_the_display_and_two_pods_on_one_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 2000 + 3000 + 400 = 5400; 600 MiB more are used, and nobody is listed for them
    lists: dict[str, Any] = {"graphics": listed(entry(900, 400 * MIB))}
    files = {
        **cards(card(entry(4242, 2000 * MIB), entry(5151, 3000 * MIB), used=6000 * MIB, **lists)),
        **pod_task(1, 4242), **pod_task(2, 5151), **task(900, SYSTEM, name="Xorg"), **TWO_SMALL,
    }  # fmt: skip
    document = show(capsys, tmp_path, files)
    assert held_gpu(document) == {"pod-a": 2000 * MIB, "pod-b": 3000 * MIB}
    assert document["host"]["system_gpu_bytes"] == 400 * MIB
    assert document["host"]["unattributed_gpu_bytes"] == 600 * MIB


def test_many_processes_of_one_pod_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Two containers, three processes: 100 + 200 in infer, 400 in web
    files = {
        **unified((4242, 100), (4243, 200), (4244, 400)),
        **task(4242, in_pod(uid(1), INFER)), **task(4243, in_pod(uid(1), INFER)), **task(4244, in_pod(uid(1), WEB)),
    }  # fmt: skip
    document = show(capsys, tmp_path, files, cluster(service()))
    assert held_gpu(document) == {"svc": 700 * MIB}
    assert {key: value for key, value in by_container(document, "svc").items() if value} == {
        "infer": 300 * MIB, "web": 400 * MIB,
    }  # fmt: skip


def test_a_board_with_both_kinds_of_memory_keeps_them_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # IGX Thor with a card (NVIDIA/daqiri#241): 4242 holds 2 GiB of the board's and 7 GiB of the card's memory.
    chip = device("NVIDIA Thor", "aaaaaaaa-0000-4000-8000-000000000001", compute=listed(entry(4242, 2 * GIB)))
    files = {
        **thor(),
        "nvml.json": nvml(chip, card(entry(4242, 7 * GIB), entry(5151, GIB), used=8 * GIB)),
        **pod_task(1, 4242), **pod_task(2, 5151), **TWO_SMALL,
    }  # fmt: skip
    document = show(capsys, tmp_path, files)
    assert document["board"]["kind"] == "mixed"
    assert held_gpu(document) == {"pod-a": None, "pod-b": None}
    figures = {
        pod["name"]: {pool["resource"].split("/")[1]: pool["gpu_bytes"] for pool in pod["pools"]}
        for pod in document["pods"]
    }
    assert figures == {
        "pod-a": {"gpu-memory": 7 * GIB, "igpu-memory": 2 * GIB},
        "pod-b": {"gpu-memory": GIB, "igpu-memory": 0},
    }
    assert by_container(document, "pod-a") == {"main": 9 * GIB}


# Used without a request (NVIDIA/dcgm-exporter#138)


def unrequested() -> list[dict[str, Any]]:
    """Two pods that reach the GPU without asking: by environment and runtime class, and by privilege."""
    by_environment = simple(1, "by-env", spec={"runtimeClassName": "nvidia"})
    by_environment["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    privileged = simple(2, "privileged", spec={"volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}]})
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    return [by_environment, privileged]


@pytest.mark.parametrize(
    ("default_budget", "state", "budget"),
    [(None, "unbudgeted", None), ("0", "breach", 0), ("2Gi", "breach", 2 * GIB), ("4Gi", "ok", 4 * GIB)],
)
def test_a_pod_that_never_asked_has_what_it_holds(
    default_budget: str | None, state: str, budget: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        **cards(card(entry(4242, 3 * GIB), entry(5151, 3 * GIB), used=6 * GIB)),
        **pod_task(1, 4242), **pod_task(2, 5151), **cluster(*unrequested()),
        "config.yaml": {"policy": {"default_budget": default_budget}},
    }  # fmt: skip
    documents = shown(capsys, tmp_path, files, series([0, 8, 16]))
    assert held_gpu(documents[0]) == {"by-env": 3 * GIB, "privileged": 3 * GIB}
    assert set(states(documents[0]).values()) == {state}
    assert {pod["gpu_budget_bytes"] for pod in documents[0]["pods"]} == {budget}
    assert len(evicted(documents)[2]) == (1 if state == "breach" else 0)


# Who must not go, and what a breach is (kubernetes/kubernetes#39059, #73572; vllm-project/vllm#13131)


def test_what_cannot_go_is_passed_over_for_what_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    daemon = [{"kind": "DaemonSet", "name": "d", "apiVersion": "apps/v1", "uid": "d", "controller": True}]
    critical = {"priorityClassName": "system-node-critical", "priority": 2000001000}
    pods = [
        simple(1, "mirror", "4Gi", annotations=MIRROR),
        simple(2, "critical", "4Gi", spec=critical),
        simple(3, "daemon", "4Gi", ownerReferences=daemon),
        simple(4, "pod-a", "4Gi"),
    ]
    system = simple(5, "coredns", "4Gi")
    system["metadata"]["namespace"] = "kube-system"
    files = {
        **unified((101, 20 * 1024), (102, 12 * 1024), (103, 10 * 1024), (104, 5 * 1024), (105, 6 * 1024)),
        **task(101, f"0::/kubepods/burstable/pod{HASH}/{cid(1)}"),
        **{name: content for number in (2, 3, 4, 5) for name, content in pod_task(number, 100 + number).items()},
        **cluster(*pods, system),
    }
    documents = shown(capsys, tmp_path, files, series([0, 8, 16]))
    assert evicted(documents) == [[], [], ["pod-a"]]
    assert states(documents[0]) == {
        "coredns": "protected", "critical": "protected", "daemon": "breach", "mirror": "protected", "pod-a": "breach",
    }  # fmt: skip
    codes = held_codes(documents[2])
    assert {codes[uid(number)] for number in (1, 2, 5)} == {"protected"}
    assert codes[uid(3)] == "daemonset"


def samples(*mib: int | None) -> list[Files]:
    """A frame per figure of process 4242 on an Orin; None: the table is cut."""
    whole = [table(client(b"vllm", 4242, (one or 1) * 1024)) for one in mib]
    return [{CLIENTS: one[:-7] if value is None else one} for one, value in zip(whole, mib, strict=True)]


def watched(capsys: pytest.CaptureFixture[str], folder: Path, *mib: int | None) -> list[list[str]]:
    """Evictions in samples each 5 s of a pod with a budget of 10240 MiB."""
    base = {**unified((4242, 1)), **pod_task(1, 4242), **cluster(simple(1, "vllm", "10240Mi"))}
    at = [5.0 * number for number in range(len(mib))]
    return evicted(shown(capsys, folder, base, series(at, *samples(*mib))))


def test_peaks_that_never_last_are_no_breach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert watched(capsys, tmp_path, *[9000, 13000] * 8) == [[]] * 16


def test_a_breach_that_lasts_is_one_eviction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 10300 − 10240 = 60 MiB > tolerance of 0.5 % = 51.2 MiB; 15 s at the fourth sample
    assert watched(capsys, tmp_path, *[10300] * 12) == [[], [], [], ["vllm"], *[[]] * 8]


def test_within_the_tolerance_is_no_breach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 51 < 51.2 MiB
    assert watched(capsys, tmp_path, *[10291] * 12) == [[]] * 12


def test_a_missing_sample_pauses_the_window(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 0, 5 over (5 s); 10 missing; 15, 20, 25 over: 5 + 5 + 5 = 15 s at 25
    assert watched(capsys, tmp_path, 13000, 13000, None, 13000, 13000, 13000) == [[]] * 5 + [["vllm"]]


def test_another_pods_release_is_not_this_pods_breach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # vllm-project/vllm#46307: others free memory while this one measures. Its own figure does not move.
    frames = [
        {CLIENTS: table(client(b"a", 4242, 3000 * 1024), client(b"b", 5151, mib * 1024))} for mib in (3900, 100, 3900)
    ]
    files = {**unified((4242, 1)), **pod_task(1, 4242), **pod_task(2, 5151), **TWO_SMALL}
    documents = shown(capsys, tmp_path, files, series([0, 8, 16], *frames))
    assert [held_gpu(document)["pod-a"] for document in documents] == [3000 * MIB] * 3
    assert evicted(documents) == [[]] * 3


# A loader that outruns the poll (NVIDIA/open-gpu-kernel-modules#1358, nanoporetech/dorado#408)


def falling(*gib: int) -> list[Files]:
    """Samples of a GB10 on which available memory falls to these GiB while pod-a grows by as much."""
    return [
        {
            "host/proc/meminfo": meminfo(127600748, MemAvailable=one * 1024 * 1024),
            "nvml.json": gb10(entry(4242, (80 - one) * GIB))["nvml.json"],
        }
        for one in gib
    ]


def test_the_pod_that_outgrows_its_budget_goes_before_the_floor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 6 GiB/s, horizon 3 s, floor 8 GiB: usable − 18 < 8 below 26 GiB, at 22 and 16 (two readings). At 10 it is late.
    files = {
        **gb10(), **pod_task(1, 4242), "config.yaml": {"pressure": {"floor": "8Gi"}},
        **cluster(simple(1, "pod-a", "30Gi"), simple(2, "pod-b", "30Gi")),
    }  # fmt: skip
    documents = shown(capsys, tmp_path, files, series([0, 1, 2, 3, 4, 5], *falling(40, 34, 28, 22, 16, 10)))
    assert evicted(documents) == [[], [], [], [], ["pod-a"], []]
    assert [document["host"]["pressure"] for document in documents] == [False, False, False, False, True, True]
    # 80 − 16 GiB
    assert held_gpu(documents[4]) == {"pod-a": 64 * GIB, "pod-b": 0}


def test_under_the_floor_with_everybody_within_budget_nobody_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        **gb10(), **pod_task(1, 4242), "config.yaml": {"pressure": {"floor": "8Gi"}},
        **cluster(simple(1, "pod-a", "100Gi"), simple(2, "pod-b", "1Gi")),
    }  # fmt: skip
    documents = shown(capsys, tmp_path, files, series([0, 1, 2, 3, 4, 5], *falling(40, 34, 28, 22, 16, 5)))
    assert evicted(documents) == [[]] * 6
    assert documents[-1]["host"]["pressure"]


def test_a_pod_without_a_figure_does_not_go_under_pressure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blind = {"nvml.json": gb10(entry(4242, None))["nvml.json"]}
    frames = [{**frame, **blind} for frame in falling(40, 34, 28, 22, 16, 5)]
    files = {
        **gb10(),
        **pod_task(1, 4242),
        "config.yaml": {"pressure": {"floor": "8Gi"}},
        **cluster(simple(1, "pod-a", "1Gi")),
    }
    documents = shown(capsys, tmp_path, files, series([0, 1, 2, 3, 4, 5], *frames))
    assert evicted(documents) == [[]] * 6
    assert documents[-1]["host"]["pressure"]


# A node as full as it gets (kubernetes-client/python#545: an object with 100 images, 110 pods with managedFields)


def test_a_full_node_adds_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    managed = [{"manager": "kubelet", "operation": "Update", "fieldsV1": {f"f:field-{n}": {} for n in range(200)}}]
    pods = [simple(number, f"pod-{number:03}", managedFields=managed) for number in range(1, 111)]
    images = [{"names": [f"registry.example/image-{n}@sha256:{n:064x}"], "sizeBytes": n} for n in range(100)]
    full = node()
    full["status"]["images"] = [*images, {"names": None, "sizeBytes": 1}]
    # Process 4000 + n of pod n holds n MiB: 1 + … + 30 = 465
    holders = range(1, 31)
    files = {
        **unified(*((4000 + number, number) for number in holders)),
        **{name: content for number in holders for name, content in pod_task(number, 4000 + number).items()},
        **{name: content for pid in range(10000, 10200) for name, content in task(pid, SYSTEM).items()},
        **cluster(*pods), "cluster/node.json": full, "snapshot.yaml": about(),
    }  # fmt: skip
    document = show(capsys, tmp_path, files)
    held = held_gpu(document)
    assert held == {f"pod-{number:03}": number * MIB if number <= 30 else 0 for number in range(1, 111)}
    assert sum(one or 0 for one in held.values()) == 465 * MIB
    assert document["host"]["unattributed_gpu_bytes"] == 0
