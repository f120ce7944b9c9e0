"""The exceptions that edgeagent raises on purpose; everything else is a bug."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class EdgeAgentError(Exception):
    """Base of all; its text is a sentence for the operator."""


class InputError(EdgeAgentError):
    """Unreadable input or wrong usage: exit code 2, one line per problem.

    Attributes:
        problems: one sentence each, naming file and place.
    """

    def __init__(self, problems: Sequence[str] | str) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems))


class ConfigError(InputError):
    """A configuration that cannot be used; lists every problem, not the first."""


class ReadingError(EdgeAgentError):
    """A file or a library did not give a plausible value; the reading is unknown, never zero."""


class AlreadyRunningError(EdgeAgentError):
    """Another instance holds the lock of this node: exit code 75."""


class ClusterError(EdgeAgentError):
    """The API server could not be asked, or refused."""


class UnreachableError(ClusterError):
    """No answer: connection refused, time-out or a connection cut in the middle.

    A request may have been carried out all the same; never repeat an eviction on it blindly.
    """


class AnswerError(ClusterError):
    """The API server answered with an error status.

    Attributes:
        code: HTTP status.
        reason: the Status object's reason, "" when there is none.
        message: the Status object's message or the start of the body.
        causes: the reasons in ``details.causes``.
        retry_after: seconds to wait, as the answer says and five minutes at most; None when absent.
    """

    def __init__(
        self,
        code: int,
        *,
        reason: str = "",
        message: str = "",
        causes: Sequence[str] = (),
        retry_after: float | None = None,
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = tuple(causes)
        self.retry_after = retry_after
        super().__init__(f"HTTP {code} {reason}: {message[:256]}")


class NoCredentialsError(ClusterError):
    """No credentials that can be used: none are there, or those that are cannot be."""


class NothingFoundError(NoCredentialsError):
    """No credentials are there at all; the agent runs standalone."""
