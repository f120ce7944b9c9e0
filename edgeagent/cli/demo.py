"""``edgeagent demo``: the whole agent in a minute, on a recorded board."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from edgeagent.cli.arguments import agent_options, configuration, up_to

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands

FASTEST = 100
"""The demo cannot be told in less than half a second."""


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "demo",
        help="the whole agent in a minute, on a recorded board",
        description="Run the agent on a recorded board that changes.",
    )
    agent_options(parser)
    parser.add_argument(
        "--speed", type=up_to(FASTEST), default=1.0, metavar="N", help="run the recording N times as fast (default 1)"
    )
    parser.add_argument("--keep", action="store_true", help="leave agent and endpoints up when the recording has ended")
    parser.set_defaults(command=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    from edgeagent.demo import play

    return play.run(arguments, configuration(arguments, installed=False))
