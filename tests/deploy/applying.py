"""Puts manifests of ``deploy/`` on a real API server, every unknown field an error, and takes them off again."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import yaml
from kubernetes import client

from tests.controlplane.waiting import wait_for
from tests.deploy.rendering import DEPLOY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.controlplane.plane import ControlPlane

# Where objects of a kind live: the path of the API, with the namespace still to be filled in.
_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "DaemonSet": "/apis/apps/v1/namespaces/{namespace}/daemonsets",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{namespace}/statefulsets",
    "ReplicaSet": "/apis/apps/v1/namespaces/{namespace}/replicasets",
    "Job": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "CronJob": "/apis/batch/v1/namespaces/{namespace}/cronjobs",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
} | {
    f"{kind}AdmissionPolicy{binding}": f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}admissionpolic{plural}"
    for kind in ("Validating", "Mutating")
    for binding, plural in (("", "ies"), ("Binding", "ybindings"))
}


def documents(*names: str) -> list[dict[str, Any]]:
    """The objects in files of ``deploy/``."""
    return [one for name in names for one in yaml.safe_load_all((DEPLOY / name).read_text()) if one]


def call(
    api: Any,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    query: dict[str, str] | None = None,
    content_type: str = "application/json",
) -> dict[str, Any]:
    """One request as the user of ``api`` (``ControlPlane.core``); the answer as plain data.

    Raises:
        client.ApiException: refused.
    """
    request = api.api_client.param_serialize(
        method,
        path,
        query_params=list((query or {}).items()),
        header_params={"Content-Type": content_type, "Accept": "application/json"},
        body=body,
        auth_settings=["BearerToken"],
    )
    answer = api.api_client.call_api(*request)
    answer.read()
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise client.ApiException(http_resp=answer, body=answer.data.decode())
    found: dict[str, Any] = json.loads(answer.data)
    return found


def path_of(manifest: dict[str, Any]) -> str:
    """The path of an object."""
    return f"{_collection(manifest)}/{manifest['metadata']['name']}"


def _collection(manifest: dict[str, Any]) -> str:
    return _PATHS[manifest["kind"]].format(namespace=manifest["metadata"].get("namespace"))


def create(api: Any, manifest: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
    """Create an object, or ask what would be created.

    Raises:
        client.ApiException: refused.
    """
    query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
    return call(api, "POST", _collection(manifest), manifest, query=query)


def delete(api: Any, manifest: dict[str, Any]) -> None:
    """Take an object away, with what it owns."""
    call(api, "DELETE", path_of(manifest), {"propagationPolicy": "Background"})


@contextmanager
def applied(plane: ControlPlane, manifests: Iterable[dict[str, Any]]) -> Iterator[None]:
    """The objects are there inside the block. A namespace that was there before stays, another ends after the block."""
    made = []
    try:
        for manifest in manifests:
            if manifest["kind"] != "Namespace" or not _is_active(plane.api, manifest["metadata"]["name"]):
                create(plane.api, manifest)
                made.append(manifest)
        yield
    finally:
        for manifest in reversed(made):
            delete(plane.api, manifest)


def _is_active(api: Any, namespace: str) -> bool:
    """Whether there is such a namespace; one that is on its way out is waited for."""
    wait_for(f"{namespace} gone or active", lambda: _phase(api, namespace) != "Terminating")
    return _phase(api, namespace) == "Active"


def wait_gone(api: Any, namespace: str) -> None:
    """Wait for the end of a namespace, if there is one."""
    wait_for(f"{namespace} gone", lambda: _phase(api, namespace) is None)


def _phase(api: Any, namespace: str) -> str | None:
    found = {one.metadata.name: one.status.phase for one in api.list_namespace().items}
    return found.get(namespace)
