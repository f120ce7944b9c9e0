"""Answers that no API server should give, but proxies and broken lines do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from kubernetes.client import ApiClient, Configuration

from edgeagent.errors import ClusterError, UnreachableError
from edgeagent.fleet import follow
from edgeagent.fleet.api import Api
from edgeagent.fleet.follow import View
from tests.controlplane.waiting import wait_for
from tests.unit.fleet.objects import node

Answer = tuple[int, bytes]


class Script:
    """Answers by the beginning of a path; the last of several answers goes on being given."""

    def __init__(self, **answers: list[Answer]) -> None:
        self.answers = answers
        self.seen: list[str] = []
        self.headers: list[Any] = []

    def answer(self, path: str) -> Answer:
        self.seen.append(path)
        name = "watch" if "watch=true" in path else path.partition("?")[0].rpartition("/")[2]
        waiting = self.answers.get(name, [(404, b"")])
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]


@contextmanager
def server(script: Script) -> Iterator[Api]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            script.headers.append(self.headers)
            code, body = script.answer(self.path)
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        settings = Configuration()
        settings.host = f"http://127.0.0.1:{http.server_port}"
        settings.api_key["authorization"] = "Bearer secret"
        settings.retries = 1
        with Api(ApiClient(settings)) as api:
            yield api
        http.shutdown()


def answered(items: list[dict[str, Any]], **metadata: str) -> Answer:
    return 200, json.dumps({"metadata": {"resourceVersion": "7", **metadata}, "items": items}).encode()


def failure(script: Script) -> ClusterError:
    with server(script) as api, pytest.raises(ClusterError) as caught:
        api.list("nodes")
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("body", [b"<html>log in</html>", b"", b"[]", b"{}", b'{"metadata": 7}'])
def test_an_answer_that_is_not_kubernetes_is_said_to_be_none(body: bytes) -> None:
    assert str(failure(Script(nodes=[(200, body)]))).endswith("does not answer as Kubernetes does")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((403, b'{"message": "nodes is forbidden:\\n cannot list"}'), "answers 403: nodes is forbidden: cannot list"),
        ((502, b"<html>Bad Gateway</html>"), "answers 502"),
        ((401, b'{"message": "Unauthorized"}'), "does not accept these credentials (401)"),
        ((302, b""), "answers 302"),
        ((500, b'{"message": "\\u001b[2Jx"}'), "answers 500: \ufffd[2Jx"),
    ],
)
def test_an_error_answer_is_one_harmless_line(answer: Answer, said: str) -> None:
    assert str(failure(Script(nodes=[answer]))).endswith(f": {said}")


def test_no_answer_says_why_without_the_librarys_own_words() -> None:
    with server(Script()) as api:
        gone = api
    with pytest.raises(UnreachableError) as caught:
        gone.list("nodes")

    why = "Failed to establish a new connection: [Errno 111] Connection refused"
    assert str(caught.value) == f"{gone.server}: no answer: {why}"


def test_a_list_goes_on_to_its_end_and_signs_in_each_time() -> None:
    script = Script(nodes=[answered([node("a")], **{"continue": "token"}), answered([node("b")])])
    with server(script) as api:
        listed = api.list("nodes", "site=a")

    assert [one["metadata"]["name"] for one in listed.items] == ["a", "b"]
    assert script.seen == [
        "/api/v1/nodes?labelSelector=site%3Da&limit=500",
        "/api/v1/nodes?labelSelector=site%3Da&limit=500&continue=token",
    ]
    assert [one["authorization"] for one in script.headers] == ["Bearer secret"] * 2


def test_finished_pods_are_not_even_sent() -> None:
    script = Script(pods=[answered([])])
    with server(script) as api:
        api.list("pods")

    assert "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed" in script.seen[0]


def test_a_name_cannot_be_a_path() -> None:
    script = Script()
    with server(script) as api, pytest.raises(ClusterError):
        api.node("../pods/x?y")

    assert script.seen == ["/api/v1/nodes/..%2Fpods%2Fx%3Fy?"]


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def test_a_watch_yields_whole_events_only() -> None:
    body = event("ADDED", node("a")) + event("MODIFIED", node("b")) + b'{"type": "ADD'
    with server(Script(watch=[(200, body)])) as api:
        found = [(one["type"], one["object"]["metadata"]["name"]) for one in api.watch("nodes", "7")]

    assert found == [("ADDED", "a"), ("MODIFIED", "b")]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (event("ERROR", {"code": 410, "message": "too old"}), "answers 410: too old"),
        (b"<html>\n", "does not answer as Kubernetes does"),
    ],
)
def test_a_watch_that_fails_says_so(row: bytes, said: str) -> None:
    with server(Script(watch=[(200, row)])) as api, pytest.raises(ClusterError, match=said):
        list(api.watch("nodes", "7"))


def test_a_view_lists_anew_after_a_failure_and_tells_it_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_PAUSES", (0.05,))
    script = Script(
        nodes=[answered([node("a")]), (503, b'{"message": "starting"}'), answered([node("b")])],
        pods=[answered([])],
        watch=[(410, b"{}"), (410, b"{}"), (200, b"")],
    )
    troubles: set[str] = set()

    def came() -> bool:
        nodes, _, trouble = view.look()
        troubles.add(trouble)
        return [one["metadata"]["name"] for one in nodes] == ["b"]

    with server(script) as api, View(api, None) as view:
        wait_for("the new list", came, every=0.005)
        wait_for("no trouble", lambda: view.look()[2] == "", seconds=10)

    assert any("answers 410" in trouble or "answers 503: starting" in trouble for trouble in troubles)


def test_a_view_that_cannot_begin_fails() -> None:
    with server(Script(nodes=[(403, b"{}")], pods=[answered([])])) as api, pytest.raises(ClusterError, match="403"):
        View(api, None)
