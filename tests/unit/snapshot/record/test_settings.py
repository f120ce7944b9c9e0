"""What is kept of files that people wrote: all that is read, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edgeagent import config
from edgeagent.cluster import node, pods
from edgeagent.config import Config
from edgeagent.facts import KubeletSettings
from edgeagent.host import containerd, k3s
from edgeagent.host.files import TreeFiles
from edgeagent.snapshot.record import config_yaml, k3s_settings, objects_json, reduce, runtimes
from edgeagent.snapshot.record.redact import NODE, Identity, Redactor
from tests.unit.snapshot.record.secretive import DATA, PASSWORD, TOKEN, files

NOBODY = Redactor(Identity())
"""Knows no names, so that nothing but what is left out can make a difference."""


def reduced(tree: Mapping[str, str | bytes]) -> dict[str, bytes]:
    return {
        path: reduce.content(NOBODY, path, content if isinstance(content, bytes) else content.encode())
        for path, content in tree.items()
    }


def settings(tree: Mapping[str, bytes]) -> KubeletSettings:
    return k3s.settings(TreeFiles(tree))


UNIT = "etc/systemd/system/k3s.service"
CONFIG = "etc/rancher/k3s/config.yaml"
TREES: dict[str, dict[str, str]] = {
    "variables in the command line": {
        UNIT: "[Service]\nEnvironment=MORE=--kubelet-arg=kube-reserved=memory=2Gi\nEnvironmentFile=/etc/edge.env\n"
        "ExecStart=/usr/local/bin/k3s agent $EDGE_ARGS ${MORE} --kubelet-arg=eviction-hard=memory.available<10%%\n",
        "etc/edge.env": "K3S_TOKEN=abc\nEDGE_ARGS=--token abc --kubelet-arg=system-reserved=memory=3Gi -d /mnt/k\n",
        "mnt/k/server/x": "",
    },
    "keys of one letter": {
        UNIT: "[Service]\nExecStart=/usr/local/bin/k3s agent\n",
        CONFIG: "d: /mnt/k\n",
        "mnt/k/server/x": "",
    },
    "files that the kubelet is pointed to": {
        UNIT: "[Service]\nExecStart=/usr/local/bin/k3s agent --kubelet-arg=config=/etc/k.yaml"
        " --kubelet-arg=config-dir=/etc/k.d\n",
        "etc/k.yaml": "systemReserved: {memory: 1Gi}\nstaticPodPath: /secret\n",
        "etc/k.d/10.conf": "kubeReserved: {memory: 2Gi}\n",
    },
    "a plain unit": {UNIT: "[Service]\nExecStart=/usr/local/bin/k3s server\n"},
    "flags in every form": {
        UNIT: "[Service]\nExecStart=/usr/local/bin/k3s agent -d /data/a --kubelet-arg=system-reserved=memory=1Gi \\\n"
        "   --kubelet-arg 'kube-reserved=memory=2Gi,cpu=1' \\\n"
        "   --kubelet-arg=--eviction-hard=memory.available<5%,nodefs.available<5% --token abc \\\n"
        "   --node-name 'box' --with-node-id --config=/etc/other.yaml\n",
        "etc/other.yaml": "kubelet-arg: [system-reserved=memory=3Gi, max-pods=20]\ntoken: abc\n",
        "etc/rancher/node/id": "1a2b3c4d\n",
    },
    "a drop-in replaces the command": {
        UNIT: "[Service]\nExecStart=/usr/local/bin/k3s server --data-dir=/data/old\n",
        f"{UNIT}.d/10.conf": "[Service]\nExecStart=\nExecStart=/usr/local/bin/k3s server --data-dir=/data/new\n",
        f"{UNIT}.d/20.conf": "[Service]\nEnvironment=K3S_NODE_NAME=box\nEnvironment=OTHER=x\n",
    },
    "a drop-in takes the command away": {
        UNIT: "[Service]\nExecStart=/usr/local/bin/k3s server\n",
        f"{UNIT}.d/10.conf": "[Service]\nExecStart=\n",
    },
    "the environment": {
        UNIT: "[Service]\nEnvironmentFile=-/etc/default/%N\nEnvironment='K3S_DATA_DIR=/no' \"K3S_URL=https://x:6443\"\n"
        "ExecStart=/usr/local/bin/k3s server\n",
        "etc/default/k3s": "# K3S_DATA_DIR=/never\nK3S_DATA_DIR='/data/with blank'\nK3S_TOKEN=abc\n",
    },
    "another configuration file by the environment": {
        UNIT: "[Service]\nEnvironment=K3S_CONFIG_FILE=/etc/k3s.conf\nExecStart=/usr/local/bin/k3s server\n",
        "etc/k3s.conf": "data-dir: /data/x\nkubelet-arg: system-reserved=memory=1Gi\n",
    },
    "drop-ins of the configuration": {
        CONFIG: "kubelet-arg:\n- system-reserved=memory=1Gi\nnode-name: box\n",
        f"{CONFIG}.d/10.yaml": "kubelet-arg+:\n- kube-reserved=memory=1Gi\nnode-ip: 10.0.0.1\n",
        f"{CONFIG}.d/20.yaml": "{}\n",
    },
    "the kubelet's own files": {
        "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf": "systemReserved: {memory: 1Gi, cpu: '0'}\n"
        "evictionHard:\n  memory.available: 0100Mi\n  imagefs.available: 5%\n",
        "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/10.conf": "evictionHard: null\nkubeReserved: {memory: null}\n",
    },
    "a kubelet without K3s": {
        "var/lib/kubelet/config.yaml": "evictionHard: {nodefs.available: 10%}\nclusterDNS: [x]\n"
    },
    "one without a threshold": {"var/lib/kubelet/config.yaml": "kubeReserved: {memory: 1Gi}\n"},
    "a service that is another's": {UNIT: "[Service]\nExecStart=/usr/bin/backup --token abc\n"},
    "started by a shell": {UNIT: "[Service]\nExecStart=/bin/sh -c 'exec /usr/local/bin/k3s server'\n"},
    "values of a wrong kind": {CONFIG: "kubelet-arg: {a: b}\nnode-name: [x]\ndata-dir: ''\n12: 13\n"},
}


@pytest.mark.parametrize("name", TREES)
def test_k3s_settings_are_the_same(name: str) -> None:
    tree = {path: text.encode() for path, text in TREES[name].items()}
    before, after = settings(tree), settings(reduced(tree))

    # The name of the node is replaced, and the id that K3s may append to it.
    assert (before.node_name is None) == (after.node_name is None)
    assert after.node_name in (None, NODE, f"{NODE}-00000000")
    for item in fields(KubeletSettings):
        if item.name != "node_name":
            assert getattr(after, item.name) == getattr(before, item.name), item.name


def test_the_settings_were_there() -> None:
    told = [settings({path: text.encode() for path, text in tree.items()}) for tree in TREES.values()]

    assert {one.data_dir for one in told} >= {"/data/a", "/data/new", "/data/with blank", "/data/x"}
    assert any(one.eviction_hard and one.eviction_hard[0] == "5%" for one in told)
    assert any(one.kube_reserved and one.kube_reserved[0] == "2Gi" for one in told)


LINE = r"""k3s /usr/local/bin/k3s server agent -d --data-dir --data-dir=/d --kubelet-arg -c /x --node-name n
    --kubelet-arg=system-reserved=memory=1Gi kube-reserved=memory=1Gi --token abc --with-node-id=false --with-node-id
    --docker --container-runtime-endpoint=unix:///x --container-runtime-endpoint '' "a\ b" ="""
words = st.sampled_from(LINE.split())


@given(st.lists(words, max_size=8))
def test_any_command_line_says_the_same(line: list[str]) -> None:
    tree = {UNIT: f"[Service]\nExecStart={' '.join(line)}\n".encode(), "etc/rancher/node/id": b"1a2b3c4d"}
    before, after = settings(tree), settings(reduced(tree))

    assert (after.data_dir, after.system_reserved, after.kube_reserved) == (
        before.data_dir,
        before.system_reserved,
        before.kube_reserved,
    )
    assert (before.node_name is None) == (after.node_name is None)


OWN = "var/lib/rancher/k3s/agent/etc/containerd/config.toml"
V3 = "io.containerd.cri.v1.runtime"
RUNTIMES: dict[str, dict[str, str]] = {
    "version 2": {
        OWN: "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'nvidia'\n"
        "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.nvidia.options]\nBinaryName = '/bin/nv\"x'\n",
        'bin/nv"x': "",
    },
    "no version": {OWN: "[plugins.cri.containerd.default_runtime.options]\nRuntime = 'nvidia-container-runtime'\n"},
    "imports": {
        OWN: f"version = 3\nimports = ['conf.d/*.toml', 3]\n[plugins.'{V3}'.containerd.runtimes.nvidia]\n",
        f"{OWN.rpartition('/')[0]}/conf.d/a.toml": f"[plugins.'{V3}'.containerd.runtimes.nvidia.options]\n"
        "BinaryName = '/usr/bin/nvidia-container-runtime'\n",
        "usr/bin/nvidia-container-runtime": "",
    },
    "nothing about runtimes": {OWN: "version = 2\n[debug]\nlevel = 'info'\n"},
    "nothing at all": {OWN: "[debug]\nlevel = 'info'\n"},
    "empty": {OWN: ""},
    "not TOML": {OWN: "version = = 2\n"},
    "the system's own": {"etc/containerd/config.toml": f"version = 3\n[plugins.'{V3}'.containerd.runtimes.nvidia]\n"},
    "a name that needs quotes": {OWN: f"version = 3\n[plugins.'{V3}'.containerd.runtimes.\"nvidia.\\u007f é\"]\n"},
}


@pytest.mark.parametrize("name", RUNTIMES)
def test_runtimes_are_the_same(name: str) -> None:
    tree = {path: text.encode() for path, text in RUNTIMES[name].items()}

    assert containerd.runtime(TreeFiles(reduced(tree)), "/var/lib/rancher/k3s") == containerd.runtime(
        TreeFiles(tree), "/var/lib/rancher/k3s"
    )


def test_a_password_of_a_registry_is_not_kept() -> None:
    written = files()[f"{DATA}/agent/etc/containerd/config.toml"]
    assert isinstance(written, str)

    assert PASSWORD in written
    assert PASSWORD not in runtimes.toml(NOBODY, written)


@pytest.mark.parametrize("path", ["etc/secrets.yaml", "etc/x.env", "opt/tool.conf", "srv/notes"])
def test_a_file_of_an_unknown_kind_keeps_no_content(path: str) -> None:
    for text in (f"token: {TOKEN}\n", f"TOKEN={TOKEN}\n", f"[auth]\ntoken = '{TOKEN}'\n", f"just {TOKEN}\n", "\0\xff"):
        kept = reduce.content(NOBODY, path, text.encode())
        assert TOKEN.encode() not in kept
        assert b"server:" not in kept


@pytest.mark.parametrize("name", ["cmdline", "environ", "maps", "net/arp", "root/etc/shadow"])
def test_of_a_process_only_what_it_is_is_kept(name: str) -> None:
    assert reduce.content(NOBODY, f"proc/4242/{name}", b"secret\n") == b""


def test_of_its_status_the_rows_that_are_read_are_kept() -> None:
    status = "Name:\tollama\nUmask:\t0022\nState:\tS\nUid:\t1000\nVmSize:\t 9 kB\nRssAnon:\t 3 kB\nRssFile:\t 2 kB\n"
    kept = reduce.content(NOBODY, "proc/812/status", f"{status}RssShmem:\t 1 kB\nThreads:\t7\n".encode())
    assert kept == b"Name:\tollama\nState:\tS\nVmSize:\t 9 kB\nRssAnon:\t 3 kB\nRssShmem:\t 1 kB\n"
    assert reduce.content(NOBODY, "proc/812/statm", b"9 3 2 1 0 4 0\n") == b"9 3 2 1 0 4 0\n"


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    k3s_settings.unit(NOBODY, text)
    k3s_settings.mapping(NOBODY, text)
    k3s_settings.environment(NOBODY, text)
    runtimes.toml(NOBODY, text)


# --- the configuration ---------------------------------------------------------------

ALL = """
mode: observe
k3s: {data_dir: /data}
reserves: {os: 1Gi, k3s: 6%, cma: 0, headroom: 2%, driver: 256Mi, ceiling: 4Gi}
unified: {detect: "no", coupling: static, gpu_from_hugepages: true}
discrete: {pools: device}
policy: {grace: 10ms, start_grace: 1h, max_grace: 1.5s, pressure_grace: 3s, tolerance: 0, default_budget: 1Gi,
  unbudgeted: evict, daemonsets: evict, protect: [], kill: never, evictions_per_hour: 0, aliyun_unit: Mi}
pressure: {floor: 1Gi, critical: 1Mi, horizon: 4s, within_budget: above-request}
sampling: {interval: 3s, fast: 33ms, max_age: 3.25s}
labels: {ai_capable: example.com/gpu, gfd: true, removal: at-once}
"""


def leaves(section: Any) -> list[tuple[str, Any]]:
    found = []
    for item in fields(section):
        value = getattr(section, item.name)
        found += leaves(value) if is_dataclass(value) else [(item.name, value)]
    return found


def test_every_setting_that_decides_is_written_as_it_was() -> None:
    given_config = config.load([("all", ALL)])
    unchanged = [name for (name, value), (_, usual) in zip(leaves(given_config), leaves(Config()), strict=True)
                 if value == usual]  # fmt: skip
    # All but the name of the node, what is served and what is for people; else a setting could be lost unseen.
    assert unchanged == ["name", "bind", "tls", "token_file", "insecure", "jtop"]

    written = yaml.safe_dump(config_yaml.document(given_config))

    assert config.load([("written", written)]) == given_config


def test_defaults_are_not_written() -> None:
    assert config_yaml.document(Config()) == {}


# --- node and pods -------------------------------------------------------------------

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "metadata": {
        "name": "p",
        "namespace": "n",
        "uid": "u",
        "deletionTimestamp": "2026-01-31T11:00:00Z",
        "annotations": {"edgeagent.dev/gpu-memory-limit": "1Gi", "kubectl.kubernetes.io/last-applied": "{}"},
        "ownerReferences": [{"kind": "Job", "name": "j"}, {"kind": "ReplicaSet", "name": "r", "controller": True}],
    },
    "spec": {
        "nodeName": "box",
        "priority": 7,
        "terminationGracePeriodSeconds": 5,
        "overhead": {"memory": "10Mi"},
        "resources": {"requests": {"memory": "3Gi"}, "limits": {"memory": "4Gi", "cpu": "1"}},
        "nodeSelector": {"ai-capable": "true"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                }
            }
        },
        "initContainers": [
            {"name": "i", "restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}},
            {"name": "j"},
        ],
        "containers": [
            {"name": "a", "image": "x", "resources": {"limits": {"edgeagent.dev/gpu-memory": "1Gi", "memory": "2Gi"}}},
            {"name": "b", "env": [{"name": "A", "value": "b"}], "resources": {"requests": {"memory": 1048576}}},
        ],
        "ephemeralContainers": [{"name": "e"}],
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-01-31T10:00:00Z",
        "podIP": "10.42.0.9",
        "resources": {"requests": {"memory": "5Gi"}},
        "allocatedResources": {"memory": "6Gi"},
        "containerStatuses": [
            {"name": "b", "containerID": "containerd://" + "b" * 64, "allocatedResources": {"memory": "3Mi"}},
            {
                "name": "a",
                "containerID": "containerd://" + "a" * 64,
                "resources": {"limits": {"memory": "3Gi"}},
                "state": {"running": {"startedAt": "2026-01-31T10:00:01Z"}},
            },
        ],
        "initContainerStatuses": [{"name": "i", "containerID": "containerd://" + "c" * 64}],
    },
}


def test_a_pod_is_understood_as_before() -> None:
    kept = objects_json.pod(NOBODY, POD)

    assert pods.parse(kept) == replace(pods.parse(POD), ip=None)
    assert kept["spec"]["nodeName"] == NODE
    text = str(kept)
    assert [part for part in ("image", "env", "podIP", "last-applied", "10.42") if part in text] == []


def test_a_node_keeps_what_decides() -> None:
    bound = [pods.parse(POD)]
    found = {
        "metadata": {
            "name": "box",
            "uid": "u",
            "labels": {
                "zone": "a",
                "ai-capable": "true",
                "example.com/gpu": "true",
                "rack": "7",
                "gpu": "on",
                "nvidia.com/gpu.count": "1",
                "edgeagent.dev/gpu.kind": "jetson",
                "kubernetes.io/hostname": "box",
                "gpushare": "false",
                "nos.nebuly.com/gpu-partitioning": "mps",
                "mine": "1",
            },
            "annotations": {
                "edgeagent.dev/mode": "observe",
                "edgeagent.dev/owned-keys": '{"labels":["mine"]}',
                "x": "y",
            },
        },
        "status": {
            "capacity": {"memory": "1Gi"},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "R", "message": "m", "lastHeartbeatTime": "t"}
            ],
        },
    }

    kept = objects_json.node_object(
        NOBODY, found, bound, config.load([("x", "labels: {ai_capable: example.com/gpu}")]).labels
    )

    facts = node.parse(kept)
    assert facts.name == NODE
    # Not rack, which nothing looks at, nor gpushare=false, which says that the project is not there.
    assert sorted(facts.labels) == [
        *("ai-capable", "edgeagent.dev/gpu.kind", "example.com/gpu", "gpu", "kubernetes.io/hostname", "mine"),
        *("nos.nebuly.com/gpu-partitioning", "nvidia.com/gpu.count", "zone"),
    ]
    assert facts.labels["kubernetes.io/hostname"] == NODE
    assert sorted(facts.annotations) == ["edgeagent.dev/mode", "edgeagent.dev/owned-keys"]
    assert facts.conditions == ({"type": "Ready", "status": "True", "reason": "R"},)
