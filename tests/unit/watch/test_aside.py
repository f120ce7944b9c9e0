"""The thread for readings that may hang."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from edgeagent.watch.aside import Aside


async def test_what_fails_after_the_patience_is_not_logged_as_never_asked_for() -> None:
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    aside, go_on = Aside("test"), threading.Event()

    def fails() -> None:
        go_on.wait()
        raise OSError("no such sensor")

    with pytest.raises(asyncio.TimeoutError):
        await aside.do(fails, 0.01)
    go_on.set()
    # The thread does one thing after the other: when this one is done, the other has failed.
    while True:
        try:
            assert await aside.do(lambda: 7, 10.0) == 7
            break
        except asyncio.TimeoutError:
            await asyncio.sleep(0.01)
    gc.collect()
    aside.close()
    assert said == []
