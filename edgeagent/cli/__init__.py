"""The command line. Each command imports what it needs when it runs: ``explain`` on a board loads no HTTP library.

Exit codes: 0 done · 1 problems found · 2 unreadable input or usage, one line per problem on
stderr and nothing on stdout · 75 another instance runs.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence

from edgeagent import __version__
from edgeagent.cli import (
    budgets,
    completion,
    config,
    demo,
    doctor,
    explain,
    fleet,
    history,
    install,
    record,
    run,
    status,
    top,
    uninstall,
)
from edgeagent.cli.arguments import ALREADY_RUNNING, OK, PROBLEMS, USAGE, Parser
from edgeagent.errors import AlreadyRunningError, EdgeAgentError, InputError

__all__ = ["ALREADY_RUNNING", "OK", "PROBLEMS", "USAGE", "main"]

COMMANDS = (run, demo, status, top, budgets, explain, doctor, history, record, fleet, config, install, uninstall)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code = int(arguments.command(arguments))
        sys.stdout.flush()
    except AlreadyRunningError as error:
        print(f"edgeagent: {error}", file=sys.stderr)
        return ALREADY_RUNNING
    except InputError as error:
        for problem in error.problems:
            print(f"edgeagent: {problem}", file=sys.stderr)
        return USAGE
    except EdgeAgentError as error:
        print(f"edgeagent: {error}", file=sys.stderr)
        return USAGE
    except PermissionError as error:
        print(f"edgeagent: {error.filename}: {error.strerror}; run it as root", file=sys.stderr)
        return USAGE
    except OSError as error:
        return _unwritten(error)
    return code


def _unwritten(error: OSError) -> int:
    """Standard output takes no more: its reader has seen enough, or a disk is full."""
    if not isinstance(error, BrokenPipeError) and error.errno != errno.ENOSPC:
        raise error
    # What is still in the buffer goes nowhere, in place of a second complaint at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return OK
    print(f"edgeagent: {error.strerror}: not all was written", file=sys.stderr)
    return USAGE


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="edgeagent", description="GPU memory on NVIDIA edge boards: visible, schedulable and safe under K3s."
    )
    parser.add_argument("--version", action="version", version=f"edgeagent {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    completion.add(commands, parser)
    return parser
