"""``edgeagent top``: the board live, as its agent sees it, else as it is."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from edgeagent.cli.arguments import OK, board_options, configuration, source, up_to
from edgeagent.cli.endpoint import endpoint, endpoint_options
from edgeagent.errors import InputError

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands
    from edgeagent.console.watching import Watcher

SORTS = ("usage", "excess", "name")
"""Those of edgeagent.console.podtable, which is not loaded for the help of other commands."""
_LONGEST = 3600
_USUAL = 2.0
"""Seconds: how often an agent reads its board by default."""


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
    watcher = _watcher(arguments)
    if arguments.once or not _draws():
        from edgeagent.console.frame import lines
        from edgeagent.plan.report.style import render

        print(render(lines(watcher.look(), arguments.sort, style), style), end="")
        return OK
    try:
        from edgeagent.console import screen
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "edgeagent":
            raise
        raise InputError(
            "a live page needs rich. The Debian package and the offline bundle bring it: install the newest. "
            "With pip: pip install 'edgeagent[top]'. The container image has none: edgeagent top --once"
        ) from error
    with contextlib.suppress(KeyboardInterrupt):
        screen.run(watcher, watcher.look(), arguments.sort, arguments.interval, style)
    return OK


def _draws() -> bool:
    """Whether standard output is a terminal whose cursor can be moved."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def _watcher(arguments: argparse.Namespace) -> Watcher:
    from edgeagent.console.watching import Watcher

    def board() -> dict[str, Any]:
        from edgeagent.console.board import state

        return state(configuration(arguments), source(arguments))

    return Watcher(lambda: endpoint(arguments, arguments.config), None if arguments.address else board)
