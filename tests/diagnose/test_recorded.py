"""What ``edgeagent record`` keeps for a diagnosis: the same is found in the snapshot as on the board, and no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeagent import cli
from edgeagent.facts.diagnosis import Listed
from edgeagent.snapshot import live
from tests.cases.making import KEY, pods
from tests.diagnose.making import (
    CLASSES,
    CONTAINERD,
    NODE_JSON,
    PODS,
    Capture,
    Files,
    classes,
    containerd,
    creating,
    event,
    healthy,
    waiting,
)
from tests.unit.snapshot.making import write

if TYPE_CHECKING:
    import pytest

SECRET = "hunter2"
REFUSED = f'Error creating: pods "x" is forbidden by {SECRET}: pod rejected: RuntimeClass "gone" not found'
DAEMON_SET = {
    "metadata": {"namespace": "kube-system", "name": "plugin", "annotations": {"a": SECRET}},
    "spec": {
        "template": {
            "metadata": {"labels": {"app": "plugin"}},
            "spec": {
                "containers": [
                    {"image": f"{SECRET}.example/nvidia/k8s-device-plugin:v0.17.4", "env": [{"name": SECRET}]},
                    {"image": f"{SECRET}/app"},
                ],
            },
        }
    },
    "status": {"desiredNumberScheduled": 0},
}


def board(folder: Path, monkeypatch: pytest.MonkeyPatch, files: Files) -> list[str]:
    """The options that lead to a board with these files, whose API server holds the lists among them."""
    write(folder, files)
    items = files[PODS]["items"]

    async def objects(*_: object) -> Any:
        return files[NODE_JSON], [item for item in items if item["spec"].get("nodeName")]

    async def lists(*_: object) -> Any:
        found = {name: files[f"cluster/{name}.json"]["items"] for name in ("runtimeclasses", "daemonsets", "events")}
        found["pods"] = [item for item in items if not item["spec"].get("nodeName")]
        return {name: Listed(items=tuple(listed)) for name, listed in found.items()}

    monkeypatch.setattr(live, "objects", objects)
    monkeypatch.setattr(live, "lists", lists)
    (folder / "empty.yaml").write_text("")
    options = ["--host-root", str(folder / "host"), "--config", str(folder / "empty.yaml")]
    return [*options, "--kubeconfig", str(folder / "empty.yaml")]


def test_the_snapshot_is_diagnosed_as_the_board(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = {"env": [{"name": "TOKEN", "value": SECRET}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    stuck = creating(spec={"runtimeClassName": "old"})
    stuck["spec"]["containers"][0] |= {**template, "image": f"{SECRET}/x"}
    files = healthy(
        **{
            CONTAINERD: containerd("kata") + f"# {SECRET}\n",
            CLASSES: classes(nvidia="docker"),
            PODS: pods(stuck, waiting("new", {KEY: "9Gi"}), waiting("web", {"memory": "64Gi"})),
            "cluster/daemonsets.json": {"items": [DAEMON_SET, {"odd": SECRET}]},
            "cluster/events.json": {"items": [event("FailedCreate", REFUSED, "ReplicaSet", "x")]},
            "host/etc/docker/daemon.json": json.dumps(
                {"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}, "registry-mirrors": [SECRET]}
            ),
            "host/etc/cdi/nvidia.yaml": f"kind: nvidia.com/gpu\ndevices: [{{name: all}}]\ncontainerEdits: {SECRET}\n",
        }
    )
    options = board(tmp_path / "board", monkeypatch, files)
    target = tmp_path / "snapshot"
    assert cli.main(["record", str(target), *options]) == 0
    assert capsys.readouterr().err == ""  # nothing differs
    assert cli.main(["doctor", str(target), "--format", "json"]) == 1
    found = {one["id"] for one in json.loads(capsys.readouterr().out)["findings"]}
    assert found == {
        "runtime-missing",
        "runtime-config-wrong-file",
        "runtime-default-undefined",
        "runtime-class-missing",
        "runtime-handler-unknown",
        "pending-does-not-fit",
    }
    texts = [path.read_text(errors="replace") for path in target.rglob("*") if path.is_file()]
    assert [text for text in texts if SECRET in text] == []
    assert "web" not in (target / PODS).read_text()
    (plugin,) = json.loads((target / "cluster/daemonsets.json").read_text())["items"]
    images = [one["image"] for one in plugin["spec"]["template"]["spec"]["containers"]]
    assert images == ["k8s-device-plugin:v0.17.4", ""]


def test_a_list_that_was_refused_is_not_in_it(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    options = board(tmp_path / "board", monkeypatch, healthy())

    async def refused(*_: object) -> Any:
        return {name: Listed(items=None, right="x") for name in ("runtimeclasses", "daemonsets", "events", "pods")}

    monkeypatch.setattr(live, "lists", refused)
    assert cli.main(["record", str(tmp_path / "snapshot"), *options]) == 0
    assert capsys.readouterr().err == ""
    names = sorted(path.name for path in (tmp_path / "snapshot/cluster").iterdir())
    assert names == ["node.json", "pods.json"]


def test_where_a_pod_may_run_is_kept_and_no_name_of_a_node(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = "kubernetes.io/hostname"

    def only(kind: str, key: str, name: str) -> dict[str, Any]:
        terms = [{kind: [{"key": key, "operator": "In", "values": [name]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        return {"affinity": {"nodeAffinity": required}}

    ways = {
        f"{way}-{where}": spec
        for where, name in (("here", "edge-07"), ("there", "other-node-09"))
        for way, spec in (
            ("field", only("matchFields", "metadata.name", name)),
            ("label", only("matchExpressions", host, name)),
            ("selector", {"nodeSelector": {host: name}}),
        )
    }
    files = healthy(**{PODS: pods(*(waiting(name, {KEY: "9Gi"}, spec=spec) for name, spec in ways.items()))})
    files[NODE_JSON]["metadata"]["labels"] = {host: "edge-07"}
    options = board(tmp_path / "board", monkeypatch, files)
    assert cli.main(["record", str(tmp_path / "snapshot"), *options]) == 0
    assert capsys.readouterr().err == ""
    assert "other-node-09" not in (tmp_path / "snapshot" / PODS).read_text()
    assert cli.main(["doctor", str(tmp_path / "snapshot"), "--format", "json"]) == 1
    told = [one["subject"] for one in json.loads(capsys.readouterr().out)["findings"]]
    assert told == ["pod default/field-here", "pod default/label-here", "pod default/selector-here"]
