"""The order of what happens in the demo, from the requests that its API server received."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from edgeagent.config import Config
from edgeagent.demo import play
from edgeagent.demo import setting as settings
from edgeagent.demo.apiserver import ApiServer
from edgeagent.demo.narrator import Narrator
from tests.unit.demo import order
from tests.unit.demo.order import Order
from tests.unit.demo.performing import setting


@dataclass
class Played:
    """A story that has been told."""

    order: Order
    text: str


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The whole story, once."""

    async def perform() -> Played:
        out = io.StringIO()
        async with ApiServer() as server:
            given = await setting(tmp_path_factory.mktemp("story"), Config(), server.url)
            assert await play.perform(given, Narrator(out, {}), asyncio.Event())
            return Played(Order(list(server.requests), settings.NODE, settings.NAMESPACE), out.getvalue())

    return asyncio.run(perform())


@pytest.mark.parametrize("check", order.ALL, ids=lambda check: str(check.__name__))
def test_the_requests_say_that(check: Callable[[Order], None], played: Played) -> None:
    check(played.order)


def test_it_is_told_in_eighty_columns_without_colour(played: Played) -> None:
    assert max(len(line) for line in played.text.splitlines()) <= 80
    assert "\x1b" not in played.text
    told = ["K3s registers", "5827Mi", "Insufficient", "MemoryBudgetExceeded", "MemoryBudgetEvicted", "speech 2.0"]
    places = [played.text.index(part) for part in told]
    assert places == sorted(places)
