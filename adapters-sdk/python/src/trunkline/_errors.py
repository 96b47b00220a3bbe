"""Errors of the client, the same on every transport, and the tables that decide which of them end a session."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any

PERMANENT_EXITS = frozenset({2, 126, 127})
"""Exit statuses of a command that no retry changes: wrong arguments or configuration, not executable, not found."""
REASONS = {
    "unknown": 404,
    "gone": 410,
    "forbidden": 403,
    "ahead": 409,
    "forked": 409,
    "exists": 409,
    "unsupported": 501,
    "read_only": 503,
    "unavailable": 503,
}
"""HTTP statuses of the reasons of `session.refused`."""
CLOSED = {"refused": 403, "unknown_agent": 422, "limit": 429}
"""HTTP statuses of the reasons of a `session.closed` that answers `session.start`."""
CATEGORIES = {"permission_denied": 403, "protocol": 422, "busy": 429}
"""HTTP statuses of the categories of an `error` that answers this client only."""


class TrunklineError(Exception):
    """Base of all errors of the client."""

    request_id: str | None = None
    """The request whose answer failed, for the errors that `failed` of `Client.open` gets."""

    @property
    def is_permanent(self) -> bool:
        """Whether a later try fails as well."""
        return not is_retried(self)


class Refused(TrunklineError):
    """A refused request: `status` is the status of HTTP, also over a pipe, or 0; `category` is of the protocol, or None."""

    status = 0

    def __init__(self, status: int, detail: str, category: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(f"refused with {status}: {detail}" if status else detail)
        self.status, self.detail, self.category, self.retry_after = status, detail, category, retry_after


class TokenRefused(Refused):
    """401: the token is unknown, revoked or expired."""


class Forbidden(Refused):
    """403: the token or the configuration does not allow it."""


class NotFound(Refused):
    """404: no such session, turn or file, or none that the token sees."""


class Conflict(Refused):
    """409: the session is closed, no turn runs, or another client was first."""

    decision: RequestDecision | None = None
    """The decision of a request that was decided before this answer, if this client received it."""


class Gone(Refused):
    """410: the session was removed."""


class Invalid(Refused):
    """400, 413 or 422: a value is wrong; `detail` names the member."""


class RateLimited(Refused):
    """429: a limit is reached. The client has waited and tried again before it raises this."""


class Unavailable(Refused):
    """503 and other statuses from 500 on. The client has tried again before it raises this."""


STATUSES: Mapping[int, type[Refused]] = {
    400: Invalid,
    401: TokenRefused,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: Invalid,
    422: Invalid,
    429: RateLimited,
    500: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def refusal(status: int, detail: str, category: str | None = None, retry_after: float | None = None) -> Refused:
    """Returns the error of a status."""
    return STATUSES.get(status, Refused)(status, detail, category, retry_after)


def is_retried(error: BaseException) -> bool:
    """Returns true if a later try may succeed: the connection broke, or the status is 408, 425, 429, or 5xx but not 501."""
    if isinstance(error, Refused):
        return error.status in (408, 425, 429) or error.status >= 500 and error.status != 501
    return isinstance(error, OSError) and not isinstance(error, TooLarge)


class Unsupported(TrunklineError):
    """The transport does not have this ability; the message names those that do."""

    def __init__(self, ability: str, transport: str) -> None:
        super().__init__(f"{transport} has no {ability}: connect by socket=… or url=… to a daemon (`trunkline up`)")


class SessionEnded(TrunklineError):
    """The session takes no more inputs. `cause` is the error that ended it; None if it was closed."""

    def __init__(self, why: str, cause: Exception | None = None) -> None:
        super().__init__(why)
        self.cause = self.__cause__ = cause

    @property
    def is_permanent(self) -> bool:
        return not isinstance(self.cause, TrunklineError) or self.cause.is_permanent


class Unreachable(TrunklineError, ConnectionError):
    """No address answers, or not within the tries of the client."""


class CommandFailed(TrunklineError):
    """The command ended with a status that no retry changes, or could not be started (126, 127)."""

    def __init__(self, program: str, status: int, output: str) -> None:
        super().__init__(f"{program} ended with status {status}" + (f": {output}" if output else ""))
        self.status, self.output = status, output


class ProtocolMismatch(TrunklineError):
    """The other side speaks another protocol or version, or keeps no journal."""


class BadAnswer(TrunklineError, ConnectionError):
    """An answer is cut off, or is no answer of trunkline."""


class TooLarge(BadAnswer):
    """An answer exceeds a bound of the client, which the message names. It is not asked for again."""

    def __init__(self, part: str, bound: int) -> None:
        super().__init__(f"{part} is over {bound} bytes, the most that the client reads")
        self.bound = bound


class RequestDecision:
    """How a permission or a question was settled, from its `request.decided` or from the end of its turn."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        self.message = message
        self.approved: bool | None = message.get("approved")
        self.values: Mapping[str, Any] | None = message.get("values")
        self.cancelled = message.get("cancelled") is True
        self.name: str | None = message.get("name")
        """The name of the person, as the client that answered gave it."""
        self.by: str | None = message.get("by")
        """The listener that answered: the name of its token, and its number."""
        self.reason: str | None = message.get("reason")
        """Why it was settled without an answer: `stopped`, `timeout`, `turn_ended`, `session_ended` and others."""

    @property
    def who(self) -> str:
        """The person, else the token or listener, else the reason."""
        return self.name or (self.by or "").split("/")[0] or self.reason or "unknown"

    def __repr__(self) -> str:
        return f"RequestDecision({dict(self.message)!r})"


def reason_of(error: BaseException) -> str:
    """Returns the cause of a failed connection, as a person reads it."""
    if isinstance(error, OSError) and error.errno and error.errno > 0 and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
