"""Runs blocking handlers.

One thread, the leader, reads and runs handlers itself, for as long as they are quick: nothing is handed over. When one is
not, another thread reads on, and from then on each busy session has a thread. After a while it is tried again.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from . import _probe
from ._check import check_result
from ._core import Core
from ._running import Running
from ._link import Link
from ._steps import finish, hook, next_call, text_of
from .turn import Turn

MOST = 512  # threads; sessions beyond wait
KEPT = 10.0  # seconds that a thread waits for work
TICK = 0.004  # seconds; a handler that takes one to two of them is not quick
FIRST_PAUSE, LAST_PAUSE = 0.25, 16.0  # seconds until handlers are tried as quick ones again, doubling
PROVEN = 1.0  # seconds of quick handlers, after which the pause is the first one again


class Threads:
    """Runs the sessions of one link, and reads its input."""

    def __init__(self) -> None:
        self.link: Link
        self._fd = -1
        self._ready: deque[tuple[Core, object]] = deque()
        self._leader: threading.Thread | None = None
        self._reads = False
        self._feeding = False
        self._inside = False  # the leader is in a handler, the ticket-th one
        self._ticket = 0
        self._slow = False
        self._since = self._again = 0.0  # when handlers were quick, and when they are tried again
        self._pause = FIRST_PAUSE
        self._threads = self._parked = 0
        self._resting = True
        self._rouse = threading.Event()
        self._ended = False

    def begin(self, link: Link, fd: int, on_end: Callable[[], None]) -> None:
        self.link, self._fd, self._on_end = link, fd, on_end
        self._work = threading.Condition(link.lock)
        self._reads = True
        with link.lock:
            self._recruit()
        threading.Thread(target=self._watch, daemon=True, name="trunkline-watch").start()

    def close(self) -> None:
        """Lets the threads go that wait."""
        with self.link.lock:
            self._ended, self._reads = True, False
            self._work.notify_all()
        self._rouse.set()

    # What the link asks; under its lock.

    def work(self, core: Core, worker: object) -> None:
        self._ready.append((core, worker))
        if self._slow or not self._feeding:
            self._recruit()

    def cancel(self, core: Core, turn: Running | None) -> None:
        pass  # its calls raise

    def spawn(self, call: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        def run() -> None:
            try:
                done(call(), None)
            except Exception as error:
                done(None, error)

        threading.Thread(target=run, daemon=True).start()

    def _recruit(self) -> None:
        if self._parked:
            self._parked -= 1
            self._work.notify()
        elif self._threads < MOST or self._leader is None and self._reads:
            self._threads += 1
            threading.Thread(target=self._serve, daemon=True, name="trunkline").start()

    def blocking(self) -> None:
        """A handler is about to wait: if it is the leader's, another thread reads on."""
        with self.link.lock:
            if self._inside and self._leader is threading.current_thread():
                self._hand_over()

    def _hand_over(self) -> None:
        self._leader, self._inside = None, False
        self._recruit()

    # Threads.

    def _serve(self) -> None:
        me = threading.current_thread()
        while True:
            with self._work:
                while not (self._ready or (self._leader is None and self._reads)):
                    if self._ended:
                        return
                    self._parked += 1
                    if not self._work.wait(KEPT) and self._parked:
                        self._parked -= 1
                        self._threads -= 1
                        return
                leads = self._leader is None and self._reads
                if leads:
                    self._leader = me
            if leads:
                self._lead(me)
            else:
                self._run_one(None)

    def _lead(self, me: threading.Thread) -> None:
        while True:
            if self._slow and time.monotonic() >= self._again:
                self._slow, self._since = False, time.monotonic()
            while self._ready and not self._slow:
                if not self._run_one(me):
                    return
            with self.link.lock:
                for _ in self._ready:
                    self._recruit()
                self.link.wire.flush()
            try:
                chunk = os.read(self._fd, 1 << 16)
            except OSError:
                chunk = b""
            if not chunk:
                break
            self._feeding = True
            self.link.feed(chunk)
            self._feeding = False
        self.link.finish()
        with self.link.lock:
            self._leader, self._reads = None, False
            for _ in self._ready:
                self._recruit()
        self._on_end()

    def _run_one(self, leader: threading.Thread | None) -> bool:
        """Runs a session that is ready until it has nothing to do. Returns whether the thread still leads."""
        link = self.link
        with link.lock:
            if not self._ready:
                return True
            core, worker = self._ready.popleft()
            step = core.next(worker)
            if leader:
                self._inside = True
                self._ticket += 1
                if self._resting:
                    self._resting = False
                    self._rouse.set()
        while step is not None:
            kind, job = step
            if kind == "turn":
                error = None
                try:
                    self._turn(core, job)
                except BaseException as raised:
                    error = raised
                with link.lock:
                    finish(core, job, error)
                    step = core.next(worker)
                    self._ticket += 1
            else:
                self._hook(core, kind, job)
                with link.lock:
                    step = core.next(worker)
                    self._ticket += 1
        if leader:
            with link.lock:
                if self._leader is not leader:
                    return False
                self._inside = False
        return True

    def _turn(self, core: Core, turn: Running) -> None:
        if turn.large is not None:
            text_of(core, turn)
        handle = Turn(core, turn)
        if core.ledger and (script := _probe.script_in(turn.text)):
            _probe.run(handle, script)
        else:
            check_result(core.link.adapter.turn(handle))

    def _hook(self, core: Core, kind: str, job: Any) -> None:
        steps = hook(core, kind, job)
        call = next_call(steps)
        while call:
            result: Any = None
            error: Exception | None = None
            try:
                result = call()
            except Exception as raised:
                error = raised
            call = next_call(steps, result, error)

    def _watch(self) -> None:
        """Notices a leader that has been in one handler for a tick."""
        seen, used, quiet = -1, 0, 0
        while not self._ended:
            if self._resting:
                self._rouse.wait()
                self._rouse.clear()
            time.sleep(TICK)
            leader, ticket = self._leader, self._ticket
            if not self._inside:
                ticket = -1
            elif ticket != seen:
                used = _used(leader)
            elif _wants_processor(leader, used):
                continue
            with self.link.lock:
                if self._inside and self._ticket == seen:
                    self._slow_down()
                seen = ticket
                quiet = 0 if self._inside else quiet + 1
                if quiet > 50:
                    quiet, self._resting = 0, True

    def _slow_down(self) -> None:
        now = time.monotonic()
        self._pause = FIRST_PAUSE if now - self._since > PROVEN else min(self._pause * 2, LAST_PAUSE)
        self._slow, self._again = True, now + self._pause
        self._hand_over()
        for _ in self._ready:
            self._recruit()


def _used(thread: threading.Thread | None) -> int:
    """The processor time of a thread, in nanoseconds; 0 where the system does not tell."""
    return int((_told(thread, "schedstat") or b"0").split()[0])


def _wants_processor(thread: threading.Thread | None, used: int) -> bool:
    """Whether a thread could go on, and other programs have the processors: it is not what is slow."""
    state = _told(thread, "stat").rpartition(b") ")[2][:1]
    return state == b"R" and _used(thread) - used < TICK * 1e9


def _told(thread: threading.Thread | None, what: str) -> bytes:
    try:
        file = os.open(f"/proc/self/task/{thread.native_id if thread else 0}/{what}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, 1024)  # without the interpreter's lock: who waits for that alone could go on
    except OSError:
        return b""
    finally:
        os.close(file)
