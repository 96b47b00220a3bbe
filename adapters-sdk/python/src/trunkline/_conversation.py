"""A session of a client: its position in the journal, its turns, and what it answers."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from . import _files
from ._inbox import Inbox
from ._json import Message, encode
from .types import AdapterMessage, InputRequest, PermissionRequest, RelayMessage, TurnComplete

if TYPE_CHECKING:
    from .client import Client

Entry = AdapterMessage | RelayMessage
Decision = bool | Mapping[str, Any]
Decide = Callable[[PermissionRequest], Decision | Awaitable[Decision]] | Literal["leave"]
Values = Mapping[str, Any] | None
Ask = Callable[[InputRequest], Values | Awaitable[Values]] | Literal["leave"]
AGREED = {"protocol": 1, "extensions": ["turns", "events", "usage", "control", "options", "questions", "resume", "journal"]}
TRIES = 40  # connections in a row that bring no entry, and refusals of a session
OPEN = 4096  # inputs of a session without an end
SAME = 4  # refusals in a row after which another address is tried
FORGOTTEN = 60.0  # seconds without a refusal, after which those before do not count
log = logging.getLogger("trunkline.client")


class SessionEnded(Exception):
    """The session takes no more inputs: it was closed, or the host refuses it, or cannot be reached."""


@dataclass
class _Steer:
    turn: ClientTurn
    message: Message
    said: asyncio.Future[bool]
    is_stored: bool = False


class ClientTurn:
    """One input and its entries, in order and each once, up to its `turn.complete`. Iterate it once. `id` is the turn's; the
    host may have another one for it, which is here from its `turn.begin` on.

    Entries wait while it is not iterated, and beyond 4096 of them every session of the client does. Leaving the loop lets
    the turn go on, unheard. Cancelling loses nothing.
    """

    def __init__(self, session: ClientSession, id: str, content: str, files: Sequence[str | os.PathLike[str]]) -> None:
        self._session, self.id, self._files = session, id, [os.path.abspath(file) for file in files]
        self.input: Message = {"content": content, "turn_id": id, "message_id": str(uuid.uuid4())}
        self.end: TurnComplete | None = None
        """Its `turn.complete`, once that was taken."""
        self._inbox = Inbox()
        self._begun = self._stops = False
        self._sent_in = 0  # the generation of the session in which the input was last written

    async def __aiter__(self) -> AsyncIterator[Entry]:
        try:
            while entry := await self._inbox.take():
                if entry["type"] == "turn.complete":
                    self.end = cast(TurnComplete, entry)
                yield cast(Entry, entry)
        finally:
            self._inbox.leave()

    async def text(self) -> str:
        """Waits for the end, and returns the answer: all `output` on channel `stdout`, with an empty line between two
        messages. Raises as iterating does."""
        said: list[str] = []
        message = None
        async for entry in self:
            if entry["type"] == "output" and (entry.get("channel") or "stdout") == "stdout":
                last, message = message, entry.get("message_id") or message
                if last is not None and message != last:
                    said.append("\n\n")
                said.append(entry["content"])
        return "".join(said)

    async def stop(self) -> None:
        """Asks the agent to end the turn; its end comes as an entry."""
        self._stops = True
        if self._begun:
            await self._session._say({"type": "stop", "turn_id": self.id})

    async def steer(self, text: str) -> bool:
        """Adds to the turn while it runs. Returns whether the agent took it. However often the connection breaks, it is
        added once. Cancelling may leave it added. Raises SessionEnded."""
        return await self._session._steer(self, text)


class ClientSession:
    """One session. `last` is the number of the last entry that was taken; 0 for none.

    With `entries=True` of `open`, `async for entry in session` gives all entries from `after` on, those of other clients'
    turns too, up to the end of the session; they wait as those of a turn do.
    """

    def __init__(
        self, client: Client, id: str, options: Message, permission: Decide | None, question: Ask | None, observe: bool,
        entries: bool, attach: bool, last: int,
    ) -> None:  # fmt: skip
        self._client, self.id, self._options, self._observe = client, id, options, observe
        self._permission, self._question = permission, question
        self.last = last
        self._epoch: Any = None
        self._attaches = attach
        self._inbox = Inbox() if entries else None
        self._turns: dict[str, ClientTurn] = {}
        self._asked: dict[str, int] = {}  # requests that no entry has settled, by the entry that asks
        self._answers: dict[str, Message] = {}  # of these
        self._steers: dict[str, _Steer] = {}
        self._there = 0  # the last entry that was there at the attach
        self._waiting: set[str] = set()  # requests that were
        self._live = False  # all that was there is taken: what is said now is said once
        self._generation = 0  # counts how often it became live
        self._refusals, self._refused = 0, 0.0  # how often in a row it was not served, and when last
        self._later: object = None  # what has it come again
        self._closes = False
        self._closed_on: object = None
        self._writing = asyncio.Lock()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over: asyncio.Future[SessionEnded] = asyncio.get_running_loop().create_future()

    def send(self, text: str, files: Sequence[str | os.PathLike[str]] = ()) -> ClientTurn:
        """Sends an input, and gives its turn. However often the connection breaks, it is one input; a file of it may come
        twice. Over a network a file has at most 64 MiB. Raises SessionEnded; ValueError for a 4097th turn without an end.
        """
        self._check()
        if len(self._turns) >= OPEN:
            raise ValueError(f"{OPEN} turns of the session have no end yet")
        turn = ClientTurn(self, str(uuid.uuid4()), text, files)
        self._turns[turn.id] = turn
        self._client._spawn(self._say_all([turn]))
        return turn

    async def file(self, entry: Mapping[str, Any]) -> bytes:
        """The contents of a file that the agent gave: of a `file.output`. Over a network it has at most 64 MiB.

        Raises OSError where it is not what was announced or the connection breaks, and Refused where a daemon has none.
        """
        data = await self._client._file(self.id, dict(entry))
        if (sha256 := entry.get("sha256")) and hashlib.sha256(data).hexdigest() != sha256:
            raise OSError("the file is not the one that was announced")
        return data

    async def close(self) -> None:
        """Ends the session for all. Returns when it has ended. Cancelling may leave it closed."""
        if self._over.done():
            return
        self._check()
        self._closes = True
        await self._say_close()
        await asyncio.shield(self._over)

    async def __aiter__(self) -> AsyncIterator[Entry]:
        if self._inbox is None:
            raise TypeError("the session was opened without entries=True")
        while entry := await self._inbox.take():
            yield cast(Entry, entry)

    def _check(self) -> None:
        if self._over.done():
            raise self._over.result()
        if self._observe:
            raise ValueError("an observer says nothing")

    # What it says.

    async def _enter(self) -> None:
        self._live, self._later = False, None
        said = {"session_id": self.id, **AGREED}
        if not self._attaches and self.last == 0:
            return await self._client._write({"type": "session.start", **said, **self._options})
        role = "observe" if self._observe else "control"
        epoch = {"epoch": self._epoch} if self._epoch is not None else {}
        await self._client._write({"type": "session.attach", **said, "after": self.last, "role": role, **epoch})

    async def _say(self, message: Message) -> None:
        """Says something where there is a connection; what needs an answer is said again on the next one."""
        async with self._writing:
            if self._live:
                await self._client._write({**message, "session_id": self.id})

    async def _say_all(self, turns: list[ClientTurn]) -> None:
        async with self._writing:
            for turn in turns:
                if self._live and not turn._begun and turn._sent_in != self._generation:
                    turn._sent_in = self._generation
                    await self._say_input(turn)

    async def _say_input(self, turn: ClientTurn) -> None:
        files = []
        try:
            for path in turn._files:
                files.append(await asyncio.to_thread(_files.announced, path, None, None, True))
        except (OSError, UnicodeError) as error:
            failure = {"category": "file_refused", "message": f"{path} could not be read: {error}"}
            return await self._deliver({"type": "turn.complete", "turn_id": turn.id, "status": "failed", "error": failure})
        await self._client._write({"type": "user.input", "session_id": self.id, **turn.input, "files": files})

    async def _say_again(self) -> None:
        """What the host may not have: it has nothing of it that no entry has shown."""
        await self._say_all([turn for turn in self._turns.values() if not turn._begun])
        for steer in list(self._steers.values()):
            if self._turns.get(steer.turn.id) is not steer.turn and not steer.is_stored:
                self._steered({**steer.message, "delivered": False})
            elif not steer.is_stored:
                await self._say(steer.message)
        for answer in list(self._answers.values()):
            await self._say(answer)
        for turn in list(self._turns.values()):
            if turn._begun and turn._stops:
                await turn.stop()
        if self._closes:
            await self._say_close()

    async def _say_close(self) -> None:
        """Once on each connection."""
        pipe = self._client._pipe
        if self._live and pipe is not self._closed_on:
            self._closed_on = pipe
            await self._say({"type": "session.close"})
            await self._enter()  # else a pipe says nothing more of a session that was closed on it

    async def _steer(self, turn: ClientTurn, text: str) -> bool:
        self._check()
        if self._turns.get(turn.id) is not turn:
            return False
        message_id = str(uuid.uuid4())
        message = {"type": "user.input", "mode": "steer", "message_id": message_id, "turn_id": turn.id, "content": text}
        steer = self._steers[message_id] = _Steer(turn, message, asyncio.get_running_loop().create_future())
        try:
            await self._say(message)
            return await steer.said
        finally:
            self._steers.pop(message_id, None)

    async def _decide(self, request: Message) -> None:
        is_permission = request["type"] == "permission.request"
        decide: Any = self._permission if is_permission else self._question
        if decide == "leave":
            return
        answer: Message = {"approved": False} if is_permission else {"cancelled": True}
        try:
            said: Any = decide(request) if decide else None
            if inspect.isawaitable(said):
                said = await said
            more = dict(said) if isinstance(said, Mapping) else None
            encode(more)
        except Exception:  # what cannot decide does not approve
            log.exception("a %s was not answered by its callback", request["type"])
        else:
            if is_permission:
                answer = {**(more or {}), "approved": (said if more is None else more.get("approved")) is True}
            elif more is not None:
                answer = {"values": more}
        answer["type"] = "permission.response" if is_permission else "input.response"
        request_id = answer["request_id"] = request["request_id"]
        if self._asked.get(request_id) != request["seq"]:
            return  # it is settled; another one may have its id
        self._answers[request_id] = answer
        await self._say(answer)

    # What it hears.

    async def _take(self, message: Message) -> None:
        kind, seq = message["type"], message.get("seq")
        if type(seq) is not int or kind == "input.result":
            return await self._take_own(message)
        if seq <= self.last:
            return
        if seq > self.last + 1:  # something is missing: ask for it again
            if self._there >= 0:
                self._there = -1
                self._client._spawn(self._enter())
            return
        self.last, self._epoch, self._refusals = seq, message.get("epoch"), 0
        turn_id, message_id = message.get("turn_id") or "", message.get("message_id") or ""
        if kind == "turn.begin":
            self._begin(turn_id, message_id)
        elif kind == "input.steered":
            if steer := self._steers.get(message_id):
                steer.is_stored = True
        elif kind in ("permission.request", "input.request"):
            if not self._observe and (seq > self._there or message["request_id"] in self._waiting):
                self._asked[message["request_id"]] = seq
                self._client._spawn(self._decide(message))
        elif kind == "steer.result":
            self._steered(message)
        elif kind == "request.decided":
            self._settled(message)
        await self._deliver(message)
        if kind == "session.closed":
            self._end(SessionEnded((message.get("error") or {}).get("message") or "the session is closed"), clean=True)
        self._look()

    async def _take_own(self, message: Message) -> None:
        """What the host says to this client alone."""
        kind = message["type"]
        if kind == "session.ready":
            if "journal" not in (message.get("extensions") or ()):
                return self._end(SessionEnded("the host keeps no journal"))
            self._there = 0
            self._settle()
        elif kind == "session.attached":
            self._there, self._waiting = message["last_seq"], set(message.get("requests") or ())
            if self.last > self._there:
                return self._end(SessionEnded(f"the session has {self._there} entries, and {self.last} were claimed"))
            if message.get("state") == "closed" and self.last == self._there and not self._closes:
                return self._end(SessionEnded("the session is closed"), clean=True)
            self._settle()
        elif kind == "session.refused":
            if message.get("reason") == "exists" and not self._attaches:
                self._attaches = True  # its start was stored, and the answer was lost
                return self._client._spawn(self._enter())
            if message.get("reason") in ("read_only", "unavailable"):
                return self._unserved(message.get("message") or "it is not served now")
            self._end(SessionEnded(message.get("message") or message.get("reason") or "refused"))
        elif kind == "lag":  # entries that the journal has lost
            self.last = max(self.last, message["to"])
            for turn in self._turns.values():
                await turn._inbox.put(message)
            if self._inbox:
                await self._inbox.put(message)
            self._look()
        elif kind == "turn.complete" and not message.get("provisional"):  # a refused input's
            await self._deliver(message)
        elif kind == "steer.result":
            self._steered(message)
        elif kind == "request.decided":
            self._settled(message)
        elif kind == "session.closed":
            self._end(SessionEnded((message.get("error") or {}).get("message") or "closed"), clean=True)
        elif kind == "error":
            log.warning("session %s: %s", self.id, message.get("message"))

    def _unserved(self, why: str) -> None:
        """Comes again in a while, as often as a connection is tried: its host is gone, say, and another will have it."""
        if self._later:
            return
        now = asyncio.get_running_loop().time()
        if now - self._refused > FORGOTTEN:
            self._refusals = 0
        self._live, self._refused, self._refusals = False, now, self._refusals + 1
        self._closed_on = None
        if self._refusals > TRIES:
            return self._end(SessionEnded(f"the session cannot be reached: {why}"))
        self._later = later = object()
        self._client._spawn(self._enter_later(later))

    async def _enter_later(self, later: object) -> None:
        pipe = self._client._pipe
        await self._client._pause(self._refusals)
        if self._over.done() or self._later is not later:
            return  # it has come on another connection
        if self._refusals % SAME or not await self._client._elsewhere(pipe):
            await self._enter()

    def _settle(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)
        self._look()

    def _look(self) -> None:
        """Whether it has all that was there."""
        if not self._live and self._ready.done() and 0 <= self._there <= self.last:
            self._live = True
            self._generation += 1
            self._client._spawn(self._say_again())

    def _begin(self, turn_id: str, message_id: str) -> None:
        """The journal has an input, under the host's turn id."""
        turn = self._turns.get(turn_id) or next(
            (turn for turn in self._turns.values() if turn.input["message_id"] == message_id), None
        )
        if turn is None or turn._begun or turn.input["message_id"] != message_id:
            return
        del self._turns[turn.id]
        turn.id, turn._begun = turn_id, True
        self._turns[turn_id] = turn
        if turn._stops:
            self._client._spawn(turn.stop())

    def _steered(self, message: Message) -> None:
        steer = self._steers.get(message.get("message_id") or "")
        if steer and not steer.said.done():
            steer.said.set_result(message.get("delivered") is True)

    def _settled(self, message: Message) -> None:
        self._asked.pop(message["request_id"], None)
        self._answers.pop(message["request_id"], None)

    async def _deliver(self, message: Message) -> None:
        turn_id = message.get("turn_id") or ""
        if turn := self._turns.get(turn_id):
            await turn._inbox.put(message)
            if message["type"] == "turn.complete":
                del self._turns[turn_id]
                turn._inbox.end()
        if self._inbox and type(message.get("seq")) is int:
            await self._inbox.put(message)

    def _end(self, why: SessionEnded, clean: bool = False) -> None:
        if self._over.done():
            return
        self._over.set_result(why)
        if not self._ready.done():
            self._ready.set_exception(why)
            self._ready.exception()  # who opened it hears of it, if there is one
        turns, self._turns = self._turns, {}
        for turn in turns.values():
            turn._inbox.end(why)
        for steer in self._steers.values():
            if not steer.said.done():
                steer.said.set_exception(why)
        if self._inbox:
            self._inbox.end(None if clean else why)
        self._client._forget(self)
