"""The kubelet's memory settings, by K3s' own precedence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.facts import KubeletSettings
from edgeagent.host.files import Entry, TreeFiles
from edgeagent.host.k3s import settings
from tests.unit.host.trees import EACCES, FaultyFiles

CONFIG = "etc/rancher/k3s/config.yaml"
UNIT = "etc/systemd/system/k3s-agent.service"
DATA = "var/lib/rancher/k3s"
DROP_INS = f"{DATA}/agent/etc/kubelet.conf.d"

# What K3s' own installer writes: one argument to a line, quoted.
INSTALLED = r"""[Unit]
Description=Lightweight Kubernetes
After=network-online.target

[Service]
Type=notify
EnvironmentFile=-/etc/default/%N
EnvironmentFile=-/etc/sysconfig/%N
EnvironmentFile=-/etc/systemd/system/k3s-agent.service.env
KillMode=process
Delegate=yes
ExecStartPre=-/sbin/modprobe br_netfilter
ExecStart=/usr/local/bin/k3s \
    agent \
	ARGUMENTS \

"""
# What K3s writes itself at each start; no threshold for memory.
DEFAULTS = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
evictionHard:
  imagefs.available: 5%
  nodefs.available: 5%
"""


def unit(*arguments: str) -> bytes:
    return INSTALLED.replace("ARGUMENTS", " \\\n\t".join(f"'{argument}'" for argument in arguments)).encode()


def read(entries: dict[str, Entry]) -> KubeletSettings:
    return settings(TreeFiles(entries))


def memory(found: KubeletSettings) -> tuple[str | None, ...]:
    """The texts of system-reserved, kube-reserved and eviction-hard."""
    return tuple(pair and pair[0] for pair in (found.system_reserved, found.kube_reserved, found.eviction_hard))


def test_nothing_is_set() -> None:
    assert read({}) == KubeletSettings()
    assert read({f"{DROP_INS}/00-k3s-defaults.conf": DEFAULTS.encode(), CONFIG: b""}) == KubeletSettings()


def test_all_forms_together() -> None:
    found = read(
        {
            UNIT: unit("--kubelet-arg=system-reserved=memory=1Gi"),
            CONFIG: b'kubelet-arg: "kube-reserved=memory=512Mi,cpu=250m"\n',
            f"{CONFIG}.d/10.yaml": b'kubelet-arg+: ["eviction-hard=memory.available<200Mi"]\n',
            f"{CONFIG}.d/20.yaml": b'kubelet-arg: ["system-reserved=memory=2Gi"]\n',
        }
    )
    # 20.yaml replaces what the two before it had put together; the command line comes last.
    assert found.system_reserved == ("1Gi", f"/{UNIT}")
    assert (found.kube_reserved, found.eviction_hard, found.problems) == (None, None, ())


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"": 'kubelet-arg: "system-reserved=memory=1Gi"'}, ("1Gi", None, None)),
        ({"": "kubelet-arg: [system-reserved=memory=1Gi, kube-reserved=memory=1G]"}, ("1Gi", "1G", None)),
        ({"": "kubelet-arg:\n- --eviction-hard=memory.available<5%,nodefs.available<5%"}, (None, None, "5%")),
        ({".d/b.yaml": "kubelet-arg: eviction-hard=memory.available<1"}, (None, None, "1")),
        (
            {"": "kubelet-arg: system-reserved=memory=1Gi", ".d/a.yml": "kubelet-arg+: kube-reserved=memory=2Gi"},
            ("1Gi", "2Gi", None),
        ),
        (
            {"": "kubelet-arg: system-reserved=memory=1Gi", ".d/a.YAML": "kubelet-arg: kube-reserved=memory=2Gi"},
            (None, "2Gi", None),
        ),
        ({"": "kubelet-arg: system-reserved=memory=1Gi", ".d/a.txt": "kubelet-arg: []"}, ("1Gi", None, None)),
        ({".d/a.yaml": "kubelet-arg+: [system-reserved=memory=3Gi]"}, ("3Gi", None, None)),
        # the later of two files by name, and of two entries of one list
        (
            {
                ".d/10.yaml": "kubelet-arg: system-reserved=memory=1Gi",
                ".d/9.yaml": "kubelet-arg: system-reserved=memory=2Gi",
            },
            ("2Gi", None, None),
        ),
        ({"": "kubelet-arg: [system-reserved=memory=1Gi, system-reserved=memory=2Gi]"}, ("2Gi", None, None)),
        # the kubelet merges a repeated flag entry by entry
        (
            {"": "kubelet-arg: ['eviction-hard=memory.available<1Gi', 'eviction-hard=nodefs.available<5%']"},
            (None, None, "1Gi"),
        ),
        ({"": "kubelet-arg: [system-reserved=cpu=1]"}, (None, None, None)),
        ({"": "kubelet-arg: [system-reserved+=memory=1Gi]"}, ("1Gi", None, None)),
        ({"": "kubelet-arg: [' ', system-reserved=, 7, {a: b}, eviction-soft=memory.available<1Gi]"}, (None,) * 3),
        ({"": "kubelet-arg: system-reserved=memory=1073741824"}, ("1073741824", None, None)),
        ({"": "kubelet-arg: system-reserved=memory=0.5Gi"}, ("0.5Gi", None, None)),
    ],
)
def test_config_files(files: dict[str, str], expected: tuple[str | None, ...]) -> None:
    found = read({CONFIG + name: text.encode() for name, text in files.items()})
    assert memory(found) == expected
    assert found.problems == ()


def test_a_file_and_the_command_line_come_together() -> None:
    # K3s hands the arguments from both on; where they say the same thing, the command line is the later one.
    found = read(
        {
            UNIT: unit(
                "--kubelet-arg=system-reserved=memory=1Gi", "--kubelet-arg", "eviction-hard=memory.available<1Gi"
            ),
            CONFIG: b"kubelet-arg: [kube-reserved=memory=512Mi, system-reserved=memory=2Gi]\n",
        }
    )
    assert found.system_reserved == ("1Gi", f"/{UNIT}")
    assert found.kube_reserved == ("512Mi", f"/{CONFIG}")
    assert found.eviction_hard == ("1Gi", f"/{UNIT}")


def test_drop_ins_of_the_kubelet_are_merged_in_order_and_a_flag_replaces_a_whole_map() -> None:
    drop_ins: dict[str, Entry] = {
        f"{DROP_INS}/00-k3s-defaults.conf": DEFAULTS.encode(),
        f"{DROP_INS}/50.conf": b"systemReserved: {memory: 1Gi, cpu: 1}\nevictionHard: {memory.available: 300Mi}\n",
        f"{DROP_INS}/60.conf": b"systemReserved:\n  memory: 2Gi\nkubeReserved: {memory: 1Gi}\n",
        f"{DROP_INS}/70/x.conf": b"kubeReserved: {memory: null}\n",
        f"{DROP_INS}/80.yaml": b"systemReserved: {memory: 9Gi}\n",  # not a .conf
    }
    found = read(drop_ins)
    assert found.system_reserved == ("2Gi", f"/{DROP_INS}/60.conf")
    assert found.eviction_hard == ("300Mi", f"/{DROP_INS}/50.conf")
    assert found.kube_reserved is None
    flags: dict[str, Entry] = {
        CONFIG: b"kubelet-arg: ['eviction-hard=nodefs.available<5%', 'system-reserved=memory=3Gi']\n"
    }
    assert memory(read({**drop_ins, **flags})) == ("3Gi", None, None)


@pytest.mark.parametrize(
    ("text", "size"), [("1G", "1G"), ("1Gi", "1Gi"), ("512M", "512M"), ("1073741824", "1073741824"), ("0.5Gi", "0.5Gi")]
)
def test_a_kubelet_file_and_a_flag_take_the_same_amounts(text: str, size: str) -> None:
    in_file = read({f"{DROP_INS}/1.conf": f"systemReserved: {{memory: {text}}}\n".encode()})
    in_flag = read({CONFIG: f"kubelet-arg: system-reserved=memory={text}\n".encode()})
    assert memory(in_file) == memory(in_flag) == (size, None, None)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({CONFIG: b"kubelet-arg: [unclosed"}, f"/{CONFIG}: not YAML"),
        ({CONFIG: b"\xff\xfe\x00"}, f"/{CONFIG}: not YAML"),
        ({CONFIG: b"[" * 2000}, f"/{CONFIG}: not YAML"),
        ({CONFIG: b"- a\n- b\n"}, f"/{CONFIG}: not a mapping"),
        ({f"{CONFIG}.d/1.yaml": b"a: b: c\n"}, f"/{CONFIG}.d/1.yaml: not YAML"),
        ({f"{DROP_INS}/1.conf": b"\tx"}, f"/{DROP_INS}/1.conf: not YAML"),
        ({CONFIG: b"kubelet-arg: system-reserved=memory=lots\n"}, "system-reserved: 'lots' is not a quantity"),
        ({CONFIG: b"kubelet-arg: system-reserved=memory=10%\n"}, "system-reserved: '10%' is not a quantity"),
        ({CONFIG: b"kubelet-arg: system-reserved=memory=-1Gi\n"}, "'-1Gi' is negative"),
        ({CONFIG: b"kubelet-arg: eviction-hard=memory.available<200%\n"}, "'200%' is not a percentage"),
        ({CONFIG: b"kubelet-arg: eviction-hard=memory.available=1Gi\n"}, "has no '<'"),
        ({CONFIG: None}, "Is a directory"),
    ],
)
def test_what_cannot_be_used_is_named_and_stops_nothing(entries: dict[str, Entry], problem: str) -> None:
    good: dict[str, Entry] = {f"{CONFIG}.d/zz.yaml": b"kubelet-arg+: kube-reserved=memory=1Gi\nnode-name: n\n"}
    found = read({**entries, **good})
    assert len(found.problems) == 1
    assert problem in found.problems[0]
    assert (found.system_reserved, found.eviction_hard) == (None, None)
    assert (found.kube_reserved, found.node_name) == (("1Gi", f"/{CONFIG}.d/zz.yaml"), "n")


def test_a_key_of_one_letter_is_a_short_flag() -> None:
    assert read({CONFIG: b"d: /mnt/k\n"}).data_dir == "/mnt/k"
    # Both spellings are handed on in the order in which they first came, and the last one wins.
    assert read({CONFIG: b"d: /mnt/k\ndata-dir: /mnt/l\n"}).data_dir == "/mnt/l"
    later: dict[str, Entry] = {CONFIG: b"data-dir: /mnt/l\n", f"{CONFIG}.d/1.yaml": b"d: /mnt/k\n"}
    assert read(later).data_dir == "/mnt/k"


def test_another_folder_of_kubelet_files_is_merged_by_name_after_the_file() -> None:
    found = read(
        {
            CONFIG: b"kubelet-arg: [config-dir=/etc/kdir, config=/etc/kubelet.yaml]\n",
            "etc/kubelet.yaml": b"systemReserved: {memory: 1Gi}\nkubeReserved: {memory: 1Gi}\n",
            "etc/kdir/20.conf": b"kubeReserved: {memory: 3Gi}\n",
            "etc/kdir/10.conf": b"kubeReserved: {memory: 2Gi}\n",
            "etc/kdir/30.yaml": b"kubeReserved: {memory: 9Gi}\n",  # not a .conf
        }
    )
    assert found.system_reserved == ("1Gi", "/etc/kubelet.yaml")
    assert found.kube_reserved == ("3Gi", "/etc/kdir/20.conf")


def test_an_unreadable_file_is_a_problem() -> None:
    files = FaultyFiles({CONFIG: b""}, {f"/{CONFIG}": EACCES})
    assert settings(files).problems == (f"/{CONFIG}: Permission denied",)


def test_the_data_directory_comes_from_k3s_and_tells_a_server() -> None:
    assert not read({f"{DATA}/agent/x": b""}).server
    assert read({f"{DATA}/server/x": b""}).server
    moved: dict[str, Entry] = {
        CONFIG: b"data-dir: /mnt/k3s\n",
        "mnt/k3s/server/token": b"",
        "mnt/k3s/agent/etc/kubelet.conf.d/1.conf": b"kubeReserved: {memory: 1Gi}\n",
        f"{DROP_INS}/1.conf": b"kubeReserved: {memory: 9Gi}\n",
    }
    found = read(moved)
    assert (found.data_dir, found.server, memory(found)) == ("/mnt/k3s", True, (None, "1Gi", None))
    assert read({**moved, UNIT: unit("--data-dir", "/var/other")}).data_dir == "/var/other"
    assert read({**moved, UNIT: unit("-d=/var/other")}).data_dir == "/var/other"
    assert settings(TreeFiles(moved), "/given").data_dir == "/given"
    environment: dict[str, Entry] = {UNIT: unit(), f"{UNIT}.env": b"K3S_DATA_DIR=/from/env\nK3S_TOKEN='x'\n"}
    assert read(environment).data_dir == "/from/env"
    assert read({**environment, CONFIG: b"data-dir: /mnt/k3s\n"}).data_dir == "/mnt/k3s"


@pytest.mark.parametrize(
    ("entries", "name"),
    [
        ({CONFIG: b"node-name: Edge-7\n"}, "edge-7"),  # K3s puts it into lower case
        ({CONFIG: b"node-name: 0123\n"}, "0123"),
        ({CONFIG: b"node-name: a\n", UNIT: unit("--node-name=b")}, "b"),
        ({UNIT: unit(), f"{UNIT}.env": b"K3S_NODE_NAME=c\n"}, "c"),
        ({CONFIG: b"node-name: a\nwith-node-id: true\n", "etc/rancher/node/id": b"1a2b3c4d\n"}, "a-1a2b3c4d"),
        ({CONFIG: b"node-name: a\n", UNIT: unit("--with-node-id"), "etc/rancher/node/id": b"1a\n"}, "a-1a"),
        ({CONFIG: b"node-name: a\nwith-node-id: false\n"}, "a"),
        ({CONFIG: b"node-name: a\nwith-node-id: true\n"}, None),  # the id is not readable
        ({CONFIG: b"with-node-id: true\n"}, None),
        ({UNIT: unit()}, None),
    ],
)
def test_the_node_name(entries: dict[str, Entry], name: str | None) -> None:
    assert read(entries).node_name == name


def test_another_configuration_file() -> None:
    elsewhere: dict[str, Entry] = {
        "opt/k3s.yaml": b"node-name: there\n",
        "opt/k3s.yaml.d/1.yaml": b"kubelet-arg: kube-reserved=memory=1Gi\n",
        CONFIG: b"node-name: here\n",
    }
    for where in (unit("--config", "/opt/k3s.yaml"), unit("-c=/opt/k3s.yaml")):
        found = read({**elsewhere, UNIT: where})
        assert (found.node_name, found.kube_reserved) == ("there", ("1Gi", "/opt/k3s.yaml.d/1.yaml"))
    # the environment wins over the flag
    both: dict[str, Entry] = {UNIT: unit("--config", "/none"), f"{UNIT}.env": b"K3S_CONFIG_FILE=/opt/k3s.yaml\n"}
    assert read({**elsewhere, **both}).node_name == "there"


def test_which_unit_counts() -> None:
    server: dict[str, Entry] = {
        "etc/systemd/system/k3s.service": unit("--node-name=s").replace(b"agent \\", b"server \\")
    }
    agent: dict[str, Entry] = {UNIT: unit("--node-name=a")}
    named: dict[str, Entry] = {"etc/systemd/system/k3s-edge.service": unit("--node-name=x")}
    package: dict[str, Entry] = {"usr/lib/systemd/system/k3s.service": unit("--node-name=p")}
    stranger: dict[str, Entry] = {
        "etc/systemd/system/k3s-backup.service": b"[Service]\nExecStart=/bin/tar --node-name=q\n"
    }
    wants = "etc/systemd/system/multi-user.target.wants"
    assert read({**server, **agent}).node_name == "s"
    assert read({**server, **agent, f"{wants}/k3s-agent.service": f"/{UNIT}"}).node_name == "a"
    assert read({**stranger, **named}).node_name == "x"
    assert read(package).node_name == "p"
    assert read({**package, **server}).node_name == "s"
    assert read(stranger).node_name is None


def test_a_drop_in_of_the_unit_replaces_its_command_line() -> None:
    found = read(
        {
            UNIT: unit("--node-name=old", "--kubelet-arg=kube-reserved=memory=1Gi"),
            f"{UNIT}.d/10-args.conf": b"[Service]\nExecStart=\nExecStart=/usr/local/bin/k3s agent --node-name new\n"
            b"# ExecStart=/usr/local/bin/k3s agent --node-name=comment\n"
            b"Environment=\"K3S_DATA_DIR=/d\" 'OTHER=a b'\n",
            f"{UNIT}.d/20.txt": b"[Service]\nExecStart=\n",
        }
    )
    assert (found.node_name, found.kube_reserved, found.data_dir) == ("new", None, "/d")


def test_comments_inside_a_command_and_the_order_of_environments() -> None:
    text = b"""[Service]
EnvironmentFile=-/etc/%N.env
Environment=K3S_DATA_DIR=/unit K3S_NODE_NAME=from-unit
ExecStart=/usr/local/bin/k3s agent --kubelet-arg=kube-reserved=memory=1Gi \\
# --kubelet-arg=kube-reserved=memory=9Gi \\
    --docker
"""
    found = read({UNIT: text, "etc/k3s-agent.env": b"# K3S_NODE_NAME=comment\nK3S_DATA_DIR=/file\n"})
    assert (found.data_dir, found.node_name, memory(found)) == ("/file", "from-unit", (None, "1Gi", None))


# --- a kubelet without K3s ---

PLAIN = "var/lib/kubelet/config.yaml"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("systemReserved: {memory: 1Gi}\nevictionHard: {memory.available: 500Mi}\n", ("1Gi", None, "500Mi")),
        ("kubeReserved: {memory: 1Gi}\n", (None, "1Gi", "100Mi")),  # the kubelet's default stands
        ("evictionHard: {nodefs.available: 10%}\n", (None, None, None)),  # a map without memory takes it away
    ],
)
def test_a_plain_kubelet(text: str, expected: tuple[str | None, ...]) -> None:
    assert memory(read({PLAIN: text.encode()})) == expected


@pytest.mark.parametrize("k3s", [{UNIT: unit()}, {CONFIG: b"node-name: n\n"}, {f"{DATA}/agent/x": b""}])
def test_beside_k3s_that_file_is_nobodys(k3s: dict[str, Entry]) -> None:
    assert memory(read({PLAIN: b"systemReserved: {memory: 1Gi}\n", **k3s})) == (None, None, None)


@given(st.binary(), st.binary(), st.binary())
def test_any_bytes_are_settings(config: bytes, drop_in: bytes, service: bytes) -> None:
    read({CONFIG: config, f"{DROP_INS}/1.conf": drop_in, UNIT: service})


@given(st.text(alphabet="k3s-agent=,<>:\"'\\\n\t mMemoryGi[]{}&*!|>%@`#"))
def test_any_text_is_settings(text: str) -> None:
    read({CONFIG: b"kubelet-arg: " + text.encode(), UNIT: b"ExecStart=/k3s agent " + text.encode()})


def test_the_value_in_an_environment_file_is_the_rest_of_its_line() -> None:
    # systemd.exec(5): without quotes blanks belong to the value; with them they are taken off.
    tree = {
        "etc/systemd/system/k3s-agent.service": b"[Service]\nEnvironmentFile=/etc/edge.env\n"
        b"ExecStart=/usr/local/bin/k3s agent $PLAIN $QUOTED\n",
        "etc/edge.env": b"# PLAIN=no\nPLAIN=--token abc --kubelet-arg=system-reserved=memory=3Gi\n"
        b"QUOTED='-d /mnt/k --kubelet-arg=kube-reserved=memory=2Gi'\n",
    }
    found = settings(TreeFiles(tree))
    assert found.data_dir == "/mnt/k"
    assert (found.system_reserved or ("",))[0] == "3Gi"
    assert (found.kube_reserved or ("",))[0] == "2Gi"
