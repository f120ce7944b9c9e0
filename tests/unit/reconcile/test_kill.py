"""Signals to real processes, all of them children of the test."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeagent.host.disk import RootFiles
from edgeagent.plan.types import Kill, KillResult
from edgeagent.reconcile.kill import Killer
from tests.unit.reconcile.living import CONTAINER, UID, Board, child, in_pod, start_ticks


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    with child() as started:
        yield started


def kill_of(*processes: subprocess.Popen[bytes], **changes: Any) -> Kill:
    """A kill that was decided on just now."""
    given = Kill(
        uid="uid-a",
        processes=tuple((one.pid, start_ticks(one.pid)) for one in processes),
        message="",
        key="apps/a",
        cgroup_uid=UID,
        containers=frozenset({CONTAINER}),
        read_at=time.monotonic(),
    )
    return replace(given, **changes)


def killed(files: RootFiles, kill: Kill) -> KillResult:
    try:
        return Killer(files, clock=time.monotonic).kill(kill)
    finally:
        files.close()


def outcomes(result: KillResult) -> list[str]:
    return [outcome for _, outcome in result.outcomes]


def alive(one: subprocess.Popen[bytes]) -> bool:
    """Whether it is still there a moment later: a signal that was sent takes effect well before."""
    try:
        one.wait(0.1)
    except subprocess.TimeoutExpired:
        return True
    return False


def test_the_process_that_was_meant_is_killed(victim: subprocess.Popen[bytes]) -> None:
    result = killed(in_pod(victim.pid), kill_of(victim))
    assert (result.uid, outcomes(result), result.message) == ("uid-a", ["killed"], "")
    assert victim.wait(10) == -signal.SIGKILL


def test_all_of_a_pod_and_no_other_process(victim: subprocess.Popen[bytes]) -> None:
    with child() as second, child() as bystander:
        files = in_pod(victim.pid, second.pid, bystander.pid)
        assert outcomes(killed(files, kill_of(victim, second))) == ["killed", "killed"]
        assert (victim.wait(10), second.wait(10)) == (-signal.SIGKILL, -signal.SIGKILL)
        assert alive(bystander)


def test_another_start_time_is_another_process(victim: subprocess.Popen[bytes]) -> None:
    """As after the end of the one that was meant, when its pid was given to the next."""
    start = start_ticks(victim.pid)
    result = killed(in_pod(victim.pid), kill_of(victim, processes=((victim.pid, start - 1),)))
    assert outcomes(result) == ["changed"]
    assert result.message == f"it began at tick {start}, not at {start - 1}"
    assert alive(victim)


def test_the_start_time_is_read_after_the_process_is_held(
    victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read before, it would be that of a process which may end before the pidfd is opened."""
    order = []

    class Watched(Board):
        def read(self, path: str, **options: Any) -> bytes:
            order.append(path)
            return super().read(path, **options)

    opened = os.pidfd_open

    def noted(pid: int) -> int:
        order.append("pidfd")
        return opened(pid)

    monkeypatch.setattr(os, "pidfd_open", noted)
    files = Watched({f"proc/{victim.pid}/cgroup": in_pod(victim.pid).entries[f"proc/{victim.pid}/cgroup"]})
    assert outcomes(killed(files, kill_of(victim))) == ["killed"]
    assert order.index("pidfd") < order.index(f"proc/{victim.pid}/stat")


def test_a_process_that_has_ended_is_gone(victim: subprocess.Popen[bytes]) -> None:
    kill = kill_of(victim)
    victim.kill()
    victim.wait()
    assert outcomes(killed(in_pod(victim.pid), kill)) == ["gone"]


@pytest.mark.parametrize(
    "changes",
    [
        {"cgroup_uid": UID.replace("1", "9")},
        {"containers": frozenset({"b" * 64})},
        {"containers": frozenset()},
    ],
)
def test_another_pod_or_container_is_not_what_was_meant(
    victim: subprocess.Popen[bytes], changes: dict[str, Any]
) -> None:
    assert outcomes(killed(in_pod(victim.pid), kill_of(victim, **changes))) == ["changed"]
    assert alive(victim)


def test_a_process_outside_of_all_pods_is_not_what_was_meant(victim: subprocess.Popen[bytes]) -> None:
    """With nothing made up: the child is in the cgroup of the test."""
    assert outcomes(killed(RootFiles(Path("/")), kill_of(victim))) == ["changed"]
    assert alive(victim)


def test_what_cannot_be_checked_is_not_killed(victim: subprocess.Popen[bytes]) -> None:
    unreadable = Board({f"proc/{victim.pid}/cgroup": b""})
    assert outcomes(killed(unreadable, kill_of(victim))) == ["refused"]
    no_start = Board({**in_pod(victim.pid).entries, f"proc/{victim.pid}/stat": b"nonsense"})
    assert outcomes(killed(no_start, kill_of(victim))) == ["refused"]
    assert alive(victim)


def test_a_decision_that_is_a_second_old_is_not_carried_out(victim: subprocess.Popen[bytes]) -> None:
    kill = kill_of(victim, read_at=time.monotonic() - 1.01)
    assert outcomes(killed(in_pod(victim.pid), kill)) == ["stale"]
    assert alive(victim)


def test_a_plain_kill_matches_no_process(victim: subprocess.Popen[bytes]) -> None:
    """Whoever forgets to say what has to be checked kills nobody."""
    bare = Kill(uid="uid-a", processes=((victim.pid, start_ticks(victim.pid)),), message="")
    assert outcomes(killed(in_pod(victim.pid), bare)) == ["changed"]
    assert alive(victim)


# --- where nothing is ever sent ------------------------------------------------------


def test_a_tree_of_files_is_no_machine(victim: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """It names a process that exists here, with its start time and in the right pod."""
    folder = tmp_path / "proc" / str(victim.pid)
    folder.mkdir(parents=True)
    for name in ("stat", "cgroup"):
        (folder / name).write_bytes(in_pod(victim.pid).read(f"proc/{victim.pid}/{name}"))
    result = killed(RootFiles(tmp_path), kill_of(victim))
    assert (outcomes(result), "driven from files" in result.message) == (["not-procfs"], True)
    assert alive(victim)


def test_a_kernel_without_pidfd(victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux 4.9 of JetPack 4 answers ENOSYS, and there is no fallback to kill(2)."""

    def missing(_pid: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(os, "pidfd_open", missing)
    result = killed(in_pod(victim.pid), kill_of(victim))
    assert (outcomes(result), "5.3" in result.message) == (["no-pidfd"], True)
    assert alive(victim)


@pytest.mark.parametrize(("module", "name"), [(os, "pidfd_open"), (signal, "pidfd_send_signal")])
def test_a_python_without_pidfd(
    victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    monkeypatch.delattr(module, name)
    assert outcomes(killed(in_pod(victim.pid), kill_of(victim))) == ["no-pidfd"]
    assert alive(victim)


def test_a_signal_that_is_not_allowed(victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CAP_KILL the processes of other users are out of reach."""

    def refused(_descriptor: int, _number: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(signal, "pidfd_send_signal", refused)
    result = killed(in_pod(victim.pid), kill_of(victim))
    assert (outcomes(result), result.message) == (["refused"], "Operation not permitted")
    assert alive(victim)


def test_no_descriptor_is_left_open(victim: subprocess.Popen[bytes]) -> None:
    files = in_pod(victim.pid)
    killer = Killer(files, clock=time.monotonic)
    wrong = kill_of(victim, processes=((victim.pid, 1),))
    killer.kill(wrong)
    before = sorted(Path("/proc/self/fd").iterdir())
    for _ in range(50):
        killer.kill(replace(wrong, read_at=time.monotonic()))
    assert sorted(Path("/proc/self/fd").iterdir()) == before
    files.close()
