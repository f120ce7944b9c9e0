"""``edgeagent doctor`` as people and programs meet it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from edgeagent import cli
from tests.cases.making import KEY, device, nvml, pod, pods
from tests.diagnose.making import (
    CLASSES,
    CONTAINERD,
    NODE_JSON,
    PODS,
    Capture,
    classes,
    containerd,
    creating,
    event,
    healthy,
    waiting,
    without,
)
from tests.unit.snapshot.making import CONTAINER, process, write


def told(capsys: Capture, *words: str, code: int = 0) -> Any:
    assert cli.main(["doctor", *words, "--format", "json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_healthy_node(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["doctor", str(write(tmp_path, healthy()))]) == 0
    out = capsys.readouterr().out
    assert "Nothing was found to be wrong." in out
    assert "AI pods can use the GPU here: yes" in " ".join(out.split())


def test_the_document(tmp_path: Path, capsys: Capture) -> None:
    document = told(capsys, str(write(tmp_path, healthy(**{CONTAINERD: containerd()}))), code=1)
    assert sorted(document) == ["ai_capable", "findings", "format", "looked_at", "node", "steps", "unlisted"]
    assert document["node"] == "edge-07"
    assert document["ai_capable"]["value"] is False
    assert "names no NVIDIA runtime" in document["ai_capable"]["why"]
    ids = {one["id"]: one["docs"] for one in document["findings"]}
    assert ids["runtime-missing"] == "reference/findings.md#runtime-missing"
    assert document["looked_at"] == [
        CONTAINERD.removeprefix("host"),
        "no pods of node edge-07",
        "no pods that wait for a node",
        "1 RuntimeClass",
        "no DaemonSets",
        "no warnings of the kubelet and of controllers",
    ]
    # A recording without processes.
    (unseen,) = document["unlisted"]
    assert unseen.startswith("device nodes that processes hold open: ")


def test_the_page_has_everything_to_act_on(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["doctor", str(write(tmp_path, healthy(**{CONTAINERD: containerd()})))]) == 1
    out = capsys.readouterr().out
    assert "error runtime-missing (certain, node edge-07)" in out
    assert "sudo systemctl restart k3s-agent" in out
    assert "docs/reference/findings.md#runtime-missing" in out
    assert out.endswith("2 errors\n")  # the class leads to a handler that is not there


def test_what_ends_a_here_document_is_copied_without_blanks(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(**{CLASSES: classes(), PODS: pods(creating(spec={"runtimeClassName": "nvidia"}))})
    assert cli.main(["doctor", str(write(tmp_path, files))]) == 1
    rows = capsys.readouterr().out.splitlines()
    start = rows.index("kubectl apply -f - <<'EOF'")
    assert "EOF" in rows[start:]


def test_a_warning_alone_is_no_failure(tmp_path: Path, capsys: Capture) -> None:
    document = told(capsys, str(write(tmp_path, healthy(**{PODS: pods(pod(limits={KEY: "2048"}))}))))
    assert [one["severity"] for one in document["findings"]] == ["warning"]


def test_what_was_not_looked_at_is_said(tmp_path: Path, capsys: Capture) -> None:
    document = told(capsys, str(write(tmp_path, without(healthy(), CLASSES))))
    assert document["unlisted"][-1] == "RuntimeClasses: cluster/runtimeclasses.json is not in the snapshot"
    assert not [one for one in document["looked_at"] if "RuntimeClass" in one]
    assert cli.main(["doctor", str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Cannot tell: RuntimeClasses: cluster/runtimeclasses.json is not in the snapshot." in out
    assert out.endswith("Nothing was found to be wrong.")


def test_what_cannot_be_read_of_the_configuration_is_said(tmp_path: Path, capsys: Capture) -> None:
    document = told(capsys, str(write(tmp_path, healthy(**{CONTAINERD: "= ="}))))
    assert document["unlisted"][0].startswith("containerd's configuration: ")
    assert CONTAINERD.removeprefix("host") not in document["looked_at"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pod", "llm"], "NAMESPACE/NAME"),
        (["pod"], "NAMESPACE/NAME"),
        (["a", "b"], "one snapshot"),
        (["--cluster", "a"], "--cluster"),
        (["--context", "x"], "--context"),
        (["no-such-place"], "no-such-place"),
    ],
)
def test_wrong_usage_is_one_line(capsys: Capture, words: list[str], said: str) -> None:
    assert cli.main(["doctor", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["runtimeclasses", "daemonsets", "events"])
def test_a_list_that_is_none_is_unreadable_input(tmp_path: Path, capsys: Capture, name: str) -> None:
    assert cli.main(["doctor", str(write(tmp_path, healthy(**{f"cluster/{name}.json": {"items": 3}})))]) == 2
    assert f"cluster/{name}.json" in capsys.readouterr().err


# --- one pod ----------------------------------------------------------------------------


def steps(document: Any) -> dict[str, tuple[bool | None, str]]:
    return {step["question"]: (step["answer"], step["told"]) for step in document["steps"]}


def test_a_pod_that_works_from_end_to_end(tmp_path: Path, capsys: Capture) -> None:
    listed = pods(
        pod(limits={KEY: "2Gi"}, container=CONTAINER, spec={"runtimeClassName": "nvidia"}),
        pod("other", limits={KEY: "1Gi"}, container="b" * 64),
    )
    row = {"pid": 4242, "used": 1 << 30}
    gpu = device("Orin (nvgpu)", "u", compute={"code": 0, "processes": [row]})
    files = healthy(
        **{PODS: listed, "nvml.json": nvml(gpu)},
        **process(4242, "llm"),
    )
    write(tmp_path, files)
    (tmp_path / "host/proc/4242/fd").mkdir()
    (tmp_path / "host/proc/4242/fd/7").symlink_to("/dev/nvmap")
    found = steps(told(capsys, "pod", "default/llm", str(tmp_path)))
    assert found["Scheduled?"][0] is True
    assert found["Asks for a GPU?"] == (True, f"{KEY} 2.00 GiB.")
    assert found["Runs under an NVIDIA runtime?"][0] is True
    assert found["Does container main run?"] == (True, "It runs.")
    assert found["Does container main hold a GPU device node?"][0] is True
    assert found[f"Does it use {KEY}?"][0] is True
    assert "1.00 GiB" in found[f"Does it use {KEY}?"][1]
    assert found[f"Within its budget of {KEY}?"][0] is True
    # 6083 MiB are offered, 3 GiB requested by the two.
    assert "The node offers 5.94 GiB; 3.00 GiB of it are requested." in found[f"Who else is on {KEY}?"][1]


def test_a_pod_that_cannot_start(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(**{CLASSES: classes(other="nvidia"), PODS: pods(creating(spec={"runtimeClassName": "nvidia"}))})
    document = told(capsys, "pod", "default/llm", str(write(tmp_path, files)), code=1)
    found = steps(document)
    assert found["Runs under an NVIDIA runtime?"] == (False, "The RuntimeClass nvidia does not exist.")
    assert found["Does container main run?"] == (False, "It waits: ContainerCreating.")
    assert [one["id"] for one in document["findings"]] == ["runtime-class-missing"]


def test_a_pod_that_waits(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(**{PODS: pods(waiting("new", {KEY: "9Gi"}))})
    found = steps(told(capsys, "pod", "default/new", str(write(tmp_path, files)), code=1))
    assert found["Scheduled?"] == (
        False,
        "It is bound to no node. 0/1 nodes are available: 1 Insufficient edgeagent.dev/gpu-memory.",
    )


def test_findings_about_other_pods_are_left_out(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(**{PODS: pods(pod("a", limits={KEY: "1"}), pod("b", limits={KEY: "2"}))})
    document = told(capsys, "pod", "default/b", str(write(tmp_path, files)))
    assert [one["subject"] for one in document["findings"]] == ["pod default/b"]


def test_a_pod_that_is_not_here(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["doctor", "pod", "default/gone", str(write(tmp_path, healthy()))]) == 2
    assert "pod default/gone" in capsys.readouterr().err


# --- a cluster -----------------------------------------------------------------------------


class Api:
    """What the official client's connection gives, from the lists of a snapshot."""

    def __init__(self, files: dict[str, Any], *, forbidden: bool = False) -> None:
        self._files = files
        self._forbidden = forbidden

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None: ...

    def everything(self, _: object) -> Any:
        from edgeagent.fleet.api import Listed  # noqa: PLC0415

        return Listed([self._files[NODE_JSON]], "1"), Listed(self._files[PODS]["items"], "1")

    def listed(self, path: str, chosen: dict[str, str]) -> Any:
        from edgeagent.fleet.api import Listed, RefusedError  # noqa: PLC0415

        if self._forbidden:
            raise RefusedError("forbidden", 403)
        items = self._files[f"cluster/{path.rpartition('/')[2]}.json"]["items"]
        wanted = chosen.get("fieldSelector", "").rpartition("reason=")[2]
        return Listed([item for item in items if not wanted or item["reason"] == wanted], "1")


def across(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, files: dict[str, Any], *, code: int, forbidden: bool = False
) -> Any:
    monkeypatch.setattr("edgeagent.fleet.connect.connect", lambda *_: Api(files, forbidden=forbidden))
    return told(capsys, "--cluster", code=code)


def test_nothing_is_wrong_in_a_cluster(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    document = across(capsys, monkeypatch, healthy(), code=0)
    assert (document["findings"], document["unlisted"], document["ai_capable"]) == ([], [], None)
    assert document["looked_at"][:3] == ["1 node", "no pods on them", "no pods that wait for a node"]


def test_what_the_api_alone_tells(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = 'Error creating: pods "b-" is forbidden: pod rejected: RuntimeClass "gone" not found'
    just_now = {"lastTimestamp": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
    files = healthy(
        **{
            PODS: pods(waiting("new", {KEY: "9Gi"}), pod("bare", limits={KEY: "2048"})),
            "cluster/events.json": {"items": [{**event("FailedCreate", refused, "ReplicaSet", "b-1"), **just_now}]},
        }
    )
    document = across(capsys, monkeypatch, files, code=1)
    assert [(one["id"], one["subject"]) for one in document["findings"]] == [
        ("pending-does-not-fit", "pod default/new"),
        ("runtime-class-missing", "replicaset default/b-1"),
        ("request-without-suffix", "pod default/bare"),
    ]


def test_a_right_that_the_operator_lacks(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    files = healthy(**{PODS: pods(creating(spec={"runtimeClassName": "nvidia"}))})
    document = across(capsys, monkeypatch, files, code=0, forbidden=True)
    (one,) = document["findings"]
    assert (one["id"], one["certainty"]) == ("runtime-class-missing", "cannot-tell")
    assert "list runtimeclasses.node.k8s.io" in one["summary"]


# --- this board ------------------------------------------------------------------------------


def test_a_board_without_credentials_is_looked_at_all_the_same(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    write(tmp_path, healthy(**{CONTAINERD: containerd("kata")}))
    settings = tmp_path / "agent.yaml"
    settings.write_text("mode: observe\n")
    document = told(capsys, "--host-root", str(tmp_path / "host"), "--config", str(settings), code=1)
    ids = [one["id"] for one in document["findings"]]
    assert "runtime-default-undefined" in ids
    assert "runtime-missing" in ids
    assert document["node"] is None
    assert [one.partition(":")[0] for one in document["unlisted"]] == [
        "device nodes that processes hold open",
        "RuntimeClasses, DaemonSets, events, unbound pods",
    ]
