"""One sample of a whole board."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgeagent.facts import (
    CgroupOwner,
    HostFacts,
    HostProcess,
    KubeletSettings,
    MemInfo,
    NvmapRow,
    NvmapTable,
    Nvml,
    PodCgroup,
    Process,
    Reading,
    RuntimeFacts,
)
from edgeagent.host.files import Entry, Files, RootFiles, TreeFiles
from edgeagent.host.nvml_replay import ABSENT, parse
from edgeagent.host.sampler import HostSampler
from tests.unit.host.nvml_documents import H100_MIG, ORIN, T4, document
from tests.unit.host.trees import EACCES, EIO, FaultyFiles

U = "11111111-2222-3333-4444-000000000001"
V = "11111111-2222-3333-4444-000000000002"
C = "c" * 64
POD = f"sys/fs/cgroup/kubepods/burstable/pod{U}"
CLIENTS = "sys/kernel/debug/nvmap/iovmm/clients"
RECORD = b"%-18s %18s %8s %11s\n"  # as the driver prints it
TITLE = RECORD % (b"CLIENT", b"PROCESS", b"PID", b"SIZE")
ROW = RECORD % (b"user", b"infer", b"4242", b"1572864K")
ZERO = RECORD % (b"user", b"infer", b"4242", b"0K")
KERNEL = RECORD % (b"vi-output", b"kernel", b"0", b"1024K")
TOTAL = RECORD % (b"total", b"", b"", b"1573888K")  # 1572864 + 1024

STAT = b"%d (%s) S 1 1 1 0 -1 4194304 5 6 7 8 9 10 11 12 20 0 1 0 881234 4096 25 0\n"
KTHREADD = b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 23 0 0\n"

BOARD: dict[str, Entry] = {
    "proc/meminfo": b"MemTotal:        7802736 kB\nMemAvailable:    6245596 kB\nCmaTotal:         262144 kB\n",
    "proc/device-tree/compatible": b"nvidia,p3767-0005\0nvidia,tegra234\0",
    "proc/2/stat": KTHREADD,
    "proc/4242/stat": STAT % (4242, b"infer"),
    "proc/4242/cgroup": f"0::/kubepods/burstable/pod{U}/{C}\n".encode(),
    "proc/4242/fd/3": "/dev/nvmap",
    CLIENTS: TITLE + ROW + KERNEL + TOTAL,
    "sys/fs/cgroup/cgroup.controllers": b"memory\n",
    f"{POD}/memory.current": b"1000\n",
    f"{POD}/memory.stat": b"active_file 1\ninactive_file 2\nslab_reclaimable 3\n",
    "etc/rancher/k3s/config.yaml": b"kubelet-arg: system-reserved=memory=1Gi\n",
    "var/lib/rancher/k3s/agent/etc/containerd/config.toml": b"version = 3\n",
}
INFER = Process(pid=4242, start_ticks=881234, name="infer", owner=CgroupOwner(U, C))


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def nvml(*devices: dict[str, Any]) -> Reading[Nvml]:
    return Reading(49.0, parse(json.dumps(document(*devices)).encode()) if devices else ABSENT)


def sampler(files: Files) -> HostSampler:
    return HostSampler(files, clock=Clock(), arch="aarch64", page_size=4096)


def sample(
    entries: dict[str, Entry], reading: Reading[Nvml] | None = None, wanted: tuple[str, ...] = (U,)
) -> HostFacts:
    return sampler(TreeFiles(entries)).sample(reading or nvml(), wanted)


def test_a_jetson_without_nvml() -> None:
    facts = sample(BOARD)
    total = MemInfo(total=7802736 * 1024, available=6245596 * 1024, cma_total=262144 * 1024)
    assert facts.meminfo == Reading(50.0, total)
    assert facts.nvml == nvml()
    assert facts.nvmap == Reading(
        50.0,
        NvmapTable(
            (NvmapRow("user", "infer", 4242, 1536 * 1024**2), NvmapRow("vi-output", "kernel", 0, 1024**2)),
            1573888 * 1024,
        ),
    )
    assert facts.processes == {4242: INFER}
    assert facts.pods == {U: PodCgroup(host_bytes=994, exact=True)}  # 1000 - 1 - 2 - 3
    assert facts.kubelet == KubeletSettings(system_reserved=("1Gi", "/etc/rancher/k3s/config.yaml"))
    assert facts.runtime == RuntimeFacts(readable=True, path="/var/lib/rancher/k3s/agent/etc/containerd/config.toml")
    assert (facts.host_view, facts.files.nvmap, facts.files.arch) == (True, True, "aarch64")


def test_every_process_that_nvml_names_is_looked_up() -> None:
    others: dict[str, Entry] = {f"proc/{pid}/stat": STAT % (pid, b"x") for pid in (5151, 900, 11, 6000)}
    facts = sample({**BOARD, **others}, nvml(T4, H100_MIG))
    # 4242 and 700 are in the compute list (700 is gone), 5151 too; 900 in graphics; 11 in a MIG instance.
    assert sorted(facts.processes) == [11, 900, 4242, 5151]


def test_on_a_foreign_process_table_no_pid_is_looked_up() -> None:
    facts = sample({**BOARD, "proc/2/stat": STAT % (2, b"sh")})
    assert (facts.host_view, dict(facts.processes)) == (False, {})
    assert facts.nvmap.value


def test_in_a_wsl_guest_the_pids_are_those_of_windows() -> None:
    facts = sample({**BOARD, "dev/dxg": b""}, nvml(T4))
    assert (facts.host_view, dict(facts.processes)) == (False, {})
    assert facts.nvml == nvml(T4)


def test_a_board_without_a_gpu() -> None:
    facts = sample({"proc/meminfo": b"MemTotal: 1000 kB\n"}, wanted=())
    assert facts.meminfo.value == MemInfo(total=1000 * 1024)
    assert (facts.nvmap.value, facts.gpu_node_holders.value, facts.processes, facts.pods) == (None, None, {}, {})
    assert not facts.runtime.readable


@pytest.mark.parametrize(
    ("changes", "reading", "holders"),
    [
        ({CLIENTS: TITLE + ZERO}, nvml(), 1),  # an all-zero table is no answer
        ({CLIENTS: TITLE}, nvml(ORIN), 1),
        ({CLIENTS: b"other layout"}, nvml(ORIN), 1),
        ({CLIENTS: TITLE, "proc/4242/fd/3": "/dev/null"}, nvml(ORIN), 0),
        ({CLIENTS: TITLE + ROW + TOTAL}, nvml(), None),  # another source tells; the walk is not made
        ({CLIENTS: TITLE}, nvml({**ORIN, "compute": T4["compute"]}), None),
        (
            {CLIENTS: TITLE},
            nvml({**ORIN, "compute": {"code": 0, "processes": [{"pid": 1, "used": None}]}}),
            1,  # NVML names a process, and not its memory
        ),
    ],
)
def test_open_files_are_looked_through_where_nothing_else_tells(
    changes: dict[str, Entry], reading: Reading[Nvml], holders: int | None
) -> None:
    assert sample({**BOARD, **changes}, reading).gpu_node_holders.value == holders


@pytest.mark.parametrize(
    "sign",
    [
        {"proc/device-tree/compatible": b"nvidia,tegra264\0"},
        {"sys/devices/soc0/family": b"Tegra\n"},
        {"etc/nv_tegra_release": b"# R36 (release), REVISION: 4.7\n"},
        {"dev/nvmap": b""},
    ],
)
def test_each_sign_of_a_tegra_is_enough_to_look(sign: dict[str, Entry]) -> None:
    processes: dict[str, Entry] = {"proc/4242/stat": STAT % (4242, b"x"), "proc/4242/fd/3": "/dev/nvhost-gpu"}
    assert sample({**processes, **sign}).gpu_node_holders.value == 1
    assert sample(processes, nvml(ORIN)).gpu_node_holders.value == 1
    assert sample(processes, nvml({"name": "NVIDIA Thor"})).gpu_node_holders.value == 1
    assert sample(processes, nvml(T4)).gpu_node_holders.value is None


def test_a_source_that_fails_leaves_the_others() -> None:
    files = FaultyFiles(BOARD, {"proc/meminfo": EIO, CLIENTS: EACCES})
    facts = sampler(files).sample(Reading(1.0, None, "nvml stalled 120 s"), [U])
    assert (facts.meminfo.value, facts.meminfo.why) == (None, "proc/meminfo: Input/output error")
    assert (facts.nvmap.value, facts.nvmap.why) == (None, f"{CLIENTS}: Permission denied")
    assert facts.nvml.why == "nvml stalled 120 s"
    assert facts.pods[U].host_bytes == 994
    assert facts.gpu_node_holders.value == 1
    broken = sample({**BOARD, "proc/meminfo": b"", CLIENTS: b""})
    assert broken.meminfo.why == "meminfo: empty, or cut off in its last line"
    assert broken.nvmap.why.startswith("nvmap clients: the title")


def test_debugfs_that_is_not_mounted() -> None:
    facts = sample({key: value for key, value in {**BOARD, "dev/nvmap": b""}.items() if key != CLIENTS})
    assert facts.nvmap == Reading(50.0, None, f"{CLIENTS}: No such file or directory")


def test_configuration_is_read_again_after_a_while_and_a_change_is_confirmed() -> None:
    files = FaultyFiles(BOARD)
    clock = Clock()
    subject = HostSampler(files, clock=clock, arch="aarch64", page_size=4096)
    config, tree = ("read", "/etc/rancher/k3s/config.yaml"), ("read", "proc/device-tree/compatible")
    subject.sample(nvml(), ())
    subject.sample(nvml(), ())  # the first reading is confirmed
    assert (files.calls[config], files.calls[tree]) == (2, 2)
    for clock.now in (52.0, 54.0, 59.0):
        subject.sample(nvml(), ())
    assert (files.calls[config], files.calls[tree]) == (2, 2)
    clock.now = 60.0
    files.faults["proc/device-tree/compatible"] = EIO  # once, and not for the ten seconds after it
    assert subject.sample(nvml(), ()).files.compatible == ()
    files.faults.clear()
    clock.now = 62.0
    assert subject.sample(nvml(), ()).files.compatible == ("nvidia,p3767-0005", "nvidia,tegra234")


STATUS = b"Name:\tollama\nVmSize:\t 9000 kB\nRssAnon:\t %d kB\nRssShmem:\t 0 kB\n"
HOST: dict[str, Entry] = {
    "proc/812/stat": STAT % (812, b"ollama"),
    "proc/812/status": STATUS % 100,
    "proc/812/cgroup": b"0::/system.slice/ollama.service\n",
    "proc/813/status": STATUS % 1,
    "proc/4242/status": STATUS % 9000,
}


def test_processes_of_the_host_are_looked_through_only_when_asked_for() -> None:
    files = FaultyFiles({**BOARD, **HOST})
    subject = sampler(files)
    assert subject.sample(nvml(), ()).host_processes is None
    assert files.calls["read", "proc/812/status"] == 0
    # 4242 has more, but it is a pod's.
    found = HostProcess(pid=812, name="ollama", bytes=100 * 1024, unit="ollama.service")
    assert subject.sample(nvml(), (), host_processes=True).host_processes == (found,)
    assert subject.sample(nvml(), ()).host_processes is None


def test_and_at_most_once_a_second() -> None:
    files = FaultyFiles({**BOARD, **HOST})
    clock = Clock()
    subject = HostSampler(files, clock=clock, arch="aarch64", page_size=4096)
    for clock.now in (50.0, 50.1, 50.9, 51.0, 51.5):
        assert subject.sample(nvml(), (), host_processes=True).host_processes
    assert files.calls["read", "proc/813/status"] == 2  # at 50.0 and 51.0


def test_a_process_table_that_is_not_the_hosts_names_nobody() -> None:
    own: dict[str, Entry] = {"proc/self": "77", "proc/77/ns/pid": "pid:[4026532000]"}
    entries = {path: entry for path, entry in {**BOARD, **HOST, **own}.items() if path != "proc/2/stat"}
    facts = sampler(TreeFiles(entries)).sample(nvml(), (), host_processes=True)
    assert (facts.host_view, facts.host_processes) == (False, ())


def test_open_files_are_looked_through_every_five_seconds() -> None:
    files = FaultyFiles({**BOARD, CLIENTS: TITLE})
    clock = Clock()
    subject = HostSampler(files, clock=clock, arch="aarch64", page_size=4096)
    times = []
    for clock.now in (50.0, 52.0, 54.0, 56.0):
        times.append(subject.sample(nvml(), ()).gpu_node_holders.at)
    assert times == [50.0, 50.0, 50.0, 56.0]
    assert files.calls["links", "proc/4242/fd"] == 2


def test_a_configured_data_directory() -> None:
    entries = {**BOARD, "mnt/k3s/server/token": b"", "mnt/k3s/agent/etc/containerd/config.toml": b"version = 3\n"}
    subject = HostSampler(TreeFiles(entries), clock=Clock(), data_dir="/mnt/k3s")
    facts = subject.sample(nvml(), ())
    assert (facts.kubelet.data_dir, facts.kubelet.server) == ("/mnt/k3s", True)
    assert facts.runtime == RuntimeFacts(readable=True, path="/mnt/k3s/agent/etc/containerd/config.toml")


def test_disk_and_memory_give_the_same_facts(tmp_path: Path) -> None:
    for path, entry in BOARD.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, str):
            place.symlink_to(entry)
        elif entry is not None:
            place.write_bytes(entry)
    assert sampler(RootFiles(tmp_path)).sample(nvml(T4), (U, V)) == sample(BOARD, nvml(T4), (U, V))


def test_the_machine_at_hand_can_be_sampled_and_leaves_nothing_open() -> None:
    files = RootFiles(Path("/"))
    clock = Clock()
    subject = HostSampler(files, clock=clock)
    facts = subject.sample(nvml(), ("no-such-pod",))
    assert facts.meminfo.value
    assert facts.meminfo.value.available
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (counted, not used)
    for number in range(200):
        clock.now = 60.0 + number
        subject.meminfo()
        subject.sample(nvml(), ("no-such-pod",))
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


RACE = """
import sys
from pathlib import Path
from edgeagent.host.files import RootFiles
from edgeagent.host.processes import process
files = RootFiles(Path("/"))
for line in sys.stdin:
    process(files, int(line))
print("done")
"""


def test_processes_that_end_while_they_are_read_are_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RACE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdin
        for _ in range(100):
            with subprocess.Popen(["true"]) as child:
                print(child.pid, file=reader.stdin, flush=True)
        reader.stdin.close()
        assert reader.stdout
        assert reader.stdout.read() == "done\n"
    assert reader.returncode == 0


def test_esrch_is_a_process_that_is_gone() -> None:
    # What the kernel answers where the file was opened before the process ended.
    files = FaultyFiles(BOARD, {"proc/4242/stat": errno.ESRCH, "proc/4242/cgroup": errno.ESRCH})
    assert sampler(files).sample(nvml(), ()).processes == {}
