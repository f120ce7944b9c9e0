"""The two patch formats that the agent sends, and quantities as the API server writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from edgeagent.demo import refusals
from edgeagent.plan.types import MERGE_PATCH, STRATEGIC_MERGE_PATCH

_BINARY = re.compile(r"(\d+)(Ki|Mi|Gi|Ti|Pi|Ei)")
_SUFFIXES = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_STEP = 1024


def patched(before: Any, patch: Any, content_type: str) -> Any:
    """``before`` with ``patch`` applied; neither is changed.

    Raises:
        RefusalError: 415 for another format.
    """
    if content_type not in (MERGE_PATCH, STRATEGIC_MERGE_PATCH):
        raise refusals.no_such_patch()
    return _merged(before, patch, strategic=content_type == STRATEGIC_MERGE_PATCH)


def _merged(before: Any, patch: Any, *, strategic: bool, key: str = "") -> Any:
    """RFC 7386: objects are merged, null removes, everything else replaces.

    Of the lists that a strategic patch merges, nodes and pods have one that matters here: the conditions.
    """
    if isinstance(patch, Mapping):
        merged = dict(before) if isinstance(before, Mapping) else {}
        for name, value in patch.items():
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = _merged(merged.get(name), value, strategic=strategic, key=name)
        return merged
    if strategic and key == "conditions":
        return _conditions(before or [], patch)
    return patch


def _conditions(before: Sequence[Mapping[str, Any]], patch: Sequence[Mapping[str, Any]]) -> list[Any]:
    merged = {condition["type"]: condition for condition in before}
    for change in patch:
        kind = change["type"]
        if change.get("$patch") == "delete":
            merged.pop(kind, None)
        else:
            merged[kind] = _merged(merged.get(kind), change, strategic=True)
    return list(merged.values())


def canonical(amounts: Mapping[str, Any]) -> dict[str, str]:
    """Quantities by resource as the server gives them back: 6144Mi becomes 6Gi, 5827Mi stays."""
    return {resource: _canonical(str(amount)) for resource, amount in amounts.items()}


def _canonical(text: str) -> str:
    match = _BINARY.fullmatch(text)
    if not match:
        return text
    number, place = int(match[1]), _SUFFIXES.index(match[2])
    while number and number % _STEP == 0 and place < len(_SUFFIXES) - 1:
        number, place = number // _STEP, place + 1
    return f"{number}{_SUFFIXES[place]}"
