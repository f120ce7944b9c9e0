"""``record`` on this machine, as root and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgeagent import cli
from edgeagent.host.files import RootFiles
from tests.unit.snapshot.record import secretive
from tests.unit.snapshot.record.telling import explain, secrets_in


def still(document: dict[str, Any]) -> dict[str, Any]:
    """What cannot move between two looks at a machine."""
    uuids = [device["uuid"] for device in document["devices"]]
    text = json.dumps({key: document[key] for key in ("board", "devices", "node", "format")})
    for number, uuid in enumerate(uuids):
        text = text.replace(str(uuid), f"device {number}")
    pools = [{key: pool[key] for key in ("resource", "kind", "total_bytes", "reserves")} for pool in document["pools"]]
    found: dict[str, Any] = json.loads(text)
    return {**found, "pools": pools}


def test_a_record_of_this_machine_is_explained_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["record", str(tmp_path / "snapshot")]) == 0

    recorded, alive = explain(capsys, str(tmp_path / "snapshot")), explain(capsys)
    assert still(recorded) == still(alive)
    known = [alive["host"][name] is None for name in ("available_bytes", "system_gpu_bytes")]
    assert [recorded["host"][name] is None for name in ("available_bytes", "system_gpu_bytes")] == known


def test_who_reads_no_more_of_the_output_has_the_snapshot_all_the_same(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    target = tmp_path / "snapshot"
    done = subprocess.run(
        [sys.executable, "-m", "edgeagent", "record", str(target), "--host-root", str(tmp_path)],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)

    assert (done.returncode, done.stderr) == (0, b"")
    assert (target / "snapshot.yaml").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot"]


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """A folder to work in as a user without rights. Who is no user of the kind already becomes one for a while."""
    monkeypatch.chdir(tmp_path)  # the folders above may be closed to that user
    secretive.build(tmp_path / "root")
    secretive.replay(tmp_path)
    # Whatever is imported on the way may be closed as well.
    assert cli.main(["record", "first", "--host-root", "root", "--nvml-replay", "nvml-answers.json"]) == 0
    capsys.readouterr()
    for path in ("root/sys/kernel/debug", "root/proc/5151"):
        (tmp_path / path).chmod(0)
    if os.geteuid():
        yield
        return
    tmp_path.chmod(0o777)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.usefixtures("nobody")
def test_without_root_it_records_what_it_can(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--host-root", "root", "--nvml-replay", "nvml-answers.json"]
    assert cli.main(["record", "snapshot", *options]) == 0

    captured = capsys.readouterr()
    *lines, hint = captured.err.splitlines()
    assert "edgeagent: not recorded: sys/kernel/debug/nvmap: Permission denied" in lines
    assert all(line.startswith("edgeagent: not recorded: ") for line in lines)
    assert hint == "edgeagent: root can read more"
    assert "sys/kernel" not in captured.out
    assert secrets_in(Path("snapshot")) == []
    recorded, alive = explain(capsys, "snapshot"), explain(capsys, *options)
    assert (recorded["board"], recorded["host"]) == (alive["board"], alive["host"])
    assert recorded["pools"][0]["reserves"] == alive["pools"][0]["reserves"]


def test_many_processes_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {path: text for path, text in secretive.files().items() if "nvmap" not in path}
    content |= {f"proc/{pid}/stat": secretive.stat(pid, "closed") for pid in range(300, 320)}
    root = secretive.build(tmp_path / "root", content)
    links = RootFiles.links

    def closed(self: RootFiles, path: str) -> dict[str, str]:
        if path.endswith("/fd"):
            raise PermissionError(13, "Permission denied", path)
        return links(self, path)

    monkeypatch.setattr(RootFiles, "links", closed)
    assert cli.main(["record", str(tmp_path / "snapshot"), "--host-root", str(root)]) == 0

    # 20 of them, and 2, 4242 and 5151.
    lines = [line for line in capsys.readouterr().err.splitlines() if "proc/" in line]
    assert lines == ["edgeagent: not recorded: proc/*/fd: Permission denied (23 of them)"]
