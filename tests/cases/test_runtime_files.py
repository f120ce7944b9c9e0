"""Which runtimes the containerd of this node has, by the file that it reads and in whatever spelling.

NVIDIA/nvidia-container-toolkit#862, k3s-io/k3s#11065, #8248, NVIDIA/k8s-device-plugin#406, NVIDIA/gpu-operator#1453,
containerd/containerd#5340, NVIDIA/cloud-native-stack#142.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.holders import Link
from tests.cases.making import KEY, conditions, pod, pods
from tests.cases.nodes import (
    ABOVE_NOTES,
    GPU,
    NODE_NAMED,
    WITH_A_GPU,
    Capture,
    Files,
    ids,
    judged,
    orin,
    pi,
    proof,
    shown,
    the,
    told,
    tower,
    whole,
)
from tests.diagnose.making import BINARY, CLASSES, CONTAINERD, CONTAINERD_PATH, K3S_CONFIG, PODS, classes, creating
from tests.diagnose.making import without as less
from tests.diagnose.plugin import plugin

V3 = "plugins.'io.containerd.cri.v1.runtime'.containerd"
V2 = 'plugins."io.containerd.grpc.v1.cri".containerd'
DROP_INS = "/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d"
RUNC_3 = f'version = 3\n[{V3}.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n'
NVIDIA_3 = f"""[{V3}.runtimes.'nvidia']
  runtime_type = "io.containerd.runc.v2"
[{V3}.runtimes.'nvidia'.options]
  BinaryName = "{BINARY}"
  SystemdCgroup = true
"""
NVIDIA_2 = f"""[{V2}.runtimes."nvidia"]
  runtime_type = "io.containerd.runc.v2"
[{V2}.runtimes."nvidia".options]
  BinaryName = "{BINARY}"
"""
RUNC_2 = f'version = 2\n[{V2}.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n'
SYSTEM = "host/etc/containerd/config.toml"
DOCKER = "host/etc/docker/daemon.json"
DAEMON = json.dumps({"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": BINARY, "runtimeArgs": []}}})


# --- the spellings --------------------------------------------------------------------------------------------------

PRESENT: dict[str, str] = {
    "version-3": RUNC_3 + NVIDIA_3,
    "version-3-double-quotes": (RUNC_3 + NVIDIA_3).replace("'", '"'),
    "version-2": RUNC_2 + NVIDIA_2,
    "version-2-single-quotes": (RUNC_2 + NVIDIA_2).replace(
        '"io.containerd.grpc.v1.cri"', "'io.containerd.grpc.v1.cri'"
    ),
    "version-2-bare-name": RUNC_2 + NVIDIA_2.replace('"nvidia"', "nvidia"),
    "inline-tables": f"version = 3\n[{V3}]\n"
    f"runtimes = {{ runc = {{}}, nvidia = {{ options = {{ BinaryName = '{BINARY}' }} }} }}\n",
    "dotted-keys": f"version = 3\n[{V3}.runtimes]\nrunc.runtime_type = 'io.containerd.runc.v2'\n"
    f"nvidia.options.BinaryName = '{BINARY}'\n",
    "spaces-around-dots": "version = 3\n"
    "[ plugins . 'io.containerd.cri.v1.runtime' . containerd . runtimes . nvidia . options ]\n"
    f"BinaryName='{BINARY}'\n",
    "windows-line-ends": (RUNC_3 + NVIDIA_3).replace("\n", "\r\n"),
    "version-1": '[plugins.cri.containerd.runtimes."nvidia"]\n  runtime_type = "io.containerd.runc.v2"\n'
    f'[plugins.cri.containerd.runtimes."nvidia".options]\n  BinaryName = "{BINARY}"\n',
    "commented-out-as-well": RUNC_3 + NVIDIA_3 + "# version = 2\n# default_runtime_name = 'nvidia'\n",
}


@pytest.mark.parametrize("text", PRESENT.values(), ids=PRESENT.keys())
def test_a_runtime_is_there_in_any_spelling(tmp_path: Path, capsys: Capture, text: str) -> None:
    assert ids(told(capsys, tmp_path, orin(**{CONTAINERD: text}))) == []


@pytest.mark.parametrize("kind", WITH_A_GPU)
def test_so_it_is_on_every_kind_of_machine(tmp_path: Path, capsys: Capture, kind: Any) -> None:
    assert ids(told(capsys, tmp_path / "3", kind(**{CONTAINERD: RUNC_3 + NVIDIA_3}))) == []
    missing = the(told(capsys, tmp_path / "0", kind(**{CONTAINERD: RUNC_3})), "runtime-missing")
    assert judged(missing) == ("error", "certain", NODE_NAMED)


@pytest.mark.parametrize(
    ("main", "name", "drop_in"),
    [
        (f'imports = ["{DROP_INS}/*.toml"]\n' + RUNC_3, f"{DROP_INS}/99-nvidia.toml", "version = 3\n" + NVIDIA_3),
        ('imports = ["config-v3.toml.d/*.toml"]\n' + RUNC_3, f"{DROP_INS}/10.toml", NVIDIA_3),
        (f'imports = ["{DROP_INS}/nv.toml"]\n' + RUNC_3, f"{DROP_INS}/nv.toml", "version = 3\n" + NVIDIA_3),
        (
            'imports = ["/etc/containerd/conf.d/*.toml"]\n' + RUNC_2,
            "/etc/containerd/conf.d/99-nvidia.toml",
            RUNC_2 + NVIDIA_2,
        ),
    ],
    ids=["of-k3s", "beside-the-file", "one-file", "of-the-toolkit"],
)
def test_a_drop_in_counts_where_it_is_imported(
    tmp_path: Path, capsys: Capture, main: str, name: str, drop_in: str
) -> None:
    with_it = orin(**{CONTAINERD: main, f"host{name}": drop_in})
    assert ids(told(capsys, tmp_path / "imported", with_it)) == []
    not_there = the(told(capsys, tmp_path / "empty", orin(**{CONTAINERD: main})), "runtime-missing")
    assert judged(not_there) == ("error", "certain", NODE_NAMED)
    stray = orin(**{CONTAINERD: main.partition("\n")[2], f"host{name}": drop_in})
    assert "runtime-missing" in ids(told(capsys, tmp_path / "stray", stray), ["error"])


@pytest.mark.parametrize(
    ("name", "binary"),
    [
        ("nvidia", BINARY),
        ("nvidia-cdi", f"{BINARY}.cdi"),
        ("nvidia-legacy", f"{BINARY}.legacy"),
        ("nvidia-experimental", f"{BINARY}-experimental"),
        ("nvidia", "/usr/local/nvidia/toolkit/nvidia-container-runtime"),
    ],
)
def test_each_runtime_of_nvidias_is_one(tmp_path: Path, capsys: Capture, name: str, binary: str) -> None:
    text = RUNC_3 + NVIDIA_3.replace(BINARY, binary).replace("'nvidia'", f"'{name}'")
    files = {CONTAINERD: text, f"host{binary}": "", CLASSES: classes(**{name: name})}
    assert ids(told(capsys, tmp_path / "3", orin(**files))) == []
    as_v2 = text.replace("version = 3", "version = 2").replace(V3, V2)
    assert ids(told(capsys, tmp_path / "2", orin(**{**files, CONTAINERD: as_v2}))) == []


# --- what is none ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "comment",
    [
        f"# [{V3}.runtimes.'nvidia']\n",
        f"  #[{V3}.runtimes.'nvidia'.options]\n  #BinaryName = '{BINARY}'\n",
        f"[metrics]\naddress = '[{V2}.runtimes.nvidia]'\n",
    ],
    ids=["comment", "comment-with-spaces", "text"],
)
def test_words_are_no_runtime(tmp_path: Path, capsys: Capture, comment: str) -> None:
    one = the(told(capsys, tmp_path, orin(**{CONTAINERD: RUNC_3 + comment})), "runtime-missing")
    assert judged(one) == ("error", "certain", NODE_NAMED)
    assert CONTAINERD_PATH in one["summary"]


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", (RUNC_3 + NVIDIA_3)[:-9], (RUNC_3 + NVIDIA_3)[: len(RUNC_3) + 20], "\x00\x00\x00\x00"],
    ids=["empty", "blank", "in-a-value", "in-a-table", "zeros-after-a-power-cut"],
)
def test_what_cannot_be_read_proves_nothing(tmp_path: Path, capsys: Capture, text: str) -> None:
    one = the(told(capsys, tmp_path / "1", orin(**{CONTAINERD: text})), "runtime-missing")
    assert judged(one) == ("info", "cannot-tell", NODE_NAMED)
    assert CONTAINERD_PATH in whole(one)
    document = shown(capsys, tmp_path / "2", orin(**{CONTAINERD: text}))
    assert conditions(document)["GPURuntimeMisconfigured"] != "True"


def test_a_drop_in_that_is_cut_off_is_named(tmp_path: Path, capsys: Capture) -> None:
    """What reads it itself does not start with it; whether nvidia would be there cannot be told."""
    name = f"{DROP_INS}/99-nvidia.toml"
    files = orin(**{CONTAINERD: f'imports = ["{DROP_INS}/*.toml"]\n{RUNC_3}', f"host{name}": NVIDIA_3[:40]})
    one = the(told(capsys, tmp_path, files), "runtime-missing")
    assert one["certainty"] == "cannot-tell"
    assert name in whole(one)


def test_a_machine_without_a_gpu_needs_none(tmp_path: Path, capsys: Capture) -> None:
    for number, text in enumerate(("", RUNC_3, NVIDIA_3[:30])):
        assert ids(told(capsys, tmp_path / str(number), pi(**{CONTAINERD: text}))) == []


# --- the wrong file -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "misled",
    [
        {SYSTEM: RUNC_2 + NVIDIA_2, DOCKER: DAEMON},
        {SYSTEM: RUNC_3 + NVIDIA_3},
        {DOCKER: DAEMON},
        {DOCKER: json.dumps({"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}})},
        {"host/etc/containerd/conf.d/99-nvidia.toml": "version = 2\n" + NVIDIA_2},
    ],
    ids=["both", "containerd", "docker", "docker-without-default", "conf.d"],
)
def test_what_k3s_does_not_read_has_no_effect(tmp_path: Path, capsys: Capture, misled: Files) -> None:
    files = less(orin(**{CONTAINERD: RUNC_3}, **misled), f"host{BINARY}")
    found = told(capsys, tmp_path / "bad", files)
    missing = the(found, "runtime-missing")
    assert judged(missing) == ("error", "certain", NODE_NAMED)
    assert CONTAINERD_PATH in missing["summary"]
    assert "nvidia-container-toolkit" in missing["remedy"]
    wrong = the(found, "runtime-config-wrong-file")
    assert judged(wrong) == ("warning", "certain", NODE_NAMED)
    for name in misled:
        assert name.removeprefix("host") in whole(wrong)
    right = orin(**{CONTAINERD: RUNC_3 + NVIDIA_3}, **misled)
    assert ids(told(capsys, tmp_path / "good", right)) == []


@pytest.mark.parametrize(
    "harmless",
    [
        {SYSTEM: RUNC_2},
        {SYSTEM: ""},
        {DOCKER: "{}"},
        {DOCKER: '{"default-runtime": "runc"}'},
        {DOCKER: '{"runtimes": '},
        {DOCKER: "[]"},
    ],
    ids=["runc", "empty", "nothing", "runc-by-docker", "cut-off", "a-list"],
)
def test_a_file_without_it_misleads_nobody(tmp_path: Path, capsys: Capture, harmless: Files) -> None:
    found = ids(told(capsys, tmp_path, orin(**{CONTAINERD: RUNC_3}, **harmless)))
    assert "runtime-missing" in found
    assert "runtime-config-wrong-file" not in found


@pytest.mark.parametrize("later", [f"host{BINARY}", "host/usr/local/nvidia/toolkit/nvidia-container-runtime"])
def test_k3s_looks_for_it_when_it_starts(tmp_path: Path, capsys: Capture, later: str) -> None:
    """The toolkit was installed an hour after K3s had written its file."""
    files = {**less(tower(**{CONTAINERD: RUNC_3}), f"host{BINARY}"), later: ""}
    found = told(capsys, tmp_path, files, dated=[(CONTAINERD, 1_769_000_000), (later, 1_769_003_600)])
    one = the(found, "runtime-missing")
    assert "systemctl restart k3s" in one["remedy"]
    assert "apt-get install" not in one["remedy"]


@pytest.mark.parametrize("name", ["config.toml.tmpl", "config-v3.toml.tmpl"])
def test_a_template_without_it_is_what_to_mend(tmp_path: Path, capsys: Capture, name: str) -> None:
    template = CONTAINERD.replace("config.toml", name)
    one = the(told(capsys, tmp_path / "1", orin(**{CONTAINERD: RUNC_3, template: RUNC_3})), "runtime-missing")
    assert template.removeprefix("host") in one["remedy"]
    base = orin(**{CONTAINERD: RUNC_3, template: '{{ template "base" . }}\n'})
    two = the(told(capsys, tmp_path / "2", base), "runtime-missing")
    assert "systemctl restart k3s" in two["remedy"]
    assert "runtimes" not in two["remedy"]


def test_an_edit_by_hand_is_lost_at_the_next_start(tmp_path: Path, capsys: Capture) -> None:
    one = the(told(capsys, tmp_path, orin(**{CONTAINERD: RUNC_3})), "runtime-missing")
    assert "config.toml" in whole(one)
    assert any(word in whole(one) for word in ("writes", "rewrites", "written anew"))


ENDPOINT = "unix:///run/containerd/containerd.sock"
UNIT = "host/etc/systemd/system/k3s-agent.service"
ELSEWHERE = {
    "config": {K3S_CONFIG: f"container-runtime-endpoint: {ENDPOINT}\n"},
    "config.d": {"host/etc/rancher/k3s/config.yaml.d/20.yaml": f"container-runtime-endpoint: {ENDPOINT}\n"},
    "unit": {UNIT: f"[Service]\nExecStart=/usr/local/bin/k3s agent --container-runtime-endpoint={ENDPOINT}\n"},
    "unit-two-words": {
        UNIT: "[Service]\nExecStart=/usr/local/bin/k3s \\\n    agent \\\n"
        f"\t'--container-runtime-endpoint' \\\n\t'{ENDPOINT}' \\\n"
    },
    "a-path-without-unix": {K3S_CONFIG: "container-runtime-endpoint: /run/containerd/containerd.sock\n"},
    "environment-file": {
        UNIT: "[Service]\nEnvironmentFile=-/etc/default/k3s-agent\nExecStart=/usr/local/bin/k3s agent $MORE\n",
        "host/etc/default/k3s-agent": f"MORE=--container-runtime-endpoint={ENDPOINT}\n",
    },
}


@pytest.mark.parametrize("flag", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_k3s_with_another_containerd_reads_that_ones_file(tmp_path: Path, capsys: Capture, flag: Files) -> None:
    good = orin(**{CONTAINERD: RUNC_3, SYSTEM: RUNC_2 + NVIDIA_2}, **flag)
    assert ids(told(capsys, tmp_path / "good", good), ABOVE_NOTES) == []
    bad = orin(**{CONTAINERD: RUNC_3 + NVIDIA_3, SYSTEM: RUNC_2}, **flag)
    one = the(told(capsys, tmp_path / "bad", bad), "runtime-missing")
    assert judged(one)[:2] == ("error", "certain")
    assert "/etc/containerd/config.toml" in one["summary"]


def test_k3s_on_docker_reads_dockers(tmp_path: Path, capsys: Capture) -> None:
    for number, flag in enumerate(
        [{K3S_CONFIG: "docker: true\n"}, {UNIT: "[Service]\nExecStart=/usr/local/bin/k3s agent --docker\n"}]
    ):
        good = orin(**{CONTAINERD: RUNC_3, DOCKER: DAEMON}, **flag)
        assert ids(told(capsys, tmp_path / f"good{number}", good), ABOVE_NOTES) == []
        one = the(
            told(capsys, tmp_path / f"bad{number}", orin(**{CONTAINERD: RUNC_3, DOCKER: "{}"}, **flag)),
            "runtime-missing",
        )
        assert "/etc/docker/daemon.json" in whole(one)


def test_k3s_keeps_its_file_where_its_data_is(tmp_path: Path, capsys: Capture) -> None:
    moved = CONTAINERD.replace("/var/lib/rancher/k3s", "/data/k3s")
    config = {K3S_CONFIG: "data-dir: /data/k3s\n"}
    good = less(orin(**{moved: RUNC_3 + NVIDIA_3}, **config), CONTAINERD)
    assert ids(told(capsys, tmp_path / "good", good), ABOVE_NOTES) == []
    one = the(told(capsys, tmp_path / "bad", orin(**{moved: RUNC_3}, **config)), "runtime-missing")
    assert moved.removeprefix("host") in one["summary"]


def test_without_k3s_the_systems_own_file_counts(tmp_path: Path, capsys: Capture) -> None:
    k3s = [name for name in orin() if "rancher" in name]
    good = less(tower(**{SYSTEM: RUNC_2 + NVIDIA_2}), *k3s)
    assert ids(told(capsys, tmp_path / "good", good), ABOVE_NOTES) == []
    one = the(told(capsys, tmp_path / "bad", {**good, SYSTEM: RUNC_2}), "runtime-missing")
    assert "/etc/containerd/config.toml" in one["summary"]


# --- the binary -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [RUNC_3 + NVIDIA_3, RUNC_2 + NVIDIA_2], ids=["version-3", "version-2"])
def test_a_runtime_whose_binary_is_gone(tmp_path: Path, capsys: Capture, text: str) -> None:
    one = the(told(capsys, tmp_path / "1", less(orin(**{CONTAINERD: text}), f"host{BINARY}")), "runtime-binary-missing")
    assert judged(one) == ("error", "certain", NODE_NAMED)
    assert BINARY in one["summary"]
    assert "nvidia-container-toolkit" in one["remedy"]
    elsewhere = less(orin(**{CONTAINERD: text, "host/usr/local/bin/nvidia-container-runtime": ""}), f"host{BINARY}")
    assert "runtime-binary-missing" in ids(told(capsys, tmp_path / "2", elsewhere), ["error"])


@pytest.mark.parametrize("folder", ["/usr/bin", "/usr/local/bin", "/usr/local/nvidia/toolkit"])
def test_a_name_without_a_folder_is_looked_for(tmp_path: Path, capsys: Capture, folder: str) -> None:
    text = RUNC_3 + NVIDIA_3.replace(BINARY, "nvidia-container-runtime")
    files = {**less(orin(**{CONTAINERD: text}), f"host{BINARY}"), f"host{folder}/nvidia-container-runtime": ""}
    if folder == "/usr/local/nvidia/toolkit":  # K3s looks there itself, but containerd has no PATH to it
        return
    assert ids(told(capsys, tmp_path, files), ABOVE_NOTES) == []


# --- the default ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f'version = 3\n[{V3}]\ndefault_runtime_name = "nvidia"\n' + RUNC_3.partition("\n")[2],
        f"version = 2\n[{V2}]\ndefault_runtime_name = 'nvidia'\n" + RUNC_2.partition("\n")[2],
        f"version = 3\n[{V3}]\ndefault_runtime_name = 'nvidia'\n" + NVIDIA_3.replace("'nvidia'", "'nvidia-cdi'"),
        f"version = 4\n[{V3}]\ndefault_runtime_name = 'nvidia'\n" + RUNC_3.partition("\n")[2],
    ],
    ids=["version-3", "version-2", "another-of-nvidias", "version-4"],
)
@pytest.mark.parametrize("kind", [orin, tower, pi])
def test_a_default_that_is_not_defined_stops_every_pod(tmp_path: Path, capsys: Capture, kind: Any, text: str) -> None:
    found = told(capsys, tmp_path, kind(**{CONTAINERD: text}))
    one = the(found, "runtime-default-undefined")
    assert judged(one) == ("error", "certain", NODE_NAMED)
    assert "nvidia" in one["summary"]
    assert "every pod" in one["summary"].lower()
    assert CONTAINERD_PATH in whole(one)


def test_a_key_that_is_there_twice(tmp_path: Path, capsys: Capture) -> None:
    """It refuses the whole file then; K3s cannot start it (NVIDIA/cloud-native-stack#142)."""
    text = f"version = 3\n[{V3}]\ndefault_runtime_name = 'runc'\ndefault_runtime_name = 'nvidia'\n" + NVIDIA_3
    one = the(told(capsys, tmp_path, orin(**{CONTAINERD: text})), "runtime-default-undefined")
    assert one["severity"] == "error"
    assert "default_runtime_name" in whole(one)


def test_a_default_that_is_defined_is_well(tmp_path: Path, capsys: Capture) -> None:
    default = f"version = 3\n[{V3}]\ndefault_runtime_name = 'nvidia'\n"
    main = orin(**{CONTAINERD: default + NVIDIA_3})
    assert ids(told(capsys, tmp_path / "1", main)) == []
    drop_in = f"host{DROP_INS}/1.toml"
    imports = f'imports = ["{DROP_INS}/*.toml"]\n'
    assert ids(told(capsys, tmp_path / "2", orin(**{CONTAINERD: imports + default, drop_in: NVIDIA_3}))) == []
    assert ids(told(capsys, tmp_path / "3", orin(**{CONTAINERD: imports + RUNC_3 + NVIDIA_3, drop_in: default}))) == []
    commented = RUNC_3 + NVIDIA_3 + "# default_runtime_name = 'kata'\n"
    assert ids(told(capsys, tmp_path / "4", orin(**{CONTAINERD: commented}))) == []


@pytest.mark.parametrize("version", ["4", "5", "99"])
def test_a_version_that_is_not_known_yet(tmp_path: Path, capsys: Capture, version: str) -> None:
    text = (RUNC_3 + NVIDIA_3).replace("version = 3", f"version = {version}")
    (one,) = told(capsys, tmp_path, orin(**{CONTAINERD: text}))
    assert one["id"] == "runtime-version-unknown"
    assert judged(one) == ("info", "suspected", NODE_NAMED)
    assert version in whole(one)


def test_in_tables_of_another_name_nothing_is_proven_to_be_missing(tmp_path: Path, capsys: Capture) -> None:
    """As the tables of version 2 had another name in version 3."""
    text = (RUNC_3 + NVIDIA_3).replace("version = 3", "version = 4").replace("cri.v1.runtime", "cri.v2.runtime")
    found = told(capsys, tmp_path, orin(**{CONTAINERD: text}))
    one = the(found, "runtime-missing")
    assert judged(one) == ("info", "cannot-tell", NODE_NAMED)
    assert "version 4" in whole(one)
    assert ids(found, ABOVE_NOTES) == []


def test_nobody_runs_under_a_default_that_is_not_defined(tmp_path: Path, capsys: Capture) -> None:
    """Who runs was started under another one, so nothing is known of how it came by its GPU, or by none."""
    text = f"version = 3\n[{V3}]\ndefault_runtime_name = 'kata'\n" + NVIDIA_3
    user, plug = pod("llm", limits={GPU: "1"}), plugin()
    plug["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    found = told(capsys, tmp_path / "1", tower(**{CONTAINERD: text, PODS: pods(user, plug)}))
    assert ids(found, ["error"]) == ["runtime-default-undefined"]
    ours = tower(**{CONTAINERD: text, PODS: pods(pod("llm", limits={KEY: "1Gi"}))})
    assert ids(told(capsys, tmp_path / "2", ours), ["error"]) == ["runtime-default-undefined"]


def test_where_a_default_is_mended(tmp_path: Path, capsys: Capture) -> None:
    """Not in the file that K3s writes anew."""
    text = f"version = 3\n[{V3}]\ndefault_runtime_name = 'kata'\n" + NVIDIA_3
    own = the(told(capsys, tmp_path / "1", orin(**{CONTAINERD: text})), "runtime-default-undefined")
    assert "default-runtime" in own["remedy"]
    assert "by hand" in own["remedy"]
    template = CONTAINERD.replace("config.toml", "config.toml.tmpl")
    by = the(told(capsys, tmp_path / "2", orin(**{CONTAINERD: text, template: text})), "runtime-default-undefined")
    assert template.removeprefix("host") in by["remedy"]
    plain = less(orin(**{SYSTEM: text}), *[name for name in orin() if "rancher" in name])
    system = the(told(capsys, tmp_path / "3", plain), "runtime-default-undefined")
    assert "/etc/containerd/config.toml" in system["remedy"]
    assert "K3s" not in system["remedy"]


def test_who_writes_a_file_that_cannot_be_read(tmp_path: Path, capsys: Capture) -> None:
    """K3s its own, from a template if there is one; a drop-in, or a file of Docker's, somebody else."""
    cut, template = NVIDIA_3[:40], CONTAINERD.replace("config.toml", "config-v3.toml.tmpl")
    drop_in = f"host{DROP_INS}/1.toml"
    imports = f'imports = ["{DROP_INS}/*.toml"]\n{RUNC_3}'
    cases: list[tuple[Files, str, bool]] = [
        ({CONTAINERD: cut}, CONTAINERD_PATH, True),
        ({CONTAINERD: cut, template: cut}, template.removeprefix("host"), True),
        ({CONTAINERD: imports, drop_in: cut}, "Mend that file", False),
        ({K3S_CONFIG: "docker: true\n", DOCKER: "{"}, "Mend that file", False),
    ]
    for number, (files, words, by_k3s) in enumerate(cases):
        one = the(told(capsys, tmp_path / str(number), orin(**files)), "runtime-missing")
        assert judged(one)[1] == "cannot-tell"
        assert words in one["remedy"]
        assert ("K3s writes" in one["remedy"]) == by_k3s


def test_a_link_is_as_good_as_what_it_leads_to(tmp_path: Path, capsys: Capture) -> None:
    """The GPU operator links the runtime into its own folder."""
    real = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
    linked = {**less(tower(), f"host{BINARY}"), f"host{BINARY}": Link(real)}
    assert ids(told(capsys, tmp_path / "1", {**linked, f"host{real}": ""})) == []
    assert ids(told(capsys, tmp_path / "2", linked), ["error"]) == ["runtime-binary-missing"]


def test_a_pod_that_is_made_is_said_to_need_what_is_missing(tmp_path: Path, capsys: Capture) -> None:
    """The node is at fault, and the pods that stay in ContainerCreating for it are not told one by one as errors."""
    made = pods(creating("a"), creating("b"))
    found = told(
        capsys, tmp_path, orin(**{CONTAINERD: f"version = 3\n[{V3}]\ndefault_runtime_name = 'x'\n", PODS: made})
    )
    assert ids(found, ["error"]).count("runtime-default-undefined") == 1
    assert "x" in proof(the(found, "runtime-default-undefined"))
