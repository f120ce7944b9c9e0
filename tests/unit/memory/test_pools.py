"""How large a pool is, and every line that is kept back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgeagent.config import Reserves
from edgeagent.facts import KubeletSettings, MemInfo, MigInstance, NvmlMemory, Reading
from edgeagent.memory import pools
from edgeagent.memory.board import detect
from edgeagent.memory.pools import PoolKey
from edgeagent.memory.reserves import ceiling_line, discrete_reserve, unified_lines
from edgeagent.memory.types import Board, Device, Reserve
from tests.unit.factories import CARD_UUID, GIB, KIB, MIB, card, card_files, config, igpu, meminfo, nvml, orin_files

NONE = KubeletSettings()
DEFAULTS = Reserves()


def total_of(info: MemInfo, cpuless: int = 0, *, hugepages: bool = False) -> int:
    return pools.unified_total(info, cpuless, hugepages=hugepages)


# --- totals --------------------------------------------------------------------------


@pytest.mark.parametrize("kib", [7_802_368, 7_789_568, 6_606_028, 127_600_748])
def test_the_pool_is_memtotal(kib: int) -> None:
    assert total_of(meminfo(kib * KIB)) == kib * KIB


def test_huge_pages_and_memory_of_cpuless_nodes_are_no_part_of_it() -> None:
    assert total_of(meminfo(64 * GIB, hugetlb=8 * GIB)) == 56 * GIB
    assert total_of(meminfo(64 * GIB, hugetlb=8 * GIB), 16 * GIB) == 40 * GIB


def test_a_pool_of_huge_pages_alone() -> None:
    assert total_of(meminfo(64 * GIB, hugetlb=8 * GIB), hugepages=True) == 8 * GIB


def test_swap_and_free_memory_never_count() -> None:
    full = meminfo(8 * GIB, available=GIB, free=MIB, swap_total=22 * GIB)
    assert total_of(full) == total_of(meminfo(8 * GIB))


# --- unified reserve lines -----------------------------------------------------------


def lines(
    total: int,
    settings: Reserves = DEFAULTS,
    kubelet: KubeletSettings = NONE,
    cma: int = 0,
    mem_total: int | None = None,
) -> tuple[tuple[str, int, str], ...]:
    info = meminfo(mem_total or total, cma_total=cma)
    return tuple((line.name, line.bytes, line.origin) for line in unified_lines(total, info, settings, kubelet))


def test_the_defaults_of_an_8_gib_board() -> None:
    # os: 6 % of 8192 MiB = 491.52 MiB, below 768 MiB · headroom: 2 % = 163.84 MiB, below 256 MiB
    assert lines(8 * GIB, cma=256 * MIB) == (
        ("os", 768 * MIB, "default"),
        ("k3s", 512 * MIB, "default"),
        ("cma", 256 * MIB, "measured"),
        ("headroom", 256 * MIB, "default"),
    )


def test_the_percentages_of_a_32_gib_board() -> None:
    # 6 % of 34 359 738 368 = 2 061 584 302.08 and 2 % = 687 194 767.36, both rounded up
    found = {name: amount for name, amount, _ in lines(32 * GIB)}
    assert (found["os"], found["headroom"]) == (2_061_584_303, 687_194_768)


def test_os_is_at_most_4_gib() -> None:
    # 6 % of 128 GiB = 7.68 GiB
    assert lines(128 * GIB)[0] == ("os", 4 * GIB, "default")


def test_a_server_runs_the_control_plane_too() -> None:
    assert lines(8 * GIB, kubelet=KubeletSettings(server=True))[1] == ("k3s", 2 * GIB, "default")


def test_a_configured_value_replaces_the_whole_default() -> None:
    # headroom 2 % of 8 GiB = 171 798 691.84: no minimum of 256 MiB any more
    settings = Reserves(os="1%", k3s=0, cma=0, headroom="2%")
    assert lines(8 * GIB, settings, cma=256 * MIB) == (
        ("os", 85_899_346, "config"),  # 85 899 345.92
        ("k3s", 0, "config"),
        ("cma", 0, "config"),
        ("headroom", 171_798_692, "config"),
    )


@pytest.mark.parametrize(
    ("kubelet", "line", "amount", "origin"),
    [
        (KubeletSettings(system_reserved=("2Gi", "f")), "os", 2 * GIB, "kubelet"),
        (KubeletSettings(system_reserved=("512Mi", "f")), "os", 768 * MIB, "default"),
        (KubeletSettings(kube_reserved=("1G", "f")), "k3s", 10**9, "kubelet"),
        (KubeletSettings(kube_reserved=("500Mi", "f")), "k3s", 512 * MIB, "default"),
        (KubeletSettings(eviction_hard=("300Mi", "f")), "headroom", 300 * MIB, "kubelet"),
        (KubeletSettings(eviction_hard=("200Mi", "f")), "headroom", 256 * MIB, "default"),
        # 10 % of 8 589 934 592 = 858 993 459.2
        (KubeletSettings(eviction_hard=("10%", "f")), "headroom", 858_993_460, "kubelet"),
        (KubeletSettings(system_reserved=("a lot", "f")), "os", 768 * MIB, "default"),
    ],
)
def test_the_larger_of_ours_and_the_kubelets_counts(
    kubelet: KubeletSettings, line: str, amount: int, origin: str
) -> None:
    assert (line, amount, origin) in lines(8 * GIB, kubelet=kubelet)


def test_the_kubelet_wins_over_a_smaller_configured_value_too() -> None:
    kubelet = KubeletSettings(system_reserved=("2Gi", "f"), kube_reserved=("256Mi", "f"))
    found = lines(8 * GIB, Reserves(os=GIB, k3s=512 * MIB), kubelet)
    assert found[:2] == (("os", 2 * GIB, "kubelet"), ("k3s", 512 * MIB, "config"))


def test_the_kubelets_percentage_is_of_memtotal_ours_of_the_pool() -> None:
    # 2 GiB of huge pages: the pool has 6 GiB, MemTotal is 8 GiB.
    # 5 % of 8 GiB = 429 496 729.6; 5 % of 6 GiB = 322 122 547.2
    kubelet = KubeletSettings(eviction_hard=("5%", "f"))
    theirs = lines(6 * GIB, Reserves(headroom=0), kubelet, mem_total=8 * GIB)[3]
    ours = lines(6 * GIB, Reserves(headroom="5%"), mem_total=8 * GIB)[3]
    assert (theirs[1], ours[1]) == (429_496_730, 322_122_548)


def test_a_ceiling_is_a_line_only_where_it_bites() -> None:
    # 8 GiB − 2 GiB = 6 GiB are left by the others
    assert ceiling_line(8 * GIB, 2 * GIB, Reserves()) == ()
    assert ceiling_line(8 * GIB, 2 * GIB, Reserves(ceiling=6 * GIB)) == ()
    assert ceiling_line(8 * GIB, 2 * GIB, Reserves(ceiling=5 * GIB)) == (
        Reserve("ceiling", GIB, "config", "reserves.ceiling"),
    )
    # 50 % of 8 GiB = 4 GiB
    assert ceiling_line(8 * GIB, 2 * GIB, Reserves(ceiling="50%"))[0].bytes == 2 * GIB


# --- discrete pools ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "measured", "setting", "expected"),
    [
        (46_068 * MIB, 450 * MIB, None, (450 * MIB, "measured")),
        # only the first call: 3 % of 48 305 799 168 B = 1 449 173 975.04
        (46_068 * MIB, None, None, (1_449_173_976, "default")),
        (4 * GIB, None, None, (256 * MIB, "default")),  # 3 % = 122.88 MiB
        (128 * MIB, None, None, (128 * MIB, "default")),  # never more than there is
        (46_068 * MIB, 450 * MIB, 512 * MIB, (512 * MIB, "config")),
        (46_068 * MIB, 450 * MIB, 256 * MIB, (450 * MIB, "measured")),  # never below NVML's own figure
        (46_068 * MIB, None, 100 * MIB, (100 * MIB, "config")),
        (10_000, 10, "1%", (100, "config")),
    ],
)
def test_what_the_driver_keeps_of_a_card(
    total: int, measured: int | None, setting: int | str | None, expected: tuple[int, str]
) -> None:
    assert discrete_reserve(total, measured, setting) == expected


def board(*devices: object, **files: object) -> Board:
    found = card_files(**files) if not files.get("compatible") else orin_files(**files)
    return detect(found, Reading(0.0, nvml(*devices)), meminfo())  # type: ignore[arg-type]


def sized(found: Board, text: str = "", key: int = 0) -> tuple[int, tuple[Reserve, ...]] | None:
    settings = config(text)
    keys = pools.keys(found, per_device=settings.discrete.pools == "device", mixed_before=False)
    return pools.size(keys[key], settings, meminfo(64 * GIB), 0, NONE)


def test_a_pool_is_the_sum_of_its_cards_and_host_memory_never_enters() -> None:
    found = board(card("GPU-1", 46_068 * MIB, 450 * MIB), card("GPU-2", 15_109 * MIB, 300 * MIB, minor=1))
    assert sized(found) == (61_177 * MIB, (Reserve("driver", 750 * MIB, "measured"),))


def test_a_setting_is_held_against_each_card() -> None:
    # 400 MiB each: the first card keeps its own 450, the second is raised from 300
    found = board(card("GPU-1", 46_068 * MIB, 450 * MIB), card("GPU-2", 15_109 * MIB, 300 * MIB, minor=1))
    assert sized(found, "reserves: {driver: 400Mi}") == (61_177 * MIB, (Reserve("driver", 850 * MIB, "config"),))


def test_the_second_query_is_believed_before_the_first() -> None:
    old = NvmlMemory(code=0, total=46_068 * MIB, used=450 * MIB, free=45_618 * MIB)
    assert sized(board(card(memory=old))) == (46_068 * MIB, (Reserve("driver", 450 * MIB, "measured"),))
    missing = NvmlMemory(code=13)
    assert sized(board(card(memory=old, memory_v2=missing))) == (
        46_068 * MIB,
        (Reserve("driver", 1_449_173_976, "default"),),
    )


def test_numbers_that_do_not_add_up() -> None:
    # used and free exceed the total: the total is believed; a reserve above the total is not
    odd = NvmlMemory(code=0, total=128_501_256_192, used=6_910_320_640, free=7_976_902_656, reserved=0)
    found = sized(board(card(memory_v2=odd)))
    assert found is not None
    assert found[0] == 128_501_256_192
    absurd = NvmlMemory(code=0, total=GIB, reserved=2 * GIB)
    assert sized(board(card(memory_v2=absurd))) is None


def test_a_card_of_unknown_size_makes_no_pool() -> None:
    failed = NvmlMemory(code=3)
    assert sized(board(card(memory=failed, memory_v2=failed))) is None


def test_mig_instances_in_place_of_the_parent() -> None:
    parts = tuple(
        MigInstance(uuid=f"MIG-{n}", memory_v2=NvmlMemory(code=0, total=10 * GIB, reserved=0)) for n in (1, 2)
    )
    found = board(card(total=80 * GIB, mig_mode=1, mig=parts))
    assert [device.uuid for device in found.devices] == ["MIG-1", "MIG-2"]
    assert sized(found) == (20 * GIB, (Reserve("driver", 0, "measured"),))


def test_a_card_in_mig_mode_without_an_instance_has_no_memory_to_give() -> None:
    found = board(card(total=80 * GIB, mig_mode=1))
    assert [(device.uuid, device.health, device.total_bytes) for device in found.devices] == [
        (CARD_UUID, "degraded", None)
    ]
    assert sized(found) is None


def test_one_container_has_at_most_what_the_largest_card_has_for_pods() -> None:
    found = board(card("GPU-1", 46_068 * MIB, 450 * MIB), card("GPU-2", 15_109 * MIB, 300 * MIB, minor=1))
    (key,), size = pools.keys(found, per_device=False, mixed_before=False), sized(found)
    assert size is not None
    pool = pools.fill(key, size, (), {}, config())
    assert (pool.room, pool.total - pool.reserved) == (45_618 * MIB, 60_427 * MIB)
    # The reserves leave less: nothing of a pool that is all reserved.
    assert replace(pool, reserves=(Reserve("ceiling", 61_178 * MIB, "config"),)).room == 0


def test_usable_bytes_of_a_card() -> None:
    (device,) = board(card(total=46_068 * MIB, reserved=450 * MIB)).devices
    assert pools.usable(device, Reserves()) == 45_618 * MIB
    assert pools.usable(Device(uuid=None, name="", memory="unified", health="ok"), Reserves()) is None


# --- which key means which memory ----------------------------------------------------


def names(found: Board, *, per_device: bool = False, mixed_before: bool = False) -> list[tuple[str, str, int]]:
    keys: tuple[PoolKey, ...] = pools.keys(found, per_device=per_device, mixed_before=mixed_before)
    return [(key.resource, key.kind, len(key.devices)) for key in keys]


def test_keys() -> None:
    memory, integrated = "edgeagent.dev/gpu-memory", "edgeagent.dev/igpu-memory"
    jetson = detect(orin_files(), Reading(0.0, nvml(igpu())), meminfo())
    assert names(jetson) == [(memory, "unified", 1)]
    both = board(igpu(), card(), compatible=("nvidia,tegra264",))
    assert names(both) == [(memory, "discrete", 1), (integrated, "unified", 1)]
    cards = board(card("GPU-1"), card("GPU-2", minor=1))
    assert names(cards) == [(memory, "discrete", 2)]
    assert names(cards, per_device=True) == [(f"{memory}-0", "discrete", 1), (f"{memory}-1", "discrete", 1)]


def test_what_a_key_means_does_not_change_when_a_card_is_lost() -> None:
    jetson = detect(orin_files(), Reading(0.0, nvml(igpu())), meminfo())
    assert names(jetson, mixed_before=True) == [
        ("edgeagent.dev/gpu-memory", "discrete", 0),
        ("edgeagent.dev/igpu-memory", "unified", 1),
    ]


def test_instances_of_one_card_share_its_key() -> None:
    parts = tuple(
        MigInstance(uuid=f"MIG-{n}", memory_v2=NvmlMemory(code=0, total=10 * GIB, reserved=0)) for n in (1, 2)
    )
    found = board(card(mig_mode=1, mig=parts))
    assert names(found, per_device=True) == [("edgeagent.dev/gpu-memory-0", "discrete", 2)]


def test_an_unread_meminfo_sizes_no_unified_pool() -> None:
    key = PoolKey("edgeagent.dev/gpu-memory", "unified", ())
    assert pools.size(key, config(), None, 0, NONE) is None
