"""``edgeagent explain``: what the board is and what the agent would do."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.cli.arguments import OK, PROBLEMS, beside_a_snapshot, board_options, source, warn_in_a_pod
from edgeagent.cli.endpoint import in_force
from edgeagent.errors import InputError

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands
    from edgeagent.config import Config
    from edgeagent.facts import Facts
    from edgeagent.plan.fitting.answer import Fitting
    from edgeagent.plan.types import Plan


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "explain",
        help="what the board is and what the agent would do",
        description="Explain a recorded board, or this one.",
    )
    parser.add_argument(
        "snapshot", nargs="?", type=Path, metavar="SNAPSHOT", help="a snapshot folder or .tar.gz (default: this board)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--would-fit",
        nargs="+",
        action="extend",
        metavar="MODEL",
        help="whether models fit beside what is bound: NAME=gpu:2Gi,memory:3Gi or NAME*2=… for two of them",
    )
    board_options(parser)
    parser.set_defaults(command=_explain)


def _explain(arguments: argparse.Namespace) -> int:
    from edgeagent.plan.fitting import models
    from edgeagent.plan.fitting.fit import fit

    wanted, problems = models.parse(arguments.would_fit or ())
    if problems:
        raise InputError([f"--would-fit: {problem}" for problem in problems])
    looks, config, series = _looks(arguments)
    for index, (at, facts, plan) in enumerate(looks):
        # Of a series the last sample says what is bound now.
        asked = wanted if index == len(looks) - 1 else ()
        found = fit(plan, facts, asked) if asked else None
        if arguments.format == "json":
            _print_json(plan, at, config, found, series=series)
        elif found is not None or not wanted:
            _print_text(plan, at, facts, found, recorded=arguments.snapshot is not None, series=series)
        if found is not None and not found.fits:
            return PROBLEMS
    return OK


def _looks(arguments: argparse.Namespace) -> tuple[list[tuple[float, Facts, Plan]], Config, bool]:
    """The samples of a recording, or one of this board; its configuration; whether it is a series."""
    if arguments.snapshot is not None:
        from edgeagent.snapshot import recording, replay

        beside_a_snapshot(arguments)
        found = recording.read(arguments.snapshot)
        # All or nothing: a recording that turns out to be malformed half way prints no half answer.
        return list(replay.looks(found)), found.config, found.series
    from edgeagent.snapshot import live

    warn_in_a_pod(arguments)
    config = in_force(arguments)
    facts, plan = live.look(config, source(arguments))
    return [(0.0, facts, plan)], config, False


def _print_json(plan: Plan, at: float, config: Config, found: Fitting | None, *, series: bool) -> None:
    from edgeagent.plan import explain
    from edgeagent.plan.fitting import answer

    document = explain.document(plan, at, config.reserves)
    if found is not None:
        document["would_fit"] = answer.document(found)
    print(json.dumps(document, indent=None if series else 2))


def _print_text(plan: Plan, at: float, facts: Facts, found: Fitting | None, *, recorded: bool, series: bool) -> None:
    from edgeagent.cli.page import page_style
    from edgeagent.plan import explain, report

    style = page_style()
    document = explain.document(plan, at, facts.config.reserves)
    if found is not None:
        print(report.fitting(document, found, style), end="")
        return
    if series:
        print(f"=== at {at:g} s ".ljust(style.width, "="))
    print(report.text(document, report.background(plan, facts, recorded=recorded), style), end="\n" if series else "")
