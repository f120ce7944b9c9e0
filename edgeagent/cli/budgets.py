"""``edgeagent budgets``: what to write into each workload, from what it held at most."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeagent.cli.arguments import OK
from edgeagent.cli.endpoint import endpoint, endpoint_options
from edgeagent.errors import InputError

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands

PATH = "/api/v1/budgets"

Json = dict[str, Any]


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "budgets",
        help="what to write into each workload",
        description="Show what each workload held at most in the last day and week, and what to write into it.",
    )
    endpoint_options(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file of the agent that is asked")
    parser.add_argument(
        "--state-dir", type=Path, metavar="DIR", help="ask no agent, but look at what one has kept there"
    )
    parser.add_argument("--namespace", metavar="NAME", help="workloads of this namespace alone")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(command=_budgets)


def _budgets(arguments: argparse.Namespace) -> int:
    found = _kept(arguments.state_dir) if arguments.state_dir else _asked(arguments)
    if arguments.namespace is not None:
        found = [one for one in found if one["namespace"] == arguments.namespace]
    if arguments.format == "json":
        print(json.dumps({"budgets": found}))
    else:
        _print_text(found)
    return OK


def _asked(arguments: argparse.Namespace) -> list[Json]:
    """What a running agent says; this machine's may be down, and has kept what it knew."""
    from edgeagent.console.client import NoAnswerError
    from edgeagent.system import dirs

    try:
        budgets: list[Json] = endpoint(arguments, arguments.config).get(PATH)["budgets"]
    except NoAnswerError as error:
        if arguments.address is not None:
            raise
        folder = dirs.state(None, os.environ)
        try:
            budgets = _kept(folder)
        except InputError as missing:
            raise InputError([f"no agent answers: {error}", *missing.problems]) from error
        print(f"edgeagent: no agent answers: {error}; this is what the last one has kept in {folder}", file=sys.stderr)
    return budgets


def _kept(folder: Path) -> list[Json]:
    """What the state directory says; who lives now, it does not."""
    from edgeagent.plan import advice, peakfile
    from edgeagent.system import statefile

    path = folder / statefile.PEAKS
    try:
        document = statefile.load(folder, statefile.PEAKS)
    except FileNotFoundError as error:
        raise InputError(f"{path}: is not there; another directory can be given with --state-dir") from error
    except PermissionError:
        raise  # which is told with what helps
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    peaks, ignored = peakfile.looked_at(document)
    if ignored:
        raise InputError(f"{path}: {ignored}")
    return advice.documents(advice.advice(peaks, None))


def _print_text(found: list[Json]) -> None:
    from edgeagent.cli.page import page_style
    from edgeagent.plan.report import budgets

    if found:
        print(budgets.text(found, page_style()), end="")
    else:
        print("nothing is known of any workload yet")
