"""One Chromium for all tests of the folder, and pages in it that end a test when something went wrong in them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.browsing import PATIENCE, Browsing, chromium
from tests.dashboard.serving import Endpoint

expect.set_options(timeout=PATIENCE)

Opener = Callable[..., Page]
Server = Callable[..., Endpoint]


@pytest.fixture(autouse=True)
def no_blocking_calls() -> None:
    """Nothing is watched: the browser's driver leaves a loop of its own running, and the endpoint has a thread."""


# Not for the whole session: while the browser is there, no other loop may run in this thread.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browsing]:
    """A browser without any page."""
    path = chromium()
    if path is None:
        why = "chromium is missing; install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    with Browsing(path) as browsing:
        yield browsing


@pytest.fixture
def served() -> Iterator[Server]:
    """Starts endpoints, which last until the pages are closed."""
    with contextlib.ExitStack() as stack:
        yield lambda state, **options: stack.enter_context(Endpoint(state, **options))


@pytest.fixture
def opened(served: Server, browser: Browsing) -> Iterator[Opener]:
    """Opens an address in a page of its own.

    ``before`` prepares the page. Afterwards it must not have complained, but for what is ``expected`` to fail, nor
    asked anybody else.
    """
    del served  # it is there for the order
    pages: list[tuple[Page, str, str]] = []

    def opens(url: str, *, expected: str = "\0", before: Callable[[Page], object] = bool, **options: Any) -> Page:
        page = browser.page(**options)
        before(page)
        pages.append((page, url, expected))
        page.goto(url)
        return page

    yield opens
    for page, url, expected in pages:
        page.context.close()
        assert [said for said in browser.problems[page] if expected not in said] == []
        asked = {urlsplit(request).netloc for request in browser.requests[page]}
        assert asked == {urlsplit(url).netloc}
