"""Cgroup paths in every dialect: which pod, which container."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.facts import CgroupOwner
from edgeagent.host.cgroup_path import among_pods, container_id, owner, owner_of, unit

U = "11111111-2222-3333-4444-000000000001"
V = "11111111-2222-3333-4444-000000000002"
U_ = U.replace("-", "_")
C = "c" * 63 + "1"
D = "d" * 63 + "2"
HASH = "0123456789abcdef0123456789abcdef"
BOTH, POD, HASHED = CgroupOwner(U, C), CgroupOwner(U, None), CgroupOwner(HASH, C)
QOS = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{U_}.slice"

# Shapes as public projects have recorded them: coroot-node-agent, spire, beyla, cadvisor, kepler, tracee, kind,
# k3s (pull request 3005), usernetes, opentelemetry; the ids are made up.
PATHS = {
    "systemd, best effort": (
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{U_}.slice/cri-containerd-{C}.scope",
        BOTH,
    ),
    "systemd, guaranteed": (f"/kubepods.slice/kubepods-pod{U_}.slice/cri-containerd-{C}.scope", BOTH),
    "systemd, dashes kept": (f"/kubepods.slice/kubepods-burstable-pod{U}.slice/docker-{C}.scope", BOTH),
    "systemd, mixed": ("/kubepods.slice/kubepods-pod11111111_2222_3333-4444_000000000001.slice", POD),
    "cgroupfs": (f"/kubepods/burstable/pod{U}/{C}", BOTH),
    "cgroupfs, guaranteed": (f"/kubepods/pod{U}/{C}", BOTH),
    "cgroupfs, underscores": (f"/kubepods/pod{U_}/{C}", BOTH),
    "a cgroup of the container's own": (f"/kubepods/pod{U}/{C}/init", BOTH),
    "a scope's child": (f"/{QOS}/crio-{C}.scope/container", BOTH),
    "docker in the pod": (f"/kubepods/pod{U}/{C}/docker/{D}", BOTH),
    "colon form": (f"/system.slice/k3s-agent.service/kubepods-burstable-pod{U_}.slice:cri-containerd:{C}", BOTH),
    "colon form at the top": (f"/kubepods-besteffort-pod{U_}.slice:cri-containerd:{C}", BOTH),
    "colon form below a pod": (f"/kubepods/besteffort/pod{U}/some:cri-containerd:{C}", BOTH),
    "kind": (
        f"/docker/{D}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{U_}.slice/cri-containerd-{C}.scope",
        BOTH,
    ),
    "kind, colon form": (f"kubelet-kubepods-besteffort-pod{U_}.slice:cri-containerd:{C}", BOTH),
    "kind, cgroupfs": (f"/docker/{D}/kubepods/besteffort/pod{U}/{C}", BOTH),
    "kind in a scope": (f"/system.slice/docker-{D}.scope/kubelet.slice/{QOS}/cri-containerd-{C}.scope", BOTH),
    "kubepods twice": (f"/kubepods/kubepods/besteffort/pod{U}/{C}", BOTH),
    "own root": (f"/k8sr/kubepods/burstable/pod{U}/{C}", BOTH),
    "LXC": (f"/lxc.payload.x/{QOS}/cri-containerd-{C}.scope", BOTH),
    "K3s rootless": (f"/user.slice/user-1001.slice/user@1001.service/k3s-rootless.service/kubepods/pod{U}/{C}", BOTH),
    "usernetes": (
        f"/user.slice/user-1001.slice/user@1001.service/u7s-rootlesskit.service/kubepods/burstable/pod{U}/{C}",
        BOTH,
    ),
    "static pod": (f"/kubepods/besteffort/pod{HASH}/{C}", HASHED),
    "static pod, systemd": (f"/kubepods.slice/kubepods-burstable-pod{HASH}.slice/cri-containerd-{C}", HASHED),
    "static pod with a uid of its own": (f"/kubepods/besteffort/podmy-uid.1/{C}", CgroupOwner("my-uid.1", C)),
    "pod level": (f"/kubepods/burstable/pod{U}", POD),
    "pod level, systemd": (f"/{QOS}", POD),
    "CRI-O": (f"/{QOS}/crio-{C}.scope", BOTH),
    "CRI-O without a scope": (f"/kubepods/pod{U}/crio-{C}", BOTH),
    "CRI-O's monitor": (f"/{QOS}/crio-conmon-{C}.scope", POD),
    "CRI-O's mount": (f"/kubepods/pod{U}/crio-{C}.mount", POD),
    "an id of another length": (f"/kubepods/pod{U}/crio-{C[:-2]}", POD),
    "an id with a tail": (f"/kubepods/pod{U}/{C}zz", POD),
    "from inside a cgroup namespace": (f"/../../../kubepods-burstable-pod{U_}.slice/cri-containerd-{C}.scope", BOTH),
    "from inside, cgroupfs": (f"/../../pod{U}/{C}", BOTH),
    "from inside, the same pod": (f"/../{C}", None),
    "from inside, CRI-O": (f"/../crio-{C}.scope", None),
    "removed": (f"/kubepods/pod{U}/{C} (deleted)", BOTH),
    # What stands below a container may have been named by the container.
    "a pod that another one made up": (f"/kubepods/pod{U}/{C}/kubepods/pod{V}/{D}", BOTH),
    "K3s in a pod": (f"/kubepods/pod{U}/{C}/k3s/kubepods/burstable/pod{V}/{D}", BOTH),
    "docker": (f"/docker/{D}", None),
    "docker scope": (f"/system.slice/docker-{D}.scope", None),
    "containerd without a pod": (f"/system.slice/cri-containerd-{C}.scope", None),
    "a service": ("/system.slice/gdm.service", None),
    "the runtime": ("/podruntime/runtime", None),
    "pod in a name": (f"/podruntime/docker/kubepods/{C}", None),
    "pod as a name": (f"/pod/{C}", None),
    "podman": (f"/machine.slice/libpod-{C}.scope", None),
    "podman pod": (f"/machine.slice/machine-libpod_pod_{D}.slice/libpod-{C}.scope", None),
    "podman, rootless": (f"/user.slice/user-1000.slice/user@1000.service/user.slice/podman-123.scope/{C}", None),
    "a session": ("/user.slice/user-0.slice/session-31207.scope", None),
    "LXC service": ("/lxc.payload.first/system.slice/systemd-logind.service", None),
    "K3s itself": ("/k3s", None),
    "a container right below kubepods": (f"/kubepods/{C}", None),
    "root": ("/", None),
    "nothing": ("", None),
}


@pytest.mark.parametrize(("path", "expected"), PATHS.values(), ids=PATHS.keys())
def test_a_path_names_its_pod_and_container(path: str, expected: CgroupOwner | None) -> None:
    assert owner_of(path) == expected
    assert owner(f"0::{path}".encode()) == expected
    assert owner(f"0::{path}\n".encode()) == expected


# Public fixture of coroot-node-agent: cgroup v1 and v2 side by side, the v2 line names the runtime.
HYBRID = f"""\
13:cpuset:/kubepods/burstable/pod{U}/{C}
12:memory:/kubepods/burstable/pod{U}/{C}
9:misc:/
7:rdma:/
5:net_cls,net_prio:/kubepods/burstable/pod{U}/{C}
1:name=systemd:/kubepods/burstable/pod{U}/{C}
0::/reserved.slice/containerd.service
"""


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (HYBRID, BOTH),
        (f"3:rdma:/\n2:freezer:/{QOS}/crio-{C}.scope\n0::/system.slice/crio.service\n", BOTH),
        (f"11:cpu,memory:/kubepods/pod{U}/{C}\n10:pids:/kubepods/pod{V}/{D}\n", BOTH),
        (f"11:pids:/kubepods/pod{V}/{D}\n10:cpu,memory:/kubepods/pod{U}/{C}\n", BOTH),
        ("11:memory:/system.slice/docker.service\n1:name=systemd:/system.slice/docker.service\n", None),
        # Public fixture of coroot-node-agent: every hierarchy names another service.
        ("1:name=systemd:/system.slice/python-app.service\n7:cpu,cpuacct:/\n", None),
        ("", None),
        ("0:/kubepods", None),
        (f"/kubepods/pod{U}/{C}\n", None),  # a path without its hierarchy is no line of such a file
        (f"x::/kubepods/pod{U}/{C}\n", None),
    ],
)
def test_a_file_with_several_hierarchies(content: str, expected: CgroupOwner | None) -> None:
    assert owner(content.encode()) == expected


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_no_name_can_begin_a_line(separator: str) -> None:
    # The kernel allows all of these in the name of a cgroup, and a container may make cgroups of its own.
    forged = f"0::/kubepods/pod{U}/{C}/x{separator}1:memory:/kubepods/pod{V}/{D}\n"
    assert owner(forged.encode()) == BOTH


def test_undecodable_bytes_lose_nothing() -> None:
    assert owner(b"0::/\xff\xfe/kubepods/pod" + U.encode() + b"/" + C.encode() + b"/\xff\n") == BOTH


@pytest.mark.parametrize("name", ["memory.current", "cgroup.procs", "init.scope", C[:-1], C + "0", C.upper(), ""])
def test_other_names_are_no_container(name: str) -> None:
    assert container_id(name) is None


@given(st.binary())
def test_any_bytes_are_an_answer(content: bytes) -> None:
    owner(content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("0::/system.slice/ollama.service\n", "ollama.service"),
        ("0::/system.slice/system-getty.slice/getty@tty1.service\n", "getty@tty1.service"),
        ("0::/init.scope\n", "init.scope"),
        ("0::/system.slice\n", "system.slice"),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", "session-3.scope of user-1000.slice"),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-chat\\x2dllm-77.scope\n",
            "app-gnome-chat\\x2dllm-77.scope of user-1000.slice",
        ),
        ("0::/user.slice/user-1000.slice\n", "user-1000.slice"),
        # From inside a cgroup namespace the path begins with the way out of it; that of a removed group ends so.
        ("0::/../../system.slice/ollama.service\n", "ollama.service"),
        ("0::/system.slice/ollama.service (deleted)\n", "ollama.service"),
        # v1: systemd's own hierarchy names the unit, those of controllers in use too; a slice says less than a service.
        ("9:memory:/system.slice\n3:cpuset:/\n1:name=systemd:/system.slice/ollama.service\n", "ollama.service"),
        ("9:memory:/system.slice/ollama.service\n1:name=systemd:/system.slice\n", "ollama.service"),
        # What a service or the session of a user calls the groups below it is no unit of systemd's.
        ("0::/system.slice/mine.service/sshd.service\n", "mine.service"),
        ("0::/user.slice/user-1000.slice/session-3.scope/sshd.service\n", "session-3.scope of user-1000.slice"),
        ("0::/system.slice/mine.service/user@0.service/sshd.service\n", "mine.service"),
        # Names that are none, so that none of their characters is told to anybody.
        ("0::/a b.service\n", ""),
        ("0::/x\x1b[2J.service\n", ""),
        ("0::/x) (pid 1, y.service\n", ""),
        ("0::/.service\n", ""),
        (f"0::/{'x' * 256}.service\n", ""),
        (f"0::/docker/{C}/system.slice/ollama.service\n", ""),
        ("0::/\n", ""),
        ("", ""),
    ],
)
def test_the_unit_of_systemd(content: str, expected: str) -> None:
    assert unit(content.encode()) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f"0::/kubepods/burstable/pod{U}/{C}\n", True),
        ("0::/kubepods.slice/kubepods-besteffort.slice\n", True),
        ("0::/kubelet.slice/kubelet-kubepods.slice\n", True),
        (f"0::/docker/{D}/kubepods\n", True),
        ("9:memory:/system.slice\n2:pids:/kubepods/besteffort\n", True),
        ("0::/system.slice/kubepods.service\n", False),
        ("0::/system.slice/k3s.service\n", False),
        ("", False),
    ],
)
def test_the_cgroup_of_all_pods(content: str, *, expected: bool) -> None:
    assert among_pods(content.encode()) is expected


@given(st.binary())
def test_any_bytes_name_a_unit_or_none(content: bytes) -> None:
    assert unit(content).isascii()


SEGMENTS = st.one_of(
    st.sampled_from(
        [
            f"pod{U}",
            f"pod{V}",
            f"kubepods-pod{U_}.slice",
            C,
            D,
            f"cri-containerd-{C}.scope",
            "kubepods",
            "burstable",
            "..",
        ]
    ),
    st.text(alphabet="pod-_.:/abc019", max_size=12),
)


@given(st.lists(SEGMENTS, max_size=8).map("/".join))
def test_what_is_found_stands_in_the_path(path: str) -> None:
    found = owner_of(path)
    if found:
        assert found.pod_uid in path.replace("_", "-")
        assert found.container_id is None or found.container_id in path
