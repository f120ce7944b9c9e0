"""Accepts connections, so many at a time, each for a short time and one request: many of them cannot disturb the agent.

Whoever opens connections and says nothing, or says it byte by byte, only pushes out the oldest
of them: when all places are taken, a newcomer gets the place that was held longest. An honest
request is answered within milliseconds and needs its place no longer than that.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable

from edgeagent.serve.speaker import Speaker

PLACES = 64
"""Connections at a time, those in the TLS handshake included."""
LIFE = 10.0
"""Seconds that a connection may take from being accepted to the last byte of its answer."""
_BACKLOG = 128
_REST = 1.0
"""Seconds without accepting after the process ran out of descriptors."""
_UNSENT = 128 * 1024
"""Bytes of an answer that may wait in the kernel."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener:
    """A listening socket and the connections made through it.

    Args:
        speaker: makes what speaks on a new connection.
        tls: the server's side of TLS; None: plain.
        places: connections at a time.
        life: seconds for each.
    """

    def __init__(
        self,
        speaker: Callable[[], Speaker],
        *,
        tls: ssl.SSLContext | None = None,
        places: int = PLACES,
        life: float = LIFE,
    ) -> None:
        self._speaker = speaker
        self._tls = tls
        self._places = places
        self._life = life
        self._socket: socket.socket | None = None
        self._resume: asyncio.TimerHandle | None = None
        self._seated: dict[asyncio.Task[None], None] = {}
        """Connections that hold a place, in the order they came."""
        self._tasks: dict[asyncio.Task[None], socket.socket] = {}
        """All connections, those included that lost their place and are about to end."""

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address that it became, with the real port where ``port`` is 0.

        Raises:
            OSError: the address is in use, not of this machine, or a name that nobody knows.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.settimeout(0)
            listening.bind(address)
            listening.listen(_BACKLOG)
        except OSError:
            listening.close()
            raise
        self._socket = listening
        loop.add_reader(listening, self._accept)
        name = listening.getsockname()
        return str(name[0]), int(name[1])

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._resume is not None:
            self._resume.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self) -> None:
        """Take what waits, at most as much as there are places: the loop has other work too."""
        for _ in range(self._places):
            if self._socket is None:
                return
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._rest(self._socket)
                return
            self._seat(accepted)

    def _rest(self, listening: socket.socket) -> None:
        """The socket stays readable, so without a pause the loop would do nothing else."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        self._resume = loop.call_later(_REST, loop.add_reader, listening, self._accept)

    def _seat(self, accepted: socket.socket) -> None:
        accepted.settimeout(0)
        # Else the kernel takes up megabytes for a client that does not read, and calls it sent.
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNSENT)
        if len(self._seated) >= self._places:
            oldest = next(iter(self._seated))
            del self._seated[oldest]
            oldest.cancel()
        task = asyncio.get_running_loop().create_task(self._hold(accepted))
        self._seated[task] = None
        self._tasks[task] = accepted
        task.add_done_callback(self._leave)

    def _leave(self, task: asyncio.Task[None]) -> None:
        self._seated.pop(task, None)
        # A task that was cancelled before its first step had no chance to close it.
        self._tasks.pop(task).close()

    async def _hold(self, accepted: socket.socket) -> None:
        """One connection from its first to its last moment."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._life
        speaker = self._speaker()
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: speaker, accepted, ssl=self._tls, ssl_handshake_timeout=self._life if self._tls else None
            )
        except OSError:
            return  # it went away, does not speak TLS, or is too slow to
        try:
            ends = [speaker.over, speaker.staying]
            done, _ = await asyncio.wait(ends, timeout=end - loop.time(), return_when=asyncio.FIRST_COMPLETED)
            if not done:
                speaker.late()
            elif not speaker.over.done():
                await self._stay(speaker)
        finally:
            speaker.cut()
            transport.abort()

    async def _stay(self, speaker: Speaker) -> None:
        """A stream takes no place from others. After its end the client has the usual time to take the rest of it."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 (this is one)
        self._seated.pop(task, None)
        await asyncio.wait([speaker.over, speaker.leaving], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([speaker.over], timeout=self._life)
