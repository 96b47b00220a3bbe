"""What waits for a reader of a client: bounded, so that who does not read holds back and loses nothing."""

from __future__ import annotations

import asyncio
from collections import deque

from ._json import Message

WAITING = 4096  # entries


class Inbox:
    """Messages in order, up to a number of them; beyond, who puts one waits for the reader."""

    def __init__(self, most: int = WAITING) -> None:
        self._most = most
        self._entries: deque[Message] = deque()
        self._more, self._room = asyncio.Event(), asyncio.Event()
        self._over: Exception | bool = False
        self._heard = True

    async def put(self, entry: Message) -> None:
        """Waits for room. Cancelling puts nothing."""
        while self._heard and len(self._entries) >= self._most:
            self._room.clear()
            await self._room.wait()
        if self._heard:
            self._entries.append(entry)
            self._more.set()

    async def take(self) -> Message | None:
        """Waits for the next one; None at the end. Raises why it ended, where it did so early."""
        while not self._entries:
            if isinstance(self._over, Exception):
                raise self._over
            if self._over:
                return None
            self._more.clear()
            await self._more.wait()
        entry = self._entries.popleft()
        self._room.set()
        return entry

    def end(self, why: Exception | None = None) -> None:
        """Nothing more comes. What is there can still be taken."""
        if not self._over:
            self._over = why or True
            self._more.set()
            self._room.set()

    def leave(self) -> None:
        """No one reads any longer."""
        self._heard = False
        self._entries.clear()
        self._room.set()
