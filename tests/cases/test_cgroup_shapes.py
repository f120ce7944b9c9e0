"""``/proc/<pid>/cgroup`` as many runtimes, kubelets and nestings write it, and the pod and container it names.

Each row is one process on a card that holds 1 GiB. Sources of the recorded shapes stand above their rows; a shape that
is not marked "own" was recorded or is a test case of the project named.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cases.holders import (
    Files,
    by_container,
    card,
    cards,
    cid,
    cluster,
    entry,
    held_gpu,
    show,
    simple,
    task,
    tenant,
    uid,
)
from tests.cases.making import GIB


class Shape(NamedTuple):
    """The text of a cgroup file and what it names."""

    text: str
    uid: str
    container: str | None
    """None: the path ends at the pod, or the recording's id is not a whole one."""


def shape(text: str, pod: str, container: str | None = None) -> Shape:
    """``{u}`` is the uid with dashes, ``{s}`` with underscores, ``{c}`` the container id."""
    written = text.format(u=pod, s=pod.replace("-", "_"), c=container)
    return Shape(written if ":" in written.split("/", 1)[0] else f"0::{written}", pod, container)


def every_controller(text: str, pod: str, container: str, *rest: str) -> Shape:
    """A v1 file: each controller's line with the same path, then other lines."""
    names = ("devices", "memory", "hugetlb", "cpuset", "pids", "freezer", "perf_event", "cpu,cpuacct", "name=systemd")
    path = text.format(u=pod, s=pod.replace("-", "_"), c=container)
    lines = [f"{number}:{name}:{path}" for number, name in enumerate(names, start=2)]
    return Shape("\n".join([*reversed(lines), *rest]), pod, container)


CRI = "cri-containerd-{c}.scope"
BURSTABLE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{s}.slice/"
BEST_EFFORT = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{s}.slice/"
GUARANTEED = "/kubepods.slice/kubepods-pod{s}.slice/"
KUBELET = "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-"
KIND_BEST_EFFORT = KUBELET + "besteffort.slice/kubelet-kubepods-besteffort-pod{s}.slice/"
KIND_BURSTABLE = KUBELET + "burstable.slice/kubelet-kubepods-burstable-pod{s}.slice/"
DOCKER = "93529524695bb00d91c1f6dba692ea8d3550c3b94fb2463af7bc9ec82f992d26"

RECORDED = {
    # grafana/beyla pkg/webhook/container.go: GKE, EKS, containerd with static pods, kind
    "gke": shape(
        "/kubepods/burstable/pod{u}/{c}",
        "4a163a05-439d-484b-8e53-2968bc15824f",
        "cde6dfaf5007ed65aad2d6aed72af91b0f3d95813492f773286e29ae145d20f4",
    ),
    "gke static pod": shape(
        "/kubepods/burstable/pod{u}/{c}",
        "b53dfa9e2dc9b890f7fadb2770857b03",
        "bb959773d06ad1a07d469bced637bbc49b6f8573c493fd0548d7f5810eb3e5a8",
    ),
    "eks": shape(
        BURSTABLE + CRI,
        "dde1244b-5bb5-4297-b544-85f3bc0d80bf",
        "acb62391578595ec849d87d8556369cee7f935f0425097fd5f870df0e8aabd3c",
    ),
    "systemd static pod": shape(
        BURSTABLE + CRI,
        "7260904bbd08e72e4dff95d9fccd2ee8",
        "d36686f9785534531160dc936aec9d711a26eb37f4fc7752a2ae27d0a24345c1",
    ),
    "kind": shape(
        KIND_BEST_EFFORT + CRI,
        "c6a7bc8c-2ae5-4b89-a872-4c5a250d5ac8",
        "0f76e495864f2ec6f05be687d1375e2754b1ffc6265b4f7fae497aad46952205",
    ),
    # google/cadvisor lib/container/{crio,containerd}/factory_test.go
    "static pod besteffort": shape(
        "/kubepods/besteffort/pod{u}/{c}",
        "d76e26fba3bf2bfd215eb29011d55250",
        "40af7cdcbe507acad47a5a62025743ad3ddc6ab93b77b21363aa1c1d641047c9",
    ),
    "cri-o cgroupfs": shape(
        "/kubepods/pod{u}/crio-{c}",
        "068e8fa0-9213-11e7-a01f-507b9d4141fa",
        "81e5c2990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75d5f",
    ),
    "cri-o scope without slices": shape(
        "/kubepods/pod{u}/crio-{c}.scope",
        "068e8fa0-9213-11e7-a01f-507b9d4141fa",
        "81e5c2990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75d5f",
    ),
    # coroot/coroot-node-agent cgroup/cgroup_test.go and its fixtures
    "cgroupfs burstable": shape(
        "/kubepods/burstable/pod{u}/{c}",
        "9729a196c4723b60ab401eaff722982d",
        "d166c6190614efc91956b78e96d74c3fbc96ca8e91948c36de3bc5b0e7b27d48",
    ),
    "child of a container": shape(
        "/kubepods/besteffort/pod{u}/{c}/kube-proxy",
        "0d08203e-255a-11e9-8cd9-0007cb0b2cc8",
        "671a50f5d60566556912f61511d0ec9e4d5c78d53fbc4676727180438bbbbc55",
    ),
    "guaranteed, 62 digits": shape(
        "/kubepods/pod{u}/{c}",
        "a38c12e8-255a-11e9-8cd9-0007cb0b2cc8",
        "32c562ed81a2622b37b80cb216859820ba51bd694f60ee4cf10d07a4011266f8",
    ),
    "cri-o guaranteed": shape(
        "/kubepods/pod{u}/crio-{c}",
        "a48c12e8-255a-11e9-8cd9-0007cb0b2cc8",
        "63425c4a8b4291744a79dd9011fddc7a1f8ffda61f65d72196aa01d00cae2e2e",
    ),
    "cri-o systemd": shape(
        BURSTABLE + "crio-{c}.scope",
        "2942c55e-c9cb-428a-93f4-eaf89c1f3ce0",
        "49f9e8e5395d57c1083996c09e2e6f042d5fe1ec0310facab32f94912b35ce59",
    ),
    "cri-o child": shape(
        BURSTABLE + "crio-{c}.scope/container",
        "ea19ff5d-943a-4466-a07e-a71e9e50cc62",
        "21572039dd8398ff8272b031fa5422a40165145ab37f2f8794e1e7f844fe8118",
    ),
    "containerd without .scope": shape(
        BURSTABLE + "cri-containerd-{c}",
        "3e61c214bc3ed9ff81e21474dd6cba17",
        "c74b0f5062f0bc726cae1e9369ad4a95deed6b298d247f0407475adb23fa3190",
    ),
    "colon below containerd": shape(
        "/system.slice/containerd.service/kubepods-burstable-pod{s}.slice:cri-containerd:{c}",
        "4ed02c0b-0df8-4d14-a30e-fd589ee4143a",
        "d4a9f9195eaf7e4a729f24151101e1de61f1398677e7b82acfb936dff0b4ce55",
    ),
    "hybrid, v2 names containerd": every_controller(
        "/kubepods/burstable/pod{u}/{c}",
        "8833712d-6e69-4f5c-95f3-aebd020ce2e7",
        "95cbe853416f52d927dec41f1406dd75015ea131244a1ca875a7cd4ebe927ac8",
        "9:misc:/",
        "7:rdma:/",
        "0::/reserved.slice/containerd.service",
    ),
    "v1": every_controller(
        "/kubepods/burstable/pod{u}/{c}",
        "6a4ce4a0-ba47-11ea-b2a7-0cc47ac5979e",
        "17db96a24ae1e9dd57143e62b1cb0d2d35e693c65c774c7470e87b0572e07c1a",
    ),
    "docker systemd": shape(
        BEST_EFFORT + "docker-{c}.scope",
        "8712f785-1a3e-41ec-a00b-e2dcc77431cb",
        "73051af271105c07e1f493b34856a77e665e3b0b4fc72f76c807dfbffeb881bd",
    ),
    # NVIDIA/dcgm-exporter internal/pkg/transformation/pidmapper_test.go
    "short container name": shape(
        "/kubepods/besteffort/pod{u}/container123", "a9c80282-3f6b-4d5b-84d5-a137a6668011"
    ),
    "shorter container name": shape("/kubepods/burstable/pod{u}/abc", "12345678-1234-1234-1234-123456789012"),
    "pod slice alone": shape(BEST_EFFORT.removesuffix("/"), "a9c80282-3f6b-4d5b-84d5-a137a6668011"),
    # elastic/elastic-agent-system-metrics metric/system/cgroup/reader_test.go
    "elastic": shape(
        BURSTABLE + CRI,
        "7a96c459-d529-44ae-9f99-90d3798d6426",
        "1d3d308a7d48a27814a68bf33a44acf4441c9c02463ca0bc1cdfdc8c0b4a8496",
    ),
    # leptonai/gpud components/memory: GKE, and a cluster in LXC
    "gpud": shape(
        "/kubepods/burstable/pod{u}/{c}",
        "87e18f63-83cb-11e7-a01d-42010a8001db",
        "ef807430361edd74442f7c5703c8273545c501e93a80e8e4542de37ad75153b0",
    ),
    "cluster in lxc": shape(
        "/lxc.payload.ny2g2r5hh3-lxc" + BURSTABLE + CRI,
        "a8697f49-441d-4d4f-90d2-6d8e1fa3bbe7",
        "3fc28fa1c647ceede9f6b340d0b16c9f1f663698972d22a52e296f291638e014",
    ),
    # inspektor-gadget/inspektor-gadget docs/reference/ig.md
    "inspektor": shape(
        BURSTABLE + CRI,
        "87c52d60-fefd-45a9-a420-895256fc03b5",
        "a126df15fba5713f57f1abad9c484cb75569e9f48f1169bd9710f63bb8af0e46",
    ),
    # sustainable-computing-io/kepler internal/resource/container_test.go
    "kind in a docker scope": shape(
        "/system.slice/docker-fd9d0ea06257a9780827cbc7fd92e3812a54fca26d63e191b73610d5d48b9cbd.scope"
        + KIND_BEST_EFFORT + CRI,
        "eab5a334-93fe-48a8-b139-9e8079c1f163",
        "99f3a16ea25b7724cb56a4f0c0df1113ad9474fbf5545bead97fd5c7f61c13f4",
    ),
    "cri-o named hierarchy alone": shape(
        "1:name=systemd:" + BURSTABLE + "crio-{c}.scope",
        "d0511cd2-29d2-4215-be0f-f77bc0609d99",
        "f93ee491b8ed2680d5a909eb098b14a9430173b57ca1c4efedd8768566d67e8e",
    ),
    "cri-o v2": shape(
        BURSTABLE + "crio-{c}.scope",
        "2c9f8a79-5391-454b-88cb-86190881cb96",
        "a09343ca97901516c25036e2b954421254f8c68b384b536064e8999f0c4ed18d",
    ),
    "kubelet prefix, cgroupfs": shape(
        "/kubelet/kubepods/besteffort/pod{u}/{c}",
        "bdd4097d-6795-404e-9bd8-6a1383386198",
        "c79788e0da15a6597263eb2b9c51d05dd1a9a1d08c53c1161dc8c45d2dac6b38",
    ),
    "colon, named hierarchy": shape(
        "1:name=systemd:/system.slice/containerd.service/kubepods-burstable-pod{s}.slice:cri-containerd:{c}",
        "a3b200c9-db51-40b4-9d2d-53f8fdf80d7f",
        "286b15051ec43375190802e1f40562536980a8fd97e75bb89c7f2eec6f995f17",
    ),
    "colon, memory controller alone": shape(
        "13:memory:/system.slice/containerd.service/kubepods-besteffort-pod{s}.slice:cri-containerd:{c}",
        "0043435f-1854-4327-b76b-730f681a781d",
        "01fd96f7ad292b02a8317cde4ecb8c7ef3cc06ffdd113f13410e0837eb2b2a20",
    ),
    "blkio controller alone": shape(
        "11:blkio:/kubepods/burstable/pod{u}/{c}",
        "f6adb0af-0855-4bab-b25b-c853f18d0ce2",
        "35b97177dada20362ab90d90ac63cd54e8a41cf87bea34f270631b6da17f4a93",
    ),
    "guaranteed cgroupfs": shape(
        "/kubepods/pod{u}/{c}",
        "51b64565-2b17-4d46-83ac-22e398f2f7fb",
        "65d752a38e1db784d521f48c3f1956f4f9a74ebb923377144f253f3aca9fa028",
    ),
    "guaranteed systemd": shape(
        GUARANTEED + "crio-{c}.scope",
        "7922aa99-d4aa-4885-a953-82976860b23a",
        "1c33afbc9e5aa6c69150d1af05254b562a4b17c313fc6153e3625cf456922bfe",
    ),
    "kubelet slice, burstable": shape(
        KIND_BURSTABLE + CRI,
        "3cae2e45-052c-4b11-80d3-4d7b2d2d3464",
        "2b180104511194aab36fd295d3e217439f3ddb5bc88277f37b4952abee85c40e",
    ),
    # open-telemetry/opentelemetry-ebpf-profiler process/process_test.go
    "a dash left among underscores": Shape(
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podf6f2d169_f2ae_4afa-95ed_06ff2ed6b288.slice/"
        "cri-containerd-b4d6d161c62525d726fa394b27df30e14f8ea5646313ada576b390de70cfc8cc.scope",
        "f6f2d169-f2ae-4afa-95ed-06ff2ed6b288",
        "b4d6d161c62525d726fa394b27df30e14f8ea5646313ada576b390de70cfc8cc",
    ),
    "cri-o below a cgroupfs pod": shape(
        "/kubepods/besteffort/pod{u}/crio-{c}",
        "897277d4-5e6f-4999-a976-b8340e8d075e",
        "a4d6b686848a610472a2eed3ae20d4d64b6b4819feb9fdfc7fd7854deaf59ef3",
    ),
    "controllers in one word": shape(
        "11:cpucpuacct:/system.slice/containerd.service/kubepods-besteffort-pod{s}.slice:cri-containerd:{c}",
        "86811ae3-b633-4eb8-a508-e3eae190f6ce",
        "da1bdd84c8b25938081afe48da7075e2a211d2b1a62e01c894b4e5f3ffab670a",
    ),
    # open-telemetry/opentelemetry-java-instrumentation CgroupV1ContainerIdExtractorTest
    "perf_event controller alone": shape(
        "11:perf_event:" + BURSTABLE + CRI,
        "4415fd05-2c0f-4533-909b-f2180dca8d7c",
        "713a77a26fe2a38ebebd5709604a048c3d380db1eb16aa43aca0b2499e54733c",
    ),
    "colon, guaranteed": shape(
        "11:devices:/system.slice/containerd.service/kubepods-pod{s}.slice:cri-containerd:{c}",
        "87a18a64-b74a-454a-b10b-a4a36059d0a3",
        "05c48c82caff3be3d7f1e896981dd410e81487538936914f32b624d168de9db0",
    ),
    # pixie-io/pixie src/shared/metadata/cgroup_path_resolver.h: docker
    "docker scope": shape(
        "4:cpu,cpuacct:" + GUARANTEED + "docker-{c}.scope",
        "8dbc5577-d0e2-4706-8787-57d52c03ddf2",
        "14011c7d92a9e513dfd69211da0413dbf319a5e45a02b354ba6e98e10272542d",
    ),
    # spiffe/spire pkg/agent/plugin/workloadattestor/k8s and its testdata
    "a dashed uid in slices": Shape(
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2c48913c-b29f-11e7-9350-020968147796.slice/"
        "docker-9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961.scope",
        "2c48913c-b29f-11e7-9350-020968147796",
        "9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961",
    ),
    "underscores without slices": shape(
        "/kubepods/pod{s}/{c}",
        "2c48913c-b29f-11e7-9350-020968147796",
        "9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961",
    ),
    "kubepods twice": shape(
        "/kubepods/kubepods/besteffort/pod{u}/{c}",
        "6bd2a4d3-a55a-4450-b6fd-2a7ecc72c904",
        "a55d9ac3b312d8a2627824b6d6dd8af66fbec439bf4e0ec22d6d9945ad337a38",
    ),
    "kind, v2 names the node's containerd": every_controller(
        f"/docker/{DOCKER}/kubepods/besteffort/pod{{u}}/{{c}}",
        "a2830d0d-b0f0-4ff0-81b5-0ee4e299cf80",
        "09bc3d7ade839efec32b6bec4ec79d099027a668ddba043083ec21d3c3b8f1e6",
        f"0::/docker/{DOCKER}/system.slice/containerd.service",
    ),
    "colon at the root": shape(
        "/kubepods-besteffort-pod{s}.slice:cri-containerd:{c}",
        "72f7f152-440c-66ac-9084-e0fc1d8a910c",
        "b2a102854b4969b2ce98dc329c86b4fb2b06e4ad2cc8da9d8a7578c9cd2004a2",
    ),
    "devices controller, cri-o": shape(
        "9:devices:" + BEST_EFFORT + "crio-{c}.scope",
        "561fd272-d131-47ef-a01b-46a997a778f3",
        "030ded69d4c98fcf69c988f75a5eb3a1b4357e1432bd5510c936a40d7e9a1198",
    ),
    "pod group of cgroupfs": shape("/kubepods/pod{u}", "a2830d0d-b0f0-4ff0-81b5-0ee4e299cf80"),
    "pod group of a static pod": shape("/kubepods/pod{u}", "2732ca68f6358eba7703fb6f82a25c94"),
    "cri-o v1, rdma at the root": every_controller(
        BEST_EFFORT + "crio-{c}.scope",
        "a2830d0d-b0f0-4ff0-81b5-0ee4e299cf80",
        "09bc3d7ade839efec32b6bec4ec79d099027a668ddba043083ec21d3c3b8f1e6",
        "3:rdma:/",
        "0::/system.slice/crio.service",
    ),
    "docker v1": every_controller(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{u}.slice/docker-{c}.scope",
        "2c48913c-b29f-11e7-9350-020968147796",
        "9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961",
    ),
    # NexusGPU/tensor-fusion pkg/hypervisor/backend/kubernetes/ns_mapper_test.go
    "a slice at the root, no container": shape(
        "12:devices:/kubepods-burstable-pod{s}.slice", "e38c7b11-d82c-4169-b866-361c5d7103af"
    ),
    # waggle-sensor/waggle-edge-stack kubernetes/update-stack.sh (Xavier NX under K3s)
    "waggle": shape(
        "/kubepods-burstable-pod{s}.slice:cri-containerd:{c}",
        "acfe9bf7-3e09-451b-ab91-e6205e525966",
        "0c087b2c26f6167d348aeb5d59e922cf07c5bf3cb4189099645e45105c97d115",
    ),
    # k3s-io/k3s#3005: rootless K3s; rootless-containers/usernetes#200
    "k3s rootless": shape(
        "/user.slice/user-1001.slice/user@1001.service/k3s-rootless.service/kubepods/pod{u}/{c}",
        "d0eb6921-c81a-4214-b36c-d3b9bb212fac",
        "671b393f08437d7e89e234d9d395aecef155104c7c241f5701844360ffebacac",
    ),
    "usernetes": shape(
        "/user.slice/user-1001.slice/user@1001.service/u7s-rootlesskit.service/kubepods/burstable/pod{u}/{c}",
        "b2d6a0c9-95d3-4372-80e0-bce249a26f95",
        "7bb48caa579ee164fee4e0c072aaf430c2ec7b5dc13d512a5f19ce037de010ab",
    ),
    # rancher/k3k#792: a pod of a K3s that runs in a pod, seen from inside
    "k3k": shape(
        "/kubepods/burstable/pod{u}/{c}",
        "404bd273-57bc-4508-a386-e2b76d3c9cfe",
        "3aaaa76f09e1de6bb75e84f9c15b737a2d590f69757953e3ec262bd5861dc15b",
    ),
    # containerd/nri#227: kind with the systemd driver, and the same in the runtime's own words
    "kind systemd": shape(
        KIND_BEST_EFFORT + CRI,
        "1e597579-417e-482f-bf65-5fe170c3aebd",
        "d7dfb4a21fe1703a8537e60d5af248af729315d187b24a538102d14874c8117d",
    ),
    "kind colon": shape(
        "/kubelet-kubepods-besteffort-pod{s}.slice:cri-containerd:{c}",
        "1e597579-417e-482f-bf65-5fe170c3aebd",
        "d7dfb4a21fe1703a8537e60d5af248af729315d187b24a538102d14874c8117d",
    ),
    # opentelemetry-java-instrumentation containerd_proc_self_mountinfo: the roots of a container's v1 mounts. Some
    # controllers hang below containerd's own group, others at the root.
    "v1 mounts of a container, containerd": Shape(
        "12:perf_event:/{tail}\n11:memory:/system.slice/containerd.service/{tail}\n10:cpuset:/{tail}\n"
        "2:pids:/system.slice/containerd.service/{tail}\n"
        "1:name=systemd:/system.slice/containerd.service/{tail}\n0::/system.slice/containerd.service".format(
            tail="kubepods-burstable-pod321c09bf_282b_44e4_a467_39daf144ef1f.slice:cri-containerd:"
            "f2a44bc8e090f93a2b4d7f510bdaff0615ad52906e3287ee956dcf5aa5012a91"
        ),
        "321c09bf-282b-44e4-a467-39daf144ef1f",
        "f2a44bc8e090f93a2b4d7f510bdaff0615ad52906e3287ee956dcf5aa5012a91",
    ),
    # the same project's crio_proc_self_mountinfo1 and 2
    "v1 mounts of a container, cri-o": every_controller(
        BURSTABLE + "crio-{c}.scope",
        "8f215fa2-6177-4ab9-b1f4-c802d19657bc",
        "f23ec1d4b715c6531a17e9c549222fbbe1f7ffff697a29a2212b3b4cdc37f52e",
    ),
    "v1 mounts of another, cri-o": every_controller(
        BURSTABLE + "crio-{c}.scope",
        "19ccacf5-fcff-4bd3-a33a-19ff41f6ccd2",
        "b4873629b312dc1d77472aba6fb177c6ce9a8f7c205ad7a03302726805007fe6",
        "0::/system.slice/crio.service",
    ),
}  # fmt: skip

U, C, D = uid(1), cid(1), cid(13)

MORE = {
    # own: what the kubelets and runtimes above would write for this one pod, one after another
    "k3s agent, colon": shape(
        "/system.slice/k3s-agent.service/kubepods-burstable-pod{s}.slice:cri-containerd:{c}", U, C
    ),
    "k3s server, colon": shape("/system.slice/k3s.service/kubepods-pod{s}.slice:cri-containerd:{c}", U, C),
    "v1 memory among others": Shape(f"12:memory:/kubepods/burstable/pod{U}/{C}\n1:name=systemd:/\n0::/", U, C),
    "v1 memory last": Shape(f"0::/\n1:name=systemd:/\n12:memory:/kubepods/burstable/pod{U}/{C}", U, C),
    "init child of systemd": shape(BURSTABLE + CRI + "/init", U, C),
    "deep child": shape(BURSTABLE + CRI + "/system.slice/app.service/worker-3", U, C),
    "docker in the pod": shape(f"/kubepods/burstable/pod{{u}}/{{c}}/docker/{D}", U, C),
    "docker in the pod, systemd": shape(BURSTABLE + CRI + f"/system.slice/docker-{D}.scope", U, C),
    "podman in the pod": shape(BURSTABLE + CRI + f"/libpod_parent/libpod-{D}", U, C),
    "docker below a colon": shape(
        f"/system.slice/k3s.service/kubepods-burstable-pod{{s}}.slice:cri-containerd:{{c}}/docker/{D}", U, C
    ),
    "k3d": shape(f"/docker/{D}/kubepods/burstable/pod{{u}}/{{c}}", U, C),
    "k3d, systemd": shape(f"/system.slice/docker-{D}.scope" + BURSTABLE + CRI, U, C),
    "cri-dockerd, cgroupfs": shape("/kubepods/besteffort/pod{u}/{c}", U, C),
    "cgroup root of its own": shape("/edge/kubepods/burstable/pod{u}/{c}", U, C),
    "cgroup root of its own, systemd": shape(
        "/edge.slice/edge-kubepods.slice/edge-kubepods-burstable.slice/edge-kubepods-burstable-pod{s}.slice/" + CRI,
        U,
        C,
    ),
    # inspektor-gadget/inspektor-gadget#3085: read from inside a cgroup namespace
    "namespace, systemd": shape("/../../../kubepods-burstable-pod{s}.slice/" + CRI, U, C),
    "namespace, from a sibling pod": shape("/../../pod{u}/{c}", U, C),
    "namespace, whole path": shape("/../../../../kubepods/burstable/pod{u}/{c}", U, C),
    "namespace, colon": shape("/../kubepods-burstable-pod{s}.slice:cri-containerd:{c}", U, C),
    # Documentation/admin-guide/cgroup-v2.rst: the suffix where a zombie's group was removed meanwhile
    "a removed group": shape("/kubepods/burstable/pod{u}/{c} (deleted)", U, C),
    "a removed group, systemd": shape(BURSTABLE + CRI + " (deleted)", U, C),
}  # fmt: skip

HOST = {
    # coroot/coroot-node-agent cgroup/fixtures/proc
    "docker.service, v1": "11:perf_event:/\n10:devices:/system.slice/docker.service\n8:cpuset:/\n"
    "5:memory:/system.slice/docker.service\n1:name=systemd:/system.slice/docker.service",
    "a docker container, v1": "\n".join(
        f"{number}:{name}:/docker/b43d92bf1e5c6f78bb9b7bc6f40721280299855ba692092716e3a1b6c0b86f3f"
        for number, name in ((11, "perf_event"), (5, "memory"), (1, "name=systemd"))
    ),
    "getty": "6:memory:/\n2:devices:/system.slice/system-getty.slice\n"
    "1:name=systemd:/system.slice/system-getty.slice/getty@tty1.service",
    "lxc payload": "0::/lxc.payload.first/system.slice/systemd-logind.service",
    "docker from a namespace": "0::/../../../../system.slice/"
    "docker-ba7b10d15d16e10e3de7a2dcd408a3d971169ae303f46cfad4c5453c6326fee2.scope",
    "ssh, hybrid": "6:memory:/system.slice/ssh.service\n1:name=systemd:/system.slice/ssh.service\n"
    "0::/system.slice/ssh.service",
    "init.scope in some": "10:blkio:/init.scope\n8:memory:/init.scope\n5:rdma:/\n"
    "1:name=systemd:/system.slice/springboot.service",
    "podruntime": "0::/podruntime/runtime",
    "docker, hybrid": "1:name=systemd:/\n0::/system.slice/"
    "docker-cf87ba651579c9231db817909e7865e5747bd7abcac0c57ce23cf4abbaee046b.scope",
    "python-app": "1:name=systemd:/system.slice/python-app.service\n7:cpu,cpuacct:/",
    # the same project's cgroup_test.go
    "lxc": "0::/lxc/mysql-primary-db",
    "podruntime.slice": "0::/podruntime.slice/kubelet.service",
    "podruntime kubelet": "0::/podruntime/kubelet",
    "escaped name": "0::/system.slice/system-serial\\x2dgetty.slice",
    "at sign": "0::/system.slice/system-postgresql.slice/postgresql@9.4-main.service",
    "init": "0::/init",
    "run scope": "0::/system.slice/run-ra2ddf9594bbf4a1986439b594f89eb0f.scope",
    # sustainable-computing-io/kepler internal/resource/container_test.go
    "podman": "0::/machine.slice/"
    "libpod-06dc5f321aad8726aa26559f16ec203bc099245bc44894b14a89fc02b022d1d5.scope/container",
    "podman rootless": "0::/user.slice/user-1000.slice/user@1000.service/user.slice/"
    "libpod-3f05ee050f82c0145f1d88c94269c39dff0f07dbf8bba20aafd54b3a75dcaecc.scope/container",
    "podman payload": "0::/system.slice/kepler.service/"
    "libpod-payload-8e363eb2287da4ccc9f52ffc5de11252ac5fe707e3ddb917a3c0bdf9bb64165b",
    "docker hugetlb": "13:hugetlb:/system.slice/"
    "docker-2fa3e04b676df750842faf017052dd37ea0cc5bc7259a3487a1718c7fe100c94.scope",
    # open-telemetry/opentelemetry-ebpf-profiler process/process_test.go
    "terminal": "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.gnome.Terminal.slice/"
    "vte-spawn-868f9513-eee8-457d-8e36-1b37ae8ae622.scope",
    "session from a namespace": "0::/../../user.slice/user-501.slice/session-3.scope",
    # aquasecurity/tracee pkg/datastores/container/containers_test.go
    "podman conmon": "0::/machine.slice/"
    "libpod-conmon-64de256b4158dbfd331e27f93bf807f141883be795fd1b2ae7f40294f32c5bfd.scope",
    # spiffe/spire testdata/cgroups_pid_not_in_pod.txt
    "login session, v1": "10:devices:/user.slice\n5:memory:/user.slice\n3:freezer:/\n"
    "1:name=systemd:/user.slice/user-1000.slice/session-2.scope",
    # rancher/k3k#792; K3s and its containerd themselves
    "k3s in a pod": "0::/k3s",
    "k3s": "0::/system.slice/k3s.service",
    # containers/podman#8422: a podman pod has "pod" and 64 digits in its slice
    "podman pod": f"0::/machine.slice/machine-libpod_pod_{D}.slice/libpod-{C}.scope/container",
    # own
    "gdm": "0::/system.slice/gdm.service",
    "the root": "0::/",
    "docker": f"0::/docker/{D}",
    "v1 root": "12:memory:/\n1:name=systemd:/\n0::/",
}


def one_process(text: str) -> Files:
    """A card on which one process holds 1 GiB, and a second pod that holds nothing."""
    return {**cards(card(entry(4242, GIB), used=GIB)), **task(4242, text)}


@pytest.mark.parametrize("name", [*RECORDED, *MORE])
def test_a_path_leads_to_its_pod_and_container(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, pod_uid, container = {**RECORDED, **MORE}[name]
    # Where the path ends at the pod, or has no whole id, the pod's container is another one.
    pod = tenant("holder", pod_uid, {"main": container or cid(99), "other": cid(98)})
    document = show(capsys, tmp_path, one_process(text), cluster(pod, simple(2, "bystander")))

    assert held_gpu(document) == {"bystander": 0, "holder": GIB}
    assert document["host"]["system_gpu_bytes"] == 0
    assert document["host"]["unattributed_gpu_bytes"] == 0
    if container is not None:
        assert by_container(document, "holder") == {"main": GIB, "other": 0}


@pytest.mark.parametrize("name", HOST)
@pytest.mark.parametrize("end", ["\n", "", "\n\n"], ids=["newline", "no newline", "blank line"])
def test_a_path_outside_of_pods_is_the_systems(
    name: str, end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {**one_process("0::/"), "host/proc/4242/cgroup": HOST[name] + end}
    document = show(capsys, tmp_path, files, cluster(simple(1, "bystander")))

    assert held_gpu(document) == {"bystander": 0}
    assert document["host"]["system_gpu_bytes"] == GIB
    assert document["host"]["unattributed_gpu_bytes"] == 0


def test_all_recorded_shapes_side_by_side_keep_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Row n holds 1000 + n MiB, so that no two exchanged rows add up to the same.
    mib = 1024 * 1024
    shapes = list(RECORDED.values())
    sizes = [(1000 + number) * mib for number in range(len(shapes))]
    used = sum(sizes) + 7 * mib * len(HOST)
    entries = [entry(5000 + number, size) for number, size in enumerate(sizes)]
    entries += [entry(9000 + number, 7 * mib) for number in range(len(HOST))]
    files = cards(card(*entries, total=1024 * GIB, used=used))
    for number, one in enumerate(shapes):
        files |= task(5000 + number, one.text)
    for number, text in enumerate(HOST.values()):
        files |= task(9000 + number, text)
    owners = sorted({one.uid for one in shapes})
    ids = {owner: {one.container for one in shapes if one.uid == owner and one.container} for owner in owners}
    pods = [
        tenant(f"pod-{number:02}", owner, {f"c{place}": key for place, key in enumerate(sorted(ids[owner]))})
        for number, owner in enumerate(owners)
    ]
    document = show(capsys, tmp_path, files, cluster(*pods))

    expected = dict.fromkeys(owners, 0)
    for one, size in zip(shapes, sizes, strict=True):
        expected[one.uid] += size
    assert {pod["uid"]: pod["gpu_bytes"] for pod in document["pods"]} == expected
    assert document["host"]["system_gpu_bytes"] == 7 * mib * len(HOST)
    assert document["host"]["unattributed_gpu_bytes"] == 0


# aquasecurity/tracee#2925, containers_test.go: the monitor of a container lives in the pod's group beside it
@pytest.mark.parametrize("scope", [f"crio-conmon-{C}.scope", f"crio-conmon-{C}", f"libpod-conmon-{C}.scope"])
def test_the_monitor_of_a_container_is_not_the_container(
    scope: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{U.replace('-', '_')}.slice/{scope}"
    document = show(capsys, tmp_path, one_process(text), cluster(tenant("holder", U, {"main": C}, runtime="cri-o")))
    # It is the pod's, and which of its containers it serves is not told.
    assert held_gpu(document) == {"holder": GIB}
    assert by_container(document, "holder")["main"] is None
    assert document["host"]["system_gpu_bytes"] == 0


@pytest.mark.parametrize("runtime", ["containerd", "docker", "cri-o"])
def test_the_runtime_named_in_the_status_does_not_matter(
    runtime: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"0::/kubepods/burstable/pod{U}/{C}"
    pod = tenant("holder", U, {"main": C}, runtime=runtime)
    document = show(capsys, tmp_path, one_process(text), cluster(pod))
    assert by_container(document, "holder") == {"main": GIB}


# K3s in a pod (rancher/k3k), kind in a pod. What stands below a container may have been named by the container itself,
# so that the outer pod counts: else a process that makes a group could put its memory on another pod.
NESTED = f"0::/kubepods/burstable/pod{uid(1)}/{cid(1)}/kubepods/burstable/pod{uid(2)}/{cid(2)}"


def test_a_cluster_in_a_pod_is_that_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = show(capsys, tmp_path, one_process(NESTED), cluster(simple(1, "outer"), simple(2, "framed")))
    assert held_gpu(document) == {"framed": 0, "outer": GIB}
    assert by_container(document, "outer") == {"main": GIB}
    assert document["host"]["leaving_bytes"] == 0


@pytest.mark.parametrize(
    "text",
    [
        # inspektor-gadget#3085, spiffe/spire cgroups_pid_in_crio_pod.txt: a sibling seen from inside a namespace
        f"0::/../cri-containerd-{C}.scope",
        f"0::/../crio-{C}.scope",
        f"0::/../{C}",
        # coroot/coroot-node-agent cgroup_test.go: a container group outside of the kubelet's slices
        f"0::/system.slice/cri-containerd-{C}.scope",
    ],
)
def test_a_container_id_of_a_live_pod_is_enough(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = show(capsys, tmp_path, one_process(text), cluster(simple(1, "holder"), simple(2, "bystander")))
    assert held_gpu(document) == {"bystander": 0, "holder": GIB}


@pytest.mark.parametrize(
    "text",
    [
        "0::/kubepods/pod123/container",  # NVIDIA/dcgm-exporter pidmapper_test.go
        f"0::/kubepods/besteffort/pod123/some:cri-containerd:{D}",  # aquasecurity/tracee containers_test.go
        f"0::/kubepods/besteffort/pod{uid(77)}/{D}",  # own: nobody's uid
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid(77)}.slice",
    ],
)
def test_a_pod_that_nobody_knows_is_neither_the_systems_nor_another_pods(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = show(capsys, tmp_path, one_process(text), cluster(simple(1, "bystander")))
    assert held_gpu(document) == {"bystander": 0}
    assert document["host"]["system_gpu_bytes"] == 0
    assert document["plan"]["evictions"] == []


@pytest.mark.parametrize("text", ["", "\n", "garbage", "0:", "0::", "12:memory", "\0\0", "0::kubepods"])
def test_a_cgroup_file_that_makes_no_sense_names_nobody(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {**one_process("0::/"), "host/proc/4242/cgroup": text}
    document = show(capsys, tmp_path, files, cluster(simple(1, "bystander")))
    assert held_gpu(document) == {"bystander": 0}
    # Not readable is not "outside of pods".
    assert document["host"]["system_gpu_bytes"] == 0
    assert document["host"]["unattributed_gpu_bytes"] == GIB
