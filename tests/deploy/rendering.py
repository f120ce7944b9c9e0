"""What the files of ``deploy/`` render to, by the real kustomize and the real helm.

After a change of ``deploy/base``, of the alerts or of the dashboard, ``python -m tests.deploy.rendering`` writes anew
what is made from them.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.deploy import build, monitoring

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEPLOY = Path(__file__).parents[2] / "deploy"
K3S_FILE = DEPLOY / "k3s" / "edgeagent.yaml"
NAMESPACE = "edgeagent-system"

Objects = dict[tuple[str, str, str], dict[str, Any]]
"""By kind, namespace (empty for an object of the cluster) and name."""

_HEAD = """\
# edgeagent for K3s, in one file. On a server:
#
#   sudo install -m 600 edgeagent.yaml /var/lib/rancher/k3s/server/manifests/edgeagent.yaml
#
# K3s applies it, and applies it again whenever it changes. To end it: docs/how-to/run-as-a-daemonset.md.
# This is deploy/base; python -m tests.deploy.rendering writes it.
---
"""


def base() -> str:
    """The base alone."""
    return _run("kustomize", "build", str(DEPLOY / "base"))


def with_components(*components: str, files: Mapping[str, str] | None = None, **more: Any) -> str:
    """The base with components by their names, in a kustomization as a user would write it.

    Args:
        components: their names.
        files: files beside the kustomization, by their names.
        more: other fields of the kustomization.
    """
    with tempfile.TemporaryDirectory() as folder:
        deploy = os.path.relpath(DEPLOY, Path(folder).resolve())  # kustomize wants relative paths
        content = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [f"{deploy}/base"],
            "components": [f"{deploy}/components/{name}" for name in components],
            **more,
        }
        for name, text in (files or {}).items():
            (Path(folder) / name).write_text(text)
        (Path(folder) / "kustomization.yaml").write_text(json.dumps(content))
        return _run("kustomize", "build", folder)


def chart(values: Mapping[str, Any], *, namespace: str = NAMESPACE) -> str:
    """The chart with these values.

    Raises:
        subprocess.CalledProcessError: helm refuses them; ``stderr`` says why.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        release = ("edgeagent", str(DEPLOY / "chart"), "--namespace", namespace, "--values", file.name)
        return _run("helm", "template", *release, "--kube-version", "1.37.0")


def lint() -> None:
    """Have helm look at the chart.

    Raises:
        subprocess.CalledProcessError: it has a warning.
    """
    _run("helm", "lint", "--strict", str(DEPLOY / "chart"))


def objects(text: str) -> Objects:
    """The objects of a stream of YAML documents; a configuration inside a ConfigMap is read as well."""
    return _by_name(document for document in yaml.safe_load_all(text) if document)


def _by_name(documents: Iterable[dict[str, Any]]) -> Objects:
    found: Objects = {}
    for document in documents:
        if document["kind"] == "ConfigMap":
            document["data"] = {key: yaml.safe_load(text) for key, text in document["data"].items()}
        metadata = document["metadata"]
        key = (document["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found, f"{key} is rendered twice"
        found[key] = document
    return found


def k3s_file() -> str:
    """What ``deploy/k3s/edgeagent.yaml`` has to be."""
    return _HEAD + base()


def _run(name: str, *arguments: str) -> str:
    command = [str(build.folder() / name), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    build.build()
    K3S_FILE.write_text(k3s_file())
    for path, text in monitoring.made().items():
        path.write_text(text)
