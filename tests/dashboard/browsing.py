"""A real Chromium, the system's own, and pages that remember what went wrong in them."""

from __future__ import annotations

import os
import shutil
from types import TracebackType
from typing import TYPE_CHECKING, Any

from playwright.sync_api import Page, sync_playwright

if TYPE_CHECKING:
    from typing_extensions import Self

PATIENCE = 20_000
"""Milliseconds for what happens within one on an idle machine."""

_LISTEN = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
});
"""


def chromium() -> str | None:
    """The system's browser; None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browsing:
    """One browser between enter and exit.

    Args:
        path: of the browser.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self.problems: dict[Page, list[str]] = {}
        self.requests: dict[Page, list[str]] = {}

    def __enter__(self) -> Self:
        self._playwright = sync_playwright().start()
        # Without its sandbox: tests run as root in containers, and open nothing but the agent's own page.
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        self._browser = self._playwright.chromium.launch(executable_path=self._path, args=arguments)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._browser.close()
        self._playwright.stop()

    def page(self, *, width: int = 1280, height: int = 900, scheme: Any = "light", **options: Any) -> Page:
        """A page with its own storage; errors, violations of the policy and requests of it are kept."""
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, locale="en-GB", **options
        )
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        problems, requests = self.problems.setdefault(page, []), self.requests.setdefault(page, [])
        page.add_init_script(_LISTEN)
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda request: requests.append(request.url))
        return page
