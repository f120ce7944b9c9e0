"""The nvmap client table: records at fixed places, or nothing."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.errors import ReadingError
from edgeagent.facts import NvmapRow, NvmapTable
from edgeagent.host.nvmap import parse

KIB, MIB = 1024, 1024**2

# Public recording of an AGX Orin (README of an htop patch for Jetsons).
GPU_BURN = b"""\
CLIENT                        PROCESS      PID        SIZE
user                         gpu_burn     7979   23525644K
user                      gnome_shell     8119       5800K
user                             Xorg     2651      17876K
total                                            23549320K
"""
# Public example in NVIDIA's own notes on auditing Jetson memory: the total is more than the rows, since handles that no
# client references any more count in it.
VLLM = b"""\
CLIENT                        PROCESS      PID        SIZE
user                  VLLM::EngineCor  1792595   14617792K
total                                            15319584K
"""
# Public example of the layout of kernels that count shared pages by user (gp10b, TX2).
PSS = b"""\
CLIENT                        PROCESS      PID         PSS        SIZE
user                   nvargus-daemon     4678          0K         76K
total                                                  64K         76K
"""
TITLE = b"CLIENT                        PROCESS      PID        SIZE\n"


def row(comm: bytes, pid: int, size: bytes, client: bytes = b"user") -> bytes:
    """One record as the driver prints it."""
    return b"%-18s %18s %8d %11s\n" % (client, comm, pid, size)


def total(size: bytes) -> bytes:
    return b"%-18s %18s %8s %11s\n" % (b"total", b"", b"", size)


def test_recorded_tables() -> None:
    assert parse(GPU_BURN) == NvmapTable(
        rows=(
            NvmapRow("user", "gpu_burn", 7979, 23525644 * KIB),
            NvmapRow("user", "gnome_shell", 8119, 5800 * KIB),
            NvmapRow("user", "Xorg", 2651, 17876 * KIB),
        ),
        total_bytes=23549320 * KIB,
    )
    assert parse(VLLM) == NvmapTable(
        rows=(NvmapRow("user", "VLLM::EngineCor", 1792595, 14617792 * KIB),), total_bytes=15319584 * KIB
    )


def test_a_name_with_blanks_and_a_zero_row() -> None:
    table = parse(
        TITLE
        + row(b"my llm app", 4242, b"1572864K")
        + row(b"nvargus-daemon", 1012, b"0K")
        + row(b"kernel", 0, b"13216K", client=b"vi-output")
        + total(b"1586080K")  # 1572864 + 0 + 13216
    )
    assert table.rows == (
        NvmapRow("user", "my llm app", 4242, 1536 * MIB),
        NvmapRow("user", "nvargus-daemon", 1012, 0),
        NvmapRow("vi-output", "kernel", 0, 13216 * KIB),
    )


def test_a_table_without_rows() -> None:
    assert parse(TITLE + total(b"0K")) == NvmapTable((), 0)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (b"768K", 768 * KIB),
        (b"768M", 768 * MIB),
        (b"768MB", 768 * MIB),
        (b"3G", 3 * 1024**3),
        (b"4096B", 4096),
        (b"9999999999K", 9999999999 * KIB),
    ],
)
def test_a_size_counts_in_its_own_unit(size: bytes, expected: int) -> None:
    assert parse(TITLE + row(b"a", 1, size) + total(size)).rows[0].bytes == expected


@pytest.mark.parametrize("comm", [b"\na b 7 999999K\n", b"total", b"", b"\xff\xfe", b"a\nuser     b 7", b"   x"])
def test_a_name_can_neither_hide_its_row_nor_make_another(comm: bytes) -> None:
    table = parse(TITLE + row(comm, 14, b"300K") + row(b"other", 7, b"5K") + total(b"305K"))
    assert [(one.pid, one.bytes) for one in table.rows] == [(14, 300 * KIB), (7, 5 * KIB)]
    assert table.total_bytes == 305 * KIB


NO_TABLE = {
    "empty": b"",
    "no title": b"total\n",
    "PSS column": PSS,
    "title cut off": TITLE[:-1],
    "cut off after the title": TITLE,
    "cut off after a row": GPU_BURN[: 3 * 59],
    "last byte missing": GPU_BURN[:-1],
    "cut off": GPU_BURN[:200],
    "a longer record": GPU_BURN.replace(b"23525644K", b"235256440K"),
    "DOS line ends": GPU_BURN.replace(b"\n", b"\r\n"),
    "a shorter total": TITLE + row(b"a", 1, b"5K") + total(b"5K").replace(b" 5K", b"5K"),
    "unknown unit": TITLE + row(b"a", 1, b"300T") + total(b"300K"),
    "no unit": TITLE + row(b"a", 1, b"300") + total(b"300K"),
    "negative": TITLE + row(b"a", 1, b"-300K") + total(b"300K"),
    "a pid that no kernel gives": TITLE + row(b"a", 4194305, b"300K") + total(b"300K"),
    "total not last": TITLE + total(b"300K") + row(b"a", 1, b"300K"),
    "right length, no newline": TITLE + row(b"a", 1, b"300K")[:-1] + b" " + total(b"300K"),
    "rows above the total": TITLE + row(b"Xorg", 2599, b"17854K") + row(b"probe", 777, b"1024K") + total(b"17854K"),
}


@pytest.mark.parametrize("content", NO_TABLE.values(), ids=NO_TABLE.keys())
def test_another_layout_or_a_contradiction_is_no_table(content: bytes) -> None:
    with pytest.raises(ReadingError, match="nvmap"):
        parse(content)


def test_rounding_in_each_row_is_no_contradiction() -> None:
    # Sizes are cut to their unit row by row: 3 x 1.9K is 3 x 1K, and 5.7M as a total is 5M.
    assert parse(TITLE + 3 * row(b"a", 1, b"2000K") + total(b"5M")).total_bytes == 5 * MIB
    with pytest.raises(ReadingError):  # 8000K are 2880K more than 5M, more than 1M + 4K
        parse(TITLE + 4 * row(b"a", 1, b"2000K") + total(b"5M"))


@given(st.one_of(st.binary(), st.binary().map(lambda rest: TITLE + rest)))
def test_any_bytes_are_a_table_or_an_error(content: bytes) -> None:
    with contextlib.suppress(ReadingError):
        parse(content)


ROWS = st.tuples(
    st.binary(max_size=15).map(lambda comm: comm.replace(b"\0", b"")),
    st.integers(0, 4194304),
    st.integers(0, 10**10 - 1),
)


@given(st.lists(ROWS, max_size=20))
def test_every_row_comes_back_whatever_the_names_are(rows: list[tuple[bytes, int, int]]) -> None:
    # A total of ten digits, which is more than the rows together: that is no contradiction.
    most = b"%dM" % (20 * 10**10 // KIB + 1)
    content = TITLE + b"".join(row(comm, pid, b"%dK" % size) for comm, pid, size in rows) + total(most)
    assert [(one.pid, one.bytes) for one in parse(content).rows] == [(pid, size * KIB) for _, pid, size in rows]


@given(st.data())
def test_a_changed_byte_never_moves_bytes_to_another_pid(data: st.DataObject) -> None:
    content = bytearray(GPU_BURN)
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        table = parse(bytes(content))
    except ReadingError:
        return
    for one in table.rows:  # what is said of a process stands in one record
        records = [bytes(content[at : at + 59]) for at in range(59, len(content), 59)]
        assert any(b"%8d" % one.pid == part[38:46] and b"%10d" % (one.bytes // KIB) in part for part in records)
