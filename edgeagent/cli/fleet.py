"""``edgeagent fleet``: every node of a cluster, and the kill switch on many of them."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeagent.cli.arguments import OK, PROBLEMS, with_extra
from edgeagent.errors import InputError

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands
    from edgeagent.fleet.api import Api
    from edgeagent.fleet.switch import Switched
    from edgeagent.fleet.types import Fleet

COLUMNS = (
    "name",
    "kind",
    "product",
    "pool",
    "total",
    "reserved",
    "advertised",
    "committed",
    "free",
    "mode",
    "agent",
    "wrote",
    "conditions",
)
"""Those of edgeagent.fleet.order, which is not loaded for the help of other commands."""
_AGES = 10.0
"""Seconds until a page on a terminal is drawn anew though nothing has changed but ages."""
_PAUSE = 1.0
"""Seconds from one page to the next at least: changes come in swarms."""
_CLEAR = "\x1b[H\x1b[2J"


def add(commands: Commands) -> None:
    """Add the command and the two below it."""
    parser = commands.add_parser(
        "fleet",
        help="every node of a cluster, from an operator's machine",
        description="Show GPU memory, problems and mode of every node, and the pods that wait for GPU memory.",
    )
    _connection(parser)
    _selection(parser, "show nodes without a key of edgeagent too")
    parser.add_argument("--sort", choices=COLUMNS, default="name", metavar="COLUMN", help=f"by {', '.join(COLUMNS)}")
    parser.add_argument("--watch", action="store_true", help="go on, and show what changes")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(command=_show)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    for name, wanted, text in (
        ("observe", "observe", "let agents measure and report, and evict nobody"),
        ("enforce", None, "take the annotation of observe away"),
    ):
        action = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}, on chosen nodes.")
        action.add_argument("nodes", nargs="*", metavar="NODE", help="names of nodes")
        # Where an option is given before the action it must not be overwritten by a default of the action's.
        _connection(action, default=argparse.SUPPRESS)
        _selection(action, "every node of the cluster", default=argparse.SUPPRESS)
        action.add_argument("--dry-run", action="store_true", help="let the API server check it, and change nothing")
        action.set_defaults(command=_switch, wanted=wanted)


def _connection(parser: argparse.ArgumentParser, **default: Any) -> None:
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig", **default)
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="credentials for the API server", **default)


def _selection(parser: argparse.ArgumentParser, everything: str, **default: Any) -> None:
    parser.add_argument("--selector", metavar="LABELS", help="nodes with these labels, as kubectl's", **default)
    parser.add_argument("--all", action="store_true", help=everything, **default)


def _connect(arguments: argparse.Namespace) -> Api:
    try:
        from edgeagent.fleet.connect import connect
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "edgeagent":
            raise
        raise InputError(f"fleet needs the extra operator: {with_extra('operator')}") from error
    return connect(arguments.kubeconfig, arguments.context, os.environ)


# --- the table -----------------------------------------------------------------------


def _show(arguments: argparse.Namespace) -> int:
    with _connect(arguments) as api:
        if arguments.watch:
            return _watch(api, arguments)
        nodes, pods = api.everything(arguments.selector)
    print(_shown(_fleet(nodes.items, pods.items, arguments), time.time(), arguments, indent=2), end="")
    return OK


def _fleet(nodes: list[dict[str, Any]], pods: list[dict[str, Any]], arguments: argparse.Namespace) -> Fleet:
    from dataclasses import replace

    from edgeagent.fleet.order import ordered
    from edgeagent.fleet.rows import fleet

    found = fleet(nodes, pods, everything=arguments.all)
    return replace(found, nodes=ordered(found.nodes, arguments.sort))


def _shown(found: Fleet, now: float, arguments: argparse.Namespace, indent: int | None = None) -> str:
    if arguments.format == "json":
        from edgeagent.fleet.document import document

        return json.dumps(document(found, now), indent=indent) + "\n"
    from edgeagent.cli.page import page_style
    from edgeagent.fleet.page import text

    return text(found, now, page_style(), _width())


def _width() -> int | None:
    """Of the terminal, or as $COLUMNS says; None: nothing limits it, as in a file."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return None
    return shutil.get_terminal_size().columns


def _watch(api: Api, arguments: argparse.Namespace) -> int:
    from edgeagent.fleet.document import content
    from edgeagent.fleet.follow import View

    in_place = arguments.format == "text" and sys.stdout.isatty()
    before, told = None, ""
    try:
        with View(api, arguments.selector) as view:
            while True:
                nodes, pods, trouble = view.look()
                found = _fleet(nodes, pods, arguments)
                if in_place or content(found) != before:
                    _print_block(found, arguments, in_place=in_place)
                if trouble != told or (in_place and trouble):
                    print(f"edgeagent: {f'not current: {trouble}' if trouble else 'current again'}", file=sys.stderr)
                before, told = content(found), trouble
                time.sleep(_PAUSE)
                view.wait(_AGES)
    except KeyboardInterrupt:
        return OK


def _print_block(found: Fleet, arguments: argparse.Namespace, *, in_place: bool) -> None:
    now = time.time()
    block = _shown(found, now, arguments)
    if arguments.format == "text":
        moment = datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        block = f"{_CLEAR if in_place else ''}=== {moment}\n{block}{'' if in_place else chr(10)}"
    sys.stdout.write(block)
    sys.stdout.flush()


# --- the switch ----------------------------------------------------------------------


def _switch(arguments: argparse.Namespace) -> int:
    if bool(arguments.nodes) + bool(arguments.selector) + arguments.all != 1:
        raise InputError("choose nodes: by their names, or by --selector, or by --all")
    if arguments.watch or arguments.format != "text" or arguments.sort != "name":
        raise InputError("--watch, --format and --sort are for the table of nodes")
    with _connect(arguments) as api:
        from edgeagent.fleet.switch import selected, switch

        names = arguments.nodes or selected(api, arguments.selector)
        if not names:
            raise InputError("no node is chosen" + (f": none has {arguments.selector}" if arguments.selector else ""))
        results = switch(api, names, arguments.wanted, dry_run=arguments.dry_run)
    return _tell(results, arguments)


def _tell(results: list[Switched], arguments: argparse.Namespace) -> int:
    for one in results:
        if not one.failure and (one.changed or arguments.nodes):
            print(f"{one.node}: {one.told(dry_run=arguments.dry_run)}")
    failed = [one for one in results if one.failure]
    changed = sum(one.changed for one in results)
    verb = "would change" if arguments.dry_run else "changed"
    print(f"{changed} {verb}, {len(results) - changed - len(failed)} as wanted already, {len(failed)} failed")
    if arguments.wanted is None:
        print("An agent whose own configuration says observe goes on observing: the annotation can only calm.")
    sys.stdout.flush()
    for one in failed:
        print(f"edgeagent: {one.node}: {one.failure}", file=sys.stderr)
    return PROBLEMS if failed else OK
