"""The largest process outside pods, looked for in trees of ``/proc``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from edgeagent.facts import CgroupOwner, HostProcess, Process
from edgeagent.host.files import Entry, Files, TreeFiles
from edgeagent.host.outside import candidates
from tests.unit.host.trees import EACCES, FaultyFiles

KIB = 1024
U = "11111111-2222-3333-4444-000000000001"
C, D = "c" * 64, "d" * 64
FLAGS, KTHREAD = 4194304, 2129984
"""Field 9 of stat: an ordinary process; 0x208040, in which 0x200000 is PF_KTHREAD (include/linux/sched.h)."""
SERVICE = "0::/system.slice/ollama.service"


def proc(
    pid: int,
    name: str | bytes = "ollama",
    *,
    anon: int | None = 100,
    shmem: int | None = 0,
    cgroup: str | None = SERVICE,
    statm: str | None = None,
    flags: int = FLAGS,
    memory: bool = True,
) -> dict[str, Entry]:
    """One process; ``anon`` and ``shmem`` in KiB, None: its kernel has no such row."""
    comm = name.encode() if isinstance(name, str) else name
    rows = [b"Name:\t" + comm.replace(b"\\", b"\\\\").replace(b"\n", b"\\n"), b"State:\tS (sleeping)"]
    if memory:
        rows += [b"VmSize:\t 9000000 kB", b"VmRSS:\t  800000 kB"]
        told = ((b"RssAnon", anon), (b"RssShmem", shmem))
        rows += [b"%s:\t%8d kB" % (row, kib) for row, kib in told if kib is not None]
    files: dict[str, Entry] = {
        f"proc/{pid}/stat": b"%d (%s) S 1 1 1 0 -1 %d 5 6 7 8 9 10 11 12 20 0 1 0 77 4096 25 0\n" % (pid, comm, flags),
        f"proc/{pid}/status": b"\n".join([*rows, b"Threads:\t1", b""]),
    }
    if cgroup is not None:
        files[f"proc/{pid}/cgroup"] = f"{cgroup}\n".encode()
    if statm is not None:
        files[f"proc/{pid}/statm"] = statm.encode()
    return files


def found(
    *parts: dict[str, Entry], known: tuple[Process, ...] = (), among: Collection[int] | None = None
) -> tuple[HostProcess, ...]:
    entries = {path: entry for part in parts for path, entry in part.items()}
    return look(TreeFiles(entries), *known, among=among)


def look(files: Files, *known: Process, among: Collection[int] | None = None) -> tuple[HostProcess, ...]:
    return candidates(files, {process.pid: process for process in known}, 4096, among)


def pids(*parts: dict[str, Entry]) -> list[int]:
    return [one.pid for one in found(*parts)]


def test_the_largest_by_its_anonymous_and_its_shared_memory() -> None:
    # 300 + 50 KiB are more than 340 + 0.
    assert found(proc(7, "sshd", anon=340), proc(812, anon=300, shmem=50), proc(9, anon=1)) == (
        HostProcess(pid=812, name="ollama", bytes=350 * KIB, unit="ollama.service"),
    )


def test_of_two_alike_the_smaller_pid() -> None:
    assert pids(proc(812), proc(90)) == [90]


@pytest.mark.parametrize(
    "cgroup",
    [
        f"0::/kubepods/burstable/pod{U}/{C}",
        f"0::/kubepods.slice/kubepods-pod{U.replace('-', '_')}.slice/cri-containerd-{C}.scope",
        "0::/kubepods/besteffort",
        f"0::/kubepods.slice/kubepods-besteffort.slice/{C}",
        f"11:pids:/kubepods/pod{U}/{C}\n9:memory:/kubepods/pod{U}/{C}\n1:name=systemd:/kubepods/pod{U}/{C}",
        f"9:memory:/\n2:pids:/kubepods/pod{U}/{C}",
    ],
)
def test_pods_are_not_the_host(cgroup: str) -> None:
    assert pids(proc(4242, anon=9000, cgroup=cgroup), proc(7, anon=10)) == [7]


def test_on_cgroup_v1_too() -> None:
    v1 = "11:pids:/system.slice/ollama.service\n9:memory:/system.slice/ollama.service\n1:name=systemd:/system.slice"
    (one,) = found(proc(812, cgroup=v1))
    assert one.unit == "ollama.service"


def test_neither_the_kernels_threads_nor_what_has_ended() -> None:
    kernel = proc(2, "kthreadd", flags=KTHREAD, memory=False, cgroup="0::/")
    # Whatever its rows say: the kernel's own flag counts.
    odd = proc(3, "kworker", anon=9000, flags=KTHREAD, cgroup="0::/")
    zombie = proc(5, "gone", memory=False, cgroup="0::/")
    assert pids(kernel, odd, zombie, proc(7)) == [7]


def test_one_that_vanishes_meanwhile_is_left_out() -> None:
    # Of 812 status was still read, of 813 nothing at all.
    gone = {path: entry for path, entry in proc(812, anon=9000).items() if path.endswith("status")}
    assert pids(gone, {"proc/813": None}, proc(7)) == [7]


@pytest.mark.parametrize("name", ["status", "cgroup"])
def test_one_that_cannot_be_read_is_left_out(name: str) -> None:
    files = FaultyFiles({**proc(812, anon=9000), **proc(7)}, {f"proc/812/{name}": EACCES})
    assert [one.pid for one in look(files)] == [7]


def test_nothing_readable_is_nothing_found() -> None:
    assert look(FaultyFiles(proc(812), {"proc/812/status": EACCES})) == ()
    assert look(FaultyFiles(proc(812), {"proc": EACCES})) == ()
    assert found({}) == ()


def test_an_old_kernel_tells_what_is_resident_in_pages() -> None:
    # 3000 pages of 4096 bytes: more than 11 999 KiB, less than 12 001.
    old = proc(812, anon=None, shmem=None, statm="200000 3000 900 1 0 4000 0\n")
    assert [one.pid for one in found(old, proc(7, anon=11_999))] == [812]
    assert [one.pid for one in found(old, proc(7, anon=12_001))] == [7]
    assert found(old)[0].bytes == 3000 * 4096
    # Without that file its memory is not known, and neither is it with half of the two rows.
    assert pids(proc(812, anon=None, shmem=None), proc(7, anon=1)) == [7]
    assert pids(proc(812, anon=9000, shmem=None), proc(7, anon=1)) == [7]
    assert pids(proc(812, anon=None, shmem=None, statm="nothing\n"), proc(7, anon=1)) == [7]


def test_a_name_cannot_forge_a_row() -> None:
    # The kernel writes a newline in a name as two characters (fs/proc/array.c); a row begins a line.
    forged = proc(812, "x\nRssAnon: 9 kB", anon=1)
    assert found(forged)[0].bytes == KIB


@pytest.mark.parametrize("name", ["a\nb", "x) (y", "\x1b[2J", "", "fünfzehn"])
def test_a_name_is_as_the_kernel_has_it(name: str) -> None:
    assert found(proc(812, name))[0].name == name


def test_a_name_that_is_no_text() -> None:
    assert found(proc(812, b"\xff\xfeabcdefghijklm"))[0].name == "\ufffd\ufffdabcdefghijklm"


HOLDER = Process(pid=900, start_ticks=77, name="llama-server")


def test_each_process_that_the_driver_names_is_there_too() -> None:
    # Its memory is mostly the GPU's, of which nothing is known here.
    assert found(proc(812, anon=500), proc(900, "llama-server", anon=20), known=(HOLDER,)) == (
        HostProcess(pid=900, name="llama-server", bytes=20 * KIB, unit="ollama.service"),
        HostProcess(pid=812, name="ollama", bytes=500 * KIB, unit="ollama.service"),
    )


def test_a_named_one_without_a_readable_figure_of_its_own_has_none() -> None:
    files = FaultyFiles({**proc(812), **proc(900, "llama-server")}, {"proc/900/status": EACCES})
    assert look(files, HOLDER)[0] == HostProcess(pid=900, name="llama-server", bytes=None, unit="ollama.service")


@pytest.mark.parametrize(
    "process",
    [
        Process(pid=900, start_ticks=77, name="x", owner=CgroupOwner(U, C)),
        Process(pid=900, start_ticks=77, name="x", kernel=True),
        Process(pid=900, start_ticks=77, name="x", cgroup_readable=False),
    ],
    ids=["pod's", "kernel's", "nobody's"],
)
def test_named_ones_that_are_not_the_hosts(process: Process) -> None:
    assert [one.pid for one in found(proc(812), proc(900, anon=9000), known=(process,))] == [812]


def test_behind_a_container_of_somebodys_the_next_one_is_there_too() -> None:
    # From inside a cgroup namespace a pod's container looks like this; whose it is, the list of pods says.
    first = proc(4242, "infer", anon=900, cgroup=f"0::/../cri-containerd-{C}.scope")
    second = proc(4243, "infer", anon=800, cgroup=f"0::/../{D}")
    third = proc(812, anon=700)
    assert [(one.pid, one.container_id) for one in found(first, second, third, proc(813, anon=600))] == [
        (4242, C),
        (4243, D),
        (812, None),
    ]


def test_only_those_that_are_asked_for() -> None:
    files = FaultyFiles({**proc(812, anon=500), **proc(813, anon=900), **proc(814)})
    assert [one.pid for one in look(files, among=[812, 814])] == [812]
    assert not [path for _, path in files.calls if path.startswith("proc/813")]


def test_of_those_that_are_smaller_only_their_size_is_read() -> None:
    files = FaultyFiles({**proc(812, anon=500), **proc(813), **proc(814)})
    look(files)
    assert {path for _, path in files.calls if path.startswith(("proc/813", "proc/814"))} == {
        "proc/813/status",
        "proc/814/status",
    }


def test_rows_of_a_real_kernel() -> None:
    # 100 MiB and what an interpreter takes, far less than as much again.
    code = "import sys; held = b'x' * (100 << 20); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        real: dict[str, Entry] = {
            f"proc/{child.pid}/{name}": Path(f"/proc/{child.pid}/{name}").read_bytes() for name in ("stat", "status")
        }
        child.communicate()
    # In which cgroup the tests run is not known.
    (one,) = found(real, {f"proc/{child.pid}/cgroup": f"{SERVICE}\n".encode()})
    assert one.pid == child.pid
    assert one.name.startswith("python")
    assert one.bytes is not None
    assert 100 << 20 <= one.bytes < 200 << 20
