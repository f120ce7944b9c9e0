"""Fixtures for tests against a real control plane and a real kubelet.

Where a component is missing these tests are skipped with the line that says what to install; with CI=true in the
environment the run ends as a usage error instead.
"""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.livenode import PROGRAMS, LiveNode
from tests.cluster.objects import create_node
from tests.controlplane import build
from tests.controlplane.plane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tests.controlplane.processes import Daemon

HERE = Path(__file__).parent

_daemons: list[Daemon] = []


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd, API server, scheduler and controllers, shared by the whole run."""
    with ControlPlane(tmp_path_factory.mktemp("plane")) as plane:
        _daemons.extend(plane.daemons)
        yield plane


@pytest.fixture(scope="session")
def live_node(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    """A node with a real kubelet, shared by the whole run: a test leaves its pods and capacity as it found them."""
    with LiveNode(control_plane, tmp_path_factory.mktemp("live") / "node") as node:
        _daemons.extend(node.daemons)
        yield node


@pytest.fixture
def hand_node(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a fresh Ready node that has no kubelet."""
    name = f"hand-{uuid.uuid4().hex[:8]}"
    create_node(control_plane.api, name)
    yield name
    control_plane.api.delete_node(name)


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A fresh namespace; its pods are deleted at the end, at once."""
    api, name = control_plane.api, f"test-{uuid.uuid4().hex[:8]}"
    api.create_namespace({"metadata": {"name": name}})
    yield name
    api.delete_collection_namespaced_pod(name, body={"gracePeriodSeconds": 0})
    api.delete_namespace(name)


def _lacking(fixtures: list[str]) -> str | None:
    """What this machine lacks for a test with these fixtures, and how to get it."""
    if "control_plane" in fixtures and build.missing():
        return f"{', '.join(build.missing())}: run python -m tests.controlplane.build"
    if "live_node" in fixtures:
        programs = [program for program in PROGRAMS if not shutil.which(program)]
        if programs:
            return f"{', '.join(programs)}: apt-get install containerd runc gcc libc6-dev util-linux"
        if os.geteuid() != 0:
            return "root, for mount namespaces and cgroups"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.cluster)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Look at the tests that are left after -k and -m.

    Raises:
        pytest.UsageError: something is missing, in CI.
    """
    for item in session.items:
        lacking = _lacking(item.fixturenames) if isinstance(item, pytest.Function) else None
        if not lacking:
            continue
        if os.environ.get("CI"):
            raise pytest.UsageError(f"cluster tests need {lacking}")
        item.add_marker(pytest.mark.skip(reason=f"cluster tests need {lacking}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of every component's log with a failure."""
    report = yield
    if report.failed:
        report.sections.extend((f"{daemon.name} ({daemon.log})", daemon.tail(15)) for daemon in _daemons)
    return report
