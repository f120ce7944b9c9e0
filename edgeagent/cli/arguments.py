"""What commands have in common: exit codes, options, and how a wrong argument is told."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from edgeagent.errors import InputError

if TYPE_CHECKING:
    from edgeagent.config import Config
    from edgeagent.snapshot.live import Source

OK = 0
PROBLEMS = 1
USAGE = 2
ALREADY_RUNNING = 75

MOUNTED = Path("/host")
"""Where the pod of the DaemonSet has the board's root (deploy/base/daemonset.yaml)."""

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]  # noqa: SLF001 (argparse gives it no public name)
    """Where a command adds its parser."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with the code for wrong usage."""
        self.exit(USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:  # type: ignore[override]
        """As argparse has it, but what a command does not know is refused by it, and not by the program as a whole."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._meant(unknown)}")
        return found, unknown

    def _meant(self, unknown: Sequence[str]) -> str:
        """The options that are nearest to what was written."""
        names = [word.partition("=")[0] for word in unknown if word.startswith("--")]
        options = [name for name in self._option_string_actions if name.startswith("--")]
        near = [match for name in names for match in difflib.get_close_matches(name, options, 1)]
        return f"; did you mean {' '.join(near)}?" if near else ""


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


def beside_a_snapshot(arguments: argparse.Namespace) -> None:
    """Check that nothing was given that only a look at a board would heed.

    Raises:
        InputError: something was.
    """
    given = {
        "--config": arguments.config,
        "--kubeconfig": arguments.kubeconfig,
        "--node": arguments.node,
        "--host-root": None if arguments.host_root == Path("/") else arguments.host_root,
        "--nvml-replay": arguments.nvml_replay,
    }
    names = [name for name, value in given.items() if value is not None]
    if names:
        raise InputError(
            f"{', '.join(names)}: not beside a snapshot, which has its own board, cluster and configuration"
        )


def warn_in_a_pod(arguments: argparse.Namespace) -> None:
    """Say that a container is looked at, where the board is at hand."""
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ and (MOUNTED / "proc").is_dir()
    if in_pod and arguments.host_root == Path("/"):
        print(
            f"edgeagent: warning: this looks at the pod's own container; for the board: --host-root {MOUNTED}",
            file=sys.stderr,
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


def with_extra(name: str) -> str:
    """How a program that pip has installed gets one of the extras."""
    return f"pip install '.[{name}]' in the checkout, or with the wheel's file: pip install './FILE.whl[{name}]'"


def overrides(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """What flags say of the configuration, as documents."""
    found = []
    if arguments.node:
        found.append(("--node", json.dumps({"node": {"name": arguments.node}})))
    if getattr(arguments, "bind", None):
        found.append(("--bind", json.dumps({"serve": {"bind": arguments.bind}})))
    return found


def configuration(arguments: argparse.Namespace, *, installed: bool = True) -> Config:
    """The configuration with what flags say; ``installed`` False leaves that of this machine aside."""
    from edgeagent import config

    if arguments.config is None and not installed:
        return config.load(overrides(arguments))
    return config.read(arguments.config, overrides(arguments))


def source(arguments: argparse.Namespace) -> Source:
    """Where the board is read from."""
    from edgeagent.snapshot.live import Source

    return Source(host_root=arguments.host_root, nvml_replay=arguments.nvml_replay, kubeconfig=arguments.kubeconfig)
