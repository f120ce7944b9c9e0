"""The parts of a unified pool that are not advertised, each with its origin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.memory.types import Origin, Reserve
from edgeagent.quantity import GIB, MIB

if TYPE_CHECKING:
    from edgeagent.config import Reserves
    from edgeagent.facts import KubeletSettings, MemInfo


def unified_lines(total: int, meminfo: MemInfo, settings: Reserves, kubelet: KubeletSettings) -> tuple[Reserve, ...]:
    """The lines ``os``, ``k3s``, ``cma`` and ``headroom`` of a pool of ``total`` bytes.

    A configured value replaces the default of its line; then the larger of ours and the
    kubelet setting that the line meets counts, never both.
    """
    kubelet_os = _kubelet(kubelet.system_reserved, meminfo.total)
    kubelet_k3s = _kubelet(kubelet.kube_reserved, meminfo.total)
    eviction = _kubelet(kubelet.eviction_hard, meminfo.total)
    return (
        _line("os", settings.os, min(max(768 * MIB, quantity.percent("6%", total)), 4 * GIB), total, kubelet_os),
        _line("k3s", settings.k3s, 2 * GIB if kubelet.server else 512 * MIB, total, kubelet_k3s),
        # GPU allocations are not movable, so the pages set aside for CMA are out of their reach.
        _line("cma", settings.cma, meminfo.cma_total, total, None, "measured"),
        _line("headroom", settings.headroom, max(256 * MIB, quantity.percent("2%", total)), total, eviction),
    )


def ceiling_line(total: int, reserved: int, settings: Reserves) -> tuple[Reserve, ...]:
    """The line ``ceiling``, if ``reserves.ceiling`` leaves less than the other lines do."""
    if settings.ceiling is None:
        return ()
    excess = total - reserved - quantity.size(str(settings.ceiling), total)
    return (Reserve("ceiling", excess, "config", "reserves.ceiling"),) if excess > 0 else ()


def discrete_reserve(total: int, measured: int | None, setting: int | str | None) -> tuple[int, Origin]:
    """What the driver keeps of one device of ``total`` bytes.

    ``measured`` is NVML's own figure, which a setting never undercuts; None when only the
    first memory query answers, which does not tell it: then max(256 MiB, 3 %).
    """
    if setting is not None:
        wanted = quantity.size(str(setting), total)
        return (wanted, "config") if measured is None or wanted >= measured else (measured, "measured")
    if measured is not None:
        return measured, "measured"
    return min(total, max(256 * MIB, quantity.percent("3%", total))), "default"


def _line(
    name: str,
    setting: int | str | None,
    default: int,
    total: int,
    kubelet: tuple[int, str] | None,
    origin: Origin = "default",
) -> Reserve:
    ours = (
        Reserve(name, default, origin)
        if setting is None
        else Reserve(name, quantity.size(str(setting), total), "config", f"reserves.{name}")
    )
    if kubelet is not None and kubelet[0] > ours.bytes:
        return Reserve(name, kubelet[0], "kubelet", kubelet[1])
    return ours


def _kubelet(setting: tuple[str, str] | None, mem_total: int) -> tuple[int, str] | None:
    """(bytes, where set) of a kubelet setting; its percentages are of MemTotal. An unusable one is as if not set."""
    if setting is None:
        return None
    try:
        return quantity.size(setting[0], mem_total), setting[1]
    except ValueError:
        return None
