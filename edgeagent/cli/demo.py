"""``edgeagent demo``: the whole agent in a minute, on a recorded board."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.cli.arguments import configuration, up_to

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands

FASTEST = 100
"""The demo cannot be told in less than half a second."""


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "demo",
        help="the whole agent in a minute, on a recorded board",
        description="Run the agent on a recorded board that changes.",
    )
    _options(parser)
    parser.add_argument(
        "--speed", type=up_to(FASTEST), default=1.0, metavar="N", help="run the recording N times as fast (default 1)"
    )
    parser.add_argument("--keep", action="store_true", help="leave agent and endpoints up when the recording has ended")
    parser.set_defaults(command=_demo)


def _options(parser: argparse.ArgumentParser) -> None:
    """Those of a running agent, whose defaults are the demo's own here."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (default: none)")
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="play in this cluster, in which a node and pods are made, and taken away in the end: only in one made for "
        "such things (default: an API server of the demo's own)",
    )
    parser.add_argument("--node", metavar="NAME", help="name of the node that is made (default orin-nano)")
    folders = (
        ("--host-root", "an empty folder for the files of the board"),
        ("--state-dir", "for what outlives the agent"),
        ("--runtime-dir", "for the lock and the address"),
    )
    for name, use in folders:
        default = Path("/") if name == "--host-root" else None
        parser.add_argument(name, type=Path, default=default, metavar="DIR", help=f"{use} (default: a temporary one)")
    parser.add_argument(
        "--nvml-replay", type=Path, metavar="FILE", help="read NVML's answers from FILE (default: the demo's own)"
    )
    parser.add_argument("--bind", metavar="ADDR", help="address of the endpoint, ADDRESS:PORT (default: a free port)")


def _demo(arguments: argparse.Namespace) -> int:
    from edgeagent.demo import play

    return play.run(arguments, configuration(arguments, installed=False))
