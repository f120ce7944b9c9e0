"""NVML's lists of processes: records of another size, figures that are not available, one process in several lists."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from tests.cases.holders import (
    CARD_TOTAL,
    SYSTEM,
    Files,
    by_container,
    card,
    cards,
    cid,
    cluster,
    entry,
    evicted,
    gb10,
    held_gpu,
    in_pod,
    listed,
    series,
    show,
    shown,
    simple,
    states,
    task,
    thor,
    uid,
)
from tests.cases.making import GIB, MIB, device, nvml

NONE = 0xFFFFFFFF
"""gpuInstanceId and computeInstanceId without MIG (nvml.h)."""


def two_pods(*budgets: str | None) -> Files:
    """Pods one and two, whose processes are 4242 and 5151."""
    first, second = budgets or (None, None)
    return {
        **task(4242, in_pod(uid(1), cid(1)), fds=("/dev/nvidia0",)),
        **task(5151, in_pod(uid(2), cid(2)), fds=("/dev/nvidia0",)),
        **cluster(simple(1, "one", first), simple(2, "two", second)),
    }


def assert_unknown(document: Any, *names: str) -> None:
    """These pods have no figure, and nobody is accused."""
    assert {held_gpu(document)[name] for name in names} == {None}
    assert {states(document)[name] for name in names} == {"unknown"}
    assert document["plan"]["evictions"] == []
    assert document["plan"]["held"] == []


# Records of another size than the caller reads (NVIDIA/go-nvml#21, #28, #75; XuehaiPan/nvitop#79, #88)


def read_at(stride: int, written: bytes, count: int) -> list[dict[str, Any]]:
    """What a caller sees that steps ``stride`` bytes: pid is the first u32, the size the u64 eight bytes later."""
    found = []
    for number in range(count):
        pid, used = struct.unpack_from("<I4xQ", written, number * stride)
        found.append(entry(pid, None if used == 0xFFFFFFFFFFFFFFFF else used))
    return found


def records(form: str, *rows: tuple[int, ...]) -> bytes:
    """Records as the driver writes them, each padded to eight bytes."""
    return b"".join(struct.pack(form, *row) for row in rows)


V2 = "<I4xQII"  # pid, used, gpu instance, compute instance: 24 bytes (nvml.h, nvmlProcessInfo_v2_t)
R535 = "<I4xQIIQ"  # R535.43 to .86: the same and the protected memory: 32 bytes
V1 = "<I4xQ"  # 16 bytes
FIRST, SECOND = 1536 * MIB, 768 * MIB

STRIDES = {
    # As recorded: protected memory "not available". The second pid is its lower half, the second size is pid 5151.
    "32 read at 24": read_at(
        24, records(R535, (4242, FIRST, NONE, NONE, 2**64 - 1), (5151, SECOND, NONE, NONE, 2**64 - 1)), 2
    ),
    # The same with protected memory 0: the second entry is (0, 5151).
    "32 read at 24, nothing protected": read_at(
        24, records(R535, (4242, FIRST, NONE, NONE, 0), (5151, SECOND, NONE, NONE, 0)), 2
    ),
    # The second pid is both instances: 4294967295, the second size pid 5151.
    "24 read at 16": read_at(16, records(V2, (4242, FIRST, NONE, NONE), (5151, SECOND, NONE, NONE)), 2),
    "24 read at 16, three": read_at(
        16, records(V2, (4242, FIRST, NONE, NONE), (5151, SECOND, NONE, NONE), (6161, SECOND, NONE, NONE)), 3
    ),
    # In MIG instance 1 the second entry is (1, 5151), and pid 1 lives. The third one's pid is half of a size.
    "24 read at 16, MIG": read_at(16, records(V2, (4242, FIRST, 1, 0), (5151, SECOND, 1, 0), (6161, SECOND, 1, 0)), 3),
    # 16-byte records read at 24: the second pid is the lower half of the second size, 805306368.
    "16 read at 24": read_at(24, records(V1, (4242, FIRST), (5151, SECOND), (6161, SECOND)), 2),
    # 40 and 48 bytes: a later driver that appends one or two words more.
    "40 read at 24": read_at(
        24, records("<I4xQIIQQ", (4242, FIRST, NONE, NONE, 0, 0), (5151, SECOND, NONE, NONE, 0, 0)), 2
    ),
    "48 read at 32": read_at(
        32, records("<I4xQIIQQQ", (4242, FIRST, NONE, NONE, 0, 0, 0), (5151, SECOND, NONE, NONE, 0, 0, 0)), 2
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", STRIDES)
@pytest.mark.parametrize("board", ["card", "thor", "gb10"])
def test_records_of_another_size_name_nobody(
    kind: str, board: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The first entry looks right, and with 1536 MiB against 1Gi it would be a breach; the reply as a whole is not.
    entries = STRIDES[kind]
    files = {"card": cards(card(*entries, used=3 * GIB)), "thor": thor(*entries), "gb10": gb10(*entries)}[board]
    for document in shown(capsys, tmp_path, files, two_pods("1Gi", "1Gi"), series([0, 8, 16, 24])):
        assert_unknown(document, "one", "two")


@pytest.mark.parametrize(
    "bad",
    [
        entry(0, 5151),
        entry(4294967295, 5151),
        entry(4194305, MIB),  # PID_MAX_LIMIT + 1 (include/linux/threads.h)
        entry(5151, CARD_TOTAL + 1),
        entry(5151, 2**64 - 2),
    ],
)
@pytest.mark.parametrize("where", ["compute", "graphics", "mps"])
def test_one_impossible_entry_spoils_the_reply(
    bad: dict[str, Any], where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists: dict[str, Any] = {"compute": listed(entry(4242, 2 * GIB)), where: listed(entry(4242, 2 * GIB), bad)}
    files = cards(card(used=3 * GIB, **lists))
    assert_unknown(show(capsys, tmp_path, files, two_pods("1Gi", "1Gi")), "one", "two")


def test_on_unified_memory_a_size_above_the_boards_is_impossible(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # MemTotal 127600748 kB is about 121.7 GiB.
    files = gb10(entry(4242, 2 * GIB), entry(5151, 122 * GIB))
    assert_unknown(show(capsys, tmp_path, files, two_pods("1Gi", "1Gi")), "one", "two")


def test_entries_that_add_up_to_more_than_the_device_spoil_the_reply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 13 + 12 = 25 GiB on a card of 24
    files = cards(card(entry(4242, 13 * GIB), entry(5151, 12 * GIB), used=24 * GIB))
    assert_unknown(show(capsys, tmp_path, files, two_pods("1Gi", "1Gi")), "one", "two")


def test_a_device_with_a_sane_list_is_not_spoiled_by_another_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Pod two is only on the second card. What the first one's processes hold is not known, so a pod's sum over both
    # cards is not known either: 5151 may stand in the reply that could not be read.
    good, bad = card(entry(5151, 3 * GIB), used=3 * GIB, number=1), card(entry(NONE, 5151), used=3 * GIB, number=2)
    document = show(capsys, tmp_path, cards(good, bad), two_pods("1Gi", "1Gi"))
    assert_unknown(document, "one", "two")


@pytest.mark.parametrize("how", ["handle", "calls"])
def test_a_pod_on_a_lost_card_is_unknown_and_the_others_go_on(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # NVIDIA/k8s-device-plugin#231, code 15: nobody can read what 5151 still holds there, so it is not 0. The first card
    # is as readable as before: 4242 is over at 8, 16 and 24 (16 s).
    gone: dict[str, Any] = {"code": 15}
    calls = card(number=2, memory=gone, memory_v2=gone, compute=gone, graphics=gone, mps=gone)
    healthy, fallen = card(entry(4242, 2 * GIB), used=2 * GIB, number=1), {"handle": 15} if how == "handle" else calls
    before = {"nvml.json": nvml(card(entry(4242, GIB), used=GIB, number=1), card(entry(5151, GIB), used=GIB, number=2))}
    files = {**cards(healthy, fallen), **two_pods("1Gi", "2Gi"), **series([0, 8, 16, 24], before)}
    documents = shown(capsys, tmp_path, files)
    assert [held_gpu(document) for document in documents] == [{"one": GIB, "two": GIB}] + [
        {"one": 2 * GIB, "two": None}
    ] * 3
    assert states(documents[2]) == {"one": "breach", "two": "unknown"}
    assert evicted(documents) == [[], [], [], ["one"]]


# Not available (vllm-project/vllm-omni#6249; nvml.h: NVML_VALUE_NOT_AVAILABLE, which the binding makes None)


def test_a_figure_that_is_not_available_is_unknown_for_its_pod_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = cards(card(entry(4242, None), entry(5151, 805306368), used=20 * GIB))
    for document in shown(capsys, tmp_path, files, two_pods("1Gi", "1Gi"), series([0, 8, 16, 24])):
        assert held_gpu(document) == {"one": None, "two": 768 * MIB}
        assert states(document) == {"one": "unknown", "two": "ok"}
        assert document["host"]["system_gpu_bytes"] == 0
        # 20 GiB − 768 MiB is at most what 4242 holds: no ground for anything
        assert document["plan"]["evictions"] == []


def test_a_figure_that_is_available_evicts_beside_one_that_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = cards(card(entry(4242, None), entry(5151, 2 * GIB), used=20 * GIB))
    assert evicted(shown(capsys, tmp_path, files, two_pods("1Gi", "1Gi"), series([0, 8, 16]))) == [[], [], ["two"]]


@pytest.mark.parametrize("board", ["card", "thor", "gb10"])
def test_not_available_in_every_list_is_unknown(board: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists: dict[str, Any] = {
        "compute": listed(entry(4242, None)),
        "graphics": listed(entry(4242, None)),
        "mps": listed(entry(4242, None)),
    }
    chip = device("NVIDIA GB10", "GPU-cccccccc-0000-4000-8000-000000000001", **lists)
    files = {
        "card": cards(card(used=20 * GIB, **lists)),
        "thor": thor(**lists),
        "gb10": {**gb10(), "nvml.json": nvml(chip)},
    }[board]
    assert_unknown(show(capsys, tmp_path, files, two_pods("1Gi", "1Gi")), "one")


def test_a_pod_with_one_known_and_one_unknown_process_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = cards(card(entry(4242, 2 * GIB), entry(4243, None), used=20 * GIB))
    more = task(4243, in_pod(uid(1), cid(1)))
    assert_unknown(show(capsys, tmp_path, files, two_pods("1Gi", "1Gi"), more), "one")


def test_an_unknown_host_process_makes_the_systems_figure_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = cards(card(entry(4242, 2 * GIB), entry(900, None), used=20 * GIB))
    document = show(capsys, tmp_path, files, two_pods(), task(900, SYSTEM))
    assert held_gpu(document) == {"one": 2 * GIB, "two": 0}
    assert document["host"]["system_gpu_bytes"] is None


@pytest.mark.parametrize(
    "lists",
    [
        {"compute": listed(code=3), "graphics": listed(code=3)},  # not supported
        {"compute": listed(code=4), "graphics": listed(code=4)},  # no permission
        {"compute": listed(code=7), "graphics": listed(code=7)},  # insufficient size
        {"compute": listed(code=999), "graphics": listed()},
        {"compute": listed(code=10), "graphics": listed()},  # time-out
        {"compute": {"code": 13}, "graphics": {"code": 13}},  # function not found
    ],
)
@pytest.mark.parametrize("board", ["card", "gb10"])
def test_a_list_that_was_not_read_clears_nobody(
    lists: dict[str, Any], board: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chip = device("NVIDIA GB10", "GPU-cccccccc-0000-4000-8000-000000000001", **lists)
    files = {"card": cards(card(used=9 * GIB, **lists)), "gb10": {**gb10(), "nvml.json": nvml(chip)}}[board]
    document = show(capsys, tmp_path, files, two_pods("1Gi", "1Gi"))
    assert_unknown(document, "one", "two")
    assert document["host"]["system_gpu_bytes"] is None
    assert document["host"]["unattributed_gpu_bytes"] is None


@pytest.mark.parametrize("other", [{"graphics": listed(code=3)}, {"graphics": {"code": 13}}, {"mps": {"code": 13}}])
def test_a_compute_list_is_enough_where_the_card_draws_nothing(
    other: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Data centre cards have no graphics list; older libraries no MPS list.
    files = cards(card(entry(4242, 2 * GIB), used=2 * GIB, **other))
    assert held_gpu(show(capsys, tmp_path, files, two_pods())) == {"one": 2 * GIB, "two": 0}


@pytest.mark.parametrize("board", ["card", "gb10"])
def test_an_empty_list_that_was_read_is_zero(board: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Both pods have the GPU open; NVML's list is complete on these boards.
    files = {"card": cards(card()), "gb10": gb10()}[board]
    document = show(capsys, tmp_path, files, two_pods("1Gi", "1Gi"))
    assert held_gpu(document) == {"one": 0, "two": 0}
    assert states(document) == {"one": "ok", "two": "ok"}
    assert document["host"]["system_gpu_bytes"] == 0
    assert document["host"]["unattributed_gpu_bytes"] == 0


def test_an_empty_list_on_a_thor_whose_gpu_is_open_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A Tegra's empty list does not tell an idle GPU from one that is not listed (Orin's is always empty).
    assert_unknown(show(capsys, tmp_path, thor(), two_pods("1Gi", "1Gi")), "one", "two")


# One process in several lists (rbonghi/jetson_stats#849; Syllo/nvtop#466)


@pytest.mark.parametrize("board", ["card", "thor"])
def test_a_process_that_draws_and_computes_counts_once(
    board: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both: dict[str, Any] = {
        "compute": listed(entry(4242, 1610612736)),
        "graphics": listed(entry(4242, 1610612736), entry(900, 52428800)),
        "mps": listed(entry(4242, 1610612736)),
    }
    files = {"card": cards(card(used=2 * GIB, **both)), "thor": thor(**both)}[board]
    for document in shown(capsys, tmp_path, files, two_pods(), task(900, SYSTEM), series([0, 2, 4])):
        assert held_gpu(document) == {"one": 1536 * MIB, "two": 0}
        assert document["host"]["system_gpu_bytes"] == 50 * MIB


def test_the_larger_of_two_lists_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists: dict[str, Any] = {
        "compute": listed(entry(4242, GIB), entry(5151, 3 * GIB)),
        "graphics": listed(entry(4242, 2 * GIB), entry(5151, 0)),
    }
    document = show(capsys, tmp_path, cards(card(used=5 * GIB, **lists)), two_pods())
    assert held_gpu(document) == {"one": 2 * GIB, "two": 3 * GIB}


def test_two_contexts_in_one_list_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # compute 1 + 2 = 3 GiB, graphics 2 GiB: the larger list counts
    lists: dict[str, Any] = {
        "compute": listed(entry(4242, GIB), entry(4242, 2 * GIB)),
        "graphics": listed(entry(4242, 2 * GIB)),
    }
    document = show(capsys, tmp_path, cards(card(used=3 * GIB, **lists)), two_pods())
    assert held_gpu(document) == {"one": 3 * GIB, "two": 0}


def test_contexts_never_add_up_to_more_than_the_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 13 + 12 GiB of one process on a card of 24 are not to be believed.
    files = cards(card(entry(4242, 13 * GIB), entry(4242, 12 * GIB), used=24 * GIB))
    document = show(capsys, tmp_path, files, two_pods())
    assert held_gpu(document) == {"one": None, "two": None}


def test_figures_of_two_cards_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = card(entry(4242, 2 * GIB), used=2 * GIB, number=1), card(entry(4242, GIB), used=3 * GIB, number=2)
    document = show(capsys, tmp_path, cards(first, second), two_pods())
    assert held_gpu(document) == {"one": 3 * GIB, "two": 0}
    # 0 on the first, 3 − 1 GiB on the second
    assert document["host"]["unattributed_gpu_bytes"] == 2 * GIB


# MIG: instances, never the parent


def sliced(*instances: dict[str, Any], **parent: Any) -> Files:
    """A card of 24 GiB with MIG on."""
    return cards(card(mig={"mode": 1, "instances": list(instances)}, **parent))


def instance(number: int, *entries: dict[str, Any], code: int = 0, total: int = 6 * GIB) -> dict[str, Any]:
    """A MIG instance."""
    used = sum(one["used"] or 0 for one in entries)
    memory = {"code": 0, "total": total, "reserved": 0, "used": used, "free": total - used}
    lists: dict[str, Any] = {"compute": listed(*entries, code=code), "graphics": listed()}
    return {"uuid": f"MIG-eeeeeeee-0000-4000-8000-{number:012}", "memory": memory, "memory_v2": memory, **lists}


def test_a_process_on_two_instances_holds_the_sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = sliced(
        instance(1, entry(4242, GIB, 1, 0)), instance(2, entry(4242, 2 * GIB, 2, 0), entry(5151, 3 * GIB, 2, 0))
    )
    document = show(capsys, tmp_path, files, two_pods())
    assert held_gpu(document) == {"one": 3 * GIB, "two": 3 * GIB}
    assert document["host"]["unattributed_gpu_bytes"] == 0


def test_what_the_parent_lists_is_not_counted_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = sliced(
        instance(1, entry(4242, GIB, 1, 0)), instance(2, entry(5151, 2 * GIB, 2, 0)),
        compute=listed(entry(4242, GIB, 1, 0), entry(5151, 2 * GIB, 2, 0)), used=3 * GIB,
    )  # fmt: skip
    document = show(capsys, tmp_path, files, two_pods())
    assert held_gpu(document) == {"one": GIB, "two": 2 * GIB}
    assert document["host"]["unattributed_gpu_bytes"] == 0


def test_an_instance_that_may_not_be_asked_clears_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = sliced(instance(1, entry(4242, GIB, 1, 0)), instance(2, code=4))
    assert_unknown(show(capsys, tmp_path, files, two_pods("512Mi", "512Mi")), "two")


def test_a_size_above_the_instances_own_is_impossible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 7 GiB fit the parent, not an instance of 6.
    big = {**instance(1, entry(4242, GIB)), "compute": listed(entry(4242, 7 * GIB, 1, 0))}
    assert_unknown(show(capsys, tmp_path, sliced(big), two_pods("1Gi", "1Gi")), "one", "two")


# MPS (NVIDIA/k8s-device-plugin#764, NVIDIA/gpu-operator#1111)

DAEMON = "nvidia-device-plugin-mps-control-daemon-x"


def mps(*entries: dict[str, Any], server: str = in_pod(uid(3), cid(3)), clients: Any = None) -> Files:
    """A card shared by MPS: server 700 and its control daemon 699 in a pod of their own, and pods one and two."""
    lists: dict[str, Any] = {} if clients is None else {"mps": clients}
    return {
        **cards(card(*entries, used=12 * GIB, **lists)),
        **two_pods("1Gi", "1Gi"),
        **task(699, server, name="nvidia-cuda-mps"),
        **task(700, server, name="nvidia-cuda-mps"),
        "host/proc/699/cmdline": "nvidia-cuda-mps-control\0-d\0",
        "host/proc/700/cmdline": "nvidia-cuda-mps-server\0",
        **cluster(simple(1, "one", "1Gi"), simple(2, "two", "1Gi"), simple(3, DAEMON)),
    }


@pytest.mark.parametrize("budget", [None, "1Gi"])
def test_the_daemon_is_not_the_offender(budget: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = cluster(simple(1, "one", "1Gi"), simple(2, "two", "1Gi"), simple(3, DAEMON, budget))
    files = {**mps(entry(700, 11 * GIB)), **pods, "config.yaml": {"policy": {"unbudgeted": "evict"}}}
    documents = shown(capsys, tmp_path, files, series([0, 8, 16, 24]))
    assert evicted(documents) == [[], [], [], []]
    assert states(documents[-1])[DAEMON] == "protected"


def test_clients_listed_with_nothing_are_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = show(capsys, tmp_path, mps(entry(700, 11 * GIB), entry(4242, 0), entry(5151, 0)))
    assert_unknown(document, "one", "two")


def test_clients_not_listed_at_all_are_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 4242 and 5151 have the GPU open. Their memory, if any, stands under the server.
    document = show(capsys, tmp_path, mps(entry(700, 11 * GIB)))
    assert_unknown(document, "one", "two")


def test_the_mps_list_gives_clients_their_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = listed(entry(4242, 6 * GIB), entry(5151, 5 * GIB))
    document = show(capsys, tmp_path, mps(entry(700, 25 * MIB), clients=own))
    assert held_gpu(document) == {"one": 6 * GIB, "two": 5 * GIB, DAEMON: 25 * MIB}


def test_clients_with_rows_of_their_own_beside_a_small_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # As nvidia-smi shows it from Volta on: clients "M+C" with their memory, the server "C" with 25 to 30 MiB.
    document = show(capsys, tmp_path, mps(entry(700, 29 * MIB), entry(4242, 6 * GIB), entry(5151, 512 * MIB)))
    assert held_gpu(document) == {"one": 6 * GIB, "two": 512 * MIB, DAEMON: 29 * MIB}
    assert states(document) == {"one": "breach", "two": "ok", DAEMON: "protected"}


def test_a_server_on_the_host_is_the_systems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = mps(entry(700, 11 * GIB), server="0::/system.slice/nvidia-mps.service")
    document = show(capsys, tmp_path, files)
    assert document["host"]["system_gpu_bytes"] == 11 * GIB
    assert document["plan"]["evictions"] == []


def test_both_lists_and_mps_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists: dict[str, Any] = {
        "graphics": listed(entry(4242, 2 * GIB), entry(5151, GIB)),
        "mps": listed(entry(4242, 3 * GIB), entry(5151, None)),
    }
    files = cards(card(entry(4242, GIB), entry(5151, None), used=9 * GIB, **lists))
    document = show(capsys, tmp_path, files, two_pods())
    assert held_gpu(document)["one"] == 3 * GIB
    # Known in one list, not available in two: the largest figure counts.
    assert held_gpu(document)["two"] == GIB


def test_the_container_of_a_listed_process_has_its_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = show(capsys, tmp_path, cards(card(entry(4242, GIB), used=GIB)), two_pods())
    assert by_container(document, "one") == {"main": GIB}
    assert by_container(document, "two") == {"main": 0}


def test_an_unknown_figure_is_unknown_for_the_container_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = show(capsys, tmp_path, cards(card(entry(4242, None), used=GIB)), two_pods())
    assert by_container(document, "one") == {"main": None}
    assert by_container(document, "two") == {"main": 0}
