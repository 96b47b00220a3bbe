"""The one way out: every message of every session passes here, whole and in its session's order.

A session that writes more than the host reads waits for room and keeps no other session from the pipe. Ends, requests
and answers are put without asking for room. Everything here is called under the link's lock.
"""

from __future__ import annotations

import os
import select
import stat
import threading
from collections import deque
from collections.abc import Callable

AHEAD = 64 * 1024  # bytes written ahead of the pipe: short, so that a `stop` passes soon through a flood
QUANTUM = 16 * 1024  # what a session may add when its turn comes
BUDGET = 1024 * 1024  # what all sessions together hold, softly
MOST, LEAST = 256 * 1024, 16 * 1024  # the share of one session
PAUSED = 64 * 1024  # what a paused session holds before its turns wait ([flow.3])
URGENT = 64 * 1024  # kept answers to `ping`
OVERRUN = 64 * 1024 * 1024  # where a session is given up whose host does not read
PIECE = 4096  # a pipe that can be written takes so much without blocking


class Held:
    """What waits of one session."""

    __slots__ = ("lines", "bytes", "paused", "wakers")

    def __init__(self) -> None:
        self.lines: deque[bytes] = deque()
        self.bytes = 0
        self.paused = False
        self.wakers: list[Callable[[], None]] = []


class Wire:
    """The buffers between the sessions and the pipe, and the thread that writes them."""

    def __init__(self, fd: int, lock: threading.RLock) -> None:
        self._fd, self._lock = fd, lock
        self._begun = b""  # the rest of a line of which a part is written: nothing overtakes it
        self._batch: list[bytes] = []
        self._size = 0  # of both
        self._urgent: list[bytes] = []
        self._held: dict[int, Held] = {}
        self._idle = False
        self._wake = threading.Lock()  # held while the writer must wait
        self._wake.acquire()
        self._finishing = False
        self.broken = False
        self.on_broken: Callable[[], None] = lambda: None
        self._pipe = threading.Lock()
        self._poll: select.poll | None = None
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            self._poll = select.poll()
            self._poll.register(fd, select.POLLOUT)

    def put(self, key: int, line: bytes) -> None:
        """Adds a whole line of a session, with its LF. Never waits."""
        if self.broken:
            return
        if self._size < AHEAD and key not in self._held:
            self._batch.append(line)
            self._size += len(line)
            if self._size >= PIECE:
                self.flush()
        else:
            held = self._held.setdefault(key, Held())
            held.lines.append(line)
            held.bytes += len(line)
        self._rouse_writer()

    def put_urgent(self, line: bytes) -> None:
        """Adds a line that overtakes everything: an answer of the pipe itself."""
        if not self.broken and sum(map(len, self._urgent)) + len(line) <= URGENT:
            self._urgent.append(line)
            self._rouse_writer()

    def has_room(self, key: int, over: int = 0) -> bool:
        """Whether a session may add more; one that holds nothing always may."""
        held = self._held.get(key)
        if held is None or not held.bytes:
            return True
        share = PAUSED if held.paused else min(max(BUDGET // len(self._held), LEAST), MOST)
        return held.bytes < share + over

    def when_room(self, key: int, wake: Callable[[], None]) -> None:
        """Calls `wake` once, when what the session holds has changed."""
        self._held.setdefault(key, Held()).wakers.append(wake)

    def held(self, key: int) -> int:
        """How many bytes of a session wait."""
        held = self._held.get(key)
        return held.bytes if held else 0

    def is_paused(self, key: int) -> bool:
        held = self._held.get(key)
        return held is not None and held.paused

    def flow(self, key: int, paused: bool) -> None:
        """Holds a session's messages back, or lets them go ([flow.1])."""
        if paused and not self._finishing:
            self._held.setdefault(key, Held()).paused = True
        elif not paused and (held := self._held.get(key)):
            held.paused = False
            self._rouse(key)

    def purge(self, key: int) -> None:
        """Drops what a session still holds: it has fallen silent ([session.4])."""
        if held := self._held.pop(key, None):
            for wake in held.wakers:
                wake()

    def finish(self) -> None:
        """Nothing more will be paused; the writer ends when all is written."""
        self._finishing = True
        for key in list(self._held):
            self._held[key].paused = False
            self._rouse(key)
        self._rouse_writer()

    def fail(self) -> None:
        """Drops everything: the pipe is gone."""
        self.broken = True
        self._begun, self._batch, self._size, self._urgent = b"", [], 0, []
        for key in list(self._held):
            self.purge(key)
        self._rouse_writer()

    def _rouse(self, key: int) -> None:
        held = self._held.get(key)
        if held:
            wakers, held.wakers = held.wakers, []
            for wake in wakers:
                wake()
        self._rouse_writer()

    def _rouse_writer(self) -> None:
        if self._idle:
            self._idle = False
            self._wake.release()

    def _take(self) -> bytes:
        if self._held and self._size < AHEAD:
            for key in list(self._held):
                held = self._held[key]
                given = 0
                while held.lines and not held.paused and given < QUANTUM and self._size < AHEAD:
                    line = held.lines.popleft()
                    given += len(line)
                    self._size += len(line)
                    self._batch.append(line)
                held.bytes -= given
                if given:
                    self._rouse(key)
                    self._held[key] = self._held.pop(key)  # the next time it is the last one's turn
                if not held.lines and not held.paused and not held.wakers:
                    del self._held[key]
        data = b"".join([self._begun, *self._urgent, *self._batch])
        self._begun, self._urgent, self._batch, self._size = b"", [], [], 0
        return data

    def flush(self) -> None:
        """Writes what is ready and does not block; the writer has the rest. Any thread may call it under the lock."""
        if self._poll is None or not self._pipe.acquire(False):
            return
        try:
            while (self._begun or self._batch) and not self._urgent:
                ready = self._poll.poll(0)
                if not ready or ready[0][1] != select.POLLOUT:
                    return
                data = b"".join([self._begun, *self._batch])
                written = os.write(self._fd, data[:PIECE])
                rest = data[written:]
                end = rest.index(b"\n") + 1 if rest and data[written - 1 : written] != b"\n" else 0
                self._begun, self._batch, self._size = rest[:end], [rest[end:]] if rest[end:] else [], len(rest)
                if len(rest) < PIECE:
                    return
        except OSError:
            return  # the writer meets it
        finally:
            self._pipe.release()

    def write(self) -> None:
        """The writer's thread: one write for all that waits, until `finish` or the pipe breaks."""
        while True:
            with self._pipe:
                with self._lock:
                    data = memoryview(self._take())
                    if self.broken or not data and self._finishing:
                        return
                    self._idle = idle = not data
                try:
                    while data:
                        data = data[os.write(self._fd, data) :]
                except OSError:
                    with self._lock:
                        self.fail()
                    self.on_broken()
                    return
            if idle:
                self._wake.acquire()
