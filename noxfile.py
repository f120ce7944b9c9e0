"""The test sessions: ``unit`` on every supported Python, ``cluster``, everything else, on one.

Started by ``scripts/test``, which puts in place what the sessions need.
"""

from __future__ import annotations

from pathlib import Path

import nox

nox.needs_version = ">=2025.10.14"
nox.options.reuse_venv = "yes"
nox.options.download_python = "never"

PYTHONS = nox.project.python_versions(nox.project.load_toml("pyproject.toml"))
ON_EVERY_PYTHON = ("tests/unit", "tests/properties", "tests/boards")


def _pytest(session: nox.Session, *arguments: str) -> None:
    session.install("--editable", ".[test]")
    # 5: nothing was collected. Arguments of one's own may select tests of the other session only.
    codes = [0, 5] if session.posargs else [0]
    session.run("python", "-m", "pytest", *arguments, *session.posargs, success_codes=codes)


@nox.session(python=PYTHONS)
def unit(session: nox.Session) -> None:
    """Pure code, generated sequences and recorded boards: no root, no network."""
    _pytest(session, *(folder for folder in ON_EVERY_PYTHON if Path(folder).is_dir()))


@nox.session
def cluster(session: nox.Session) -> None:
    """Real API server, scheduler and kubelet, a scripted server for faults, processes and signals."""
    _pytest(session, "tests", *(f"--ignore={folder}" for folder in ON_EVERY_PYTHON))
