"""Options of commands that ask a running agent."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeagent.config import Serve
    from edgeagent.console.client import Endpoint


def endpoint_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which agent is asked, and how."""
    parser.add_argument(
        "--address", metavar="ADDR", help="HOST:PORT or https://HOST:PORT of an agent (default: this machine's)"
    )
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="file with the bearer token")
    parser.add_argument(
        "--ca-file", type=Path, metavar="FILE", help="certificates that the agent's own is checked with; asks by TLS"
    )
    parser.add_argument(
        "--runtime-dir", type=Path, metavar="DIR", help="default: $RUNTIME_DIRECTORY, else /run/edgeagent"
    )


def endpoint(arguments: argparse.Namespace, config: Path | None = None) -> Endpoint:
    """The endpoint that the options name; nothing is asked yet. ``config``: in place of this machine's configuration.

    Raises:
        InputError: the address, a file or the configuration cannot be used.
    """
    from edgeagent.console import client
    from edgeagent.system import dirs

    def serve() -> Serve:
        from edgeagent import config as configuration

        return configuration.read(config).serve

    return client.find(
        address=arguments.address,
        runtime=dirs.runtime(arguments.runtime_dir, os.environ),
        named=arguments.runtime_dir is not None,
        serve=serve,
        token_file=arguments.token_file,
        ca_file=arguments.ca_file,
    )
