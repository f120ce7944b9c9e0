"""Processes as /proc shows them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.facts import CgroupOwner, Process
from edgeagent.host.files import Entry, RootFiles, TreeFiles
from edgeagent.host.processes import holders, host_view, process
from tests.unit.host.trees import EACCES, FaultyFiles

U = "11111111-2222-3333-4444-000000000001"
C = "c" * 64
CGROUP = f"0::/kubepods/burstable/pod{U}/{C}\n".encode()

# A kernel thread's line, recorded on a 6.18 kernel; 2129984 is 0x208040, in which 0x200000 is PF_KTHREAD.
KTHREADD = (
    b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 23 0 0 18446744073709551615 0 0 0 0 0 0 0 "
    b"2147483647 0 1 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)


def stat(pid: int, comm: str = "app", *, start: int = 881234, state: str = "S", flags: int = 4194304) -> bytes:
    """A stat line: the name in brackets, then the fields from 3 on; flags are field 9, the start is field 22."""
    return f"{pid} ({comm}) {state} 1 1 1 0 -1 {flags} 5 6 7 8 9 10 11 12 20 0 1 0 {start} 4096 25 0\n".encode()


def proc(pid: int, **files: bytes) -> dict[str, Entry]:
    return {f"proc/{pid}/{name}": content for name, content in files.items()}


def test_a_process_and_its_owner() -> None:
    files = TreeFiles(proc(4242, stat=stat(4242), cgroup=CGROUP))
    assert process(files, 4242) == Process(pid=4242, start_ticks=881234, name="app", owner=CgroupOwner(U, C))


@pytest.mark.parametrize("comm", ["(a) b (c", ") S 1 1 1 0 -1 2097152", "a b", "", "x)", "ü"])
def test_a_name_may_hold_blanks_and_brackets(comm: str) -> None:
    found = process(TreeFiles(proc(7, stat=stat(7, comm), cgroup=b"0::/\n")), 7)
    assert found == Process(pid=7, start_ticks=881234, name=comm, owner=None)


def test_a_kernel_thread() -> None:
    found = process(TreeFiles(proc(2, stat=KTHREADD, cgroup=b"0::/\n")), 2)
    assert found == Process(pid=2, start_ticks=23, name="kthreadd", kernel=True)


def test_a_process_that_is_gone_is_none() -> None:
    assert process(TreeFiles({"proc": None}), 4242) is None
    assert process(TreeFiles({"proc/4242": None}), 4242) is None


def test_a_process_that_ends_between_two_readings_is_none() -> None:
    class Ending(FaultyFiles):
        def _note(self, what: str, path: str) -> None:
            if path.endswith("cgroup"):
                self.tree = TreeFiles({"proc": None})
            super()._note(what, path)

    assert process(Ending(proc(4242, stat=stat(4242), cgroup=CGROUP)), 4242) is None


def test_an_unreadable_cgroup_is_said() -> None:
    files = FaultyFiles(proc(5, stat=stat(5), cgroup=CGROUP), {"proc/5/cgroup": EACCES})
    assert process(files, 5) == Process(pid=5, start_ticks=881234, name="app", cgroup_readable=False)
    unrecorded = process(TreeFiles(proc(5, stat=stat(5))), 5)
    assert unrecorded == Process(pid=5, start_ticks=881234, name="app", cgroup_readable=False)
    empty = process(TreeFiles(proc(5, stat=stat(5), cgroup=b"\n")), 5)
    assert empty == Process(pid=5, start_ticks=881234, name="app", cgroup_readable=False)


def test_a_zombie_still_belongs_to_its_pod() -> None:
    files = TreeFiles(proc(5, stat=stat(5, state="Z"), cgroup=CGROUP, status=b"Name:\tapp\nState:\tZ (zombie)\n"))
    assert process(files, 5) == Process(pid=5, start_ticks=881234, name="app", owner=CgroupOwner(U, C))


@pytest.mark.parametrize(
    ("status", "name", "kernel"),
    [
        (b"Name:\tinfer\nState:\tS (sleeping)\nVmSize:\t  100 kB\n", "infer", False),
        (b"Name:\tkworker/0:1\nState:\tI (idle)\n", "kworker/0:1", True),
        (b"Name:\tinfer\nState:\tZ (zombie)\n", "infer", False),
        (None, "from-comm", False),
    ],
)
@pytest.mark.parametrize("line", [None, b"", b"5 app S 1", stat(5)[:30], stat(5, flags=-1), stat(5, start=10**30)])
def test_without_stat_the_other_files_tell(status: bytes | None, name: str, kernel: bool, line: bytes | None) -> None:  # noqa: FBT001 (a table's column)
    files = proc(5, cgroup=CGROUP, comm=b"from-comm\n")
    if status is not None:
        files |= proc(5, status=status)
    if line is not None:
        files |= proc(5, stat=line)
    assert process(TreeFiles(files), 5) == Process(
        pid=5, start_ticks=None, name=name, kernel=kernel, owner=CgroupOwner(U, C)
    )


@given(st.binary(), st.binary(), st.binary())
def test_any_bytes_are_a_process_or_none(line: bytes, status: bytes, cgroup: bytes) -> None:
    process(TreeFiles(proc(5, stat=line, status=status, cgroup=cgroup)), 5)


def test_a_real_process() -> None:
    files = RootFiles(Path("/"))
    found = process(files, os.getpid())
    assert found
    assert (found.pid, found.kernel, found.cgroup_readable) == (os.getpid(), False, True)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert process(files, child.pid)
    assert process(files, child.pid) is None


# --- holders of a GPU device node ---


def holding(pid: int, *targets: str, **files: bytes) -> dict[str, Entry]:
    links: dict[str, Entry] = {f"proc/{pid}/fd/{number}": target for number, target in enumerate(targets)}
    return {f"proc/{pid}/fd": None, **links, **proc(pid, stat=stat(pid), **files)}


@pytest.mark.parametrize(
    "node",
    [
        "/dev/nvidia0",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-caps/nvidia-cap1",
        "/dev/nvmap",
        "/dev/nvgpu/igpu0/ctrl",
        "/dev/nvhost-gpu",
        "/dev/nvhost-as-gpu",
        "/dev/nvhost-ctrl-gpu",
        "/dev/nvmap (deleted)",
        "/host/dev/nvidia0",
    ],
)
def test_a_gpu_device_node_counts(node: str) -> None:
    assert holders(TreeFiles(holding(5, "/dev/null", node)), 3.0).value == 1


@pytest.mark.parametrize(
    "node",
    [
        "/dev/nvme0n1",
        "/dev/nvram",
        "/dev/nvhost-vic",
        "/dev/nvhost-ctrl",
        "/dev/null",
        "/tmp/nvidia0",  # noqa: S108 (a link's text)
        "/dev/nvmapper",
        "socket:[12]",
        "anon_inode:[eventfd]",
    ],
)
def test_another_file_does_not_count(node: str) -> None:
    assert holders(TreeFiles(holding(5, node)), 3.0).value == 0


def test_processes_are_counted_and_not_their_descriptors() -> None:
    files = TreeFiles({**holding(5, "/dev/nvmap", "/dev/nvmap"), **holding(6), **holding(7, "/dev/nvidia0")})
    reading = holders(files, 3.0)
    assert (reading.at, reading.value, reading.why) == (3.0, 2, "")


def test_a_process_that_cannot_be_looked_into_may_hold_one() -> None:
    closed = FaultyFiles({**holding(5), **holding(6)}, {"proc/6/fd": EACCES})
    assert (holders(closed, 0.0).value, "1 processes" in holders(closed, 0.0).why) == (None, True)
    unrecorded = TreeFiles({**holding(5), **proc(6, stat=stat(6))})
    assert holders(unrecorded, 0.0).value is None
    without_stat = TreeFiles({**holding(5), **proc(6, status=b"Name:\tx\nState:\tS\nVmSize:\t 1 kB\n")})
    assert holders(without_stat, 0.0).value is None


def test_if_others_hold_one_the_closed_one_does_not_matter() -> None:
    assert holders(TreeFiles({**holding(5, "/dev/nvmap"), **proc(6, stat=stat(6))}), 0.0).value == 1


def test_kernel_threads_zombies_and_gone_processes_hold_nothing() -> None:
    files = TreeFiles(
        {
            **holding(5),
            **proc(2, stat=KTHREADD),
            **proc(6, stat=stat(6, state="Z")),
            **proc(8, status=b"Name:\tkworker\nState:\tI (idle)\n"),
            "proc/7": None,
            "proc/self/x": b"",
            "proc/meminfo": b"",
        }
    )
    assert holders(files, 0.0).value == 0


def test_no_process_table_is_unknown() -> None:
    assert holders(TreeFiles({}), 0.0).value is None
    assert holders(TreeFiles({"proc/meminfo": b""}), 0.0).value is None
    denied = holders(FaultyFiles(holding(5), {"proc": EACCES}), 0.0)
    assert (denied.value, denied.why) == (None, "proc: Permission denied")


def test_the_reader_itself_does_not_count() -> None:
    tree: dict[str, Entry] = {**holding(5, "/dev/nvidiactl"), **holding(6, "/dev/nvidiactl")}
    assert holders(TreeFiles({**tree, "proc/self": "5"}), 0.0).value == 1


def test_the_real_table_can_be_counted() -> None:
    assert holders(RootFiles(Path("/")), 0.0).at == 0.0


# --- whose process table it is ---

NAMESPACE = "proc/17/ns/pid"


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (proc(2, stat=KTHREADD), True),
        (proc(1, stat=stat(1)), True),  # a recording without pid 2: nothing to check
        ({}, True),
        (proc(2, stat=stat(2, "sh")), False),
        # live: the agent is pid 17 of a container of its own
        ({**proc(17, stat=stat(17)), "proc/self": "17", NAMESPACE: "pid:[4026532900]"}, False),
        ({**proc(17, stat=stat(17)), **proc(2, stat=stat(2, "sh")), "proc/self": "17"}, False),
        # live, processes of others hidden (hidepid), in the initial namespace all the same
        ({**proc(17, stat=stat(17)), "proc/self": "17", NAMESPACE: "pid:[4026531836]"}, True),
        ({**proc(2, stat=KTHREADD), "proc/self": "17", NAMESPACE: "pid:[4026532900]"}, True),
    ],
)
def test_whose_process_table_it_is(entries: dict[str, Entry], expected: bool) -> None:  # noqa: FBT001 (a table's column)
    assert host_view(TreeFiles(entries)) is expected
