"""``edgeagent doctor`` beside a real kubelet: who asks, with which rights, and a shell to paste remedies into."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from kubernetes import client

from tests.cluster.agentprocess import AgentProcess
from tests.cluster.doclines import ROOT
from tests.cluster.livescene import LiveScene
from tests.cluster.objects import create_pod, pod, wait_pod
from tests.cluster.recorded import recorded_board
from tests.controlplane.credentials import write_kubeconfig
from tests.controlplane.waiting import wait_for
from tests.deploy import build
from tests.deploy.applying import call, documents

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ACCOUNT = "edgeagent"
K3S_CONTAINERD = "var/lib/rancher/k3s/agent/etc/containerd/config.toml"
CONFIG = "policy: {start_grace: 1s}\nsampling: {interval: 500ms, fast: 100ms, max_age: 5s}\n"
"""GPU memory is told to be idle after fifteen times that grace."""


def account(namespace: str) -> list[dict[str, Any]]:
    """The component service-account, in a namespace of the test's own."""
    found = documents("components/service-account/rbac.yaml", "components/service-account/policy.yaml")
    for one in found:
        if "namespace" in one["metadata"]:
            one["metadata"]["namespace"] = namespace
        for subject in one.get("subjects", ()):
            subject["namespace"] = namespace
    return found


@dataclass(frozen=True)
class Page:
    """What doctor printed for people."""

    code: int
    text: str

    def remedy(self, finding: str, subject: str) -> list[str]:
        """What a finding's remedy has to be pasted, line by line as it is printed: it stands at the margin.

        Raises:
            ValueError: there is not one such finding.
        """
        head = re.compile(rf"\w+ {finding} \(\S+, {re.escape(subject)}\) ")
        (block,) = (block for block in self.text.split("\n\n") if head.match(" ".join(block.split())))
        lines = block.partition("\n    → ")[2].partition("\n    docs/")[0].splitlines()[1:]
        return list(dropwhile(lambda row: row.startswith(" "), lines))


class Clinic(LiveScene):
    """A scene whose board has the containerd of the node; its agent has the rights of a service account."""

    def __enter__(self) -> Clinic:
        super().__enter__()
        try:
            self._furnish()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _furnish(self) -> None:
        used = (self.node.folder / "containerd.toml").read_text()
        self._root.write(K3S_CONTAINERD, used)
        self._root.write(str(self.node.folder / "nvidia-container-runtime").lstrip("/"), "")
        self.operator = self.plane.admin_kubeconfig
        self.node_credential = self.plane.node_kubeconfig(self.node.name)
        self.service_account = self._service_account()
        self.watching = self._start_agent()
        self._program("edgeagent", [*self._root.namespace.entry, "env", f"--chdir={ROOT}", *self._doctor()])

    def doctor(self, *words: str, by: Path) -> list[dict[str, Any]]:
        """What doctor finds with these credentials."""
        done = self._run(["edgeagent", "doctor", *words, "--format", "json"], by)
        assert done.returncode in (0, 1), done
        document = json.loads(done.stdout)
        assert done.returncode == any(one["severity"] == "error" for one in document["findings"])
        return list(document["findings"])

    def page(self, *words: str, by: Path) -> Page:
        """What doctor prints with these credentials."""
        done = self._run(["edgeagent", "doctor", *words], by)
        assert done.returncode in (0, 1), done
        return Page(done.returncode, done.stdout)

    def paste(self, lines: list[str]) -> None:
        """An operator copies lines that were printed into a shell."""
        assert lines
        done = self._run(["bash", "-c", "\n".join(lines)], self.operator)
        assert done.returncode == 0, (lines, done)

    def seen(self) -> set[tuple[str, str]]:
        """(id, subject) of what the running agent has found."""
        return {(one["id"], one["subject"]) for one in self.watching.get("/api/v1/findings")[1]["findings"]}

    def deploy(self, name: str, *, limits: Mapping[str, str], runtime_class: str | None = None) -> None:
        """A Deployment of one pod."""
        spec = self.model(name, limits=limits)["spec"] | {"runtimeClassName": runtime_class}
        template = {"metadata": {"labels": {"app": name}}, "spec": spec}
        body = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
        self.apps.create_namespaced_deployment(self.namespace, {"metadata": {"name": name}, "spec": body})

    def pods(self, app: str) -> list[Any]:
        """The pods of a Deployment, those on their way out left aside."""
        found = self.plane.api.list_namespaced_pod(self.namespace, label_selector=f"app={app}").items
        return [one for one in found if not one.metadata.deletion_timestamp]

    def wait_only(self, app: str, phase: str) -> Any:
        """Wait until a Deployment has one pod, in this phase; returns it."""

        def only() -> Any:
            found = self.pods(app)
            return found[0] if [one.status.phase for one in found] == [phase] else None

        return wait_for(f"one pod of {app}, {phase}", only, seconds=120, every=0.2)

    @property
    def apps(self) -> Any:
        return client.AppsV1Api(self.plane.api.api_client)

    @property
    def classes(self) -> Any:
        return client.NodeV1Api(self.plane.api.api_client)

    def _service_account(self) -> Path:
        """A kubeconfig with the token that the agent's pod would have on the node."""
        manifest = pod("agent", namespace=self.namespace, node=self.node.name, grace=0)
        manifest["spec"]["serviceAccountName"] = ACCOUNT
        agent = wait_pod(self.plane.api, create_pod(self.plane.api, manifest), "Running")
        bound = {"kind": "Pod", "apiVersion": "v1", "name": agent.metadata.name, "uid": agent.metadata.uid}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"boundObjectRef": bound, "audiences": None},
        }
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{ACCOUNT}/token"
        token = str(call(self.plane.api, "POST", path, body)["status"]["token"])
        return write_kubeconfig(self._folder / "account.kubeconfig", self.plane.server, self.plane.ca_file, token)

    def _start_agent(self) -> AgentProcess:
        agent = AgentProcess(
            self.plane,
            self.node.name,
            self._root.path,
            self._folder / "agent",
            config=CONFIG,
            popen=self._root.popen,
        )
        agent.argv[agent.argv.index("--kubeconfig") + 1] = str(self.service_account)
        self._agents.append(agent)
        self._stack.enter_context(agent).wait_ready()
        return agent

    def _doctor(self) -> list[str]:
        """The program, with what tells it that this is the board and where its files are."""
        files = {"--host-root": self._root.path, "--config": self._folder / "agent/config.yaml"}
        replay = {"--nvml-replay": recorded_board() / "nvml.json", "--node": self.node.name}
        options = [str(word) for pair in {**files, **replay}.items() for word in pair]
        return [sys.executable, "-m", "edgeagent", '"$@"', *options]

    def _program(self, name: str, words: list[str]) -> None:
        path = self._folder / "bin" / name
        path.parent.mkdir()
        line = " ".join(word if word == '"$@"' else shlex.quote(word) for word in words)
        path.write_text(f"#!/bin/sh\nexec {line}\n")
        path.chmod(0o755)

    def _run(self, command: list[str], kubeconfig: Path) -> subprocess.CompletedProcess[str]:
        path = f"{self._folder / 'bin'}:{build.folder()}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig)}
        return subprocess.run(
            command, check=False, capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, timeout=120
        )
