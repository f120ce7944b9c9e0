"""The base, the file for K3s and the chart are one deployment: each object of one is an object of the others."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
import yaml

from edgeagent import __version__
from tests.deploy import rendering
from tests.deploy.rendering import DEPLOY, NAMESPACE, chart, objects, with_components

pytestmark = pytest.mark.usefixtures("tools")

COMPONENTS: list[tuple[str, dict[str, Any]]] = [
    ("service-account", {"serviceAccount": True}),
    ("pod-monitor", {"podMonitor": {"enabled": True}}),
    ("alert-rules", {"alertRules": {"enabled": True}}),
    ("grafana-dashboard", {"grafanaDashboard": {"enabled": True}}),
    ("nvidia-runtime", {"runtimeClassName": "nvidia"}),
    ("gpu-pods", {"gpuPods": {"enabled": True}}),
    ("cuda-context", {"cudaContext": {"enabled": True}}),
]
"""Each component and the values of the chart that stand for it."""


def test_the_file_for_k3s_is_the_base() -> None:
    assert rendering.K3S_FILE.read_text() == rendering.k3s_file(), "run python -m tests.deploy.rendering"


def test_the_chart_renders_the_base() -> None:
    assert objects(chart({"createNamespace": True})) == objects(rendering.base())


@pytest.mark.parametrize(("component", "values"), COMPONENTS, ids=[name for name, _ in COMPONENTS])
def test_each_component_is_a_value_of_the_chart(component: str, values: dict[str, Any]) -> None:
    built = objects(with_components(component))

    assert objects(chart({"createNamespace": True, **values})) == built
    assert built != objects(rendering.base())


def test_all_components_together_are_all_values_together() -> None:
    values = {key: value for _, given in COMPONENTS for key, value in given.items()}
    assert {path.name for path in (DEPLOY / "components").iterdir()} == {name for name, _ in COMPONENTS}

    together = objects(with_components(*(name for name, _ in COMPONENTS)))

    assert objects(chart({"createNamespace": True, **values})) == together


def test_helm_finds_nothing_to_complain_of() -> None:
    rendering.lint()


def test_the_chart_leaves_the_namespace_to_helm() -> None:
    assert set(objects(rendering.base())) - set(objects(chart({}))) == {("Namespace", "", NAMESPACE)}


def test_the_chart_goes_into_another_namespace_as_a_whole() -> None:
    values = {key: value for _, given in COMPONENTS for key, value in given.items()}

    text = chart({"createNamespace": True, **values}, namespace="elsewhere")

    assert {namespace for _, namespace, _ in objects(text)} == {"", "elsewhere"}
    assert NAMESPACE not in text


def test_values_that_a_cluster_needs_arrive() -> None:
    values = {
        "image": {"repository": "registry.example.com/edgeagent", "tag": "1", "pullPolicy": "Always"},
        "imagePullSecrets": ["login"],
        "nodeSelector": {"ai": "yes"},
        "resources": {"limits": {"memory": "128Mi"}},
        "config": {"mode": "enforce"},
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "tokenSecret": "mine"},
        "alertRules": {"enabled": True, "labels": {"release": "prometheus"}},
        "grafanaDashboard": {"enabled": True, "labels": {"grafana_dashboard": "boards"}},
    }

    found = objects(chart(values))
    pod = found["DaemonSet", NAMESPACE, "edgeagent"]["spec"]["template"]["spec"]
    monitor = found["PodMonitor", NAMESPACE, "edgeagent"]

    assert pod["containers"][0]["image"] == "registry.example.com/edgeagent:1"
    assert pod["containers"][0]["imagePullPolicy"] == "Always"
    assert pod["containers"][0]["resources"] == {
        "limits": {"memory": "128Mi"},
        "requests": {"cpu": "50m", "memory": "96Mi"},
    }
    assert pod["imagePullSecrets"] == [{"name": "login"}]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "ai": "yes"}
    assert found["ConfigMap", NAMESPACE, "edgeagent"]["data"]["config.yaml"]["mode"] == "enforce"
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert found["PrometheusRule", NAMESPACE, "edgeagent"]["metadata"]["labels"]["release"] == "prometheus"
    dashboard = found["ConfigMap", NAMESPACE, "edgeagent-dashboard"]
    assert dashboard["metadata"]["labels"] == {"app.kubernetes.io/name": "edgeagent", "grafana_dashboard": "boards"}
    secrets = [source["secret"]["name"] for source in pod["volumes"][0]["projected"]["sources"] if "secret" in source]
    assert secrets == [monitor["spec"]["podMetricsEndpoints"][0]["authorization"]["credentials"]["name"]] == ["mine"]


def probes(values: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Scheme, host and port of the two probes, and the port of the container."""
    (container,) = objects(chart(values))["DaemonSet", NAMESPACE, "edgeagent"]["spec"]["template"]["spec"]["containers"]
    asked = [container[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness")]
    (port,) = container["ports"]
    return [(one.get("scheme", "HTTP"), one["host"], one["port"], port["containerPort"]) for one in asked]


@pytest.mark.parametrize(
    ("serve", "asked"),
    [
        ({}, ("HTTP", "127.0.0.1", 9843, 9843)),
        ({"bind": "127.0.0.1:9900"}, ("HTTP", "127.0.0.1", 9900, 9900)),
        # All addresses are asked at loopback, one address at itself.
        ({"bind": "0.0.0.0:9900", "insecure": True}, ("HTTP", "127.0.0.1", 9900, 9900)),
        ({"bind": "[::]:9900", "insecure": True}, ("HTTP", "::1", 9900, 9900)),
        ({"bind": "192.0.2.7:9843", "insecure": True}, ("HTTP", "192.0.2.7", 9843, 9843)),
        ({"tls": {"cert": "/c", "key": "/k"}}, ("HTTPS", "127.0.0.1", 9843, 9843)),
    ],
    ids=json.dumps,
)
def test_the_probes_ask_where_the_configuration_has_the_agent_listen(
    serve: dict[str, Any], asked: tuple[Any, ...]
) -> None:
    assert probes({"config": {"mode": "observe", "serve": serve}}) == [asked, asked]


def test_the_probes_ask_where_the_configuration_for_metrics_has_the_agent_listen() -> None:
    serve = {"bind": "127.0.0.1:9900"}

    found = probes({"config": {"serve": serve}, "podMonitor": {"enabled": True}})

    assert found == [("HTTP", "127.0.0.1", 9843, 9843)] * 2


def test_a_port_that_nobody_knows_is_refused() -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        chart({"config": {"serve": {"bind": "127.0.0.1:0"}}})

    assert "serve.bind" in refused.value.stderr


def test_a_name_that_looks_like_a_number_stays_a_name() -> None:
    values = {
        "image": {"repository": "1", "tag": "2"},
        "imagePullSecrets": ["123"],
        "runtimeClassName": "456",
        "podMonitor": {"enabled": True, "tokenSecret": "789"},
        "cudaContext": {"enabled": True, "gpuMemory": "1073741824"},
    }

    found = objects(chart(values))
    pod = found["DaemonSet", NAMESPACE, "edgeagent"]["spec"]["template"]["spec"]
    (endpoint,) = found["PodMonitor", NAMESPACE, "edgeagent"]["spec"]["podMetricsEndpoints"]

    assert pod["containers"][0]["image"] == "1:2"
    assert pod["imagePullSecrets"] == [{"name": "123"}]
    assert pod["runtimeClassName"] == "456"
    assert pod["volumes"][0]["projected"]["sources"][-1]["secret"]["name"] == "789"
    assert endpoint["authorization"]["credentials"]["name"] == "789"
    overhead = found["RuntimeClass", "", "nvidia-cuda"]["overhead"]["podFixed"]
    assert overhead == {"edgeagent.dev/gpu-memory": "1073741824"}


def test_the_policies_hold_the_account_in_whatever_namespace_it_is_put() -> None:
    """A kustomization's ``namespace`` changes names of objects, and not what stands inside an expression."""
    found = objects(with_components("service-account", namespace="elsewhere"))
    policies = [one for (kind, _, _), one in found.items() if kind == "ValidatingAdmissionPolicy"]

    assert ("ServiceAccount", "elsewhere", "edgeagent") in found
    assert len(policies) == 3
    for policy in policies:
        (condition,) = policy["spec"]["matchConditions"]
        (pattern,) = re.findall(r"username\.matches\('(.+)'\)", condition["expression"])
        assert re.search(pattern, "system:serviceaccount:elsewhere:edgeagent")
        assert not re.search(pattern, "system:serviceaccount:elsewhere:edgeagent-2")
        assert not re.search(pattern, "system:serviceaccount:edgeagent:other")


def test_the_policies_of_the_chart_set_another_class() -> None:
    found = objects(chart({"gpuPods": {"enabled": True, "runtimeClassName": "nvidia-cuda"}}))
    policy = json.dumps(found["MutatingAdmissionPolicy", "", "edgeagent-gpu-pods"])

    assert "value: 'nvidia-cuda'}" in policy
    assert "value: 'nvidia'}" not in policy


@pytest.mark.parametrize(
    "wrong",
    [
        {"serviceacount": True},
        {"serviceAccount": "yes"},
        {"config": {"mode": "enforced"}},
        {"image": {"pullPolicy": "Sometimes"}},
        {"cudaContext": {"gpuMemory": "0.5Gi"}},
        {"podMonitor": {"tokenSecret": ""}},
        {"alertRules": {"labels": {"release": 1}}},
        {"grafanaDashboard": {"enabled": "yes"}},
        {"gpuPods": {"runtimeClassName": "it's"}},
        {"runtimeClassName": "It"},
    ],
    ids=json.dumps,
)
def test_a_wrong_value_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        chart(wrong)

    assert "values.schema.json" in refused.value.stderr or "schema" in refused.value.stderr
    assert next(iter(wrong)) in refused.value.stderr


def leaves(tree: dict[str, Any], path: tuple[str, ...] = ()) -> set[str]:
    """Dotted names of the values that are no section of their own; free maps such as config are one value."""
    found: set[str] = set()
    for key, value in tree.items():
        if "properties" in value and value.get("additionalProperties") is False:
            found |= leaves(value["properties"], (*path, key))
        else:
            found.add(".".join((*path, key)))
    return found


def test_every_value_has_a_default_and_stands_in_the_schema_and_in_the_documentation() -> None:
    schema = json.loads((DEPLOY / "chart" / "values.schema.json").read_text())
    names = leaves(schema["properties"]) - {"global"}
    defaults = yaml.safe_load((DEPLOY / "chart" / "values.yaml").read_text())
    page = (DEPLOY.parent / "docs" / "reference" / "deploy.md").read_text()

    for name in names:
        value: Any = defaults
        for part in name.split("."):
            value = value[part]
    documented = re.findall(
        r"^\| `([a-zA-Z.]+)` \|", page.split("\n## Values of the chart\n")[1].split("\n## ")[0], re.MULTILINE
    )
    assert set(documented) == names


def test_the_version_is_that_of_the_package() -> None:
    meta = yaml.safe_load((DEPLOY / "chart" / "Chart.yaml").read_text())
    pod = objects(rendering.base())["DaemonSet", NAMESPACE, "edgeagent"]["spec"]["template"]["spec"]

    assert (meta["version"], meta["appVersion"]) == (__version__, __version__)
    assert pod["containers"][0]["image"] == f"edgeagent:{__version__}"
