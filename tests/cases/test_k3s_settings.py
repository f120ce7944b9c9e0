"""The reserves that an administrator gave K3s, wherever K3s itself would look for them (k3s-io/k3s#5488).

What K3s does is in its ``pkg/configfilearg`` (files), ``pkg/daemons/agent`` and ``pkg/util/args.go`` (the kubelet's
arguments), and in its documentation, "Configuration Options". Here the agent's own reserves are 0, so that a line is
what the kubelet was told, or 0.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.making import GIB, MIB, explain, gpu, meminfo, reserves

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]

TOTAL = 7802368
ETC = "host/etc/rancher/k3s"
CONFIG = f"{ETC}/config.yaml"
DROP_IN = f"{ETC}/config.yaml.d"
SYSTEM = "host/etc/systemd/system"
AGENT = f"{SYSTEM}/k3s-agent.service"
DATA = "host/var/lib/rancher/k3s"
KUBELET = "agent/etc/kubelet.conf.d"
BARE = {"reserves": {"os": 0, "k3s": 0, "cma": 0, "headroom": 0}}

# As K3s' installer writes it: ExecStart over several lines, each argument in quotes of its own
UNIT = """[Unit]
Description=Lightweight Kubernetes
Documentation=https://k3s.io
Wants=network-online.target
After=network-online.target

[Install]
WantedBy=multi-user.target

[Service]
Type=notify
EnvironmentFile=-/etc/default/%N
EnvironmentFile=-/etc/sysconfig/%N
EnvironmentFile=-/etc/systemd/system/k3s-agent.service.env
KillMode=process
Delegate=yes
LimitNOFILE=1048576
ExecStartPre=-/sbin/modprobe br_netfilter
ExecStartPre=-/sbin/modprobe overlay
ExecStart="""


def unit(command: str) -> str:
    return f"{UNIT}{command}\n"


def lines(capsys: Capture, folder: Path, files: dict[str, Any], **config: Any) -> tuple[int, int, int]:
    """What counts for os (system-reserved), k3s (kube-reserved) and headroom (eviction-hard), in bytes."""
    board = {
        "host/proc/device-tree/compatible": b"nvidia,p3767-0005\0nvidia,tegra234\0",
        "host/proc/meminfo": meminfo(TOTAL),
        "config.yaml": {**BARE, **config},
    }
    (document,) = explain(capsys, folder, {**board, **files})
    found = reserves(document)
    for amount, origin in found.values():
        assert origin == ("kubelet" if amount else "config")
    assert gpu(document) == f"{(TOTAL * 1024 - sum(amount for amount, _ in found.values())) // MIB}Mi"
    return found["os"][0], found["k3s"][0], found["headroom"][0]


def test_without_settings_nothing_counts(tmp_path: Path, capsys: Capture) -> None:
    defaults = "evictionHard:\n  imagefs.available: 5%\n  nodefs.available: 5%\n"
    files = {AGENT: unit("/usr/local/bin/k3s agent"), f"{DATA}/{KUBELET}/00-k3s-defaults.conf": defaults, CONFIG: ""}
    assert lines(capsys, tmp_path, files) == (0, 0, 0)


# All of it together, and then piece by piece


def test_the_command_line_beats_files_and_a_later_file_replaces_an_earlier_one(tmp_path: Path, capsys: Capture) -> None:
    files = {
        AGENT: unit("/usr/local/bin/k3s agent --kubelet-arg=system-reserved=memory=1Gi"),
        CONFIG: 'kubelet-arg: "kube-reserved=memory=512Mi,cpu=250m"\n',
        f"{DROP_IN}/10.yaml": 'kubelet-arg+: ["eviction-hard=memory.available<200Mi"]\n',
    }
    assert lines(capsys, tmp_path, files) == (GIB, 512 * MIB, 200 * MIB)
    # without a "+" the last file drops what the two before it said
    files[f"{DROP_IN}/20.yaml"] = 'kubelet-arg:  ["system-reserved=memory=2Gi"]\n'
    assert lines(capsys, tmp_path, files) == (GIB, 0, 0)
    files[AGENT] = unit("/usr/local/bin/k3s agent")
    assert lines(capsys, tmp_path, files) == (2 * GIB, 0, 0)
    # a third one adds to the second
    files[f"{DROP_IN}/30.yaml"] = "kubelet-arg+:\n- kube-reserved=memory=1Gi\n- system-reserved=memory=3Gi\n"
    assert lines(capsys, tmp_path, files) == (3 * GIB, GIB, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kubelet-arg: system-reserved=memory=1Gi", (GIB, 0, 0)),
        ("kubelet-arg: 'system-reserved=memory=1Gi'", (GIB, 0, 0)),
        ("kubelet-arg: [system-reserved=memory=1Gi]", (GIB, 0, 0)),
        ("kubelet-arg:\n  - system-reserved=memory=1Gi\n  - kube-reserved=memory=512Mi", (GIB, 512 * MIB, 0)),
        ('kubelet-arg:\n- "--system-reserved=memory=1Gi"', (GIB, 0, 0)),
        ("kubelet-arg: [system-reserved=memory=1Gi, system-reserved=memory=2Gi]", (2 * GIB, 0, 0)),
        ("kubelet-arg: 'system-reserved=cpu=100m,memory=1Gi,ephemeral-storage=1Gi'", (GIB, 0, 0)),
        ("kubelet-arg: ['system-reserved=cpu=100m', 'system-reserved=memory=1Gi']", (GIB, 0, 0)),
        ("kubelet-arg: ['eviction-hard=memory.available<300Mi,nodefs.available<5%']", (0, 0, 300 * MIB)),
        ("kubelet-arg: ['eviction-hard=nodefs.available<5%,memory.available<300Mi']", (0, 0, 300 * MIB)),
        ("kubelet-arg: ['eviction-soft=memory.available<300Mi', 'eviction-minimum-reclaim=memory.available=1Gi']",
         (0, 0, 0)),
        ("kubelet-arg: [max-pods=50, v=2, feature-gates=X=true]", (0, 0, 0)),
        ("kubelet-arg: []", (0, 0, 0)),
        ("kubelet-arg:", (0, 0, 0)),
        ("kubelet_arg: [system-reserved=memory=1Gi]", (0, 0, 0)),
        ("kube-apiserver-arg: [system-reserved=memory=1Gi]", (0, 0, 0)),
        ("# kubelet-arg: [system-reserved=memory=1Gi]", (0, 0, 0)),
        ("kubelet-arg+: [system-reserved=memory=1Gi]", (GIB, 0, 0)),
        ("token: x\nnode-label: [a=b]\nkubelet-arg: [kube-reserved=memory=1Gi]", (0, GIB, 0)),
        ("---\nkubelet-arg: [kube-reserved=memory=1Gi]\n", (0, GIB, 0)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("file", [CONFIG, f"{DROP_IN}/10.yaml", f"{DROP_IN}/reserves.yml"])
def test_forms_in_a_file(tmp_path: Path, capsys: Capture, text: str, expected: tuple[int, int, int], file: str) -> None:
    assert lines(capsys, tmp_path, {file: text}) == expected


@pytest.mark.parametrize(
    "names",
    [
        ("10.yaml", "20.yaml"),
        ("10.yaml", "9.yaml"),  # by name, not by number
        ("A.yaml", "a.yaml"),
        ("a.yaml", "b.yml"),
        ("99-site.yaml", "site.yaml"),
    ],
)
def test_drop_ins_count_in_the_order_of_their_names(tmp_path: Path, capsys: Capture, names: tuple[str, str]) -> None:
    first, last = names
    files = {
        f"{DROP_IN}/{last}": "kubelet-arg: [system-reserved=memory=2Gi]\n",
        f"{DROP_IN}/{first}": "kubelet-arg: [system-reserved=memory=1Gi, kube-reserved=memory=1Gi]\n",
        f"{DROP_IN}/zz.yaml.bak": "kubelet-arg: [system-reserved=memory=3Gi]\n",
    }
    assert lines(capsys, tmp_path, files) == (2 * GIB, 0, 0)


# Quantities


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1G", 10**9),
        ("1Gi", GIB),
        ("512M", 512 * 10**6),
        ("512Mi", 512 * MIB),
        ("524288Ki", 512 * MIB),
        ("500000k", 500 * 10**6),
        ("1073741824", GIB),
        ("0.5Gi", 512 * MIB),
        ("1.5Gi", 1536 * MIB),
        ("1e9", 10**9),
        ("1E9", 10**9),
        ("536870912000m", 512 * MIB),
        ("0", 0),
    ],
)
def test_quantities_of_all_forms(tmp_path: Path, capsys: Capture, text: str, amount: int) -> None:
    args = [f"system-reserved=memory={text}", f"kube-reserved=memory={text}", f"eviction-hard=memory.available<{text}"]
    assert lines(capsys, tmp_path / "list", {CONFIG: {"kubelet-arg": args}}) == (amount,) * 3
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "systemReserved": {"cpu": "200m", "memory": text},
        "kubeReserved": {"memory": text},
        "evictionHard": {"memory.available": text, "nodefs.available": "5%"},
    }
    conf = {f"{DATA}/{KUBELET}/99-site.conf": json.dumps(kubelet)}
    assert lines(capsys, tmp_path / "map", conf) == (amount,) * 3


def test_a_number_without_quotes_in_a_kubelet_file_is_bytes(tmp_path: Path, capsys: Capture) -> None:
    conf = {f"{DATA}/{KUBELET}/99-site.conf": "systemReserved:\n  memory: 1073741824\n"}
    assert lines(capsys, tmp_path, conf) == (GIB, 0, 0)


@pytest.mark.parametrize(
    ("text", "amount"),
    # of MemTotal, 7802368 kB = 7989624832 bytes, up to whole bytes
    [("10%", 798962484), ("5%", 399481242), ("0%", 0), ("2.5%", 199740621)],
)
def test_an_eviction_threshold_may_be_a_percentage_of_memtotal(
    tmp_path: Path, capsys: Capture, text: str, amount: int
) -> None:
    files: dict[str, Any] = {CONFIG: {"kubelet-arg": [f"eviction-hard=memory.available<{text}"]}}
    assert lines(capsys, tmp_path / "a", files) == (0, 0, amount)
    # of MemTotal also where huge pages make the pool smaller
    files["host/proc/meminfo"] = meminfo(TOTAL) + "HugePages_Total:     512\nHugepagesize:       2048 kB\n"
    board = {"host/proc/device-tree/compatible": b"nvidia,tegra234\0", "config.yaml": BARE}
    (document,) = explain(capsys, tmp_path / "b", {**board, **files})
    assert reserves(document)["headroom"][0] == amount


@pytest.mark.parametrize("text", ["lots", "-1Gi", "1Gib", "1 Gi", "", "10%%", "1GI"])
def test_a_value_that_nobody_understands_leaves_the_agents_own(tmp_path: Path, capsys: Capture, text: str) -> None:
    board = {
        "host/proc/device-tree/compatible": b"nvidia,tegra234\0",
        "host/proc/meminfo": meminfo(TOTAL),
        CONFIG: {"kubelet-arg": [f"system-reserved=memory={text}", f"eviction-hard=memory.available<{text}"]},
    }
    (document,) = explain(capsys, tmp_path, board)
    assert reserves(document)["os"] == (768 * MIB, "default")
    assert reserves(document)["headroom"] == (256 * MIB, "default")


# Arguments of the unit


@pytest.mark.parametrize(
    "command",
    [
        "/usr/local/bin/k3s agent --kubelet-arg=system-reserved=memory=1Gi",
        "/usr/local/bin/k3s agent --kubelet-arg system-reserved=memory=1Gi",
        "/usr/local/bin/k3s agent '--kubelet-arg=system-reserved=memory=1Gi'",
        '/usr/local/bin/k3s agent "--kubelet-arg=system-reserved=memory=1Gi"',
        '/usr/local/bin/k3s agent --kubelet-arg="system-reserved=memory=1Gi"',
        "/usr/local/bin/k3s \\\n    agent \\\n\t'--kubelet-arg=system-reserved=memory=1Gi' \\\n",
        "/usr/local/bin/k3s \\\n    agent \\\n\t'--kubelet-arg' \\\n\t'system-reserved=memory=1Gi' \\\n",
        "/usr/local/bin/k3s \\\n    agent \\\n# a comment\n\t--kubelet-arg=system-reserved=memory=1Gi",
        "-/usr/local/bin/k3s agent --kubelet-arg=system-reserved=memory=1Gi",  # systemd's prefixes
        "/usr/local/bin/k3s agent --kubelet-arg=--system-reserved=memory=1Gi",
        "/usr/local/bin/k3s agent --server https://192.0.2.1:6443 --token x --kubelet-arg=system-reserved=memory=1Gi",
        "/usr/local/bin/k3s agent -kubelet-arg=system-reserved=memory=1Gi",  # Go's flags take one dash too
    ],
)
def test_forms_in_the_unit(tmp_path: Path, capsys: Capture, command: str) -> None:
    assert lines(capsys, tmp_path, {AGENT: unit(command)}) == (GIB, 0, 0)


@pytest.mark.parametrize(
    "where",
    [
        "host/etc/systemd/system/k3s.service",
        "host/etc/systemd/system/k3s-agent.service",
        "host/etc/systemd/system/k3s-edge.service",  # INSTALL_K3S_NAME=edge
        "host/usr/lib/systemd/system/k3s-agent.service",  # a package
        "host/lib/systemd/system/k3s-agent.service",
    ],
)
def test_the_unit_is_found_by_each_of_its_names(tmp_path: Path, capsys: Capture, where: str) -> None:
    kind = "server" if where.endswith("k3s.service") else "agent"
    command = f"/usr/local/bin/k3s {kind} --kubelet-arg=system-reserved=memory=1Gi"
    assert lines(capsys, tmp_path, {where: unit(command)}) == (GIB, 0, 0)


def test_a_percent_sign_in_a_unit_is_written_twice(tmp_path: Path, capsys: Capture) -> None:
    # systemd.unit(5): "%%" is one percent sign
    command = "/usr/local/bin/k3s agent '--kubelet-arg=eviction-hard=memory.available<10%%,nodefs.available<5%%'"
    assert lines(capsys, tmp_path, {AGENT: unit(command)}) == (0, 0, 798962484)


def test_a_drop_in_of_the_unit_replaces_its_command(tmp_path: Path, capsys: Capture) -> None:
    files = {
        AGENT: unit("/usr/local/bin/k3s agent --kubelet-arg=kube-reserved=memory=1Gi"),
        f"{AGENT}.d/10-reserves.conf": (
            "[Service]\nExecStart=\n"
            "ExecStart=/usr/local/bin/k3s agent \\\n    '--kubelet-arg=system-reserved=memory=2Gi'\n"
        ),
    }
    assert lines(capsys, tmp_path, files) == (2 * GIB, 0, 0)
    files[f"{AGENT}.d/20-other.conf"] = "[Service]\nLimitNOFILE=1\n"
    assert lines(capsys, tmp_path, files) == (2 * GIB, 0, 0)
    files[f"{AGENT}.d/30-last.conf"] = "[Service]\nExecStart=\nExecStart=/usr/local/bin/k3s agent\n"
    assert lines(capsys, tmp_path, files) == (0, 0, 0)


@pytest.mark.parametrize(
    "source",
    [
        {"host/etc/default/k3s-agent": 'EDGE_ARGS="--kubelet-arg=system-reserved=memory=1Gi"\n'},
        {f"{SYSTEM}/k3s-agent.service.env": "EDGE_ARGS=--kubelet-arg=system-reserved=memory=1Gi\n"},
        {f"{AGENT}.d/env.conf": '[Service]\nEnvironment="EDGE_ARGS=--kubelet-arg=system-reserved=memory=1Gi"\n'},
    ],
)
@pytest.mark.parametrize("variable", ["$EDGE_ARGS", "${EDGE_ARGS}"])
def test_variables_of_the_unit_are_put_in(
    tmp_path: Path, capsys: Capture, source: dict[str, str], variable: str
) -> None:
    # systemd.service(5), "Command lines"
    files = {AGENT: unit(f"/usr/local/bin/k3s agent {variable}"), **source}
    assert lines(capsys, tmp_path, files) == (GIB, 0, 0)


def test_arguments_of_another_service_are_not_k3s(tmp_path: Path, capsys: Capture) -> None:
    files = {
        f"{SYSTEM}/other.service": unit("/usr/local/bin/other agent --kubelet-arg=system-reserved=memory=1Gi"),
        AGENT: unit("/usr/local/bin/k3s agent").replace(
            "ExecStartPre=-/sbin/modprobe overlay", "ExecStartPre=/bin/echo --kubelet-arg=system-reserved=memory=2Gi"
        ),
    }
    assert lines(capsys, tmp_path, files) == (0, 0, 0)


# Files of the kubelet


def test_the_kubelets_files_are_merged_by_name_and_a_flag_replaces_a_map(tmp_path: Path, capsys: Capture) -> None:
    where = f"{DATA}/{KUBELET}"
    files = {
        f"{where}/00-k3s-defaults.conf": "evictionHard: {imagefs.available: 5%, nodefs.available: 5%}\n",
        f"{where}/50-site.conf": "systemReserved: {memory: 1Gi}\nevictionHard: {memory.available: 200Mi}\n",
        f"{where}/60-more.conf": "systemReserved: {memory: 2Gi}\nkubeReserved: {memory: 512Mi}\n",
        f"{where}/70-not-read.yaml": "systemReserved: {memory: 3Gi}\n",
    }
    assert lines(capsys, tmp_path, files) == (2 * GIB, 512 * MIB, 200 * MIB)
    # The flag knows nothing of memory, and takes the place of the whole map.
    files[CONFIG] = "kubelet-arg: ['eviction-hard=nodefs.available<10%', 'system-reserved=cpu=100m']\n"
    assert lines(capsys, tmp_path, files) == (0, 512 * MIB, 0)


def test_drop_ins_in_folders_are_read_too(tmp_path: Path, capsys: Capture) -> None:
    # K3s copies what --kubelet-arg=config and config-dir name: 10-cli-config.conf and 20-cli-config-dir/
    where = f"{DATA}/{KUBELET}"
    files = {
        f"{where}/10-cli-config.conf": "systemReserved: {memory: 1Gi}\n",
        f"{where}/20-cli-config-dir/50.conf": "kubeReserved: {memory: 1Gi}\n",
        f"{where}/20-cli-config-dir/60.conf": "kubeReserved: {memory: 2Gi}\n",
    }
    assert lines(capsys, tmp_path, files) == (GIB, 2 * GIB, 0)


def test_a_kubelet_file_named_by_an_argument_is_read(tmp_path: Path, capsys: Capture) -> None:
    # before K3s 1.32 there is no copy: the argument goes to the kubelet as it is
    files = {
        CONFIG: "kubelet-arg: [config=/etc/rancher/k3s/kubelet.yaml]\n",
        f"{ETC}/kubelet.yaml": "systemReserved: {memory: 1Gi}\nevictionHard: {memory.available: 300Mi}\n",
    }
    assert lines(capsys, tmp_path, files) == (GIB, 0, 300 * MIB)


def test_the_kubelets_file_of_other_distributions_counts(tmp_path: Path, capsys: Capture) -> None:
    files = {
        "host/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\nsystemReserved:\n  memory: 1Gi\n"
        "kubeReserved:\n  memory: 700Mi\nevictionHard:\n  memory.available: 100Mi\n"
    }
    assert lines(capsys, tmp_path, files) == (GIB, 700 * MIB, 100 * MIB)


# Files in other places


@pytest.mark.parametrize(
    "told",
    [
        {CONFIG: "data-dir: /mnt/ssd/k3s\n"},
        {f"{DROP_IN}/disk.yaml": "data-dir: /mnt/ssd/k3s/\n"},
        {AGENT: unit("/usr/local/bin/k3s agent --data-dir /mnt/ssd/k3s")},
        {AGENT: unit("/usr/local/bin/k3s agent '--data-dir=/mnt/ssd/k3s'")},
        {AGENT: unit("/usr/local/bin/k3s agent -d /mnt/ssd/k3s")},
        {AGENT: unit("/usr/local/bin/k3s agent"), f"{SYSTEM}/k3s-agent.service.env": "K3S_DATA_DIR=/mnt/ssd/k3s\n"},
        {AGENT: unit("/usr/local/bin/k3s agent --data-dir=/mnt/ssd/k3s"), CONFIG: "data-dir: /elsewhere\n"},
    ],
)
def test_the_data_directory_is_where_k3s_says(tmp_path: Path, capsys: Capture, told: dict[str, str]) -> None:
    files = {
        f"host/mnt/ssd/k3s/{KUBELET}/50.conf": "systemReserved: {memory: 1Gi}\n",
        f"{DATA}/{KUBELET}/50.conf": "systemReserved: {memory: 3Gi}\n",  # of a former installation
        **told,
    }
    assert lines(capsys, tmp_path, files) == (GIB, 0, 0)


def test_the_agents_own_configuration_of_the_data_directory_wins(tmp_path: Path, capsys: Capture) -> None:
    files = {
        f"host/mnt/ssd/k3s/{KUBELET}/50.conf": "systemReserved: {memory: 1Gi}\n",
        CONFIG: "data-dir: /elsewhere\n",
    }
    assert lines(capsys, tmp_path, files, k3s={"data_dir": "/mnt/ssd/k3s"}) == (GIB, 0, 0)


@pytest.mark.parametrize("data", ["/var/lib/rancher/k3s", "/mnt/ssd/k3s"])
def test_a_server_is_one_by_its_data_directory(tmp_path: Path, capsys: Capture, data: str) -> None:
    board = {
        "host/proc/device-tree/compatible": b"nvidia,tegra234\0",
        "host/proc/meminfo": meminfo(TOTAL),
        CONFIG: f"data-dir: {data}\n",
        "host/mnt/ssd/k3s/server/token": "x",
    }
    (document,) = explain(capsys, tmp_path, board)
    expected = 2 * GIB if data == "/mnt/ssd/k3s" else 512 * MIB
    assert reserves(document)["k3s"] == (expected, "default")


def test_a_data_directory_behind_a_link_is_followed_inside_the_root(tmp_path: Path, capsys: Capture) -> None:
    link = tmp_path / DATA
    link.parent.mkdir(parents=True)
    link.symlink_to("/mnt/ssd/k3s")
    files = {f"host/mnt/ssd/k3s/{KUBELET}/50.conf": "systemReserved: {memory: 1Gi}\n"}
    assert lines(capsys, tmp_path, files) == (GIB, 0, 0)


@pytest.mark.parametrize(
    "told",
    [
        {AGENT: unit("/usr/local/bin/k3s agent --config /etc/edge/k3s.yaml")},
        {AGENT: unit("/usr/local/bin/k3s agent --config=/etc/edge/k3s.yaml")},
        {AGENT: unit("/usr/local/bin/k3s agent -c /etc/edge/k3s.yaml")},
        {
            AGENT: unit("/usr/local/bin/k3s agent"),
            f"{SYSTEM}/k3s-agent.service.env": "K3S_CONFIG_FILE=/etc/edge/k3s.yaml\n",
        },
    ],
)
def test_the_configuration_file_is_where_k3s_says_and_its_drop_ins_beside_it(
    tmp_path: Path, capsys: Capture, told: dict[str, str]
) -> None:
    files = {
        "host/etc/edge/k3s.yaml": "kubelet-arg: [system-reserved=memory=1Gi]\n",
        "host/etc/edge/k3s.yaml.d/10.yaml": "kubelet-arg+: [kube-reserved=memory=1Gi]\n",
        CONFIG: "kubelet-arg: [system-reserved=memory=3Gi]\n",
        f"{DROP_IN}/10.yaml": "kubelet-arg: [system-reserved=memory=3Gi]\n",
        **told,
    }
    assert lines(capsys, tmp_path, files) == (GIB, GIB, 0)


# What cannot be read


@pytest.mark.parametrize(
    "bad", ["kubelet-arg: [", "\t\t: :", "- a\n- b\n", "just words", b"\xff\xfe\x00", "a: b\n  c: d"]
)
def test_a_malformed_file_stops_nothing_and_is_named(tmp_path: Path, capsys: Capture, bad: str | bytes) -> None:
    board = {
        "host/proc/device-tree/compatible": b"nvidia,tegra234\0",
        "host/proc/meminfo": meminfo(TOTAL),
        f"{DROP_IN}/10.yaml": bad,
    }
    (document,) = explain(capsys, tmp_path, board)
    assert reserves(document)["os"] == (768 * MIB, "default")
    assert reserves(document)["headroom"] == (256 * MIB, "default")
    assert "config.yaml.d/10.yaml" in json.dumps([document["board"]["warnings"], document["findings"]])


@pytest.mark.parametrize("bad", ["systemReserved: [", "systemReserved: 1Gi", "systemReserved: {memory: {a: b}}", "[]"])
def test_a_malformed_kubelet_file_stops_nothing(tmp_path: Path, capsys: Capture, bad: str) -> None:
    where = f"{DATA}/{KUBELET}"
    files = {f"{where}/40.conf": "kubeReserved: {memory: 1Gi}\n", f"{where}/50.conf": bad}
    assert lines(capsys, tmp_path, files)[1] == GIB


# The larger of theirs and ours, line by line


def test_the_larger_of_the_kubelets_and_ours_counts_once(tmp_path: Path, capsys: Capture) -> None:
    board = {
        "host/proc/device-tree/compatible": b"nvidia,tegra234\0",
        "host/proc/meminfo": meminfo(TOTAL),
        CONFIG: {
            "kubelet-arg": [
                "system-reserved=memory=512Mi",  # below our 768
                "kube-reserved=memory=1Gi",  # above our 512
                "eviction-hard=memory.available<256Mi",  # equal
            ]
        },
    }
    (document,) = explain(capsys, tmp_path, board)
    assert reserves(document) == {
        "os": (768 * MIB, "default"),
        "k3s": (GIB, "kubelet"),
        "cma": (0, "measured"),
        "headroom": (256 * MIB, "default"),
    }
    assert gpu(document) == "5571Mi"  # 7619.5 - 768 - 1024 - 256
    (document,) = explain(capsys, tmp_path, {**board, "config.yaml": {"reserves": {"k3s": "2Gi", "os": "256Mi"}}})
    assert reserves(document)["os"] == (512 * MIB, "kubelet")
    assert reserves(document)["k3s"] == (2 * GIB, "config")


def test_a_discrete_card_knows_nothing_of_the_kubelets_reserves(tmp_path: Path, capsys: Capture) -> None:
    total = 24 * GIB
    card = {
        "handle": 0, "name": "NVIDIA L4", "uuid": "GPU-1", "minor": 0,
        "memory_v2": {"code": 0, "total": total, "reserved": 0, "used": 0, "free": total},
    }  # fmt: skip
    files = {
        "host/proc/meminfo": meminfo(TOTAL),
        "nvml.json": {"library": "present", "init": 0, "count": {"code": 0, "value": 1}, "devices": [card]},
        CONFIG: {"kubelet-arg": ["system-reserved=memory=4Gi"]},
    }
    (document,) = explain(capsys, tmp_path, files)
    assert reserves(document) == {"driver": (0, "measured")}
    assert gpu(document) == "24576Mi"
