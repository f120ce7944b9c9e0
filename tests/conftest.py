"""What all tests share: no blocking call in the event loop, and property tests that repeat themselves.

A test in which the product may block says so with ``@pytest.mark.may_block("why")``; a folder does by
defining its own ``no_blocking_calls`` fixture in its conftest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster
from hypothesis import settings

# No deadline: the time a step takes is the machine's, not the code's.
settings.register_profile("repeatable", derandomize=True, deadline=None)
# New examples at each run, for a search by hand: pytest --hypothesis-profile=explore
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile("repeatable")

# looptime asks for the current loop even in a synchronous test. Where none was ever set, asyncio makes one that
# nobody closes, and from 3.12 on warns of it; after this it says that there is none.
asyncio.set_event_loop(None)


@pytest.fixture(scope="session")
def blocking_detector() -> BlockBuster:
    """Raise BlockingError from a blocking call below a frame of the product, inside a running loop, once active.

    What the test itself or its servers do in the loop is theirs: only the package is watched.
    """
    return BlockBuster("edgeagent")


@pytest.fixture(autouse=True)
def no_blocking_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    """Watch the event loop in every test, synchronous ones too: they may start a loop of their own."""
    if request.node.get_closest_marker("may_block"):
        yield
        return
    detector: BlockBuster = request.getfixturevalue("blocking_detector")
    detector.activate()
    yield
    detector.deactivate()
