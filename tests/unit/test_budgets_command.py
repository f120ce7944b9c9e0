"""``edgeagent budgets``: for people and for programs, with an agent and without."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from edgeagent import cli
from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY
from edgeagent.plan import advice, peakfile
from edgeagent.plan.keeping import Origin
from edgeagent.plan.peaks import Peaks
from edgeagent.plan.peaktime import DAY
from edgeagent.plan.report import Style, budgets
from edgeagent.plan.types import Plan
from edgeagent.system import statefile
from tests.unit.plan.test_report_examples import examples
from tests.unit.plan.workloads import GIB, MIB, MIXED, fold, plan, view

ORIGIN = Origin("boot", "/", "0d5f6c1e8b7a4f2e9c3d1a2b3c4d5e6f")


def deployed(name: str, namespace: str, gpu: int, host: int, **more: Any) -> Any:
    return view(f"{name}-6d4b-x7k2p", gpu, host, owner=("ReplicaSet", f"{name}-6d4b"), namespace=namespace, **more)


BOARD = plan(
    deployed("llm", "vision", 1740 * MIB, 505 * MIB),
    deployed("detector", "vision", 1200 * MIB, 300 * MIB, limits={GPU_MEMORY: 4 * GIB, "memory": 5 * GIB}),
    deployed("coredns", "kube-system", 0, 30 * MIB, limits={"memory": 170 * MIB}),
)


def after(found: Plan, seconds: float = 3 * DAY) -> Peaks:
    """The peaks after so long a look."""
    peaks = fold(Peaks(), found, 1000.0)
    records = {
        who: one._replace(
            gpu={name: course._replace(watched=seconds) for name, course in one.gpu.items()},
            host=one.host._replace(watched=seconds),
        )
        for who, one in peaks.records.items()
    }
    return replace(peaks, records=records)


def kept(folder: Path, peaks: Peaks) -> Path:
    folder.mkdir(exist_ok=True)
    assert statefile.write(folder, peakfile.kept(peaks, ORIGIN), statefile.PEAKS) == ""
    return folder


def shown(found: Plan, seconds: float = 3 * DAY, style: Style | None = None) -> str:
    return budgets.text(advice.documents(advice.advice(after(found, seconds), found)), style or Style())


Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command on a state directory, and what it printed."""

    def command(folder: Path, *arguments: str) -> str:
        assert cli.main(["budgets", "--state-dir", str(folder), *arguments]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    return command


# --- the page ------------------------------------------------------------------------------


def test_the_page_of_the_documentation() -> None:
    (example,) = examples("how-to/what-to-write.md", "  vision/detector")
    assert example == shown(BOARD).rstrip("\n")


def test_those_with_gpu_memory_have_a_part_each_and_the_others_a_line() -> None:
    page = shown(BOARD)
    assert page.index("vision/detector") < page.index("vision/llm") < page.index("NO GPU MEMORY SEEN")
    lines = page.splitlines()
    # 1740 + 174 is up to 1920; 505 + 50.5 up to 576; both are 2496.
    start = next(number for number, line in enumerate(lines) if "vision/llm" in line)
    assert lines[start] == "? vision/llm (Deployment), container main"
    assert lines[start + 3].split() == ["GPU", "1.70", "GiB", "1.70", "GiB", "none", "1.88", "GiB"]
    assert lines[start + 4].split() == ["host", "505", "MiB", "505", "MiB", "none", "576", "MiB"]
    assert [line.strip() for line in lines[start + 5 : start + 7]] == [
        "write   edgeagent.dev/gpu-memory: 1920Mi",
        "memory: 2496Mi",
    ]
    # 30 + 32 is 62, up to 64; 170 − 64 is more than a quarter of 170.
    assert lines[-1].split()[-1] == "64Mi"
    assert max(map(len, lines)) <= 80


def test_over_its_budget_without_one_and_not_known_have_the_marks_of_explain() -> None:
    over = deployed("over", "a", 2 * GIB, MIB, limits={GPU_MEMORY: GIB})
    fits = deployed("fits", "a", GIB, MIB, limits={GPU_MEMORY: 2 * GIB})
    bare = deployed("bare", "a", GIB, MIB)
    page = shown(plan(over, fits, bare))
    assert [line[0] for line in page.splitlines() if "(Deployment)" in line] == ["?", " ", "!"]


def test_a_short_look_is_said() -> None:
    assert "Suspected: watched for 12 min only." in shown(BOARD, 12 * 60.0)
    assert "watched for 12 min" in shown(BOARD, 12 * 60.0)
    assert "watched for 5 h" in shown(BOARD, 5.5 * 3600)
    assert "watched for 47 h" in shown(BOARD, 47.9 * 3600)
    assert "watched for 3 days" in shown(BOARD)


def test_two_pools_have_a_line_each() -> None:
    held: dict[str, int | None] = {GPU_MEMORY: 640 * MIB, IGPU_MEMORY: 100 * MIB}
    page = shown(plan(view(by_pool=held, gpu=740 * MIB, host=505 * MIB), pools=MIXED))
    assert re.search(r"^  gpu-memory +640 MiB +640 MiB +none +704 MiB$", page, re.MULTILINE)
    assert re.search(r"^  igpu-memory +100 MiB +100 MiB +none +192 MiB$", page, re.MULTILINE)


def test_a_name_that_a_terminal_would_obey_is_made_harmless() -> None:
    page = shown(plan(view("x\x1b[31mred", MIB, owner=None)))
    assert "\x1b" not in page
    assert "\ufffd[31mred" in page


def test_what_is_not_known_is_said() -> None:
    page = shown(plan(view("odd", None, None, owner=None)))
    assert re.search(r"apps/odd \(Pod\), container main +unknown +unknown +none +unknown$", page, re.MULTILINE)


# --- the command ----------------------------------------------------------------------------


def test_json_is_what_the_api_tells(tmp_path: Path, run: Run) -> None:
    found = json.loads(run(kept(tmp_path, after(BOARD)), "--format", "json"))
    # Who lives now the file does not say.
    assert found == {"budgets": json.loads(json.dumps(advice.documents(advice.advice(after(BOARD), None))))}
    assert {tuple(one["pods"]) for one in found["budgets"]} == {()}


def test_a_namespace_can_be_asked_for(tmp_path: Path, run: Run) -> None:
    folder = kept(tmp_path, after(BOARD))
    found = json.loads(run(folder, "--namespace", "kube-system", "--format", "json"))["budgets"]
    assert [one["owner"]["name"] for one in found] == ["coredns"]
    assert run(folder, "--namespace", "none") == "nothing is known of any workload yet\n"
    assert "none live now" in run(folder, "--namespace", "vision")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "is not there"),
        ("{", "cannot be read"),
        ("[]", "it is not as this agent writes it"),
        ('{"format": 99, "host_root": "/", "machine_id": "a"}', "it is of another version"),
    ],
)
def test_a_file_that_cannot_be_used_is_exit_code_2_and_one_line(
    content: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / statefile.PEAKS).write_text(content)
    assert cli.main(["budgets", "--state-dir", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert str(tmp_path / statefile.PEAKS) in captured.err
    assert said in captured.err


@pytest.fixture
def silent(tmp_path: Path) -> list[str]:
    """Arguments for an agent that does not run."""
    (tmp_path / "config.yaml").write_text("mode: observe\n")
    return ["budgets", "--runtime-dir", str(tmp_path / "run"), "--config", str(tmp_path / "config.yaml")]


def test_without_an_agent_it_is_what_the_last_one_kept(
    silent: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = kept(tmp_path / "state", after(BOARD))
    with mock.patch.dict(os.environ, STATE_DIRECTORY=str(folder)):
        assert cli.main(silent) == 0
    captured = capsys.readouterr()
    assert "vision/llm" in captured.out
    assert captured.err.count("\n") == 1
    assert f"this is what the last one has kept in {folder}" in captured.err


def test_without_an_agent_and_without_a_file_it_says_both(
    silent: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with mock.patch.dict(os.environ, STATE_DIRECTORY=str(tmp_path / "state")):
        assert cli.main(silent) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    first, second = captured.err.splitlines()
    assert "no agent answers" in first
    assert "peaks.json: is not there" in second


def test_an_agent_that_was_named_and_does_not_answer_is_no_other(
    silent: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = kept(tmp_path / "state", after(BOARD))
    with mock.patch.dict(os.environ, STATE_DIRECTORY=str(folder)):
        # Port 9 of this machine: nobody listens there.
        assert cli.main([*silent, "--address", "127.0.0.1:9"]) == 2
    assert capsys.readouterr().out == ""
