"""Token, lost connections, and what the page is allowed to do."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from edgeagent.serve import dashboard
from tests.controlplane.waiting import wait_for

from . import scenes
from .conftest import Opener, Server
from .serving import Endpoint

NET = "Failed to load resource"
"""How the browser's console begins to tell of an answer that is none, or an error."""


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    return file


def give(page: Page, value: str) -> None:
    page.get_by_label("Token", exact=True).fill(value)
    page.keyboard.press("Enter")


def test_the_page_asks_for_the_token_and_keeps_it_in_the_tab(served: Server, opened: Opener, token: Path) -> None:
    page = opened(served(scenes.healthy(), token_file=str(token)).url, expected=NET)
    field = page.get_by_label("Token", exact=True)
    expect(field).to_be_focused()
    expect(page.locator("#link")).to_contain_text("a token is needed")
    expect(page.locator("#board")).to_be_hidden()

    give(page, "wrong")
    expect(page.get_by_role("alert")).to_have_text("The agent does not take this token.")
    give(page, "s3cret")

    expect(page.get_by_role("heading", level=1)).to_contain_text("is healthy")
    expect(field).to_be_hidden()
    assert page.evaluate("[{...sessionStorage}, {...localStorage}, document.cookie, location.href]")[1:3] == [{}, ""]
    assert "s3cret" not in page.url + page.content()
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_contain_text("is healthy")


def test_a_token_that_is_not_taken_any_more_hides_the_board(served: Server, opened: Opener, token: Path) -> None:
    endpoint: Endpoint = served(scenes.healthy(), token_file=str(token))
    page = opened(endpoint.url, expected=NET)
    give(page, "s3cret")
    expect(page.locator("li.pod").first).to_be_visible()

    endpoint.stop()
    token.write_text("another\n")
    endpoint.start()

    expect(page.get_by_label("Token", exact=True)).to_be_focused()
    expect(page.locator("#board")).to_be_hidden()


def test_a_lost_connection_is_said_old_figures_go_and_it_connects_again(served: Server, opened: Opener) -> None:
    endpoint: Endpoint = served(scenes.healthy())
    page = opened(endpoint.url, expected=NET, before=lambda page: page.clock.install())
    pod = page.locator("li.pod").filter(has_text="llm-chat")
    expect(pod.locator(".measure-label")).to_contain_text("1.68 GiB")

    endpoint.stop()

    expect(page.locator("#link")).to_have_text(re.compile(r"connection lost \d+ s ago: .+; (next try in|trying again)"))
    expect(page.get_by_role("status")).to_have_text("The connection to the agent is lost.")
    # Longer than sampling.max_age, which is 10 s.
    page.clock.fast_forward(12_000)
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(rf"{scenes.NODE}: not known since \d+ s"))
    expect(page.locator("#notices")).to_contain_text("the connection to the agent is lost")
    expect(pod.locator(".measure-label")).to_have_text(
        re.compile(r"unknown, last read \d+ s ago GPU · budget 2\.00 GiB")
    )
    expect(pod).to_contain_text("host unknown, last read")
    expect(page.locator(".part")).to_have_count(0)
    shown = set(re.findall(r"[\d.]+ [MG]iB", page.locator("#board").inner_text()))
    # Budgets and what is published are no readings: 2 GiB, 1 GiB, 768 and 512 MiB; 4.28 and 4.25 GiB.
    assert shown <= {"2.00 GiB", "1.00 GiB", "768 MiB", "512 MiB", "4.28 GiB", "4.25 GiB", "128 MiB"}

    endpoint.start()

    page.clock.fast_forward(10_000)
    expect(page.locator("#link")).to_contain_text("live")
    expect(pod.locator(".measure-label")).to_contain_text("1.68 GiB")
    expect(page.get_by_role("status")).to_contain_text("is healthy")


def test_a_stream_that_falls_silent_is_given_up(served: Server, opened: Opener) -> None:
    asked: list[Route] = []

    def hang(page: Page) -> None:
        page.clock.install()
        page.route("**/api/v1/stream", lambda route: asked.append(route))  # noqa: PLW0108 (a method takes no marks)

    page = opened(served(scenes.healthy()).url, before=hang)
    wait_for("the page to ask for the stream", lambda: page.evaluate("true") and asked)
    expect(page.locator("#link")).to_have_text("connecting")

    # The agent says something each 15 s.
    page.clock.fast_forward(21_000)

    expect(page.locator("#link")).to_contain_text("the agent says nothing")


def answering(path: str, **answer: Any) -> Callable[[Page], object]:
    """Prepares a page to get this answer from ``path``."""
    return lambda page: page.route(f"**/api/v1/{path}", lambda route: route.fulfill(**answer))


def test_without_a_free_stream_the_state_is_asked_for(served: Server, opened: Opener) -> None:
    refusal = {"status": "error", "reasons": [{"name": "too-many-streams", "message": "there are 8 streams already"}]}

    page = opened(served(scenes.healthy()).url, expected=NET, before=answering("stream", status=503, json=refusal))

    expect(page.locator("#link")).to_contain_text("live, every 2 s")
    expect(page.get_by_role("heading", level=1)).to_contain_text("is healthy")


def refused(name: str, message: str) -> str:
    return json.dumps({"status": "error", "reasons": [{"name": name, "message": message}]})


@pytest.mark.parametrize(
    ("path", "status", "body", "words"),
    [
        ("*", 403, refused("foreign-host", "the Host header names another machine"), "the Host header names another"),
        ("*", 500, refused("internal-error", "the agent's log says more"), "the agent's log says more"),
        ("*", 502, "<h1>A proxy</h1>", "the agent answers 502"),
        ("*", 200, "", "the agent ended it"),
        ("stream", 200, "event: state\ndata: {oops\n\n", "what answers is no edgeagent"),
    ],
)
def test_whatever_goes_wrong_is_told(
    served: Server, opened: Opener, path: str, status: int, body: str, words: str
) -> None:
    url = served(scenes.healthy()).url

    page = opened(url, expected=NET, before=answering(path, status=status, body=body))

    expect(page.locator("#link")).to_contain_text(words)
    expect(page.locator("#link")).to_contain_text("connection lost")


# --- what is sent ------------------------------------------------------------------------


def test_the_files_come_with_a_strict_policy(served: Server) -> None:
    url = served(scenes.healthy()).url
    for path in dashboard.PATHS:
        with urllib.request.urlopen(url.rstrip("/") + path, timeout=20) as answer:
            policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
            assert len(answer.headers.get_all("Content-Security-Policy")) == 1
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Cache-Control"] == "no-store"
        assert policy == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "connect-src": "'self'",
            "img-src": "'self'",
            "base-uri": "'none'",
            "form-action": "'none'",
            "frame-ancestors": "'none'",
        }


def test_the_files_need_no_token_and_tell_nothing(served: Server, token: Path) -> None:
    url = served(scenes.healthy(), token_file=str(token)).url
    for path in dashboard.PATHS:
        with urllib.request.urlopen(url.rstrip("/") + path, timeout=20) as answer:
            assert scenes.NODE.encode() not in answer.read()


def test_every_file_of_the_folder_is_served() -> None:
    folder = resources.files("edgeagent.serve.dashboard")
    files = {one.name for one in folder.iterdir() if one.is_file() and not one.name.endswith(".py")}
    pages = {name: dashboard.page(name) for name in dashboard.PATHS}

    served_bytes = {found[1] for found in pages.values() if found}
    assert {folder.joinpath(name).read_bytes() for name in files} == served_bytes
    assert dashboard.page("/dashboard.js.map") is None


def test_nothing_in_the_files_comes_from_elsewhere_or_is_inline() -> None:
    text = {path: (dashboard.page(path) or ("", b""))[1].decode() for path in dashboard.PATHS}

    urls = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", "".join(text.values())))
    assert urls == {"http://www.w3.org"}, "the name of a format, which nobody fetches"
    assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=", text["/"])
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "setHTML"):
        assert way not in text["/dashboard.js"]
