"""Node labels: what they say, how a value is made valid, and which stay as they are."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.facts import GPU_MEMORY, BoardFiles, NodeFacts, RuntimeFacts
from edgeagent.plan.labels import value
from edgeagent.plan.types import Plan
from tests.unit.factories import (
    ABSENT,
    GIB,
    NO_RUNTIME,
    RUNTIME,
    Held,
    Run,
    Scene,
    at,
    card,
    card_files,
    card_scene,
    config,
    igpu,
    meminfo,
    node,
    nvml,
    orin_files,
    pod,
)

GRAMMAR = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
OURS = "edgeagent.dev/"
BROKEN = RuntimeFacts(readable=True, path="config.toml")
MISSING = RuntimeFacts(readable=True, path="config.toml", nvidia={"nvidia": ("/usr/bin/gone", False)})


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Orin (nvgpu)", "Orin-nvgpu"),
        ("NVIDIA TITAN X (Pascal)", "NVIDIA-TITAN-X-Pascal"),
        ("4.9.140-l4t-r32.3.1+g47e7e1cb0b49", "4.9.140-l4t-r32.3.1-g47e7e1cb0b49"),
        ("X9SRA/X9SRA-3", "X9SRA-X9SRA-3"),
        (" Thor\x00", "Thor"),
        ("Jetson\ufffd", "Jetson"),
        ("a" * 62 + "-b", "a" * 62),  # the cut at 63 leaves a dash at the end
        ("", None),
        ("-", None),
        ("..._", None),
        (None, None),
    ],
)
def test_values_are_made_valid(text: str | None, label: str | None) -> None:
    assert value(text) == label


def test_a_long_product_name() -> None:
    found = value("NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super")
    # 65 characters with dashes, cut to 63
    assert found == "NVIDIA-Jetson-Orin-Nano-Engineering-Reference-Developer-Kit-Sup"
    assert len(found) == 63


@given(st.text(max_size=120))
def test_every_value_matches_the_grammar(text: str) -> None:
    found = value(text)
    assert found is None or (found and GRAMMAR.fullmatch(found))
    assert found is None or value(found) == found


def labels(plan: Plan) -> dict[str, str]:
    return dict(plan.node.labels)


def test_the_labels_of_an_orin_nano() -> None:
    files = orin_files(
        model="NVIDIA Jetson Orin Nano Developer Kit Super", l4t_release="# R36 (release), REVISION: 4.4, GCID: 1"
    )
    scene = Scene(
        files=files, nvml=nvml(igpu(), driver_version="540.4.0", cuda_version=12060), meminfo=meminfo(7619 * 1024**2)
    )
    assert labels(Run().step(scene)) == {
        OURS + "gpu.kind": "jetson",
        OURS + "gpu.count": "1",
        OURS + "gpu.product": "NVIDIA-Jetson-Orin-Nano-Developer-Kit-Super",
        OURS + "gpu.memory-mib": "7619",
        OURS + "memory.unified": "true",
        OURS + "driver.version": "540.4.0",
        OURS + "cuda.version": "12.6",
        OURS + "cuda.arch": "8.7",
        OURS + "jetson.soc": "tegra234",
        OURS + "jetson.module": "p3767-0005",
        OURS + "jetson.l4t": "36.4.4",
        OURS + "jetson.jetpack": "6.2.1",
        "ai-capable": "true",
    }


def test_a_node_without_a_gpu_has_one_label_and_nothing_else_of_ours() -> None:
    before = node(
        labels={OURS + "gpu.kind": "jetson", OURS + "gpu.count": "1", "ai-capable": "true", "other": "x"},
        annotations={OURS + "owned-keys": '{"capacity":[],"conditions":[],"labels":["ai-capable"]}'},
        capacity={OURS + "gpu-memory": "1Gi", "cpu": "4"},
        allocatable={OURS + "gpu-memory": "1Gi"},
    )
    plan = Run().step(Scene(files=BoardFiles(arch="aarch64", compatible=("brcm,bcm2711",)), node=before))
    assert (labels(plan), plan.node.capacity, plan.node.conditions) == ({OURS + "gpu.kind": "none"}, {}, ())
    (request,) = plan.node.requests
    assert request.body["metadata"]["labels"] == {
        OURS + "gpu.kind": "none",
        OURS + "gpu.count": None,
        "ai-capable": None,
    }
    assert request.body["status"] == {
        "capacity": {OURS + "gpu-memory": None},
        "allocatable": {OURS + "gpu-memory": None},
    }


def test_an_unknown_kind_changes_no_label_and_says_why_in_a_condition() -> None:
    amounts = {GPU_MEMORY: "5Gi"}
    labels = {OURS + "gpu.kind": "jetson", "ai-capable": "true"}
    before = node(labels=labels, capacity=amounts, allocatable=amounts)
    plan = Run().step(Scene(files=BoardFiles(arch="aarch64"), nvml=None, node=before))
    assert plan.board.kind == "unknown"
    metadata, conditions = plan.node.requests
    assert set(metadata.body) == {"metadata"}
    assert set(metadata.body["metadata"]) == {"annotations"}
    told = {one["type"]: one["status"] for one in conditions.body["status"]["conditions"]}
    assert told["GPUUnavailable"] == "Unknown"


# --- ai-capable ----------------------------------------------------------------------


def capable(plan: Plan) -> bool:
    return plan.node.labels.get("ai-capable") == "true"


@pytest.mark.parametrize(
    ("runtime", "expected"), [(RUNTIME, True), (BROKEN, False), (MISSING, False), (NO_RUNTIME, False)]
)
def test_a_runtime_that_exists_proves_it(runtime: RuntimeFacts, *, expected: bool) -> None:
    assert capable(Run().step(Scene(runtime=runtime))) is expected


def told(scene: Scene) -> tuple[bool | None, str]:
    path = Run().step(scene).gpu_path
    return path.proven, path.why


USING: dict[str, Any] = {"pods": (pod("a", GIB),), "held": {"a": Held(gpu=GIB)}}


@pytest.mark.parametrize("runtime", [NO_RUNTIME, BROKEN, MISSING])
def test_a_pod_that_was_seen_proves_it_whatever_the_configuration_says(runtime: RuntimeFacts) -> None:
    assert told(Scene(runtime=runtime, **USING)) == (True, "A pod was seen using the GPU since the board started.")


def test_the_reason_is_told_for_it_and_against_it() -> None:
    assert told(Scene(runtime=RUNTIME)) == (True, "config.toml names the runtime nvidia, whose binary exists.")
    unseen = "and no pod was seen using the GPU."
    assert told(Scene(runtime=NO_RUNTIME)) == (None, f"config.toml is not readable, {unseen}")
    assert told(Scene(runtime=BROKEN)) == (False, f"config.toml names no NVIDIA runtime, {unseen}")
    assert told(Scene(runtime=MISSING)) == (False, f"config.toml names /usr/bin/gone, which does not exist, {unseen}")


def test_one_runtime_that_exists_is_enough() -> None:
    two = RuntimeFacts(
        readable=True,
        path="config.toml",
        nvidia={"nvidia": ("/usr/bin/gone", False), "nvidia-cdi": ("/usr/bin/nvidia-container-runtime.cdi", True)},
    )
    assert told(Scene(runtime=two)) == (True, "config.toml names the runtime nvidia-cdi, whose binary exists.")


def test_no_runtime_makes_up_for_a_device_that_is_not_well() -> None:
    lost = nvml(card(handle=15, uuid=None))
    run = Run()
    run.step(card_scene(card(), runtime=RUNTIME, **USING))
    path = run.step(at(card_scene(card(), nvml=lost, runtime=RUNTIME), 2.0)).gpu_path
    assert (path.proven, path.why) == (False, "No GPU is well: lost.")


def test_one_device_that_is_well_is_enough() -> None:
    run = Run()
    run.step(card_scene(card("GPU-1"), card("GPU-2", minor=1)))
    half = card_scene(card("GPU-1"), card(handle=15, uuid=None))
    plan = run.step(at(half, 2.0))
    assert sorted(device.health for device in plan.board.devices) == ["lost", "ok"]
    assert plan.gpu_path.proven is True


def test_a_device_that_sleeps_proves_nothing() -> None:
    files = card_files(pci_asleep=("0000:01:00.0",))
    sleeping = card_scene(card(pci_address="0000:01:00.0"), files=files, runtime=RUNTIME)
    assert told(sleeping) == (None, "No GPU is well: asleep.")


def test_without_a_gpu_there_is_no_way_to_one() -> None:
    files = BoardFiles(arch="x86_64", pci_listed=True, pci_displays=0)
    scene = Scene(files=files, nvml=ABSENT, runtime=RUNTIME)
    assert told(scene) == (False, "No NVIDIA GPU was found on this board.")


def test_of_a_board_that_cannot_be_read_nothing_is_told() -> None:
    unread = Scene(files=BoardFiles(arch="x86_64"), nvml=None, runtime=RUNTIME)
    assert told(unread) == (None, "Which GPUs there are cannot be told: the driver does not answer.")


def test_a_pod_that_uses_the_gpu_proves_it_until_the_next_boot() -> None:
    run = Run()
    using = Scene(runtime=NO_RUNTIME, pods=(pod("a", GIB),), held={"a": Held(gpu=GIB)})
    run.step(using)
    assert capable(run.step(at(using, 2.0)))
    assert capable(run.step(at(Scene(runtime=NO_RUNTIME), 4.0)))


def test_a_device_must_be_well() -> None:
    assert not capable(Run().step(Scene(nvml=nvml(init=9, count=None))))
    run = Run()
    run.step(card_scene(card(), runtime=RUNTIME))
    lost = card_scene(card(), nvml=nvml(card(handle=15, uuid=None)), runtime=RUNTIME)
    assert [capable(run.step(at(lost, float(second)))) for second in (2, 4, 6)] == [True, True, False]


def test_a_proven_failure_needs_three_readings() -> None:
    run = Run()
    run.step(Scene())
    found = [capable(run.step(at(Scene(runtime=BROKEN), float(second)))) for second in (2, 4, 6)]
    assert found == [True, True, False]
    # and one good reading brings it back
    assert capable(run.step(at(Scene(), 8.0)))


def test_the_same_reading_seen_often_is_one_reading() -> None:
    run = Run()
    run.step(Scene())
    once = replace(at(Scene(runtime=BROKEN), 2.0), attributed_at=2.0)
    assert [capable(run.step(replace(once, at=2.0 + tick / 10))) for tick in range(10)] == [True] * 10


def test_a_hiccup_between_good_readings_is_none() -> None:
    run = Run()
    run.step(Scene())
    states = [BROKEN, BROKEN, RUNTIME, BROKEN, BROKEN, RUNTIME]
    found = [capable(run.step(at(Scene(runtime=one), 2.0 + 2 * count))) for count, one in enumerate(states)]
    assert found == [True] * 6


def test_a_configuration_that_cannot_be_read_any_more_proves_nothing() -> None:
    run = Run()
    run.step(Scene())
    assert [capable(run.step(at(Scene(runtime=NO_RUNTIME), float(second)))) for second in range(2, 20, 2)] == [True] * 9


def test_a_driver_that_does_not_answer_proves_nothing() -> None:
    run = Run()
    run.step(card_scene(card()))
    silent = card_scene(card(), nvml=None)
    assert [capable(run.step(at(silent, float(second)))) for second in range(2, 20, 2)] == [True] * 9


def test_a_restart_keeps_what_the_node_says_until_it_is_disproven() -> None:
    owned = node(labels={"ai-capable": "true"}, annotations={OURS + "owned-keys": '{"labels":["ai-capable"]}'})
    run = Run()
    found = [capable(run.step(at(Scene(runtime=BROKEN, node=owned), float(second)))) for second in (0, 2, 4)]
    assert found == [True, True, False]


def test_the_alias_can_be_renamed_or_switched_off() -> None:
    renamed = Run().step(Scene(config=config("labels: {ai_capable: gpu.example.com/ready}")))
    assert renamed.node.labels.get("gpu.example.com/ready") == "true"
    assert "ai-capable" not in renamed.node.labels
    off = Run().step(Scene(config=config("labels: {ai_capable: false}")))
    assert all(key.startswith(OURS) for key in off.node.labels)


# --- what stays as it is -------------------------------------------------------------


def on_node(plan: Plan, before: NodeFacts) -> dict[str, str]:
    """The labels of the node after the writes of the plan."""
    found = dict(before.labels)
    for request in plan.node.requests:
        for key, text in request.body.get("metadata", {}).get("labels", {}).items():
            if text is None:
                found.pop(key, None)
            else:
                found[key] = text
    return found


@pytest.mark.parametrize("pools", ["node", "device"])
def test_the_memory_label_is_the_total_of_all_cards(pools: str) -> None:
    # 1 + 2 GiB = 3072 MiB; the driver keeps some, which the total includes.
    cards = (card("GPU-1", GIB, 64 << 20), card("GPU-2", 2 * GIB, 64 << 20, minor=1))
    plan = Run().step(card_scene(*cards, config=config(f"discrete: {{pools: {pools}}}")))
    assert labels(plan)[OURS + "gpu.memory-mib"] == "3072"


def test_a_figure_that_cannot_be_read_now_keeps_its_label() -> None:
    told = {OURS + "gpu.kind": "discrete", OURS + "driver.version": "580.1", OURS + "cuda.version": "13.0"}
    before = node(labels=told)
    scene = replace(card_scene(card()), node=before)
    quiet = replace(scene, files=replace(scene.files, proc_driver=None))
    assert on_node(Run().step(quiet), before).items() >= told.items()


def test_a_change_of_kind_takes_the_old_labels_along() -> None:
    before = node(labels={OURS + "gpu.kind": "jetson", OURS + "jetson.soc": "tegra234"})
    found = on_node(Run().step(replace(card_scene(card()), node=before)), before)
    assert found[OURS + "gpu.kind"] == "discrete"
    assert OURS + "jetson.soc" not in found


@pytest.mark.parametrize("key", [OURS + "cuda.version", "ai-capable"])
@pytest.mark.parametrize("present", ["old", None])
def test_a_label_that_a_running_pod_requires_is_neither_changed_nor_removed(key: str, present: str | None) -> None:
    before = node(
        labels={OURS + "gpu.kind": "none", **({key: present} if present else {})},
        annotations={OURS + "owned-keys": f'{{"labels":["{key}"]}}'},
    )
    needs = pod("a", required_labels=frozenset({key}))
    scene = Scene(pods=(needs,), node=before, nvml=nvml(igpu(), cuda_version=13000))
    found = on_node(Run().step(scene), before)
    # what is not there yet may come
    assert found[key] == (present or {OURS + "cuda.version": "13.0", "ai-capable": "true"}[key])
    freed = on_node(Run().step(replace(scene, pods=(pod("a"),))), before)
    assert freed[key] != "old"


def test_a_label_that_somebody_else_set_is_not_changed_under_a_pod_either() -> None:
    before = node(labels={"ai-capable": "yes"})
    needs = pod("a", required_labels=frozenset({"ai-capable"}))
    assert on_node(Run().step(Scene(pods=(needs,), node=before)), before)["ai-capable"] == "yes"


def test_a_label_that_a_running_pod_does_not_want_is_not_added() -> None:
    picky = pod("a", required_labels=frozenset({"ai-capable"}), excluded_labels=frozenset({"ai-capable"}))
    assert "ai-capable" not in on_node(Run().step(Scene(pods=(picky,), node=node())), node())
    assert on_node(Run().step(Scene(pods=(pod("a"),), node=node())), node())["ai-capable"] == "true"
    at_once = Scene(pods=(picky,), node=node(), config=config("labels: {removal: at-once}"))
    assert on_node(Run().step(at_once), node())["ai-capable"] == "true"


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({}, True),
        ({"terminating": True}, True),
        ({"phase": "Pending", "start_time": None}, False),
        ({"phase": "Succeeded"}, False),
    ],
)
def test_only_admitted_live_pods_guard_a_label(fields: dict[str, Any], *, kept: bool) -> None:
    before = node(labels={OURS + "jetson.soc": "tegra194"})
    needs = pod("a", required_labels=frozenset({OURS + "jetson.soc"}), **fields)
    found = on_node(Run().step(Scene(pods=(needs,), node=before)), before)
    assert found[OURS + "jetson.soc"] == ("tegra194" if kept else "tegra234")


def test_removal_at_once_guards_nothing() -> None:
    before = node(labels={OURS + "jetson.soc": "tegra194"})
    needs = pod("a", required_labels=frozenset({OURS + "jetson.soc"}))
    scene = Scene(pods=(needs,), node=before, config=config("labels: {removal: at-once}"))
    assert on_node(Run().step(scene), before)[OURS + "jetson.soc"] == "tegra234"


def test_a_jetson_without_nvml_is_described_from_its_files() -> None:
    found = labels(Run().step(Scene(nvml=ABSENT)))
    assert found[OURS + "cuda.arch"] == "8.7"
    assert OURS + "driver.version" not in found
