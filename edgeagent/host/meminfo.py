"""``/proc/meminfo``, strictly: a reading is right or there is none.

The rows and their unit are those of proc_meminfo(5). A library that fills a missing
MemAvailable with a guess would make the agent act on it, so there is none in between.
"""

from __future__ import annotations

import re

from edgeagent.errors import ReadingError
from edgeagent.facts import MemInfo

_OPTIONAL = {
    "MemFree": "free",
    "Active(file)": "active_file",
    "Inactive(file)": "inactive_file",
    "SReclaimable": "s_reclaimable",
    "SUnreclaim": "s_unreclaim",
    "AnonPages": "anon_pages",
    "Shmem": "shmem",
    "KernelStack": "kernel_stack",
    "PageTables": "page_tables",
}
"""Rows whose absence means that the value is unknown."""

_OURS = ("MemTotal", "MemAvailable", "CmaTotal", "CmaFree", "SwapTotal", "Hugetlb", "HugePages_Total", "Hugepagesize")
_ROW = re.compile(
    rb"^(" + b"|".join(re.escape(name.encode()) for name in (*_OURS, *_OPTIONAL)) + rb"):([^\n]*)\n", re.MULTILINE
)
_SIZE = re.compile(rb"[ \t]+(-?\d{1,19}) kB\r?")
_COUNT = re.compile(rb"[ \t]+(\d{1,19})\r?")

_MOST = 1 << 52
"""Bytes that 52-bit physical addresses reach, the most that x86-64 and arm64 have."""


def parse(content: bytes) -> MemInfo:
    """The rows that the agent uses, in bytes.

    Raises:
        ReadingError: no plausible MemTotal, a row that is malformed, doubled or larger
            than all memory, or a text that breaks off in its last line.
    """
    rows = _rows(content)
    total = rows.get("MemTotal")
    if total is None or not 0 < total <= _MOST:
        raise ReadingError(f"meminfo: MemTotal is {'absent' if total is None else f'{total} bytes'}")
    available = rows.get("MemAvailable")
    known: dict[str, int | None] = {field: rows.get(name) for name, field in _OPTIONAL.items()}
    info = MemInfo(
        total=total,
        available=available if available is not None and 0 <= available <= total else None,
        cma_total=rows.get("CmaTotal", 0),
        cma_free=rows.get("CmaFree", 0),
        hugetlb=rows.get("Hugetlb", rows.get("HugePages_Total", 0) * rows.get("Hugepagesize", 0)),
        swap_total=rows.get("SwapTotal", 0),
        **known,
    )
    _check(info)
    return info


def _rows(content: bytes) -> dict[str, int]:
    if not content.endswith(b"\n"):
        raise ReadingError("meminfo: empty, or cut off in its last line")
    rows: dict[str, int] = {}
    for key, rest in _ROW.findall(content):
        name = key.decode()
        value = (_COUNT if name == "HugePages_Total" else _SIZE).fullmatch(rest)
        if not value or name in rows:
            raise ReadingError(f"meminfo: the row {name} is {'there twice' if value else 'malformed'}")
        rows[name] = int(value[1]) * (1 if name == "HugePages_Total" else 1024)
    return rows


def _check(info: MemInfo) -> None:
    parts = {
        "CmaTotal": info.cma_total,
        "CmaFree": info.cma_free,
        "Hugetlb": info.hugetlb,
        **{name: getattr(info, field) for name, field in _OPTIONAL.items()},
    }
    for name, value in parts.items():
        if value is not None and not 0 <= value <= info.total:
            raise ReadingError(f"meminfo: {name} of {value} bytes does not fit into a MemTotal of {info.total}")
    if info.swap_total < 0:
        raise ReadingError(f"meminfo: SwapTotal of {info.swap_total} bytes")
