"""The test sessions: ``unit`` on every supported Python; ``generated``, ``shipping`` and ``cluster``, the rest, on one.

Started by ``scripts/test``, which puts in place what the sessions need.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nox

nox.needs_version = ">=2025.10.14"
nox.options.reuse_venv = "yes"
nox.options.download_python = "never"

PYTHONS = nox.project.python_versions(nox.project.load_toml("pyproject.toml"))
ON_EVERY_PYTHON = ("tests/unit", "tests/boards")
GENERATED = ("tests/cases", "tests/properties")
SHIPPED = ("tests/deploy", "tests/docs", "tests/image", "tests/packages")
PARALLEL = ("--numprocesses=auto", "--dist=loadfile")
"""Tests that only compute share the cores; those of a file may share what took long to work out."""


def _pytest(session: nox.Session, *arguments: str, mine: Callable[[str], bool]) -> None:
    """Run ``arguments``, or those of the paths given on the command line that are ``mine``."""
    paths = [argument for argument in session.posargs if Path(argument.partition("::")[0]).exists()]
    if paths:
        arguments = tuple(path for path in paths if mine(path))
        if not arguments:
            session.skip("none of the given paths belongs here")
    session.install("--editable", ".[test]")
    # 5: nothing was collected. Arguments of one's own may select tests of the other session only.
    codes = [0, 5] if session.posargs else [0]
    options = [argument for argument in session.posargs if argument not in paths]
    session.run("python", "-m", "pytest", *arguments, *options, success_codes=codes)


@nox.session(python=PYTHONS)
def unit(session: nox.Session) -> None:
    """Pure code and recorded boards: no root, no network."""
    _pytest(session, *ON_EVERY_PYTHON, *PARALLEL, mine=lambda path: path.startswith(ON_EVERY_PYTHON))


@nox.session
def generated(session: nox.Session) -> None:
    """Field cases and generated sequences: pure too, but what they find does not depend on the Python."""
    _pytest(session, *GENERATED, *PARALLEL, mine=lambda path: path.startswith(GENERATED))


@nox.session
def shipping(session: nox.Session) -> None:
    """Packages, image, manifests and pages: what is built and looked at; nothing here depends on how quick it is."""
    _pytest(session, *SHIPPED, *PARALLEL, mine=lambda path: path.startswith(SHIPPED))


@nox.session
def cluster(session: nox.Session) -> None:
    """Real API server, scheduler and kubelet, a scripted server, a browser, real processes: one after the other."""
    elsewhere = (*ON_EVERY_PYTHON, *GENERATED, *SHIPPED)
    ignored = (f"--ignore={folder}" for folder in elsewhere)
    _pytest(session, "tests", *ignored, mine=lambda path: not path.startswith(elsewhere))
