"""A session of a client: its position in the journal, its turns, and its answers."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import os
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from . import _files, _retry
from ._errors import (
    CATEGORIES, CLOSED, REASONS, Conflict, ProtocolMismatch, RequestDecision, SessionEnded, TrunklineError, Unreachable,
    refusal,
)  # fmt: skip
from ._inbox import Inbox
from ._json import Message, encode
from ._remote import FAILED
from .types import AdapterMessage, InputRequest, PermissionRequest, RelayMessage, TurnComplete

if TYPE_CHECKING:
    from .api import Decided, EntryPage, ForkedSession, Session
    from .client import Client

Entry = AdapterMessage | RelayMessage
Decision = bool | Mapping[str, Any] | Literal["leave"]
Decide = (
    Callable[[PermissionRequest], Decision | Awaitable[Decision]]
    | Callable[[PermissionRequest, "PendingRequest"], Decision | Awaitable[Decision]]
    | Literal["leave"]
)
Values = Mapping[str, Any] | Literal["leave"] | None
Ask = (
    Callable[[InputRequest], Values | Awaitable[Values]]
    | Callable[[InputRequest, "PendingRequest"], Values | Awaitable[Values]]
    | Literal["leave"]
)
Failed = Callable[[Exception], object]
AGREED = {"protocol": 1, "extensions": ["turns", "events", "usage", "control", "options", "questions", "resume", "journal"]}
MAX_OPEN_TURNS = 4096  # inputs of a session without an end
SAME_ADDRESS = 4  # refusals in a row after which another address is tried
REFUSALS_COUNT = 60.0  # seconds without a refusal, after which those before do not count
TURN_ENDED = "the turn has ended"
log = logging.getLogger("trunkline.client")


class PendingRequest:
    """A permission or a question while its callback runs: the callback's second argument, if it takes one.

    It ends with the request: another client answers, the agent withdraws it, its turn ends, or the session does. An
    `async` callback is then cancelled, and `decision` has who decided. A plain callback on a thread of `BlockingClient`
    cannot be cancelled: it waits for `decided`, and its result is ignored.
    """

    def __init__(self, request: Message) -> None:
        self.request = request
        self.decided = threading.Event()
        """Set when the request has a decision."""
        self.decision: RequestDecision | None = None
        self._task: asyncio.Task[None] | None = None

    def wait(self, seconds: float | None = None) -> RequestDecision | None:
        """Waits on a thread for the decision; None after the time."""
        self.decided.wait(seconds)
        return self.decision

    def _settle(self, decision: RequestDecision) -> None:
        if self.decision is None:
            self.decision = decision
            self.decided.set()


@dataclass(frozen=True)
class SteerResult:
    """The reply of the agent to an input during a turn: true if it accepted the input."""

    delivered: bool
    reason: str | None = None
    """The cause of a refusal: the agent takes no input during a turn, the turn is queued or has ended, or its own reason."""

    def __bool__(self) -> bool:
        return self.delivered


@dataclass
class _Steer:
    turn: ClientTurn
    message: Message
    result: asyncio.Future[SteerResult]
    is_stored: bool = False


class ClientTurn:
    """One input and its entries, in order and each once, up to its `turn.complete`. Iterate it once. `id` is the turn's;
    the host may have another one for it, which is here from its `turn.begin` on.

    Entries wait while it is not iterated, and beyond 4096 of them every session of the client waits. If you leave the loop
    the turn goes on without a reader. Cancelling loses nothing.
    """

    def __init__(
        self, session: ClientSession, id: str, content: str, files: Sequence[str | os.PathLike[str]], limits: Message | None
    ) -> None:
        self._session, self.id, self._files = session, id, [os.path.abspath(file) for file in files]
        self.input: Message = {"content": content, "turn_id": id, "message_id": str(uuid.uuid4())}
        if limits:
            self.input["limits"] = limits
        self.end: TurnComplete | None = None
        """Its `turn.complete`, once it was iterated: `status`, `error` of a turn that failed, `usage` and others."""
        self._inbox = Inbox()
        self._begun = self._stops = False
        self._stored = asyncio.Event()  # it has begun or ended
        self._sent_in = 0  # the generation of the session in which the input was last written

    @property
    def state(self) -> Literal["sent", "queued", "running", "ended"]:
        """`sent` until the host has it; `queued` while another turn runs."""
        if self._session._turns.get(self.id) is not self:
            return "ended"
        if not self._begun:
            return "sent"
        return "running" if self._session.turns[:1] == [self.id] else "queued"

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
        messages. A failed turn raises nothing, and its text may be empty: `end` has its `status` and `error`. Raises as
        iterating does."""
        parts: list[str] = []
        message = None
        async for entry in self:
            if entry["type"] == "output" and (entry.get("channel") or "stdout") == "stdout":
                last, message = message, entry.get("message_id") or message
                if last is not None and message != last:
                    parts.append("\n\n")
                parts.append(entry["content"])
        return "".join(parts)

    async def stop(self) -> None:
        """Asks the agent to end the turn; its end comes as an entry."""
        self._stops = True
        if self._begun:
            await self._session._say({"type": "stop", "turn_id": self.id})

    async def withdraw(self) -> bool:
        """Takes the input back while it is queued. Returns true if it never runs. A turn that runs is left alone."""
        await self._stored.wait()
        return await self._session.withdraw(self.id)

    async def steer(self, text: str) -> SteerResult:
        """Adds to the turn while it runs. Waits until the host has the turn, and returns whether the agent accepted the
        text, and if not, why. A queued turn takes none. However often the connection breaks, it is added once. Cancelling
        may leave it added. Raises SessionEnded."""
        return await self._session._steer(self, text)


class ClientSession:
    """One session. `last` is the number of the last entry that was taken; 0 for none.

    With `entries=True` of `open`, `async for entry in session` gives all entries from `after` on, also of other clients'
    turns, up to the end of the session; they wait as entries of a turn do.
    """

    def __init__(
        self, client: Client, id: str, options: Message, permission: Decide | None, question: Ask | None, observe: bool,
        entries: bool, attach: bool, last: int, epoch: int | None, failed: Failed | None,
    ) -> None:  # fmt: skip
        self._client, self.id, self._options, self._observe = client, id, options, observe
        self._permission, self._question, self._failed = permission, question, failed
        self.last = last
        self.epoch = epoch
        """The `epoch` of the entry `last`. A host whose journal has another entry there refuses it."""
        self._attaches, self._starts = attach, False
        self._inbox = Inbox() if entries else None
        self._turns: dict[str, ClientTurn] = {}
        self._open_turns: dict[str, None] = {}  # of all clients: the one that runs, then those that wait
        self._turn_ends: dict[str, asyncio.Future[bool]] = {}  # true if the turn never ran
        self._open_requests: dict[str, str | None] = {}  # with the turn of each
        self._pending: dict[str, PendingRequest] = {}  # of these, those whose callback runs
        self._answering: dict[str, int] = {}  # requests that a call of this client answers
        self._answers: dict[str, Message] = {}  # answers over a pipe without a decision
        self._replies: dict[str, asyncio.Future[RequestDecision]] = {}  # of these answers
        self._updates: list[tuple[Message, asyncio.Future[None]]] = []  # changed settings over a pipe
        self._steers: dict[str, _Steer] = {}
        self._listeners: set[str | None] = set()  # the names of this client, one for each connection
        self._there = 0  # the last entry that was there at the attach
        self._waiting: set[str] = set()  # requests that were
        self._live = False  # all that was there is taken: what is written now is written once
        self._generation = 0  # counts how often it became live
        self._refusals, self._refused = 0, 0.0  # how often in a row it was not served, and when last
        self._later: object = None  # the next attach after a refusal
        self._closes = False
        self._closed_on: object = None
        self._writing = asyncio.Lock()
        self._became_live = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over: asyncio.Future[SessionEnded] = asyncio.get_running_loop().create_future()

    @property
    def turns(self) -> list[str]:
        """Ids of the open turns of all clients: the one that runs, then those that are queued."""
        return list(self._open_turns)

    @property
    def requests(self) -> list[str]:
        """Ids of the permissions and questions that wait for an answer."""
        return list(self._open_requests)

    def send(
        self, text: str, files: Sequence[str | os.PathLike[str]] = (), *, limits: Mapping[str, int] | None = None
    ) -> ClientTurn:
        """Sends an input, and returns its turn. It is queued while another turn runs. However often the connection breaks,
        it is one input; a file of it may come twice. Over a network a file has at most 64 MiB. `limits` has `max_tokens`,
        `turn_timeout_ms` and `inactivity_timeout_ms` of this turn. Raises SessionEnded; ValueError for a 4097th turn without
        an end. A refused input ends its turn, with the category in `error` of the end.
        """
        self._check()
        if len(self._turns) >= MAX_OPEN_TURNS:
            raise ValueError(f"{MAX_OPEN_TURNS} turns of the session have no end yet")
        turn = ClientTurn(self, str(uuid.uuid4()), text, files, dict(limits) if limits else None)
        self._turns[turn.id] = turn
        self._client._spawn(self._say_all([turn]))
        return turn

    async def file(self, entry: Mapping[str, Any]) -> bytes:
        """Returns the contents of a file that the agent gave: of a `file.output`. It has at most 64 MiB.

        Raises OSError if it is not what was announced or the connection breaks, and Refused if the daemon has none.
        """
        data = await self._client._file(self.id, dict(entry))
        if (sha256 := entry.get("sha256")) and hashlib.sha256(data).hexdigest() != sha256:
            raise OSError("the file is not the one that was announced")
        return data

    async def answer(self, request_id: str, approved: bool | None = None, **answer: Any) -> Decided:
        """Answers a permission or a question, as `Client.answer` does."""
        return await self._client.answer(self.id, request_id, approved, **answer)

    async def stop(self, turn_id: str | None = None) -> None:
        """Asks the agent to end a turn of any client; without an id the one that runs. Raises Conflict if none runs."""
        await self._client.stop(self.id, turn_id)

    async def withdraw(self, turn_id: str) -> bool:
        """Takes a queued input of any client back. Returns true if it never runs. A turn that runs is left alone."""
        self._check()
        if turn_id not in self.turns[1:]:
            return False
        ended = self._turn_ends.setdefault(turn_id, asyncio.get_running_loop().create_future())
        try:
            await self.stop(turn_id)
        except Conflict:  # it has just ended
            pass
        return await asyncio.shield(ended)

    async def settings(self, **options: Any) -> None:
        """Changes options such as `model` and `mode`; the values in force come as `session.info`."""
        await self._client.settings(self.id, **options)

    async def info(self) -> Session:
        """Returns the state of the session."""
        return await self._client.info(self.id)

    async def history(
        self, *, start: int | None = None, before: int | Literal["end"] | None = None, limit: int = 100
    ) -> EntryPage:
        """Returns a page of entries, as `Client.history` does."""
        return await self._client.history(self.id, start=start, before=before, limit=limit)

    async def rename(self, title: str) -> None:
        """Changes the title, of at most 200 bytes; an empty one removes it."""
        await self._client.rename(self.id, title)

    async def archive(self, archived: bool = True) -> None:
        """Leaves the session out of lists, or lists it again. It goes on either way."""
        await self._client.archive(self.id, archived)

    async def fork(self, seq: int | None = None) -> ForkedSession:
        """Makes a copy, up to an entry. Open it by its `id`."""
        return await self._client.fork(self.id, seq)

    async def remove(self) -> None:
        """Leaves the session, and removes all that is kept of it. Raises Conflict while a turn or another client uses it."""
        await self._client._abilities_for("removal of sessions")
        await self.leave()
        await self._client.remove(self.id)

    async def leave(self) -> None:
        """Leaves the session, which goes on. It can be opened again behind `last`."""
        self._end(SessionEnded("the client left the session"), clean=True, detaches=False)
        await self._client._write({"type": "session.detach", "session_id": self.id})

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
            raise ValueError("an observer sends nothing")

    # Writing.

    async def _enter(self) -> None:
        self._live, self._later = False, None
        self._became_live.clear()
        head = {"session_id": self.id, **AGREED}
        if not self._attaches and self.last == 0:
            return await self._client._write({"type": "session.start", **head, **self._options})
        role = "observe" if self._observe else "control"
        epoch = {"epoch": self.epoch} if self.epoch is not None else {}
        await self._client._write({"type": "session.attach", **head, "after": self.last, "role": role, **epoch})

    async def _say(self, message: Message) -> None:
        """Writes a message if there is a connection; what needs an answer is written again on the next one."""
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
        files, path = [], ""
        try:
            for path in turn._files:
                files.append(await asyncio.to_thread(_files.announced, path, None, None, True))
        except (OSError, UnicodeError) as error:
            failure = {"category": "file_refused", "message": f"{path} could not be read: {error}"}
            return await self._deliver({"type": "turn.complete", "turn_id": turn.id, "status": "failed", "error": failure})
        await self._client._write({"type": "user.input", "session_id": self.id, **turn.input, "files": files})

    async def _say_again(self) -> None:
        """Writes again what the host may not have: what no entry has shown."""
        await self._say_all([turn for turn in self._turns.values() if not turn._begun])
        for steer in list(self._steers.values()):
            if self._turns.get(steer.turn.id) is not steer.turn and not steer.is_stored:
                self._steered({**steer.message, "delivered": False, "reason": TURN_ENDED})
            elif not steer.is_stored:
                await self._say(steer.message)
        for answer in list(self._answers.values()):
            await self._say(answer)
        for update, _ in list(self._updates):
            await self._say(update)
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
            await self._enter()  # a pipe sends nothing more of a session that was closed on it

    async def _steer(self, turn: ClientTurn, text: str) -> SteerResult:
        self._check()
        await turn._stored.wait()  # otherwise the text could precede the input of the turn
        self._check()
        if self._turns.get(turn.id) is not turn:
            return SteerResult(False, TURN_ENDED)
        message_id = str(uuid.uuid4())
        message = {"type": "user.input", "mode": "steer", "message_id": message_id, "turn_id": turn.id, "content": text}
        steer = self._steers[message_id] = _Steer(turn, message, asyncio.get_running_loop().create_future())
        try:
            await self._say(message)
            return await steer.result
        finally:
            self._steers.pop(message_id, None)

    async def _when_live(self) -> None:
        while not self._live:
            if self._over.done():
                raise self._over.result()
            waits: asyncio.Future[Any] = asyncio.ensure_future(self._became_live.wait())
            over: asyncio.Future[Any] = self._over
            try:
                await asyncio.wait([waits, over], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waits.cancel()

    # Calls over a pipe without requests.

    async def _answer_on_pipe(self, request_id: str, answer: Message) -> RequestDecision:
        self._check()
        await self._when_live()
        if not self._listeners:  # a start does not report the name of this client; an attach does
            await self._enter()
            await self._when_live()
        if request_id not in self._open_requests:
            raise Conflict(409, "the request is not open")
        if request_id in self._replies:
            raise Conflict(409, "this client answers the request already")
        is_question = not answer.keys().isdisjoint(("values", "cancelled"))
        kind = "input.response" if is_question else "permission.response"
        reply: asyncio.Future[RequestDecision] = asyncio.get_running_loop().create_future()
        self._replies[request_id] = reply
        message = self._answers[request_id] = {"type": kind, "request_id": request_id, **answer}
        try:
            await self._say(message)
            decision = await reply
        finally:
            self._replies.pop(request_id, None)
            self._answers.pop(request_id, None)
        if decision.reason is not None or decision.by is not None and decision.by not in self._listeners:
            conflict = Conflict(409, f"the request was decided by {decision.who} before")
            conflict.decision = decision
            raise conflict
        return decision

    async def _update_on_pipe(self, options: Message) -> None:
        self._check()
        await self._when_live()
        update = {"type": "session.update", **options}
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._updates.append((update, done))
        try:
            await self._say(update)
            await done
        finally:
            self._updates = [each for each in self._updates if each[1] is not done]

    async def _stop_on_pipe(self, turn_id: str | None) -> None:
        self._check()
        await self._when_live()
        turn_id = turn_id or next(iter(self._open_turns), None)
        if turn_id is None or turn_id not in self._open_turns:
            raise Conflict(409, "no turn runs" if turn_id is None else "the turn does not run")
        await self._say({"type": "stop", "turn_id": turn_id})

    def _reject(self, message: Message) -> None:
        """An `error` to this client alone: it belongs to the oldest call that waits, else to none."""
        status = CATEGORIES.get(message.get("category") or "", 0)
        error = refusal(status, str(message.get("message") or "refused"), message.get("category"))
        if status:
            waiting: list[asyncio.Future[Any]] = [*self._replies.values(), *(done for _, done in self._updates)]
            for future in waiting:
                if not future.done():
                    return future.set_exception(error)
        self._report(error)

    def _report(self, error: Exception) -> None:
        log.warning("session %s: %s", self.id, error)
        if self._failed:
            try:
                self._failed(error)
            except Exception:
                log.exception("the callback for errors failed")

    # Callbacks.

    async def _decide(self, pending: PendingRequest) -> None:
        request = pending.request
        is_permission, request_id = request["type"] == "permission.request", request["request_id"]
        decide: Any = self._permission if is_permission else self._question
        answer: Message = {"approved": False} if is_permission else {"cancelled": True}
        try:
            given: Any = None
            if decide:
                given = decide(request, pending) if takes_pending(decide) else decide(request)
            if inspect.isawaitable(given):
                given = await given
            if isinstance(given, str) and given == "leave":
                return
            if given is not None and not isinstance(given, Mapping) and not (is_permission and isinstance(given, bool)):
                takes = "True, False, a mapping or 'leave'" if is_permission else "a mapping of values, None or 'leave'"
                raise TypeError(f"the callback returned {type(given).__name__}; it returns {takes}")
            more = dict(given) if isinstance(given, Mapping) else None
            encode(more)
        except asyncio.CancelledError:
            if pending.decision is None:
                raise
            return
        except Exception as error:  # what cannot decide does not approve
            log.exception("a %s was not answered by its callback", request["type"])
            if self._failed:
                self._report(error)
        else:
            if is_permission:
                answer = {**(more or {}), "approved": (given if more is None else more.get("approved")) is True}
            elif more is not None:
                answer = {"values": more}
        if pending.decision is not None or self._pending.get(request_id) is not pending:
            return  # another request may have its id
        try:
            await self._client._answer(self.id, request_id, answer)
        except SessionEnded:
            pass
        except Exception as error:
            if isinstance(error, TrunklineError):
                error.request_id = request_id
            self._report(error)

    def _settled(self, message: Message) -> None:
        request_id, decision = message["request_id"], RequestDecision(message)
        self._open_requests.pop(request_id, None)
        if (reply := self._replies.get(request_id)) and not reply.done():
            reply.set_result(decision)
        if pending := self._pending.pop(request_id, None):
            pending._settle(decision)
            if pending._task and not self._answering.get(request_id) and pending._task is not asyncio.current_task():
                pending._task.cancel()

    def _settle_all(self, turn_id: str | None, reason: str) -> None:
        """Ends the requests of a turn, or all of them."""
        for request_id, turn in list(self._open_requests.items()):
            if turn_id is None or turn == turn_id:
                self._settled({"request_id": request_id, "reason": reason})

    # Reading.

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
        self.last, self.epoch, self._refusals = seq, message.get("epoch"), 0
        turn_id, message_id = message.get("turn_id") or "", message.get("message_id") or ""
        if kind == "turn.begin":
            self._open_turns[turn_id] = None
            self._begin(turn_id, message_id)
        elif kind == "input.steered":
            if steer := self._steers.get(message_id):
                steer.is_stored = True
        elif kind in ("permission.request", "input.request"):
            self._requested(message, seq)
        elif kind == "steer.result":
            self._steered(message)
        elif kind == "request.decided":
            self._settled(message)
        elif kind == "session.info":
            self._updated()
        elif kind == "turn.complete":
            never_ran = self.turns[:1] != [turn_id] or message.get("delivered") == "no"
            self._open_turns.pop(turn_id, None)
            if (ended := self._turn_ends.pop(turn_id, None)) and not ended.done():
                ended.set_result(never_ran)
            self._settle_all(turn_id, "turn_ended")
        await self._deliver(message)
        if kind == "session.closed":
            self._end(_closed(message), clean=self._ready.done())
        elif self._starts:
            self._starts = False
            self._settle()
        self._look()

    def _requested(self, message: Message, seq: int) -> None:
        request_id = message["request_id"]
        is_open = seq > self._there or request_id in self._waiting
        if is_open:
            self._open_requests[request_id] = message.get("turn_id")
        decide = self._permission if message["type"] == "permission.request" else self._question
        if is_open and not self._observe and decide != "leave":
            pending = self._pending[request_id] = PendingRequest(message)
            pending._task = self._client._spawn(self._decide(pending))

    async def _take_own(self, message: Message) -> None:
        """A message of the host to this client alone."""
        kind = message["type"]
        if kind == "session.ready":
            if "journal" not in (message.get("extensions") or ()):
                why = "the host keeps no journal: start it with --journal FOLDER"
                return self._end(SessionEnded(why, ProtocolMismatch(why)))
            self._there, self._starts = 0, True  # the first entry follows, or the refusal of the start
        elif kind == "session.attached":
            self._attached(message)
        elif kind == "session.refused":
            reason = message.get("reason")
            if reason == "exists" and not self._attaches:
                self._attaches = True  # its start was stored, and the answer was lost
                self._client._spawn(self._enter())
                return
            why = message.get("message") or reason or "refused"
            error = refusal(REASONS.get(reason or "", 403), why)
            if error.status == 503:
                if isinstance(after := message.get("retry_after"), float):  # over HTTP
                    error.retry_after = after
                return self._unserved(why, error)
            self._end(SessionEnded(why, error))
        elif kind == FAILED and isinstance(failure := message.get("error"), Exception):
            self._end(SessionEnded(str(failure), failure))
        elif kind == "lag":  # entries that the journal has lost
            self.last = max(self.last, message["to"])
            for turn in self._turns.values():
                await turn._inbox.put(message)
            if self._inbox:
                await self._inbox.put(message)
            self._look()
        elif kind == "turn.complete" and not message.get("provisional"):  # of a refused input
            await self._deliver(message)
        elif kind == "steer.result":
            self._steered(message)
        elif kind == "request.decided":
            self._settled(message)
        elif kind == "session.info":
            self._updated()
        elif kind == "session.closed":
            self._end(_closed(message), clean=self._ready.done())
        elif kind == "error":
            self._reject(message)

    def _attached(self, message: Message) -> None:
        self._there = message["last_seq"]
        self._listeners.add(message.get("listener"))
        self._waiting = set(message.get("requests") or ())
        self._open_turns = dict.fromkeys([*filter(None, [message.get("turn_id")]), *(message.get("queued") or ())])
        for request_id in self._waiting:
            self._open_requests.setdefault(request_id, None)
        if self.last > self._there:
            why = f"the session has {self._there} entries, and {self.last} were claimed"
            return self._end(SessionEnded(why, Conflict(409, why)))
        if message.get("state") == "closed" and self.last == self._there and not self._closes:
            return self._end(SessionEnded("the session is closed"), clean=True)
        self._settle()

    def _unserved(self, why: str, error: Exception) -> None:
        """Attaches again in a while, as often as a connection is tried: its host has ended, and another will have it."""
        if self._later:
            return
        now = asyncio.get_running_loop().time()
        if now - self._refused > REFUSALS_COUNT:
            self._refusals = 0
        self._live, self._refused, self._refusals = False, now, self._refusals + 1
        self._became_live.clear()
        self._closed_on = None
        if self._refusals > _retry.TRIES:
            why = f"the session cannot be reached: {why}"
            return self._end(SessionEnded(why, Unreachable(why)))
        self._later = later = object()
        self._client._spawn(self._enter_later(later, error))

    async def _enter_later(self, later: object, error: Exception) -> None:
        pipe = self._client._pipe
        await asyncio.sleep(_retry.pause_of(self._refusals, error))
        if self._over.done() or self._later is not later:
            return  # it has come on another connection
        if self._refusals % SAME_ADDRESS or not await self._client._elsewhere(pipe):
            await self._enter()

    def _settle(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)
        self._look()

    def _look(self) -> None:
        """Whether it has all that was there."""
        if not self._live and self._ready.done() and 0 <= self._there <= self.last and not self._over.done():
            self._live = True
            self._became_live.set()
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
        turn._stored.set()
        self._turns[turn_id] = turn
        if turn._stops:
            self._client._spawn(turn.stop())

    def _steered(self, message: Message) -> None:
        steer = self._steers.get(message.get("message_id") or "")
        if steer and not steer.result.done():
            reason = message.get("reason")
            steer.result.set_result(SteerResult(message.get("delivered") is True, reason if isinstance(reason, str) else None))

    def _updated(self) -> None:
        for _, done in self._updates:
            if not done.done():
                return done.set_result(None)

    async def _deliver(self, message: Message) -> None:
        turn_id = message.get("turn_id") or ""
        if turn := self._turns.get(turn_id):
            await turn._inbox.put(message)
            if message["type"] == "turn.complete":
                del self._turns[turn_id]
                turn._inbox.end()
                turn._stored.set()
        if self._inbox and type(message.get("seq")) is int:
            await self._inbox.put(message)

    def _end(self, why: SessionEnded, clean: bool = False, detaches: bool = True) -> None:
        if self._over.done():
            return
        self._live = False
        self._over.set_result(why)
        if clean and detaches:  # a session that this client still has cannot be removed
            self._client._spawn(self._client._write({"type": "session.detach", "session_id": self.id}))
        if not self._ready.done():
            self._ready.set_exception(why.cause or why)
            self._ready.exception()  # `open` raises it, if it still waits
        self._settle_all(None, "session_ended")
        turns, self._turns = self._turns, {}
        for turn in turns.values():
            turn._inbox.end(why)
            turn._stored.set()
        for steer in self._steers.values():
            if not steer.result.done():
                steer.result.set_exception(why)
        waiting = [*self._replies.values(), *self._turn_ends.values(), *(done for _, done in self._updates)]
        for future in cast("list[asyncio.Future[Any]]", waiting):
            if not future.done():
                future.set_exception(why)
                future.exception()
        if self._inbox:
            self._inbox.end(None if clean else why)
        self._client._forget(self)


def _closed(message: Message) -> SessionEnded:
    """The end of a session, with the error of a refused start."""
    failure = message.get("error") or {}
    why, reason = failure.get("message") or "the session is closed", message.get("reason")
    if reason == "protocol":
        return SessionEnded(why, ProtocolMismatch(why))
    status = CLOSED.get(reason or "")
    return SessionEnded(why, refusal(status, why, failure.get("category")) if status else None)


def takes_pending(callback: Callable[..., Any]) -> bool:
    """Returns true if a callback needs two arguments: the request and its PendingRequest."""
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in places and each.default is each.empty for each in parameters) >= 2
