"""Memory that stays: what keeps it from being locked is said, never raised."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

NO_CAPABILITY = "Name:\tpython\nCapEff:\t0000000000000000\n"
IPC_LOCK = f"Name:\tpython\nCapEff:\t{1 << 14:016x}\n"

# In a process of its own, which gives up all capabilities (capset with empty sets, format 3) and room.
ASK = """
import ctypes, resource, sys
from pathlib import Path
from edgeagent.system import shield
assert ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()) == 0
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
print(shield.lock_memory(Path(sys.argv[1])))
"""
SETTLE = """
import gc
from edgeagent.system import shield
before = gc.get_freeze_count()
shield.settle()
print(gc.get_freeze_count() - before > 1000)
"""
HEAPS = """
import ctypes, threading
from pathlib import Path
from edgeagent.system import shield
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
shield.one_heap()
shield.one_heap()
found = []
thread = threading.Thread(target=lambda: found.append(library.malloc(ctypes.c_size_t(100))))
thread.start()
thread.join()
(row,) = [row for row in Path("/proc/self/maps").read_text().splitlines() if row.endswith("[heap]")]
first, _, last = row.split()[0].partition("-")
print(int(first, 16) <= found[0] < int(last, 16))
"""


def run(code: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize(
    "status", [NO_CAPABILITY, "Name:\tpython\n", None], ids=["without", "no such row", "not readable"]
)
def test_a_limit_without_the_capability_is_refused_before_it_hurts(tmp_path: Path, status: str | None) -> None:
    file = tmp_path / "status"
    if status is not None:
        file.write_text(status)

    # 65536 bytes
    assert run(ASK, str(file)) == "no CAP_IPC_LOCK, and RLIMIT_MEMLOCK is 64 KiB"


def test_the_kernels_answer_is_told(tmp_path: Path) -> None:
    # As in a user namespace: a capability is shown that does not count for the machine's memory.
    file = tmp_path / "status"
    file.write_text(IPC_LOCK)

    assert run(ASK, str(file)) == "mlockall answered ENOMEM: Cannot allocate memory"


def test_what_exists_after_the_start_is_left_alone_by_later_collections() -> None:
    assert run(SETTLE) == "True"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone has a heap for each thread")
def test_a_thread_has_its_memory_from_the_one_heap() -> None:
    # What the kernel calls the heap is where the first thread's memory is from.
    assert run(HEAPS) == "True"
