"""The pods of a list, one by one: as in a live list, an object that is not understood does not hide the others."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from edgeagent.cluster import pods
from edgeagent.cluster.objects import ObjectError

if TYPE_CHECKING:
    from edgeagent.facts import PodFacts

log = logging.getLogger(__name__)


def understood(items: Iterable[Any]) -> Iterator[tuple[Any, PodFacts]]:
    """(object, facts) of each pod; what is left out is logged."""
    for item in items:
        try:
            yield item, pods.parse(item)
        except ObjectError as error:
            log.warning("a pod is left out: %s", error)
