"""Messages to systemd, as its end of the socket receives them."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent.system.notify import Notifier


@pytest.fixture(params=["path", "abstract"])
def listening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A socket as systemd would listen on, and how NOTIFY_SOCKET names it."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@edgeagent-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name.replace("@", "\0", 1))
        receiver.settimeout(5)
        yield receiver, name


def test_each_message_is_one_datagram(listening: tuple[socket.socket, str]) -> None:
    receiver, name = listening
    notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "15000000"})

    sent = [
        notifier.ready("jetson, edgeagent.dev/gpu-memory 6083Mi"),
        notifier.ready("two\nlines  become one"),
        notifier.alive(),
        notifier.watch_every(40.5),
        notifier.stopping(),
    ]

    assert sent == [True] * 5
    assert [receiver.recv(4096).decode() for _ in sent] == [
        "READY=1\nSTATUS=jetson, edgeagent.dev/gpu-memory 6083Mi",
        "READY=1\nSTATUS=two lines become one",
        "WATCHDOG=1",
        "WATCHDOG_USEC=40500000",
        "STOPPING=1",
    ]
    assert notifier.watchdog == 40.5
    notifier.close()


def test_the_line_of_status_is_sent_when_it_changes(listening: tuple[socket.socket, str]) -> None:
    receiver, name = listening
    notifier = Notifier({"NOTIFY_SOCKET": name})

    lines = ("jetson, no capacity", "jetson, no capacity", "jetson, 1Mi", "jetson, 1Mi")
    sent = [notifier.ready(lines[0]), *map(notifier.status, lines)]
    notifier.stopping()

    assert sent == [True, False, False, True, False]
    told = [receiver.recv(4096).decode() for _ in range(3)]
    assert told == ["READY=1\nSTATUS=jetson, no capacity", "STATUS=jetson, 1Mi", "STOPPING=1"]
    notifier.close()


def test_a_reload_says_since_when(listening: tuple[socket.socket, str]) -> None:
    receiver, name = listening
    notifier = Notifier({"NOTIFY_SOCKET": name})

    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    notifier.reloading()
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000

    first, second = receiver.recv(4096).decode().split("\n")
    key, _, value = second.partition("=")
    assert (first, key) == ("RELOADING=1", "MONOTONIC_USEC")
    assert before <= int(value) <= after
    notifier.close()


@pytest.mark.parametrize("name", ["", "vsock:2:1234", "relative"])
def test_without_a_socket_nothing_is_said(name: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000000"})

    assert not any([notifier.ready("x"), notifier.reloading(), notifier.alive(), notifier.stopping()])


def test_a_socket_that_nobody_reads_blocks_nothing(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})

        # net.unix.max_dgram_qlen is 10 by default and never so large.
        taken = [notifier.ready("x") for _ in range(10_000)]

        assert taken[0]
        assert not taken[-1]
        notifier.close()


def test_a_manager_that_is_gone_is_no_error(tmp_path: Path) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")})

    assert notifier.ready() is False
    notifier.close()


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({"WATCHDOG_USEC": "15000000"}, 15.0),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, 0.5),
        ({"WATCHDOG_USEC": "15000000", "WATCHDOG_PID": str(os.getppid())}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
    ids=["set", "for us", "for another process", "off", "odd", "unset"],
)
def test_the_watchdog_limit(environ: dict[str, str], seconds: float | None) -> None:
    assert Notifier(environ).watchdog == seconds


def test_no_ping_unless_systemd_watches(listening: tuple[socket.socket, str]) -> None:
    _, name = listening
    notifier = Notifier({"NOTIFY_SOCKET": name})

    assert notifier.alive() is False
    notifier.close()
