"""Each ``kubectl``, ``helm`` and ``curl`` line of the documentation, run in its page's order on a real API server.

kubectl and helm are the real ones. Nodes have no kubelet: what it would do with pods is played, so what needs one that
runs the agent's image is in ``LEFT_OUT``, with where it is run instead. Boards are the recorded Orin Nano under a real
agent where a page shows what the agent says, and figures written on a node elsewhere.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from tests.cluster.doclines import LINES, ROOT, Line
from tests.cluster.docreader import NODE, PlayedKubelets, Reader
from tests.cluster.docscenes import LEFT_OUT, SCENES, Scene, among, is_, of_scene
from tests.cluster.docstages import bare, published, reserves_set
from tests.controlplane import build as controlplane
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_port
from tests.controlplane.waiting import wait_for
from tests.deploy.applying import create
from tests.deploy.conftest import tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["tools"]  # a fixture

RUNTIME = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"}
"""As K3s makes it."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory, tools: None) -> Iterator[ControlPlane]:  # noqa: ARG001
    """A control plane of these pages' own, because they name nodes and namespaces, and say ``--all``."""
    if controlplane.missing():
        what = f"{', '.join(controlplane.missing())}: run python -m tests.controlplane.build"
        if os.environ.get("CI"):
            pytest.fail(f"the pages need {what}")
        pytest.skip(f"the pages need {what}")
    with ControlPlane(tmp_path_factory.mktemp("pages")) as running, PlayedKubelets(running):
        create(running.api, RUNTIME)
        yield running


@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_the_commands_of_a_page_do_what_it_says(plane: ControlPlane, scene: Scene, tmp_path: Path) -> None:
    with Reader(plane, tmp_path, (ROOT / scene.page).read_text()) as reader:
        scene.stage(reader)
        for line in of_scene(scene):
            play(scene, reader, line)


def play(scene: Scene, reader: Reader, line: str) -> None:
    """One line of a page."""
    happens, follows, shown = (among(keys, line) for keys in (scene.before, scene.after, scene.shows))
    if happens:
        scene.before[happens](reader)
    patterns = scene.shows[shown] if shown else ()
    said = reader.look(line, patterns) if looks(line) else reader.type(line)
    if "| grep " in line:  # nothing to find, which is what the page waits for
        assert (said.code, said.out) == (1, ""), said
        return
    assert said.code == 0, f"{line}: {said}"
    assert said.shows(patterns), f"{line}: {patterns} in\n{said.out}"
    if follows:
        scene.after[follows](reader)


def looks(line: str) -> bool:
    """Whether a line changes nothing, and may have to wait for what it shows."""
    words = shlex.split(line.partition("|")[0], comments=True)
    verbs = [word for word in words if word in ("get", "describe", "apply", "delete", "annotate", "label", "patch")]
    return line.startswith("curl ") or (
        verbs[:1] in (["get"], ["describe"]) and "$(" not in line and "grep" not in line
    )


# --- nothing is forgotten ------------------------------------------------------------------------


def test_each_command_is_run_or_left_out_with_a_reason() -> None:
    played = {(scene.page, text) for scene in SCENES for text in of_scene(scene)}
    left = {(line.page, line.text) for line in LINES if among(LEFT_OUT.get(line.page, {}), line.text)}
    # What is said in a manifest's comment stands on a page too.
    texts = {text for _, text in played}
    comments = {(line.page, line.text) for line in LINES if line.page.startswith("deploy/") and line.text in texts}

    assert {(line.page, line.text) for line in LINES} - played - left - comments == set()
    assert len(played) > 80
    assert len(comments) == 3


@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_a_command_that_looks_says_what_is_to_be_seen(scene: Scene) -> None:
    assert [line for line in of_scene(scene) if looks(line) and not among(scene.shows, line)] == []


def test_what_is_expected_and_left_out_is_still_there() -> None:
    expected = {
        (scene.page, key)
        for scene in SCENES
        for key in (*scene.only, *scene.shows, *scene.before, *scene.after)
        if not any(among((key,), line) for line in of_scene(scene))
    }
    left_out = {
        (page, key)
        for page, reasons in LEFT_OUT.items()
        for key in reasons
        if not any(line.page == page and is_(key, line.text) for line in LINES)
    }

    assert (expected, left_out) == (set(), set())


def test_commands_are_found_wherever_they_stand() -> None:
    assert Line("docs/how-to/sla-and-batch.md", "kubectl scale deployment sla --replicas=2") in LINES
    assert Line("docs/how-to/migrate.md", "kubectl label node orin-1 gpu-") in LINES, "in a table"
    assert Line("docs/how-to/run-as-a-daemonset.md", "kubectl delete -k .") in LINES, "in a list"
    assert Line("deploy/base/kustomization.yaml", "kubectl apply -k deploy/base") in LINES, "in a comment"


# --- what the program prints ---------------------------------------------------------------------


def printed(text: str) -> list[str]:
    """The kubectl commands in what the program said."""
    return re.findall(r"(kubectl [a-z]+ .*)$", text, re.MULTILINE)


@pytest.fixture
def left(plane: ControlPlane, tmp_path: Path) -> Iterator[Reader]:
    """A node with all that an agent has left on it."""
    with Reader(plane, tmp_path) as reader:
        published(reader)
        yield reader


def test_what_is_printed_while_the_api_server_is_away_takes_everything_off(left: Reader) -> None:
    away = left.folder / "away.kubeconfig"
    away.write_text(left.plane.admin_kubeconfig.read_text().replace(f":{left.plane.port}", f":{free_port()}"))

    told = left.type(f"edgeagent uninstall --node-only --kubeconfig {away} --node {NODE}")

    assert (told.code, len(printed(told.out))) == (1, 4)
    for line in printed(told.out):
        assert left.type(line).code == 0, line
    bare(left)


def test_what_is_printed_beside_a_pod_takes_the_rest_off_when_it_has_ended(left: Reader) -> None:
    assert left.type("kubectl apply -f deploy/examples/orin-nano/llm.yaml").code == 0
    wait_for("the model runs", lambda: [pod for pod in left.pods() if pod.status.phase == "Running"])

    told = left.type(f"edgeagent uninstall --node-only --keep-needed --kubeconfig admin.kubeconfig --node {NODE}")
    left.type("kubectl delete --cascade=foreground -f deploy/examples/orin-nano/llm.yaml")

    assert (told.code, len(printed(told.out))) == (1, 2)
    for line in printed(told.out):
        assert left.type(line).code == 0, line
    bare(left)
    assert "ai-capable" not in left.plane.api.read_node(NODE).metadata.labels


def test_what_is_printed_about_a_doubtful_label_takes_it_off(left: Reader) -> None:
    left.type(f"kubectl annotate --overwrite node {NODE} edgeagent.dev/owned-keys=broken")

    told = left.type(f"edgeagent uninstall --node-only --force --kubeconfig admin.kubeconfig --node {NODE}")

    assert printed(told.out) == [f"kubectl label node {NODE} ai-capable-"]
    assert left.type(printed(told.out)[0]).code == 0
    bare(left)
    assert "ai-capable" not in left.plane.api.read_node(NODE).metadata.labels


def test_the_command_before_a_restart_of_k3s_shows_the_requests(plane: ControlPlane, tmp_path: Path) -> None:
    text = (ROOT / "edgeagent/install/setup.py").read_text()
    (line,) = re.findall(r"kubectl describe node NODE(?= )", text)
    with Reader(plane, tmp_path) as reader:
        reserves_set(reader)

        said = reader.look(line.replace("NODE", NODE), (r"(?s)^Allocated resources:\n.*^ +memory +3Gi ",))

        assert said.code == 0


def test_no_other_command_is_printed() -> None:
    """The diagnosis has remedies with commands too; those are pasted in test_doctor."""
    modules = [path for path in (ROOT / "edgeagent").rglob("*.py") if "diagnose" not in path.parts]

    assert sorted(verb for path in modules for verb in re.findall(r"kubectl ([a-z]+) node", path.read_text())) == [
        "describe",
        "label",
        "patch",
    ]
