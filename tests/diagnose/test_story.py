"""One pod from end to end, whatever has become of it: the answers in plain order, and nothing that is not so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgeagent import cli
from tests.cases.making import KEY, device, nvml, pod, pods
from tests.diagnose.making import PODS, Capture, creating, healthy, waiting, without
from tests.unit.snapshot.making import CONTAINER, process, write

GIB = 1 << 30
NVIDIA = {"runtimeClassName": "nvidia"}
SIDE = "c" * 64
SCHEDULED, ASKS = "Scheduled?", "Asks for a GPU?"
RUNTIME, DEVICE = "Runs under an NVIDIA runtime?", "Is it given a device?"
USES, WITHIN, ELSE = f"Does it use {KEY}?", f"Within its budget of {KEY}?", f"Who else is on {KEY}?"


def board(folder: Path, *listed: Any, held: int = 0, **files: object) -> Path:
    """One process, pid 4242, in the container of the first pod; it holds ``held`` bytes."""
    rows = [{"pid": 4242, "used": held}] if held else []
    gpu = device("Orin (nvgpu)", "u", compute={"code": 0, "processes": rows})
    write(folder, healthy(**{PODS: pods(*listed), "nvml.json": nvml(gpu), **process(4242, "llm"), **files}))
    (folder / "host/proc/4242/fd").mkdir()
    if held:
        (folder / "host/proc/4242/fd/7").symlink_to("/dev/nvmap")
    return folder


def story(capsys: Capture, folder: Path, name: str = "default/llm") -> dict[str, tuple[bool | None, str, list[str]]]:
    """Answer, words and evidence of each question, in their order."""
    assert cli.main(["doctor", "pod", name, str(folder), "--format", "json"]) in (0, 1)
    steps = json.loads(capsys.readouterr().out)["steps"]
    return {step["question"]: (step["answer"], step["told"], step["evidence"]) for step in steps}


def page(capsys: Capture, folder: Path, name: str = "default/llm") -> str:
    cli.main(["doctor", "pod", name, str(folder)])
    return capsys.readouterr().out


def test_the_questions_come_in_the_order_in_which_a_pod_gets_there(tmp_path: Path, capsys: Capture) -> None:
    found = story(capsys, board(tmp_path, pod(limits={KEY: "1Gi"}, container=CONTAINER, spec=NVIDIA), held=GIB))
    assert list(found) == [
        *(SCHEDULED, ASKS, RUNTIME, DEVICE),
        *("Does container main run?", "Does container main hold a GPU device node?", USES, WITHIN, ELSE),
    ]
    assert found[USES][2] == ["GPU process 4242 (llm)"]


def test_of_a_pod_that_waits_only_that_is_asked_which_there_is(tmp_path: Path, capsys: Capture) -> None:
    big = pod("big", limits={KEY: "3Gi"}, container=CONTAINER, spec=NVIDIA)
    found = story(capsys, board(tmp_path, big, waiting("new", {KEY: "9Gi"})), "default/new")
    assert list(found) == [SCHEDULED, ASKS, RUNTIME, DEVICE, ELSE]
    # Nothing is held yet; what is booked keeps it out.
    assert found[ELSE][2] == ["default/big holds 0 MiB, requests 3.00 GiB"]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"phase": "Succeeded"}, "has finished, phase Succeeded."),
        (
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed"},
            "has finished, phase Failed. UnexpectedAdmissionError: Allocate failed",
        ),
    ],
)
def test_a_pod_that_has_finished(tmp_path: Path, capsys: Capture, status: dict[str, Any], told: str) -> None:
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    done = pod(
        limits={KEY: "1Gi"}, spec=NVIDIA, status={**status, "containerStatuses": [{"name": "main", "state": ended}]}
    )
    found = story(capsys, board(tmp_path, done))
    assert found[SCHEDULED] == (None, f"It was bound to node edge-07 and {told}", [])
    assert found["Does container main run?"] == (None, "It has ended: Completed, exit code 0.", [])
    # It uses nothing any more, and nobody is beside it.
    assert list(found) == [SCHEDULED, ASKS, RUNTIME, DEVICE, "Does container main run?"]


def test_a_pod_of_another_node_or_none_is_not_made_up(tmp_path: Path, capsys: Capture) -> None:
    far = pod("far", limits={KEY: "1Gi"}, spec={"nodeName": "edge-99"})
    for name in ("far", "nope"):
        assert cli.main(["doctor", "pod", f"default/{name}", str(board(tmp_path / name, far))]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert len(captured.err.splitlines()) == 1
        assert f"kubectl -n default get pod {name} -o wide" in captured.err


def test_without_a_list_of_pods_none_is_said_to_be_missing(tmp_path: Path, capsys: Capture) -> None:
    write(tmp_path, without(healthy(), PODS))
    assert cli.main(["doctor", "pod", "default/llm", str(tmp_path)]) == 2
    assert "the pods of this node are not known: cluster/pods.json is not in the snapshot" in capsys.readouterr().err


def test_a_pod_that_asks_for_no_gpu_is_not_blamed_for_having_none(tmp_path: Path, capsys: Capture) -> None:
    found = story(capsys, board(tmp_path, pod(container=CONTAINER)))
    assert [answer for answer, _, _ in found.values() if answer is False] == []
    assert found[ASKS] == (None, "It has no limit of a GPU resource.", [])
    assert found[WITHIN] == (None, "It has none.", [])
    out = page(capsys, tmp_path)
    assert "-   Runs under an NVIDIA runtime?" in out
    assert "?   " not in out.replace("-   Is it given a device?", "")
    assert out.endswith("Nothing was found to be wrong.\n")


def test_a_class_that_does_not_exist_keeps_any_pod_from_starting(tmp_path: Path, capsys: Capture) -> None:
    found = story(capsys, board(tmp_path, creating(spec={"runtimeClassName": "gone"})))
    assert found[RUNTIME] == (False, "The RuntimeClass gone does not exist.", [])


def test_a_pod_over_its_budget_is_not_said_to_be_well(tmp_path: Path, capsys: Capture) -> None:
    folder = board(tmp_path, pod(limits={KEY: "1Gi"}, container=CONTAINER, spec=NVIDIA), held=3 * GIB)
    answer, told, _ = story(capsys, folder)[WITHIN]
    assert answer is False
    assert told.startswith("Its budget is 1.00 GiB, from edgeagent.dev/gpu-memory.")
    assert "3.00 GiB" in told
    out = page(capsys, folder)
    assert out.endswith("No rule finds a cause; see what is answered with no.\n")
    assert "Nothing was found" not in out


def test_a_daemon_set_pod_over_its_budget_stays_and_why_is_told(tmp_path: Path, capsys: Capture) -> None:
    ours = pod(limits={KEY: "1Gi"}, container=CONTAINER, spec=NVIDIA)
    owner = {"kind": "DaemonSet", "name": "ds", "controller": True, "apiVersion": "apps/v1", "uid": "x"}
    ours["metadata"]["ownerReferences"] = [owner]
    answer, told, _ = story(capsys, board(tmp_path, ours, held=3 * GIB))[WITHIN]
    assert answer is False
    assert "It stays all the same: " in told
    assert "DaemonSet" in told


def test_of_two_containers_it_is_told_which_uses_the_gpu(tmp_path: Path, capsys: Capture) -> None:
    two = pod(limits={KEY: "1Gi"}, container=CONTAINER, spec=NVIDIA)
    two["spec"]["containers"].append({"name": "side"})
    running = {"running": {"startedAt": "2026-01-31T11:00:00Z"}}
    two["status"]["containerStatuses"].append({"name": "side", "containerID": f"containerd://{SIDE}", "state": running})
    folder = board(tmp_path, two, held=GIB)
    write(tmp_path, {name: text.replace(CONTAINER, SIDE) for name, text in process(4243, "side").items()})
    (folder / "host/proc/4243/fd").mkdir()
    found = story(capsys, folder)
    assert found["Does container main hold a GPU device node?"][0] is True
    # It asks for none, so that it has none is as it should be.
    assert found["Does container side hold a GPU device node?"][:2] == (None, "None of its processes does.")
    assert found[USES][2][:2] == ["container main: 1.00 GiB of GPU memory", "container side: 0 MiB of GPU memory"]


def test_a_container_that_cannot_get_a_device_is_told_before_it_is_missed(tmp_path: Path, capsys: Capture) -> None:
    answer, told, _ = story(capsys, board(tmp_path, pod(limits={KEY: "1Gi"}, container=CONTAINER)))[DEVICE]
    assert answer is False
    assert told == "Container main is not: the pod names no RuntimeClass, and containerd's default runtime is runc."


def test_an_unknown_neighbour_is_not_an_absent_one(tmp_path: Path, capsys: Capture) -> None:
    """Without NVML and nvmap nobody knows who holds anything: the neighbours without a request might."""
    ours = pod(limits={KEY: "1Gi"}, container=CONTAINER, spec=NVIDIA)
    others = [pod(f"p{number}", container=f"{number:064x}") for number in range(2)]
    asking = [pod(f"q{number}", limits={KEY: "100Mi"}, container=f"{number + 9:064x}") for number in range(7)]
    write(tmp_path, healthy(**{PODS: pods(ours, *others, *asking)}))
    _, told, rows = story(capsys, tmp_path)[ELSE]
    assert told.startswith("Pods, the largest first.")
    assert rows == [
        *(f"default/q{number} holds what is not known, requests 100 MiB" for number in range(5)),
        "2 more",
        "of 2 more it is not known whether they hold any",
    ]


# --- what stands on the page ----------------------------------------------------------


HOSTILE = "\x1b[2J\u202e$(reboot)\n`x`"


def test_names_of_a_stranger_are_harmless_on_the_page_and_in_what_is_to_be_pasted(
    tmp_path: Path, capsys: Capture
) -> None:
    odd = pod(limits={KEY: "1Gi"}, container=CONTAINER, spec={"runtimeClassName": f"nvidia{HOSTILE}"})
    odd["spec"]["containers"][0]["name"] = odd["status"]["containerStatuses"][0]["name"] = f"main{HOSTILE}"
    folder = board(tmp_path, odd)
    out = page(capsys, folder)
    assert "runtime-class-missing" in out
    assert not set(out) & {"\x1b", "\u202e"}
    cli.main(["doctor", "pod", "default/llm", str(folder), "--format", "json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [one["remedy"] for one in findings if "reboot" in one["remedy"]] == []


@pytest.mark.parametrize("columns", ["80", "100"])
def test_no_line_is_wider_than_the_terminal_but_what_is_to_be_pasted(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    folder = board(tmp_path, pod(limits={KEY: "1Gi"}, container=CONTAINER), held=2 * GIB)
    wide = [line for line in page(capsys, folder).splitlines() if len(line) > int(columns)]
    assert [line for line in wide if "kubectl" not in line and not line.strip().startswith("/")] == []


def test_a_sentence_of_a_remedy_is_broken_and_a_command_is_not(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    folder = board(tmp_path, creating(spec={"runtimeClassName": "nvidia-gone"}))
    rows = page(capsys, folder).splitlines()
    start = next(number for number, row in enumerate(rows) if "→" in row)
    assert all(len(row) <= 80 for row in rows[start : start + 2])
    assert "kubectl apply -f - <<'EOF'" in rows
