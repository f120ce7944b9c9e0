"""``edgeagent record``: this board, written down as a snapshot."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.cli.arguments import OK, board_options, configuration, source, up_to, warn_in_a_pod
from edgeagent.errors import InputError

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands

STDOUT = Path("-")
MOST_FRAMES = 1000
SLOWEST = 3600
"""Seconds between two samples of a recording."""


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "record",
        help="write this board down as a snapshot",
        description="Write this board down as a snapshot for explain, without what identifies it or anybody.",
    )
    parser.add_argument(
        "snapshot",
        type=Path,
        metavar="DIR",
        help="a new folder, or one archive if it ends in .tar.gz, or - for that on standard output",
    )
    parser.add_argument("--frames", type=_frames, default=1, metavar="N", help="record N samples (default 1)")
    parser.add_argument(
        "--every",
        type=up_to(SLOWEST, "of seconds"),
        default=2.0,
        metavar="SECONDS",
        help="from one sample to the next (default 2)",
    )
    board_options(parser)
    parser.set_defaults(command=_record)


def _frames(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= MOST_FRAMES:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {MOST_FRAMES}")
    return int(text)


def _record(arguments: argparse.Namespace) -> int:
    from edgeagent.snapshot.record.board import record

    piped = arguments.snapshot == STDOUT
    if piped and sys.stdout.isatty():
        raise InputError("-: an archive is nothing for a terminal: edgeagent record - > board.tar.gz")
    warn_in_a_pod(arguments)
    target = sys.stdout.buffer if piped else arguments.snapshot
    done = record(target, configuration(arguments), source(arguments), frames=arguments.frames, every=arguments.every)
    for line in done.unread:
        print(f"edgeagent: not recorded: {line}", file=sys.stderr)
    if done.unread and os.geteuid():
        print("edgeagent: root can read more", file=sys.stderr)
    for part in done.differing:
        print(
            f"edgeagent: explain says other {part} of the snapshot than of the board; please report it", file=sys.stderr
        )
    out = sys.stderr if piped else sys.stdout
    name = "the archive" if piped else arguments.snapshot
    print(f"{name}: {done.files} files, {max(1, done.bytes // 1024)} KiB", file=out)
    print(f"Next: edgeagent explain {'FILE' if piped else shlex.quote(str(arguments.snapshot))}", file=out)
    print(
        "Look through it before you share it: names of processes, pods and namespaces are in it.", file=out, flush=True
    )
    return OK
