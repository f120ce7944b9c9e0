"""Log lines as they reach their reader, and what happens when nobody reads."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import re
from collections.abc import Iterator

import pytest

from edgeagent.system import logs
from edgeagent.system.logs import LIMIT, Logs


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Leave the root logger as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe of the smallest size, 4096 bytes."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    yield reading, writing
    for end in (reading, writing):
        with contextlib.suppress(OSError):
            os.close(end)


def stream(descriptor: int) -> dict[str, str]:
    told = os.fstat(descriptor)
    return {"JOURNAL_STREAM": f"{told.st_dev}:{told.st_ino}"}


def rest(pipe: tuple[int, int]) -> str:
    """Everything in the pipe, once nobody else writes to it."""
    os.close(pipe[1])
    with open(pipe[0], encoding="utf-8", closefd=False) as file:
        return file.read()


def start(pipe: tuple[int, int], **environ: str) -> tuple[Logs, logging.Logger]:
    return logs.start("DEBUG", environ, descriptor=pipe[1]), logging.getLogger("edgeagent.test")


def test_journald_gets_priorities(pipe: tuple[int, int]) -> None:
    writer, log = start(pipe, **stream(pipe[1]))
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        log.log(level, "level %d", level)
    writer.finish()

    # syslog(3): 2 critical, 3 error, 4 warning, 6 informational, 7 debug
    assert rest(pipe).splitlines() == ["<7>level 10", "<6>level 20", "<4>level 30", "<3>level 40", "<2>level 50"]


@pytest.mark.parametrize("told", ["", "1:2"], ids=["not set", "another stream's"])
def test_elsewhere_lines_have_time_and_level(pipe: tuple[int, int], told: str) -> None:
    writer, log = start(pipe, JOURNAL_STREAM=told)
    log.warning("usable memory is low")
    writer.finish()

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ WARNING usable memory is low\n", rest(pipe))


def test_every_line_of_a_traceback_has_its_priority(pipe: tuple[int, int]) -> None:
    writer, log = start(pipe, **stream(pipe[1]))
    try:
        int("odd\n<0>forged")
    except ValueError as error:
        error.args = ("odd\n<0>forged",)
        log.exception("failed")
    writer.finish()

    lines = rest(pipe).splitlines()
    assert lines[0] == "<3>failed"
    assert "<3><0>forged" in lines
    assert all(line.startswith("<3>") for line in lines)


def test_control_characters_do_not_reach_the_terminal(pipe: tuple[int, int]) -> None:
    writer, log = start(pipe, **stream(pipe[1]))
    log.info("pod %s", "\x1b[2J\x07\x9b1mname\r\udcff")
    writer.finish()

    assert rest(pipe) == "<6>pod \\x1b[2J\\x07\\x9b1mname\\x0d\\udcff\n"


def test_repeated_lines_are_collapsed(pipe: tuple[int, int]) -> None:
    writer, log = start(pipe, **stream(pipe[1]))
    for _ in range(100):
        log.warning("the API server does not answer")
    log.error("the API server does not answer")
    writer.finish()

    assert rest(pipe).splitlines() == [
        "<4>the API server does not answer",
        "<3>the API server does not answer",
        "<4>the API server does not answer (came 99 more times)",
    ]


@pytest.mark.parametrize("blocking", [True, False])
def test_a_pipe_that_is_not_read_blocks_nobody_and_losses_are_said(
    pipe: tuple[int, int],
    blocking: bool,  # noqa: FBT001
) -> None:
    os.write(pipe[1], b"." * 4095 + b"\n")  # the pipe is full
    os.set_blocking(pipe[1], blocking)
    writer, log = start(pipe, **stream(pipe[1]))

    async def work() -> None:
        for number in range(2 * LIMIT):
            log.info("line %d", number)

    asyncio.run(work())
    lost = writer.lost

    # LIMIT wait in the queue, and one more if the thread has it in its hands already. All of the process that logs goes
    # there, a thread that another test has left too.
    assert LIMIT - 1 <= lost <= LIMIT + 5
    writer.finish(0.1)
    said = [int(count) for count in re.findall(r"^<4>(\d+) log lines were lost$", rest(pipe), re.MULTILINE)]
    assert lost <= sum(said) <= LIMIT + 5
    assert len(said) <= 2, "what was lost before the thread began, and after"


def test_a_reader_that_is_gone_ends_nothing(pipe: tuple[int, int]) -> None:
    writer, log = start(pipe)
    os.close(pipe[0])
    for number in range(5):
        log.info("line %d", number)
    writer.finish()

    assert writer.lost == 5


def test_arguments_that_do_not_fit_their_message_are_told(pipe: tuple[int, int]) -> None:
    writer, log = start(pipe, **stream(pipe[1]))
    log.info("%d pods", "many")
    writer.finish()

    assert re.fullmatch(r"<6>a log line of .*test_logs\.py:\d+ cannot be formatted: '%d pods'\n", rest(pipe))


def test_other_handlers_are_replaced_and_the_level_holds(pipe: tuple[int, int]) -> None:
    logging.getLogger().addHandler(logging.NullHandler())
    writer = logs.start("WARNING", {}, descriptor=pipe[1])
    logging.getLogger("aiohttp").info("chatter")
    writer.finish()

    assert logging.getLogger().handlers == [writer]
    assert rest(pipe) == ""
