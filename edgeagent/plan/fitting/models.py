"""What ``--would-fit`` asks for: models that want a place, read from what people write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgeagent import quantity
from edgeagent.facts import GPU_MEMORY, GPU_MILLI, IGPU_MEMORY
from edgeagent.memory.requests import MEMORY
from edgeagent.quantity import MIB, human

KEYS = {"gpu": GPU_MEMORY, "igpu": IGPU_MEMORY, "memory": MEMORY, "gpu-milli": GPU_MILLI}
"""Words of a wish, and the resources that they stand for."""
MOST = 110
"""Replicas of one model: as many pods as a kubelet takes by default (``maxPods``)."""

_WISH = re.compile(r"(?P<name>[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)(\*(?P<times>\d+))?=(?P<amounts>.+)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model that wants a place."""

    name: str
    amounts: Mapping[str, int]
    """By resource, in its unit."""


def shown(key: str, value: int | None) -> str:
    """An amount for people, in the unit of its resource."""
    return str(value) if key == GPU_MILLI and value is not None else human(value)


def parse(wishes: Iterable[str]) -> tuple[tuple[Model, ...], tuple[str, ...]]:
    """The models of ``name=gpu:2Gi,memory:3Gi`` or ``name*2=…``, replicas one by one; what is wrong, a line each."""
    models: list[Model] = []
    problems: list[str] = []
    names: set[str] = set()
    for wish in wishes:
        match = _WISH.fullmatch(wish)
        if not match:
            misplaced = "" if "=" in wish else " (SNAPSHOT stands before --would-fit)"
            problems.append(f"{wish!r}: expected NAME=gpu:2Gi,memory:3Gi or NAME*2=…{misplaced}")
            continue
        name, times = match["name"], int(match["times"] or 1)
        found, wrong = _amounts(match["amounts"])
        if name in names:
            wrong.append(f"is given twice; {name}*2=… asks for two")
        if not 1 <= times <= MOST:
            wrong.append(f"{times} replicas; expected 1 to {MOST}")
        names.add(name)
        problems += [f"{name}: {text}" for text in wrong]
        if not wrong:
            titles = [name] if times == 1 else [f"{name}-{number}" for number in range(1, times + 1)]
            models += [Model(name=title, amounts=found) for title in titles]
    return tuple(models), tuple(problems)


def _amounts(text: str) -> tuple[dict[str, int], list[str]]:
    """Amounts by resource, and what is wrong with them."""
    found: dict[str, int] = {}
    wrong: list[str] = []
    for part in text.split(","):
        word, colon, figure = part.strip().partition(":")
        if not colon or word not in KEYS:
            wrong.append(f"{part.strip()!r}: expected one of {', '.join(f'{key}:…' for key in KEYS)}")
        elif KEYS[word] in found:
            wrong.append(f"{word} is given twice")
        else:
            try:
                found[KEYS[word]] = _amount(word, figure)
            except ValueError as error:
                wrong.append(f"{word}: {error}")
    if not wrong and not any(found.get(KEYS[word]) for word in ("gpu", "igpu", "memory")):
        wrong.append("expected gpu or memory above 0")
    return found, wrong


def _amount(word: str, text: str) -> int:
    if word == "gpu-milli":
        if not text.isascii() or not text.isdecimal():
            raise ValueError(f"{text!r} is not a whole number of thousandths such as 250")
        return int(text)
    amount = quantity.parse(text)
    if amount < 0:
        raise ValueError(f"{text!r} is below 0")
    if 0 < amount < MIB:
        raise ValueError(f"{text!r} is {amount} bytes; write the suffix, as in 2Gi or 512Mi")
    return amount
