"""``edgeagent history``: for people and for programs, whatever the files look like."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from edgeagent import cli
from edgeagent.plan.describing import stamp
from edgeagent.quantity import GIB, MIB
from edgeagent.system import dirs, journal
from tests.unit.plan.test_history import NAME, decision, outcome, owed, row, told


def keep(folder: Path, *lines: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    assert journal.append(folder, [journal.encoded(line) for line in lines]).problem == ""
    return folder


def history(folder: Path, *arguments: str) -> int:
    return cli.main(["history", "--state-dir", str(folder), *arguments])


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(folder: Path, *arguments: str) -> str:
        assert history(folder, *arguments) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    return run


def test_a_page_says_who_how_much_since_when_what_was_done_and_what_came_back(tmp_path: Path, shown: Any) -> None:
    out = shown(keep(tmp_path, decision(), owed(), outcome(), told()))
    assert out == (
        "2026-11-30 08:00:00 UTC  EVICTION  apps/greedy\n"
        "  used    2.00 GiB of GPU memory, budget 1.00 GiB, 1.00 GiB too much, for 15 s\n"
        "  why     because\n"
        "  grace   30 s to end by itself\n"
        "  then    +0.2 s the API server accepted the eviction\n"
        "          +12.0 s the processes that held its memory are gone; usable 1.00 GiB →\n"
        "          3.00 GiB\n"
        "  event   MemoryBudgetEvicted: told at 2026-11-30 09:00:00 UTC\n"
        "\n"
        "  pod 1   apps/greedy, breach, budget 1.00 GiB\n"
        "     seconds     usable fall per s      1 GPU     1 host\n"
        "        −1.0   1.00 GiB      0 MiB   2.00 GiB    unknown\n"
        "        +0.0   1.00 GiB      0 MiB   2.00 GiB      0 MiB\n"
        "       +12.0   3.00 GiB      0 MiB          -          -\n"
        "  The floor is 128 MiB.\n"
    )


def test_the_latest_comes_last_with_a_blank_line_between(tmp_path: Path, shown: Any) -> None:
    out = shown(keep(tmp_path, decision(id="a", reason="first"), decision(id="b", reason="second")))
    assert out.index("first") < out.index("second")
    assert "\n\n2026-11-30 08:00:00 UTC" in out


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([decision()], "what came of it is not known: the agent ended before it could write that down, or it goes on"),
        ([decision(), owed()], "MemoryBudgetEvicted: not told yet"),
        ([decision(), owed(), told("refused")], "MemoryBudgetEvicted: the API server does not take it"),
        ([decision(), outcome(ended="time", t=60.2)], "+60.2 s its memory was not back; usable 1.00 GiB → 3.00 GiB"),
        ([decision(), outcome(ended="time", t=60.0, outcomes=[])], "+60.0 s no answer had come, or no call was made"),
        ([decision(), outcome(ended="stopped")], "the agent was told to end, and looked no further"),
        ([decision(wall_plausible=False)], "2026-11-30 08:00:00 UTC (the clock was not set)  EVICTION"),
        ([decision(left_out=7)], "7 more were not kept: too many in an hour"),
        ([decision(place=2, places=3)], "number 2 of 3 over their budget"),
        ([decision(breach="unbudgeted", budget_bytes=None, excess_bytes=None)], "2.00 GiB of memory, no budget, for"),
        ([decision(used_bytes=None, over_since=None)], "unknown of GPU memory, budget 1.00 GiB, 1.00 GiB too much\n"),
        ([decision(pod={**NAME, "owner": {"kind": "Job", "name": "j"}})], "EVICTION  apps/greedy of Job j"),
        (
            [decision(kind="would-evict", mode="observe"), outcome(ended="time", t=60.0, outcomes=[])],
            "nothing was done",
        ),
        ([decision(kind="nobody", pod=None, breach=None)], "NOBODY KILLED\n  why"),
    ],
)
def test_what_is_known_and_what_is_not_is_said(
    lines: list[dict[str, Any]], said: str, tmp_path: Path, shown: Any
) -> None:
    assert said in " ".join(shown(keep(tmp_path, *lines)).split(" ")).replace("\n          ", " ")


def test_an_excess_says_of_what_it_is(tmp_path: Path, shown: Any) -> None:
    """2 GiB of the GPU where 1 may be used, and 3 too much of both kinds: the 3 are not of GPU memory."""
    out = shown(keep(tmp_path, decision(excess_bytes=3 * GIB))).replace("\n          ", " ")
    assert "2.00 GiB of GPU memory, budget 1.00 GiB, 3.00 GiB too much with host memory, for 15 s" in out
    both = shown(keep(tmp_path / "shared", decision(breach="shared", excess_bytes=GIB // 2)))
    assert "512 MiB too much, for 15 s" in both.replace("\n          ", " ")


def test_what_a_pod_used_may_not_be_known(tmp_path: Path, shown: Any) -> None:
    given = decision(breach="unbudgeted", used_bytes=None, budget_bytes=None, excess_bytes=None)
    assert "  used    unknown of memory, no budget, for 15 s\n" in shown(keep(tmp_path, given))


def test_an_event_that_was_one_too_many_is_not_said_to_be_told(tmp_path: Path, shown: Any) -> None:
    out = shown(keep(tmp_path, decision(), owed(), told("dropped")))
    assert "  event   MemoryBudgetEvicted: not told, too many were to be told\n" in out


def test_a_kill_names_the_processes(tmp_path: Path, shown: Any) -> None:
    ended = {"t": 0.0, "outcome": "killed", "message": "", "pids": [17, 18], "more_pids": 3}
    left = {"t": 0.0, "outcome": "refused", "message": "Operation not permitted", "pids": [19], "more_pids": 0}
    out = shown(keep(tmp_path, decision(kind="kill", pids=[17, 18, 19]), outcome(outcomes=[ended, left])))
    assert "KILL  apps/greedy" in out
    assert "+0.0 s killed (processes 17, 18 and 3 more)" in out
    joined = out.replace("\n          ", " ")
    assert "could not be read (processes 19): Operation not permitted" in joined


def test_figures_that_were_read_long_before_their_row_are_marked(tmp_path: Path, shown: Any) -> None:
    old = {**row(0.0, GIB, [2 * GIB, 5 * MIB]), "pods_t": -30.0}
    out = shown(keep(tmp_path, decision(before=[old])))
    assert "2.00 GiB*     5 MiB*" in out
    assert "* who holds what was read more than 10 s before." in out


def test_no_line_is_wider_than_80_columns_and_a_long_table_is_shortened(tmp_path: Path, shown: Any) -> None:
    long = {**NAME, "name": "b" * 60}
    pods = [{**decision()["pods"][0], **long, "uid": str(number)} for number in range(6)]
    rows = [row(float(number - 19), GIB, *[[number * MIB, None]] * 6) for number in range(20)]
    out = shown(keep(tmp_path, decision(pod=long, pods=pods, before=rows, more_pods=104)))
    assert max(len(line) for line in out.splitlines()) <= 80
    # Two pods have room; four of the record are left, and 104 were never in it.
    assert "and 108 more on the board" in out
    assert "−19.0" in out
    assert "+0.0" in out
    assert sum("MiB    unknown" in line for line in out.splitlines()) == 6


def test_names_cannot_drive_the_terminal(tmp_path: Path, shown: Any) -> None:
    name = {**NAME, "name": "a\x1b[2Jb\nEVICTION  x/y\u202e"}
    out = shown(keep(tmp_path, decision(pod=name, reason="\x1b]0;title\x07")))
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert sum("EVICTION" in line for line in out.splitlines()) == 1


def test_ascii_alone_where_the_locale_has_nothing_else(
    tmp_path: Path, shown: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("locale.nl_langinfo", lambda _: "ANSI_X3.4-1968")
    out = shown(keep(tmp_path, decision(pod={**NAME, "name": "größer"}), outcome()))
    assert out.isascii()
    assert "1.00 GiB > 3.00 GiB" in out.replace("\n          ", " ")


# --- which -----------------------------------------------------------------------------


def ids(out: str) -> list[str]:
    return [json.loads(line)["id"] for line in out.splitlines()]


def test_json_is_one_incident_a_line(tmp_path: Path, shown: Any) -> None:
    out = shown(keep(tmp_path, decision(), outcome(), decision(id="two")), "--format", "json")
    assert ids(out) == ["one", "two"]
    first, second = (json.loads(line) for line in out.splitlines())
    assert (first["format"], first["ended"], second["ended"]) == (1, {"t": 12.0, "why": "back"}, None)


def test_the_last_of_one_pod_since_a_time(tmp_path: Path, shown: Any) -> None:
    other = {**NAME, "namespace": "other"}
    now = time.time()

    def ago(hours: float) -> str:
        return stamp(now - 3600 * hours)

    keep(
        tmp_path,
        decision(id="unset", wall="1970-01-01T00:00:12.000Z", wall_plausible=False),
        decision(id="old", wall=ago(50)),
        decision(id="other", wall=ago(5), pod=other),
        decision(id="nobody", kind="nobody", wall=ago(4), pod=None, breach=None),
        decision(id="new", wall=ago(1)),
    )
    json_of = ("--format", "json")
    assert ids(shown(tmp_path, *json_of)) == ["unset", "old", "other", "nobody", "new"]
    # When the clock was not set nobody knows how long ago it was, so it is shown.
    assert ids(shown(tmp_path, "--since", "2h", *json_of)) == ["unset", "new"]
    assert ids(shown(tmp_path, "--since", "3d", *json_of)) == ["unset", "old", "other", "nobody", "new"]
    assert ids(shown(tmp_path, "--since", "270min", *json_of)) == ["unset", "nobody", "new"]
    assert ids(shown(tmp_path, "--since", ago(4.5), *json_of)) == ["unset", "nobody", "new"]
    assert ids(shown(tmp_path, "--since", ago(4.5)[:16], *json_of)) == ["unset", "nobody", "new"]  # UTC
    assert ids(shown(tmp_path, "--pod", "apps/greedy", *json_of)) == ["unset", "old", "new"]
    assert ids(shown(tmp_path, "--last", "2", *json_of)) == ["nobody", "new"]
    assert ids(shown(tmp_path, "--pod", "apps/greedy", "--last", "1", *json_of)) == ["new"]


def test_nothing_to_show_is_a_line_and_no_error(tmp_path: Path, shown: Any) -> None:
    assert shown(tmp_path) == f"no incident is kept in {tmp_path}\n"
    assert shown(tmp_path, "--format", "json") == ""
    keep(tmp_path, decision())
    assert shown(tmp_path, "--pod", "a/b") == f"no such incident is kept in {tmp_path}\n"


def test_the_state_directory_of_the_service_is_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path, decision())
    monkeypatch.setenv("STATE_DIRECTORY", f"{tmp_path}:/elsewhere")
    assert cli.main(["history", "--format", "json"]) == 0
    assert ids(capsys.readouterr().out) == ["one"]


# --- what cannot be read ---------------------------------------------------------------


def test_lines_that_cannot_be_used_are_counted_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path, decision(), decision(format=2), decision(format=3), decision(kind="odd"))
    with (tmp_path / journal.NAME).open("ab") as file:
        file.write(b'{"format": 1, "line": "out')
    assert history(tmp_path, "--format", "json") == 0
    captured = capsys.readouterr()
    assert ids(captured.out) == ["one"]
    assert captured.err == (
        f"edgeagent: {tmp_path}: 2 lines are not whole, or not as this version writes them\n"
        f"edgeagent: {tmp_path}: 2 lines are of another version of edgeagent\n"
    )


@pytest.mark.parametrize("place", ["none", "file"])
def test_a_directory_that_is_none_is_one_line_and_exit_code_2(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert history(tmp_path / place) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"edgeagent: {tmp_path / place}: is no directory; another one can be given with --state-dir\n"
    )


@pytest.mark.parametrize("place", [".", journal.NAME])
def test_what_may_not_be_read_is_one_line_and_exit_code_2(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Played, since the tests may run as root, who may read everything."""
    keep(tmp_path, decision())
    refused = PermissionError(13, "Permission denied", str(tmp_path / place))

    def refuse(path: Any, *arguments: Any, **more: Any) -> Any:
        if Path(path) == tmp_path / place:
            raise refused
        return before(path, *arguments, **more)

    name = "os.scandir" if place == "." else "edgeagent.system.dirs.opened"
    before = os.scandir if place == "." else dirs.opened
    monkeypatch.setattr(name, refuse)
    assert history(tmp_path) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"edgeagent: {tmp_path / place}: Permission denied; run it as root\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--since", "yesterday"], "expected 2h, 3d or a time such as 2026-11-30T08:00Z"),
        (["--since", "-1h"], "argument"),
        (["--since", "1w"], "expected 2h, 3d or a time"),
        (["--pod", "greedy"], "expected NAMESPACE/NAME"),
        (["--pod", "a/b/c"], "expected NAMESPACE/NAME"),
        (["--last", "0"], "expected a whole number above 0"),
        (["--last", "many"], "expected a whole number above 0"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        history(tmp_path, *arguments)
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert said in captured.err


def test_a_line_with_absurd_figures_is_counted_and_costs_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = json.loads('"\\ud800"')
    keep(
        tmp_path,
        decision(id="before"),
        *(decision(**{key: 10**400}) for key in ("used_bytes", "over_since", "seconds", "grace_seconds", "left_out")),
        decision(place=2, places=10**400),
        outcome(id="before", t=10**400),
        decision(reason=half),
        decision(pod={**NAME, "namespace": half}),
        decision(wall="9999-12-31T23:59:59.999-2359"),
        decision(wall="0001-01-01T00:00:00.0+0000"),
        decision(id="after"),
    )
    for arguments in ([], ["--since", "2h"], ["--pod", "apps/greedy"]):
        assert history(tmp_path, "--format", "text", *arguments) == 0
        assert "11 lines are not whole" in capsys.readouterr().err
    assert history(tmp_path, "--format", "json") == 0
    assert ids(capsys.readouterr().out) == ["before", "after"]


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_is_no_file_is_one_line_and_exit_code_2(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind == "pipe":
        os.mkfifo(tmp_path / journal.NAME)
    else:
        (tmp_path / journal.NAME).symlink_to(tmp_path / "elsewhere")
    assert history(tmp_path) == 2
    said = {"pipe": "no regular file", "link": "Too many levels of symbolic links"}[kind]
    assert capsys.readouterr().err == f"edgeagent: {tmp_path / journal.NAME}: {said}\n"
