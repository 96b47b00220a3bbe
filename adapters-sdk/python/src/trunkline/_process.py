"""Serving an adapter: over a pair of pipes, and as a process."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any

from ._link import STOP_GRACE, Link
from ._tasks import Tasks, result_of
from ._threads import Threads
from .adapter import Adapter, Handler, adapter_of, is_async

LAST_ANSWERS = 0.1  # seconds that turns go on after the end of input, so that `printf … | adapter` is answered
TURNS = {"end of input": 1.0, "told": 0.5, "broken pipe": 0.0}
CLOSES, WRITES = 0.4, 0.3
SWITCH = 0.0005  # seconds: the threads that read and write wait no longer for one that computes
AFTER = 0.5  # seconds that the interpreter has to end


class Server:
    """Serves an adapter over two file descriptors."""

    def __init__(self, adapter: Adapter, grace: float = STOP_GRACE, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._adapter, self._grace = adapter, grace
        self._runner: Threads | Tasks = Tasks(loop) if is_async(adapter) else Threads()
        self._bell, self._ringer = os.pipe()
        os.set_blocking(self._ringer, False)
        os.set_blocking(self._bell, False)
        self._ended: str | None = None
        self.probing: bool | None = None

    def end(self, why: str = "told") -> None:
        """Ends it, soon. May be called from anywhere, also from a signal handler."""
        self._ended = self._ended or why
        self._ring()

    def _ring(self) -> None:
        try:
            os.write(self._ringer, b"!")
        except OSError:
            pass  # it rings already, or no one waits any longer

    def _wait(self, link: Link, until: float | None) -> None:
        """Waits for a ring, a deadline of a stopped turn, or the time."""
        with link.lock:
            left = link.end_late()
        if until is not None:
            rest = max(until - time.monotonic(), 0.0)
            left = rest if left is None else min(left, rest)
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        if poll.poll(None if left is None else left * 1000 + 1):
            os.read(self._bell, 4096)

    def _idle(self, link: Link, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and link.active and not link.wire.broken:
            self._wait(link, until)

    def serve(self, source: int, sink: int) -> str:
        """Serves until the input ends, the output breaks, or `end`. Returns why, within two seconds of it."""
        link = Link(self._adapter, sink, self._runner, grace=self._grace)
        if self.probing is not None:
            link.probing = self.probing
        self._runner.link = link
        link.ring = self._ring
        link.wire.on_broken = lambda: self.end("broken pipe")
        writer = threading.Thread(target=link.wire.write, daemon=True, name="trunkline-write")
        writer.start()
        self._runner.begin(link, source, lambda: self.end("end of input"))
        while self._ended is None:
            self._wait(link, None)
        if self._ended == "end of input":
            self._idle(link, LAST_ANSWERS)
        with link.lock:
            link.shut()
        self._idle(link, TURNS[self._ended])
        with link.lock:
            link.shut_now()
        self._idle(link, CLOSES)
        with link.lock:
            link.wire.finish()
        writer.join(WRITES)
        with link.lock:
            link.wire.fail()
        self._runner.close()
        return self._ended


def serve(handler: Handler | Adapter, *, stop_grace: float = STOP_GRACE, **description: Any) -> None:
    """Serves a handler, or an `Adapter`, over stdin and stdout, and returns when the host is done.

    An `async def` handler gets an `AsyncTurn`, a plain function a `Turn`. `description` has the members of `Description`;
    `stop_grace` is the time in seconds that a handler has after a stop. It answers `--describe` and `--diagnose`, and takes
    stdin and stdout for itself: what anything prints lands on stderr, and children read nothing. The process ends within
    two and a half seconds of the end of input, of a broken stdout, of SIGTERM and SIGINT, whatever handlers do.
    Call it in the main thread.
    """
    adapter = adapter_of(handler, description)
    _flags(adapter)
    source, sink = _take_stdio()
    sys.setswitchinterval(SWITCH)
    server = Server(adapter, stop_grace)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.end("told"))
    server.serve(source, sink)
    _end_soon()


async def serve_async(handler: Handler | Adapter, *, stop_grace: float = STOP_GRACE, **description: Any) -> None:
    """As `serve`, on the running loop, for a program that has one. Signals and flags are the caller's.

    Cancelling it ends the adapter: turns that run are stopped, and it returns within two seconds.
    """
    adapter = adapter_of(handler, description)
    source, sink = _take_stdio()
    server = Server(adapter, stop_grace, asyncio.get_running_loop())
    serving = asyncio.ensure_future(asyncio.to_thread(server.serve, source, sink))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.end("told")
        await serving
        raise


def _take_stdio() -> tuple[int, int]:
    """Takes stdin and stdout: what is printed from now on lands on stderr, and no one else reads the host's lines."""
    source, sink = os.dup(0), os.dup(1)  # not inherited by children
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure:
        reconfigure(line_buffering=True, errors="backslashreplace")
    return source, sink


def _end_soon() -> None:
    """Ends the process even where a handler, or a thread of its author, does not."""

    def end() -> None:
        time.sleep(AFTER)
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()


def _flags(adapter: Adapter) -> None:
    """Answers `--describe` and `--diagnose`, and exits ([ext.8])."""
    flag = next((argument for argument in sys.argv[1:] if argument in ("--describe", "--diagnose")), None)
    if flag == "--describe":
        print(json.dumps(adapter.describe().printed(), indent=2))
        sys.exit(0)
    if flag == "--diagnose":
        checks = list(asyncio.run(result_of(adapter.diagnose)) or [])
        levels = {check.get("level") for check in checks}
        status = "fail" if "error" in levels else "warn" if "warn" in levels else "pass"
        tested_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        print(json.dumps({"status": status, "checks": checks, "tested_at": tested_at}, indent=2))
        sys.exit(1 if status == "fail" else 0)


def config() -> Any:
    """The agent's configuration, from the file that `ADAPTER_CONFIG` names; None where there is none ([process.7]).

    The variable is removed, so that children do not see it. Ends the process with status 2 where the file is not JSON.
    """
    path = os.environ.pop("ADAPTER_CONFIG", None)
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        print(f"the configuration cannot be read: {error}", file=sys.stderr)
        sys.exit(2)
