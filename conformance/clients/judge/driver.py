"""The driver of a client, as the judge sees it: instructions, replies and events."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .journal import Message

MAX_LINE = 96 * 1024 * 1024  # bytes of a line of a driver, which hands out whole entries
KEPT_STDERR = 8000
START_TIMEOUT = 20.0
EXIT_TIMEOUT = 2.0


class Unsupported(Exception):
    """The driver does not do what was asked for."""


class DriverFailure(Exception):
    """The driver itself does not work: it ended, or broke the rules of its lines."""


class CallFailure(Exception):
    """A call of the client failed, with what it reported."""

    def __init__(self, error: Message) -> None:
        super().__init__(json.dumps(error, ensure_ascii=False))
        self.error = error

    @property
    def is_permanent(self) -> bool:
        return self.error.get("class") == "permanent"

    @property
    def status(self) -> int | None:
        return self.error.get("status")


class Driver:
    """A driver whose lines come from `_write` and go to `_take`."""

    def __init__(self, time_scale: float = 1.0, trace: Callable[[str], None] | None = None) -> None:
        self.events: list[Message] = []
        self._entries: dict[str, list[Message]] = {}
        self.output: list[str] = []  # all that it wrote, to search for secrets
        self.time_scale, self._trace = time_scale, trace
        self._replies: dict[int, asyncio.Future[Message]] = {}
        self._ids = itertools.count(1)
        self._changed = asyncio.Event()
        self._failure: str | None = None

    # To be overridden.

    async def begin(self) -> None:
        raise NotImplementedError

    async def _write(self, line: str) -> None:
        raise NotImplementedError

    async def end(self) -> None:
        raise NotImplementedError

    def peak_memory(self) -> int:
        """The largest resident size of the driver so far, in bytes; 0 if it is unknown."""
        return 0

    # Lines.

    def _take(self, line: str) -> None:
        if self._trace:
            self._trace(f"< {line[:600]}")
        self.output.append(line[:20000])
        try:
            message = json.loads(line)
        except ValueError:
            return self._fail(f"a line of the driver is not JSON: {line[:200]}")
        if not isinstance(message, dict):
            return self._fail(f"a line of the driver is not an object: {line[:200]}")
        if "event" in message:
            self.events.append(message)
            if message["event"] == "entry":
                self._entries.setdefault(message.get("session"), []).append(message.get("entry") or {})
        elif reply := self._replies.pop(message.get("id"), None):  # type: ignore[arg-type]
            if not reply.done():
                reply.set_result(message)
        else:
            return self._fail(f"a reply to no instruction: {line[:200]}")
        self._changed.set()

    def _fail(self, why: str) -> None:
        self._failure = self._failure or why
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(DriverFailure(why))
        self._replies.clear()
        self._changed.set()

    # Instructions.

    async def start(self, do: str, **members: Any) -> asyncio.Future[Message]:
        """Sends an instruction. The future has its reply."""
        if self._failure:
            raise DriverFailure(self._failure)
        number = next(self._ids)
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        reply.add_done_callback(lambda done: done.cancelled() or done.exception())
        line = json.dumps({"id": number, "do": do, **members}, ensure_ascii=False)
        if self._trace:
            self._trace(f"> {line[:600]}")
        await self._write(line)
        return reply

    async def call(self, do: str, within: float = START_TIMEOUT, **members: Any) -> Message:
        """Sends an instruction and returns the `ok` of its reply. Raises CallFailure, Unsupported, TimeoutError."""
        reply = await self.start(do, **members)
        return await self.result(reply, do, within)

    async def result(self, reply: asyncio.Future[Message], do: str, within: float) -> Message:
        try:
            async with asyncio.timeout(within * self.time_scale):
                message = await asyncio.shield(reply)
        except TimeoutError as error:
            raise TimeoutError(f"no reply to `{do}` within {within:g} s") from error
        if "unsupported" in message:
            raise Unsupported(f"{do}: {message['unsupported']}")
        if "error" in message:
            raise CallFailure(message["error"])
        if not isinstance(message.get("ok"), dict):
            raise DriverFailure(f"a reply has neither ok, error nor unsupported: {message}")
        return message["ok"]

    async def wait(self, is_there: Callable[[], Any], within: float) -> Any:
        """Waits until a condition of the events holds. Returns its value, or a false one after the time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within * self.time_scale):
                while not (found := is_there()):
                    if self._failure:
                        raise DriverFailure(self._failure)
                    self._changed.clear()
                    # What the daemon sees changes the condition, too.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.02):
                            await self._changed.wait()
        return is_there()

    # What it reported.

    def entries(self, session: str) -> list[Message]:
        return self._entries.get(session, [])

    def of(self, event: str, **members: Any) -> list[Message]:
        """The events of a name whose members are these."""
        return [
            each
            for each in self.events
            if each["event"] == event and all(each.get(name) == value for name, value in members.items())
        ]


class ProcessDriver(Driver):
    """A driver in a process of its own."""

    def __init__(self, command: Sequence[str], folder: Path, **options: Any) -> None:
        super().__init__(**options)
        self._command, self._folder = command, folder
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._peak = 0
        self.stderr = b""

    async def begin(self) -> None:
        pipe = asyncio.subprocess.PIPE
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, stderr=pipe, limit=MAX_LINE, start_new_session=True,
                env={**os.environ, "TMPDIR": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"},
            )  # fmt: skip
        except OSError as error:
            raise DriverFailure(f"{self._command[0]} does not start: {error}") from error
        self._tasks = [asyncio.create_task(each) for each in (self._read(), self._read_stderr())]

    async def _write(self, line: str) -> None:
        assert self._process and self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.write(line.encode() + b"\n")
            await self._process.stdin.drain()

    async def _read(self) -> None:
        assert self._process and self._process.stdout
        try:
            while line := await self._process.stdout.readline():
                self._take(line.decode(errors="replace").rstrip("\n"))
        except ValueError:
            return self._fail(f"a line of the driver is over {MAX_LINE} bytes")
        await self._tasks[1]
        status = await self._process.wait()
        told = self.stderr.decode(errors="replace").strip()
        self._fail(f"the driver ended with status {status}" + (f": {told[-1000:]}" if told else ""))

    async def _read_stderr(self) -> None:
        assert self._process and self._process.stderr
        while piece := await self._process.stderr.read(65536):
            self.stderr = (self.stderr + piece)[-KEPT_STDERR:]
            if self._trace:
                for line in piece.decode(errors="replace").splitlines():
                    self._trace(f"! {line}")

    async def _measure(self) -> None:
        while True:
            self.peak_memory()
            await asyncio.sleep(0.05)

    def peak_memory(self) -> int:
        assert self._process
        if len(self._tasks) == 2:
            self._tasks.append(asyncio.create_task(self._measure()))
        self._peak = max(self._peak, sum(resident_size(each) for each in process_tree(self._process.pid)))
        return self._peak

    async def end(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin
        self._process.stdin.close()
        try:
            async with asyncio.timeout(EXIT_TIMEOUT):
                await self._process.wait()
        except TimeoutError:
            pass
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def process_tree(root: int) -> list[int]:
    """A process and its descendants."""
    found, rest = [], [root]
    while rest:
        process = rest.pop()
        found.append(process)
        for task in Path(f"/proc/{process}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                rest += map(int, task.read_text().split())
    return found


def resident_size(process: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
