"""Fixtures for tests of the container image.

Where something is missing these tests are skipped with the line that says what to install; with CI=true in the
environment they fail.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.image import built

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[built.Build, built.Build]]:
    """Two builds of the same sources, side by side: elsewhere, by another user's habits, with other times."""
    lacking = built.lacking()
    if lacking and os.environ.get("CI"):
        pytest.fail(f"the image needs {lacking}")
    if lacking:
        pytest.skip(f"the image needs {lacking}")
    folder = tmp_path_factory.mktemp("image")
    sources = built.copy(built.REPOSITORY, folder / "sources")
    moved = built.copy(sources, folder / "moved/elsewhere")
    first = built.Build(sources, folder / "first.tar")
    second = built.Build(moved, folder / "second.tar", umask=0o077, TZ="Asia/Tokyo", LC_ALL="C", HOSTNAME="other")
    yield first, second
    first.close()
    second.close()


@pytest.fixture(scope="session")
def image(builds: tuple[built.Build, built.Build]) -> built.Image:
    return builds[0].wait()


@pytest.fixture(scope="session")
def root(image: built.Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root file system for this machine, not to be written to."""
    return image.unpack(built.NATIVE, tmp_path_factory.mktemp("root") / built.NATIVE)
