"""What the page about security counts and names is so in the unit, the manifests, the locks and the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgeagent.host import paths
from edgeagent.reconcile import events
from edgeagent.serve import dashboard, listener, pages, speaker, stream
from tests.unit.test_docs import documented, page, part

REPOSITORY = Path(__file__).parents[2]
PAGE = "explanation/security.md"
MODULES = sorted((REPOSITORY / "edgeagent").rglob("*.py"))
NUMBERS = {"six": 6, "ten": 10}


def capabilities() -> set[str]:
    return {name for name in documented(part(page(PAGE), "What it may do on the board")) if name.startswith("CAP_")}


def test_the_capabilities_are_those_of_the_unit() -> None:
    unit = (REPOSITORY / "systemd/edgeagent.service").read_text(encoding="utf-8")
    given = re.search(r"^AmbientCapabilities=(.+)$", unit, re.MULTILINE)
    assert given

    assert capabilities() == set(given[1].split())


def test_the_capabilities_are_those_of_the_daemonset() -> None:
    daemonset: dict[str, Any] = yaml.safe_load((REPOSITORY / "deploy/base/daemonset.yaml").read_text(encoding="utf-8"))
    (container,) = daemonset["spec"]["template"]["spec"]["containers"]

    assert capabilities() == {f"CAP_{name}" for name in container["securityContext"]["capabilities"]["add"]}


def test_the_connections_and_what_is_open_are_as_it_says() -> None:
    text = page(PAGE)

    assert f"{listener.PLACES} connections, one request each, {listener.LIFE:.0f} s" in text
    assert f"{stream.MOST} streams beside them" in text
    assert f"A request is {speaker.LARGEST_HEAD // 1024} KiB at most" in text
    assert "The three health paths need no token" in text
    assert "The files of the dashboard need none either" in text
    assert pages.OPEN - set(dashboard.PATHS) == {"/livez", "/readyz", "/healthz"}


def test_the_limits_are_those_of_the_program() -> None:
    text = page(PAGE)

    assert f"each up to {paths.LIMIT // 2**20} MiB" in text
    told = re.search(r"Events about one object are limited, (\w+) at once and one in five minutes", text)
    assert told
    assert (NUMBERS[told[1]], 5 * 60) == (events.BURST, events.REFILL)


def test_the_service_account_may_make_the_calls_of_the_table_and_no_other() -> None:
    rules = next(
        document["rules"]
        for document in yaml.safe_load_all(
            (REPOSITORY / "deploy/components/service-account/rbac.yaml").read_text(encoding="utf-8")
        )
        if document["kind"] == "ClusterRole"
    )
    allowed: dict[str, set[str]] = {}
    for rule in rules:
        for resource in rule["resources"]:
            allowed.setdefault(resource, set()).update(rule["verbs"])

    # The table: get, list and watch node and pods; patch the node's status; create evictions; create and patch events;
    # list what a diagnosis looks at.
    looking = {"get", "list", "watch"}
    assert allowed == {
        "nodes": looking,
        "pods": looking,
        "nodes/status": {"patch"},
        "pods/eviction": {"create"},
        "events": {"create", "patch", "list"},
        "runtimeclasses": {"list"},
        "daemonsets": {"list"},
    }
    rows = [line for line in part(page(PAGE), "What it may do in the cluster").splitlines() if line.startswith("| ")]
    calls = rows[1:5]
    for call, words in zip(
        calls, ("get, list and watch", "patch the", "create an eviction", "create and patch events"), strict=True
    ):
        assert words in call


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def importers(name: str) -> set[str]:
    """The modules of the package that import ``name`` or what is below it, as paths in it."""
    return {
        path.relative_to(REPOSITORY / "edgeagent").as_posix()
        for path in MODULES
        if any(f"{module}.".startswith(f"{name}.") for module in imported(path))
    }


@pytest.mark.parametrize("name", ["jtop", "pickle", "marshal", "multiprocessing", "shelve"])
def test_nothing_imports_what_the_page_rules_out(name: str) -> None:
    assert importers(name) == set()


def test_only_the_installation_and_who_asks_jetson_stats_start_programs() -> None:
    assert importers("subprocess") == {"install/systemd.py", "watch/jtop.py"}
    assert importers("os") >= {"cluster/credentials.py"}, "the search finds imports"


def test_every_wheel_that_is_shipped_is_pinned_by_its_hash() -> None:
    lines = (REPOSITORY / "packaging/locks/wheels.sha256").read_text(encoding="utf-8").splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[0-9a-f]{64}  [\w.-]+\.whl", line)] == []
    assert "jetson" not in "".join(lines)


def test_every_package_of_the_image_is_pinned_by_its_hash() -> None:
    text = (REPOSITORY / "image/debian.lock").read_text(encoding="utf-8")
    packages = [line for line in text.splitlines() if line.startswith(("amd64 ", "arm64 "))]

    assert packages
    assert [line for line in packages if not re.search(r"\.deb [0-9a-f]{64}$", line)] == []


def test_as_many_packages_are_required_as_it_says() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    told = re.search(r"^- (\w+) packages, \[each with a reason\]", page(PAGE), re.MULTILINE)
    assert listed
    assert told

    names = re.findall(r'^    "([\w-]+)', listed[1], re.MULTILINE)
    assert len(names) == NUMBERS[told[1].lower()]
    assert len(re.findall(r"# .{10,}$", listed[1], re.MULTILINE)) == len(names), "each has its reason"
