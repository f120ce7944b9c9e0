"""Snapshots through the command line: what is printed where, and with which exit code."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from edgeagent import cli
from tests.unit.snapshot.making import ABOUT, nvmap, orin, packed, pod, write

MIB = 1024 * 1024
ORIN_MEMINFO = "".join(
    f"{row}: {kib} kB\n"
    for row, kib in {
        "MemTotal": 7802736, "MemFree": 3000000, "MemAvailable": 4000000, "Active(file)": 0, "Inactive(file)": 0,
        "SReclaimable": 0, "SUnreclaim": 0, "AnonPages": 0, "Shmem": 0, "KernelStack": 0, "PageTables": 0,
    }.items()
)  # fmt: skip


def explain(capsys: pytest.CaptureFixture[str], path: Path) -> list[dict[str, Any]]:
    """The documents that ``explain`` prints: one, or one per frame."""
    assert cli.main(["explain", str(path), "--format", "json"]) == 0
    out = capsys.readouterr().out
    return [json.loads(line) for line in out.splitlines()] if out.startswith('{"') else [json.loads(out)]


def refused(capsys: pytest.CaptureFixture[str], path: Path) -> list[str]:
    """The lines on stderr of a snapshot that cannot be used."""
    assert cli.main(["explain", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def frames(*ats: float) -> dict[str, Any]:
    return {"frames.yaml": [{"frame": f"{number:04}", "at": at} for number, at in enumerate(ats)]}


def test_folder_and_archive_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "board", orin(1500))
    (document,) = explain(capsys, folder)

    assert document["pods"][0]["gpu_bytes"] == 1500 * MIB
    assert document["pods"][0]["state"] == "ok"
    assert explain(capsys, packed(folder, tmp_path / "board.tar.gz")) == [document]
    assert explain(capsys, packed(folder, tmp_path / "flat.tar.gz", ".")) == [document]


def test_a_single_sample_never_evicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (document,) = explain(capsys, write(tmp_path, orin(3000)))
    assert document["pods"][0]["state"] == "breach"
    assert document["plan"]["evictions"] == []
    assert [(held["code"], held["seconds_left"]) for held in document["plan"]["held"]] == [("grace", 15.0)]


def test_grace_adds_the_time_between_samples_over_the_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Over at 0, 7 and 14: 14 s, one too few; at 15 it is 15 s. At 16 the eviction counts as accepted.
    documents = explain(capsys, write(tmp_path, orin(3000) | frames(0, 7, 14, 15, 16)))
    assert [[one["name"] for one in document["plan"]["evictions"]] for document in documents] == [
        [],
        [],
        [],
        ["llm"],
        [],
    ]
    assert [document["pods"][0]["state"] for document in documents] == ["breach"] * 4 + ["terminating"]
    assert [document["at"] for document in documents] == [0, 7, 14, 15, 16]
    assert "MemoryBudgetEvicted" in [event["reason"] for event in documents[3]["plan"]["events"]]


def test_a_sample_below_starts_the_grace_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    below = {"frames/0002/host/sys/kernel/debug/nvmap/iovmm/clients": nvmap(("llm", 4242, 100))}
    documents = explain(capsys, write(tmp_path, orin(3000) | below | frames(0, 8, 9, 10, 18, 24, 25)))
    assert [len(document["plan"]["evictions"]) for document in documents] == [0, 0, 0, 0, 0, 0, 1]


def test_frames_overlay_the_base_and_do_not_accumulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = {
        "frames/0001/host/sys/kernel/debug/nvmap/iovmm/clients": nvmap(("llm", 4242, 100 * 1024)),
        "frames/0002/cluster/pods.json": {"kind": "PodList", "items": []},
        "frames/0003/removed.txt": "cluster/pods.json\nhost/proc/4242\n",
    }
    documents = explain(capsys, write(tmp_path, orin(1500) | changes | frames(0, 1, 2, 3, 4)))
    assert [[one["gpu_bytes"] for one in document["pods"]] for document in documents] == [
        [1500 * MIB],
        [100 * MIB],
        [],
        [],
        [1500 * MIB],
    ]
    # A pod that the API does not know: its bytes are leaving. Without the process nobody can be named.
    assert [document["host"]["leaving_bytes"] for document in documents] == [0, 0, 1500 * MIB, 0, 0]
    assert documents[3]["host"]["unattributed_gpu_bytes"] == 1500 * MIB


def test_pods_that_wait_for_a_node_or_run_on_another_are_not_this_boards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting, elsewhere = pod("waiting"), pod("elsewhere")
    del waiting["spec"]["nodeName"]
    elsewhere["spec"]["nodeName"] = "other"
    files = orin(100) | {"cluster/pods.json": {"items": [waiting, pod(), elsewhere, {"odd": True}]}}
    (document,) = explain(capsys, write(tmp_path, files))
    assert [one["name"] for one in document["pods"]] == ["llm"]


def test_the_configuration_in_the_snapshot_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"mode": "observe", "policy": {"grace": "1s"}}
    documents = explain(capsys, write(tmp_path, orin(3000) | {"config.yaml": settings} | frames(0, 2)))
    assert documents[1]["plan"]["evictions"] == []
    assert [held["code"] for held in documents[1]["plan"]["held"]] == ["observe"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"snapshot.yaml": ABOUT | {"format": 2}}, ["snapshot.yaml: expected format: 1"]),
        ({"snapshot.yaml": ABOUT | {"taken": "yesterday"}}, ["taken: expected a time"]),
        ({"snapshot.yaml": "a: ["}, ["snapshot.yaml: not valid YAML"]),
        ({"frames.yaml": [{"frame": "0000", "at": 1}, {"frame": "0001", "at": 1}]}, ["frames.yaml: times must rise"]),
        ({"frames.yaml": [{"at": 1}, {"frame": "../x", "at": 2}]}, ["got {'at': 1}", "got {'at': 2, 'frame': '../x'}"]),
        ({"nvml.json": "{"}, ["nvml.json"]),
        ({"nvml.json": {"library": "perhaps"}}, ["nvml.json"]),
        ({"cluster/pods.json": {"items": 3}}, ["pods.json: expected a PodList"]),
        ({"cluster/pods.json": b"\xff"}, ["pods.json: is not UTF-8"]),
        ({"cluster/node.json": {"kind": "Node"}}, ["node.json"]),
        ({"config.yaml": {"policy": {"grase": "1s"}, "mode": "off"}}, ["mode: expected one of", "policy.grase"]),
        ({"snapshot.yaml": "format: 1\ntaken: 2026-13-45T00:00:00Z\n"}, ["snapshot.yaml: not valid YAML"]),
        ({"snapshot.yaml": "format: 1\ntaken: 2026-01-31\n"}, ["taken: expected a time"]),
        ({"snapshot.yaml": "format: " + "[" * 20_000}, ["snapshot.yaml: not valid YAML"]),
        (
            {"snapshot.yaml": ABOUT | {"page_size": "4k", "arch": ["arm"], "node": {}, "taken": None}},
            ["node: expected a text", "arch: expected a text", "page_size: expected bytes", "taken: expected a time"],
        ),
        ({"frames.yaml": '[{frame: "0000", at: .nan}, {frame: "0001", at: .inf}]'}, ["got {'frame'", "got {'frame'"]),
        ({"frames.yaml": [{"frame": "0000", "at": True}]}, ["got {'at': True"]),
        ({"cluster/pods.json": "[" * 100_000}, ["pods.json: not valid JSON"]),
        ({"nvml.json/x": "", "config.yaml/x": ""}, ["config.yaml: expected a file", "nvml.json: expected a file"]),
        (
            {
                "snapshot.yaml": ABOUT | {"format": 3},
                "config.yaml": "mdoe: x",
                "cluster/pods.json": "{",
                **frames(0, 1),
            },
            ["expected format: 1", "unknown key mdoe", "pods.json: not valid JSON"],
        ),
        (
            {
                "snapshot.yaml": ABOUT | {"format": "1", "page_size": 0},
                "config.yaml": {"mode": "off", "nose": 1},
                "nvml.json": {"library": "present", "cuda_version": "13", "devices": [{"name": 5, "minor": -1}, 7]},
                "cluster/node.json": {"kind": "Node"},
                "cluster/pods.json": {"kind": "PodList"},
            },
            [
                *("snapshot.yaml: expected format: 1, got '1'", "snapshot.yaml: page_size: expected bytes"),
                *("config.yaml: mode: expected one of", "config.yaml: unknown key nose"),
                *("cluster/node.json: ", "cluster/pods.json: expected a PodList"),
                *("nvml.json: devices[1] is not an object", "nvml.json: devices[0].name is not a text"),
                *("nvml.json: devices[0].minor is not", "nvml.json: cuda_version is not"),
            ],
        ),
        (
            {
                **frames(0, 1, 2),
                "nvml.json": "{",
                "frames/0001/nvml.json": {"library": "perhaps"},
                "frames/0001/cluster/pods.json": {"items": 3},
                "frames/0002/removed.txt": "nvml.json\n",
            },
            [
                "/nvml.json: not JSON",
                "frames/0001/cluster/pods.json: expected a PodList",
                "frames/0001/nvml.json: library is neither",
            ],
        ),
        (
            {**frames(0, 1), "frames/0001/cluster/node.json": "{", "frames/0001/removed.txt": b"\xff"},
            ["frames/0001/removed.txt: is not UTF-8", "frames/0001/cluster/node.json: not valid JSON"],
        ),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, Any], said: list[str]
) -> None:
    lines = refused(capsys, write(tmp_path, orin(100) | files))
    assert len(lines) == len(said)
    assert all(part in line for part, line in zip(said, lines, strict=True))


def test_go_writes_an_empty_list_as_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nobody = {"kind": "PodList", "items": None}
    (document,) = explain(capsys, write(tmp_path, orin(100) | {"cluster/pods.json": nobody}))
    assert document["pods"] == []


def test_what_is_no_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("no archive")
    (tmp_path / "empty").mkdir()
    assert "no snapshot.yaml" in refused(capsys, tmp_path / "empty")[0]
    assert "cannot be read as a snapshot" in refused(capsys, tmp_path / "text")[0]
    assert "cannot be read as a snapshot" in refused(capsys, tmp_path / "nowhere")[0]


def test_an_archive_cannot_reach_outside_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "secret"
    secret.write_text("MemTotal: 1 kB\n")
    folder = write(tmp_path / "board", orin(100))
    archive = tmp_path / "evil.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, arcname=".", filter=lambda item: None if item.name.endswith("meminfo") else item)
        link = tarfile.TarInfo("host/proc/meminfo")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        tar.addfile(link)
        outside = tarfile.TarInfo("../escaped")
        outside.size = 3
        tar.addfile(outside, BytesIO(b"bad"))
    (document,) = explain(capsys, archive)
    assert document["host"]["available_bytes"] is None
    assert document["pools"] == []
    assert not (tmp_path / "escaped").exists()


def test_a_link_in_the_place_of_a_source_is_no_machine_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path, orin(100))
    (folder / "nvml.json").symlink_to("elsewhere.json")
    (line,) = refused(capsys, folder)
    assert "nvml.json: expected a file" in line


@pytest.mark.parametrize(
    "taken",
    [
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00.000000000Z",
        "2026-01-31T13:00:00+01:00",
    ],
)
def test_when_it_was_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str], taken: str) -> None:
    started = {"running": {"startedAt": "2026-01-31T11:59:00Z"}}
    given = pod()
    given["spec"]["containers"][0]["resources"]["limits"] |= {"memory": "3Gi"}
    given["status"]["containerStatuses"][0]["state"] = started
    # 1500 MiB + 2 GiB are more than the 3 GiB for both: a minute of the two minutes of grace is over.
    cgroup = f"host/sys/fs/cgroup/kubepods/burstable/pod{given['metadata']['uid']}"
    files = {
        "snapshot.yaml": ABOUT | {"taken": taken},
        "cluster/pods.json": {"items": [given]},
        "host/sys/fs/cgroup/cgroup.controllers": "memory\n",
        f"{cgroup}/memory.current": f"{2048 * MIB}\n",
        f"{cgroup}/memory.stat": "active_file 0\ninactive_file 0\nslab_reclaimable 0\n",
        "host/proc/meminfo": ORIN_MEMINFO,
    }
    (document,) = explain(capsys, write(tmp_path, orin(1500) | files))
    assert [(held["code"], held["seconds_left"]) for held in document["plan"]["held"]] == [("start-grace", 60.0)]


def test_a_node_may_be_named_by_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = pod()
    given["spec"]["nodeName"] = "42"
    files = {"snapshot.yaml": ABOUT | {"node": 42}, "cluster/pods.json": {"items": [given]}}
    (document,) = explain(capsys, write(tmp_path, orin(100) | files))
    assert [one["name"] for one in document["pods"]] == ["llm"]


def test_a_frame_puts_a_file_where_a_folder_was_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = "host/proc/device-tree"
    changes = {
        f"frames/0000/{tree}": "gone",
        "frames/0001/host/etc/nv_tegra_release/text": "",
        "host/etc/nv_tegra_release": "# R36 (release), REVISION: 4.4, GCID: 1\n",
    }
    documents = explain(capsys, write(tmp_path, orin(100) | changes | frames(0, 1, 2)))
    assert [document["board"]["signals"] for document in documents] == [
        ["l4t-release", "nvmap"],
        ["device-tree", "nvmap"],
        ["device-tree", "l4t-release", "nvmap"],
    ]


def test_a_file_with_two_names_is_in_an_archive_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As tar writes hard links: the second name has no content of its own."""
    folder = write(tmp_path / "board", orin(3000) | frames(0, 1))
    table = "host/sys/kernel/debug/nvmap/iovmm/clients"
    below = folder / "frames/0000" / table
    below.parent.mkdir(parents=True)
    below.write_text(nvmap(("llm", 4242, 100 * 1024)))
    second = folder / "frames/0001" / table
    second.parent.mkdir(parents=True)
    second.hardlink_to(below)
    archive = packed(folder, tmp_path / "board.tar.gz")
    with tarfile.open(archive) as tar:
        assert any(member.islnk() for member in tar)
    documents = explain(capsys, archive)
    assert [document["pods"][0]["gpu_bytes"] for document in documents] == [100 * MIB] * 2


def test_a_damaged_archive_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = packed(write(tmp_path / "board", orin(100)), tmp_path / "board.tar.gz").read_bytes()
    archive = tmp_path / "damaged.tar.gz"
    # The last eight bytes are the checksum and the length (RFC 1952): tar has all it needs before them.
    for damaged in (whole[:-8] + bytes(8), whole[: len(whole) // 2], b"", b"text"):
        archive.write_bytes(damaged)
        (line,) = refused(capsys, archive)
        assert "cannot be read as a snapshot" in line
