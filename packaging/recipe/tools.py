"""The build tools, pinned by hash, in a virtual environment of their own."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from recipe.targets import CACHE, FOLDER, ROOT

REQUIREMENTS = FOLDER / "locks/tools.txt"


def epoch() -> str:
    """Seconds since 1970 for every time stamp: ``SOURCE_DATE_EPOCH``, else the newest commit's.

    Raises:
        SystemExit: neither is known, as in an unpacked sdist.
    """
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    try:
        commit = subprocess.run(
            ["git", "-C", ROOT, "log", "-1", "--format=%ct"],  # noqa: S607 (as its builder has it)
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        why = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else f"git: {error.strerror}"
        raise SystemExit(
            f"git does not tell the time of the newest commit: {why}\n"
            "Without git: SOURCE_DATE_EPOCH=$(date +%s) packaging/build.py"
        ) from error
    return commit.stdout.strip()


def say(text: str) -> None:
    """Tell who waits what takes so long."""
    sys.stderr.write(f"{text}\n")


def environment(when: str) -> dict[str, str]:
    """Of every command whose output is shipped: nothing of who builds and where. ``when`` as of ``epoch``."""
    return {**os.environ, "SOURCE_DATE_EPOCH": when, "TZ": "UTC", "LC_ALL": "C.UTF-8"}


def python() -> Path:
    """The interpreter that has hatchling and pip; made at the first call, from the package index."""
    key = hashlib.sha256(f"{sys.version}{REQUIREMENTS.read_text()}".encode()).hexdigest()[:12]
    home = CACHE / f"tools-{key}"
    program, stamp = home / "bin/python", home / "complete"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "tools.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another build may be at it
        if not stamp.exists():
            say(f"installing the build tools into {home} (once)")
            subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
            pip(program, "install", "--require-hashes", "--only-binary=:all:", "--requirement", REQUIREMENTS)
            stamp.touch()
    return program


def pip(interpreter: Path, *arguments: str | Path) -> None:
    """Run a command of pip, which speaks up only if something is wrong."""
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([interpreter, "-I", "-m", "pip", *quiet, *arguments], check=True)
