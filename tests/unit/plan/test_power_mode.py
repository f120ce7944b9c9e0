"""The power mode as a label: written when it changes, guarded and removed like the others."""

from __future__ import annotations

import json

from edgeagent.facts import BoardFiles
from edgeagent.plan.removal import removal
from tests.unit.factories import Run, Scene, at, card_scene, node, orin_files, pod

KEY = "edgeagent.dev/jetson.power-mode"


def scene(mode: str | None, **fields: object) -> Scene:
    return Scene(files=orin_files(power_mode=mode), **fields)  # type: ignore[arg-type]


def carried(run: Run, mode: str) -> dict[str, object]:
    """What a node has once the first plan's writes have arrived."""
    (metadata, *_) = run.step(scene(mode)).node.requests
    wanted = metadata.body["metadata"]
    return {"labels": wanted["labels"], "annotations": wanted["annotations"]}


def test_it_is_a_label_of_a_jetson_in_valid_letters() -> None:
    assert Run().step(scene("MAXN_SUPER")).node.labels[KEY] == "MAXN_SUPER"
    assert Run().step(scene("MODE 15W (6 core)")).node.labels[KEY] == "MODE-15W-6-core"
    assert KEY not in Run().step(scene(None)).node.labels


def test_another_machine_has_none_whatever_its_files_say() -> None:
    other = card_scene()
    files = BoardFiles(arch="x86_64", pci_displays=1, proc_driver="580.95.05", proc_gpus=1, power_mode="MAXN")
    assert KEY not in Run().step(Scene(files=files, nvml=other.nvml)).node.labels


def test_it_is_written_when_it_changes_and_not_again() -> None:
    run = Run()
    found = node(**carried(run, "15W"))
    assert KEY in found.labels
    same = run.step(at(scene("15W", node=found), 2.0))
    assert not [request for request in same.node.requests if "labels" in request.body.get("metadata", {})]
    changed = run.step(at(scene("MAXN", node=found), 4.0))
    assert changed.node.requests[0].body["metadata"]["labels"] == {KEY: "MAXN"}


def test_while_it_cannot_be_read_it_stays() -> None:
    run = Run()
    found = node(**carried(run, "15W"))
    assert run.step(at(scene(None, node=found), 2.0)).node.labels[KEY] == "15W"


def test_while_a_pod_requires_it_it_stays_as_it_is() -> None:
    run = Run()
    found = node(**carried(run, "15W"))
    needy = pod("needy", required_labels=frozenset({KEY}))
    assert run.step(at(scene("MAXN", node=found, pods=(needy,)), 2.0)).node.labels[KEY] == "15W"
    assert run.step(at(scene("MAXN", node=found), 4.0)).node.labels[KEY] == "MAXN"


def test_it_is_owned_and_an_uninstall_removes_it() -> None:
    found = node(**carried(Run(), "15W"))
    assert KEY in json.loads(found.annotations["edgeagent.dev/owned-keys"])["labels"]
    patches = [request.body["metadata"]["labels"] for request in removal(found, (), force=False).requests[:1]]
    assert patches[0][KEY] is None


def test_it_decides_nothing() -> None:
    plans = [Run().step(scene(mode)) for mode in (None, "MAXN")]
    assert plans[0].advertised == plans[1].advertised
    assert plans[0].node.capacity == plans[1].node.capacity
