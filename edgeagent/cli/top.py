"""``edgeagent top``: the board live, as its agent sees it, else as it is."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgeagent.cli.arguments import OK, board_options, configuration, source, up_to, with_extra
from edgeagent.cli.endpoint import endpoint, endpoint_options, warn

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands
    from edgeagent.console.watching import Watcher

SORTS = ("usage", "excess", "name")
"""Those of edgeagent.console.podtable, which is not loaded for the help of other commands."""
_LONGEST = 3600
_USUAL = 2.0
"""Seconds: how often an agent reads its board by default."""
_HINT = (
    "one page only: a live one needs the library rich, which the Debian package and the offline bundle bring; "
    f"else {with_extra('top')}"
)


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "top",
        help="who holds how much of the memory, live",
        description="Show pools, pods, what happens next and what has happened, live. Keys: q quit, s sort, p pause.",
    )
    parser.add_argument("--once", action="store_true", help="print one page and end, as where there is no terminal")
    parser.add_argument(
        "--interval",
        type=up_to(_LONGEST, "of seconds"),
        default=_USUAL,
        metavar="SECONDS",
        help=f"from look to look (default {_USUAL:g})",
    )
    parser.add_argument("--sort", choices=SORTS, default="usage", help="by what pods are sorted")
    endpoint_options(parser)
    board_options(parser)
    parser.set_defaults(command=_top)


def _top(arguments: argparse.Namespace) -> int:
    from edgeagent.cli.page import page_style

    style = page_style()
    warned: set[str] = set()
    watcher = _watcher(arguments, warned.add)
    first = watcher.look()
    # Once: in the middle of a live page there is no room for it.
    for words in sorted(warned):
        warn(words)
    live = not arguments.once and _draws()
    run = _screen() if live else None
    if run is None:
        from edgeagent.console.frame import lines
        from edgeagent.plan.report.style import render

        print(render(lines(first, arguments.sort, style), style), end="", flush=True)
        if live:
            print(f"edgeagent: {_HINT}", file=sys.stderr)
        return OK
    with contextlib.suppress(KeyboardInterrupt):
        run(watcher, first, arguments.sort, arguments.interval, style)
    return OK


def _screen() -> Callable[..., None] | None:
    """What draws a live page; None: the library for it is not there."""
    try:
        from edgeagent.console.screen import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "edgeagent":
            raise
        return None
    return run


def _draws() -> bool:
    """Whether standard output is a terminal whose cursor can be moved."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def _watcher(arguments: argparse.Namespace, warned: Callable[[str], None]) -> Watcher:
    from edgeagent.console.watching import Watcher

    def board() -> dict[str, Any]:
        from edgeagent.console.board import state

        return state(configuration(arguments), source(arguments))

    return Watcher(lambda: endpoint(arguments, arguments.config, warned), None if arguments.address else board)
