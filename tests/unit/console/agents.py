"""Somebody who answers as an agent would, with a document that the test writes."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Agent(ThreadingHTTPServer):
    """Says ``document`` at every path.

    Attributes:
        document: what it says; None: nothing, it hangs up.
    """

    daemon_threads = True

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.document: dict[str, Any] | None = document

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Agent)
        if self.server.document is None:
            return  # the connection is closed without an answer
        body = json.dumps(self.server.document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def agent(document: dict[str, Any]) -> Iterator[Agent]:
    """An agent that says ``document``, for as long as the context lasts."""
    server = Agent(document)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
