"""``edgeagent fleet``: options, selection, output and exit codes, before any real API server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgeagent import cli
from edgeagent.cli import fleet as command
from edgeagent.errors import ClusterError
from edgeagent.fleet import connect, follow, order
from edgeagent.fleet.api import Listed
from tests.unit.fleet.objects import bare, node, pod

MODE = "edgeagent.dev/mode"


class FakeApi:
    """A cluster of three nodes, of which the API server does not let anybody change ``locked``."""

    def __init__(self) -> None:
        observed = node("calm", annotations={MODE: "observe"})
        self.nodes = {one["metadata"]["name"]: one for one in (node("orin-1"), observed, node("locked"), bare("plain"))}
        self.written: list[tuple[str, str | None, bool]] = []
        self.asked: list[str | None] = []

    def __enter__(self) -> FakeApi:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def everything(self, selector: str | None) -> tuple[Listed, Listed]:
        return self.list("nodes", selector), Listed([pod("a", "orin-1")], "1")

    def list(self, _kind: str, selector: str | None = None) -> Listed:
        self.asked.append(selector)
        return Listed([] if selector == "none=here" else list(self.nodes.values()), "1")

    def node(self, name: str) -> dict[str, Any]:
        if name not in self.nodes:
            raise ClusterError(f'answers 404: nodes "{name}" not found')
        return self.nodes[name]

    def set_mode(self, name: str, value: str | None, *, dry_run: bool) -> None:
        if name == "locked":
            raise ClusterError("answers 403: cannot patch")
        self.written.append((name, value, dry_run))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    made = FakeApi()
    monkeypatch.setattr(connect, "connect", lambda *_: made)
    return made


Captured = pytest.CaptureFixture[str]


# --- the table -----------------------------------------------------------------------


def test_the_document_has_every_key(api: FakeApi, capsys: Captured) -> None:
    del api.nodes["calm"], api.nodes["locked"]
    assert cli.main(["fleet", "--format", "json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"format", "taken", "nodes", "other_nodes", "waiting", "unread_objects"}
    (row,) = found["nodes"]
    assert row == {
        "name": "orin-1",
        "edgeagent": True,
        "kind": "jetson",
        "product": "Orin-Nano",
        "pools": [
            {
                "resource": "edgeagent.dev/gpu-memory",
                "total_bytes": 7619 << 20,
                "reserved_bytes": 1792 << 20,
                "advertised_bytes": 5827 << 20,
                "committed_bytes": 1024 << 20,
                "free_bytes": 4803 << 20,
            }
        ],
        "problems": [],
        "judged": True,
        "schedulable": True,
        "mode": None,
        "mode_why": None,
        "agent": None,
        "last_write": None,
    }
    assert (found["format"], found["other_nodes"], found["unread_objects"]) == (1, 1, 0)


def test_all_shows_the_others_too_and_a_selector_is_the_servers(api: FakeApi, capsys: Captured) -> None:
    assert cli.main(["fleet", "--all", "--selector", "site=a"]) == 0

    assert "\nplain " in capsys.readouterr().out
    assert api.asked == ["site=a"]


@pytest.mark.usefixtures("api")
def test_the_table_is_as_wide_as_columns_says(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    cli.main(["fleet"])
    narrow = capsys.readouterr().out.splitlines()
    monkeypatch.delenv("COLUMNS")
    cli.main(["fleet"])
    wide = capsys.readouterr().out.splitlines()

    assert max(map(len, narrow)) <= 70
    assert "PRODUCT" in wide[0]


def test_the_columns_to_sort_by_are_those_of_the_table() -> None:
    assert list(command.COLUMNS) == list(order.COLUMNS)


Look = tuple[list[dict[str, Any]], list[dict[str, Any]], str]


def watched(monkeypatch: pytest.MonkeyPatch, *looks: Look, options: tuple[str, ...] = ()) -> int:
    """``--watch`` over what a view shows one after the other, and then Ctrl-C."""
    left = list(looks)

    class FakeView:
        def __init__(self, *_: object) -> None:
            pass

        def __enter__(self) -> FakeView:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def look(self) -> Look:
            return left[0]

        def wait(self, _seconds: float) -> None:
            left.pop(0)
            if not left:
                raise KeyboardInterrupt

    monkeypatch.setattr(follow, "View", FakeView)
    monkeypatch.setattr(command, "_PAUSE", 0.0)
    return cli.main(["fleet", "--watch", *options])


@pytest.mark.usefixtures("api")
def test_watch_prints_a_block_for_each_change_and_none_without(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    same: Look = ([node()], [], "")
    assert watched(monkeypatch, same, same, ([node()], [pod("a", "orin-1")], ""), ([], [], "")) == 0

    blocks = capsys.readouterr().out.split("=== ")[1:]
    assert len(blocks) == 3
    assert ["0 MiB" in blocks[0], "1.00 GiB" in blocks[1], "No node carries" in blocks[2]] == [True] * 3
    assert all(block.split("\n")[0].endswith(" UTC") for block in blocks)


@pytest.mark.usefixtures("api")
def test_watch_in_json_is_one_document_a_line(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert watched(monkeypatch, ([node()], [], ""), ([], [], ""), options=("--format", "json")) == 0

    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(one["nodes"]) for one in documents] == [1, 0]


@pytest.mark.usefixtures("api")
def test_watch_says_once_that_it_is_not_current_and_once_that_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    away: Look = ([node()], [], "no answer")
    assert watched(monkeypatch, ([node()], [], ""), away, away, ([node()], [], "")) == 0

    shown = capsys.readouterr()
    assert shown.out.count("=== ") == 1
    assert shown.err.splitlines() == ["edgeagent: not current: no answer", "edgeagent: current again"]


# --- the switch ----------------------------------------------------------------------


def test_observe_writes_where_it_is_not_so_yet(api: FakeApi, capsys: Captured) -> None:
    assert cli.main(["fleet", "observe", "orin-1", "calm", "orin-1"]) == 0

    assert api.written == [("orin-1", "observe", False)]
    assert capsys.readouterr().out.splitlines() == [
        f"orin-1: {MODE} set to observe (was not set)",
        "calm: stays as it is: observe",
        "1 changed, 1 as wanted already, 0 failed",
    ]


def test_enforce_removes_the_annotation_and_says_what_it_cannot_do(api: FakeApi, capsys: Captured) -> None:
    assert cli.main(["fleet", "enforce", "calm"]) == 0

    assert api.written == [("calm", None, False)]
    assert capsys.readouterr().out.splitlines() == [
        f"calm: {MODE} removed (was observe)",
        "1 changed, 0 as wanted already, 0 failed",
        "An agent whose own configuration says observe goes on observing: the annotation can only calm.",
    ]


def test_another_value_of_the_annotation_goes_too(api: FakeApi) -> None:
    api.nodes["calm"]["metadata"]["annotations"][MODE] = "enforce"

    assert cli.main(["fleet", "enforce", "calm"]) == 0
    assert api.written == [("calm", None, False)]


def test_all_is_every_node_and_a_failure_is_told_beside_what_was_done(api: FakeApi, capsys: Captured) -> None:
    assert cli.main(["fleet", "observe", "--all"]) == 1

    shown = capsys.readouterr()
    assert sorted(api.written) == [("orin-1", "observe", False), ("plain", "observe", False)]
    assert shown.err == "edgeagent: locked: answers 403: cannot patch\n"
    assert shown.out.splitlines()[-1] == "2 changed, 1 as wanted already, 1 failed"


def test_a_dry_run_is_the_servers_and_says_would(api: FakeApi, capsys: Captured) -> None:
    assert cli.main(["fleet", "observe", "orin-1", "--dry-run"]) == 0

    assert api.written == [("orin-1", "observe", True)]
    assert capsys.readouterr().out.splitlines() == [
        f"orin-1: {MODE} would be set to observe (was not set)",
        "1 would change, 0 as wanted already, 0 failed",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["observe"],
        ["observe", "orin-1", "--all"],
        ["observe", "orin-1", "--selector", "a=b"],
        ["--all", "observe", "orin-1"],
        ["observe", "--selector", "none=here"],
        ["--watch", "observe", "orin-1"],
        ["--format", "json", "enforce", "orin-1"],
    ],
    ids=" ".join,
)
def test_nothing_chosen_or_chosen_twice_is_wrong_usage(api: FakeApi, arguments: list[str], capsys: Captured) -> None:
    assert cli.main(["fleet", *arguments]) == 2

    shown = capsys.readouterr()
    assert (api.written, shown.out, len(shown.err.splitlines())) == ([], "", 1)


# --- credentials ---------------------------------------------------------------------


def refused(capsys: Captured, *arguments: str) -> str:
    assert cli.main(["fleet", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    return line


def test_no_kubeconfig_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert "no kubeconfig: give one with --kubeconfig" in refused(capsys)


def test_a_kubeconfig_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert refused(capsys, "--kubeconfig", str(tmp_path / "no")) == f"edgeagent: {tmp_path}/no: is no file"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no"))
    assert refused(capsys) == f"edgeagent: $KUBECONFIG: {tmp_path}/no: is no file"


KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


@pytest.mark.parametrize("text", ["", "[]", "{", "clusters: 7", json.dumps({**KUBECONFIG, "clusters": []})])
def test_a_malformed_kubeconfig_is_one_line(text: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "k").write_text(text)

    assert refused(capsys, "--kubeconfig", str(tmp_path / "k")).startswith(f"edgeagent: {tmp_path}/k: ")


def test_a_context_that_is_not_there_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "k").write_text(json.dumps(KUBECONFIG))

    assert "nowhere" in refused(capsys, "--kubeconfig", str(tmp_path / "k"), "--context", "nowhere")


def test_a_login_program_that_fails_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "k").write_text(json.dumps(KUBECONFIG))

    line = refused(capsys, "--kubeconfig", str(tmp_path / "k"))

    assert line == f"edgeagent: {tmp_path}/k: the login failed: exec: process returned 1"


def test_without_the_extra_one_line_says_how_to_get_it() -> None:
    # None in sys.modules is how Python is told that a module is not there.
    code = "import sys; sys.modules['kubernetes'] = None\nfrom edgeagent.cli import main\nsys.exit(main(['fleet']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "edgeagent: fleet needs the extra operator: pip install '.[operator]' in the checkout, "
        "or with the wheel's file: pip install './FILE.whl[operator]'\n"
    )


def test_the_client_is_loaded_when_the_command_runs_and_not_before() -> None:
    code = """
import sys
from edgeagent.cli import main
try:
    main(["fleet", "--help"])
except SystemExit:
    print(sorted({"kubernetes", "urllib3", "rich"} & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stderr == "[]\n"
