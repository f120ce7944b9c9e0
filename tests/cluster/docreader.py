"""Somebody who follows a page of the documentation: types its commands into a shell, on a cluster of the page's own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from kubernetes import client

from tests.cluster.agentprocess import AgentProcess
from tests.cluster.doclines import ROOT
from tests.cluster.objects import create_node, patch_node_status, play_end, play_start
from tests.cluster.recorded import Board
from tests.controlplane.waiting import wait_for
from tests.deploy import build
from tests.deploy.applying import call
from tests.unit.test_docs import blocks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

    from tests.controlplane.plane import ControlPlane

NODE = "orin-1"
"""What the pages call the reader's board."""

SYSTEM = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}
_PATIENCE = 20.0
_NAMESPACES = ("vision", "edgeagent-system")
"""Those that pages make by name."""


class PlayedKubelets:
    """The part of every kubelet: pods that have a node run at once, and end at once when they are told to."""

    def __init__(self, plane: ControlPlane) -> None:
        self._api = plane.core(plane.admin_kubeconfig)
        self._over = Event()
        self._thread = Thread(target=self._play, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _play(self) -> None:
        # As plain data: the client's models of all pods, ten times a second, would keep a core busy.
        while not self._over.wait(0.1):
            for pod in call(self._api, "GET", "/api/v1/pods", query={"fieldSelector": "spec.nodeName!="})["items"]:
                try:
                    self._attend(pod)
                except client.ApiException as error:
                    if error.status not in (404, 409):  # it has changed, or is gone, since it was listed
                        raise

    def _attend(self, pod: dict[str, Any]) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        if "deletionTimestamp" in pod["metadata"]:
            play_end(self._api, self._api.read_namespaced_pod(name, namespace))
        elif pod["status"]["phase"] == "Pending":
            play_start(self._api, self._api.read_namespaced_pod(name, namespace))


@dataclass(frozen=True)
class Said:
    """What came of a command."""

    code: int
    out: str
    err: str

    def shows(self, patterns: tuple[str, ...]) -> bool:
        """Whether the command went well and printed all of this."""
        return self.code == 0 and all(re.search(pattern, self.out, re.MULTILINE) for pattern in patterns)


class Reader:
    """A shell in a folder like the repository's, a namespace, and the nodes that the page presumes."""

    def __init__(self, plane: ControlPlane, folder: Path, text: str = "") -> None:
        """``folder`` is empty; the files that the page's text has the reader write are there on entry."""
        self.plane = plane
        self.folder = folder
        self.port = 0
        self.namespace = f"page-{uuid.uuid4().hex[:8]}"
        self.replaced: dict[str, str] = {}
        """Paths of a real board, and where they are here."""
        self._stack = ExitStack()
        self._nodes: list[str] = []
        self._variables: list[str] = []
        self._text = text

    def __enter__(self) -> Self:
        # The controller waits for five seconds before it looks at a namespace that was deleted.
        named = {name for name in _NAMESPACES if re.search(rf"^ .*kubectl .*{name}", self._text, re.MULTILINE)}
        wait_for("no namespace of an earlier page", lambda: not named & self._namespaces())
        self._before = self._namespaces()
        self.plane.api.create_namespace({"metadata": {"name": self.namespace}})
        shutil.copytree(ROOT / "deploy", self.folder / "deploy")
        for block in blocks(self._text, "yaml"):
            title = block.splitlines()[0].removeprefix("# ")
            if re.fullmatch(r"[\w-]+\.yaml", title):
                (self.folder / title).write_text(block)
        kubeconfig = self._kubeconfig()
        (self.folder / "admin.kubeconfig").write_text(kubeconfig)
        (self.folder / "home/.kube").mkdir(parents=True)
        (self.folder / "home/.kube/config").write_text(kubeconfig)
        program = f'exec {shlex.quote(sys.executable)} -m edgeagent "$@"\n'
        for place in ("bin", ".venv/bin", "home/edgeagent-venv/bin"):
            self._program(f"{place}/edgeagent", program)
        self._program("bin/sudo", 'exec "$@"\n')
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()
        if self.pods():  # or they would take room on the next page's nodes, until the namespace is gone
            self.type("kubectl delete deployment,job,pod --all --force --grace-period=0")
            wait_for("no pods", lambda: not self.pods())
        for name in self._namespaces() & {self.namespace, *_NAMESPACES} - self._before:
            self.plane.api.delete_namespace(name)
        for name in self._nodes:
            self.plane.api.delete_node(name)

    # --- the cluster -----------------------------------------------------------------------

    def node(
        self, name: str = NODE, labels: Mapping[str, str] | None = None, *, memory: str = "8Gi", **more: Any
    ) -> None:
        """A Ready node. Of ``more``, ``offer`` is what an agent has published as capacity."""
        create_node(
            self.plane.api, name, memory=memory, labels={"kubernetes.io/hostname": name, **SYSTEM, **(labels or {})}
        )
        self._nodes.append(name)
        self.offer(name, more.get("offer", {}))

    def offer(self, name: str, resources: Mapping[str, str]) -> None:
        """What an agent does."""
        patch_node_status(
            self.plane.api, name, {"status": {"capacity": dict(resources), "allocatable": dict(resources)}}
        )

    def agent(self, config: str) -> None:
        """An agent on the reader's board, which is the recorded Orin Nano; it has published when this returns."""
        self.board = Board.copy(self.folder / "root")
        self._agent = AgentProcess(self.plane, NODE, self.board.root, self.folder / "agent", config=config)
        self._stack.enter_context(self._agent)
        self._agent.wait_ready()
        self.port = int((self._agent.runtime / "address").read_text().rpartition(":")[2])

    def stop_agent(self) -> None:
        """What it published stays."""
        assert self._agent.stop() == 0

    def pods(self, label: str = "", namespace: str = "") -> list[Any]:
        """The pods with a label, those on their way out left aside."""
        found = self.plane.api.list_namespaced_pod(namespace or self.namespace, label_selector=label).items
        return [pod for pod in found if not pod.metadata.deletion_timestamp]

    # --- the shell -------------------------------------------------------------------------

    def type(self, line: str) -> Said:
        """Run a command as it stands, paths of a real board apart."""
        for ours, here in {**self.replaced, ":9843": f":{self.port}"}.items():
            line = line.replace(ours, here)
        if re.match(r"\w+=", line):
            self._variables.append(line)
        environ = {
            "PATH": f"{self.folder / 'bin'}:{build.folder()}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "KUBE_EDITOR": "sed -i s/enforce/observe/",
            "PYTHONPATH": str(ROOT),
        }
        script = "\n".join([*self._variables, line])
        command = ["timeout", "60", "bash", "-c", script]
        done = subprocess.run(command, check=False, cwd=self.folder, env=environ, capture_output=True, text=True)
        return Said(done.returncode, done.stdout, done.stderr)

    def look(self, line: str, patterns: tuple[str, ...]) -> Said:
        """Run a command that only looks, again and again until it shows all of this or patience ends."""
        end = time.monotonic() + _PATIENCE
        while True:
            said = self.type(line)
            if said.shows(patterns) or time.monotonic() > end:
                return said
            time.sleep(0.2)

    def _program(self, place: str, text: str) -> None:
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)

    def _kubeconfig(self) -> str:
        """The admin's, with this namespace for the default one, and a second context of another name."""
        found = json.loads(self.plane.admin_kubeconfig.read_text())
        (context,) = found["contexts"]
        context["context"]["namespace"] = self.namespace
        found["contexts"].append({**context, "name": "site-berlin"})
        return json.dumps(found)

    def _namespaces(self) -> set[str]:
        return {one.metadata.name for one in self.plane.api.list_namespace().items}
