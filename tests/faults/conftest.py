"""Clients of scripted servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from edgeagent.cluster.client import Client
from edgeagent.cluster.credentials import Credentials

Connect = Callable[..., AbstractAsyncContextManager[Client]]


def write_kubeconfig(path: Path, server: str, **user: str) -> Path:
    """A kubeconfig for ``server``; YAML readers take JSON."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "edge",
        "contexts": [{"name": "edge", "context": {"cluster": "edge", "user": "agent"}}],
        "clusters": [{"name": "edge", "cluster": {"server": server}}],
        "users": [{"name": "agent", "user": user}],
    }
    path.write_text(json.dumps(document))
    return path


async def until(condition: Callable[[], bool]) -> None:
    """Return when ``condition`` holds; a test that waits in vain fails by its time-out."""
    while not condition():  # noqa: ASYNC110 (what is waited for has no event)
        await asyncio.sleep(0.005)


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    """Opens a client for a URL; ``silence`` seconds end its watches, further arguments are the kubeconfig's user."""

    @contextlib.asynccontextmanager
    async def connected(url: str, *, silence: float = 75.0, **user: str) -> AsyncIterator[Client]:
        path = write_kubeconfig(tmp_path / "kubeconfig", url, **user)
        async with Client(Credentials(path, environ={}), silence=silence) as client:
            yield client

    return connected
