"""More is booked than there is. 7619.5 MiB less reserves of 1536 MiB are 6083.5 MiB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cases.machines import card
from tests.cases.making import KEY, MIB, about, nvml, pod, pods
from tests.diagnose.making import PODS, Capture, found, healthy, judged, without

ID = "overcommitted"
RUNTIME: dict[str, Any] = {"runtimeClassName": "nvidia"}


def two(old: str, young: str, **keys: Any) -> dict[str, Any]:
    """Two pods that have booked so much."""
    first = pod("old", limits={KEY: old}, spec=RUNTIME, uid="11111111-2222-3333-4444-0000000000aa")
    second = pod("young", limits={KEY: young}, spec=RUNTIME, **keys)
    second["status"]["startTime"] = "2026-01-31T11:30:00Z"
    return pods(first, second)


TRIGGER = healthy(**{PODS: two("4Gi", "3Gi")})
NEAR_MISS = healthy(**{PODS: two("3Gi", "2Gi")})


def test_it_names_who_booked_and_whom_to_end(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", f"pool {KEY}")
    assert one["evidence"][-2:] == [
        f"pod default/old booked: {4096 * MIB}",
        f"pod default/young booked: {3072 * MIB}",
    ]
    lines = one["remedy"].splitlines()
    # 7168 - 6083.5 = 1084.5
    assert lines[0] == "End pods, or move them to another node, until 1085Mi less is booked."
    assert [line for line in lines if line.startswith("kubectl")] == ["kubectl -n default delete pod young"]
    assert '  - "system-reserved=memory=768Mi"' in lines


def test_as_many_as_it_takes_and_none_that_comes_back_at_once(tmp_path: Path, capsys: Capture) -> None:
    made = two("7Gi", "512Mi", ownerReferences=[{"kind": "DaemonSet", "name": "young", "controller": True}])
    (one,) = found(capsys, tmp_path, healthy(**{PODS: made}), ID)
    commands = [line for line in one["remedy"].splitlines() if line.startswith("kubectl")]
    assert commands == ["kubectl -n default delete pod old"]


def test_a_card_needs_no_reserves_of_the_kubelet(tmp_path: Path, capsys: Capture) -> None:
    files = {
        **without(healthy(), "host/proc/device-tree/compatible"),
        "snapshot.yaml": about(arch="x86_64"),
        "nvml.json": nvml(card(1, 6144)),
        PODS: two("4Gi", "3Gi"),
    }
    (one,) = found(capsys, tmp_path, files, ID)
    assert "kubelet-arg" not in one["remedy"]
    assert "kubectl -n default delete pod young" in one["remedy"]
