"""The redactor: whatever identifies is gone, the same stands for the same, and what decides stays."""

from __future__ import annotations

import ipaddress
import re
import string

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from edgeagent.snapshot.record.redact import NODE, Identity, Redactor

PLAIN = Redactor(Identity(hosts=("edge-warehouse7",), users=("marjolein",), serials=("1424719012345",)))

words = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
host_names = (
    st.lists(words, min_size=1, max_size=3)
    .map("-".join)
    .filter(lambda name: len(name.replace("-", "")) >= 6 and not set(name) <= set("0123456789abcdef-"))
)
gaps = st.sampled_from(["", " ", "/", "-", "_", ".", ":", "=", "@", "(", "[", '"', "\\x2d", "\n", "\0", "x", "7"])
spaces = st.sampled_from(["", " ", "/", "=", "(", "[", '"', "\n", ",", "@", ";", "'", "|", "ip:", "addr="])
ends = st.sampled_from(["", " ", "/", ")", "]", '"', "\n", ",", ";", "'", "|", "/24"])
UUIDS = st.uuids().map(str)


def spellings(name: str) -> st.SearchStrategy[str]:
    """A host's name as it is written in one place or another."""
    forms = [name, name.replace("-", "_"), name.replace("-", "."), name.replace("-", ""), name.replace("-", "\\x2d")]
    return st.sampled_from([*forms, *(form.upper() for form in forms), *(form.title() for form in forms)])


@st.composite
def planted(draw: st.DrawFn) -> tuple[str, str]:
    """A host name, and a text in which it stands in several spellings."""
    name = draw(host_names)
    told = [draw(gaps) + draw(spellings(name)) + draw(gaps) for _ in range(draw(st.integers(1, 3)))]
    return name, "".join(told)


@given(planted())
def test_a_host_name_is_found_in_every_spelling(name_and_text: tuple[str, str]) -> None:
    name, text = name_and_text
    redactor = Redactor(Identity(hosts=(name,)))
    # A name of such common words is looked for nowhere; see the test of common words.
    assume(redactor.names(name) != name)

    found = redactor.text(text).lower()

    letters = re.sub(r"\\x2d|[-_.]", "", name)
    assert letters not in re.sub(r"\\x2d|[-_.]", "", found.replace(NODE, " "))


@given(st.ip_addresses(v=4), spaces, ends)
@example(ipaddress.IPv4Address("10.0.0.1"), "http//", ":6443")
def test_an_ipv4_address_becomes_one_of_those_for_documentation(
    address: ipaddress.IPv4Address, before: str, behind: str
) -> None:
    found = PLAIN.text(f"{before}{address}{behind}")

    if address.is_loopback or address.is_unspecified:
        assert str(address) in found
        return
    other = ipaddress.IPv4Address(found.removeprefix(before).removesuffix(behind))
    assert any(other in ipaddress.ip_network(net) for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"))


@given(st.ip_addresses(v=6), spaces, ends, st.sampled_from(["compressed", "exploded", "upper"]))
@example(ipaddress.IPv6Address("::ffff:10.20.30.41"), "[", "]:80", "compressed")
@example(ipaddress.IPv6Address("fd00::1"), "ip:", "%eth0", "compressed")
def test_an_ipv6_address_becomes_one_of_those_for_documentation(
    address: ipaddress.IPv6Address, before: str, behind: str, form: str
) -> None:
    text = address.exploded if form == "exploded" else str(address)
    text = text.upper() if form == "upper" else text

    found = PLAIN.text(f"{before}{text}{behind}")

    if address.is_loopback or address.is_unspecified:
        assert text in found
        return
    other = ipaddress.IPv6Address(found.removeprefix(before).removesuffix(behind))
    assert other in ipaddress.ip_network("2001:db8::/32")


@given(st.binary(min_size=6, max_size=6), st.sampled_from([":", "-"]), spaces, ends)
def test_a_hardware_address_becomes_one_of_those_for_documentation(
    raw: bytes, separator: str, before: str, behind: str
) -> None:
    assume(not before.endswith(separator))

    found = PLAIN.text(f"{before}{raw.hex(separator)}{behind}")

    assert re.fullmatch(r"00:00:5e:00:53:[0-9a-f]{2}", found.removeprefix(before).removesuffix(behind))


@given(UUIDS, st.sampled_from(["GPU-", "MIG-", "MIG-GPU-"]), spaces, ends)
def test_the_uuid_of_a_gpu_keeps_its_form(core: str, kind: str, before: str, behind: str) -> None:
    found = PLAIN.text(f"{before}{kind}{core}{behind}")

    assert core not in found
    bare = found.removeprefix(before).removesuffix(behind)
    assert re.fullmatch(kind + r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bare)
    assert PLAIN.uuid(f"{kind}{core}") == bare


@given(st.lists(UUIDS, unique=True, min_size=1, max_size=6), st.data())
def test_gpus_stay_in_their_order(cores: list[str], data: st.DataObject) -> None:
    gpus = [data.draw(st.sampled_from(["", "GPU-", "MIG-"])) + core for core in cores]
    redactor = Redactor(Identity(gpus=tuple(gpus)))

    assert [redactor.uuid(gpu) for gpu in sorted(gpus)] == sorted(map(redactor.uuid, gpus))
    assert len({redactor.uuid(gpu) for gpu in gpus}) == len(gpus)


@given(UUIDS)
def test_the_uid_of_a_pod_stays(uid: str) -> None:
    path = f"kubepods-pod{uid.replace('-', '_')}.slice/pod{uid}"

    assert Redactor(Identity()).text(path) == path


@given(st.text())
def test_nothing_makes_it_fail_and_twice_is_the_same(text: str) -> None:
    assert PLAIN.text(text) == PLAIN.text(text)
    assert PLAIN.content(text.encode(errors="replace")) == PLAIN.content(text.encode(errors="replace"))


@given(st.lists(st.integers(0x80, 0xFF)).map(bytes))
def test_bytes_that_are_no_text_are_kept(raw: bytes) -> None:
    assert PLAIN.content(raw + b" edge-warehouse7 " + raw) == raw + b" node-1 " + raw


@pytest.mark.parametrize(
    "text",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024",
        "# R36 (release), REVISION: 4.4, GCID: 41062509, BOARD: generic, EABI: aarch64",
        "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-" + "a" * 64 + ".scope",
        "0000:01:00.0 00000000:01:00.0 0x10de",
        "12:34:56 2026-01-31T11:00:00Z 1:2:3",
        "127.0.0.1:9843 [::1]:9843 0.0.0.0 ::",
        "memory=1Gi,cpu=500m memory.available<300Mi 6083Mi",
        "containerd://" + "b" * 64,
        "nvidia-container-runtime edgeagent.dev/gpu-memory nvidia.com/gpu k3s-agent.service",
        "/user.slice/user-1000.slice/user@1000.service/app.slice",
        "std::vector 5.15.148-tegra 1.10.0.0.1.2",
    ],
)
def test_what_identifies_nobody_stays(text: str) -> None:
    assert PLAIN.text(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/marjolein/k3s", "/home/user-1/k3s"),
        ("/home/someone-else/k3s", "/home/user-2/k3s"),
        ("owner=Marjolein", "owner=user-1"),
        ("S/N 1424719012345.", "S/N serial-1."),
        ("amount 91424719012345", "amount 91424719012345"),
        ("edge-warehouse7.local", "node-1.local"),
        ("https://10.0.0.9:6443/version", "https://server.invalid/version"),
        ("mail marjolein@plant.example", "mail user@host.invalid"),
        ("token=K10c3f0a1b2c3d4e5f60718::server:swordfish end", "token=token end"),
        ("Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln", "Bearer token"),
        ("ip-10-20-30-41.ec2", "ip-192-0-2-1.ec2"),
    ],
)
def test_one_of_each(text: str, expected: str) -> None:
    redactor = Redactor(Identity(hosts=("edge-warehouse7",), users=("marjolein",), serials=("1424719012345",)))

    assert redactor.text(text) == expected


def test_the_same_stands_for_the_same_and_another_for_another() -> None:
    redactor = Redactor(Identity())

    assert redactor.text("10.0.0.1 10.0.0.2 10.0.0.1") == "192.0.2.1 192.0.2.2 192.0.2.1"
    assert redactor.text("FD00::1 fd00::2 fd00::1") == "2001:db8::1 2001:db8::2 2001:db8::1"
    assert redactor.text("ip-10-0-0-2") == "ip-192-0-2-2"


def test_a_machine_id_becomes_a_machine_id() -> None:
    redactor = Redactor(Identity(serials=("9b1d0c2e4f6a48c0a1b2c3d4e5f60718",)))

    assert redactor.text("id 9b1d0c2e4f6a48c0a1b2c3d4e5f60718") == "id " + "0" * 31 + "1"
    assert redactor.text("hash " + "ab" * 16) == "hash " + "ab" * 16


def test_a_host_and_its_domain() -> None:
    redactor = Redactor(Identity(hosts=("depot3", "depot3.plant.acme.example", "other-box.acme.example")))

    assert redactor.text("depot3.plant.acme.example depot3 x.plant.acme.example") == "node-1 node-1 x.domain.invalid"
    assert redactor.text("other-box") != "other-box"


@pytest.mark.parametrize("name", ["nvidia", "ubuntu", "jetson", "orin", "tegra-ubuntu", "kubepods", "memory", "node-1"])
def test_a_name_of_common_words_is_not_looked_for(name: str) -> None:
    # A host called nvidia would else take the driver with it.
    redactor = Redactor(Identity(hosts=(name,), users=(name,)))
    text = f"{name} /dev/nvidia0 nvidia,tegra234 kubepods/burstable memory.available /home/{name}/x"

    assert redactor.text(text) == text


@pytest.mark.parametrize("name", ["box", "ab7", "0a1b2c3d4e5f"])
def test_a_short_name_or_one_of_digits_is_found_as_a_word_of_its_own(name: str) -> None:
    redactor = Redactor(Identity(hosts=(name,)))

    assert redactor.text(f"{name} my-{name}.local x{name}y") == f"node-1 my-node-1.local x{name}y"


@pytest.mark.parametrize(
    ("comm", "expected"),
    [
        ("llm-server", "llm-server"),
        ("edge-warehouse7", "node-1"),
        ("run-edge-wareho", "run-node-1"),
        ("a-llm-by-marjol", "a-llm-by-user-1"),
        # Not cut off by the kernel, so this is all of it.
        ("run-edge", "run-edge"),
        ("nvidia-cuda-mps", "nvidia-cuda-mps"),
    ],
)
def test_a_name_that_the_kernel_cut_off(comm: str, expected: str) -> None:
    assert PLAIN.comm(comm) == expected


@given(st.text(max_size=15))
def test_a_process_name_is_never_longer_than_the_kernels(comm: str) -> None:
    assert len(PLAIN.comm(comm)) <= 15
