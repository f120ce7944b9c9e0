"""``record`` on a board whose host uses more than its reserves: the largest process is in the snapshot, no other is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgeagent import cli
from edgeagent.host.files import RootFiles
from tests.unit.snapshot.making import nvmap, write
from tests.unit.snapshot.record import secretive
from tests.unit.snapshot.record.telling import everything

KIB = 1024
MEMINFO = {
    "MemTotal": 7802736, "MemFree": 100 * KIB, "MemAvailable": 100 * KIB, "AnonPages": 4 * KIB * KIB, "Shmem": 0,
    "SUnreclaim": 0, "KernelStack": 0, "PageTables": 0,
}  # fmt: skip
"""4 GiB are outside pods: far more than os and k3s, 1280 MiB."""


def process(pid: int, name: str, anon_mib: int, unit: str) -> dict[str, str]:
    stat = f"{pid} ({name}) S 1 {pid} {pid} 0 -1 4194560 " + "0 " * 8 + "20 0 1 0 88123 " + "0 " * 30 + "\n"
    rows = f"Name:\t{name}\nUid:\t1000\nVmSize:\t 9000000 kB\nRssAnon:\t {anon_mib * KIB} kB\nRssShmem:\t 0 kB\n"
    return {
        f"proc/{pid}/stat": stat,
        f"proc/{pid}/status": rows,
        f"proc/{pid}/cgroup": f"0::/system.slice/{unit}\n",
        f"proc/{pid}/cmdline": "--password=hunter2",
    }


def board(root: Path, **rows: int) -> list[str]:
    """Options that lead to an Orin with a model, a build and two others."""
    files = {
        "proc/meminfo": "".join(f"{row}: {kib} kB\n" for row, kib in {**MEMINFO, **rows}.items()),
        "proc/device-tree/compatible": b"nvidia,p3767-0005\0nvidia,tegra234\0",
        "sys/kernel/debug/nvmap/iovmm/clients": nvmap(("ollama", 812, 64 * KIB)),
        **process(812, "ollama", 300, "ollama.service"),
        **process(900, "cc1plus", 3000, "builder.service"),
        **process(901, "diary", 2000, "diary.service"),
        **process(77, "sshd", 1, "sshd.service"),
    }
    write(root, files)
    return ["--host-root", str(root), "--nvml-replay", str(root / "none.json")]


def pressure(capsys: pytest.CaptureFixture[str], snapshot: Path) -> list[str]:
    capsys.readouterr()
    assert cli.main(["explain", "--format", "json", str(snapshot)]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [document["node"]["conditions"][0]["message"] for document in documents]


def test_the_largest_is_recorded_and_named_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "snapshot"
    options = [*board(tmp_path / "root"), "--frames", "2", "--every", "0.1"]
    assert cli.main(["record", str(target), *options]) == 0

    assert "please report it" not in capsys.readouterr().err
    status = (target / "host/proc/900/status").read_text().splitlines()
    assert status == ["Name:\tcc1plus", "VmSize:\t 9000000 kB", f"RssAnon:\t {3000 * KIB} kB", "RssShmem:\t 0 kB"]
    # The others are looked at, and not told: neither their names nor their units.
    text = everything(target)
    assert "cc1plus" in text
    assert [name for name in ("diary", "sshd", "hunter2") if name in text] == []
    assert "cc1plus (pid 900, builder.service)" in pressure(capsys, target)[1]


@pytest.mark.parametrize(
    "rows", [{"AnonPages": 1000 * KIB}, {"AnonPages": 1000 * KIB, "MemAvailable": 4 * KIB * KIB}], ids=["low", "room"]
)
def test_where_the_host_is_within_its_reserves_nobody_is_looked_for(
    rows: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    read = RootFiles.read

    def noting(files: RootFiles, path: str, **options: bool) -> bytes:
        asked.append(path)
        return read(files, path, **options)

    monkeypatch.setattr(RootFiles, "read", noting)
    assert cli.main(["record", str(tmp_path / "snapshot"), *board(tmp_path / "root", **rows)]) == 0
    assert "proc/812/stat" in asked
    # Whose every process is has to be known for a diagnosis; how large it is, nobody asks.
    assert {path for path in asked if path.startswith("proc/900/")} <= {"proc/900/cgroup"}


def test_a_secret_in_its_names_is_replaced(tmp_path: Path) -> None:
    options = board(tmp_path / "root")
    hog = process(950, secretive.HOST[:15], 3500, f"{secretive.HOST}.service")
    write(tmp_path / "root", {**hog, "etc/hostname": f"{secretive.HOST}\n"})
    assert cli.main(["record", str(tmp_path / "snapshot"), *options]) == 0
    assert (tmp_path / "snapshot/host/proc/950/cgroup").exists()
    assert secretive.HOST.lower() not in everything(tmp_path / "snapshot")
