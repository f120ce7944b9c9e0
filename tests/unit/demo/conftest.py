"""The whole agent runs in these tests."""

from __future__ import annotations

import pytest
from blockbuster import BlockBuster


@pytest.fixture(scope="session")
def blocking_detector() -> BlockBuster:
    """As for all tests, but for the agent's look at its own cost: a quarter of a millisecond of /proc, now and then."""
    detector = BlockBuster("edgeagent")
    for function in detector.functions.values():
        function.can_block_in("edgeagent/serve/cost.py", "measure")
        function.can_block_in("edgeagent/status.py", "__init__")
    return detector
