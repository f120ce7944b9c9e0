"""Options of commands that ask a running agent."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.cli.arguments import configuration, overrides
from edgeagent.errors import ConfigError, InputError

if TYPE_CHECKING:
    from edgeagent.config import Config, Serve
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


def warn(words: str) -> None:
    """Tell what is wrong and does not keep the command from its work."""
    print(f"edgeagent: warning: {words}", file=sys.stderr)


def endpoint(
    arguments: argparse.Namespace, config: Path | None = None, warned: Callable[[str], None] = warn
) -> Endpoint:
    """The endpoint that the options name; nothing is asked yet.

    Args:
        arguments: the options.
        config: in place of this machine's configuration.
        warned: takes what is wrong with the configuration, where the address of a running agent is known all the same.

    Raises:
        InputError: the address, a file or the configuration cannot be used.
    """
    from edgeagent.console import client
    from edgeagent.system import dirs

    runtime = dirs.runtime(arguments.runtime_dir, os.environ)

    def serve() -> Serve:
        from edgeagent.config import looked_at

        found, problems = looked_at(config)
        # The agent that runs has its own, good one: a mistake made since does not hide it.
        if problems and not (runtime / dirs.ADDRESS).exists():
            raise ConfigError(problems)
        for problem in problems:
            warned(problem)
        return found.serve

    return client.find(
        address=arguments.address,
        runtime=runtime,
        named=arguments.runtime_dir is not None,
        serve=serve,
        token_file=arguments.token_file,
        ca_file=arguments.ca_file,
    )


def in_force(arguments: argparse.Namespace) -> Config:
    """The configuration for a look at this board: where its files cannot be used, that of the agent which runs here.

    Raises:
        ConfigError: it cannot be used, and no agent tells what is in force; or it is a file that was named.
    """
    from edgeagent import config

    try:
        return configuration(arguments)
    except ConfigError as error:
        if arguments.config is not None:
            raise
        running = argparse.Namespace(address=None, token_file=None, ca_file=None, runtime_dir=None)
        try:
            told = endpoint(running, warned=lambda _: None).get("/api/v1/config")["config"]["values"]
            found = config.load([("the running agent", json.dumps(told)), *overrides(arguments)])
        except InputError:
            raise error from None
        for problem in error.problems:
            warn(problem)
    warn("what the running agent has in force is used in its place")
    return found
