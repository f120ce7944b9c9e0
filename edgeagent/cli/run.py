"""``edgeagent run``: the agent itself."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from edgeagent.cli.arguments import agent_options, configuration

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("run", help="run the agent", description="Run the agent until SIGTERM or SIGINT.")
    agent_options(parser)
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from edgeagent import daemon

    return daemon.run(arguments, lambda: configuration(arguments))
