"""A client of a host that keeps a journal: sessions that survive the death of either side, each entry once.

    async with Client(command=["trunkline", "serve", "--journal", "journal"]) as client:
        session = await client.open()
        async for entry in session.send("hello"):
            print(entry["type"])
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, cast

from ._frames import MAX_LINE
from ._json import encode, parse
from .types import AdapterMessage, RelayMessage

Message = dict[str, Any]
Entry = AdapterMessage | RelayMessage
Decide = Callable[[Message], bool | Awaitable[bool]]
AGREED = {"protocol": 1, "extensions": ["turns", "events", "usage", "control", "options", "journal"]}
WAITING = 4096  # entries of one turn that its reader has not taken; then reading waits for it
TRIES = 40  # connections in a row that bring nothing
FIRST_DELAY, LAST_DELAY = 0.05, 2.0  # seconds between them, doubling, with jitter


class SessionEnded(Exception):
    """The session takes no more inputs: it was closed, or the host refuses it."""


class ClientTurn:
    """One input and its entries, in order and each once, up to its `turn.complete`. Iterate it once.

    Entries wait while it is not iterated, and beyond 4096 of them every session of the client does. Leaving the loop lets
    the turn go on, unheard. Cancelling loses nothing.
    """

    def __init__(self, session: ClientSession, id: str, input: Message) -> None:
        self._session, self.id, self.input = session, id, input
        self._entries: asyncio.Queue[Message | Exception] = asyncio.Queue(WAITING)
        self._heard, self._stops = True, False

    async def _put(self, entry: Message | Exception) -> None:
        if self._heard:
            await self._entries.put(entry)

    async def __aiter__(self) -> AsyncIterator[Entry]:
        try:
            while True:
                entry = await self._entries.get()
                if isinstance(entry, Exception):
                    raise entry
                yield cast(Entry, entry)
                if entry["type"] == "turn.complete":
                    return
        finally:
            self._heard = False
            while not self._entries.empty():
                self._entries.get_nowait()

    async def text(self) -> str:
        """Waits for the end, and returns the answer: all `output` on channel `stdout`. Raises as iterating does."""
        said = []
        async for entry in self:
            if entry["type"] == "output" and (entry.get("channel") or "stdout") == "stdout":
                said.append(entry["content"])
        return "".join(said)

    async def stop(self) -> None:
        """Asks the agent to end the turn; its end comes as an entry."""
        self._stops = True
        await self._session._write("stop", turn_id=self.id)


class ClientSession:
    """One session. `last` is the number of the last entry that was taken; 0 for none."""

    def __init__(self, client: Client, id: str, options: Message, permission: Decide | None, last: int) -> None:
        self._client, self.id, self._options, self._permission = client, id, options, permission
        self.last = last
        self._turns: dict[str, ClientTurn] = {}
        self._answers: dict[str, Message] = {}  # that no entry has confirmed yet
        self._ended: SessionEnded | None = None

    def send(self, text: str) -> ClientTurn:
        """Sends an input, and gives its turn. However often the connection breaks, it is one input."""
        if self._ended:
            raise self._ended
        turn_id = str(uuid.uuid4())
        turn = ClientTurn(self, turn_id, {"content": text, "turn_id": turn_id, "message_id": str(uuid.uuid4())})
        self._turns[turn_id] = turn
        self._client._spawn(self._write("user.input", **turn.input))
        return turn

    async def close(self) -> None:
        """Ends the session for all."""
        await self._write("session.close")

    async def _write(self, type: str, **members: Any) -> None:
        await self._client._write({"type": type, "session_id": self.id, **members})

    async def _enter(self) -> None:
        if self.last:
            await self._write("session.attach", after=self.last, **AGREED)
        else:
            await self._write("session.start", **AGREED, **self._options)
        await self._resend()

    async def _resend(self) -> None:
        for turn in list(self._turns.values()):
            await self._write("user.input", **turn.input)
            if turn._stops:
                await self._write("stop", turn_id=turn.id)
        for answer in list(self._answers.values()):
            await self._write("permission.response", **answer)

    async def _take(self, message: Message) -> None:
        kind, seq = message["type"], message.get("seq")
        if kind == "request.decided":
            self._answers.pop(message.get("request_id") or "", None)
        if kind == "session.refused":
            if message.get("reason") == "exists":  # its start was stored, and the answer was lost
                await self._write("session.attach", after=self.last, **AGREED)
                return await self._resend()
            return await self._end(SessionEnded(message.get("message") or message.get("reason") or "refused"))
        if kind == "lag":
            self.last = max(self.last, message["to"])
            return
        if kind == "input.result":
            return
        if type(seq) is not int:  # an answer to this client alone, such as the end of an input that is refused
            if kind == "turn.complete" and not message.get("provisional"):
                await self._deliver(message)
            elif kind == "session.closed":
                await self._end(SessionEnded((message.get("error") or {}).get("message") or "closed"))
            return
        if seq <= self.last:
            return
        if seq > self.last + 1:  # something is missing: ask for it again
            return await self._write("session.attach", after=self.last, **AGREED)
        self.last = seq
        if kind == "permission.request":
            self._client._spawn(self._decide(message))
        await self._deliver(message)
        if kind == "session.closed":
            await self._end(SessionEnded("the session is closed"))

    async def _deliver(self, message: Message) -> None:
        turn = self._turns.get(message.get("turn_id") or "")
        if message["type"] == "turn.complete":
            self._turns.pop(message.get("turn_id") or "", None)
        if turn:
            await turn._put(message)

    async def _decide(self, request: Message) -> None:
        approved: Any = False
        try:
            if self._permission:
                approved = self._permission(request)
                if inspect.isawaitable(approved):
                    approved = await approved
        finally:
            answer = {"request_id": request["request_id"], "approved": approved is True}
            self._answers[request["request_id"]] = answer
            await self._write("permission.response", **answer)

    async def _end(self, why: SessionEnded) -> None:
        self._ended = self._ended or why
        turns, self._turns = self._turns, {}
        for turn in turns.values():
            await turn._put(why)


class Client:
    """A hub of one host: a command that is started, and started again when it ends, or the Unix socket of a daemon.

    It is entered with `async with`, and leaves its sessions when it is left: they can be opened again by their ids.
    """

    def __init__(self, *, command: Sequence[str] | None = None, socket: str | None = None) -> None:
        if (command is None) == (socket is None):
            raise TypeError("either a command or a socket")
        self._command, self._socket = command, socket
        self._sessions: dict[str, ClientSession] = {}
        self._writer: asyncio.StreamWriter | None = None
        self.process: asyncio.subprocess.Process | None = None
        """The command's process, while one runs."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pump: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Client:
        reader = await self._dial()
        self._pump = asyncio.create_task(self._run(reader))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in [self._pump, *self._tasks]:
            if task:
                task.cancel()
        await asyncio.gather(*filter(None, [self._pump, *self._tasks]), return_exceptions=True)
        await self._hang_up()

    async def open(
        self, session_id: str | None = None, *, permission: Decide | None = None, after: int = 0, **options: Any
    ) -> ClientSession:
        """Opens a session, or with `after`, the last entry that is known, goes on with one.

        `permission` gets each `permission.request` and returns whether it is approved; without one all are denied.
        `options` are members of `session.start`.
        """
        session = ClientSession(self, session_id or str(uuid.uuid4()), options, permission, after)
        self._sessions[session.id] = session
        await session._enter()
        return session

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, message: Message) -> None:
        """Writes, where there is a connection. What needs an answer is written again on the next one."""
        if self._writer:
            with contextlib.suppress(OSError):
                self._writer.write(f"{encode(message)}\n".encode())
                await self._writer.drain()

    async def _dial(self) -> asyncio.StreamReader:
        if self._socket is not None:
            reader, self._writer = await asyncio.open_unix_connection(self._socket, limit=MAX_LINE)
            return reader
        pipe = asyncio.subprocess.PIPE
        assert self._command is not None
        self.process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe, limit=MAX_LINE)
        assert self.process.stdin and self.process.stdout
        self._writer = self.process.stdin
        return self.process.stdout

    async def _hang_up(self) -> None:
        writer, self._writer = self._writer, None
        if writer:
            writer.close()
        process, self.process = self.process, None
        if process:
            try:
                await asyncio.wait_for(process.wait(), 10)
            except TimeoutError:
                process.kill()
                await process.wait()

    async def _run(self, reader: asyncio.StreamReader) -> None:
        tries = 0
        while tries < TRIES:
            with contextlib.suppress(OSError, ValueError):  # a line over the limit breaks the connection, too
                while line := await reader.readline():
                    if (message := parse(line)) and (session := self._sessions.get(message.get("session_id") or "")):
                        tries = 0
                        await session._take(message)
            await self._hang_up()
            while tries < TRIES:
                tries += 1
                await asyncio.sleep(min(FIRST_DELAY * 2**tries, LAST_DELAY) * random.uniform(0.5, 1))
                with contextlib.suppress(OSError):
                    reader = await self._dial()
                    for session in list(self._sessions.values()):
                        if not session._ended:
                            await session._enter()
                    break
        for session in self._sessions.values():
            await session._end(SessionEnded("the host cannot be reached"))
