"""GPU device nodes that are missing, or closed to the user of a container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.machines import COMPATIBLE, NVIDIA_CARD, card, on_x86
from tests.cases.making import KEY, nvml, pod, pods
from tests.diagnose.making import CSV, PODS, Capture, Files, found, healthy, judged, without

ID = "device-node-permission"
NVMAP = "host/dev/nvmap"
VIDEO = "uid=0 gid=44 mode=660\n"
NVIDIA = {"runtimeClassName": "nvidia"}
PARAMS = "host/proc/driver/nvidia/params"


def asking(context: dict[str, Any] | None = None, **own: Any) -> dict[str, Any]:
    """A pod that asks for GPU memory; ``context`` is the pod's, ``own`` the container's."""
    item = pod(limits={KEY: "1Gi"}, spec={**NVIDIA, "securityContext": context})
    item["spec"]["containers"][0]["securityContext"] = own
    return item


def jetson(item: dict[str, Any], node: str = VIDEO, **files: Any) -> Files:
    return healthy(**{PODS: pods(item), NVMAP: node, "host/dev/nvhost-gpu": "", **files})


TRIGGER = jetson(asking({"runAsUser": 1000}))
NEAR_MISS = jetson(asking({"runAsUser": 1000, "supplementalGroups": [44]}))


def test_a_user_who_is_not_in_the_group(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    # The image may say more of its user's groups.
    assert judged(one) == ("error", "suspected", "pod default/llm")
    assert "/dev/nvmap: mode 0660, owner 0, group 44" in one["evidence"]
    assert "container main: runAsUser 1000, groups 0" in one["evidence"]
    assert '"supplementalGroups": [44]' in one["remedy"]


@pytest.mark.parametrize(
    ("context", "own", "denied"),
    [
        (None, {}, False),  # the image says
        ({"runAsUser": 0}, {}, False),
        ({"runAsUser": 1000, "fsGroup": 44}, {}, False),
        ({"runAsUser": 1000, "runAsGroup": 44}, {}, False),
        ({"runAsUser": 1000, "runAsGroup": 1000, "supplementalGroups": [109]}, {}, True),
        ({"runAsUser": 1000}, {"runAsUser": 0}, False),
        ({"runAsGroup": 44}, {"runAsUser": 1000, "runAsGroup": 1000}, True),
        ({"runAsUser": "odd"}, {}, False),
    ],
)
def test_what_the_manifest_says_of_its_user(
    tmp_path: Path, capsys: Capture, context: dict[str, Any] | None, own: dict[str, Any], *, denied: bool
) -> None:
    assert len(found(capsys, tmp_path, jetson(asking(context, **own)), ID)) == denied


@pytest.mark.parametrize(
    ("node", "denied"),
    [
        ("uid=0 gid=44 mode=666", False),
        ("uid=1000 gid=44 mode=600", False),  # it is the owner
        ("uid=1000 gid=0 mode=66", True),  # to whom alone it is closed: the first class that fits decides
        ("uid=0 gid=0 mode=660", False),  # without a group of its own it may be root's
        ("uid=0 gid=44 mode=640", True),
    ],
)
def test_who_may_open_the_node(tmp_path: Path, capsys: Capture, node: str, *, denied: bool) -> None:
    assert len(found(capsys, tmp_path, jetson(asking({"runAsUser": 1000}), node), ID)) == denied


def test_where_no_group_would_help_the_node_is_changed(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, jetson(asking({"runAsUser": 1000}), "uid=0 gid=0 mode=600\n"), ID)
    assert judged(one) == ("error", "certain", "pod default/llm")
    assert "sudo chmod 0660 /dev/nvmap" in one["remedy"].splitlines()


def test_strictly_only_the_groups_of_the_manifest_count(tmp_path: Path, capsys: Capture) -> None:
    context = {"runAsUser": 1000, "supplementalGroupsPolicy": "Strict"}
    (one,) = found(capsys, tmp_path, jetson(asking(context)), ID)
    assert one["certainty"] == "certain"


def test_where_nodes_were_not_read_they_are_as_usual(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, jetson(asking({"runAsUser": 1000}), ""), ID)
    assert judged(one) == ("warning", "suspected", "pod default/llm")


def test_a_pod_that_asks_for_no_gpu_may_be_anybody(tmp_path: Path, capsys: Capture) -> None:
    web = pod("web", spec={"securityContext": {"runAsUser": 1000}})
    assert found(capsys, tmp_path, jetson(web), ID) == []


def test_nor_is_one_told_that_holds_a_node(tmp_path: Path, capsys: Capture) -> None:
    item = asking({"runAsUser": 1000})
    name = f"/kubepods/pod{item['metadata']['uid'][:-4]}0001/{'a' * 64}"
    proc = {
        "host/proc/10/stat": "10 (p) S 1 10 10 0 -1 4194560 " + "0 " * 8 + "20 0 1 0 88123 " + "0 " * 30 + "\n",
        "host/proc/10/cgroup": f"0::{name}\n",
        "host/proc/2/stat": "2 (kthreadd) S 0 0 0 0 -1 2129984 " + "0 " * 8 + "20 0 1 0 1 " + "0 " * 30 + "\n",
    }
    (tmp_path / "host/proc/10/fd").mkdir(parents=True)
    (tmp_path / "host/proc/10/fd/3").symlink_to("/dev/nvmap")
    assert found(capsys, tmp_path, jetson(item, **proc), ID) == []


def server(context: dict[str, Any], **files: Any) -> Files:
    found = healthy(**on_x86(), **NVIDIA_CARD, **{PODS: pods(asking(context)), "nvml.json": nvml(card(0)), **files})
    return without(found, COMPATIBLE, CSV)


@pytest.mark.parametrize(("mode", "modify", "number"), [(0o660, 1, 1), (0o666, 1, 0), (0o660, 0, 0)])
def test_the_driver_says_how_it_makes_its_nodes(
    tmp_path: Path, capsys: Capture, mode: int, modify: int, number: int
) -> None:
    rows = f"ModifyDeviceFiles: {modify}\nDeviceFileUID: 0\nDeviceFileGID: 44\nDeviceFileMode: {mode}\n"
    told = found(capsys, tmp_path, server({"runAsUser": 1000}, **{PARAMS: rows}), ID)
    assert [judged(one)[:2] for one in told] == [("error", "suspected")] * number


# --- nodes that are not there -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "judgement"),
    [
        (["null", "nvmap", "nvhost-gpu"], None),
        (["null", "nvhost-gpu"], ("error", "certain")),
        (["nvhost-gpu"], ("error", "suspected")),
        (["null", "nvmap"], ("error", "certain")),
        (["nvmap"], None),  # what else there is was not seen
        ([], None),
    ],
)
def test_on_a_jetson(tmp_path: Path, capsys: Capture, names: list[str], judgement: tuple[str, str] | None) -> None:
    told = found(capsys, tmp_path, healthy(**{f"host/dev/{name}": "" for name in names}), ID)
    assert [judged(one)[:2] for one in told] == ([judgement] if judgement else [])


@pytest.mark.parametrize(
    ("names", "number"), [(["null"], 1), (["null", "nvidia0", "nvidiactl"], 0), (["nvidia-modeset"], 0)]
)
def test_beside_a_card(tmp_path: Path, capsys: Capture, names: list[str], number: int) -> None:
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.09  x\n"
    files = {"host/proc/driver/nvidia/version": text, **{f"host/dev/{name}": "" for name in names}}
    told = found(capsys, tmp_path, server({}, **files), ID)
    assert [judged(one) for one in told] == [("warning", "suspected", "node edge-07")] * number
