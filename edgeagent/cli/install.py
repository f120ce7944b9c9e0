"""``edgeagent install``: this program as a service of this machine."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.cli.arguments import OK, PROBLEMS
from edgeagent.errors import InputError

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands

NO_SYSTEMD = (
    "they come with systemd, which this machine does not have: let its own init start edgeagent run, "
    "which needs no file of systemd's"
)


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "install",
        help="run this program as a service of this machine",
        description="Write unit, user and configuration for systemd, and start the service. What others wrote stays.",
    )
    root_option(parser)
    parser.add_argument(
        "--k3s-reserves", action="store_true", help="tell K3s the same reserves, for its scheduler to count alike"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--no-start", action="store_true", help="leave the service as it is until the next boot")
    parser.add_argument(
        "--force", action="store_true", help="replace files that others wrote or edited; they are kept as .bak"
    )
    parser.set_defaults(command=_install)


def root_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names another file system than this machine's."""
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="the file system of a machine that does not run, such as an image (default /)",
    )


def below(root: Path) -> str:
    """The line that says where the paths of a report are, unless it is this very machine."""
    return "" if root == Path("/") else f"below {root}:\n"


def needs_root(root: Path, command: str) -> None:
    """Check that ``root`` is a folder and, where it is this machine's, that this is its administrator.

    Raises:
        InputError: it is not.
    """
    if not root.is_dir():
        raise InputError(f"{root}: is no directory")
    if root == Path("/") and os.geteuid() != 0:
        raise InputError(f"{command} needs root: sudo edgeagent {command}")


def _install(arguments: argparse.Namespace) -> int:
    from edgeagent.install import program, systemd
    from edgeagent.install.setup import Wish, install

    needs_root(arguments.root, "install")
    missing = systemd.missing()
    if missing:
        raise InputError(f"{', '.join(missing)} not found: {NO_SYSTEMD}")
    root = arguments.root.resolve()
    wish = Wish(
        root=root,
        k3s_reserves=arguments.k3s_reserves,
        dry=arguments.dry_run,
        start=not arguments.no_start,
        force=arguments.force,
    )
    path, problems = program.seen(program.here(), root), tuple[str, ...]()
    try:
        path = program.find(root)
    except InputError as error:
        if not wish.dry:
            raise
        problems = error.problems
    report = install(wish, systemd.Systemd(root), path)
    report.problems += problems
    print(below(root) + report.text("nothing to do: everything is as edgeagent install leaves it"))
    return PROBLEMS if report.problems else OK
