r"""The nvmap client table, ``/sys/kernel/debug/nvmap/iovmm/clients``: GPU memory by process on a Tegra.

The driver (4.9 to 5.15 kernels) prints each record with ``"%-18s %18s %8u %10lluK\n"``:
client, process, pid, size. A title of the same width stands before them, a total after
them, so that every record is 59 bytes long. The process name is the task's own ``comm``,
raw: a process may put blanks and newlines into it. Only its place tells what a byte
belongs to; who looks for lines can be made to miss a row and to see one that is not there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from edgeagent.errors import ReadingError
from edgeagent.facts import PID_MAX, NvmapRow, NvmapTable

PATH = "sys/kernel/debug/nvmap/iovmm/clients"

_RECORD = 59
_TITLE = b"%-18s %18s %8s %11s\n" % (b"CLIENT", b"PROCESS", b"PID", b"SIZE")
_TOTAL = b"%-18s %18s %8s " % (b"total", b"", b"")
_ROW = re.compile(rb"(.{18}) (.{18}) ( *\d+) (.{11}\n)", re.DOTALL)
_SIZE = re.compile(rb" *(\d+)([KMG]B?|B)\n")
_UNIT = {b"B": 1, b"K": 1024, b"M": 1024**2, b"G": 1024**3}


class _Size(NamedTuple):
    bytes: int
    unit: int
    """What the driver has rounded down by, at most."""


def parse(content: bytes) -> NvmapTable:
    """Every client row, kernel clients (pid 0) included, and the driver's own total.

    Raises:
        ReadingError: another layout (such as the one with a PSS column), or figures that
            contradict each other. The table is then unknown as a whole.
    """
    if not content.startswith(_TITLE):
        raise ReadingError("nvmap clients: the title is not that of the layout with 59 bytes a record")
    if len(content) % _RECORD:
        raise ReadingError(f"nvmap clients: {len(content)} bytes are no whole number of records of {_RECORD}")
    records = [content[start : start + _RECORD] for start in range(_RECORD, len(content), _RECORD)]
    if not records or not records[-1].startswith(_TOTAL):
        raise ReadingError("nvmap clients: the total does not stand at the end, so that the table is not whole")
    total = _size(records.pop()[len(_TOTAL) :])
    rows, sizes = [], []
    for record in records:
        match = _ROW.fullmatch(record)
        if not match or int(match[3]) > PID_MAX:
            raise ReadingError("nvmap clients: a record does not have the known layout")
        size = _size(match[4])
        sizes.append(size)
        client, process = (_text(field) for field in (match[1], match[2]))
        rows.append(NvmapRow(client, process, int(match[3]), size.bytes))
    _check(sizes, total)
    return NvmapTable(tuple(rows), total.bytes)


def _size(field: bytes) -> _Size:
    match = _SIZE.fullmatch(field)
    if not match:
        raise ReadingError("nvmap clients: a size is not a number with a unit")
    unit = _UNIT[match[2][:1]]
    return _Size(int(match[1]) * unit, unit)


def _text(field: bytes) -> str:
    return field.strip(b" ").decode(errors="replace")


def _check(sizes: list[_Size], total: _Size) -> None:
    """The total also counts memory that no client holds any more, so it is never the smaller figure."""
    together = sum(size.bytes for size in sizes)
    rounding = total.unit + sum(size.unit for size in sizes)
    if together - total.bytes > rounding:
        raise ReadingError(f"nvmap clients: the rows are {together} bytes, the total says {total.bytes}")
