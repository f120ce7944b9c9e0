"""Pods that came before the device plugin after a boot (kubernetes/kubernetes#116125, #118559)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.making import pod, pods
from tests.diagnose.making import NODE_JSON, PODS, Capture, found, healthy, judged
from tests.diagnose.plugin import GPU, offering, plugin
from tests.unit.snapshot.making import process

ID = "started-before-device-plugin"
UPTIME = "host/proc/uptime"
MADE = "2026-01-30T08:00:00Z"


def at(clock: str) -> dict[str, Any]:
    return {"running": {"startedAt": f"2026-01-31T{clock}Z"}}


def asking(started: str = "11:50:20", **metadata: Any) -> dict[str, Any]:
    """A pod of the day before the boot that holds a GPU by number."""
    found = pod("llm", limits={GPU: "1"}, creationTimestamp=MADE, **metadata)
    found["status"]["containerStatuses"][0] |= {"state": at(started), "restartCount": 1}
    return found


def back(started: str = "11:51:10", made: str = MADE, **status: Any) -> dict[str, Any]:
    """The plugin's pod."""
    found = plugin(state=at(started), **status)
    found["metadata"]["creationTimestamp"] = made
    return found


def booted(*items: dict[str, Any], **files: Any) -> dict[str, Any]:
    """600 s before the snapshot, at 11:50."""
    return healthy(**{UPTIME: "600.00 2000.00\n", NODE_JSON: offering(), PODS: pods(*items), **files})


TRIGGER = booted(asking(), back())
NEAR_MISS = booted(asking("11:51:30"), back())


def test_it_may_run_without_its_gpu(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("warning", "suspected", "pod default/llm")
    assert "container main startedAt: 2026-01-31T11:50:20Z" in one["evidence"]
    assert any("startedAt: 2026-01-31T11:51:10Z" in row for row in one["evidence"])
    assert "kubectl -n default get pod llm -o yaml | kubectl replace --force -f -" in one["remedy"]


def test_one_that_holds_no_device_node_is_certain(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "host/proc/4242/fd").mkdir(parents=True)
    (one,) = found(capsys, tmp_path, {**TRIGGER, **process(4242, "llm")}, ID)
    assert judged(one)[1] == "certain"


def test_one_that_holds_its_gpu_is_well(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "host/proc/4242/fd").mkdir(parents=True)
    (tmp_path / "host/proc/4242/fd/7").symlink_to("/dev/nvmap")
    assert found(capsys, tmp_path, {**TRIGGER, **process(4242, "llm")}, ID) == []


def test_its_controller_makes_another_one(tmp_path: Path, capsys: Capture) -> None:
    owned = asking(ownerReferences=[{"kind": "ReplicaSet", "name": "llm-7d", "controller": True}])
    (one,) = found(capsys, tmp_path, booted(owned, back()), ID)
    assert one["remedy"].endswith("\nkubectl -n default delete pod llm")


@pytest.mark.parametrize(
    "items",
    [
        (asking(), back(lastState={"terminated": {"startedAt": "2026-01-31T11:50:10Z"}})),
        (pod("web", limits={"edgeagent.dev/gpu-memory": "1Gi"}), back()),
        (asking(),),
        (asking(), back("09:00:00")),  # the status of before the boot: nobody has looked yet
        (asking(), back("11:55:10", made="2026-01-31T11:55:00Z")),  # five minutes after the boot another one came
    ],
    ids=["plugin-was-there-before", "asks-for-none", "no-plugin", "not-back", "update"],
)
def test_it_was_not_before_the_plugin(tmp_path: Path, capsys: Capture, items: tuple[Any, ...]) -> None:
    assert found(capsys, tmp_path, booted(*items), ID) == []


def test_a_plugin_that_crashed_at_first_came_later_still(tmp_path: Path, capsys: Capture) -> None:
    again = back(lastState={"terminated": {"startedAt": "2026-01-31T11:50:40Z"}})
    (one,) = found(capsys, tmp_path, booted(asking(), again), ID)
    assert judged(one)[1] == "suspected"


def test_a_clock_that_was_set_after_the_start(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "host/proc/4242/fd").mkdir(parents=True)
    early = asking()
    early["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": "1970-01-01T00:00:20Z"}}
    assert len(found(capsys, tmp_path, {**booted(early, back()), **process(4242, "llm")}, ID)) == 1
    # Without a process of it the status may be that of before the boot.
    assert found(capsys, tmp_path / "2", booted(early, back()), ID) == []


@pytest.mark.parametrize("text", ["", "nan 1.00\n", "1e30 1.00\n"])
def test_without_uptime_nobody_knows(tmp_path: Path, capsys: Capture, text: str) -> None:
    assert found(capsys, tmp_path, {**TRIGGER, UPTIME: text}, ID) == []


# --- those that failed ------------------------------------------------------------------------


def refused(name: str, message: str = "", key: str = GPU, **metadata: Any) -> dict[str, Any]:
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message, "containerStatuses": []}
    return pod(name, limits={key: "1"}, status=status, **metadata)


NONE_LEFT = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"


def test_those_that_failed_are_counted(tmp_path: Path, capsys: Capture) -> None:
    made_by = [{"kind": "ReplicaSet", "name": "llm-7d", "controller": True}]
    owned = [refused(name, NONE_LEFT, ownerReferences=made_by) for name in ("a", "b", "c", "d")]
    (one,) = found(capsys, tmp_path, booted(*owned), ID)
    assert judged(one) == ("info", "certain", "node edge-07")
    assert one["summary"].startswith("Pods failed")
    assert any(row.endswith("UnexpectedAdmissionError: 4") for row in one["evidence"])
    assert "kubectl -n default delete pod d" in one["remedy"]
    (one,) = found(capsys, tmp_path / "2", booted(refused("alone")), ID)
    assert one["severity"] == "warning"


@pytest.mark.parametrize(
    "other",
    [
        refused("a", key="amd.com/gpu"),
        refused("a", "Allocate failed due to no healthy devices present; cannot allocate smarter-devices/fuse"),
        pod("a", limits={GPU: "1"}, status={"phase": "Failed", "reason": "Evicted", "containerStatuses": []}),
    ],
    ids=["another-device", "another-message", "another-reason"],
)
def test_those_that_failed_for_something_else(tmp_path: Path, capsys: Capture, other: dict[str, Any]) -> None:
    assert found(capsys, tmp_path, booted(other), ID) == []


def test_one_more_that_failed_is_no_other_event_and_the_rest_is_counted(tmp_path: Path, capsys: Capture) -> None:
    made_by = [{"kind": "ReplicaSet", "name": "llm-7d", "controller": True}]
    items = [refused(f"p{number}", NONE_LEFT, ownerReferences=made_by) for number in range(8)]
    (first,) = found(capsys, tmp_path, booted(*items[1:]), ID)
    (second,) = found(capsys, tmp_path / "2", booted(*items), ID)
    assert first["summary"] == second["summary"]
    # 8 failed and 5 are named.
    assert second["evidence"][-1] == "and 3 more"
    assert second["remedy"].count("delete pod") == 5
