"""Who holds what. Unknown, zero and not readable are three different answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent.facts import (
    GPU_MEMORY,
    IGPU_MEMORY,
    CgroupOwner,
    HostFacts,
    NvmapRow,
    NvmapTable,
    NvmlDevice,
    PodCgroup,
    Process,
    Reading,
)
from edgeagent.memory import pools, usage
from edgeagent.memory.board import detect
from edgeagent.memory.types import Usage
from tests.unit.factories import (
    GIB,
    MIB,
    ORIN_UUID,
    Held,
    Scene,
    card,
    card_scene,
    container,
    igpu,
    meminfo,
    nvml,
    orin_files,
    pod,
    processes,
)


def attributed(scene: Scene, host: HostFacts | None = None) -> Usage:
    facts = scene.facts()
    host = host or facts.host
    board = detect(host.files, host.nvml, host.meminfo.value)
    keys = pools.keys(board, per_device=False, mixed_before=False)
    return usage.attribute(keys, host, scene.pods)


def gpu(scene: Scene, name: str = "a", key: str = GPU_MEMORY) -> int | None:
    return attributed(scene).pods[f"uid-{name}"].gpu[key]


def in_pod(pid: int, name: str = "a", container_id: str | None = "main-id", process: str = "infer") -> Process:
    return Process(pid=pid, start_ticks=7, name=process, owner=CgroupOwner(f"uid-{name}", container_id))


def on_card(*devices: NvmlDevice, holders: tuple[Process, ...] = (), pods: tuple[Any, ...] = (pod(),)) -> Usage:
    """Usage on cards whose processes are ``holders``."""
    facts = card_scene(*devices, pods=pods).facts()
    host = replace(facts.host, processes={process.pid: process for process in holders})
    return attributed(card_scene(*devices, pods=pods), host)


# --- which source --------------------------------------------------------------------


def test_an_orin_counts_by_the_nvmap_table() -> None:
    scene = Scene(pods=(pod(),), held={"a": Held(gpu=1536 * MIB, host=409 * MIB)}, nvml=nvml(igpu()), system=50 * MIB)
    found = attributed(scene)
    assert found.pods["uid-a"].gpu == {GPU_MEMORY: 1536 * MIB}
    assert (found.pods["uid-a"].host, found.pods["uid-a"].host_exact) == (409 * MIB, True)
    assert (found.system_gpu, found.unattributed_gpu, found.leaving) == (50 * MIB, 0, 0)
    assert found.gpu_total == {GPU_MEMORY: 1586 * MIB}


def test_a_thor_counts_by_nvml_even_if_nvmap_has_rows() -> None:
    thor = igpu("NVIDIA Thor", uuid="GPU-1", compute=processes((4242, 2 * GIB)), graphics=processes())
    scene = Scene(pods=(pod(),), nvml=nvml(thor))
    host = replace(
        scene.facts().host,
        processes={4242: in_pod(4242)},
        nvmap=Reading(0.0, NvmapTable((NvmapRow("user", "infer", 4242, MIB),), MIB)),
    )
    assert attributed(scene, host).pods["uid-a"].gpu == {GPU_MEMORY: 2 * GIB}


@pytest.mark.parametrize(
    ("listed", "rows", "expected"),
    [
        ((0, 0), (MIB, 0), (MIB, 0)),  # zeros tell nothing beside a table that has bytes
        ((0, None), (MIB, GIB), (MIB, GIB)),
        ((0, 0), (0, 0), (0, 0)),  # but they stand beside one that has none
        ((0, 0), (), (0, 0)),
        ((0, 0), None, (0, 0)),  # and where there is no table
        ((0, None), None, (0, None)),
        ((GIB, 0), (MIB, MIB), (GIB, 0)),  # one value is enough
        ((None, None), (MIB, 0), (MIB, 0)),
        ((None, None), (0, 0), (None, None)),
    ],
)
def test_on_a_tegra_the_first_source_that_holds_a_value_counts(
    listed: tuple[int | None, ...], rows: tuple[int, ...] | None, expected: tuple[int | None, ...]
) -> None:
    pids = (4242, 5151)
    thor = igpu("NVIDIA Thor", uuid="GPU-1", compute=processes(), graphics=processes(*zip(pids, listed, strict=True)))
    table = None if rows is None else NvmapTable(tuple(map(_row, pids, rows)), sum(rows))
    scene = Scene(pods=(pod("a"), pod("b")), nvml=nvml(thor))
    host = replace(
        scene.facts().host,
        processes={4242: in_pod(4242), 5151: in_pod(5151, "b")},
        nvmap=Reading(0.0, table, "" if table else "there is no nvmap on this board"),
        gpu_node_holders=Reading(0.0, 2),
    )
    used = attributed(scene, host).pods
    assert (used["uid-a"].gpu[GPU_MEMORY], used["uid-b"].gpu[GPU_MEMORY]) == expected


def _row(pid: int, amount: int) -> NvmapRow:
    return NvmapRow("user", "infer", pid, amount)


def test_nobody_holds_a_device_node_so_nobody_holds_memory() -> None:
    assert gpu(Scene(pods=(pod(),))) == 0


@pytest.mark.parametrize("holders", [1, None])
def test_an_empty_table_on_a_busy_or_unseen_board_is_unknown(holders: int | None) -> None:
    scene = Scene(pods=(pod(),))
    host = replace(scene.facts().host, gpu_node_holders=Reading(0.0, holders))
    found = attributed(scene, host)
    assert found.pods["uid-a"].gpu == {GPU_MEMORY: None}
    assert (found.system_gpu, found.unattributed_gpu, found.trusted) == (None, None, False)
    assert found.pods["uid-a"].why


def test_a_table_that_cannot_be_read_is_unknown() -> None:
    found = attributed(Scene(pods=(pod(),), readable=False))
    assert found.pods["uid-a"].gpu == {GPU_MEMORY: None}
    assert "permission denied" in found.problems[0]


def test_handles_that_nobody_references_are_unattributed() -> None:
    scene = Scene(pods=(pod(),), held={"a": Held(gpu=100 * MIB)})
    host = scene.facts().host
    assert host.nvmap.value is not None
    more = replace(host, nvmap=Reading(0.0, replace(host.nvmap.value, total_bytes=130 * MIB)))
    found = attributed(scene, more)
    assert (found.unattributed_gpu, found.gpu_total[GPU_MEMORY]) == (30 * MIB, 130 * MIB)


@pytest.mark.parametrize(
    "rows",
    [
        ((4242, 9 * GIB),),  # more than the 8 GiB of the board
        ((4242, 5 * GIB), (5151, 5 * GIB)),  # together more
        ((4_194_305, MIB),),  # above the kernel's largest pid
    ],
)
def test_an_impossible_nvmap_table_is_unknown(rows: tuple[tuple[int, int], ...]) -> None:
    scene = Scene(pods=(pod(),))
    table = NvmapTable(tuple(NvmapRow("user", "x", *one) for one in rows), sum(amount for _, amount in rows))
    host = replace(scene.facts().host, nvmap=Reading(0.0, table), processes={4242: in_pod(4242)})
    assert attributed(scene, host).pods["uid-a"].gpu == {GPU_MEMORY: None}


def test_kernel_clients_of_nvmap_are_the_systems() -> None:
    scene = Scene(pods=(pod(),))
    table = NvmapTable((NvmapRow("nvhost", "kernel", 0, 7 * MIB),), 7 * MIB)
    found = attributed(scene, replace(scene.facts().host, nvmap=Reading(0.0, table)))
    assert found.system_gpu == 7 * MIB


# --- NVML lists ----------------------------------------------------------------------


def test_a_process_in_several_lists_counts_once_with_its_largest_figure() -> None:
    lists: dict[str, Any] = {
        "compute": processes((4242, 1536 * MIB)),
        "graphics": processes((4242, 1500 * MIB), (900, 50 * MIB)),
        "mps": processes((4242, 1400 * MIB)),
    }
    found = on_card(card(**lists), holders=(in_pod(4242), Process(pid=900, start_ticks=1, name="Xorg")))
    assert found.pods["uid-a"].gpu == {GPU_MEMORY: 1536 * MIB}
    assert found.system_gpu == 50 * MIB


def test_two_contexts_in_one_list_add_up_and_so_do_two_cards() -> None:
    one = card("GPU-1", compute=processes((4242, GIB), (4242, 2 * GIB)))
    two = card("GPU-2", minor=1, compute=processes((4242, 4 * GIB)))
    assert on_card(one, two, holders=(in_pod(4242),)).pods["uid-a"].gpu == {GPU_MEMORY: 7 * GIB}


def test_an_unknown_figure_is_neither_zero_nor_infinite() -> None:
    pods = (pod("a"), pod("b"))
    found = on_card(
        card(compute=processes((4242, None), (5151, 768 * MIB))),
        holders=(in_pod(4242), in_pod(5151, "b")),
        pods=pods,
    )
    assert found.pods["uid-a"].gpu == {GPU_MEMORY: None}
    assert found.pods["uid-b"].gpu == {GPU_MEMORY: 768 * MIB}
    assert found.gpu_total == {GPU_MEMORY: None}
    # What no process holds is what is in use without what processes hold, and that is not known.
    assert (found.system_gpu, found.unattributed_gpu) == (0, None)


def test_an_unknown_figure_of_a_host_process_makes_the_systems_unknown() -> None:
    found = on_card(card(compute=processes((900, None))), holders=(Process(pid=900, start_ticks=1, name="Xorg"),))
    assert found.system_gpu is None
    assert found.pods["uid-a"].gpu == {GPU_MEMORY: 0}


@pytest.mark.parametrize(
    "entries",
    [
        ((4242, GIB), (4_294_967_295, 5151)),  # the struct of another version
        ((4242, GIB), (0, 1)),
        ((4242, GIB), (5151, 46_068 * MIB + 1)),  # more than the card has
        ((4242, GIB), (5151, -1)),
        ((4242, 46_068 * MIB), (5151, 1)),  # together more
    ],
)
def test_one_impossible_entry_makes_the_whole_list_untrusted(entries: tuple[tuple[int, int], ...]) -> None:
    found = on_card(card(compute=processes(*entries)), holders=(in_pod(4242),))
    assert found.pods["uid-a"].gpu == {GPU_MEMORY: None}
    assert not found.trusted


@pytest.mark.parametrize(
    "lists",
    [
        {"compute": None},
        {"compute": processes(code=3)},
        {"compute": processes(code=999)},
        {"graphics": processes(code=4)},  # no permission: not empty but unread
        {"mps": processes(code=999)},
    ],
)
def test_a_list_that_was_not_read_is_unknown(lists: dict[str, Any]) -> None:
    assert on_card(card(**lists)).pods["uid-a"].gpu == {GPU_MEMORY: None}


@pytest.mark.parametrize("lists", [{"graphics": None}, {"graphics": processes(code=3)}, {"mps": processes(code=13)}])
def test_a_list_that_does_not_exist_is_empty(lists: dict[str, Any]) -> None:
    assert on_card(card(**lists)).pods["uid-a"].gpu == {GPU_MEMORY: 0}


def test_foreign_pids_are_nobodys() -> None:
    scene = card_scene(card(compute=processes((4242, GIB))), pods=(pod(),))
    host = replace(scene.facts().host, host_view=False, processes={4242: in_pod(4242)})
    assert attributed(scene, host).pods["uid-a"].gpu == {GPU_MEMORY: None}


def test_a_mixed_board_counts_each_pool_by_its_own_source() -> None:
    both = nvml(igpu(), card(compute=processes((5151, 3 * GIB)), minor=1))
    scene = Scene(pods=(pod(),), held={"a": Held(gpu=GIB)}, nvml=both)
    host = scene.facts().host
    host = replace(host, processes={**host.processes, 5151: in_pod(5151)})
    assert attributed(scene, host).pods["uid-a"].gpu == {GPU_MEMORY: 3 * GIB, IGPU_MEMORY: GIB}


# --- whose it is ---------------------------------------------------------------------


def test_a_process_that_is_gone_or_a_kernel_thread_is_nobodys() -> None:
    scene = Scene(pods=(pod(),), extra=((Process(pid=2, start_ticks=0, name="kthreadd", kernel=True), MIB),))
    assert attributed(scene).unattributed_gpu == MIB
    found = on_card(card(compute=processes((4242, GIB))))
    assert (found.unattributed_gpu, found.system_gpu) == (GIB, 0)


def test_an_unreadable_cgroup_is_nobodys() -> None:
    hidden = Process(pid=4242, start_ticks=7, name="infer", cgroup_readable=False)
    found = on_card(card(compute=processes((4242, GIB))), holders=(hidden,))
    assert (found.unattributed_gpu, found.system_gpu) == (GIB, 0)


def test_static_pods_are_found_by_the_hash_in_their_cgroup() -> None:
    static = pod("a", config_hash="0123456789abcdef0123456789abcdef", mirror=True)
    assert gpu(Scene(pods=(static,), held={"a": Held(gpu=GIB)})) == GIB


@pytest.mark.parametrize("which", ["unknown", "finished"])
def test_memory_of_a_pod_that_is_gone_is_leaving(which: str) -> None:
    pods = (pod("b"),) if which == "unknown" else (pod("a", phase="Succeeded"), pod("b"))
    scene = Scene(pods=pods, extra=((in_pod(4242), GIB),))
    host = replace(scene.facts().host, pods={"uid-a": PodCgroup(host_bytes=MIB, exact=True)})
    found = attributed(scene, host)
    assert (found.leaving, found.system_gpu, found.unattributed_gpu) == (GIB + MIB, 0, 0)
    assert list(found.pods) == ["uid-b"]


def test_memory_of_a_container_that_was_replaced_is_leaving_not_its_pods() -> None:
    scene = Scene(pods=(pod(),), held={"a": Held(gpu=GIB)}, extra=((in_pod(4242, container_id="old-id"), 3 * GIB),))
    found = attributed(scene)
    assert (found.pods["uid-a"].gpu[GPU_MEMORY], found.leaving) == (GIB, 3 * GIB)


def test_a_terminating_pod_keeps_its_figures_and_counts_as_leaving() -> None:
    scene = Scene(pods=(pod(terminating=True),), held={"a": Held(gpu=GIB, host=MIB)})
    found = attributed(scene)
    assert (found.pods["uid-a"].gpu[GPU_MEMORY], found.leaving) == (GIB, GIB + MIB)


def test_what_of_it_is_the_hosts_memory_on_a_board_with_both() -> None:
    """A card's bytes are shown, but do not come back to the memory of the board."""
    listed = card(minor=1, compute=processes((4242, 20 * GIB), (4243, 3 * GIB), (900, GIB)))
    thor = igpu("NVIDIA Thor", compute=processes((4244, 2 * GIB), (901, 64 * MIB)))
    holders = (in_pod(4242), in_pod(4243, "gone"), in_pod(4244, "gone"))
    outside = (Process(pid=900, start_ticks=1, name="Xorg"), Process(pid=901, start_ticks=1, name="weston"))
    scene = Scene(nvml=nvml(listed, thor), pods=(pod(terminating=True),), held={"a": Held(gpu=0, host=MIB)})
    host = replace(scene.facts().host, processes={process.pid: process for process in (*holders, *outside)})
    found = attributed(scene, host)
    # leaving: 20 GiB + 1 MiB of the terminating pod, 3 + 2 GiB of one that is gone
    assert (found.leaving, found.leaving_shared) == (25 * GIB + MIB, 2 * GIB + MIB)
    assert (found.system_gpu, found.system_shared) == (GIB + 64 * MIB, 64 * MIB)


def test_a_card_that_lists_nothing_does_not_hide_what_the_system_holds_of_the_shared_memory() -> None:
    thor = igpu("NVIDIA Thor", compute=processes((901, 64 * MIB)))
    scene = Scene(nvml=nvml(card(minor=1, compute=processes(code=999)), thor))
    outside = Process(pid=901, start_ticks=1, name="weston")
    found = attributed(scene, replace(scene.facts().host, processes={901: outside}))
    assert (found.system_gpu, found.system_shared) == (None, 64 * MIB)


def test_containers_by_their_current_id() -> None:
    both = (container("infer"), container("web"), container("fetch", "init", container_id=None))
    scene = Scene(pods=(pod(containers=both),), held={"a": Held(gpu=GIB, container_id="infer-id")})
    found = attributed(scene).pods["uid-a"]
    assert {name: use.gpu for name, use in found.containers.items()} == {"infer": GIB, "web": 0, "fetch": None}
    assert found.processes == ((next(iter(scene.facts().host.processes)), 7),)
    assert found.seen


def test_a_process_at_pod_level_counts_to_the_pod() -> None:
    assert gpu(Scene(pods=(pod(),), held={"a": Held(gpu=GIB, container_id=None)})) == GIB


# --- MPS -----------------------------------------------------------------------------


def test_clients_of_an_mps_server_without_a_figure_of_their_own_are_unknown() -> None:
    server = in_pod(700, "mps", process="nvidia-cuda-mps")
    pods = (pod("mps"), pod("client", gpu=GIB), pod("quiet"), pod("known", gpu=GIB))
    found = on_card(
        card(compute=processes((700, 11 * GIB)), mps=processes((4242, 2 * GIB))),
        holders=(server, in_pod(4242, "known")),
        pods=pods,
    )
    figures = {uid: use.gpu[GPU_MEMORY] for uid, use in found.pods.items()}
    assert figures == {"uid-mps": 11 * GIB, "uid-client": None, "uid-quiet": 0, "uid-known": 2 * GIB}
    assert [uid for uid, use in found.pods.items() if use.mps] == ["uid-mps"]


def test_an_igpu_that_nvml_lists_by_its_uuid() -> None:
    assert detect(orin_files(), Reading(0.0, nvml(igpu())), meminfo()).devices[0].uuid == ORIN_UUID


def test_without_a_list_of_pods_nobody_is_said_to_be_leaving() -> None:
    scene = Scene(pods=(pod("a", 2 * GIB),), held={"a": Held(gpu=GIB, host=100 * MIB)}, system=10 * MIB)
    host = scene.facts().host
    keys = pools.keys(detect(host.files, host.nvml, host.meminfo.value), per_device=False, mixed_before=False)
    alone = usage.attribute(keys, host, None)
    assert (alone.leaving, alone.unattributed_gpu, alone.system_gpu) == (0, GIB, 10 * MIB)
    assert usage.attribute(keys, host, ()).leaving == GIB + 100 * MIB
