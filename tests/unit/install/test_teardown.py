"""``edgeagent uninstall``: the order, what stays, and what it says when the node cannot be cleaned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgeagent.config import Config
from edgeagent.errors import InputError
from edgeagent.facts import NodeFacts, PodFacts
from edgeagent.install import node
from edgeagent.install.node import Cluster, Look
from edgeagent.install.report import Report
from edgeagent.install.teardown import Wish, uninstall
from edgeagent.plan.removal import Removal, removal
from edgeagent.system import lock
from tests.unit.factories import config, pod
from tests.unit.install.machine import CONFIG, K3S_RESERVES, OUR_RESERVES, SYSUSERS, TMPFILES, UNIT, Machine
from tests.unit.install.test_removal import published

NEEDING = pod("llm", required_labels=frozenset({"ai-capable"}))


class FakeCluster(Cluster):
    """A cluster whose node is a value; ``order`` notes what happens when."""

    def __init__(
        self,
        machine: Machine,
        node: NodeFacts | Look,
        pods: tuple[PodFacts, ...] = (),
        failing: str = "",
    ) -> None:
        super().__init__(Config(), machine.root, None)
        self.node = node
        self.pods = pods
        self.failing = failing
        self.order = machine.programs.calls

    def look(self, *, force: bool) -> Look:
        if isinstance(self.node, Look):
            return self.node
        return Look("read", self.node.name, "", removal(self.node, self.pods, force=force))

    def clean(self, removal: Removal) -> str:
        self.order.append(f"{len(removal.requests)} writes")
        return self.failing


@pytest.fixture
def installed(machine: Machine) -> Machine:
    machine.install(k3s_reserves=True)
    machine.programs.calls.clear()
    return machine


def run(machine: Machine, cluster: Cluster | None = None, settings: Config | None = None, **wish: bool) -> Report:
    return uninstall(Wish(root=machine.root, **wish), settings or Config(), machine.systemd, cluster)


def files_of_ours(machine: Machine) -> list[str]:
    return [path for path in machine.files() if "edgeagent" in path]


# --- the whole -----------------------------------------------------------------------


def test_first_the_service_then_the_node_then_the_files(installed: Machine) -> None:
    report = run(installed, FakeCluster(installed, published()))

    assert installed.programs.calls == [
        "systemctl stop edgeagent.service",
        "systemctl disable edgeagent.service",
        "4 writes",
        "systemctl daemon-reload",
    ]
    assert report.problems == []
    assert [line.split()[0] for line in report.done] == ["stopped", "disabled", "took", *["removed"] * 6]
    assert files_of_ours(installed) == []


def test_a_second_time_there_is_nothing_to_do(installed: Machine) -> None:
    run(installed, FakeCluster(installed, published()))
    installed.programs.calls.clear()

    report = run(installed, None, purge=True)
    assert run(installed, None).text("nothing to do") == "nothing to do"
    assert report.problems == []


def test_the_machine_is_as_before_after_a_purge(machine: Machine) -> None:
    before = machine.files()
    machine.install(k3s_reserves=True)
    machine.write("var/lib/edgeagent/state.json", "{}")
    machine.write(CONFIG, "mode: observe\n")
    machine.write(f"{UNIT}.d/override.conf", "[Service]\nWatchdogSec=30\n")

    report = run(machine, None, purge=True)

    assert report.problems == []
    assert {**machine.files(), "etc/passwd": ""} == {**before, "etc/passwd": ""}
    assert "edgeagent" not in machine.read("etc/passwd")
    assert not machine.has("var/lib/edgeagent")
    assert not machine.has("etc/edgeagent")


def test_an_image_keeps_no_empty_folder_after_a_purge(machine: Machine) -> None:
    machine.booted = False
    for others in ("etc/rancher/k3s", "etc/systemd"):
        (machine.root / others).mkdir(parents=True, exist_ok=True)
    before = {path for path in machine.root.rglob("*") if path.is_dir()}
    machine.install(k3s_reserves=True)
    wants = machine.root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir()  # as systemctl disable leaves it

    run(machine, None, purge=True)

    assert {path for path in machine.root.rglob("*") if path.is_dir()} == before


def test_what_people_wrote_and_the_state_stay_without_purge(installed: Machine) -> None:
    installed.write(CONFIG, "mode: observe\n")
    installed.write("var/lib/edgeagent/state.json", "{}")

    report = run(installed, None)

    assert installed.read(CONFIG) == "mode: observe\n"
    assert installed.read("var/lib/edgeagent/state.json") == "{}"
    assert report.problems == []
    (kept,) = [note for note in report.notes if note.startswith("kept")]
    assert all(name in kept for name in ("/etc/edgeagent", "/var/lib/edgeagent", "the user edgeagent", "--purge"))


def test_a_configuration_that_nobody_edited_goes_unless_it_is_to_be_kept(installed: Machine) -> None:
    run(installed, None, keep_config=True)
    assert installed.has(CONFIG)

    run(installed, None)
    assert not installed.has("etc/edgeagent")


def test_what_k3s_was_told_goes_together_with_what_our_configuration_says_of_it(installed: Machine) -> None:
    report = run(installed, None)

    assert not installed.has(K3S_RESERVES)
    assert not installed.has(OUR_RESERVES)
    assert any("systemctl restart k3s-agent" in line for line in report.next)
    # Cut in between, this order subtracts the pages of CMA twice; the other one would hand them out.
    assert report.done.index(f"removed /{OUR_RESERVES}") < report.done.index(f"removed /{K3S_RESERVES}")


def test_both_stay_with_a_configuration_that_is_to_be_kept(installed: Machine) -> None:
    report = run(installed, None, keep_config=True)

    assert installed.has(K3S_RESERVES)
    assert installed.has(OUR_RESERVES)
    assert (report.problems, report.next) == ([], [])


@pytest.mark.parametrize("edited", [K3S_RESERVES, OUR_RESERVES])
def test_both_stay_where_one_was_edited(installed: Machine, edited: str) -> None:
    installed.write(edited, installed.read(edited) + "# mine\n")

    report = run(installed, None)

    assert installed.has(K3S_RESERVES)
    assert installed.has(OUR_RESERVES)
    assert len(report.problems) == 2
    assert run(installed, None, force=True).problems == []
    assert not installed.has(K3S_RESERVES)
    assert not installed.has(OUR_RESERVES)


def test_what_force_put_aside_is_named_and_an_edited_file_of_ours_goes_with_a_purge(machine: Machine) -> None:
    machine.write(UNIT, "[Service]\nExecStart=/usr/bin/other\n")
    machine.install(force=True)
    machine.write(UNIT, machine.read(UNIT) + "# mine\n")
    machine.install(force=True)

    report = run(machine, None)

    assert any(f"/{UNIT}.bak, /{UNIT}.bak1" in note for note in report.notes)
    report = run(machine, None, purge=True)
    assert f"removed /{UNIT}.bak1" in report.done
    assert f"kept: /{UNIT}.bak, which edgeagent install --force put aside" in report.notes
    assert machine.read(f"{UNIT}.bak") == "[Service]\nExecStart=/usr/bin/other\n"


@pytest.mark.parametrize(
    "somebody",
    [
        "edgeagent:x:1000:1000::/home/edgeagent:/bin/bash",
        "edgeagent:x:998:998:Edge Agent:/:/usr/sbin/nologin",
        "edgeagent:x:998:998:edgeagent node agent:/:/bin/sh",
        "edgeagent:x:1000:1000:edgeagent node agent:/:/usr/sbin/nologin",
    ],
)
def test_a_user_that_was_there_before_is_not_removed(machine: Machine, somebody: str) -> None:
    machine.write("etc/passwd", f"root:x:0:0::/root:/bin/sh\n{somebody}\n")

    report = run(machine, None, purge=True)

    assert somebody in machine.read("etc/passwd")
    assert "userdel edgeagent" not in machine.programs.calls
    assert any("the user edgeagent, which edgeagent install did not make" in note for note in report.notes)


@pytest.mark.parametrize("state", ["activating", "reloading", "deactivating", ""])
def test_a_service_is_stopped_unless_systemd_says_that_nothing_of_it_runs(installed: Machine, state: str) -> None:
    # activating: it starts, or waits to be started again (systemd, Restart=); "": systemd did not answer.
    installed.programs.active, installed.programs.state = False, state or " "

    with pytest.raises(InputError, match="systemctl disable --now"):
        run(installed, FakeCluster(installed, published()), files=False)
    report = run(installed, None)

    assert installed.programs.calls[0] == "systemctl stop edgeagent.service"
    assert report.done[0] == "stopped edgeagent.service"


@pytest.mark.parametrize("state", ["inactive", "failed"])
def test_a_service_that_has_ended_needs_no_stop(installed: Machine, state: str) -> None:
    installed.programs.active, installed.programs.state = False, state

    run(installed, None)

    assert "systemctl stop edgeagent.service" not in installed.programs.calls


@pytest.mark.parametrize("verb", ["disable", "userdel"])
def test_a_step_that_fails_midway_does_not_take_the_report_with_it(installed: Machine, verb: str) -> None:
    installed.programs.failing[verb] = "read-only"

    report = run(installed, None, purge=True)

    assert report.done[0] == "stopped edgeagent.service"
    assert report.problems[-1].endswith("edgeagent: read-only" if verb == "userdel" else ": read-only")
    assert "again" in report.next[-1]
    installed.programs.failing.clear()
    assert run(installed, None, purge=True).problems == []
    assert files_of_ours(installed) == []


def test_an_edited_unit_is_kept_and_named_and_goes_by_force(installed: Machine) -> None:
    installed.write(UNIT, installed.read(UNIT) + "# mine\n")

    report = run(installed, None)

    assert report.problems == [f"/{UNIT} was edited and is kept (--force removes it)"]
    assert installed.has(UNIT)
    assert not installed.has(SYSUSERS)
    assert run(installed, None, force=True).problems == []
    assert not installed.has(UNIT)


def test_files_that_others_wrote_are_kept(machine: Machine) -> None:
    machine.write(UNIT, "[Service]\nExecStart=/usr/bin/other\n")
    machine.write(TMPFILES, "d /srv/other\n")

    report = run(machine, None)

    assert len(report.problems) == 2
    assert machine.has(UNIT)
    assert machine.has(TMPFILES)


def test_a_service_that_does_not_stop_ends_it_before_anything_is_taken_away(installed: Machine) -> None:
    installed.programs.failing["stop"] = "Job cancelled"
    cluster = FakeCluster(installed, published())

    with pytest.raises(InputError, match="could not be stopped: Job cancelled"):
        run(installed, cluster)

    assert installed.has(UNIT)
    assert "4 writes" not in installed.programs.calls


def test_a_lock_goes_with_a_purge_unless_somebody_holds_it(installed: Machine) -> None:
    installed.write("run/edgeagent/lock", "")

    with lock.only_instance(installed.root / "run/edgeagent"):
        held = run(installed, None, purge=True)
        assert installed.has("run/edgeagent/lock")

    assert any("kept: /run/edgeagent" in note for note in held.notes)
    assert held.problems == []
    assert "removed /run/edgeagent" in run(installed, None, purge=True).done
    assert not installed.has("run/edgeagent")


def test_a_state_folder_that_is_a_link_loses_the_link_alone(installed: Machine, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "state.json").write_text("{}")
    (installed.root / "var/lib/edgeagent").symlink_to(elsewhere)

    run(installed, None, purge=True)

    assert not (installed.root / "var/lib/edgeagent").is_symlink()
    assert (elsewhere / "state.json").exists()


# --- the node ------------------------------------------------------------------------


def test_a_label_that_a_pod_needs_is_a_refusal_before_anything_is_stopped(installed: Machine) -> None:
    before = installed.files()

    report = run(installed, FakeCluster(installed, published(), (NEEDING,)))

    assert (installed.programs.calls, installed.files()) == ([], before)
    assert "the label ai-capable is required by apps/llm" in report.problems[0]
    assert any("--force" in line for line in report.next)
    assert any("--files-only" in line for line in report.next)


def test_with_keep_needed_only_what_pods_need_stays_and_the_way_to_finish_is_told(installed: Machine) -> None:
    installed.programs.active = False
    cluster = FakeCluster(installed, published(), (NEEDING,))

    report = run(installed, cluster, files=False, keep_needed=True)

    # capacity, conditions, the other label, the annotation that lists what is left
    assert installed.programs.calls == ["4 writes"]
    (took,) = report.done
    assert all(key in took for key in ("edgeagent.dev/gpu-memory", "GPUMemoryPressure", "edgeagent.dev/gpu.kind"))
    assert "ai-capable" not in took
    assert "the label ai-capable is required by apps/llm" in report.problems[0]
    label, annotation = (line for line in report.next if line.startswith("kubectl patch node edge-1 "))
    assert '{"labels":{"ai-capable":null}}' in label
    assert '{"edgeagent.dev/owned-keys":null}' in annotation


def test_keep_needed_does_not_guess_either(installed: Machine) -> None:
    report = run(installed, FakeCluster(installed, published("{")), keep_needed=True)

    assert installed.programs.calls == []
    assert "nothing is removed by guess" in report.problems[0]


def test_a_pod_of_a_daemonset_is_a_refusal_because_it_would_put_everything_back(
    installed: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(installed, published())
    look = replace(cluster.look(force=False), agents=("edgeagent-system/edgeagent-x7",))
    monkeypatch.setattr(cluster, "look", lambda *, force: look)  # noqa: ARG005 (the name is the caller's)

    report = run(installed, cluster)

    assert installed.programs.calls == []
    assert report.problems == [
        "edgeagent-system/edgeagent-x7 on this node would put everything back",
        "nothing was changed",
    ]
    assert "DaemonSet" in report.next[0]
    assert run(installed, cluster, force=True).problems == []


@pytest.mark.parametrize(
    ("phase", "label", "found"),
    [
        ("Running", "edgeagent", ("edgeagent-system/agent",)),
        ("Succeeded", "edgeagent", ()),
        ("Running", "other", ()),
    ],
)
def test_the_pod_of_an_agent_is_known_by_the_label_of_its_daemonset(
    phase: str, label: str, found: tuple[str, ...]
) -> None:
    metadata = {"namespace": "edgeagent-system", "name": "agent", "uid": "1"}
    labels = {"app.kubernetes.io/name": label}
    item = {"metadata": {**metadata, "labels": labels}, "spec": {"containers": []}, "status": {"phase": phase}}

    assert node.agents([item]) == found


def test_force_removes_it_all_the_same(installed: Machine) -> None:
    report = run(installed, FakeCluster(installed, published(), (NEEDING,)), force=True)

    assert report.problems == []
    assert "ai-capable" in next(line for line in report.done if line.startswith("took off"))
    assert files_of_ours(installed) == []


def test_a_list_that_cannot_be_read_is_a_refusal(installed: Machine) -> None:
    report = run(installed, FakeCluster(installed, published("{")))

    assert installed.programs.calls == []
    assert "nothing is removed by guess" in report.problems[0]


def test_without_an_api_server_the_service_is_stopped_and_the_way_to_finish_is_told(installed: Machine) -> None:
    away = FakeCluster(installed, Look("unreachable", "orin-1", "GET /api/v1/nodes/orin-1: refused"))
    settings = config("labels: {ai_capable: example.com/ai}")

    report = run(installed, away, settings)

    assert installed.programs.calls == ["systemctl stop edgeagent.service", "systemctl disable edgeagent.service"]
    assert report.problems == ["what was published is still on the node: GET /api/v1/nodes/orin-1: refused"]
    assert installed.has(UNIT)
    assert report.next[0].startswith("edgeagent uninstall --node-only")
    kubectl = [line for line in report.next if line.startswith("kubectl patch node orin-1 ")]
    assert len(kubectl) == 4
    # A label is last but one, behind the warning; the list itself comes last.
    assert "example.com/ai" in kubectl[2]
    assert "owned-keys" in kubectl[3]
    assert "only when no running pod" in report.next[report.next.index(kubectl[2]) - 1]


@pytest.mark.parametrize("how", ["force", "files_only"])
def test_the_files_go_without_an_api_server_only_when_that_is_asked_for(installed: Machine, how: str) -> None:
    away = FakeCluster(installed, Look("unreachable", "orin-1", "refused"))

    report = run(installed, away, force=True) if how == "force" else run(installed, None)

    assert not installed.has(UNIT)
    assert bool(report.problems) == (how == "force")


def test_writes_that_fail_leave_the_exact_commands(installed: Machine) -> None:
    report = run(installed, FakeCluster(installed, published(), failing="PATCH …: timed out"))

    assert report.problems == ["what was published is still on the node edge-1: PATCH …: timed out"]
    assert len([line for line in report.next if line.startswith("kubectl patch node edge-1 ")]) == 4
    assert installed.has(UNIT)


def test_a_node_that_is_gone_needs_no_cleaning(installed: Machine) -> None:
    report = run(installed, FakeCluster(installed, Look("no node", "orin-1")))

    assert report.problems == []
    assert not installed.has(UNIT)


@pytest.mark.parametrize(
    ("later", "problems"),
    [
        (Look("no node", "edge-1"), []),
        (Look("unreachable", "edge-1", "refused"), ["what was published is still on the node: refused"]),
    ],
    ids=["deleted", "unreachable"],
)
def test_what_is_found_after_the_stop_counts(
    installed: Machine, monkeypatch: pytest.MonkeyPatch, later: Look, problems: list[str]
) -> None:
    cluster = FakeCluster(installed, published())
    first = cluster.look(force=False)
    looks = iter([first, later])
    monkeypatch.setattr(cluster, "look", lambda *, force: next(looks))  # noqa: ARG005 (the name is the caller's)

    report = run(installed, cluster)

    assert report.problems == problems
    assert installed.has(UNIT) == bool(problems)
    assert any("kubectl" in line for line in report.next) == bool(problems)


def test_a_board_that_was_never_in_a_cluster_is_only_rid_of_its_files(installed: Machine) -> None:
    report = run(installed, Cluster(Config(), installed.root, None))

    assert report.problems == []
    assert any("nothing was taken off a node: no kubeconfig" in note for note in report.notes)
    assert not installed.has(UNIT)


def test_pods_that_hold_capacity_are_named(installed: Machine) -> None:
    report = run(installed, FakeCluster(installed, published(), (pod("llm", gpu=1 << 30),)))

    assert any("apps/llm" in note for note in report.notes)


def test_the_node_alone_is_not_cleaned_while_the_service_would_put_everything_back(installed: Machine) -> None:
    with pytest.raises(InputError, match="systemctl disable --now"):
        run(installed, FakeCluster(installed, published()), files=False)

    installed.programs.active = False
    report = run(installed, FakeCluster(installed, published()), files=False)
    assert report.problems == []
    assert installed.has(UNIT)
    assert installed.programs.calls == ["4 writes"]


def test_what_a_package_brought_is_left_to_the_package(machine: Machine) -> None:
    machine.write("usr/lib/systemd/system/edgeagent.service", "[Service]\n")
    machine.install(k3s_reserves=True)
    machine.programs.active = True
    machine.write("etc/passwd", "edgeagent:x:997:997:edgeagent node agent:/:/usr/sbin/nologin\n")
    machine.programs.calls.clear()

    report = run(machine, FakeCluster(machine, published()), purge=True)

    assert report.problems == []
    assert machine.programs.calls == [
        "systemctl stop edgeagent.service",
        "4 writes",
    ]
    assert files_of_ours(machine) == ["usr/lib/systemd/system/edgeagent.service"]
    assert machine.systemd.has_user()
