"""Devices by a name that no specification defines (NVIDIA/nvidia-container-toolkit#1239, kubeedge/kubeedge#6425)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeagent.cluster import lists
from edgeagent.cluster.pods import parse
from edgeagent.diagnose.collected import ClusterSeen
from edgeagent.diagnose.diagnosis import across
from edgeagent.facts import PodFacts
from edgeagent.facts.diagnosis import EventFacts, Listed, no_cluster
from tests.cases.making import NODE, UID, pod, pods
from tests.diagnose.making import (
    BINARY,
    CLASSES,
    CONTAINERD,
    EVENTS,
    PODS,
    Capture,
    classes,
    containerd,
    creating,
    event,
    found,
    healthy,
    judged,
    without,
)

ID = "cdi-name-unresolved"
SPEC = "host/etc/cdi/nvidia.yaml"
SETTINGS = "host/etc/nvidia-container-runtime/config.toml"
CDI_MODE = {SETTINGS: '[nvidia-container-runtime]\nmode = "cdi"\n'}
NVIDIA = {"runtimeClassName": "nvidia"}
ANNOTATED: dict[str, Any] = {"annotations": {"cdi.k8s.io/gpu": "nvidia.com/gpu=all"}}
GENERATE = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
SAID = (
    "failed to create containerd task: OCI runtime create failed: error modifying OCI spec: failed to inject CDI "
    "devices: unresolvable CDI devices nvidia.com/gpu=tegra: unknown"
)


def spec(*names: str, kind: str = "nvidia.com/gpu") -> str:
    return f"kind: {kind}\ndevices: [{', '.join(f'{{name: {name}}}' for name in names)}]\n"


def with_variable(value: str, item: dict[str, Any]) -> dict[str, Any]:
    item["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]
    return item


TRIGGER = healthy(**{PODS: pods(creating(**ANNOTATED))})
NEAR_MISS = healthy(**{PODS: pods(creating(**ANNOTATED)), SPEC: spec("0", "all")})


def test_an_annotation_names_a_device_that_is_not_defined(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "pod default/llm")
    assert "nvidia.com/gpu=all" in one["summary"]
    assert GENERATE in one["remedy"].splitlines()


def test_a_pod_that_runs_will_not_start_again(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{PODS: pods(pod(**ANNOTATED))}), ID)
    assert judged(one) == ("warning", "certain", "pod default/llm")


def test_what_there_is_is_told(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(**{PODS: pods(creating(annotations={"cdi.k8s.io/x": "nvidia.com/gpu=7"})), SPEC: spec("0", "all")})
    (one,) = found(capsys, tmp_path, files, ID)
    assert "/etc/cdi/nvidia.yaml: kind nvidia.com/gpu, devices 0, all" in one["evidence"]
    assert "nvidia.com/gpu=0, nvidia.com/gpu=all" in one["remedy"]


@pytest.mark.parametrize(
    ("value", "more", "number"),
    [
        ("nvidia.com/gpu=all", {}, 1),
        ("nvidia.com/gpu=all", {SPEC: spec("all")}, 0),
        ("nvidia.com/gpu=0,nvidia.com/gpu=1", {SPEC: spec("0")}, 1),
        ("runtime.nvidia.com/gpu=all", {}, 0),  # made at once
        ("all", {}, 0),  # lists of files
        ("all", CDI_MODE, 1),
        ("all", {**CDI_MODE, SPEC: spec("all")}, 0),
        ("void", {**CDI_MODE, SPEC: spec("0")}, 0),
        ("GPU-1", {**CDI_MODE, SPEC: spec("all")}, 1),
    ],
)
def test_the_variable_names_one(tmp_path: Path, capsys: Capture, value: str, more: dict[str, str], number: int) -> None:
    files = healthy(**{PODS: pods(with_variable(value, creating(spec=NVIDIA))), **more})
    found_here = [one for one in found(capsys, tmp_path, files, ID) if one["subject"].startswith("pod")]
    assert len(found_here) == number


def test_where_the_runtime_is_not_known_it_is_a_suspicion(tmp_path: Path, capsys: Capture) -> None:
    files = without(healthy(**{PODS: pods(with_variable("nvidia.com/gpu=all", creating(spec=NVIDIA)))}), CONTAINERD)
    (one,) = found(capsys, tmp_path, files, ID)
    assert judged(one) == ("error", "suspected", "pod default/llm")


def test_under_another_runtime_the_variable_says_nothing(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(**{PODS: pods(with_variable("nvidia.com/gpu=all", creating()))})
    assert found(capsys, tmp_path, files, ID) == []


def test_one_runtime_knows_names_alone(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(
        **{
            CONTAINERD: containerd(**{"nvidia": BINARY, "nvidia-cdi": f"{BINARY}.cdi"}),
            f"host{BINARY}.cdi": "",
            CLASSES: classes(nvidia="nvidia", **{"nvidia-cdi": "nvidia-cdi"}),
            PODS: pods(with_variable("all", creating(spec={"runtimeClassName": "nvidia-cdi"}))),
        }
    )
    (one,) = found(capsys, tmp_path, files, ID)
    assert judged(one) == ("error", "certain", "pod default/llm")


def test_what_a_plugin_gives_may_have_any_name(tmp_path: Path, capsys: Capture) -> None:
    asking = creating(spec=NVIDIA, limits={"nvidia.com/gpu": "1"})
    (one,) = found(capsys, tmp_path, healthy(**{PODS: pods(asking), **CDI_MODE}), ID)
    assert judged(one) == ("error", "suspected", "pod default/llm")
    plugins = {"host/var/run/cdi/x.json": spec("gpu0", kind="k8s.device-plugin.nvidia.com/gpu")}
    assert found(capsys, tmp_path, healthy(**{PODS: pods(asking), **CDI_MODE, **plugins}), ID) == []


def test_without_a_pod_that_asks_the_mode_itself_is_told(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, healthy(**CDI_MODE), ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert found(capsys, tmp_path, healthy(**CDI_MODE, **{SPEC: spec("all")}), ID) == []


@pytest.mark.parametrize("where", ["waiting", "terminated", "event"])
def test_a_runtime_has_said_so(tmp_path: Path, capsys: Capture, where: str) -> None:
    item = creating()
    files = healthy(**{PODS: pods(item)})
    state = item["status"]["containerStatuses"][0]
    if where == "waiting":
        state["state"] = {"waiting": {"reason": "RunContainerError", "message": SAID}}
    elif where == "terminated":
        state["lastState"] = {"terminated": {"reason": "StartError", "exitCode": 128, "message": SAID}}
    else:
        files[EVENTS] = {"items": [event("Failed", SAID, "Pod", "llm", uid=f"{UID[:-4]}0001")]}
    (one,) = found(capsys, tmp_path, files, ID)
    assert judged(one) == ("error", "certain", "pod default/llm")
    assert "asks for nvidia.com/gpu=tegra," in one["summary"]
    assert "nvidia-container-runtime.mode=csv" in one["remedy"]


def test_what_was_said_before_it_was_repaired_is_over(tmp_path: Path, capsys: Capture) -> None:
    said = {"items": [event("Failed", SAID, "Pod", "llm", uid=f"{UID[:-4]}0001")]}
    assert found(capsys, tmp_path, healthy(**{PODS: pods(creating()), EVENTS: said, SPEC: spec("tegra")}), ID) == []
    assert found(capsys, tmp_path, healthy(**{PODS: pods(pod()), EVENTS: said}), ID) == []


@pytest.mark.parametrize(
    ("path", "text", "row"),
    [
        ("/etc/cdi/nvidia.yml", spec("all"), "is not read: its name ends neither in .json nor in .yaml"),
        ("/etc/cdi/nvidia.yaml", "kind: [", "is not used: /etc/cdi/nvidia.yaml: is not YAML"),
    ],
)
def test_a_file_that_is_not_used_is_named(tmp_path: Path, capsys: Capture, path: str, text: str, row: str) -> None:
    (one,) = found(capsys, tmp_path, {**TRIGGER, f"host{path}": text}, ID)
    assert [line for line in one["evidence"] if line.startswith(f"{path}: {row}")]


def test_across_the_cluster_runtimes_tell() -> None:
    stuck, runs = lists.event(event("Failed", SAID, "Pod", "llm", uid=UID)), parse(pod())
    told = across(seen(parse(creating()), stuck))
    assert [(one.id, one.severity, one.subject) for one in told] == [(ID, "error", "pod default/llm")]
    assert across(seen(runs, stuck)) == ()


def seen(bound: PodFacts, said: EventFacts) -> ClusterSeen:
    events = Listed(items=(said,))
    return ClusterSeen(nodes=(), bound={NODE: (bound,)}, cluster=replace(no_cluster("not asked"), events=events))
