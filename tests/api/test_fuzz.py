"""schemathesis asks the real endpoint all that the OpenAPI document allows, and much that it does not."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edgeagent.serve.http import Server
from edgeagent.serve.pages import DOCUMENT, STREAM
from tests.unit.serve.states import NOW, WALL
from tests.unit.serve.test_openapi import STATES

TOKEN = "s3cret"
UNDER_A_TOKEN: dict[str, Any] = {"security": [{"token": []}]}
"""Without a token file nothing needs a token, which the document has to allow; here everything does."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    url: str
    document: Path
    passed_over: str
    """Checks that do not count: parameters that a page does not know do no harm, and 503 is right while all is old."""


@pytest.fixture(params=["full", "old"])
def endpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Endpoint]:
    """A server on a real socket, in a loop of its own, that shows a state for as long as it is asked."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(json.loads(DOCUMENT.read_text(encoding="utf-8")) | UNDER_A_TOKEN))
    address: list[str] = []
    started = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        server = Server("127.0.0.1:0", clock=lambda: NOW, wall=lambda: WALL, token_file=str(token))
        await server.start()
        state = STATES[request.param]
        if state is not None:
            server.show(state)
        address.append(server.address)
        started.set()
        await stop.wait()
        await server.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert started.wait(30)
        passed_over = "negative_data_rejection" + (",not_a_server_error" if request.param == "old" else "")
        yield Endpoint(f"http://{address[0]}", document, passed_over)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


@pytest.mark.timeout(300)
def test_the_endpoint_does_what_the_document_says(endpoint: Endpoint, tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", str(endpoint.document)),
        *("--url", endpoint.url),
        *("--header", f"Authorization: Bearer {TOKEN}"),
        *("--include-method", "GET"),
        *("--exclude-path", STREAM),  # it has no end; tests/unit/serve/test_stream.py asks it
        *("--exclude-checks", endpoint.passed_over),
        *("--generation-deterministic", "--max-examples", "5", "--request-timeout", "20", "--no-color"),
    ]
    ran = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONWARNINGS": ""}, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    paths = json.loads(endpoint.document.read_text(encoding="utf-8"))["paths"]
    assert f"Tested: {len(paths) - 1}\n" in ran.stdout
