"""Who goes, when and how, on a real kubelet with live pods, up to the last resort without an API server.

GPU memory and the memory of the board are told by the test, in nvmap's table and in meminfo. All else is real: the
whole procfs of this machine stands under the host root, in a private mount namespace of the agent, with meminfo alone
mounted over. So the agent meets a real procfs there and sends the kills that it would only plan on a board that is
driven from files; what a pid means, when its process began and in which cgroup it stands, the kernel says.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client

from tests.cluster.livescene import LiveScene, held, metric, wait_ended
from tests.cluster.objects import GPU_MEMORY, get_pod
from tests.controlplane.processes import DIE_WITH_PARENT
from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tests.cluster.agentprocess import AgentProcess
    from tests.cluster.livenode import LiveNode
    from tests.controlplane.plane import ControlPlane

SAMPLING = "sampling: {interval: 500ms, fast: 100ms, max_age: 5s}\n"
QUICK = "policy: {grace: 2s}\n" + SAMPLING
# The recorded board's floor is 128 MiB, half the headroom of 256 MiB; below 64 MiB it is critical.
CALM, LOW, CRITICAL = 6000, 100, 40
HOLD_DOWN = 10.0
KILLED = {"main": (1, 137), "worker": (1, 137), "bystander": (0, None)}
"""Restarts and last exit codes after a kill, 128 + SIGKILL: the kubelet starts the killed containers anew."""


@pytest.fixture
def scene(control_plane: ControlPlane, live_node: LiveNode, namespace: str, tmp_path: Path) -> Iterator[LiveScene]:
    with LiveScene(control_plane, live_node, namespace, tmp_path) as live:
        yield live


def lives_on(scene: LiveScene, pod: Any) -> bool:
    """Whether nothing has happened to the pod: its object is not on its way out and no container began anew."""
    now = get_pod(scene.plane.api, pod)
    return (
        now is not None
        and now.metadata.deletion_timestamp is None
        and all(one.state.running and one.restart_count == 0 for one in now.status.container_statuses)
    )


def pressure(scene: LiveScene) -> Any:
    """The node's GPUMemoryPressure."""
    conditions = scene.plane.api.read_node(scene.node.name).status.conditions
    return next((one for one in conditions if one.type == "GPUMemoryPressure"), None)


def condition(scene: LiveScene) -> tuple[str, str] | None:
    """Its status and reason."""
    found = pressure(scene)
    return (found.status, found.reason) if found else None


def wait_cycles(agent: AgentProcess, count: int) -> None:
    """Wait until the agent has decided so many times more."""
    end = metric(agent, "edgeagent_cycles_total") + count
    wait_for(f"{count} cycles", lambda: metric(agent, "edgeagent_cycles_total") >= end, seconds=30)


def wait_successor(scene: LiveScene, selector: str, known: set[str]) -> Any:
    """Wait for the running pod of a workload that is none of the ``known`` uids, and add it to them."""

    def running() -> Any:
        pods = scene.plane.api.list_namespaced_pod(scene.namespace, label_selector=selector).items
        fresh = (one for one in pods if one.metadata.uid not in known and not one.metadata.deletion_timestamp)
        return next((one for one in fresh if one.status.phase == "Running"), None)

    found = wait_for(f"a running pod of {selector}", running)
    known.add(found.metadata.uid)
    return found


def test_a_pod_that_a_disruption_budget_protects_is_passed_over_until_the_budget_allows_it(scene: LiveScene) -> None:
    policies: Any = client.PolicyV1Api(scene.plane.api.api_client)
    scene.agent(QUICK)
    guarded, other = scene.model("guarded"), scene.model("other")
    guarded["metadata"]["labels"] = {"app": "guarded"}
    guarded, other = scene.start(guarded, other)
    guarded_pid, other_pid = scene.node.pid_of(guarded), scene.node.pid_of(other)
    selector = {"matchLabels": {"app": "guarded"}}
    policies.create_namespaced_pod_disruption_budget(
        scene.namespace, {"metadata": {"name": "one"}, "spec": {"minAvailable": 1, "selector": selector}}
    )

    def allowed() -> tuple[int, int] | None:
        """Healthy pods and disruptions allowed, as the disruption controller has it."""
        budget = policies.read_namespaced_pod_disruption_budget("one", scene.namespace)
        current = budget.status.observed_generation == budget.metadata.generation
        return (budget.status.current_healthy, budget.status.disruptions_allowed) if current else None

    wait_for("the budget counts its pod", lambda: allowed() == (1, 0))

    # The larger excess goes first, so the protected pod is asked for before the other one.
    scene.hold({guarded_pid: 1500, other_pid: 1300})
    scene.wait_evicted("other")
    assert lives_on(scene, guarded)
    assert "disruption budget" in scene.wait_event("EvictionBlocked", guarded)

    policies.patch_namespaced_pod_disruption_budget("one", scene.namespace, {"spec": {"minAvailable": 0}})
    wait_for("the budget allows it", lambda: allowed() == (1, 1))
    wait_ended(other_pid)
    scene.wait_evicted("guarded")
    wait_ended(guarded_pid)

    calls = [(call.name, call.code) for call in scene.evictions()]
    assert calls[:2] == [("guarded", 429), ("other", 201)]
    assert calls[-1] == ("guarded", 201)
    # Where the machine is slow to raise the budget there may be more refusals, and nothing else.
    assert set(calls[2:-1]) <= {("guarded", 429)}


def test_a_daemonsets_pod_over_its_budget_is_told_of_and_not_fought(scene: LiveScene) -> None:
    apps: Any = client.AppsV1Api(scene.plane.api.api_client)
    agent = scene.agent(QUICK)
    template = {"metadata": {"labels": {"app": "daemon"}}, "spec": scene.model("daemon")["spec"]}
    spec = {"selector": {"matchLabels": {"app": "daemon"}}, "template": template}
    apps.create_namespaced_daemon_set(scene.namespace, {"metadata": {"name": "daemon"}, "spec": spec})
    try:
        daemon = wait_successor(scene, "app=daemon", set())
        (bare,) = scene.start(scene.model("bare"))
        bare_pid = scene.node.pid_of(bare)

        # It has the larger excess, so it would go first, and one that cannot go keeps nobody else.
        scene.hold({scene.node.pid_of(daemon): 1500, bare_pid: 1300})
        scene.wait_evicted("bare")
        wait_ended(bare_pid)
        wait_for("held as a DaemonSet's", lambda: held(agent).get(daemon.metadata.uid) == ("daemonset", None))
        assert "DaemonSet" in scene.wait_event("MemoryBudgetExceeded", daemon)
        assert [(call.name, call.code) for call in scene.evictions()] == [("bare", 201)]
        assert lives_on(scene, daemon)
    finally:
        apps.delete_namespaced_daemon_set("daemon", scene.namespace)


@pytest.mark.parametrize(
    ("policy", "left", "grace"),
    [
        ("{grace: 2s, max_grace: 4s, pressure_grace: 2s}", CALM, 4),
        # Without pressure this one would be evicted in ten minutes. No kill: it is the grace that is looked at.
        ("{grace: 10min, max_grace: 60s, pressure_grace: 2s, kill: never}", LOW, 2),
    ],
    ids=["calm", "under-pressure"],
)
def test_the_first_and_only_call_cuts_a_grace_of_ten_minutes_short(
    scene: LiveScene, policy: str, left: int, grace: int
) -> None:
    agent = scene.agent(f"policy: {policy}\n{SAMPLING}")
    manifest = scene.model("deaf")
    manifest["spec"]["terminationGracePeriodSeconds"] = 600
    manifest["spec"]["containers"][0]["args"] = ["--ignore-term"]
    (deaf,) = scene.start(manifest)
    pid = scene.node.pid_of(deaf)
    scene.leave(left)
    scene.hold({pid: 1500})

    call = scene.wait_evicted("deaf")
    assert call.body["deleteOptions"] == {"gracePeriodSeconds": grace, "preconditions": {"uid": deaf.metadata.uid}}
    # It hears no SIGTERM: what ends it is the kubelet's SIGKILL, after the grace and not after 600 s.
    _, gone = wait_ended(pid)
    assert grace <= (gone - call.received).total_seconds() < grace + 10

    wait_for("pod gone", lambda: get_pod(scene.plane.api, deaf) is None)
    wait_cycles(agent, 3)
    assert len(scene.evictions()) == 1


def test_pressure_by_a_host_process_costs_no_pod_its_life(scene: LiveScene) -> None:
    # A configuration that evicts both pods for the board's sake, unless the host itself is over its reserve.
    policy = "policy: {grace: 2s, unbudgeted: evict}\npressure: {within_budget: above-request}\n"
    agent = scene.agent(policy + SAMPLING)
    free, booked = scene.start(scene.model("free", limits={}), scene.model("booked", limits={GPU_MEMORY: "1Gi"}))
    pods = {scene.node.pid_of(free): 600, scene.node.pid_of(booked): 1024}
    wait_for("no pressure", lambda: condition(scene) == ("False", "MemoryAboveFloor"))
    with subprocess.Popen([*DIE_WITH_PARENT, "sleep", "infinity"]) as process:
        try:
            # Far above the 768 + 512 MiB that os and k3s reserve.
            scene.hold({**pods, process.pid: 4000})
            scene.leave(LOW)

            wait_for("pressure by the host", lambda: condition(scene) == ("True", "HostMemory"))
            # Named with the first write: what it holds is the GPU's, no row of procfs shows it.
            written = pressure(scene)
            assert f"sleep (pid {process.pid}" in written.message
            wait_cycles(agent, 20)
            assert scene.evictions() == []
            assert lives_on(scene, free)
            assert lives_on(scene, booked)
            assert agent.get("/api/v1/board")[1]["host"]["pressure"] is True
            assert pressure(scene).last_transition_time == written.last_transition_time
        finally:
            process.kill()

    # The same pods and the same pressure without the host process: now its absence is what makes the difference.
    scene.hold(pods)
    assert scene.wait_evicted("free").body["deleteOptions"]["gracePeriodSeconds"] == 2


def test_breaching_pods_go_by_priority_and_excess_one_at_a_time_with_a_pause_between(scene: LiveScene) -> None:
    classes: Any = client.SchedulingV1Api(scene.plane.api.api_client)
    name = f"low-{scene.namespace}"
    classes.create_priority_class({"metadata": {"name": name}, "value": -100})
    try:
        scene.agent(QUICK)
        low, medium, large = (scene.model(each) for each in ("low", "medium", "large"))
        low["spec"]["priorityClassName"] = name
        over = {"low": 1100, "medium": 1300, "large": 1500}
        live = {pod.metadata.name: scene.node.pid_of(pod) for pod in scene.start(low, medium, large)}
        scene.hold({pid: over[pod] for pod, pid in live.items()})

        order = ["low", "large", "medium"]
        ends = {}
        for pod in order:
            call = scene.wait_evicted(pod)
            ends[pod] = wait_ended(live.pop(pod), since=call.received)
            scene.hold({pid: over[pod] for pod, pid in live.items()})

        calls = scene.evictions()
        assert [(call.name, call.code) for call in calls] == [(pod, 201) for pod in order]
        for before, call in zip(order, calls[1:], strict=False):
            ran, _ = ends[before]
            assert (call.received - ran).total_seconds() >= HOLD_DOWN
    finally:
        classes.delete_priority_class(name)


def test_an_owner_that_brings_its_breaching_pod_straight_back_waits_longer_each_time(scene: LiveScene) -> None:
    apps: Any = client.AppsV1Api(scene.plane.api.api_client)
    agent = scene.agent(QUICK)
    template = {"metadata": {"labels": {"app": "stubborn"}}, "spec": scene.model("stubborn")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "stubborn"}}, "template": template}
    apps.create_namespaced_deployment(scene.namespace, {"metadata": {"name": "stubborn"}, "spec": spec})
    known: set[str] = set()
    try:
        pod = wait_successor(scene, "app=stubborn", known)
        for round_, minutes in enumerate((1, 2), start=1):
            pid = scene.node.pid_of(pod)
            scene.hold({pid: 1500})
            call = scene.wait_evicted(pod.metadata.name)
            wait_ended(pid)

            pod = wait_successor(scene, "app=stubborn", known)
            scene.hold({scene.node.pid_of(pod): 1500})
            left, at = wait_backoff(agent, pod)
            passed = (at - call.received).total_seconds()
            assert passed + left == pytest.approx(minutes * 60, abs=5)
            assert len(scene.evictions()) == round_
            assert lives_on(scene, pod)
            if round_ == 1:
                let_the_wait_end(agent)
    finally:
        apps.delete_namespaced_deployment("stubborn", scene.namespace)


def wait_backoff(agent: AgentProcess, pod: Any) -> tuple[float, datetime]:
    """Wait until the pod is held for its owner's sake; returns for how many seconds more, and when that was said."""

    def left() -> tuple[float, datetime] | None:
        code, seconds = held(agent).get(pod.metadata.uid, ("", None))
        return (seconds, datetime.now(timezone.utc)) if code == "backoff" and seconds else None

    return wait_for("held for its owner", left)


def let_the_wait_end(agent: AgentProcess) -> None:
    """Take the minutes of back-off out of what the agent remembers, as if they had passed."""
    assert agent.stop() == 0
    state = json.loads(agent.state.read_text())
    (backoff,) = state["backoff"]
    assert (backoff["owner"][1:], backoff["minutes"]) == (["Deployment", "stubborn"], 1)
    backoff["until"] = backoff["breached_at"]
    agent.state.write_text(json.dumps(state))
    agent.start()
    agent.wait_ready()


@contextmanager
def frozen(scene: LiveScene, _: AgentProcess) -> Iterator[None]:
    """The API server takes every call and answers none; its connections stay open."""
    (server,) = (daemon for daemon in scene.plane.daemons if daemon.name == "kube-apiserver")
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@contextmanager
def ended(scene: LiveScene, _: AgentProcess) -> Iterator[None]:
    """The API server is gone at this very moment, as in a power failure."""
    scene.plane.stop_apiserver(signal.SIGKILL)
    try:
        yield
    finally:
        scene.plane.start_apiserver()
        scene.plane.restart_controllers()


@contextmanager
def away(scene: LiveScene, agent: AgentProcess) -> Iterator[None]:
    """The API server is gone, and has been for so long that the agent says it."""
    with ended(scene, agent):
        wait_for("the outage noticed", lambda: "cluster-unreachable" in agent.reasons())
        yield


@pytest.mark.parametrize(
    ("outage", "cause"),
    [
        (frozen, "the API server has not answered"),
        (away, "It cannot be evicted: the view of the cluster is"),
        (ended, "It cannot be evicted: "),
    ],
    ids=["frozen", "away", "ended"],
)
def test_without_an_api_server_the_culprits_processes_are_killed_and_its_neighbour_lives(
    scene: LiveScene, outage: Callable[[LiveScene, AgentProcess], AbstractContextManager[None]], cause: str
) -> None:
    # Ten minutes of grace: nothing but the danger to the board can end a pod here.
    agent = scene.agent("policy: {grace: 10min}\n" + SAMPLING)
    culprit, neighbour = scene.start(three_containers(scene.model("culprit")), scene.model("neighbour"))
    guilty = [scene.node.pid_of(culprit, name) for name in ("main", "worker")]
    bystander, beside = scene.node.pid_of(culprit, "bystander"), scene.node.pid_of(neighbour)
    scene.hold({**dict.fromkeys(guilty, 500), beside: 1000})

    def uses() -> dict[str, int | None]:
        return {pod["name"]: pod["gpu_bytes"] for pod in agent.get("/api/v1/pods")[1]["pods"]}

    def killed() -> float:
        return metric(agent, 'edgeagent_kills_total{outcome="killed"}')

    wait_for("both known", lambda: uses() == {"culprit": 1000 << 20, "neighbour": 1000 << 20})

    with outage(scene, agent):
        scene.hold({**dict.fromkeys(guilty, 1500), beside: 1000})
        scene.leave(CRITICAL)
        for pid in guilty:
            wait_ended(pid)
        wait_for("both counted", lambda: killed() == len(guilty))
        # The memory does not come back, and nobody else is over a budget: nobody else is killed.
        finding = 'edgeagent_findings{certainty="certain",id="memory-critical",severity="error"}'
        wait_for("that there is nobody to kill", lambda: metric(agent, finding) == 1)
        wait_cycles(agent, 10)
        assert killed() == len(guilty)
        assert all(Path(f"/proc/{pid}").exists() for pid in (bystander, beside))
        scene.hold({beside: 1000})
        scene.leave(CALM)

    agent.wait_ready()
    assert lives_on(scene, neighbour)
    assert scene.node.pid_of(neighbour) == beside
    if outage is frozen:
        # A call that was under way is carried out when the server goes on.
        assert {call.name for call in scene.evictions()} <= {"culprit"}
    else:
        assert scene.evictions() == []
        wait_for("what became of the containers", lambda: exits(scene, culprit) == KILLED)
        assert scene.node.pid_of(get_pod(scene.plane.api, culprit), "bystander") == bystander
    # Most kills happen while nobody can be told: this is made up for.
    message = scene.wait_event("MemoryBudgetKilled", culprit)
    assert all(part in message for part in ("40 MiB usable left", "2.93 GiB", "1.00 GiB", cause))


def three_containers(manifest: dict[str, Any]) -> dict[str, Any]:
    """The model's pod with two processes that share its budget for the GPU, and one that has nothing to do with it."""
    (main,) = manifest["spec"]["containers"]
    half = {"limits": {GPU_MEMORY: "512Mi"}}
    manifest["spec"]["containers"] = [
        {**main, "resources": half},
        {**main, "name": "worker", "resources": half},
        {**main, "name": "bystander", "resources": {}},
    ]
    return manifest


def exits(scene: LiveScene, pod: Any) -> dict[str, tuple[int, int | None]]:
    """Restarts and last exit code of a pod's containers."""
    found = {}
    for status in get_pod(scene.plane.api, pod).status.container_statuses:
        last = status.last_state.terminated
        found[status.name] = (status.restart_count, last.exit_code if last else None)
    return found
