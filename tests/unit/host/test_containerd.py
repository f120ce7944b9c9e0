"""NVIDIA runtimes in containerd's configuration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.facts import RuntimeFacts
from edgeagent.host.containerd import runtime
from edgeagent.host.files import Entry, TreeFiles
from tests.unit.host.trees import EACCES, FaultyFiles

DATA = "/var/lib/rancher/k3s"
K3S = "var/lib/rancher/k3s/agent/etc/containerd/config.toml"
PLAIN = "etc/containerd/config.toml"
BINARY = "/usr/bin/nvidia-container-runtime"
INSTALLED: dict[str, Entry] = {BINARY: b"\x7fELF", f"{BINARY}.cdi": b"\x7fELF"}

# From public listings of generated files: K3s 1.36 (version 3), a Jetson Nano under K3s 1.2x (version 2), K3s 1.22.
V3 = """\
version = 3
imports = ["/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/*.toml"]

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""
V3_NVIDIA = """
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'nvidia']
  runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'nvidia'.options]
  BinaryName = "/usr/bin/nvidia-container-runtime"
  SystemdCgroup = true
"""
V3_CDI = """
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'nvidia-cdi'.options]
  BinaryName = "/usr/bin/nvidia-container-runtime.cdi"
"""
V2_NVIDIA = """\
version = 2
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes."nvidia"]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes."nvidia".options]
  BinaryName = "/usr/bin/nvidia-container-runtime"
"""
V1_NVIDIA = """\
[plugins.cri.containerd.runtimes."nvidia"]
  runtime_type = "io.containerd.runc.v2"
[plugins.cri.containerd.runtimes."nvidia".options]
  BinaryName = "/usr/bin/nvidia-container-runtime"
"""
PRESENT = {"nvidia": (BINARY, True)}


def read(config: str | bytes, entries: dict[str, Entry] | None = None) -> RuntimeFacts:
    content = config.encode() if isinstance(config, str) else config
    return runtime(TreeFiles({K3S: content, **INSTALLED, **(entries or {})}), DATA)


@pytest.mark.parametrize("config", [V3 + V3_NVIDIA, V2_NVIDIA, V1_NVIDIA, "version = 4\n" + V3_NVIDIA])
def test_every_version_names_its_runtimes(config: str) -> None:
    assert read(config) == RuntimeFacts(readable=True, path=f"/{K3S}", nvidia=PRESENT)


def test_several_runtimes_beside_a_default() -> None:
    default = "[plugins.'io.containerd.cri.v1.runtime'.containerd]\ndefault_runtime_name = 'nvidia'\n"
    found = read(V3 + default + V3_NVIDIA + V3_CDI)
    assert found.nvidia == {**PRESENT, "nvidia-cdi": (f"{BINARY}.cdi", True)}


def test_a_default_that_is_not_defined_is_no_runtime() -> None:
    text = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd]\n  default_runtime_name = "nvidia"\n'
    assert read(text) == RuntimeFacts(readable=True, path=f"/{K3S}")


def test_an_nvidia_binary_under_another_name_counts() -> None:
    text = V2_NVIDIA.replace('runtimes."nvidia"', "runtimes.runc")
    assert read(text).nvidia == {"runc": (BINARY, True)}


def test_the_unnamed_default_runtime_of_old_files() -> None:
    # from a template for K3s 1.20 on a Jetson Xavier (containerd issue 4834)
    text = """
[plugins.cri.containerd.default_runtime]
  runtime_type = "io.containerd.runtime.v1.linux"
[plugins.cri.containerd.default_runtime.options]
  Runtime = "/usr/bin/nvidia-container-runtime"
"""
    found = read(text)
    assert found.nvidia == {"default_runtime": (BINARY, True)}


@pytest.mark.parametrize(
    "config",
    [
        V3,
        V3 + "\n".join(f"# {line}" for line in V3_NVIDIA.splitlines()),  # only in a comment
        V3 + '\n[other]\ntext = """' + V3_NVIDIA + '"""\n',  # only in a text
        V2_NVIDIA.replace("version = 2", "version = 3"),  # a version 3 file is not read for these tables
        V3_NVIDIA.replace("\n[", "\nversion = 2\n[", 1),
    ],
)
def test_a_runtime_that_containerd_does_not_see_is_absent(config: str) -> None:
    assert read(config) == RuntimeFacts(readable=True, path=f"/{K3S}")


@pytest.mark.parametrize(
    "content",
    [b"", b"\n# nothing\n", (V3 + V3_NVIDIA).encode()[:-20], b"version = 3\n[plugins.'x", b"\xff\xfe", b"a = [" * 3000],
)
def test_a_file_that_is_not_whole_proves_nothing(content: bytes) -> None:
    assert read(content) == RuntimeFacts(readable=False, path=f"/{K3S}")


def test_a_runtime_in_a_drop_in() -> None:
    folder = "var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d"
    assert read(V3, {f"{folder}/gpu.toml": b"version = 3" + V3_NVIDIA.encode()}).nvidia == PRESENT
    # without a version of its own, it is of the version of the file that imports it
    assert read(V3, {f"{folder}/gpu.toml": V3_NVIDIA.encode()}).nvidia == PRESENT
    assert read(V3, {f"{folder}/gpu.txt": V3_NVIDIA.encode()}).nvidia == {}
    assert not read(V3, {f"{folder}/gpu.toml": b"[unclosed"}).readable
    relative = V3.replace("/var/lib/rancher/k3s/agent/etc/containerd/", "")
    assert read(relative, {f"{folder}/gpu.toml": V3_NVIDIA.encode()}).nvidia == PRESENT


def test_files_that_import_each_other_come_to_an_end() -> None:
    assert read(f'version = 3\nimports = ["/{K3S}"]\n' + V3_NVIDIA).nvidia == PRESENT
    loop = f'imports = ["/{K3S}"]\n'
    assert read('version = 3\nimports = ["/x/*"]\n', {"x/a": loop.encode()}).readable


@pytest.mark.parametrize(
    ("entries", "there"),
    [
        ({BINARY: None}, True),
        ({}, False),
        ({"usr": "/system", "system/bin/nvidia-container-runtime": b""}, True),
        ({BINARY: "/opt/gone"}, False),
        ({BINARY: "/opt/real", "opt/real": b""}, True),
    ],
)
def test_the_binary_is_looked_for_below_the_root(entries: dict[str, Entry], there: bool) -> None:  # noqa: FBT001 (a table's column)
    found = runtime(TreeFiles({K3S: (V3 + V3_NVIDIA).encode(), **entries}), DATA)
    assert found.nvidia == {"nvidia": (BINARY, there)}


def test_a_binary_without_a_folder_is_looked_for_where_programs_are() -> None:
    text = (V3 + V3_NVIDIA).replace(BINARY, "nvidia-container-runtime")
    assert read(text).nvidia == {"nvidia": ("nvidia-container-runtime", True)}
    none = runtime(TreeFiles({K3S: text.encode()}), DATA)
    assert none.nvidia == {"nvidia": ("nvidia-container-runtime", False)}


def test_a_runtime_without_a_binary_has_none() -> None:
    text = V3 + "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]\n"
    assert read(text).nvidia == {"nvidia": ("", False)}


def test_the_systems_own_containerd_counts_only_without_k3s() -> None:
    plain: dict[str, Entry] = {PLAIN: V2_NVIDIA.encode(), **INSTALLED}
    assert runtime(TreeFiles(plain), DATA) == RuntimeFacts(readable=True, path=f"/{PLAIN}", nvidia=PRESENT)
    # K3s never reads that file; its own is still to be written
    beside: dict[str, Entry] = {**plain, "var/lib/rancher/k3s/agent/client-ca.crt": b""}
    assert runtime(TreeFiles(beside), DATA) == RuntimeFacts(readable=False, path=f"/{K3S}")
    assert runtime(TreeFiles({}), DATA) == RuntimeFacts(readable=False, path=f"/{PLAIN}")
    assert runtime(TreeFiles({"mnt/k3s/agent/etc/containerd/config.toml": V3.encode()}), "/mnt/k3s").readable


def test_no_permission_proves_nothing() -> None:
    files = FaultyFiles({K3S: V3.encode(), **INSTALLED}, {f"/{K3S}": EACCES})
    assert not runtime(files, DATA).readable
    files = FaultyFiles({K3S: (V3 + V3_NVIDIA).encode(), **INSTALLED}, {BINARY: EACCES})
    assert runtime(files, DATA).nvidia == {"nvidia": (BINARY, False)}


@given(st.one_of(st.binary(), st.text(alphabet="[]'\".=\nplugins-vcr 123#{},").map(lambda text: (V3 + text).encode())))
def test_any_bytes_are_facts(content: bytes) -> None:
    assert read(content).nvidia == {}


ODD = [
    "plugins = 3",
    "plugins = []",
    "version = [1]\nplugins.cri = 1",
    "imports = 3",
    "imports = [3]",
    "imports = ['']",
]


@pytest.mark.parametrize("text", ODD)
def test_values_of_other_types_are_nothing(text: str) -> None:
    assert read(text).nvidia == {}
