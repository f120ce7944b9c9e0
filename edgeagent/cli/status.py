"""``edgeagent status``: how the agent of this machine is, in ten lines and in the exit code."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.cli.arguments import OK, PROBLEMS
from edgeagent.cli.endpoint import endpoint, endpoint_options
from edgeagent.errors import InputError

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands

HELP = (
    "to start one: systemctl start edgeagent, or edgeagent run; why it has ended: journalctl -u edgeagent; to ask "
    "another one: --address; to see the board without one: edgeagent top"
)


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "status",
        help="how the agent of this machine is",
        description="Ask a running agent how it is. Exit code: 0 ready, 1 not ready, 2 no answer.",
    )
    endpoint_options(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file of the agent that is asked")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(command=_status)


def _status(arguments: argparse.Namespace) -> int:
    from edgeagent.cli.page import page_style
    from edgeagent.console import statuspage, summary
    from edgeagent.console.client import NoAnswerError

    try:
        asked = endpoint(arguments, arguments.config)
        found = summary.summary(asked.state(), asked.address)
    except NoAnswerError as error:
        raise InputError([f"no agent answers: {error}", HELP]) from error
    print(
        json.dumps(found, indent=2) if arguments.format == "json" else statuspage.text(found, page_style()).rstrip("\n")
    )
    return OK if found["ready"] else PROBLEMS
