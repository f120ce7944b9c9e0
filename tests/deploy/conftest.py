"""Tests of ``deploy/`` need helm, kustomize and kubectl, which are built once; with CI=true their lack is an error."""

from __future__ import annotations

import os

import pytest

from tests.deploy import build


@pytest.fixture(scope="session")
def tools() -> None:
    """The programs are there."""
    if build.missing():
        what = f"{', '.join(build.missing())}: run python -m tests.deploy.build"
        if os.environ.get("CI"):
            pytest.fail(f"this test needs {what}")
        pytest.skip(f"this test needs {what}")
