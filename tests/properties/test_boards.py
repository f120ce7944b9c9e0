"""What holds on every board: figures stay within the memory there is, come from a file, and move with nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.properties import boards as worlds
from tests.properties.boards import KEY, KIB, MIB, Board, Holder, boards, document

BOARDS = boards()


def pods_by_uid(answer: dict[str, Any]) -> dict[str, Any]:
    return {pod["uid"]: pod for pod in answer["pods"]}


# --- every number has a source -------------------------------------------------------


@settings(max_examples=80)
@given(BOARDS)
def test_every_figure_of_a_pool_is_what_its_definition_makes_of_the_files(board: Board) -> None:
    (pool,) = document(board)["pools"]
    lines = worlds.reserve_lines(board)
    assert pool["resource"] == KEY
    assert pool["total_bytes"] == worlds.pool_total(board)
    assert {line["name"]: line["bytes"] for line in pool["reserves"]} == lines
    assert pool["host_committed_bytes"] == sum(worlds.host_part(board, one) for one in board.tenants)
    assert pool["gpu_committed_bytes"] == sum((one.gpu_kib or 0) * KIB for one in board.tenants)
    assert pool["advertised_bytes"] == worlds.advertised(board)
    booked = pool["host_committed_bytes"] + pool["gpu_committed_bytes"]
    assert pool["overcommitted"] == (booked > pool["total_bytes"] - sum(lines.values()))


@settings(max_examples=80)
@given(BOARDS)
def test_every_figure_of_a_pod_is_the_sum_of_its_rows_and_its_own_cgroup(board: Board) -> None:
    found = pods_by_uid(document(board))
    assert set(found) == {one.uid for one in board.tenants}
    for tenant in board.tenants:
        pod = found[tenant.uid]
        expected = worlds.gpu_bytes(board, tenant.uid)
        host = (tenant.current_kib - tenant.file_kib) * KIB
        assert (pod["gpu_bytes"], pod["host_bytes"]) == (expected, host)
        assert pod["pools"] == [{"resource": KEY, "gpu_bytes": expected, "gpu_budget_bytes": pod["gpu_budget_bytes"]}]
        assert pod["containers"] == [{"name": "main", "gpu_bytes": expected, "host_bytes": host}]
        assert pod["gpu_budget_bytes"] == (None if tenant.gpu_kib is None else tenant.gpu_kib * KIB)


@settings(max_examples=80)
@given(BOARDS)
def test_every_byte_that_a_driver_counts_is_in_exactly_one_place(board: Board) -> None:
    answer = document(board)
    host = answer["host"]
    assert host["system_gpu_bytes"] == worlds.gpu_bytes(board, "host")
    assert host["unattributed_gpu_bytes"] == worlds.gpu_bytes(board, "vanished") + board.loose_kib * KIB
    assert host["leaving_bytes"] == worlds.gpu_bytes(board, worlds.GONE_UID)
    assert host["available_bytes"] == board.available_kib * KIB
    in_pods = sum(pod["gpu_bytes"] for pod in answer["pods"])
    everything = sum(one.kib for one in board.holders) * KIB + board.loose_kib * KIB
    places = in_pods + host["system_gpu_bytes"] + host["unattributed_gpu_bytes"] + host["leaving_bytes"]
    assert places == everything


# --- bounds --------------------------------------------------------------------------


@settings(max_examples=80)
@given(BOARDS, st.data())
def test_used_is_between_nothing_and_the_whole_on_every_device_whatever_a_driver_lists(
    board: Board, data: st.DataObject
) -> None:
    wild = st.integers(0, 2**64 - 1)
    # Above 4 PiB the whole answer of a device is refused, its size with it.
    believable = st.integers(0, 2**52)
    entries = worlds.files(board)
    if board.family == "orin":
        rows = tuple(replace(one, kib=data.draw(st.integers(0, 2 * board.total_kib))) for one in board.holders)
        entries["host/sys/kernel/debug/nvmap/iovmm/clients"] = worlds.nvmap(replace(board, holders=rows)).encode()
    else:
        answers = json.loads(entries["nvml.json"])
        for device in answers["devices"]:
            for entry in device["compute"]["processes"]:
                entry["used"] = data.draw(st.none() | wild)
            if "total" in device["memory_v2"]:
                device["memory_v2"] |= {"used": data.draw(believable), "free": data.draw(wild)}
        entries["nvml.json"] = json.dumps(answers).encode()
    arch = "x86_64" if board.family == "card" else "aarch64"
    answer = worlds.explain_files(entries, arch=arch)

    (pool,) = answer["pools"]
    limit = board.total_kib * KIB if board.family != "card" else pool["total_bytes"]
    known = [pod["gpu_bytes"] for pod in answer["pods"] if pod["gpu_bytes"] is not None]
    known += [
        amount for key in ("system", "unattributed") if (amount := answer["host"][f"{key}_gpu_bytes"]) is not None
    ]
    assert all(amount >= 0 for amount in known)
    assert sum(known) <= limit
    for device in answer["devices"]:
        if device["total_bytes"] is not None:
            assert 0 <= device["usable_bytes"] <= device["total_bytes"]
    # What a driver says of processes sizes nothing.
    assert pool["advertised_bytes"] == worlds.advertised(board)


@settings(max_examples=60)
@given(BOARDS)
def test_more_is_never_advertised_than_there_is_but_for_what_pods_already_have(board: Board) -> None:
    (pool,) = document(board)["pools"]
    booked = -(-pool["gpu_committed_bytes"] // MIB) * MIB
    free = pool["total_bytes"] - sum(line["bytes"] for line in pool["reserves"])
    assert 0 <= pool["advertised_bytes"] <= max(free, booked, 0)


# --- advertised moves with hardware, configuration and the set of pods alone ---------


@settings(max_examples=60)
@given(BOARDS, st.data())
def test_advertised_never_moves_with_load_page_cache_or_the_order_of_rows(board: Board, data: st.DataObject) -> None:
    kib = st.integers(0, board.total_kib)
    busy = replace(
        board,
        free_kib=data.draw(kib),
        available_kib=data.draw(kib),
        rows={name: data.draw(kib) for name in ("Cached", "Active(file)", "Inactive(file)", "AnonPages", "Shmem")}
        | {"SwapTotal": data.draw(st.integers(0, 2**30)), "SwapFree": 0},
        holders=tuple(replace(one, kib=data.draw(st.integers(1, one.kib))) for one in board.holders),
        tenants=tuple(replace(one, current_kib=data.draw(kib), file_kib=0) for one in board.tenants),
        order=data.draw(st.integers(0, 5)),
    )
    quiet, loaded = document(board), document(busy)
    assert loaded["node"]["capacity"] == quiet["node"]["capacity"]
    assert loaded["pools"] == quiet["pools"]
    assert loaded["node"]["labels"] == quiet["node"]["labels"]


@settings(max_examples=60)
@given(BOARDS, st.integers(0, 5))
def test_the_order_of_rows_and_devices_says_nothing(board: Board, order: int) -> None:
    assert document(replace(board, order=order)) == document(board)


# --- one pod's readings are its own --------------------------------------------------


@settings(max_examples=60)
@given(BOARDS, st.data())
def test_no_reading_of_one_pod_changes_what_is_said_of_another(board: Board, data: st.DataObject) -> None:
    assume(len(board.tenants) > 1)
    moved = data.draw(st.sampled_from(board.tenants))
    change = replace(
        moved,
        current_kib=data.draw(st.integers(0, board.total_kib)),
        file_kib=0,
        gpu_kib=data.draw(st.none() | st.just(KIB)),
    )
    more = data.draw(st.booleans())
    spared = [one for one in board.holders if one.owner != moved.uid]
    own = [replace(one, kib=one.kib // 2 + 1) for one in board.holders if one.owner == moved.uid]
    extra = [Holder(pid=4_100_000, owner=moved.uid, kib=1)] if more else []
    other = replace(
        board,
        tenants=tuple(change if one is moved else one for one in board.tenants),
        holders=(*spared, *own, *extra),
    )
    before, after = pods_by_uid(document(board)), pods_by_uid(document(other))
    for uid in before.keys() - {moved.uid}:
        assert after[uid] == before[uid]


@settings(max_examples=60)
@given(BOARDS, st.binary(max_size=200))
def test_rubbish_about_one_process_costs_nobody_else_a_figure(board: Board, rubbish: bytes) -> None:
    assume(board.holders)
    entries = worlds.files(board)
    victim = board.holders[0]
    for name in ("stat", "cgroup", "status", "comm"):
        entries[f"host/proc/{victim.pid}/{name}"] = rubbish
    arch = "x86_64" if board.family == "card" else "aarch64"
    before, after = pods_by_uid(document(board)), pods_by_uid(worlds.explain_files(entries, arch=arch))
    for uid in before.keys() - {victim.owner}:
        assert after[uid]["gpu_bytes"] == before[uid]["gpu_bytes"]
        assert after[uid]["host_bytes"] == before[uid]["host_bytes"]
