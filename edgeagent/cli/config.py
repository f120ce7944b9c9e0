"""``edgeagent config``: work with the configuration."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.cli.arguments import OK, PROBLEMS
from edgeagent.cli.endpoint import warn
from edgeagent.errors import InputError

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands
    from edgeagent.config import Serve


def add(commands: Commands) -> None:
    """Add the command and what it can do."""
    parser = commands.add_parser("config", help="work with the configuration")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="report every problem of the configuration",
        description="Report every problem of the configuration.",
    )
    check.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="default: /etc/edgeagent/config.yaml and config.d"
    )
    check.set_defaults(command=_check)


def _check(arguments: argparse.Namespace) -> int:
    from edgeagent import config

    if arguments.file is not None and not arguments.file.exists():
        raise InputError(f"{arguments.file}: does not exist")
    try:
        read = config.read(arguments.file)
    except InputError as error:
        for problem in error.problems:
            print(problem)
        return PROBLEMS
    found = arguments.file or (config.DEFAULT_FILE if config.installed_files() else None)
    print(f"{found}: ok" if found else "no configuration file; the defaults hold")
    _warn_of(read.serve)
    return OK


def _warn_of(serve: Serve) -> None:
    """What can be used and is no good idea."""
    from edgeagent.serve.bearer import exposed

    found = exposed(serve.token_file) if serve.token_file else ""
    if found:
        warn(f"serve.token_file: {found}")
