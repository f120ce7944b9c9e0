"""The command line. Each command imports what it needs when it runs: ``explain`` on a board loads no HTTP library.

Exit codes: 0 done · 1 problems found · 2 unreadable input or usage, one line per problem on
stderr and nothing on stdout · 75 another instance runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from edgeagent import __version__
from edgeagent.errors import AlreadyRunningError, EdgeAgentError, InputError

if TYPE_CHECKING:
    from edgeagent.config import Config
    from edgeagent.plan.types import Plan

OK = 0
PROBLEMS = 1
USAGE = 2
ALREADY_RUNNING = 75
FASTEST = 100
"""The demo cannot be told in less than half a second."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.command(arguments))
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
    except BrokenPipeError:
        # The reader of a pipe has seen enough; a second complaint at exit would help nobody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="edgeagent", description="GPU memory on NVIDIA edge boards: visible, schedulable and safe under K3s."
    )
    parser.add_argument("--version", action="version", version=f"edgeagent {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Parser)

    run = commands.add_parser("run", help="run the agent", description="Run the agent until SIGTERM or SIGINT.")
    _agent_options(run)
    run.set_defaults(command=_run)

    demo = commands.add_parser(
        "demo",
        help="the whole agent in a minute, on a recorded board",
        description="Run the agent on a recorded board that changes.",
    )
    _agent_options(demo)
    demo.add_argument(
        "--speed", type=_speed, default=1.0, metavar="N", help="run the recording N times as fast (default 1)"
    )
    demo.add_argument("--keep", action="store_true", help="leave agent and endpoints up when the recording has ended")
    demo.set_defaults(command=_demo)

    explain = commands.add_parser(
        "explain",
        help="what the board is and what the agent would do",
        description="Explain a recorded board, or this one.",
    )
    explain.add_argument(
        "snapshot", nargs="?", type=Path, metavar="SNAPSHOT", help="a snapshot folder or .tar.gz (default: this board)"
    )
    explain.add_argument("--format", choices=("text", "json"), default="text")
    _board_options(explain)
    explain.set_defaults(command=_explain)

    _config_command(commands.add_parser("config", help="work with the configuration"))
    return parser


def _config_command(config: argparse.ArgumentParser) -> None:
    actions = config.add_subparsers(required=True, metavar="ACTION", parser_class=_Parser)
    check = actions.add_parser(
        "check",
        help="report every problem of the configuration",
        description="Report every problem of the configuration.",
    )
    check.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="default: /etc/edgeagent/config.yaml and config.d"
    )
    check.set_defaults(command=_config_check)


def _board_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file; config.d is then ignored")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="credentials for the API server")
    parser.add_argument("--node", metavar="NAME", help="name of this node")
    parser.add_argument(
        "--host-root", type=Path, default=Path("/"), metavar="DIR", help="where the host's files are (default /)"
    )
    parser.add_argument(
        "--nvml-replay", type=Path, metavar="FILE", help="read NVML's answers from FILE in place of the driver"
    )


def _agent_options(parser: argparse.ArgumentParser) -> None:
    _board_options(parser)
    parser.add_argument(
        "--state-dir", type=Path, metavar="DIR", help="default: $STATE_DIRECTORY, else /var/lib/edgeagent"
    )
    parser.add_argument(
        "--runtime-dir", type=Path, metavar="DIR", help="default: $RUNTIME_DIRECTORY, else /run/edgeagent"
    )
    parser.add_argument("--bind", metavar="ADDR", help="address of the endpoint, ADDRESS:PORT; port 0 takes a free one")


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= FASTEST:
        raise argparse.ArgumentTypeError(f"expected a number above 0 and up to {FASTEST}")
    return value


def _config(arguments: argparse.Namespace, *, installed: bool = True) -> Config:
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


def _run(arguments: argparse.Namespace) -> int:
    from edgeagent import daemon

    return daemon.run(arguments, lambda: _config(arguments))


def _demo(arguments: argparse.Namespace) -> int:
    from edgeagent.demo import play

    return play.run(arguments, _config(arguments, installed=False))


def _explain(arguments: argparse.Namespace) -> int:
    if arguments.snapshot is not None:
        _explain_snapshot(arguments.snapshot, arguments.format)
    else:
        from edgeagent.snapshot import live

        config = _config(arguments)
        plan, at = live.look(
            config, host_root=arguments.host_root, nvml_replay=arguments.nvml_replay, kubeconfig=arguments.kubeconfig
        )
        _show(plan, at, config, arguments.format, series=False)
    return OK


def _explain_snapshot(path: Path, form: str) -> None:
    from edgeagent.snapshot import recording, replay

    found = recording.read(path)
    # All or nothing: a recording that turns out to be malformed half way prints no half answer.
    for at, plan in list(replay.plans(found)):
        _show(plan, at, found.config, form, series=found.series)


def _show(plan: Plan, at: float, config: Config, form: str, *, series: bool) -> None:
    from edgeagent.plan import explain, report

    document = explain.document(plan, at, config.reserves)
    if form == "json":
        print(json.dumps(document, indent=None if series else 2))
    else:
        print((f"=== at {at:g} s\n" if series else "") + report.text(document, listed=plan.listed))


def _config_check(arguments: argparse.Namespace) -> int:
    from edgeagent import config

    if arguments.file is not None and not arguments.file.exists():
        raise InputError(f"{arguments.file}: does not exist")
    try:
        config.read(arguments.file)
    except InputError as error:
        for problem in error.problems:
            print(problem)
        return PROBLEMS
    found = arguments.file or (config.DEFAULT_FILE if config.installed_files() else None)
    print(f"{found}: ok" if found else "no configuration file; the defaults hold")
    return OK


if __name__ == "__main__":
    sys.exit(main())
