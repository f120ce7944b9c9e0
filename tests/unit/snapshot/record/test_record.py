"""``record``: the snapshot says what the board said, and nothing of whose it is."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import sys
import tarfile
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgeagent import cli
from edgeagent.snapshot import archive, live, recording
from edgeagent.snapshot.record import writing
from tests.unit.snapshot.making import nvmap as nvmap_table
from tests.unit.snapshot.record import secretive
from tests.unit.snapshot.record.secretive import HOST, SECRETS
from tests.unit.snapshot.record.telling import answers, explain, secrets_in

Capture = pytest.CaptureFixture[str]
MIB = 1024**2


@pytest.fixture
def board(tmp_path: Path) -> list[str]:
    """Options that lead to the board with secrets and to its cluster."""
    root = secretive.build(tmp_path / "root")
    return [
        *("--host-root", str(root)),
        *("--nvml-replay", str(secretive.replay(tmp_path))),
        *("--kubeconfig", str(tmp_path / "kubeconfig")),
    ]


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server's answers, where one is asked."""
    answers(monkeypatch, secretive.node(), [secretive.pod(), secretive.static_pod()])


def mapped(document: Any) -> Any:
    """The document with what a snapshot has in place of this board's names."""
    text = json.dumps(document)
    text = text.replace(secretive.GPU, "00000000-0000-4000-8000-000000000001")
    text = re.sub(re.escape(HOST), "node-1", text, flags=re.IGNORECASE)
    return json.loads(text.replace(f"home/{secretive.USER}", "home/user-2"))


def test_no_secret_survives(board: list[str], tmp_path: Path) -> None:
    assert cli.main(["record", str(tmp_path / "snapshot"), *board]) == 0

    assert secrets_in(tmp_path / "snapshot") == []


def test_nor_in_an_archive(board: list[str], tmp_path: Path) -> None:
    packed = tmp_path / f"{HOST}.tar.gz"
    assert cli.main(["record", str(packed), *board]) == 0

    assert HOST.encode() not in packed.read_bytes()
    with tarfile.open(packed) as opened:
        assert {(member.uid, member.gid, member.uname, member.gname) for member in opened} == {(0, 0, "", "")}
    text = repr(archive.load(packed)).lower()
    assert [secret for secret in SECRETS if secret.lower() in text] == []


def test_an_archive_goes_to_standard_output_and_words_go_beside_it(
    board: list[str], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert cli.main(["record", "-", *board]) == 0

    captured = capfdbinary.readouterr()
    piped = tmp_path / "piped.tar.gz"
    piped.write_bytes(captured.out)
    assert cli.main(["record", str(tmp_path / "named.tar.gz"), *board]) == 0
    assert set(archive.load(piped)) == set(archive.load(tmp_path / "named.tar.gz"))
    assert b"Look through it before you share it" in captured.err


def test_a_terminal_gets_no_archive(board: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["record", "-", *board]) == 2

    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_the_secrets_were_there(board: list[str], capsys: Capture) -> None:
    # Else nothing above would be shown: the readers came by them.
    told = json.dumps(explain(capsys, *board))

    assert HOST in told
    assert secretive.GPU in told


@pytest.mark.parametrize("name", ["snapshot", "snapshot.tar.gz"])
def test_the_record_is_explained_as_the_board_is(name: str, board: list[str], tmp_path: Path, capsys: Capture) -> None:
    alive = explain(capsys, *board)
    assert cli.main(["record", str(tmp_path / name), *board]) == 0
    assert capsys.readouterr().err == ""
    recorded = explain(capsys, str(tmp_path / name))

    # What makes the comparison worth something: each source has had its say.
    (pool,) = recorded["pools"]
    assert {line["origin"] for line in pool["reserves"]} >= {"kubelet", "measured"}
    assert [one["name"] for one in recorded["pods"]] == ["proxy-node-1", "llm"]
    assert recorded["pods"][1]["gpu_bytes"] == 1500 * MIB
    # memory.current less active_file and inactive_file.
    assert recorded["pods"][1]["host_bytes"] == 2147483648 - 8192
    assert recorded["host"]["system_gpu_bytes"] == 2 * MIB
    assert recorded["node"]["labels"]["ai-capable"] == "true"
    assert recorded["node"]["requests"][0]["path"] == "/api/v1/nodes/node-1/status"
    assert recorded == mapped(alive)


def test_a_pod_that_has_just_started_is_no_difference(
    board: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    # 1500 MiB + 2 GiB are more than the gpu budget of 2 GiB and the 1 GiB that is left of its memory.
    pod = secretive.pod()
    limits = {"edgeagent.dev/gpu-memory": "2Gi", "memory": "3Gi"}
    pod["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": limits}
    started = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    pod["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": started}}
    answers(monkeypatch, secretive.node(), [pod])
    assert cli.main(["record", str(tmp_path / "snapshot"), *board]) == 0

    assert capsys.readouterr().err == ""
    (held,) = explain(capsys, str(tmp_path / "snapshot"))["plan"]["held"]
    assert held["code"] == "start-grace"


def test_without_a_cluster_none_is_recorded(board: list[str], tmp_path: Path, capsys: Capture) -> None:
    alone = board[:-2]
    assert cli.main(["record", str(tmp_path / "snapshot"), *alone]) == 0

    assert not (tmp_path / "snapshot/cluster").exists()
    assert explain(capsys, str(tmp_path / "snapshot")) == mapped(explain(capsys, *alone))


def test_a_board_without_anything(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "root").mkdir()
    options = ["--host-root", str(tmp_path / "root"), "--nvml-replay", str(tmp_path / "none.json")]
    assert cli.main(["record", str(tmp_path / "snapshot"), *options]) == 0

    assert not (tmp_path / "snapshot/nvml.json").exists()
    assert explain(capsys, str(tmp_path / "snapshot")) == explain(capsys, *options)


def test_what_the_snapshot_says_of_itself(board: list[str], tmp_path: Path) -> None:
    assert cli.main(["record", str(tmp_path / "snapshot"), *board]) == 0

    about = yaml.safe_load((tmp_path / "snapshot/snapshot.yaml").read_text())
    assert (about["format"], about["node"], about["arch"]) == (1, "node-1", os.uname().machine)
    assert about["page_size"] == os.sysconf("SC_PAGE_SIZE")
    assert list(about) == ["format", "taken", "node", "agent", "arch", "page_size"]


def test_the_files_keep_what_is_read(board: list[str], tmp_path: Path) -> None:
    assert cli.main(["record", str(tmp_path / "snapshot"), *board]) == 0
    host = tmp_path / "snapshot/host"

    unit = (host / "etc/systemd/system/k3s-agent.service").read_text().splitlines()
    flags = "--node-name=node-1 --kubelet-arg=system-reserved=memory=1Gi --config=/etc/rancher/user-2/config.yaml"
    assert unit == [
        "[Service]",
        "Environment=K3S_DATA_DIR=/home/user-2/k3s",
        "EnvironmentFile=-/etc/systemd/system/%N.service.env",
        f"ExecStart=/usr/local/bin/k3s agent {flags}",
    ]
    assert (host / "etc/systemd/system/k3s-agent.service.env").read_text() == "K3S_NODE_NAME=node-1\n"
    assert yaml.safe_load((host / "etc/rancher/user-2/config.yaml").read_text()) == {
        "node-name": "node-1",
        "kubelet-arg": ["kube-reserved=memory=600Mi,cpu=1"],
    }
    assert (host / "proc/driver/nvidia/version").read_text().split()[-3:] == ["540.4.0", "Release", "Build"]
    assert sorted(path.name for path in (host / "proc/4242").iterdir()) == ["cgroup", "fd", "stat"]
    assert (host / "usr/bin/nvidia-container-runtime").read_bytes() == b""
    assert not list(host.rglob("*backup*"))


def test_files_that_a_process_has_open_are_its_own_affair(tmp_path: Path) -> None:
    # Without an nvmap table the holders of GPU device nodes are looked for.
    content = secretive.files()
    del content["sys/kernel/debug/nvmap/iovmm/clients"]
    root = secretive.build(tmp_path / "root", content)
    (root / "proc/4242/fd").mkdir()
    (root / "proc/5151/fd").mkdir()
    (root / "proc/4242/fd/3").symlink_to("/dev/nvmap")
    (root / "proc/4242/fd/4").symlink_to("/srv/models/weights.gguf")
    (root / "proc/5151/fd/5").symlink_to("socket:[4711]")
    options = ["--host-root", str(root), "--nvml-replay", str(secretive.replay(tmp_path))]
    assert cli.main(["record", str(tmp_path / "snapshot"), *options]) == 0

    host = tmp_path / "snapshot/host"
    links = {path.relative_to(host).as_posix(): str(path.readlink()) for path in host.glob("proc/*/fd/*")}
    assert links == {"proc/4242/fd/3": "/dev/nvmap"}
    # Looked into, and nothing found: not the same as one that cannot be looked into.
    assert (host / "proc/5151/fd").is_dir()


def test_the_configuration_that_counts_is_recorded(board: list[str], tmp_path: Path, capsys: Capture) -> None:
    settings = tmp_path / "config.yaml"
    settings.write_text(
        "mode: observe\nreserves: {os: 10%, k3s: 1Gi}\npolicy: {grace: 250ms, protect: [kube-system, shop/llm]}\n"
        f"k3s: {{data_dir: /home/{secretive.USER}/k3s}}\nunified: {{detect: 'yes'}}\nnode: {{name: {HOST}}}\n"
        f"serve: {{bind: '{secretive.IPV4}:9843', token_file: /home/{secretive.USER}/token}}\n"
    )
    options = [*board, "--config", str(settings)]
    assert cli.main(["record", str(tmp_path / "snapshot"), *options]) == 0

    assert yaml.safe_load((tmp_path / "snapshot/config.yaml").read_text()) == {
        "mode": "observe",
        "k3s": {"data_dir": "/home/user-2/k3s"},
        "reserves": {"os": "10%", "k3s": 1024**3},
        "unified": {"detect": "yes"},
        "policy": {"grace": "0.25s", "protect": ["kube-system", "shop/llm"]},
    }
    assert secrets_in(tmp_path / "snapshot") == []
    assert explain(capsys, str(tmp_path / "snapshot")) == mapped(explain(capsys, *options))


def test_a_verdict_that_redaction_changes_is_said(board: list[str], tmp_path: Path, capsys: Capture) -> None:
    # The later drop-in counts, by name: "edge-…" stands before "m", what replaces it behind. 3 GiB are no 1 GiB.
    folder = tmp_path / f"root/etc/rancher/{secretive.USER}/config.yaml.d"
    folder.mkdir()
    (folder / f"{HOST}.yaml").write_text("kubelet-arg: kube-reserved=memory=3Gi\n")
    (folder / "m.yaml").write_text("kubelet-arg: kube-reserved=memory=1Gi\n")
    assert cli.main(["record", str(tmp_path / "snapshot"), *board]) == 0

    told = capsys.readouterr().err.splitlines()
    assert "edgeagent: explain says other pools of the snapshot than of the board; please report it" in told


# --- a series ------------------------------------------------------------------------


def test_a_series_has_one_frame_for_each_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    root = secretive.build(tmp_path / "root")
    nvmap = root / "sys/kernel/debug/nvmap/iovmm/clients"
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: nvmap.write_text(nvmap_table((secretive.COMM, 4242, 1600 * 1024))),
        nvmap.unlink,
        lambda: nvmap.write_text(nvmap_table((secretive.COMM, 4242, 1500 * 1024), (secretive.CUT, 5151, 2048))),
    ]

    async def objects(*_: object) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        await asyncio.to_thread(steps.pop(0))
        return secretive.node(), [secretive.pod()]

    monkeypatch.setattr(live, "objects", objects, raising=False)
    options = ["--host-root", str(root), "--nvml-replay", str(secretive.replay(tmp_path)), "--kubeconfig", "k"]
    target = tmp_path / "series"
    assert cli.main(["record", str(target), *options, "--frames", "4", "--every", "0.01"]) == 0

    found = recording.read(target)
    assert [len(found.samples), found.samples[0].at] == [4, 0.0]
    # Process 5151 is no longer in the table, so nobody asks for it.
    without = ["host/proc/5151/cgroup", "host/proc/5151/status"]
    assert (target / "frames/0001/removed.txt").read_text().splitlines() == without
    gone = (target / "frames/0002/removed.txt").read_text().splitlines()
    assert "host/sys/kernel/debug/nvmap/iovmm/clients" in gone
    assert [path.name for path in (target / "frames/0003").rglob("*") if path.is_file()] == ["removed.txt"]
    capsys.readouterr()
    assert cli.main(["explain", "--format", "json", str(target)]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["pods"][0]["gpu_bytes"] for one in documents] == [1500 * MIB, 1600 * MIB, None, 1500 * MIB]
    assert secrets_in(target) == []


@pytest.mark.parametrize("wrong", [("--frames", "0"), ("--frames", "two"), ("--every", "0"), ("--every", "nan")])
def test_a_series_that_cannot_be(wrong: tuple[str, str], tmp_path: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["record", str(tmp_path / "snapshot"), *wrong])
    captured = capsys.readouterr()
    assert (ended.value.code, captured.out, len(captured.err.splitlines())) == (2, "", 1)
    assert wrong[0] in captured.err


# --- what is said, and when nothing is written ---------------------------------------


def test_it_says_where_the_snapshot_is_and_what_to_do_next(board: list[str], tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "a snapshot"
    assert cli.main(["record", str(target), *board]) == 0

    captured = capsys.readouterr()
    first, second, third = captured.out.splitlines()
    number = len([path for path in target.rglob("*") if path.is_file() and not path.is_symlink()])
    assert re.fullmatch(rf"{re.escape(str(target))}: {number} files, \d+ KiB", first)
    assert second == f"Next: edgeagent explain '{target}'"
    assert "before you share it" in third
    assert captured.err == ""


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_nothing_is_written_over(kind: str, board: list[str], tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "taken"
    if kind == "folder":
        target.mkdir()
    elif kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to("nowhere")
    before = sorted(tmp_path.iterdir())

    assert cli.main(["record", str(target), *board]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [f"edgeagent: {target}: exists already; nothing is written over"]
    assert sorted(tmp_path.iterdir()) == before
    assert kind != "file" or target.read_text() == "mine"


def test_a_folder_that_is_not_there(board: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["record", str(tmp_path / "none/snapshot"), *board]) == 2
    assert capsys.readouterr().err.splitlines() == [f"edgeagent: {tmp_path / 'none'}: is no directory"]


def test_a_host_root_that_is_not_there(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["record", str(tmp_path / "snapshot"), "--host-root", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.splitlines() == [f"edgeagent: {tmp_path / 'none'}: is no directory"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["snapshot", "snapshot.tar.gz"])
def test_a_full_disk_leaves_nothing(
    name: str, board: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    written: list[str] = []

    def full(self: Path, content: bytes) -> int:
        # The first files fit.
        if name == "snapshot" and len(written) < 3:
            written.append(self.name)
            with self.open("wb") as file:
                return file.write(content)
        self.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, "write_bytes", full)

    assert cli.main(["record", str(folder / name), *board]) == 2
    assert len(written) == (3 if name == "snapshot" else 0)
    assert capsys.readouterr().err.splitlines() == [
        f"edgeagent: {folder / name}: cannot be written: No space left on device"
    ]
    assert list(folder.iterdir()) == []


def test_an_interrupt_leaves_nothing(board: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "_folder", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cli.main(["record", str(tmp_path / "disk"), *board])
    assert [path.name for path in tmp_path.iterdir() if "disk" in path.name] == []


def test_a_cluster_that_cannot_be_asked_leaves_nothing(
    board: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.undo()
    assert cli.main(["record", str(tmp_path / "snapshot"), *board]) == 2
    captured = capsys.readouterr()
    assert (captured.out, len(captured.err.splitlines())) == ("", 1)
    assert not (tmp_path / "snapshot").exists()


def test_one_odd_pod_does_not_hide_the_others(
    board: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    answers(monkeypatch, secretive.node(), [{"odd": HOST}, secretive.pod()])
    assert cli.main(["record", str(tmp_path / "snapshot"), *board]) == 0
    listed = json.loads((tmp_path / "snapshot/cluster/pods.json").read_text())
    assert [item["metadata"]["name"] for item in listed["items"]] == ["llm"]
    assert [pod["name"] for pod in explain(capsys, *board)["pods"]] == ["llm"]
