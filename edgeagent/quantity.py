"""Kubernetes quantities as integer bytes.

The grammar is that of ``resource.Quantity``: a decimal number with a binary suffix
(Ki … Ei), a decimal one (n, u, m, k, M, G, T, P, E) or a decimal exponent (e3, E3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction

MIB = 1024**2
GIB = 1024**3

_NUMBER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d{1,3})?", re.ASCII)
_SUFFIX = {
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
    **{
        suffix: Fraction(10) ** power
        for suffix, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
    },
}


def parse(text: str | float) -> int:
    """Bytes (or whole units) of a quantity; a fraction of a unit is rounded up, as the API server does.

    Raises:
        ValueError: not a quantity.
    """
    match = _NUMBER.fullmatch(str(text))
    if not match:
        raise ValueError(f"{text!r} is not a quantity such as 2Gi, 512Mi or 1073741824")
    number, suffix = match.groups()
    if suffix is None:
        factor = Fraction(1)
    elif suffix in _SUFFIX:
        factor = _SUFFIX[suffix]
    else:
        factor = Fraction(10) ** int(suffix[1:])
    return _ceil(Fraction(number) * factor)


def amount(text: str) -> int:
    """Bytes of a quantity that a person wrote for an amount of memory.

    Whole bytes, or a number with a suffix from k or Ki upwards: 1500m, 0.5 or 1e4 bytes are legal quantities, and
    nobody means them.

    Raises:
        ValueError: anything else.
    """
    if not re.fullmatch(r"\d+|\d+(?:\.\d*)?(?:[KMGTPE]i|[kMGTPE])", text, re.ASCII):
        raise ValueError(f"{text!r} is not an amount of memory such as 2Gi, 512Mi or 1073741824")
    return parse(text)


def _ceil(value: Fraction) -> int:
    """The smallest integer not below ``value``."""
    return -(-value.numerator // value.denominator)


def percent(text: str, of: int) -> int:
    """Bytes of a percentage such as ``6%`` of ``of`` bytes, rounded up.

    Raises:
        ValueError: not a percentage from 0 to 100.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)%", text, re.ASCII)
    if not match or Fraction(match[1]) > 100:  # noqa: PLR2004 (a percentage)
        raise ValueError(f"{text!r} is not a percentage from 0% to 100%")
    return _ceil(Fraction(match[1]) * of / 100)


def size(text: str, of: int) -> int:
    """Bytes of a quantity or of a percentage of ``of`` bytes.

    Raises:
        ValueError: neither.
    """
    return percent(text, of) if text.endswith("%") else parse(text)


def total(amounts: Iterable[int | None]) -> int | None:
    """Σ of the amounts; None as soon as one of them is unknown."""
    found = tuple(amounts)
    return None if None in found else sum(amount or 0 for amount in found)


def equal(one: str | None, other: str | None) -> bool:
    """Whether two quantities are the same number: the API server writes 6144Mi as 6Gi. No value equals no value."""
    if one is None or other is None:
        return one is other
    try:
        return one == other or parse(one) == parse(other)
    except ValueError:
        return False


def floor_mib(value: int) -> int:
    """``value`` bytes rounded down to whole MiB, in bytes."""
    return value // MIB * MIB


def ceil_mib(value: int) -> int:
    """``value`` bytes rounded up to whole MiB, in bytes."""
    return -(-value // MIB) * MIB


def mib(value: int) -> str:
    """The quantity that capacity is published as: whole MiB with suffix, e.g. ``6083Mi``."""
    return f"{value // MIB}Mi"


def human(value: int | None) -> str:
    """Bytes for people: ``2.05 GiB``, ``512 MiB``, ``unknown``."""
    if value is None:
        return "unknown"
    if abs(value) >= GIB:
        return f"{value / GIB:.2f} GiB"
    return f"{value / MIB:.0f} MiB"
