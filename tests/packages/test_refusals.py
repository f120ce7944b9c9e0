"""What the build says where it cannot know the time that everything it makes is stamped with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[2] / "packaging/build.py"


@pytest.mark.parametrize("git", [None, "echo 'not a repository' >&2; exit 128"], ids=["no git", "no repository"])
def test_a_build_without_a_time_says_how_to_give_one(git: str | None, tmp_path: Path) -> None:
    if git is not None:
        program = tmp_path / "git"
        program.write_text(f"#!/bin/sh\n{git}\n")
        program.chmod(0o755)
    variables = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(
        [sys.executable, BUILD, "--only", "wheel", "--out", tmp_path / "dist"],
        env={**variables, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    why = "git: No such file or directory" if git is None else "not a repository"
    assert done.stderr.splitlines() == [
        f"git does not tell the time of the newest commit: {why}",
        "Without git: SOURCE_DATE_EPOCH=$(date +%s) packaging/build.py",
    ]
