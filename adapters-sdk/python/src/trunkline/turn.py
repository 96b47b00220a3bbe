"""A turn, as its handler holds it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from . import _files
from ._check import check_members, check_text
from ._core import Core
from ._running import Running
from ._events import Events, Members, permission_request, question
from ._requests import Answer, Decision
from .adapter import Stopped
from .session import Session, Steer, next_steer, put

LAST_WORDS = 256 * 1024
YIELD = 32
ASSIGNED = frozenset({"session_id", "request_id"})
"""Members of a request that the package adds."""


class _Base:
    def __init__(self, core: Core, running: Running) -> None:
        self._core, self._running = core, running
        self.session: Session = core.handle
        """The turn's session; `session.state` is the author's."""
        self.text = running.text
        """What the user says."""
        self.files = running.files
        """The files announced since the input before: `file_name`, `file_mime_type`, `file_path`, `size`, `sha256`."""

    @property
    def id(self) -> str | None:
        """The host's id of the turn, where it gives ids."""
        return self._running.id

    @property
    def message_id(self) -> str | None:
        """The input's own id, where it has one."""
        return self._running.message_id

    @property
    def meta(self) -> Members | None:
        """`_meta` of the input."""
        return self._running.meta

    @property
    def stopped(self) -> bool:
        """Whether the turn must end: it was stopped, or has ended."""
        return self._running.stopping or self._running.over

    def end(self, status: str = "completed", **members: Any) -> None:
        """Ends the turn now, with members of `turn.complete` such as `summary`, `result`, `usage`, `session_params`.

        What the handler returns afterwards changes nothing. Raises TypeError or ValueError for what JSON does not have.
        """
        end: Members = {"status": status, **members}
        check_members({"type": "turn.complete", **end})
        end_turn(self._core, self._running, end, said=True)

    def _room(self) -> bool:
        over = LAST_WORDS if self._running.stopping else 0
        return self._running.over or self._core.link.wire.has_room(self._core.key, over)

    def _when(self, wake: Callable[[], None]) -> None:
        self._core.link.wire.when_room(self._core.key, wake)
        if not self._running.stopping:
            self._running.on_stop.append(wake)


def end_turn(core: Core, turn: Running, end: Members, said: bool = False) -> None:
    """Ends a turn; what of its end is too long for a line may go by file before."""
    from ._fit import by_file, wants_file

    folder, message = core.exchange_dir, {"type": "turn.complete", **end}
    message = {name: value for name, value in message.items() if value is not None}
    if folder and len(end) > 1 and wants_file(message, core.agreed, core.max_line - 1024):
        message = by_file(message, core.max_line - 1024, lambda text: _files.keep(folder, text))
    elif len(end) > 1:
        from ._json import encode

        encode(message)
    with core.link.lock:
        core.end_turn(turn, message, said)


class Turn(_Base, Events[None]):
    """One turn of a blocking handler: an input, and all that follows until its one end.

    The end is what the handler returns: a return completes the turn, an exception fails it. Once after a stop, and always
    after the end, every call raises `Stopped`. A handler that has not returned within 2 s of a stop has its turn ended.
    Calls may come from any thread.
    """

    def __init__(self, core: Core, running: Running) -> None:
        super().__init__(core, running)
        self._told = False

    def _check(self) -> None:
        if self._running.over or self._running.stopping and not self._told:
            self._told = True
            raise Stopped()

    def output(self, text: str, channel: str = "stdout") -> None:
        check_text(text)
        core, running = self._core, self._running
        if channel != "stdout":
            return self.emit("output", content=text, channel=channel)
        with core.link.lock:
            if running.stopping or running.over:
                self._check()
            core.output(running, text)
            if core.link.wire.has_room(core.key):
                return
        self._wait_for_room()

    def emit(self, type: str, **members: Any) -> None:
        self._check()
        put(self._core, self._running, {"type": type, **members})
        self._wait_for_room()

    def _wait_for_room(self) -> None:
        link = self._core.link
        while True:
            with link.lock:
                if self._room():
                    return
                event = threading.Event()
                self._when(event.set)
            self._blocking()
            event.wait()
            if not self._told:
                self._check()

    def _blocking(self) -> None:
        getattr(self._core.link.runner, "blocking", lambda: None)()

    def wait(self, seconds: float) -> None:
        """Sleeps; raises `Stopped` as soon as the turn is stopped."""
        self._check()
        event = threading.Event()
        with self._core.link.lock:
            if not self._running.stopping:
                self._running.on_stop.append(event.set)
        self._blocking()
        event.wait(seconds)
        self._check()

    def permission(
        self, tool: str, description: str, resource: str = "", *, timeout: float | None = None, **more: Any
    ) -> Decision:
        """Asks whether an action may happen, and waits for the answer: true only where it was approved.

        `more` are members of `permission.request`: `input`, `title`, `diffs`, `options`, `tool_call_id`, `expires_at`.
        A stop and the end of the turn or the session settle it as denied; `timeout` (seconds) withdraws it.
        """
        denied = Decision(reason="timeout")
        decision: Decision = self._ask(permission_request(tool, description, resource, more), timeout, denied)
        return decision

    def question(
        self,
        prompt: str,
        fields: Sequence[Members] | None = None,
        *,
        expires_at: str | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Asks the user for values, and waits for them; without fields for one text, under `answer`.

        Where the host cannot ask, it is shown as text and cancelled at once.
        """
        answer: Answer = self._ask(question(prompt, fields, expires_at), timeout, Answer())
        return answer

    def _ask(self, request: Members, timeout: float | None, late: Any) -> Any:
        check_members(request, ASSIGNED)
        box: SimpleQueue[Any] = SimpleQueue()
        core = self._core
        with core.link.lock:
            self._check()
            pending = core.requests.open(self._running, request, box.put)
        if pending is None:
            return box.get()
        self._blocking()
        try:
            return box.get(timeout=timeout)
        except Empty:
            with core.link.lock:
                core.requests.withdraw(pending)
            return late

    def next_steer(self, timeout: float | None = None) -> Steer | None:
        """The next input that the user adds to this turn; None after `timeout` seconds and once the turn must end.

        Needs `steerable`.
        """
        core, running = self._core, self._running
        while True:
            with core.link.lock:
                if (steer := next_steer(core, running)) or running.stopping or running.over:
                    return steer
                event = threading.Event()
                running.on_stop.append(event.set)
                running.on_steer.append(event.set)
            self._blocking()
            if not event.wait(timeout):
                return None

    def file(self, path: str, name: str | None = None, mime: str | None = None) -> None:
        """Sends a file that is complete and stays where it is until the session closes. Raises OSError."""
        self._check()
        told = _files.announced(path, name, mime, "large" in self._core.agreed)
        put(self._core, self._running, told)

    def new_file(self, name: str, data: bytes, mime: str | None = None) -> str:
        """Writes a file into the session's folder, sends it, and returns its path. It goes with the session."""
        self._check()
        folder, path = _files.make(self._core.scratch_dir(), name, data)
        with self._core.link.lock:
            self._core.made.append(folder)
        self.file(path, name, mime)
        return path


def _waker(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> Callable[[], None]:
    def wake() -> None:
        try:
            loop.call_soon_threadsafe(event.set)
        except RuntimeError:
            pass  # the loop is closed: no one waits on it

    return wake


class _Done:
    """An awaitable that is done."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class _Yield:
    """An awaitable that lets others run once."""

    def __await__(self) -> Generator[None, None, None]:
        yield


_DONE, _YIELD = _Done(), _Yield()


class AsyncTurn(_Base, Events[Awaitable[None]]):
    """One turn of an `async def` handler: an input, and all that follows until its one end.

    The end is what the handler returns: a return completes the turn, an exception fails it. A stop cancels the handler
    where it awaits, by `asyncio.CancelledError`; one that has not returned within 2 s has its turn ended. What is called
    after the end sends nothing.
    """

    def __init__(self, core: Core, running: Running) -> None:
        super().__init__(core, running)
        self._sent = 0

    def output(self, text: str, channel: str = "stdout") -> Awaitable[None]:
        check_text(text)
        core = self._core
        if channel != "stdout":
            return self.emit("output", content=text, channel=channel)
        with core.link.lock:
            core.output(self._running, text)
            self._sent += 1
            if core.link.wire.has_room(core.key):
                return _DONE if self._sent % YIELD else _YIELD
            if core.link.wire.held(core.key) > 16 * 1024 * 1024:
                raise BufferError("the host reads too little: await what you send")
        return self._wait_for_room()

    def emit(self, type: str, **members: Any) -> Awaitable[None]:
        core = self._core
        put(core, self._running, {"type": type, **members})
        self._sent += 1
        with core.link.lock:
            if self._room():
                return _DONE if self._sent % YIELD else _YIELD
        return self._wait_for_room()

    async def _wait_for_room(self) -> None:
        link, loop = self._core.link, asyncio.get_running_loop()
        while True:
            with link.lock:
                if self._room():
                    return
                event = asyncio.Event()
                self._when(_waker(loop, event))
            await event.wait()

    async def permission(self, tool: str, description: str, resource: str = "", **more: Any) -> Decision:
        """Asks whether an action may happen, and waits for the answer: true only where it was approved.

        `more` are members of `permission.request`: `input`, `title`, `diffs`, `options`, `tool_call_id`, `expires_at`.
        A stop and the end of the turn or the session settle it as denied. Cancelling it withdraws it.
        """
        decision: Decision = await self._ask(permission_request(tool, description, resource, more))
        return decision

    async def question(
        self, prompt: str, fields: Sequence[Members] | None = None, *, expires_at: str | None = None
    ) -> Answer:
        """Asks the user for values, and waits for them; without fields for one text, under `answer`.

        Where the host cannot ask, it is shown as text and cancelled at once. Cancelling it withdraws it.
        """
        answer: Answer = await self._ask(question(prompt, fields, expires_at))
        return answer

    async def _ask(self, request: Members) -> Any:
        check_members(request, ASSIGNED)
        core, loop = self._core, asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def settle(value: Any) -> None:
            try:
                loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(value))
            except RuntimeError:
                pass  # the loop is closed: no one waits on it

        with core.link.lock:
            pending = core.requests.open(self._running, request, settle)
        try:
            return await future
        except asyncio.CancelledError:
            if pending:
                with core.link.lock:
                    core.requests.withdraw(pending)
            raise

    async def next_steer(self) -> Steer | None:
        """The next input that the user adds to this turn; None once the turn must end. Needs `steerable`.

        No steer is lost where it is cancelled.
        """
        core, running, loop = self._core, self._running, asyncio.get_running_loop()
        while True:
            with core.link.lock:
                if (steer := next_steer(core, running)) or running.stopping or running.over:
                    return steer
                event = asyncio.Event()
                wake = _waker(loop, event)
                running.on_stop.append(wake)
                running.on_steer.append(wake)
            await event.wait()

    async def file(self, path: str, name: str | None = None, mime: str | None = None) -> None:
        """Sends a file that is complete and stays where it is until the session closes. Raises OSError.

        It is announced, or not at all where it is cancelled first.
        """
        told = await asyncio.to_thread(_files.announced, path, name, mime, "large" in self._core.agreed)
        put(self._core, self._running, told)

    async def new_file(self, name: str, data: bytes, mime: str | None = None) -> str:
        """Writes a file into the session's folder, sends it, and returns its path. It goes with the session."""
        folder, path = await asyncio.to_thread(_files.make, self._core.scratch_dir(), name, data)
        with self._core.link.lock:
            self._core.made.append(folder)
        await self.file(path, name, mime)
        return path
