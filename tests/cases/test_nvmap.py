r"""``/sys/kernel/debug/nvmap/iovmm/clients`` as boards print it, and as a process that lies about its name makes it.

The record is ``"%-18s %18s %8u %10lluK\n"``, title and total alike: 59 bytes each (NVIDIA nvmap, nvmap_dev.c, R36).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.holders import (
    CLIENTS,
    RECORD,
    SYSTEM,
    TITLE,
    Files,
    client,
    cluster,
    entry,
    evicted,
    held_codes,
    held_gpu,
    listed,
    orin,
    pod_task,
    series,
    show,
    shown,
    simple,
    states,
    table,
    task,
    thor,
    total,
)
from tests.cases.making import GIB, KIB, MIB, device, meminfo, nvml

GPU_NODE = "/dev/nvhost-gpu"


# Recorded tables


def test_a_board_that_burns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # AGX Orin, htop Jetson patch. 23525644 + 5800 + 17876 = 23549320 = total: nothing is left over.
    clients = (
        b"CLIENT                        PROCESS      PID        SIZE\n"
        b"user                         gpu_burn     7979   23525644K\n"
        b"user                      gnome_shell     8119       5800K\n"
        b"user                             Xorg     2651      17876K\n"
        b"total                                            23549320K\n"
    )
    files = {**orin(clients), **pod_task(1, 7979, name="gpu_burn"), **task(8119, SYSTEM), **task(2651, SYSTEM)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "burn"), simple(2, "quiet")))

    assert held_gpu(document) == {"burn": 23525644 * KIB, "quiet": 0}
    assert document["host"]["system_gpu_bytes"] == (5800 + 17876) * KIB
    assert document["host"]["unattributed_gpu_bytes"] == 0
    assert states(document) == {"burn": "unbudgeted", "quiet": "ok"}


def test_a_desktop_with_an_idle_camera_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Gimlet Labs nvmap_test.cc: 118372 + 5384 + 18140 + 0 = 141896 = total
    clients = (
        b"CLIENT                        PROCESS      PID        SIZE\n"
        b"user                              gem     4481     118372K\n"
        b"user                      gnome-shell     2831       5384K\n"
        b"user                             Xorg     1731      18140K\n"
        b"user                   nvargus-daemon     1012          0K\n"
        b"total                                              141896K\n"
    )
    hosts = {**task(2831, SYSTEM), **task(1731, SYSTEM), **task(1012, SYSTEM)}
    document = show(capsys, tmp_path, orin(clients), pod_task(1, 4481, name="gem"), hosts, cluster(simple(1, "gem")))

    assert held_gpu(document) == {"gem": 118372 * KIB}
    assert document["host"]["system_gpu_bytes"] == (5384 + 18140) * KIB
    assert document["host"]["unattributed_gpu_bytes"] == 0


VLLM = b"user                  VLLM::EngineCor  1792595   14617792K\n"
VLLM_TOTAL = b"total                                            15319584K\n"


def test_memory_that_no_client_refers_to_is_unattributed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # NVIDIA jetson-memory-audit: the total walks handles without a client too. 15319584 − 14617792 = 701792
    document = show(capsys, tmp_path, orin(TITLE + VLLM + VLLM_TOTAL), pod_task(1, 1792595), cluster(simple(1, "vllm")))
    assert held_gpu(document) == {"vllm": 14617792 * KIB}
    assert document["host"]["system_gpu_bytes"] == 0
    assert document["host"]["unattributed_gpu_bytes"] == 701792 * KIB


def test_a_table_with_lines_left_out_by_hand_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The same audit note as it was published: "..." in place of rows. 4 bytes are no record.
    document = show(
        capsys, tmp_path, orin(TITLE + VLLM + b"...\n" + VLLM_TOTAL), pod_task(1, 1792595), cluster(simple(1, "vllm"))
    )
    assert_nothing_is_known(document)


PROCRANK = (
    b"CLIENT                        PROCESS      PID         PSS        SIZE\n"
    b"user                   nvargus-daemon     4678          0K         76K\n"
    b"total                                                  64K         76K\n"
)


def test_a_table_with_a_pss_column_is_another_layout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # nvmap's procrank (kernel 4.9), recorded on a gp10b
    document = show(capsys, tmp_path, orin(PROCRANK), pod_task(1, 4678), cluster(simple(1, "camera")))
    assert_nothing_is_known(document)


def test_a_row_written_by_hand_makes_the_table_suspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A fixture made from an AGX Orin's table: the added row has 54 characters, and 17854 + 1024 > 17854.
    clients = (
        b"CLIENT                        PROCESS      PID        SIZE\n"
        b"user                             Xorg     2599      17854K\n"
        b"user                 q3x_aot_probe     777       1024K\n"
        b"total                                               17854K\n"
    )
    document = show(capsys, tmp_path, orin(clients), task(2599, SYSTEM), pod_task(1, 777), cluster(simple(1, "probe")))
    assert_nothing_is_known(document)


def test_the_same_table_in_another_heap_is_not_counted_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The same AGX Orin has nvmap/{iovmm,fsi}/clients, and a page pool of 2012087 free pages that nobody owns.
    clients = (
        b"CLIENT                        PROCESS      PID        SIZE\n"
        b"user                             Xorg     2599      17854K\n"
        b"total                                               17854K\n"
    )
    beside = {
        CLIENTS.replace("iovmm", "fsi"): clients,
        "host/sys/kernel/debug/nvmap/pagepool/page_pool_available_pages": "2012087\n",
        "host/sys/kernel/debug/nvmap/iovmm/allocations": clients
        + b"                                             0       1280K 10120001      6      1      0      0\n",
    }
    document = show(capsys, tmp_path, orin(clients), beside, task(2599, SYSTEM), cluster(simple(1, "quiet")))
    assert document["host"]["system_gpu_bytes"] == 17854 * KIB
    assert document["host"]["unattributed_gpu_bytes"] == 0
    assert held_gpu(document) == {"quiet": 0}


def test_names_with_blanks_and_colons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # rbonghi/jetson_stats#413. 1572864 + 786432 + 13216 = 2372512 = total
    clients = table(
        client(b"my llm app", 4242, 1572864), client(b"infer:0", 5151, 786432), client(b"gst-launch", 77, 13216)
    )
    assert clients.endswith(b" 2372512K\n")
    files = {**orin(clients), **pod_task(1, 4242), **pod_task(2, 5151), **pod_task(3, 77)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "llm"), simple(2, "infer"), simple(3, "gst")))

    assert held_gpu(document) == {"llm": 1536 * MIB, "infer": 768 * MIB, "gst": 13216 * KIB}
    assert document["host"]["unattributed_gpu_bytes"] == 0


# Names that lie: prctl(PR_SET_NAME) takes any 15 bytes, and the table prints them raw


@pytest.mark.parametrize(
    "comm",
    [
        b"\na b 7 999999K\n",
        b"\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
        b"x     7 999999K",
        b"total",
        b"total   999999K",
        b"CLIENT",
        b"\xff\xfe\x80 \xc3(",
        b"\x00\x01\x02",
        b"               ",
        b"\rtotal\r",
        b"K\n",
    ],
)
def test_a_forged_name_neither_hides_a_process_nor_frames_another(
    comm: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clients = table(client(comm, 14, 300), client(b"honest", 7, 5000))
    assert len(clients) == 4 * RECORD
    files = {**orin(clients), **pod_task(1, 14), **pod_task(2, 7)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "liar"), simple(2, "framed")))

    assert held_gpu(document) == {"liar": 300 * KIB, "framed": 5000 * KIB}
    assert document["host"]["unattributed_gpu_bytes"] == 0


def test_a_forged_name_as_the_last_row_is_not_the_total(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # "total" as the client's own name, with a pid: a row, though it stands where the total does not.
    clients = table(client(b"total", 14, 300), client(b"total", 15, 700))
    files = {**orin(clients), **pod_task(1, 14), **pod_task(2, 15)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "one"), simple(2, "two")))
    assert held_gpu(document) == {"one": 300 * KIB, "two": 700 * KIB}


# Rows


def test_rows_of_the_same_pid_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A pid is that of the thread group's leader, and each row is another client's share (nvmap_dev.c): 100 + 200 + 300
    clients = table(client(b"infer", 4242, 100), client(b"infer", 4242, 200), client(b"enc", 4242, 300))
    document = show(capsys, tmp_path, orin(clients), pod_task(1, 4242), cluster(simple(1, "infer")))
    assert held_gpu(document) == {"infer": 600 * KIB}


def test_a_kernel_client_is_the_systems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # nvmap_dev.c client_stringify: a client without a task prints its name, "kernel" and pid 0.
    clients = table(client(b"kernel", 0, 4096, owner=b"nvhost"), client(b"infer", 4242, 1024))
    document = show(capsys, tmp_path, orin(clients), pod_task(1, 4242), cluster(simple(1, "infer")))
    assert held_gpu(document) == {"infer": MIB}
    assert document["host"]["system_gpu_bytes"] == 4 * MIB
    assert document["host"]["unattributed_gpu_bytes"] == 0


@pytest.mark.parametrize(("unit", "size", "kib"), [(b"M", 768, 768 * 1024), (b"G", 2, 2 * 1024 * 1024)])
def test_a_row_in_another_unit_counts_in_that_unit(
    unit: bytes, size: int, kib: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clients = table(client(b"a", 4242, size, unit), client(b"b", 77, 512), total_kib=kib + 512)
    files = {**orin(clients), **pod_task(1, 4242), **task(77, SYSTEM)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "a")))
    assert held_gpu(document) == {"a": kib * KIB}
    assert document["host"]["system_gpu_bytes"] == 512 * KIB
    assert document["host"]["unattributed_gpu_bytes"] == 0


def test_the_largest_pid_and_the_longest_name_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # PID_MAX_LIMIT is 4194304 on 64 bit (include/linux/threads.h); a comm has at most 15 bytes.
    clients = table(client(b"fifteen_bytes_x", 4194303, 60 * 1024 * 1024))
    document = show(capsys, tmp_path, orin(clients), pod_task(1, 4194303), cluster(simple(1, "big")))
    assert held_gpu(document) == {"big": 60 * GIB}


def test_a_row_of_a_process_that_is_gone_is_unattributed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A client lives as long as any descriptor of /dev/nvmap that its process passed on, so rows outlive processes.
    clients = table(client(b"gone", 4242, 3000), client(b"here", 5151, 1000), total_kib=4500)
    document = show(capsys, tmp_path, orin(clients), pod_task(1, 5151), cluster(simple(1, "here")))
    assert held_gpu(document) == {"here": 1000 * KIB}
    # 3000 of the row and 500 that no row has
    assert document["host"]["unattributed_gpu_bytes"] == 3500 * KIB
    assert document["host"]["system_gpu_bytes"] == 0


def test_a_row_that_names_a_kernel_thread_is_nobodys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The pid was used again by a kernel thread, which cannot own a client of user space.
    clients = table(client(b"gone", 33, 3000), client(b"here", 5151, 1000))
    thread = task(33, "0::/", name="kworker/0:1", flags=0x04208060, memory=False, fds=())
    document = show(capsys, tmp_path, orin(clients), thread, pod_task(1, 5151), cluster(simple(1, "here")))
    assert held_gpu(document) == {"here": 1000 * KIB}
    assert document["host"]["system_gpu_bytes"] == 0
    assert document["host"]["unattributed_gpu_bytes"] == 3000 * KIB


# Tables that cannot be trusted


def assert_nothing_is_known(document: Any) -> None:
    """No pod has a figure, and none is accused."""
    assert set(held_gpu(document).values()) == {None}
    assert set(states(document).values()) == {"unknown"}
    assert document["host"]["system_gpu_bytes"] is None
    assert document["host"]["unattributed_gpu_bytes"] is None
    assert document["plan"]["evictions"] == []


ROW = client(b"infer", 4242, 3 * 1024 * 1024)
SUSPECT = {
    "cut in the middle of a row": (TITLE + ROW + ROW)[:-20],
    "cut in the middle of the total": table(ROW)[:-5],
    "cut after a row": TITLE + ROW,
    "cut in the title": TITLE[:30],
    "no title": ROW + total(3 * 1024 * 1024),
    "a row one byte too long": TITLE + ROW.replace(b"user", b"user ") + total(3 * 1024 * 1024),
    "a row one byte too short": TITLE + ROW.replace(b"user ", b"user") + total(3 * 1024 * 1024),
    "carriage returns": table(ROW).replace(b"\n", b"\r\n"),
    "procrank": PROCRANK,
    "rows exceed the total": table(ROW, total_kib=2 * 1024 * 1024),
    "a row larger than the board": table(client(b"infer", 4242, 65 * 1024 * 1024)),
    "sizes that are words": table(ROW).replace(b"   3145728K", b"    unknown"),
    "a table after the table": table(ROW) + table(ROW),
    "another unit in the total's place": TITLE + ROW + total(3 * 1024 * 1024).replace(b"K", b"?"),
}


@pytest.mark.parametrize("kind", SUSPECT)
def test_a_table_that_does_not_fit_accuses_nobody(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 3 GiB against 1Gi in three samples over 40 s would be a breach three times over.
    files = {
        **orin(SUSPECT[kind]),
        **pod_task(1, 4242),
        **cluster(simple(1, "infer", "1Gi"), simple(2, "quiet", "1Gi")),
    }
    for document in shown(capsys, tmp_path, files, series([0, 8, 16, 24])):
        assert_nothing_is_known(document)
        assert document["plan"]["held"] == []


def test_the_same_table_whole_would_have_been_a_breach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {**orin(table(ROW)), **pod_task(1, 4242), **cluster(simple(1, "infer", "1Gi"), simple(2, "quiet", "1Gi"))}
    assert evicted(shown(capsys, tmp_path, files, series([0, 8, 16, 24]))) == [[], [], ["infer"], []]


def test_one_bad_table_pauses_the_grace_and_does_not_end_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Over at 0, 8, 14 and 21; the reading at 11 is not usable: 8 s + (pause) + 7 s = 15 s at 21. The gap from 8 to 14
    # is below max_age (10 s).
    files = {**orin(table(ROW)), **pod_task(1, 4242), **cluster(simple(1, "infer", "1Gi"))}
    bad = series([0, 8, 11, 14, 21], {}, {}, {CLIENTS: table(ROW)[:-5]})
    documents = shown(capsys, tmp_path, files, bad)
    assert states(documents[2]) == {"infer": "unknown"}
    assert evicted(documents) == [[], [], [], [], ["infer"]]


# The order of sources: NVML's lists if they hold a value, then the table if a row is above 0, then who has the GPU open


def test_an_all_zero_table_on_a_busy_board_is_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # rbonghi/jetson_stats#849: all 0K on Thor, here without NVML's help
    clients = table(client(b"infer", 4242, 0), client(b"Xorg", 900, 0))
    files = {**orin(clients), **pod_task(1, 4242), **task(900, SYSTEM)}
    assert_nothing_is_known(show(capsys, tmp_path, files, cluster(simple(1, "infer"), simple(2, "quiet"))))


@pytest.mark.parametrize("clients", [table(client(b"infer", 4242, 0)), table(), None])
def test_nobody_uses_a_gpu_that_nobody_has_open(
    clients: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {**orin(clients), **pod_task(1, 4242, fds=("/dev/null", "/dev/nvme0n1"))}
    document = show(capsys, tmp_path, files, cluster(simple(1, "infer", "1Gi")))
    assert held_gpu(document) == {"infer": 0}
    assert states(document) == {"infer": "ok"}
    assert document["host"]["system_gpu_bytes"] == 0


@pytest.mark.parametrize(
    "node",
    [
        "/dev/nvhost-gpu",  # L4T up to R35
        "/dev/nvhost-as-gpu",
        "/dev/nvhost-ctrl-gpu",
        "/dev/nvgpu/igpu0/channel",  # L4T R36
        "/dev/nvgpu/igpu0/as",
        "/dev/nvidia0",  # Thor
    ],
)
@pytest.mark.parametrize("clients", [table(), None])
def test_an_open_gpu_without_a_figure_is_unknown(
    node: str, clients: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {**orin(clients), **pod_task(1, 4242, fds=("/dev/null", node))}
    assert_nothing_is_known(show(capsys, tmp_path, files, cluster(simple(1, "infer", "1Gi"))))


def test_descriptors_that_cannot_be_read_clear_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {**orin(table()), **pod_task(1, 4242, fds=None)}
    assert_nothing_is_known(show(capsys, tmp_path, files, cluster(simple(1, "infer", "1Gi"))))


@pytest.mark.parametrize(
    "unreadable",
    [
        {CLIENTS + "/not-a-file": ""},  # reading a directory fails, as EACCES and EIO do
        {CLIENTS: b""},
        {},  # debugfs is not mounted
    ],
)
def test_a_table_that_cannot_be_read_is_unknown_while_the_gpu_is_open(
    unreadable: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {**orin(None), **unreadable, **pod_task(1, 4242), **cluster(simple(1, "infer", "1Gi"))}
    assert_nothing_is_known(show(capsys, tmp_path, files))


def test_a_total_without_rows_is_no_answer_while_the_gpu_is_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {**orin(table(total_kib=5000)), **pod_task(1, 4242), **cluster(simple(1, "infer", "1Gi"))}
    document = show(capsys, tmp_path, files)
    assert held_gpu(document) == {"infer": None}


def test_a_table_with_a_value_clears_the_pods_without_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The table was read and trusted: quiet has the GPU open and holds nothing.
    files = {**orin(table(client(b"Xorg", 900, 17854))), **task(900, SYSTEM), **pod_task(1, 4242)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "quiet", "1Gi")))
    assert held_gpu(document) == {"quiet": 0}
    assert document["host"]["system_gpu_bytes"] == 17854 * KIB


def test_lists_with_a_value_go_before_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # On Thor nvmap has what the display and the camera share, NVML has CUDA. They are never added.
    files = {**thor(entry(4242, 3 * GIB)), CLIENTS: table(client(b"infer", 4242, 1024)), **pod_task(1, 4242)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "infer")))
    assert held_gpu(document) == {"infer": 3 * GIB}


@pytest.mark.parametrize(
    "lists",
    [
        {"compute": listed(), "graphics": listed()},
        {"compute": listed(code=3), "graphics": listed(code=3)},
        {"compute": listed(entry(4242, None))},
        {"compute": listed(code=999)},
    ],
)
def test_lists_without_a_value_leave_it_to_the_table(
    lists: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chip = device("Orin (nvgpu)", "dddddddd-0000-4000-8000-000000000001", **lists)
    files = {**orin(table(client(b"infer", 4242, 2048))), "nvml.json": nvml(chip), **pod_task(1, 4242)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "infer")))
    assert held_gpu(document) == {"infer": 2 * MIB}


def test_a_board_without_nvml_has_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # ultralytics/ultralytics#20680: JetPack 5 and older have no NVML library.
    files = {**orin(table(client(b"infer", 4242, 2048))), **pod_task(1, 4242)}
    del files["nvml.json"]
    document = show(capsys, tmp_path, files, cluster(simple(1, "infer"), simple(2, "quiet")))
    assert held_gpu(document) == {"infer": 2 * MIB, "quiet": 0}


def test_a_spoiled_list_is_not_replaced_by_a_table_that_has_less(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # NVIDIA/go-nvml#21 on a Thor. CUDA's memory is in the list alone; nvmap has a camera's 16 MiB and would clear
    # everybody else.
    files = {
        **thor(entry(4242, 3 * GIB), entry(4294967295, 5151)),
        CLIENTS: table(client(b"camera", 900, 16 * 1024)),
        **pod_task(1, 4242, fds=("/dev/nvidia0",)),
        **task(900, SYSTEM),
    }
    document = show(capsys, tmp_path, files, cluster(simple(1, "infer", "1Gi"), simple(2, "quiet", "1Gi")))
    assert held_gpu(document) == {"infer": None, "quiet": None}


@pytest.mark.parametrize("page", [4096, 16384, 65536])
def test_the_page_size_of_the_kernel_changes_no_figure(
    page: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Tables, meminfo and memory.stat are in KiB and bytes, never in pages.
    about = {"format": 1, "taken": "2026-01-31T12:00:00Z", "node": "edge-07", "arch": "aarch64", "page_size": page}
    files = {**orin(table(client(b"infer", 4242, 1000))), "snapshot.yaml": about, **pod_task(1, 4242)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "infer")))
    assert held_gpu(document) == {"infer": 1000 * KIB}
    assert document["pools"][0]["total_bytes"] == 64 * GIB


def test_rows_of_meminfo_do_not_replace_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Kernel 4.9 (JetPack 4) has NvMapMemUsed: a sum of the whole board that names nobody.
    board = {**orin(table()), "host/proc/meminfo": meminfo(8038788, NvMapMemFree=94784, NvMapMemUsed=805068)}
    document = show(capsys, tmp_path, board, pod_task(1, 4242), cluster(simple(1, "infer")))
    assert held_gpu(document) == {"infer": None}


def test_a_suspect_pod_is_not_held_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {**orin(table(ROW)[:-1]), **pod_task(1, 4242), **cluster(simple(1, "infer", "1Gi"))}
    assert held_codes(show(capsys, tmp_path, files)) == {}
