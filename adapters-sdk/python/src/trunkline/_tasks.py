"""Runs `async def` handlers on one event loop. A thread of its own reads, so that one that blocks delays no `pong`."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from . import _probe
from ._check import check_result
from ._core import Core
from ._running import Running
from ._link import Link
from ._steps import finish, hook, next_call, text_of
from .turn import AsyncTurn


class Tasks:
    """Runs the sessions of one link on a loop, and reads its input."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """On this loop, which runs; without one on a loop of its own thread."""
        self.link: Link
        self._own = loop is None
        self._loop = loop or asyncio.new_event_loop()
        self._ready: deque[tuple[Core, object]] = deque()
        self._posted = False
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, link: Link, fd: int, on_end: Callable[[], None]) -> None:
        self.link = link
        if self._own:
            threading.Thread(target=self._loop_forever, daemon=True, name="trunkline-loop").start()
        threading.Thread(target=self._read, args=(fd, on_end), daemon=True, name="trunkline-read").start()

    def _loop_forever(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def close(self) -> None:
        """Cancels what still runs."""

        def end() -> None:
            for task in self._tasks:
                task.cancel()
            if self._own:
                self._loop.call_later(0.05, self._loop.stop)

        self._call(end)

    def _call(self, callback: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            pass  # the loop is closed: nothing runs on it

    def _read(self, fd: int, on_end: Callable[[], None]) -> None:
        while True:
            try:
                chunk = os.read(fd, 1 << 16)
            except OSError:
                break
            if not chunk:
                break
            self.link.feed(chunk)
        self.link.finish()
        on_end()

    # What the link asks; under its lock.

    def work(self, core: Core, worker: object) -> None:
        self._ready.append((core, worker))
        if not self._posted:
            self._posted = True
            self._call(self._begin_all)

    def cancel(self, core: Core, turn: Running | None) -> None:
        self._call(self._cancel, core, turn)

    def _cancel(self, core: Core, turn: Running | None) -> None:
        task = turn.task if turn else core.hook
        if task is not None:
            task.cancel()

    def spawn(self, call: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        async def run() -> None:
            try:
                done(await result_of(call), None)
            except Exception as error:
                done(None, error)

        self._call(lambda: self._keep(run()))

    def _keep(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # On the loop.

    def _begin_all(self) -> None:
        with self.link.lock:
            ready, self._ready = self._ready, deque()
            self._posted = False
        for core, worker in ready:
            self._keep(self._run(core, worker))
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        with self.link.lock:
            self.link.wire.flush()

    async def _run(self, core: Core, worker: object) -> None:
        task, link = asyncio.current_task(), self.link
        assert task is not None
        with link.lock:
            step = core.next(worker)
        while step is not None:
            kind, job = step
            if kind != "turn":
                core.hook = task if kind != "close" else None
                await self._hook(core, kind, job)
                core.hook = None
            else:
                error: BaseException | None = None
                job.task = task
                if job.stopping:  # stopped before it was known whom to cancel
                    task.cancel()
                try:
                    await self._turn(core, job)
                except BaseException as raised:
                    error = raised
                job.task = None
                if isinstance(error, asyncio.CancelledError) and not (job.stopping or job.over):
                    error = RuntimeError("the handler was cancelled")
                with link.lock:
                    finish(core, job, error)
            while task.cancelling():
                task.uncancel()
            with link.lock:
                step = core.next(worker)

    async def _turn(self, core: Core, turn: Running) -> None:
        if turn.large is not None:
            await asyncio.to_thread(text_of, core, turn)
        handle = AsyncTurn(core, turn)
        if core.ledger and (script := _probe.script_in(turn.text)):
            await _probe.run_async(handle, script)
        else:
            result = await core.link.adapter.turn(handle)
            check_result(await result if inspect.isawaitable(result) else result)

    async def _hook(self, core: Core, kind: str, job: Any) -> None:
        steps = hook(core, kind, job)
        call = next_call(steps)
        while call:
            result: Any = None
            error: Exception | None = None
            try:
                result = await result_of(call)
            except asyncio.CancelledError:
                error = RuntimeError("the session has ended")
            except Exception as raised:
                error = raised
            call = next_call(steps, result, error)


async def result_of(call: Callable[[], Any]) -> Any:
    """What a hook returns, be it a plain function or an `async def`."""
    result = call()
    return await result if inspect.isawaitable(result) else result
