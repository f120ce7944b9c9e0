"""A board that runs out of memory by what runs beside its pods: the node's condition names the largest of that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgeagent import cli
from tests.cases.holders import (
    CLIENTS,
    KERNEL_THREAD,
    KTHREADD,
    Files,
    card,
    cards,
    cid,
    client,
    cluster,
    entry,
    gb10,
    in_pod,
    memory_v2,
    orin,
    series,
    shown,
    simple,
    table,
    task,
    tells,
    uid,
    unified,
)
from tests.cases.making import GIB, KIB, MIB, node, stated

Capture = pytest.CaptureFixture[str]
SERVICE = "0::/system.slice/ollama.service"
SESSION = "0::/user.slice/user-1000.slice/session-3.scope"
TWICE = series([0.0, 2.0])
"""Two samples alike: pressure is known from the second one on."""
FULL = {"MemAvailable": 100 * KIB, "AnonPages": 4 * KIB * KIB}
"""100 MiB usable, below the floor of 128; 4 GiB are anonymous. os 1 GiB and k3s 512 MiB are reserved."""


def process(pid: int, name: str, cgroup: str, anon_mib: int | None, shmem_mib: int = 0, **keys: Any) -> Files:
    """A process with memory of its own; ``anon_mib`` None: a kernel before 4.5, without these rows."""
    files = task(pid, cgroup, name=name, **keys)
    if anon_mib is not None:
        status = f"host/proc/{pid}/status"
        files[status] += f"RssAnon:\t{anon_mib * KIB:>8} kB\nRssShmem:\t{shmem_mib * KIB:>8} kB\n"
    return files


def small(*rows: bytes) -> Files:
    """An Orin Nano that is full, with these rows of GPU memory."""
    return {**orin(table(*rows), total_kib=7802368, rows=FULL), "config.yaml": stated()}


def pressure(document: Any) -> dict[str, str]:
    """The node's condition about memory."""
    (found,) = [one for one in document["node"]["conditions"] if one["type"] == "GPUMemoryPressure"]
    return dict(found)


def findings(document: Any) -> list[Any]:
    return [one for one in document["findings"] if one["id"] == "host-over-reserve"]


def last(capsys: Capture, folder: Path, *parts: Files) -> Any:
    """The second of two samples alike."""
    return shown(capsys, folder, KTHREADD, *parts, TWICE)[-1]


def test_a_model_that_was_started_by_hand_is_named_for_the_memory_of_the_gpu(tmp_path: Path, capsys: Capture) -> None:
    # ollama holds 300 MiB itself and 3 GiB by the driver: more than the 2 GiB of the build.
    document = last(
        capsys,
        tmp_path,
        small(client(b"ollama", 812, 3 * KIB * KIB)),
        process(812, "ollama", SERVICE, 300),
        process(900, "cc1plus", SESSION, 2048),
    )
    assert (pressure(document)["status"], pressure(document)["reason"]) == ("True", "HostMemory")
    assert "ollama (pid 812, ollama.service)" in pressure(document)["message"]
    assert "cc1plus" not in pressure(document)["message"]


def test_a_build_is_named_where_the_gpu_holds_less(tmp_path: Path, capsys: Capture) -> None:
    document = last(
        capsys,
        tmp_path,
        small(client(b"ollama", 812, KIB * KIB)),
        process(812, "ollama", SERVICE, 300),
        process(900, "cc1plus", SESSION, 2048),
    )
    assert "cc1plus (pid 900, session-3.scope of user-1000.slice)" in pressure(document)["message"]


def test_shared_memory_is_its_own_too(tmp_path: Path, capsys: Capture) -> None:
    # A tmpfs or a ring of buffers: 100 + 900 MiB are more than 800.
    document = last(
        capsys, tmp_path, small(), process(812, "gstreamer", SERVICE, 100, 900), process(900, "cc1plus", SESSION, 800)
    )
    assert "gstreamer (pid 812" in pressure(document)["message"]


def test_on_a_board_whose_driver_lists_its_processes_too(tmp_path: Path, capsys: Capture) -> None:
    board = gb10(entry(812, 100 * GIB), rows={"MemAvailable": 100 * KIB, "AnonPages": 4 * KIB * KIB})
    document = last(capsys, tmp_path, board, process(812, "vllm", SESSION, 900), process(900, "java", SERVICE, 3000))
    assert "vllm (pid 812, " in pressure(document)["message"]


@pytest.mark.parametrize("rows", [FULL, {**FULL, "AnonPages": 5 * KIB * KIB}])
def test_no_pod_is_named_however_large(rows: dict[str, int], tmp_path: Path, capsys: Capture) -> None:
    # The pod's 2 GiB are its own: 4 or 5 GiB less 2 stay above the 1.5 GiB that are reserved.
    document = last(
        capsys,
        tmp_path,
        {**small(), **orin(table(), total_kib=7802368, rows=rows)},
        process(4242, "python3", in_pod(uid(1), cid(1)), 2048),
        memory_v2(
            f"/kubepods/burstable/pod{uid(1)}", 2 * GIB, {"active_file": 0, "inactive_file": 0, "slab_reclaimable": 0}
        ),
        process(4243, "pause", "0::/kubepods/besteffort", 1500),
        process(900, "cc1plus", SESSION, 1000),
        cluster(simple(1, "llm", "2Gi")),
    )
    assert "cc1plus (pid 900" in pressure(document)["message"]


def test_nor_the_kernels_own_threads(tmp_path: Path, capsys: Capture) -> None:
    thread = process(66, "kswapd0", "0::/", 3000, flags=KERNEL_THREAD)
    document = last(capsys, tmp_path, small(), thread, process(900, "cc1plus", SESSION, 1000))
    assert "cc1plus (pid 900" in pressure(document)["message"]


def test_a_recording_without_the_rows_of_an_old_kernel_names_by_what_is_resident(
    tmp_path: Path, capsys: Capture
) -> None:
    # 524 288 pages of 4 KiB are 2 GiB.
    old = {**process(812, "ollama", SERVICE, None), "host/proc/812/statm": "700000 524288 100 1 0 600000 0\n"}
    document = last(capsys, tmp_path, small(), old, process(900, "cc1plus", SESSION, 2000))
    assert "ollama (pid 812" in pressure(document)["message"]


def test_a_recording_of_the_drivers_rows_alone_names_who_holds_the_most_of_them(
    tmp_path: Path, capsys: Capture
) -> None:
    # No row of memory of any process was recorded.
    document = last(
        capsys,
        tmp_path,
        small(client(b"Xorg", 700, 64 * KIB), client(b"ollama", 812, 3 * KIB * KIB)),
        process(700, "Xorg", "0::/system.slice/gdm.service", None),
        process(812, "ollama", SERVICE, None),
    )
    assert "ollama (pid 812, ollama.service)" in pressure(document)["message"]


def test_nobody_is_named_where_nothing_could_be_read(tmp_path: Path, capsys: Capture) -> None:
    document = last(capsys, tmp_path, small())
    assert pressure(document)["reason"] == "HostMemory"
    assert "which process could not be read" in pressure(document)["message"]


def test_with_room_nobody_is(tmp_path: Path, capsys: Capture) -> None:
    rows = {**FULL, "MemAvailable": 2 * KIB * KIB}
    document = last(
        capsys, tmp_path, orin(table(), total_kib=7802368, rows=rows), process(900, "cc1plus", SESSION, 4000)
    )
    assert pressure(document)["status"] == "False"
    assert "cc1plus" not in json.dumps(document)


def test_memory_of_a_card_is_none_of_the_boards(tmp_path: Path, capsys: Capture) -> None:
    board = cards(card(entry(812, 5 * GIB), used=5 * GIB))
    board["host/proc/meminfo"] = orin(None, 64 * KIB * KIB, FULL)["host/proc/meminfo"]
    document = last(capsys, tmp_path, board, process(812, "vllm", SERVICE, 3000))
    assert pressure(document)["reason"] == "MemoryNotShared"
    assert findings(document) == []


def test_the_name_is_written_once_with_the_reason(tmp_path: Path, capsys: Capture) -> None:
    # The build is the largest first; then, a minute later, the model is. The node has the condition by then.
    full = small(client(b"ollama", 812, KIB * KIB))
    first = pressure(
        last(
            capsys,
            tmp_path / "first",
            full,
            process(812, "ollama", SERVICE, 300),
            process(900, "cc1plus", SESSION, 2048),
        )
    )
    found = node()
    found["status"]["conditions"].append({**first, "lastTransitionTime": "2026-01-31T12:00:00Z"})
    more = {CLIENTS: table(client(b"ollama", 812, 3 * KIB * KIB))}
    document = last(
        capsys,
        tmp_path / "second",
        {**full, **more, "cluster/node.json": found},
        process(812, "ollama", SERVICE, 300),
        process(900, "cc1plus", SESSION, 2048),
        cluster(),
    )
    assert "ollama (pid 812" in pressure(document)["message"]
    sent = [
        one
        for request in document["node"]["requests"]
        for one in request["body"].get("status", {}).get("conditions", [])
    ]
    assert "GPUMemoryPressure" not in [one["type"] for one in sent]
    # The two others were not there yet: the control for what was asked.
    assert sent


def test_the_condition_has_no_figures_and_the_finding_has_them(tmp_path: Path, capsys: Capture) -> None:
    parts = small(client(b"ollama", 812, 2 * KIB * KIB)), process(812, "ollama", SERVICE, 512)
    document = last(capsys, tmp_path, *parts)
    # 4 GiB + 2 GiB outside pods; 512 MiB + 2 GiB are the model's. Without the 512 MiB for K3s os has to be 5632 MiB.
    assert not any(tells(pressure(document)["message"], size) for size in (6 * GIB, 2560 * MIB, 100 * MIB))
    (found,) = findings(document)
    assert found["severity"] == "error"
    assert "ollama (pid 812, ollama.service)" in found["summary"]
    assert tells(found["summary"], 6 * GIB)
    assert tells(found["summary"], 2560 * MIB)
    assert "reserves.os" in found["remedy"]
    assert tells(found["remedy"].replace("Mi", "MiB"), 5632 * MIB)
    assert "pod with a budget" in found["remedy"]


@pytest.mark.parametrize(
    "name", ["x\ny", ") S 1 2 3 (", "\x1b[2J\x1b]0;x\x07", "\u202egnp.sh", "(pid 1, init)"], ids=repr
)
def test_no_name_does_anything_to_a_terminal_or_a_document(name: str, tmp_path: Path, capsys: Capture) -> None:
    hog = process(812, name, SERVICE, 3000)
    # The kernel writes a newline in status as two characters, in stat as it is (fs/proc/array.c).
    hog["host/proc/812/status"] = hog["host/proc/812/status"].replace(name, name.replace("\n", "\\n"))
    message = pressure(last(capsys, tmp_path, small(), hog))["message"]
    assert message.isprintable()
    assert "' (pid 812, ollama.service)" in message

    assert cli.main(["explain", str(tmp_path)]) == 0
    page = capsys.readouterr().out
    assert "(pid 812, ollama.service)" in " ".join(page.split())
    assert all(line.isprintable() for line in page.splitlines())


def test_a_name_of_bytes_that_are_no_text(tmp_path: Path, capsys: Capture) -> None:
    hog: Files = process(812, "x", SERVICE, 3000)
    for path in ("host/proc/812/stat", "host/proc/812/status", "host/proc/812/comm"):
        hog[path] = hog[path].encode().replace(b"x", b"\xff\xfe\x80abcdefghijkl", 1)
    message = pressure(last(capsys, tmp_path, small(), hog))["message"]
    assert message.isprintable()
    assert "abcdefghijkl" in message
    assert "(pid 812, ollama.service)" in message


def test_a_pod_in_breach_goes_all_the_same(tmp_path: Path, capsys: Capture) -> None:
    # The pod holds 3 GiB of the 2 that it may; outside pods are 4 GiB of 1.5.
    board = unified((4242, 3 * KIB), total_kib=7802368, rows=FULL)
    document = last(
        capsys,
        tmp_path,
        {**board, "config.yaml": stated()},
        process(4242, "infer", in_pod(uid(1), cid(1)), 100),
        memory_v2(f"/kubepods/burstable/pod{uid(1)}", 0, {"active_file": 0, "inactive_file": 0, "slab_reclaimable": 0}),
        process(900, "cc1plus", SESSION, 3000),
        cluster(simple(1, "llm", "2Gi")),
    )
    assert [one["name"] for one in document["plan"]["evictions"]] == ["llm"]
    assert "cc1plus (pid 900" in pressure(document)["message"]
