"""What the manifests share with the rest of the project is the same there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from edgeagent import cli, config
from edgeagent.config import Config
from edgeagent.plan import conditions, labels
from edgeagent.quantity import parse
from tests.deploy.applying import documents

ROOT = Path(__file__).parents[2]


def pod() -> dict[str, Any]:
    (found,) = (one for one in documents("k3s/edgeagent.yaml") if one["kind"] == "DaemonSet")
    template: dict[str, Any] = found["spec"]["template"]["spec"]
    return template


def container() -> dict[str, Any]:
    (found,) = pod()["containers"]
    return dict(found)


def mounts() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Mount and volume by the path in the container."""
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    return {one["mountPath"]: (one, volumes[one["name"]]) for one in container()["volumeMounts"]}


def test_the_pod_has_the_rights_of_the_service_and_no_other() -> None:
    unit = (ROOT / "systemd" / "edgeagent.service").read_text()
    service = re.findall(r"^CapabilityBoundingSet=(.+)$", unit, re.MULTILINE)[0].split()
    context = container()["securityContext"]

    assert {f"CAP_{name}" for name in context["capabilities"]["add"]} == set(service)
    assert context["capabilities"]["drop"] == ["ALL"]
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]
    assert "privileged" not in context
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_command_line_is_one_that_the_agent_knows() -> None:
    # The parser ends the process over an argument that it does not know.
    parsed = cli._parser().parse_args(container()["args"])  # noqa: SLF001 (there is no other way to ask without running it)

    assert container()["command"] == ["edgeagent"]
    assert parsed.host_root == Path("/host")
    mount, volume = mounts()["/host"]
    assert volume["hostPath"]["path"] == "/"
    assert (mount["readOnly"], mount["mountPropagation"]) == (True, "HostToContainer")


def test_the_configuration_is_where_the_agent_looks_and_is_valid() -> None:
    mount, volume = mounts()[str(config.DEFAULT_FILE.parent)]
    (file,) = (one for one in documents("k3s/edgeagent.yaml") if one["kind"] == "ConfigMap")

    assert volume["projected"]["sources"][0] == {"configMap": {"name": file["metadata"]["name"]}}
    assert mount["readOnly"]
    assert list(file["data"]) == [config.DEFAULT_FILE.name]
    assert config.load([("edgeagent", file["data"]["config.yaml"])]).mode == "observe"


def test_a_configuration_that_no_manifest_brings_is_read_last_and_may_be_missing() -> None:
    """What an update does not apply it does not put back."""
    _, volume = mounts()[str(config.DEFAULT_FILE.parent)]
    _, own = volume["projected"]["sources"]
    (item,) = own["configMap"]["items"]
    metrics = (ROOT / "deploy/components/pod-monitor/kustomization.yaml").read_text()

    assert own["configMap"]["optional"] is True
    assert f"name: {own['configMap']['name']}\n" not in "".join(
        path.read_text()
        for path in (ROOT / "deploy").rglob("*.yaml")
        if "daemonset" not in path.name and "k3s" not in path.parts
    )
    (other,) = re.findall(r"path: (config\.d/\S+)", metrics)
    assert item["path"] > other
    assert Path(item["path"]).parent == Path("config.d")


def test_the_configuration_for_metrics_is_valid() -> None:
    (file,) = documents("components/pod-monitor/configmap.yaml")

    loaded = config.load([("metrics", file["data"]["metrics.yaml"])])

    assert loaded.serve.bind.endswith(":9843")
    assert loaded.serve.token_file == str(config.DEFAULT_FILE.with_name("metrics-token"))


def test_the_configuration_for_metrics_is_found_beside_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder as the kubelet lays out a projected volume: all names are links, and ``..data`` is one too."""
    patch = (ROOT / "deploy/components/pod-monitor/kustomization.yaml").read_text()
    (name,) = re.findall(r"path: (config\.d/\S+)", patch)
    files = {
        "config.yaml": "mode: observe\n",
        name: documents("components/pod-monitor/configmap.yaml")[0]["data"]["metrics.yaml"],
    }
    for path, text in files.items():
        (tmp_path / "..1" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "..1" / path).write_text(text)
    (tmp_path / "..data").symlink_to("..1")
    for top in ("config.yaml", "config.d"):
        (tmp_path / top).symlink_to(f"..data/{top}")
    monkeypatch.setattr(config, "DEFAULT_FILE", tmp_path / "config.yaml")

    loaded = config.read(None)

    assert (loaded.mode, loaded.serve.bind) == ("observe", "0.0.0.0:9843")


def test_the_probes_ask_where_the_agent_listens() -> None:
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        asked = container()[probe]["httpGet"]
        assert (f"{asked['host']}:{asked['port']}", asked["path"]) == (Config().serve.bind, path)
    assert pod()["hostNetwork"]
    assert container()["ports"] == [{"name": "http", "containerPort": 9843}]


@pytest.mark.parametrize("path", ["/var/lib/edgeagent", "/run/edgeagent"])
def test_state_and_lock_are_those_of_the_host(path: str) -> None:
    mount, volume = mounts()[path]

    assert volume["hostPath"] == {"path": path, "type": "DirectoryOrCreate"}
    assert not mount.get("readOnly")
    assert pod()["hostPID"], "the lock names a process, and so does the state"


def test_the_agent_knows_its_node_and_itself() -> None:
    env = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container()["env"]}

    assert env == {"NODE_NAME": "spec.nodeName", "POD_UID": "metadata.uid"}


def test_its_memory_is_bounded_and_booked_alike() -> None:
    resources = container()["resources"]

    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    assert "cpu" not in resources["limits"]
    # Twice the goal of 45 MiB for what it holds, and less than the smallest reserve that it would otherwise hide in.
    assert 90 * 2**20 <= parse(resources["limits"]["memory"]) <= 128 * 2**20


def test_the_policy_names_what_the_agent_writes() -> None:
    text = (ROOT / "deploy/components/service-account/policy.yaml").read_text()

    assert f"['{conditions.TYPES[0]}'" in text
    assert set(re.findall(r"'(GPU\w+)'", text)) == set(conditions.TYPES)
    assert f"== '{labels.AI_CAPABLE}'" in text
