"""``edgeagent completion``: the script by which a shell completes what is typed."""

from __future__ import annotations

import argparse
import functools
from typing import TYPE_CHECKING

from edgeagent.cli.arguments import OK

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands

PROGRAM = "edgeagent"
SHELLS = ("bash", "zsh", "fish")


def add(commands: Commands, root: argparse.ArgumentParser) -> None:
    """Add the command; it completes what ``root`` parses when all commands are added."""
    parser = commands.add_parser(
        "completion",
        help="complete commands and options in the shell",
        description='Print a script for the shell. In bash, now: eval "$(edgeagent completion bash)"',
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(command=functools.partial(_completion, root))


def _completion(root: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    from edgeagent.console.completion import bash, fish, tree, zsh

    shell = {"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell]
    print(shell.script(tree.command(root), PROGRAM), end="")
    return OK
