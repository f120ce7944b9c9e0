"""What there is to see, again and again: an agent's state, or the board's where no agent answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from edgeagent.console.client import Endpoint, NoAnswerError
from edgeagent.console.frame import View
from edgeagent.errors import EdgeAgentError

NO_AGENT = "no agent answers, so the board itself is read, and nobody acts"


class Watcher:
    """Looks once when it is asked to, or in a thread of its own until it is stopped.

    Args:
        find: the agent's endpoint, anew each time: an agent that is started again may have another port.
        board: the state of the board itself; None: it is another machine's, so only its agent can tell.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        find: Callable[[], Endpoint],
        board: Callable[[], dict[str, Any]] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._board = board
        self._clock = clock
        self._last: tuple[dict[str, Any], str, float] | None = None
        self._stopped = threading.Event()

    def look(self) -> View:
        """What there is now. An agent that has answered once and does not now is shown as it was, and as not current.

        Raises:
            EdgeAgentError: there is nothing to show: neither now nor from before.
        """
        try:
            endpoint = self._find()
            state = endpoint.state()
        except NoAnswerError as error:
            if self._board is not None:
                return View(state=self._board(), source="", agent=False, trouble=f"{NO_AGENT}: {error}")
            return self._before(error)
        except EdgeAgentError as error:
            return self._before(error)
        self._last = (state, endpoint.address, self._clock())
        return View(state=state, source=endpoint.address, agent=True)

    def _before(self, error: EdgeAgentError) -> View:
        if self._last is None:
            raise error
        state, address, at = self._last
        return View(state=state, source=address, agent=True, trouble=str(error), age=self._clock() - at)

    def follow(self, seconds: float, show: Callable[[View | Exception], None]) -> None:
        """Look each ``seconds`` and ``show`` what is seen, or what it fails with, after which it ends."""

        def turn() -> None:
            while not self._stopped.is_set():
                try:
                    show(self.look())
                except Exception as error:  # noqa: BLE001 (whatever it is, the thread that draws has to raise it)
                    show(error)
                    return
                self._stopped.wait(seconds)

        # It may hang in a reading, and must not keep the process from ending.
        threading.Thread(target=turn, name="look", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
