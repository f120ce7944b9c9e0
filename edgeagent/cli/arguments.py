"""What commands have in common: exit codes, options, and how a wrong argument is told."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from edgeagent.config import Config
    from edgeagent.snapshot.live import Source

OK = 0
PROBLEMS = 1
USAGE = 2
ALREADY_RUNNING = 75

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]  # noqa: SLF001 (argparse gives it no public name)
    """Where a command adds its parser."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with the code for wrong usage."""
        self.exit(USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def board_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of everything that reads a board."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file; config.d is then ignored")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="credentials for the API server")
    parser.add_argument("--node", metavar="NAME", help="name of this node")
    parser.add_argument(
        "--host-root", type=Path, default=Path("/"), metavar="DIR", help="where the host's files are (default /)"
    )
    parser.add_argument(
        "--nvml-replay", type=Path, metavar="FILE", help="read NVML's answers from FILE in place of the driver"
    )


def agent_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a running agent."""
    board_options(parser)
    parser.add_argument(
        "--state-dir", type=Path, metavar="DIR", help="default: $STATE_DIRECTORY, else /var/lib/edgeagent"
    )
    parser.add_argument(
        "--runtime-dir", type=Path, metavar="DIR", help="default: $RUNTIME_DIRECTORY, else /run/edgeagent"
    )
    parser.add_argument("--bind", metavar="ADDR", help="address of the endpoint, ADDRESS:PORT; port 0 takes a free one")


def up_to(most: int, *of: str) -> Callable[[str], float]:
    """An option's type: a number above 0. ``of``: what it is a number of, where that is not plain."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(" ".join(("expected a number", *of, f"above 0 and up to {most}")))
        return value

    return number


def configuration(arguments: argparse.Namespace, *, installed: bool = True) -> Config:
    """The configuration with what flags say; ``installed`` False leaves that of this machine aside."""
    from edgeagent import config

    overrides = []
    if arguments.node:
        overrides.append(("--node", json.dumps({"node": {"name": arguments.node}})))
    if getattr(arguments, "bind", None):
        overrides.append(("--bind", json.dumps({"serve": {"bind": arguments.bind}})))
    if arguments.config is None and not installed:
        return config.load(overrides)
    return config.read(arguments.config, overrides)


def source(arguments: argparse.Namespace) -> Source:
    """Where the board is read from."""
    from edgeagent.snapshot.live import Source

    return Source(host_root=arguments.host_root, nvml_replay=arguments.nvml_replay, kubeconfig=arguments.kubeconfig)
