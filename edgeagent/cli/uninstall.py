"""``edgeagent uninstall``: the service, what it published on the node, and its files."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.cli.arguments import OK, PROBLEMS
from edgeagent.cli.install import below, needs_root, root_option
from edgeagent.errors import ConfigError, InputError

if TYPE_CHECKING:
    from edgeagent.cli.arguments import Commands
    from edgeagent.config import Config


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "uninstall",
        help="take the service and what it published away",
        description="Stop the service, take what it published off the node, and remove its files, in this order.",
    )
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--node-only", action="store_true", help="only take what was published off the node")
    parts.add_argument("--files-only", action="store_true", help="leave the node as it is")
    parser.add_argument(
        "--force",
        action="store_true",
        help="remove labels that running pods need and files that were edited, and the files even if the node stays",
    )
    parser.add_argument(
        "--keep-needed",
        action="store_true",
        help="leave the labels that running pods need, and take the rest off the node",
    )
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--keep-config", action="store_true", help="leave /etc/edgeagent whole")
    extent.add_argument("--purge", action="store_true", help="configuration, state and user go too")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="credentials for the API server")
    parser.add_argument("--node", metavar="NAME", help="name of this node")
    root_option(parser)
    parser.set_defaults(command=_uninstall)


def _uninstall(arguments: argparse.Namespace) -> int:
    from edgeagent.install.node import Cluster
    from edgeagent.install.systemd import Systemd
    from edgeagent.install.teardown import Wish, uninstall

    root = arguments.root.resolve()
    if not arguments.node_only:
        needs_root(arguments.root, "uninstall")
    elif not root.is_dir():
        raise InputError(f"{arguments.root}: is no directory")
    settings = _settings(root, arguments.node)
    wish = Wish(
        root=root,
        files=not arguments.node_only,
        force=arguments.force,
        keep_needed=arguments.keep_needed,
        keep_config=arguments.keep_config,
        purge=arguments.purge,
    )
    cluster = None if arguments.files_only else Cluster(settings, root, arguments.kubeconfig)
    report = uninstall(wish, settings, Systemd(root), cluster)
    print((below(root) if wish.files else "") + report.text("nothing to do"))
    return PROBLEMS if report.problems else OK


def _settings(root: Path, node: str | None) -> Config:
    """The agent's configuration; the defaults where it cannot be used, which is no reason to stay."""
    from edgeagent import config
    from edgeagent.install.reserves import configuration

    given = [("--node", json.dumps({"node": {"name": node}}))] if node else []
    try:
        return config.load([*configuration(root), *given])
    except ConfigError as error:
        print(f"edgeagent: the configuration is left aside: {error}", file=sys.stderr)
        return config.load(given)
