"""/proc/meminfo: a right reading or none."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.errors import ReadingError
from edgeagent.facts import MemInfo
from edgeagent.host.meminfo import parse

# The rows that are read, from an Orin Nano 8 GB with kernel 5.15.148-tegra (L4T R36.4); between them, rows that are
# not. Public recording of that board, January 2025.
ORIN_NANO = b"""\
MemTotal:        7802736 kB
MemFree:         3668508 kB
MemAvailable:    6245596 kB
Buffers:          633812 kB
Active:          1811360 kB
Inactive:        1090624 kB
Active(anon):      30916 kB
Active(file):    1780444 kB
Inactive(file):   854980 kB
SwapTotal:       3901344 kB
SwapFree:        3608100 kB
AnonPages:        108724 kB
Shmem:            156444 kB
KReclaimable:     144568 kB
SReclaimable:     144568 kB
SUnreclaim:        95332 kB
KernelStack:        7408 kB
PageTables:        12016 kB
ShmemHugePages:        0 kB
CmaTotal:         262144 kB
CmaFree:               0 kB
HugePages_Total:       0
HugePages_Free:        0
Hugepagesize:       2048 kB
Hugetlb:               0 kB
"""
KIB = 1024


def test_a_recorded_board() -> None:
    assert parse(ORIN_NANO) == MemInfo(
        total=7802736 * KIB,
        free=3668508 * KIB,
        available=6245596 * KIB,
        active_file=1780444 * KIB,
        inactive_file=854980 * KIB,
        s_reclaimable=144568 * KIB,
        s_unreclaim=95332 * KIB,
        anon_pages=108724 * KIB,
        shmem=156444 * KIB,
        kernel_stack=7408 * KIB,
        page_tables=12016 * KIB,
        cma_total=262144 * KIB,
        cma_free=0,
        hugetlb=0,
        swap_total=3901344 * KIB,
    )


def without(row: str) -> bytes:
    return re.sub(rb"^" + re.escape(row.encode()) + rb":.*\n", b"", ORIN_NANO, flags=re.MULTILINE)


def with_row(row: str, text: str) -> bytes:
    changed = re.sub(
        rb"^" + re.escape(row.encode()) + rb":.*\n", f"{row}:{text}\n".encode(), ORIN_NANO, flags=re.MULTILINE
    )
    assert changed != ORIN_NANO
    return changed


IMPLAUSIBLE = {
    "empty": b"",
    "blank": b"\n",
    "last newline missing": ORIN_NANO[:-1],  # more of the line may be missing, too
    "cut off": b"MemTotal:        7802736 kB\nMemFree: 3120",
    "no total": without("MemTotal"),
    "total 0": with_row("MemTotal", "  0 kB"),
    "total negative": with_row("MemTotal", "  -7802736 kB"),
    "total without unit": with_row("MemTotal", "  7802736"),
    "total in another unit": with_row("MemTotal", "  7802736 MB"),
    "total with commas": with_row("MemTotal", "  7,802,736 kB"),
    "total of 2^63 kB": with_row("MemTotal", "  9223372036854775808 kB"),
    "total of 5000 digits": with_row("MemTotal", "  " + "9" * 5000 + " kB"),
    "available without unit": with_row("MemAvailable", "  6245596"),
    "more free than there is": with_row("MemFree", "  9000000 kB"),
    "negative part": with_row("AnonPages", "  -1 kB"),
    "unit twice": with_row("CmaTotal", "  262144 kB kB"),
    "more CMA than there is": with_row("CmaTotal", "  9000000 kB"),
    "negative swap": with_row("SwapTotal", "  -1 kB"),
    "pages with a unit": with_row("HugePages_Total", "  1 kB"),
    "two readings run together": ORIN_NANO + b"MemAvailable:    6245596 kB\n",
}


@pytest.mark.parametrize("content", IMPLAUSIBLE.values(), ids=IMPLAUSIBLE.keys())
def test_what_is_not_plausible_is_no_reading(content: bytes) -> None:
    with pytest.raises(ReadingError, match="meminfo"):
        parse(content)


@pytest.mark.parametrize(
    ("content", "available"),
    [
        (without("MemAvailable"), None),  # never guessed from MemFree and caches
        (with_row("MemAvailable", " 7802737 kB"), None),
        (with_row("MemAvailable", " -1 kB"), None),
        (with_row("MemAvailable", " 0 kB"), 0),
        (with_row("MemAvailable", " 7802736 kB"), 7802736 * KIB),
        (b"".join(b"Row%d: 1 kB\n" % number for number in range(200)) + ORIN_NANO, 6245596 * KIB),
    ],
)
def test_available_is_told_or_unknown(content: bytes, available: int | None) -> None:
    assert parse(content).available == available


def test_a_file_with_dos_line_ends_is_the_same() -> None:
    assert parse(ORIN_NANO.replace(b"\n", b"\r\n")) == parse(ORIN_NANO)


@pytest.mark.parametrize(
    ("content", "hugetlb"),
    [
        (with_row("Hugetlb", " 2048 kB"), 2048 * KIB),
        # Kernels before 4.20 have no Hugetlb row: 3 pages of 2048 kB.
        (without("Hugetlb").replace(b"HugePages_Total:       0", b"HugePages_Total:       3"), 3 * 2048 * KIB),
        # The row counts pages of all sizes and wins over the pages of the usual size.
        (
            with_row("Hugetlb", " 8192 kB").replace(b"HugePages_Total:       0", b"HugePages_Total:       3"),
            8192 * KIB,
        ),
    ],
)
def test_huge_pages(content: bytes, hugetlb: int) -> None:
    assert parse(content).hugetlb == hugetlb


def test_a_row_that_is_not_printed_is_unknown_but_for_memory_that_then_is_not_there() -> None:
    info = parse(b"MemTotal: 1000 kB\n")
    assert info == MemInfo(total=1000 * KIB)
    assert info.free is info.available is info.shmem is None
    assert (info.cma_total, info.cma_free, info.hugetlb, info.swap_total) == (0, 0, 0, 0)


@given(st.binary())
def test_any_bytes_are_a_reading_or_an_error(content: bytes) -> None:
    with contextlib.suppress(ReadingError):
        parse(content)


@given(st.data())
def test_no_value_is_invented(data: st.DataObject) -> None:
    """Whatever a damaged file still says stands in it, row by row, in kB."""
    content = bytearray(ORIN_NANO)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content[at] = data.draw(st.integers(0, 255))
        else:
            del content[at : at + data.draw(st.integers(1, 80))]
        if not content:
            return
    try:
        info = parse(bytes(content))
    except ReadingError:
        return
    for name, value in (("MemTotal", info.total), ("MemAvailable", info.available), ("MemFree", info.free)):
        if value is not None:
            assert re.search(rb"^%s:[ \t]+0*%d kB\r?\n" % (name.encode(), value // KIB), content, re.MULTILINE)
