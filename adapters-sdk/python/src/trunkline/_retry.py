"""Delays between two tries."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from ._errors import RateLimited, Refused

T = TypeVar("T")
FIRST_DELAY, LAST_DELAY = 0.05, 2.0  # seconds between two tries, doubling, with jitter
TRIES = 40  # connections in a row that bring no entry, and refusals of a session: about a minute
MAX_RETRY_AFTER = 60.0  # seconds of a Retry-After that are waited for
LIMITED = 5  # requests in a row that may be answered by 429


@dataclass(frozen=True)
class ConnectionState:
    """State of the connection of a client."""

    state: Literal["connecting", "connected", "reconnecting", "closed"]
    tries: int = 0
    """Tries in a row that failed."""
    delay: float = 0.0
    """Seconds until the next try."""
    error: Exception | None = None
    """Why the connection broke, could not be made, or is not tried again."""


def delay_of(tries: int) -> float:
    """Returns the seconds before a try: doubling, bounded, with jitter."""
    return float(min(FIRST_DELAY * 2.0 ** min(tries, 30), LAST_DELAY)) * random.uniform(0.5, 1)


def pause_of(tries: int, error: BaseException | None) -> float:
    """Returns the seconds before a try after a failure: at least its Retry-After."""
    after = error.retry_after if isinstance(error, Refused) else None
    return max(delay_of(tries), min(after or 0.0, MAX_RETRY_AFTER))


async def within_limits(ask: Callable[[], Awaitable[T]]) -> T:
    """Repeats a request that is answered by 429, after its Retry-After. Raises RateLimited after the last one."""
    tries = 0
    while True:
        try:
            return await ask()
        except RateLimited as limited:
            tries += 1
            after = limited.retry_after if limited.retry_after is not None else 1.0
            if tries == LIMITED or after > MAX_RETRY_AFTER:
                raise
            await asyncio.sleep(after + delay_of(tries))
