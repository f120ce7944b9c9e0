"""The head of the page: what the board is, how that is known, and what matters most now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from edgeagent.plan.report.style import Line, Span, Tone, line, wrapped
from edgeagent.quantity import human

if TYPE_CHECKING:
    from edgeagent.plan.report.background import Background
    from edgeagent.plan.report.style import Style

_KINDS = {
    "jetson": "CPU and GPU share one memory",
    "unified": "CPU and GPU share one memory",
    "discrete": "the cards have memory of their own",
    "mixed": "an integrated GPU that shares the board's memory, and cards with memory of their own",
    "wsl": "a GPU of the Windows host, by WSL",
    "none": "no NVIDIA GPU, so no pool and nothing to advertise",
    "unknown": "whether there is a GPU is not known",
}
_DETAILS = {"soc": "", "module": "", "l4t": "L4T ", "jetpack": "JetPack "}
_NAME_COLUMN = 12


def in_short(shown: Mapping[str, Any]) -> str:
    """Product and kind of a board in a few words."""
    product, kind = shown["product"], shown["kind"]
    if kind == "none":
        return ", ".join(filter(None, (product, _nameless(kind))))
    return f"{product or _nameless(kind)} ({kind})"


def _nameless(kind: str) -> str:
    return "no NVIDIA GPU" if kind == "none" else "unknown product"


def board(document: dict[str, Any], background: Background, style: Style) -> Iterator[Line]:
    """Product, verdict, signals, devices."""
    shown = document["board"]
    yield from wrapped(shown["product"] or _nameless(shown["kind"]), style, 0, tone="strong")
    details = [f"{title}{shown[name]}" for name, title in _DETAILS.items() if shown[name]]
    yield from _field("kind", f"{shown['kind']}: {_KINDS[shown['kind']]}", style)
    if details:
        yield from _field("release", ", ".join(details), style)
    count = len(shown["signals"])
    known = f"{count} {'signals agree' if count > 1 else 'signal'}: {', '.join(shown['signals'])}"
    yield from _field("known by", known if count else "no signal of an NVIDIA GPU was seen", style)
    for device in document["devices"]:
        yield from _device(device, background, style)
    for warning in shown["warnings"]:
        yield from _field("! warning", warning, style, "warn")
    yield from _field("in short", *_now(document, background, style))


def _field(name: str, text: str, style: Style, tone: Tone = "") -> Iterator[Line]:
    yield from wrapped(text, style, _NAME_COLUMN + 2, line("  ", Span(name, tone or "dim")), tone)


def _device(device: dict[str, Any], background: Background, style: Style) -> Iterator[Line]:
    size = f", {human(device['total_bytes'])}" if device["total_bytes"] is not None else ""
    well = device["health"] in ("ok", "asleep")
    why = background.unwell.get(device["uuid"])
    health = device["health"] + (f" ({why})" if why else "")
    name = "device" if well else "! device"
    text = f"{device['name']}: {device['memory']}{size}, health {health}"
    yield from _field(name, text, style, "" if well else "bad")
    if device["uuid"]:
        minor = background.minors.get(device["uuid"])
        number = "" if minor is None else f", minor number {minor}"
        yield from wrapped(device["uuid"] + number, style, _NAME_COLUMN + 2, tone="dim")


def _now(document: dict[str, Any], background: Background, style: Style) -> tuple[str, Style, Tone]:
    """The few words that somebody who reads no further has to know."""
    states = [pod["state"] for pod in document["pods"]]
    bad = [
        *_counted(states.count("breach"), "pod over its budget", "pods over their budget"),
        *_counted(len(document["plan"]["evictions"]), "eviction due", "evictions due"),
        *(["the board is under pressure"] if document["host"]["pressure"] else []),
        *_counted([one["severity"] for one in document["findings"]].count("error"), "error", "errors"),
    ]
    more = [
        *_counted(states.count("unbudgeted"), "pod without a budget", "pods without a budget"),
        *_counted(len(background.gaps), "thing not known", "things not known"),
        *([f"nothing is evicted: {background.observe}"] if background.observe else []),
    ]
    return ", ".join((*bad, *more)) or "all is well", style, "bad" if bad else "warn" if more else ""


def _counted(count: int, one: str, many: str) -> list[str]:
    return [f"{count} {one if count == 1 else many}"] if count else []
