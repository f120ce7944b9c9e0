"""A container that asked for a GPU and runs on the CPU (k3s-io/k3s#10034, ollama/ollama#3211, #3761).

Pods are an hour old unless a case says otherwise: 3595 s. Half a core is 1797.5 s of that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.holders import card, cid, entry, tenant
from tests.cases.making import KEY, about, frames, meminfo, nvml, pod, pods
from tests.diagnose.containers import closed, cpu, process, seen
from tests.diagnose.making import (
    BINARY,
    CLASSES,
    CONTAINERD,
    PODS,
    Capture,
    Files,
    classes,
    containerd,
    found,
    healthy,
    judged,
    without,
)

ID = "silent-cpu-fallback"
GPU = {"nvidia.com/gpu": "1"}
NVIDIA = {"runtimeClassName": "nvidia"}
BUSY = 3000.0
IDLE = 30.0


def started(when: str, **keys: Any) -> dict[str, Any]:
    """A pod whose container started at that time of the day."""
    made = pod(**keys)
    made["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = f"2026-01-31T{when}Z"
    return made


def on_card(*entries: dict[str, Any]) -> Files:
    """A discrete card that lists these processes, in place of the Orin."""
    machine = {"snapshot.yaml": about(arch="x86_64"), "host/proc/meminfo": meminfo(64 * 1024 * 1024)}
    return {**without(healthy(), "host/proc/device-tree/compatible"), **machine, "nvml.json": nvml(card(*entries))}


TRIGGER = {**on_card(), PODS: pods(started("11:50:00", limits=GPU))}
NEAR_MISS = {**on_card(), PODS: pods(started("11:50:00", limits=GPU, spec=NVIDIA))}


def test_without_a_runtime_class_it_is_certain(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "pod default/llm")
    assert "Container main" in one["summary"]
    assert "default runtime is runc" in one["summary"]
    assert "spec.runtimeClassName: not set" in one["evidence"]
    assert '"runtimeClassName": "nvidia"' in one["remedy"]


def test_its_event_has_the_name_that_is_fixed_and_the_node_is_not_at_fault(tmp_path: Path, capsys: Capture) -> None:
    from tests.cases.making import conditions, explain  # noqa: PLC0415

    (document,) = explain(capsys, tmp_path, TRIGGER)
    assert [one["regarding"] for one in document["plan"]["events"] if one["reason"] == "SilentCPUFallback"] == [
        "pod default/llm"
    ]
    assert conditions(document)["GPURuntimeMisconfigured"] == "False"


@pytest.mark.parametrize(
    "changes",
    [
        {CONTAINERD: containerd("nvidia", nvidia=BINARY)},
        {"host/var/run/cdi/k8s.json": '{"kind": "k8s.device-plugin.nvidia.com/gpu", "devices": [{"name": "0"}]}'},
        {CONTAINERD: "not = = toml"},
    ],
    ids=["nvidia-is-the-default", "the-plugin-gives-devices-by-name", "cannot-tell"],
)
def test_nothing_is_certain_where_it_may_have_got_one(tmp_path: Path, capsys: Capture, changes: Files) -> None:
    assert found(capsys, tmp_path, {**TRIGGER, **changes}, ID) == []


@pytest.mark.parametrize(
    ("spec", "annotations"),
    [
        ({"securityContext": {"privileged": True}}, {}),
        ({"volumeMounts": [{"name": "dev", "mountPath": "/dev"}]}, {}),
        ({"resources": {"claims": [{"name": "gpu"}], "limits": GPU}}, {}),
        ({"resources": {"limits": {**GPU, "smarter-devices/nvmap": "1"}}}, {}),
        ({}, {"cdi.k8s.io/gpu": "nvidia.com/gpu=0"}),
        ({}, {"nvidia.cdi.k8s.io/container.main": "nvidia.com/gpu=all"}),
    ],
)
def test_nor_where_something_else_may_give_it_one(
    tmp_path: Path, capsys: Capture, spec: dict[str, Any], annotations: dict[str, str]
) -> None:
    made = pod(limits=GPU, spec={"volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}]}, annotations=annotations)
    made["spec"]["containers"][0].update(spec)
    assert found(capsys, tmp_path, {**on_card(), PODS: pods(made)}, ID) == []


@pytest.mark.parametrize("path", ["/dev/hugepages", "/devices", "/srv", "/dev/video0"])
def test_another_folder_of_the_host_gives_it_none(tmp_path: Path, capsys: Capture, path: str) -> None:
    made = pod(limits=GPU, spec={"volumes": [{"name": "dev", "hostPath": {"path": path}}]})
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "dev", "mountPath": "/x"}]
    (one,) = found(capsys, tmp_path, {**on_card(), PODS: pods(made)}, ID)
    assert one["certainty"] == "certain"


def test_a_process_on_the_gpu_proves_the_contrary(tmp_path: Path, capsys: Capture) -> None:
    files = {**on_card(entry(4242, 1 << 30)), PODS: pods(pod(limits=GPU)), **process("/dev/nvidia0"), **cpu(BUSY)}
    assert seen(capsys, tmp_path, files, ID) == []


@pytest.mark.parametrize("node", ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvmap", "/dev/nvhost-gpu"])
def test_so_does_a_device_node_that_is_held(tmp_path: Path, capsys: Capture, node: str) -> None:
    files = {**healthy(**{PODS: pods(pod(limits={KEY: "2Gi"}))}), **process(node), **cpu(BUSY)}
    assert seen(capsys, tmp_path, files, ID) == []


# --- under the right runtime: by what it does ------------------------------------------


def under_nvidia(made: dict[str, Any], *parts: Files) -> Files:
    """An Orin with this pod."""
    files = healthy(**{PODS: pods(made)})
    for part in parts:
        files.update(part)
    return files


def ours(**keys: Any) -> dict[str, Any]:
    return pod(limits={KEY: "2Gi"}, spec=NVIDIA, **keys)


def test_a_busy_container_without_a_device_node_is_suspected(tmp_path: Path, capsys: Capture) -> None:
    (one,) = seen(capsys, tmp_path, under_nvidia(ours(), process(), cpu(BUSY)), ID)
    assert judged(one) == ("warning", "suspected", "pod default/llm")
    assert "CPU: 0.8 cores" in one["evidence"]  # 3000 / 3595
    assert "GPU device nodes that they hold open: none" in one["evidence"]
    assert "kubectl -n default logs llm -c main" in one["remedy"]


@pytest.mark.parametrize(
    ("made", "parts"),
    [
        (ours(), (process(), cpu(IDLE))),
        (ours(), (process(),)),
        (ours(), (closed(), cpu(BUSY))),
        (ours(), (cpu(BUSY),)),
        (pod(spec=NVIDIA), (process(), cpu(BUSY))),
        (pod(limits={KEY: "0"}, spec=NVIDIA), (process(), cpu(BUSY))),
        (ours(deletionTimestamp="2026-01-31T11:59:00Z"), (process(), cpu(BUSY))),
        (
            ours(),
            (
                process(),
                cpu(BUSY),
                process("/dev/nvidia0", pid=900, uid="99999999-2222-3333-4444-000000000009", name="nvidia-cuda-mps"),
                {"nvml.json": nvml(card(entry(900, 1 << 30)))},
            ),
        ),
    ],
    ids=[
        "it-is-idle",
        "nobody-knows-its-cpu",
        "a-tegra-that-cannot-be-looked-into",
        "nothing-is-seen-of-its-processes",
        "it-never-asked",
        "it-asks-for-nothing",
        "it-ends",
        "mps-has-clients",
    ],
)
def test_what_is_not_suspected(tmp_path: Path, capsys: Capture, made: dict[str, Any], parts: tuple[Files, ...]) -> None:
    assert seen(capsys, tmp_path, under_nvidia(made, *parts), ID) == []


@pytest.mark.parametrize(("when", "number"), [("11:55:59", 1), ("11:56:01", 0), ("12:30:00", 0)])
def test_it_may_take_its_time_to_start(tmp_path: Path, capsys: Capture, when: str, number: int) -> None:
    # Twice policy.start_grace, 2 min, before noon; or a clock that is behind.
    made = started(when, limits={KEY: "2Gi"}, spec=NVIDIA)
    assert len(seen(capsys, tmp_path, under_nvidia(made, process(), cpu(900.0)), ID)) == number


def test_a_card_s_own_list_is_enough(tmp_path: Path, capsys: Capture) -> None:
    made = {PODS: pods(pod(limits=GPU, spec=NVIDIA))}
    (one,) = seen(capsys, tmp_path, {**on_card(), **made, **closed(), **cpu(BUSY)}, ID)
    assert one["certainty"] == "suspected"


def test_the_variable_is_a_way_to_ask(tmp_path: Path, capsys: Capture) -> None:
    made = pod(spec=NVIDIA)
    made["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    (one,) = seen(capsys, tmp_path, under_nvidia(made, process(), cpu(BUSY)), ID)
    assert "NVIDIA_VISIBLE_DEVICES" in one["summary"]


def test_each_container_is_judged_by_itself(tmp_path: Path, capsys: Capture) -> None:
    # The sidecar never asked, "uses" does use it, and the init container is long over.
    uid = "11111111-2222-3333-4444-000000000001"
    made = tenant(
        "llm",
        uid,
        {"main": cid(1), "proxy": cid(2), "uses": cid(3)},
        limits={"main": {KEY: "1Gi"}, "uses": {KEY: "1Gi"}},
        spec=NVIDIA,
    )
    made["spec"]["initContainers"] = [{"name": "fetch", "resources": {"limits": {KEY: "1Gi"}}}]
    parts: Files = {}
    for number, nodes in ((1, ()), (2, ()), (3, ("/dev/nvmap",))):
        parts |= process(*nodes, pid=number * 100, container=cid(number))
        parts |= cpu(BUSY, container=cid(number))
    (one,) = seen(capsys, tmp_path, under_nvidia(made, parts), ID)
    assert one["summary"].startswith("Container main ")


def test_a_new_burst_counts_although_it_was_idle_for_long(tmp_path: Path, capsys: Capture) -> None:
    # 30 s of an hour are 0.0 cores; 45 s of the last minute are 0.8.
    series = frames(cpu(30.0), cpu(75.0), at=(0.0, 60.0))
    (one,) = seen(capsys, tmp_path, {**under_nvidia(ours(), process(), cpu(30.0)), **series}, ID)
    assert one["certainty"] == "suspected"


def test_of_one_that_asks_for_ours_alone_another_rule_tells_while_it_is_idle(tmp_path: Path, capsys: Capture) -> None:
    idle = under_nvidia(pod(limits={KEY: "2Gi"}), process(), cpu(IDLE))
    assert seen(capsys, tmp_path / "idle", idle, ID) == []
    busy = under_nvidia(pod(limits={KEY: "2Gi"}), process(), cpu(BUSY))
    (one,) = seen(capsys, tmp_path / "busy", busy, ID)
    assert one["certainty"] == "certain"


def test_a_class_that_leads_elsewhere_is_no_better_than_none(tmp_path: Path, capsys: Capture) -> None:
    made = pod(limits=GPU, spec={"runtimeClassName": "plain"})
    files = {**on_card(), PODS: pods(made), CLASSES: classes(plain="runc", gpu="nvidia")}
    (one,) = found(capsys, tmp_path, files, ID)
    assert one["certainty"] == "certain"
    assert '"runtimeClassName": "gpu"' in one["remedy"]
