"""``edgeagent history``: what the agent has done on this board, and why."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeagent.cli.arguments import OK
from edgeagent.errors import InputError

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands
    from edgeagent.plan.history import History

_AGO = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(s|min|h|d)", re.ASCII)
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "history",
        help="what the agent has done on this board, and why",
        description="Show the incidents that the agent has kept: evictions, kills, and what kept it from them.",
    )
    parser.add_argument(
        "--state-dir", type=Path, metavar="DIR", help="default: $STATE_DIRECTORY, else /var/lib/edgeagent"
    )
    parser.add_argument("--since", type=_since, metavar="TIME", help="2h, 3d, or a time such as 2026-11-30T08:00Z")
    parser.add_argument("--pod", type=_pod, metavar="NAMESPACE/NAME", help="those that are about this pod")
    parser.add_argument("--last", type=_count, metavar="N", help="the latest N of them")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(command=_history)


def _since(text: str) -> float:
    """Unix time."""
    ago = _AGO.fullmatch(text)
    if ago:
        return time.time() - float(ago[1]) * _SECONDS[ago[2]]
    try:
        # Python 3.10 reads no Z.
        moment = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"expected 2h, 3d or a time such as 2026-11-30T08:00Z, got {text!r}") from None


def _pod(text: str) -> str:
    if text.count("/") != 1 or text.startswith("/") or text.endswith("/"):
        raise argparse.ArgumentTypeError(f"expected NAMESPACE/NAME, got {text!r}")
    return text


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text[:9]) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text[:9])


def _history(arguments: argparse.Namespace) -> int:
    from edgeagent.system import dirs

    folder = dirs.state(arguments.state_dir, os.environ)
    found = _read(folder)
    chosen = [one for one in found.incidents if _asked(one, arguments)]
    if arguments.last is not None:
        chosen = chosen[-arguments.last :]
    found = found._replace(incidents=tuple(chosen))
    if arguments.format == "json":
        for one in found.incidents:
            print(json.dumps(one))
    else:
        _print_text(found, folder, asked=bool(arguments.since or arguments.pod))
    for said in _passed_over(found):
        print(f"edgeagent: {folder}: {said}", file=sys.stderr)
    return OK


def _read(folder: Path) -> History:
    from edgeagent.plan import history
    from edgeagent.system import journal

    try:
        if not folder.is_dir():
            raise InputError(f"{folder}: is no directory; another one can be given with --state-dir")
        with os.scandir(folder):
            pass  # a folder that must not be looked into is not one without incidents
        return history.joined(line.value for line in journal.read(folder))
    except PermissionError:
        raise  # which is told with what helps
    except OSError as error:
        raise InputError(f"{error.filename or folder}: {error.strerror}") from error


def _asked(one: dict[str, Any], arguments: argparse.Namespace) -> bool:
    from edgeagent.plan import describing

    pod = one["pod"]
    if arguments.pod and (pod is None or f"{pod['namespace']}/{pod['name']}" != arguments.pod):
        return False
    # When a clock was not set, nobody knows how long ago that was.
    return not (arguments.since and one["wall_plausible"] and describing.seconds(one["wall"]) < arguments.since)


def _print_text(found: History, folder: Path, *, asked: bool) -> None:
    from edgeagent.cli.page import page_style
    from edgeagent.plan.report import incidents

    if found.incidents:
        print(incidents.text(found, page_style()), end="")
    else:
        print(f"no such incident is kept in {folder}" if asked else f"no incident is kept in {folder}")


def _passed_over(found: History) -> list[str]:
    said = []
    if found.unreadable:
        said.append(f"{found.unreadable} lines are not whole, or not as this version writes them")
    if found.foreign:
        said.append(f"{found.foreign} lines are of another version of edgeagent")
    return said
