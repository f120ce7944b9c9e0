"""``edgeagent fleet`` as a process beside the real API server, its scheduler, and an agent that publishes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from edgeagent.fleet import api as fleet_api
from edgeagent.fleet.connect import connect
from edgeagent.quantity import GIB, MIB
from tests.cluster.agentprocess import AgentProcess
from tests.cluster.objects import GPU_MEMORY, create_node, create_pod, patch_node_status, play_start, pod, wait_pod
from tests.cluster.recorded import Board
from tests.controlplane.credentials import write_kubeconfig
from tests.controlplane.processes import free_port
from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.controlplane.plane import ControlPlane

MODE = "edgeagent.dev/mode"
LIMITS = {GPU_MEMORY: "1Gi", "memory": "2Gi"}
GROUP = "test/fleet"


def published(name: str, *, group: str = "") -> dict[str, Any]:
    """A node with all that edgeagent publishes on an Orin Nano."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    resources = {"cpu": "6", "memory": "7802736Ki", "pods": "110", GPU_MEMORY: "5827Mi"}
    labels = {
        "edgeagent.dev/gpu.kind": "jetson",
        "edgeagent.dev/gpu.product": "Orin-Nano",
        "edgeagent.dev/gpu.memory-mib": "7619",
        GROUP: group,
    }
    healthy = {
        "GPUMemoryPressure": "MemoryAboveFloor",
        "GPUUnavailable": "DevicesHealthy",
        "GPURuntimeMisconfigured": "RuntimeConfigured",
    }
    conditions = [{"type": kind, "status": "False", "reason": reason} for kind, reason in healthy.items()]
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [ready, *conditions]},
    }


@pytest.fixture
def group(control_plane: ControlPlane) -> Iterator[str]:
    """A label value of this test's nodes alone, which are deleted at its end."""
    value = uuid.uuid4().hex[:8]
    yield value
    for node in control_plane.api.list_node(label_selector=f"{GROUP}={value}").items:
        control_plane.api.delete_node(node.metadata.name)


def nodes(plane: ControlPlane, group: str, count: int) -> list[str]:
    names = [f"fleet-{group}-{number}" for number in range(count)]
    for name in names:
        plane.api.create_node(published(name, group=group))
    selector = f"{GROUP}={group}"
    wait_for("no taint", lambda: not any(one.spec.taints for one in plane.api.list_node(label_selector=selector).items))
    return names


def command(plane: ControlPlane, *arguments: str, kubeconfig: Path | None = None) -> list[str]:
    where = str(kubeconfig or plane.admin_kubeconfig)
    return [sys.executable, "-W", "error", "-m", "edgeagent", "fleet", "--kubeconfig", where, *arguments]


def fleet(plane: ControlPlane, *arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    argv = command(plane, *arguments, kubeconfig=kubeconfig)
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


def document(plane: ControlPlane, group: str, *arguments: str) -> dict[str, Any]:
    done = fleet(plane, "--selector", f"{GROUP}={group}", "--format", "json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def mode(plane: ControlPlane, name: str) -> str | None:
    annotations = plane.api.read_node(name).metadata.annotations or {}
    found: str | None = annotations.get(MODE)
    return found


# --- the table -----------------------------------------------------------------------


def test_a_node_shows_what_an_agent_published_and_when(
    control_plane: ControlPlane, group: str, namespace: str, tmp_path: Path
) -> None:
    api, begun, name = control_plane.api, datetime.now(timezone.utc).replace(microsecond=0), f"fleet-{group}"
    # With a label, as a kubelet makes it: of a node without any the API server records no writers.
    create_node(api, name, labels={GROUP: group})
    play_start(api, create_pod(api, pod("a", namespace=namespace, node=name, limits=LIMITS)))
    with AgentProcess(control_plane, name, Board.copy(tmp_path / "root").root, tmp_path / "agent") as agent:
        agent.wait_ready()
        wait_for("capacity", lambda: GPU_MEMORY in api.read_node(name).status.capacity)

        wait_for("conditions", lambda: len(api.read_node(name).status.conditions) > 1)
        (row,) = document(control_plane, group)["nodes"]

    found = api.read_node(name)
    capacity = int(found.status.capacity[GPU_MEMORY].removesuffix("Mi")) * MIB
    total = int(found.metadata.labels["edgeagent.dev/gpu.memory-mib"]) * MIB
    assert (row["name"], row["edgeagent"], row["kind"]) == (name, True, "jetson")
    assert row["pools"] == [
        {
            "resource": GPU_MEMORY,
            "total_bytes": total,
            "reserved_bytes": total - capacity,
            "advertised_bytes": capacity,
            "committed_bytes": GIB,
            "free_bytes": capacity - GIB,
        }
    ]
    assert (row["judged"], row["mode"], row["agent"]) == (True, None, None)
    assert begun <= datetime.fromisoformat(row["last_write"].replace("Z", "+00:00")) <= datetime.now(timezone.utc)


def test_the_switch_is_no_sign_of_life(control_plane: ControlPlane, group: str) -> None:
    (name,) = nodes(control_plane, group, 1)
    assert fleet(control_plane, "observe", name).returncode == 0

    (row,) = document(control_plane, group)["nodes"]

    assert (row["mode"], row["last_write"]) == ("observe", None)


def test_a_pod_that_fits_nowhere_waits_with_the_words_of_the_scheduler(
    control_plane: ControlPlane, group: str, namespace: str
) -> None:
    nodes(control_plane, group, 1)
    manifest = pod("big", namespace=namespace, limits={GPU_MEMORY: "6Gi"}, selector={GROUP: group})
    created = create_pod(control_plane.api, manifest)

    def said() -> str | None:
        now = control_plane.api.read_namespaced_pod("big", namespace).status.conditions or []
        return next((one.message for one in now if one.type == "PodScheduled" and one.status == "False"), None)

    words = wait_for("the scheduler", said)
    assert "Insufficient edgeagent.dev/gpu-memory" in words

    (one,) = [one for one in document(control_plane, group)["waiting"] if one["namespace"] == namespace]
    text = fleet(control_plane, "--selector", f"{GROUP}={group}")

    assert one["asks"] == {GPU_MEMORY: 6 * GIB}
    assert (one["name"], one["reason"], one["message"]) == ("big", "Unschedulable", said())
    assert datetime.fromisoformat(one["created"].replace("Z", "+00:00")) == created.metadata.creation_timestamp
    assert f"{namespace}/big  asks for 6.00 GiB of gpu-memory, for " in text.stdout


def test_a_pod_that_the_scheduler_placed_is_committed_and_one_that_ended_is_not(
    control_plane: ControlPlane, group: str, namespace: str
) -> None:
    api, (name,) = control_plane.api, nodes(control_plane, group, 1)
    placed = create_pod(api, pod("placed", namespace=namespace, limits=LIMITS, selector={GROUP: group}))
    wait_for("a node", lambda: api.read_namespaced_pod("placed", namespace).spec.node_name)
    ended = create_pod(api, pod("ended", namespace=namespace, node=name, limits=LIMITS))
    api.patch_namespaced_pod_status("ended", namespace, {"status": {"phase": "Failed"}})
    wait_pod(api, ended, "Failed")

    (row,) = document(control_plane, group)["nodes"]

    assert placed.spec.node_name is None
    # 5827 - 1024 = 4803; 7619 - 5827 = 1792
    assert row["pools"][0]["committed_bytes"] == GIB
    assert row["pools"][0]["free_bytes"] == 4803 * MIB
    assert row["pools"][0]["reserved_bytes"] == 1792 * MIB


def test_lists_are_read_page_by_page(control_plane: ControlPlane, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = nodes(control_plane, group, 5)
    monkeypatch.setattr(fleet_api, "PAGE", 2)
    since = datetime.now(timezone.utc)

    with connect(control_plane.admin_kubeconfig, None, {}) as api:
        listed = api.list("nodes", f"{GROUP}={group}")

    lists = [one for one in control_plane.audit(verb="list", resource="nodes", since=since) if f"{group}" in one.uri]
    assert sorted(one["metadata"]["name"] for one in listed.items) == names
    assert len(lists) == 3  # 2 + 2 + 1
    assert all("limit=2" in one.uri for one in lists)


def test_without_all_only_nodes_with_our_keys_are_shown(control_plane: ControlPlane, hand_node: str) -> None:
    control_plane.api.patch_node(hand_node, {"metadata": {"labels": {GROUP: hand_node}}})

    assert document(control_plane, hand_node)["nodes"] == []
    assert document(control_plane, hand_node)["other_nodes"] == 1
    (row,) = document(control_plane, hand_node, "--all")["nodes"]
    assert (row["name"], row["edgeagent"], row["pools"]) == (hand_node, False, [])


# --- watch ---------------------------------------------------------------------------


def test_watch_shows_a_change_and_ends_with_ctrl_c(control_plane: ControlPlane, group: str) -> None:
    (name,) = nodes(control_plane, group, 1)
    argv = command(control_plane, "--selector", f"{GROUP}={group}", "--format", "json", "--watch")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = json.loads(process.stdout.readline())
        patch_node_status(control_plane.api, name, {"status": {"capacity": {GPU_MEMORY: "5000Mi"}}})
        second = first
        while second["nodes"][0]["pools"] == first["nodes"][0]["pools"]:
            second = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert (process.wait(20), process.stderr.read()) == (0, "")

    assert first["nodes"][0]["pools"][0]["advertised_bytes"] == 5827 * MIB
    assert second["nodes"][0]["pools"][0]["advertised_bytes"] == 5000 * MIB


def test_watch_sees_nodes_and_pods_come_and_go(control_plane: ControlPlane, group: str, namespace: str) -> None:
    (name,) = nodes(control_plane, group, 1)
    argv = command(control_plane, "--selector", f"{GROUP}={group}", "--format", "json", "--watch")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None

        def until(committed: int | None) -> None:
            """Read on to the moment when so much is committed on the node; None: the node is gone."""
            seen: Any = ""
            while seen != committed:
                assert process.stdout is not None
                shown = json.loads(process.stdout.readline())["nodes"]
                seen = shown[0]["pools"][0]["committed_bytes"] if shown else None

        until(0)
        create_pod(control_plane.api, pod("a", namespace=namespace, node=name, limits=LIMITS))
        until(GIB)
        control_plane.api.patch_namespaced_pod_status("a", namespace, {"status": {"phase": "Succeeded"}})
        until(0)
        control_plane.api.delete_node(name)
        until(None)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


# --- the switch ----------------------------------------------------------------------


def test_observe_and_enforce_write_one_annotation_and_only_where_it_differs(
    control_plane: ControlPlane, group: str
) -> None:
    names = nodes(control_plane, group, 3)
    control_plane.api.patch_node(names[0], {"metadata": {"annotations": {"example.com/note": "x", MODE: "observe"}}})
    since = datetime.now(timezone.utc)

    done = fleet(control_plane, "observe", "--selector", f"{GROUP}={group}")

    assert (done.returncode, done.stderr) == (0, "")
    assert [mode(control_plane, name) for name in names] == ["observe"] * 3
    assert done.stdout.splitlines() == [
        f"{names[1]}: {MODE} set to observe (was not set)",
        f"{names[2]}: {MODE} set to observe (was not set)",
        "2 changed, 1 as wanted already, 0 failed",
    ]
    patches = [
        one
        for one in control_plane.audit(verb="patch", resource="nodes", since=since)
        if one.uri.endswith("fieldManager=edgeagent-fleet")
    ]
    assert sorted(str(one.name) for one in patches) == names[1:]
    assert all(one.body == {"metadata": {"annotations": {MODE: "observe"}}} for one in patches)

    back = fleet(control_plane, "--selector", f"{GROUP}={group}", "enforce")

    assert back.returncode == 0
    assert [mode(control_plane, name) for name in names] == [None] * 3
    assert "3 changed, 0 as wanted already, 0 failed" in back.stdout
    assert "An agent whose own configuration says observe goes on observing" in back.stdout
    assert control_plane.api.read_node(names[0]).metadata.annotations["example.com/note"] == "x"


def test_a_dry_run_changes_nothing(control_plane: ControlPlane, group: str) -> None:
    (name,) = nodes(control_plane, group, 1)

    done = fleet(control_plane, "observe", name, "--dry-run")

    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == f"{name}: {MODE} would be set to observe (was not set)"
    assert mode(control_plane, name) is None


def test_a_node_that_fails_is_told_and_the_others_are_switched(control_plane: ControlPlane, group: str) -> None:
    (name,) = nodes(control_plane, group, 1)

    done = fleet(control_plane, "observe", "no-such-node", name)

    assert done.returncode == 1
    assert mode(control_plane, name) == "observe"
    assert "edgeagent: no-such-node: " in done.stderr
    assert 'nodes "no-such-node" not found' in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_selector_that_matches_nothing_is_wrong_usage(control_plane: ControlPlane) -> None:
    done = fleet(control_plane, "observe", "--selector", "test/fleet=nobody")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "edgeagent: no node is chosen: none has test/fleet=nobody\n"


# --- credentials and errors ----------------------------------------------------------


def test_a_login_program_is_run(control_plane: ControlPlane, group: str, tmp_path: Path) -> None:
    nodes(control_plane, group, 1)
    settings = json.loads(control_plane.admin_kubeconfig.read_text())
    files = settings["users"][0]["user"]
    status = {
        "clientCertificateData": Path(files["client-certificate"]).read_text(),
        "clientKeyData": Path(files["client-key"]).read_text(),
    }
    version = "client.authentication.k8s.io/v1"
    (tmp_path / "credential.json").write_text(
        json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    )
    login = {"apiVersion": version, "command": "cat", "args": [str(tmp_path / "credential.json")]}
    settings["users"].append({"name": "login", "user": {"exec": {**login, "interactiveMode": "Never"}}})
    settings["contexts"].append({"name": "site", "context": {"cluster": "test", "user": "login"}})
    (tmp_path / "kubeconfig").write_text(json.dumps(settings))

    done = fleet(
        control_plane, "--context", "site", "--selector", f"{GROUP}={group}", kubeconfig=tmp_path / "kubeconfig"
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert f"fleet-{group}-0" in done.stdout


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a command that could not ask the API server."""
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    return line


def test_missing_rights_are_one_line_that_names_the_verb(control_plane: ControlPlane) -> None:
    line = refused(fleet(control_plane, kubeconfig=control_plane.node_kubeconfig("stranger")))

    assert "answers 403: " in line
    assert 'cannot list resource "' in line


def test_a_wrong_token_is_one_line(control_plane: ControlPlane, tmp_path: Path) -> None:
    wrong = write_kubeconfig(tmp_path / "k", control_plane.server, control_plane.ca_file, "wrong")

    line = refused(fleet(control_plane, kubeconfig=wrong))

    assert line == f"edgeagent: {control_plane.server}: does not accept these credentials (401)"


def test_a_server_that_is_away_is_one_line(control_plane: ControlPlane, tmp_path: Path) -> None:
    server = f"https://127.0.0.1:{free_port()}"
    away = write_kubeconfig(tmp_path / "k", server, control_plane.ca_file, "any")

    line = refused(fleet(control_plane, kubeconfig=away))

    assert line.startswith(f"edgeagent: {server}: no answer: ")
    assert line.endswith("Connection refused")


def test_a_server_that_is_not_who_it_should_be_is_one_line(control_plane: ControlPlane, tmp_path: Path) -> None:
    other = tmp_path / "other.crt"
    trustme.CA().cert_pem.write_to_path(str(other))
    line = refused(
        fleet(control_plane, kubeconfig=write_kubeconfig(tmp_path / "k", control_plane.server, other, "any"))
    )

    assert "certificate verify failed" in line
