"""How large a pool is, and how much of it is offered: always from what the machine says now, never from its name."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.making import (
    GIB,
    KEY,
    MIB,
    about,
    device,
    explain,
    frames,
    gpu,
    meminfo,
    node,
    nvml,
    pod,
    pods,
    reserves,
    stated,
)

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]

MEMINFO = "host/proc/meminfo"
ORIN = {"host/proc/device-tree/compatible": b"nvidia,p3767-0005\0nvidia,tegra234\0"}
THOR = {"host/proc/device-tree/compatible": b"nvidia,p3834-0008\0nvidia,tegra264\0"}
X86 = {"snapshot.yaml": about(arch="x86_64")}
SMALL = 7802368
OFFER = "6083Mi"
"""7802368 kB = 7619.5 MiB, less os 1024 and k3s 512 = 6083.5, down to whole MiB."""
UUID = "GPU-bbbbbbbb-0000-4000-8000-000000000001"


def orin(total_kib: int = SMALL, /, **files: Any) -> dict[str, Any]:
    return {**ORIN, MEMINFO: meminfo(total_kib), "config.yaml": stated(), **files}


def pc(*devices: dict[str, Any], **files: Any) -> dict[str, Any]:
    return {**X86, MEMINFO: meminfo(65671988, MemAvailable=56701456), "nvml.json": nvml(*devices), **files}


def sample(text: str) -> dict[str, Any]:
    return {MEMINFO: text}


# The whole of the pool: MemTotal as it is now (ollama/ollama#18396, mmalyska/home-ops#4897)


@pytest.mark.parametrize(
    ("compatible", "total_kib", "total_mib", "offer"),
    [
        (b"nvidia,p3767-0005\0nvidia,tegra234\0", 7802368, "7619", "6083Mi"),  # 7619.5
        (b"nvidia,p3767-0005\0nvidia,tegra234\0", 7789568, "7607", "6071Mi"),  # 7607.0
        (b"nvidia,p3767-0005\0nvidia,tegra234\0", 6606028, "6451", "4915Mi"),  # 6451.2: one name, another size
        (b"nvidia,p3448-0000\0nvidia,tegra210\0", 4059240, "3964", "2428Mi"),  # 3964.1
        (b"nvidia,p3668-0001\0nvidia,tegra194\0", 7015424, "6851", "5315Mi"),  # Xavier NX 8 GB, JetPack 5
        (b"nvidia,p3668-0001\0nvidia,tegra194\0", 7957504, "7771", "6235Mi"),  # the same module, JetPack 4
        (b"nvidia,p2888-0001\0nvidia,tegra194\0", 32685056, "31919", "30383Mi"),  # "16 GB" by its part number
        (b"nvidia,p3701-0005\0nvidia,tegra234\0", 64308224, "62801", "61265Mi"),
    ],
)
def test_the_pool_is_what_the_kernel_has_and_not_what_the_box_says(
    tmp_path: Path, capsys: Capture, compatible: bytes, total_kib: int, total_mib: str, offer: str
) -> None:
    (document,) = explain(capsys, tmp_path, orin(total_kib, **{"host/proc/device-tree/compatible": compatible}))
    assert document["pools"][0]["total_bytes"] == total_kib * 1024
    assert document["node"]["labels"]["edgeagent.dev/gpu.memory-mib"] == total_mib
    assert gpu(document) == offer


def test_a_memory_answer_of_a_unified_gpu_is_not_its_pool(tmp_path: Path, capsys: Capture) -> None:
    # XuehaiPan/nvitop#208, Syllo/nvtop#449: a driver that answers with all of the host's memory
    thor = device("NVIDIA Thor", "GPU-aaaaaaaa-0000-4000-8000-000000000001", 131738955776)
    thor["memory"] |= {"used": 20 * GIB, "free": 131738955776 - 20 * GIB}
    (document,) = explain(capsys, tmp_path, {**orin(128651324), **THOR, "nvml.json": nvml(thor)})
    assert document["board"]["unified"] is True
    assert document["devices"][0]["total_bytes"] is None
    assert gpu(document) == "124100Mi"  # 128651324 kB = 125636.06 MiB, less 1536


@pytest.mark.parametrize(
    "rows",
    [
        "HugePages_Total:     512\nHugePages_Free:      512\nHugepagesize:       2048 kB\n",
        "HugePages_Total:     512\nHugepagesize:       2048 kB\nHugetlb:         1048576 kB\n",
        # pages of 1 GiB beside the default size: only the Hugetlb row knows them
        "HugePages_Total:       0\nHugepagesize:       2048 kB\nHugetlb:         1048576 kB\n",
    ],
)
def test_huge_pages_are_taken_out_of_the_pool(tmp_path: Path, capsys: Capture, rows: str) -> None:
    (document,) = explain(capsys, tmp_path, orin(**sample(meminfo(SMALL) + rows)))
    assert document["pools"][0]["total_bytes"] == (SMALL - 1048576) * 1024
    assert gpu(document) == "5059Mi"  # 6083.5 - 1024

    alone = {**stated(os="0", k3s="0"), "unified": {"gpu_from_hugepages": True}}
    (document,) = explain(capsys, tmp_path, {"config.yaml": alone, **sample(meminfo(SMALL) + rows), **ORIN})
    assert document["pools"][0]["total_bytes"] == GIB
    assert gpu(document) == "1024Mi"


def test_no_huge_pages_take_nothing(tmp_path: Path, capsys: Capture) -> None:
    rows = "HugePages_Total:       0\nHugepagesize:       2048 kB\nHugetlb:               0 kB\n"
    (document,) = explain(capsys, tmp_path, orin(**sample(meminfo(SMALL) + rows)))
    assert gpu(document) == OFFER


def test_memory_of_nodes_without_cpus_is_not_the_hosts(tmp_path: Path, capsys: Capture) -> None:
    where = "host/sys/devices/system/node"
    numa = {
        f"{where}/node0/cpulist": "0-19\n",
        f"{where}/node0/meminfo": "Node 0 MemTotal:        7802368 kB\nNode 0 MemFree:          1 kB\n",
        f"{where}/node1/cpulist": "\n",
        f"{where}/node1/meminfo": "Node 1 MemTotal:       16777216 kB\nNode 1 MemFree:          1 kB\n",
        f"{where}/node2/cpulist": "\n",
        f"{where}/node2/meminfo": "Node 2 MemTotal:       16777216 kB\n",
        f"{where}/node3/cpulist": "\n",  # nodes of a superchip's GPU may have no memory
        f"{where}/node3/meminfo": "Node 3 MemTotal:              0 kB\n",
    }
    (document,) = explain(capsys, tmp_path, orin(SMALL + 2 * 16777216, **numa))
    assert document["pools"][0]["total_bytes"] == SMALL * 1024
    assert gpu(document) == OFFER


# Reserves (groundlight/edge-endpoint#256: K3s itself reserves nothing)


@pytest.mark.parametrize(
    ("total_kib", "rows", "files", "lines", "offer"),
    [
        # 6 % of 7802368 kB is 457 MiB, so 768; 2 % is 152, so 256: 7619.5 - 1536
        (SMALL, {}, {}, {"os": 768 * MIB, "k3s": 512 * MIB, "cma": 0, "headroom": 256 * MIB}, "6083Mi"),
        (
            SMALL,
            {"CmaTotal": 262144, "CmaFree": 1000},
            {},
            {"os": 768 * MIB, "k3s": 512 * MIB, "cma": 256 * MIB, "headroom": 256 * MIB},
            "5827Mi",
        ),
        # a server: 2 GiB
        (
            SMALL,
            {},
            {"host/var/lib/rancher/k3s/server/token": "x"},
            {"os": 768 * MIB, "k3s": 2 * GIB, "cma": 0, "headroom": 256 * MIB},
            "4547Mi",
        ),
        # 30 GiB = 32212254720: 6 % = 1932735283.2, 2 % = 644245094.4, both up to whole bytes.
        # 32212254720 - 1932735284 - 536870912 - 644245095 = 29098403429 = 27750.3 MiB
        (
            31457280,
            {},
            {},
            {"os": 1932735284, "k3s": 512 * MIB, "cma": 0, "headroom": 644245095},
            "27750Mi",
        ),
        # 127600748 kB = 130663165952: 6 % would be 7.3 GiB, so 4 GiB; 2 % = 2613263319.04.
        # 130663165952 - 4294967296 - 536870912 - 2613263320 = 123218064424 = 117510.0 MiB
        (127600748, {}, {}, {"os": 4 * GIB, "k3s": 512 * MIB, "cma": 0, "headroom": 2613263320}, None),
    ],
)
def test_without_a_configuration_the_agent_brings_its_own_reserves(
    tmp_path: Path,
    capsys: Capture,
    total_kib: int,
    rows: dict[str, int],
    files: dict[str, Any],
    lines: dict[str, int],
    offer: str | None,
) -> None:
    (document,) = explain(capsys, tmp_path, {**ORIN, MEMINFO: meminfo(total_kib, **rows), **files})
    assert {name: amount for name, (amount, _) in reserves(document).items()} == lines
    assert [line["name"] for line in document["pools"][0]["reserves"]] == ["os", "k3s", "cma", "headroom"]
    expected = (total_kib * 1024 - sum(lines.values())) // MIB
    assert gpu(document) == f"{expected}Mi"
    assert offer in (None, f"{expected}Mi")


@pytest.mark.parametrize(
    ("config", "name", "amount"),
    [
        ({"os": "10%"}, "os", 798962484),  # 7989624832 x 10 % = 798962483.2
        ({"os": "6%"}, "os", 479377490),  # 479377489.92; no minimum of 768 MiB
        ({"headroom": "2%"}, "headroom", 159792497),  # 159792496.64
        ({"headroom": "0%"}, "headroom", 0),
        ({"os": "0.5%"}, "os", 39948125),  # 39948124.16
        ({"os": "1G"}, "os", 1000000000),
        ({"os": "1Gi"}, "os", 1073741824),
        ({"os": "512M"}, "os", 512000000),
        ({"os": 1073741824}, "os", 1073741824),
        ({"os": "0.5Gi"}, "os", 536870912),
        ({"cma": "64Mi"}, "cma", 64 * MIB),  # though the board has 256 MiB
        ({"cma": 0}, "cma", 0),
    ],
)
def test_a_configured_reserve_replaces_the_whole_default_of_its_line(
    tmp_path: Path, capsys: Capture, config: dict[str, Any], name: str, amount: int
) -> None:
    base = {"os": 0, "k3s": 0, "cma": 0, "headroom": 0}
    files = {**ORIN, MEMINFO: meminfo(SMALL, CmaTotal=262144), "config.yaml": {"reserves": {**base, **config}}}
    (document,) = explain(capsys, tmp_path, files)
    assert reserves(document)[name] == (amount, "config")
    assert gpu(document) == f"{(SMALL * 1024 - amount) // MIB}Mi"


@pytest.mark.parametrize("config", [stated(os="9000Mi"), stated(os="7802368Ki", k3s="0"), stated(os="100%")])
def test_reserves_that_take_everything_offer_nothing_and_say_so(
    tmp_path: Path, capsys: Capture, config: dict[str, Any]
) -> None:
    (document,) = explain(capsys, tmp_path, orin(**{"config.yaml": config, "cluster/pods.json": pods()}))
    assert document["pools"][0]["advertised_bytes"] == 0
    assert "-" not in str(gpu(document))
    assert ("reserves-exceed-pool", "error") in [(one["id"], one["severity"]) for one in document["findings"]]


def test_reserves_that_take_everything_still_cover_what_pods_were_given(tmp_path: Path, capsys: Capture) -> None:
    running = pods(pod(limits={KEY: "2Gi"}))
    files = orin(**{"config.yaml": stated(os="9000Mi"), "cluster/pods.json": running})
    (document,) = explain(capsys, tmp_path, files)
    assert gpu(document) == "2048Mi"


# A ceiling (ggml-org/llama.cpp#23732, MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47)


@pytest.mark.parametrize(
    ("ceiling", "offer", "line"),
    [
        ("4Gi", "4096Mi", 7989624832 - 1536 * MIB - 4 * GIB),  # what is missing between the two
        ("50%", "3809Mi", 7989624832 - 1536 * MIB - 3994812416),  # 3994812416 = 3809.75 MiB
        ("6Gi", OFFER, None),  # 6144 MiB, above 6083.5
        ("16Gi", OFFER, None),
        ("100%", OFFER, None),
    ],
)
def test_a_ceiling_lowers_the_whole_and_shows_up_only_where_it_bites(
    tmp_path: Path, capsys: Capture, ceiling: str, offer: str, line: int | None
) -> None:
    (document,) = explain(capsys, tmp_path, orin(**{"config.yaml": stated(ceiling=ceiling)}))
    assert gpu(document) == offer
    assert reserves(document).get("ceiling", (None, ""))[0] == line


def test_a_ceiling_on_a_gb10_and_on_a_card(tmp_path: Path, capsys: Capture) -> None:
    # the free memory that CUDA sees on a GB10 tops out near 102 of its 121.69 GiB
    files = {MEMINFO: meminfo(127600748), "nvml.json": nvml(device("NVIDIA GB10", UUID))}
    (document,) = explain(capsys, tmp_path, {**files, "config.yaml": stated(ceiling="102Gi")})
    assert gpu(document) == "104448Mi"
    (document,) = explain(
        capsys,
        tmp_path / "card",
        pc(device("RTX", UUID, 24 * GIB), **{"config.yaml": {"reserves": {"ceiling": "8Gi"}}}),
    )
    assert gpu(document) == "8192Mi"


def test_host_memory_of_pods_is_subtracted_below_the_ceiling(tmp_path: Path, capsys: Capture) -> None:
    running = pods(pod(limits={"memory": "1Gi"}))
    files = orin(**{"config.yaml": stated(ceiling="4Gi"), "cluster/pods.json": running})
    (document,) = explain(capsys, tmp_path, files)
    assert gpu(document) == "3072Mi"


# What does not move it (ollama/ollama#12283, vllm-project/vllm#35920, dusty-nv/jetson-containers#342)


def applied(there: dict[str, Any], document: Any) -> dict[str, Any]:
    """The node after the writes that the document asks for."""
    for request in document["node"]["requests"]:
        merged(there, request["body"])
    return there


def merged(into: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            merged(into.setdefault(key, {}), value)
        elif isinstance(value, list):
            named = {one["type"]: one for one in [*into.get(key, []), *value]}
            into[key] = list(named.values())
        elif value is None:
            into.pop(key, None)
        else:
            into[key] = value


COLD = meminfo(128651324, MemFree=118400000, MemAvailable=118930220, Cached=2100000)
FULL = meminfo(128651324, MemFree=4123456, MemAvailable=118930220, Cached=115000000)


def test_a_full_page_cache_changes_nothing_on_the_node(tmp_path: Path, capsys: Capture) -> None:
    base = {**THOR, "config.yaml": stated(), "cluster/pods.json": pods()}
    (first,) = explain(capsys, tmp_path / "first", {**base, MEMINFO: COLD, "cluster/node.json": node()})
    assert first["node"]["requests"] != []
    files = {**base, "cluster/node.json": applied(node(), first), **frames(sample(COLD), sample(FULL))}
    for document in explain(capsys, tmp_path / "then", files):
        assert document["node"]["requests"] == []
        assert gpu(document) == "124100Mi"
        assert document["host"]["available_bytes"] == 118930220 * 1024  # 116142 MiB


@pytest.mark.parametrize("text", ["6083Mi", "6228992Ki", "6378487808"])
def test_the_same_number_in_another_spelling_is_not_written_again(tmp_path: Path, capsys: Capture, text: str) -> None:
    base = orin(**{"cluster/pods.json": pods()})
    (first,) = explain(capsys, tmp_path / "first", {**base, "cluster/node.json": node()})
    status = first["node"]["requests"][0]["body"]["status"]
    assert (status["capacity"][KEY], status["allocatable"][KEY]) == (OFFER, OFFER)
    there = applied(node(), first)
    there["status"]["capacity"][KEY] = there["status"]["allocatable"][KEY] = text
    (second,) = explain(capsys, tmp_path / "second", {**base, "cluster/node.json": there})
    assert second["node"]["requests"] == []


@pytest.mark.parametrize("available", [7000000, 3000000, 400000, 1])
def test_load_does_not_move_the_offer(tmp_path: Path, capsys: Capture, available: int) -> None:
    busy = meminfo(SMALL, MemFree=available // 2, MemAvailable=available, AnonPages=SMALL - available)
    (document,) = explain(capsys, tmp_path, orin(**sample(busy)))
    assert gpu(document) == OFFER


def test_swap_and_zram_are_not_gpu_memory(tmp_path: Path, capsys: Capture) -> None:
    swaps = "Filename Type Size Used Priority\n/dev/zram0 partition 650196 0 5\n/swapfile file 16777216 0 -2\n"
    swapping = meminfo(SMALL, SwapTotal=23068672, SwapFree=1000000, SwapCached=20000)
    (document,) = explain(capsys, tmp_path, orin(**sample(swapping), **{"host/proc/swaps": swaps}))
    assert gpu(document) == OFFER
    assert document["pools"][0]["total_bytes"] == SMALL * 1024
    assert document["host"]["available_bytes"] == (SMALL * 3 // 4) * 1024


# A reading that is none (giampaolo/psutil#1915, nicolargo/glances#3505, lxc/lxcfs#175)

GOOD = meminfo(SMALL, MemFree=312000, MemAvailable=5100000, Buffers=41000, Cached=5200000)
PADDING = "".join(f"Extra{number}:          7 kB\n" for number in range(200))


def rows(**kib: int) -> str:
    return "".join(f"{name}: {value} kB\n" for name, value in kib.items())


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "\n",
        rows(MemFree=312000, MemAvailable=5100000),  # no MemTotal
        rows(MemTotal=0, MemFree=312000, MemAvailable=5100000),
        "MemTotal: -7802368 kB\nMemAvailable: 5100000 kB\n",
        "MemTotal: seven kB\nMemAvailable: 5100000 kB\n",
        "MemTotal:\nMemAvailable: 5100000 kB\n",
        "MemTotal:        7802368 kB\nMemFree: 3120",  # cut
        "MemTotal:        78023",  # cut in the number that matters
        "MemTotal: 7802368\nMemFree: 312000\nMemAvailable: 5100000\n",  # no unit
        rows(MemTotal=SMALL // 2, MemFree=1, MemAvailable=1),  # another machine's, or a container's
        rows(MemTotal=SMALL * 2, MemFree=1, MemAvailable=1),
        b"\xff\xfe\x00",
    ],
)
def test_a_bad_reading_keeps_the_last_good_value(tmp_path: Path, capsys: Capture, bad: str | bytes) -> None:
    files = {**ORIN, "config.yaml": stated(), **frames(sample(GOOD), {MEMINFO: bad}, sample(GOOD))}
    documents = explain(capsys, tmp_path, files)
    assert [gpu(document) for document in documents] == [OFFER] * 3
    assert [document["host"]["available_bytes"] for document in documents[::2]] == [5100000 * 1024] * 2
    assert documents[1]["host"]["pressure"] is False
    assert documents[1]["plan"]["evictions"] == []


def test_a_file_that_vanishes_keeps_the_last_good_value(tmp_path: Path, capsys: Capture) -> None:
    files = orin(**frames({}, {"removed.txt": f"{MEMINFO}\n"}, {}))
    documents = explain(capsys, tmp_path, files)
    assert [gpu(document) for document in documents] == [OFFER] * 3
    assert documents[1]["host"]["available_bytes"] is None


@pytest.mark.parametrize(
    ("text", "available_kib"),
    [
        (GOOD, 5100000),
        (rows(MemTotal=SMALL, MemFree=312000, Buffers=41000, Cached=5200000), None),  # no guess from other rows
        (rows(MemTotal=SMALL, MemFree=312000, MemAvailable=9000000), None),  # more than there is
        ("MemTotal: 7802368 kB\nMemAvailable: -1 kB\n", None),
        ("MemTotal: 7802368 kB\n" + PADDING + "MemAvailable: 5100000 kB\n", 5100000),
        ("MemTotal: 7802368 kB\nMemAvailable: 5100000 kB\n" + PADDING, 5100000),
        (rows(MemTotal=SMALL, MemAvailable=SMALL), SMALL),
    ],
)
def test_available_memory_is_the_kernels_own_figure_or_unknown(
    tmp_path: Path, capsys: Capture, text: str, available_kib: int | None
) -> None:
    (document,) = explain(capsys, tmp_path, orin(**sample(text)))
    expected = available_kib and available_kib * 1024
    assert document["host"]["available_bytes"] == expected
    assert document["host"]["usable_bytes"] == expected
    assert gpu(document) == OFFER


@pytest.mark.parametrize(
    "text",
    [
        "MemTotal: 7802368 kB\nMemFree: 312000 kB\nMemAvailable: 51000",
        "MemTotal: 7802368 kB\r\nMemFree: 312000 kB\r\nMemAvailable: 5100000 kB\r\n",
        "MemTotal: 7802368 kB\nMemAvailable: 5100000 kB\nMemFr",
        "MemTotal: 7802368 kB\nMemAvailable: many kB\n",
    ],
)
def test_a_cut_or_foreign_line_is_never_another_number(tmp_path: Path, capsys: Capture, text: str) -> None:
    (document,) = explain(capsys, tmp_path, orin(**frames(sample(GOOD), sample(text))))[1:]
    assert document["host"]["available_bytes"] in (None, 5100000 * 1024)
    assert gpu(document) == OFFER


def test_after_a_start_the_nodes_own_value_bridges_a_bad_reading(tmp_path: Path, capsys: Capture) -> None:
    bad = {**orin(**sample("")), "cluster/pods.json": pods()}
    (document,) = explain(capsys, tmp_path / "a", {**bad, "cluster/node.json": node({KEY: "5000Mi"})})
    assert gpu(document) == "5000Mi"
    assert not [one for one in document["node"]["requests"] if KEY in str(one["body"].get("status", {}))]

    for name, there in (("b", node()), ("c", node({KEY: "0"}))):  # 0 is the kubelet's, and no good value
        (document,) = explain(capsys, tmp_path / name, {**bad, "cluster/node.json": there})
        assert gpu(document) is None
        for request in document["node"]["requests"]:  # the 0 may go, but no number may come
            assert request["body"].get("status", {}).get("capacity", {}).get(KEY) is None


def test_after_ten_minutes_without_a_size_only_what_pods_hold_is_offered(tmp_path: Path, capsys: Capture) -> None:
    files = orin(
        **{"cluster/pods.json": pods(pod(limits={KEY: "2Gi"}))},
        **frames(
            sample(GOOD), sample(""), sample(""), sample(""), sample(GOOD), sample(GOOD), at=[0, 2, 590, 605, 607, 613]
        ),
    )
    documents = explain(capsys, tmp_path, files)
    assert [gpu(document) for document in documents[:4]] == [OFFER, OFFER, OFFER, "2048Mi"]
    assert gpu(documents[5]) == OFFER


def test_a_board_that_really_changed_its_size_is_believed_after_three_readings(tmp_path: Path, capsys: Capture) -> None:
    less = sample(meminfo(SMALL - 1048576))
    documents = explain(capsys, tmp_path, orin(**frames({}, {}, less, less, less, less)))
    assert [gpu(document) for document in documents] == [OFFER] * 4 + ["5059Mi"] * 2


# Discrete cards: what NVML says, and nothing else (ggml-org/llama.cpp#17536, Syllo/nvtop#424)


def test_a_card_is_not_sized_from_the_hosts_memory(tmp_path: Path, capsys: Capture) -> None:
    found = device("NVIDIA GeForce RTX 5090", UUID, 32106 * MIB, 506 * MIB)
    found["memory"] = {"code": 0, "total": 32106 * MIB, "used": 1200 * MIB, "free": 30906 * MIB}
    (document,) = explain(capsys, tmp_path, pc(found))
    assert document["board"]["kind"] == "discrete"
    assert document["devices"][0]["total_bytes"] == 32106 * MIB
    assert document["devices"][0]["usable_bytes"] == 31600 * MIB
    assert document["pools"][0]["total_bytes"] == 32106 * MIB
    assert gpu(document) == "31600Mi"
    assert document["node"]["labels"]["edgeagent.dev/gpu.memory-mib"] == "32106"


def test_no_contents_of_meminfo_change_a_card(tmp_path: Path, capsys: Capture) -> None:
    chance = random.Random(20251)
    texts = ["", "MemTotal: 0 kB\n", "MemTotal: 8 kB\nMemAvailable: 9 kB\n"]
    texts += [
        meminfo(total, MemFree=chance.randrange(total), MemAvailable=chance.randrange(2 * total))
        for total in (chance.randrange(1, 10**9) for _ in range(20))
    ]
    files = pc(device("NVIDIA GeForce GTX 1080", UUID, 8192 * MIB, 192 * MIB), **frames(*map(sample, texts)))
    for document in explain(capsys, tmp_path, files):
        assert gpu(document) == "8000Mi"
        (one,) = document["devices"]
        assert 0 <= one["usable_bytes"] <= one["total_bytes"] == 8192 * MIB


# What the driver keeps (NVIDIA/dcgm-exporter#136, kai-scheduler/KAI-Scheduler#2212, leptonai/gpud#1170)


def old(total: int, **fields: Any) -> dict[str, Any]:
    """A card whose driver has the first memory call alone."""
    return {**device("NVIDIA A40", UUID, total), "memory_v2": {"code": 13}, **fields}


@pytest.mark.parametrize(
    ("found", "config", "offer", "line"),
    [
        (device("NVIDIA A40", UUID, 46068 * MIB, 450 * MIB), None, "45618Mi", (450 * MIB, "measured")),
        # v1 alone: 3 % of 48305799168 = 1449173975.04; 48305799168 - 1449173976 = 44685.96 MiB
        (old(46068 * MIB), None, "44685Mi", (1449173976, "default")),
        (old(46068 * MIB, memory_v2={"code": 3}), None, "44685Mi", (1449173976, "default")),
        (old(4096 * MIB), None, "3840Mi", (256 * MIB, "default")),  # 3 % would be 123 MiB
        (device("NVIDIA A40", UUID, 46068 * MIB, 450 * MIB), "1Gi", "45044Mi", (GIB, "config")),
        (device("NVIDIA A40", UUID, 46068 * MIB, 450 * MIB), "100Mi", "45618Mi", (450 * MIB, "measured")),
        (device("NVIDIA A40", UUID, 46068 * MIB, 450 * MIB), 0, "45618Mi", (450 * MIB, "measured")),
        (old(46068 * MIB), "100Mi", "45968Mi", (100 * MIB, "config")),
        (old(46068 * MIB), 0, "46068Mi", (0, "config")),
        (device("NVIDIA A40", UUID, 46068 * MIB, 450 * MIB), "10%", "41461Mi", (4830579917, "config")),
    ],
)
def test_the_driver_keeps_a_part_of_each_card(
    tmp_path: Path,
    capsys: Capture,
    found: dict[str, Any],
    config: Any,
    offer: str,
    line: tuple[int, str],
) -> None:
    files = pc(found, **({} if config is None else {"config.yaml": {"reserves": {"driver": config}}}))
    (document,) = explain(capsys, tmp_path, files)
    assert gpu(document) == offer
    assert reserves(document) == {"driver": line}


def test_what_the_driver_keeps_is_counted_per_card(tmp_path: Path, capsys: Capture) -> None:
    cards = [
        device("NVIDIA A40", UUID, 46068 * MIB, 450 * MIB),
        {**old(4096 * MIB), "uuid": UUID[:-1] + "2"},
        device("NVIDIA T4", UUID[:-1] + "3", 15360 * MIB, 251 * MIB),
    ]
    (document,) = explain(capsys, tmp_path, pc(*cards))
    # 450 + 256 + 251
    assert reserves(document)["driver"][0] == 957 * MIB
    assert gpu(document) == "64567Mi"  # 46068 + 4096 + 15360 - 957
    # a configured 300 MiB: 450, 300 and 300
    (document,) = explain(capsys, tmp_path, {"config.yaml": {"reserves": {"driver": "300Mi"}}, **pc(*cards)})
    assert reserves(document)["driver"][0] == 1050 * MIB


def test_figures_that_do_not_add_up_leave_total_and_used_standing(tmp_path: Path, capsys: Capture) -> None:
    odd = old(0, memory={"code": 0, "total": 128501256192, "used": 6910320640, "free": 7976902656})
    (document,) = explain(capsys, tmp_path, pc(odd))
    assert document["devices"][0]["total_bytes"] == 128501256192
    # 3 % = 3855037685.76; 128501256192 - 3855037686 = 118872.0... MiB
    assert gpu(document) == f"{(128501256192 - 3855037686) // MIB}Mi"
    assert document["board"]["warnings"] != []


@pytest.mark.parametrize(
    "second",
    [
        {"code": 0, "total": 46068 * MIB, "reserved": 50000 * MIB, "used": 0, "free": 0},  # more than there is
    ],
)
def test_an_impossible_reserve_never_makes_an_offer_outside_the_card(
    tmp_path: Path, capsys: Capture, second: dict[str, Any]
) -> None:
    found = {**device("NVIDIA A40", UUID, 46068 * MIB), "memory_v2": second}
    (document,) = explain(capsys, tmp_path, pc(found))
    offer = gpu(document)
    assert offer is None or 0 <= int(offer.removesuffix("Mi")) <= 46068


def test_pools_per_device_are_named_by_their_minor_number(tmp_path: Path, capsys: Capture) -> None:
    cards = [
        device("NVIDIA A40", UUID, 46068 * MIB, 450 * MIB, minor=3),
        device("NVIDIA T4", UUID[:-1] + "2", 15360 * MIB, 251 * MIB, minor=0),
    ]
    for order in (cards, cards[::-1]):
        files = pc(*order, **{"config.yaml": {"discrete": {"pools": "device"}}})
        (document,) = explain(capsys, tmp_path, files)
        sizes = {key: value for key, value in document["node"]["capacity"].items() if "memory" in key}
        assert sizes == {f"{KEY}-3": "45618Mi", f"{KEY}-0": "15109Mi"}


# One integer, rounded down (kai-scheduler/KAI-Scheduler#416: 24 x 2000 > 46068 was scheduled)


def test_the_offer_is_one_integer_that_never_rounds_up(tmp_path: Path, capsys: Capture) -> None:
    found = device("NVIDIA A40", UUID, 46068 * MIB + MIB - 1)
    (document,) = explain(capsys, tmp_path, pc(found))
    assert gpu(document) == "46068Mi"
    assert document["pools"][0]["advertised_bytes"] == 46068 * MIB
    assert 46068 // 2000 == 23


@pytest.mark.parametrize(("count", "offer", "over"), [(23, "46068Mi", False), (24, "48000Mi", True)])
def test_pods_that_fit_are_no_overcommitment_and_one_more_is(
    tmp_path: Path, capsys: Capture, count: int, offer: str, *, over: bool
) -> None:
    running = pods(*(pod(f"llm-{number}", limits={KEY: "2000Mi"}) for number in range(count)))
    (document,) = explain(
        capsys, tmp_path, pc(device("NVIDIA A40", UUID, 46068 * MIB), **{"cluster/pods.json": running})
    )
    assert gpu(document) == offer  # never below what admitted pods hold
    assert document["pools"][0]["gpu_committed_bytes"] == count * 2000 * MIB
    assert document["pools"][0]["overcommitted"] is over
    assert ("overcommitted" in [one["id"] for one in document["findings"]]) is over
    assert ("Overcommitted" in [one["reason"] for one in document["plan"]["events"]]) is over


def test_a_request_larger_than_any_card_is_named(tmp_path: Path, capsys: Capture) -> None:
    cards = [device("NVIDIA T4", UUID[:-1] + str(number), 15360 * MIB, 251 * MIB) for number in (1, 2)]
    running = pods(pod("big", limits={KEY: "20Gi"}), pod("fits", limits={KEY: "8Gi"}))
    (document,) = explain(capsys, tmp_path, pc(*cards, **{"cluster/pods.json": running}))
    assert [one["regarding"] for one in document["plan"]["events"] if one["reason"] == "RequestTooLarge"] == [
        "pod default/big"
    ]


# Replicas of a shared GPU are no memory (NVIDIA/k8s-device-plugin#323, NVIDIA/dcgm-exporter#201)


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared"])
def test_time_slicing_does_not_alter_the_pool(tmp_path: Path, capsys: Capture, resource: str) -> None:
    t4 = device("Tesla T4", UUID, 15360 * MIB, 251 * MIB)
    t4["compute"] = {
        "code": 0,
        "processes": [{"pid": 4242, "used": 9000 * MIB}, {"pid": 5151, "used": 4000 * MIB}],
    }
    running = pods(*(pod(f"share-{number}", limits={resource: "1"}) for number in range(3)))
    files = pc(t4, **{"cluster/node.json": node({resource: "50"}), "cluster/pods.json": running})
    (document,) = explain(capsys, tmp_path, files)
    assert gpu(document) == "15109Mi"
    assert document["pools"][0]["gpu_committed_bytes"] == 0
    assert document["node"]["labels"]["edgeagent.dev/gpu.count"] == "1"
    assert resource not in str(document["node"]["requests"])


def test_nothing_is_offered_before_the_pods_are_known_where_there_is_a_cluster(tmp_path: Path, capsys: Capture) -> None:
    # without cluster/pods.json a snapshot is standalone: as an empty board
    (document,) = explain(capsys, tmp_path, orin())
    assert (gpu(document), document["pods"]) == (OFFER, [])
