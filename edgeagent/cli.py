"""The command line. Each command imports what it needs when it runs: ``explain`` on a board loads no HTTP library.

Exit codes: 0 done · 1 problems found · 2 unreadable input or usage, one line per problem on
stderr and nothing on stdout · 75 another instance runs.
"""

from __future__ import annotations

import argparse
import json
import locale
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from edgeagent import __version__
from edgeagent.errors import AlreadyRunningError, EdgeAgentError, InputError

if TYPE_CHECKING:
    from edgeagent.config import Config
    from edgeagent.facts import Facts
    from edgeagent.plan.fitting.answer import Fitting
    from edgeagent.plan.report import Style
    from edgeagent.plan.types import Plan
    from edgeagent.snapshot.live import Source

OK = 0
PROBLEMS = 1
USAGE = 2
ALREADY_RUNNING = 75
FASTEST = 100
"""The demo cannot be told in less than half a second."""
MOST_FRAMES = 1000
SLOWEST = 3600
"""Seconds between two samples of a recording."""


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
    except PermissionError as error:
        print(f"edgeagent: {error.filename}: {error.strerror}; run it as root", file=sys.stderr)
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
        "--speed", type=_up_to(FASTEST), default=1.0, metavar="N", help="run the recording N times as fast (default 1)"
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
    explain.add_argument(
        "--would-fit",
        nargs="+",
        action="extend",
        metavar="MODEL",
        help="whether models fit beside what is bound: NAME=gpu:2Gi,memory:3Gi or NAME*2=… for two of them",
    )
    _board_options(explain)
    explain.set_defaults(command=_explain)

    _record_command(
        commands.add_parser(
            "record",
            help="write this board down as a snapshot",
            description="Write this board down as a snapshot for explain, without what identifies it or anybody.",
        )
    )
    _config_command(commands.add_parser("config", help="work with the configuration"))
    return parser


def _record_command(record: argparse.ArgumentParser) -> None:
    record.add_argument("snapshot", type=Path, metavar="DIR", help="a new folder, or one archive if it ends in .tar.gz")
    record.add_argument("--frames", type=_frames, default=1, metavar="N", help="record N samples (default 1)")
    record.add_argument(
        "--every",
        type=_up_to(SLOWEST, "of seconds"),
        default=2.0,
        metavar="SECONDS",
        help="from one sample to the next (default 2)",
    )
    _board_options(record)
    record.set_defaults(command=_record)


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


def _up_to(most: int, *of: str) -> Callable[[str], float]:
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


def _frames(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= MOST_FRAMES:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {MOST_FRAMES}")
    return int(text)


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

        found = recording.read(arguments.snapshot)
        # All or nothing: a recording that turns out to be malformed half way prints no half answer.
        return list(replay.looks(found)), found.config, found.series
    from edgeagent.snapshot import live

    config = _config(arguments)
    facts, plan = live.look(config, _source(arguments))
    return [(0.0, facts, plan)], config, False


def _source(arguments: argparse.Namespace) -> Source:
    from edgeagent.snapshot.live import Source

    return Source(host_root=arguments.host_root, nvml_replay=arguments.nvml_replay, kubeconfig=arguments.kubeconfig)


def _print_json(plan: Plan, at: float, config: Config, found: Fitting | None, *, series: bool) -> None:
    from edgeagent.plan import explain
    from edgeagent.plan.fitting import answer

    document = explain.document(plan, at, config.reserves)
    if found is not None:
        document["would_fit"] = answer.document(found)
    print(json.dumps(document, indent=None if series else 2))


def _print_text(plan: Plan, at: float, facts: Facts, found: Fitting | None, *, recorded: bool, series: bool) -> None:
    from edgeagent.plan import explain, report

    style = _style()
    document = explain.document(plan, at, facts.config.reserves)
    if found is not None:
        print(report.fitting(document, found, style), end="")
        return
    if series:
        print(f"=== at {at:g} s ".ljust(style.width, "="))
    print(report.text(document, report.background(plan, facts, recorded=recorded), style), end="\n" if series else "")


def _style() -> Style:
    """How standard output can show a page."""
    from edgeagent.plan.report import style

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((style.USUAL, 24)).columns if terminal else style.USUAL
    return style.Style(
        width=min(max(width, style.NARROWEST), style.WIDEST),
        colour=terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
        plain=not all(
            _can_show(style.SIGNS, name) for name in (sys.stdout.encoding, locale.nl_langinfo(locale.CODESET))
        ),
    )


def _can_show(signs: str, encoding: str) -> bool:
    """Python itself writes UTF-8 in the locale C, whatever the terminal makes of it: so both are asked."""
    try:
        signs.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _record(arguments: argparse.Namespace) -> int:
    from edgeagent.snapshot.record.board import record

    config, source = _config(arguments), _source(arguments)
    done = record(arguments.snapshot, config, source, frames=arguments.frames, every=arguments.every)
    for line in done.unread:
        print(f"edgeagent: not recorded: {line}", file=sys.stderr)
    if done.unread and os.geteuid():
        print("edgeagent: root can read more", file=sys.stderr)
    for part in done.differing:
        print(
            f"edgeagent: explain says other {part} of the snapshot than of the board; please report it", file=sys.stderr
        )
    print(f"{arguments.snapshot}: {done.files} files, {max(1, done.bytes // 1024)} KiB")
    print(f"Next: edgeagent explain {shlex.quote(str(arguments.snapshot))}")
    print("Look through it before you share it: names of processes, pods and namespaces are in it.", flush=True)
    return OK


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
