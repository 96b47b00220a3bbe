"""A client of a host that keeps a journal: sessions that survive the death of either side, each entry once.

    async with Client(command=["trunkline", "serve", "--journal", "journal"]) as client:
        session = await client.open()
        async for entry in session.send("hello"):
            print(entry["type"])

`BlockingClient` is the same without asyncio.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast
from urllib.parse import urlencode

from . import _retry
from ._abilities import PIPE, Abilities, DaemonAbilities, PipeAbilities
from ._blocking import BlockingChanges, BlockingClient, BlockingSession, BlockingTurn
from ._conversation import (
    AGREED, Ask, ClientSession, ClientTurn, Decide, Entry, Failed, PendingRequest, SteerResult, log,
)  # fmt: skip
from ._errors import (
    REASONS, BadAnswer, CommandFailed, Conflict, Forbidden, Gone, Invalid, NotFound, ProtocolMismatch, RateLimited, Refused,
    RequestDecision, SessionEnded, TokenRefused, TooLarge, TrunklineError, Unavailable, Unreachable, Unsupported, is_retried,
    reason_of, refusal,
)  # fmt: skip
from ._http import Daemon
from ._json import Message, parse
from ._pipes import CommandLines, Pipe, dial_socket, start
from ._remote import STREAM, Events, Socket, events_of
from ._retry import ConnectionState, delay_of, pause_of, within_limits
from .api import (
    Agent, Conversation, Decided, EntryPage, ForkedSession, LastingRule, ListedSession, Me, SearchHit, Session, SessionPage,
    StreamedChange, UsedInDay,
)  # fmt: skip

__all__ = [
    "BadAnswer",
    "BlockingChanges",
    "BlockingClient",
    "BlockingSession",
    "BlockingTurn",
    "Changes",
    "Client",
    "ClientSession",
    "ClientTurn",
    "CommandFailed",
    "Conflict",
    "ConnectionState",
    "Entry",
    "Forbidden",
    "Gone",
    "Invalid",
    "NotFound",
    "PendingRequest",
    "ProtocolMismatch",
    "RateLimited",
    "Refused",
    "RequestDecision",
    "SessionEnded",
    "SteerResult",
    "TokenRefused",
    "TooLarge",
    "TrunklineError",
    "Unavailable",
    "Unreachable",
    "Unsupported",
]
ANSWERS = 10.0  # seconds in which an address answers; then the next one is tried
PAGE = 100  # sessions that are asked for at a time
STEADY = 10.0  # seconds after which a connection that breaks does not count as one in a row
MALFORMED = (KeyError, TypeError, ValueError, AttributeError)


@dataclass
class _Fork:
    message: Message
    reply: asyncio.Future[Message]
    is_repeated: bool = False


class Client:
    """A hub of one host. When the connection breaks, it is made again, and each session continues behind its last entry.

    - `command`: is started, and started again when it ends.
    - `socket`: the Unix socket of a daemon, or of `trunkline serve --listen unix:PATH`.
    - `url`: a daemon over a network, with a `token`, or a `token_file` that holds one: `http://…` for requests and
      Server-Sent Events, `ws://…` for its WebSocket (`pip install 'trunkline[ws]'`); `https://` and `wss://` with TLS, whose
      certificate is verified by the system's authorities, or by `ca`, a file in PEM. Without TLS only this machine
      is reached, unless `insecure` is True. Proxies and redirects are not followed. A list has several daemons of one
      cluster, which are tried in turn; the token is good at each of them.
    - `on_connection` gets each ConnectionState; `connection` is the current one.

    Enter it with `async with`, which raises Unreachable (an OSError), CommandFailed, Refused or ProtocolMismatch.
    Leaving it leaves its sessions, which can be opened again by their ids.

    Permanent errors raise at once: CommandFailed for the exit statuses 2, 126 and 127, Refused for 401, 403, 404, 409, 410
    and 422, ProtocolMismatch and TooLarge. The client tries again, 40 times in a row with growing delays of at most 2 s,
    after a broken connection, any other end of the command, and 408, 425, 429 (after its Retry-After) and 5xx, but not 501.
    """

    def __init__(
        self,
        *,
        command: Sequence[str] | None = None,
        socket: str | os.PathLike[str] | None = None,
        url: str | Sequence[str] | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        on_connection: Callable[[ConnectionState], object] | None = None,
    ) -> None:
        if sum(way is not None for way in (command, socket, url)) != 1:
            raise TypeError("one of: a command, a socket, a url")
        self._command, self._socket = command, socket
        urls = [] if url is None else [url] if isinstance(url, str) else url
        if url is not None and not urls:
            raise ValueError("there is no address in the list")
        self._daemons = [Daemon(each, token, token_file, ca, insecure) for each in urls]
        self._next = 0  # the one that is tried first
        self._sessions: dict[str, ClientSession] = {}
        self._asked: dict[str, tuple[Message, asyncio.Future[Message]]] = {}  # messages that wait for their answers
        self._forks: dict[str, _Fork] = {}
        self._pipe: Pipe | None = None
        self._changed = asyncio.Event()  # whether there is a pipe, or never will be
        self._ended: Exception | None = None  # why there never will be
        self._broken: Exception | None = None  # why the last connection broke
        self._on_connection = on_connection
        self.connection = ConnectionState("connecting")
        """The state of the connection."""
        self.process: asyncio.subprocess.Process | None = None
        """The command's process, while one runs."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pump: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Client:
        self._notify(ConnectionState("connecting"))
        try:
            await self._dial()
        except (TrunklineError, OSError) as error:
            self._notify(ConnectionState("closed", 1, 0.0, error))
            if isinstance(error, TrunklineError) or not self._address:
                raise
            raise Unreachable(f"{self._address} cannot be reached: {reason_of(error)}") from error
        self._pump = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in list(self._sessions.values()):
            session._settle_all(None, "client_left")
        for task in [self._pump, *self._tasks]:
            if task:
                task.cancel()
        await asyncio.gather(*filter(None, [self._pump, *self._tasks]), return_exceptions=True)
        with contextlib.suppress(CommandFailed):
            await self._hang_up()
        self._notify(ConnectionState("closed"))

    async def open(
        self,
        session_id: str | None = None,
        *,
        permission: Decide | None = None,
        question: Ask | None = None,
        failed: Failed | None = None,
        after: int | Literal["end"] = 0,
        epoch: int | None = None,
        observe: bool = False,
        entries: bool = False,
        conversation: str | None = None,
        agent: str | None = None,
        **options: Any,
    ) -> ClientSession:
        """Opens a new session, or continues the one of this id behind the entry `after`: 0 for all, "end" for none.

        - `permission` gets each `permission.request` and returns whether it is approved: `True`, or a mapping with
          `approved` and other members of an answer, such as `name` and `updated_input`. Anything else denies, and so does a
          callback that fails. Without one all are denied. With `"leave"`, in the place of the callback or as its result,
          other clients of the session answer.
        - `question` gets each `input.request` and returns its values by the ids of the fields; None cancels it. Without one
          all are cancelled. `"leave"` as above. Both may be `async`, and may take a PendingRequest as a second argument: they
          are cancelled when another client answers. A request that came before `after` is not asked again.
        - `failed` gets each error that belongs to no call, such as the refusal of a callback's answer.
        - `observe`: the client only receives.
        - `epoch` of the entry `after`: a host whose journal has another entry there refuses it.
        - `entries`: all entries of the session can be iterated.
        - `conversation` is the id of one of `conversations`, which the new session continues.
        - `agent` is the id of one of `agents`, for a new session; without it the daemon's default agent.
        - `options` are other members of `session.start`, for a new session.

        Returns when the host has the session. Raises Refused and its kinds, and ValueError if this client has the session
        open. If it is cancelled, or fails with an OSError, the daemon may have an empty session.
        """
        if session_id in self._sessions:
            raise ValueError("this client has the session open")
        if session_id is None and (observe or after or options.keys() & {"session_id", "type"}):
            raise TypeError("an earlier session is named by its id")
        if agent is not None:
            options["agent_id"] = agent
        await self._connected()
        if session_id is None:
            session_id = await self._create(options, conversation)
            if session_id is None and conversation is not None:
                options["resume"] = {"native_session_id": conversation, "history": True}
        elif after == "end":
            after = await self._last_of(session_id)
        attaches = session_id is not None
        session = ClientSession(
            self, session_id or str(uuid.uuid4()), options, permission, question, observe, entries, attaches,
            cast(int, after), epoch, failed,
        )  # fmt: skip
        self._sessions[session.id] = session
        try:
            await session._enter()
            await session._ready
        except BaseException:
            self._forget(session)
            raise
        return session

    async def _last_of(self, session_id: str) -> int:
        abilities = await self._abilities()
        if isinstance(abilities, PipeAbilities):
            return int((await abilities._row(session_id)).get("entries") or 0)
        return int((await abilities.info(session_id))["last_seq"])

    async def _create(self, options: Message, conversation: str | None) -> str | None:
        """Asks again if no host takes it now. By its key it is one session."""
        tries, key = 0, uuid.uuid4().hex
        while True:
            pipe, tries = await self._connected(), tries + 1
            try:
                return await pipe.create(options, conversation, key)
            except (OSError, Refused) as error:
                if tries == _retry.TRIES or not is_retried(error):
                    raise
                pause = pause_of(tries, error)
            await asyncio.sleep(pause)

    # Calls for any session, open here or not.

    async def agents(self, *, health: bool = False) -> list[Agent]:
        """Lists the agents; with `health` how each is."""
        return await (await self._abilities()).agents(health)

    async def sessions(
        self,
        *,
        agent: str | None = None,
        state: Literal["idle", "running", "detached", "closed"] | None = None,
        text: str | None = None,
        cwd: str | None = None,
        archived: bool = False,
        limit: int = 1000,
    ) -> list[ListedSession]:
        """Lists sessions, the last active first, at most `limit` of them. `text` is part of the title or id."""
        found: list[ListedSession] = []
        cursor: str | None = None
        while len(found) < limit:
            most = min(limit - len(found), PAGE)
            page = await self.sessions_page(
                agent=agent, state=state, text=text, cwd=cwd, archived=archived, limit=most, cursor=cursor
            )
            found += page["sessions"]
            if (cursor := page["next"]) is None:
                break
        return found[:limit]

    async def sessions_page(
        self,
        *,
        agent: str | None = None,
        state: Literal["idle", "running", "detached", "closed"] | None = None,
        text: str | None = None,
        cwd: str | None = None,
        archived: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> SessionPage:
        """Returns a page of the list of sessions. `next` is the `cursor` of the following page, or None."""
        filters = {
            "agent": agent, "state": state, "text": text, "cwd": cwd, "archived": archived or None, "limit": limit,
            "cursor": cursor,
        }  # fmt: skip
        given = {name: value for name, value in filters.items() if value is not None}
        return cast(SessionPage, await (await self._abilities()).sessions(given))

    async def conversations(
        self, agent: str | None = None, *, cwd: str | None = None, limit: int | None = None
    ) -> list[Conversation]:
        """Lists what an agent itself keeps, also what began without trunkline. Raises Refused (501) if it lists nothing."""
        return await (await self._abilities()).conversations(agent, cwd, limit)

    async def info(self, session_id: str) -> Session:
        """Returns the state of a session: its running turn, queued turns and open requests among them."""
        return cast(Session, await (await self._abilities()).info(session_id))

    async def history(
        self, session_id: str, *, start: int | None = None, before: int | Literal["end"] | None = None, limit: int = 100
    ) -> EntryPage:
        """Returns a page of entries, in their order: forward from the entry `start`, or the last ones before the entry
        `before`, or before the "end". `next` of the page is the next `start`, `previous` the next `before`."""
        return cast(EntryPage, await (await self._abilities()).history(session_id, start, before, limit))

    async def stop(self, session_id: str, turn_id: str | None = None) -> None:
        """Asks the agent to end a turn; without an id the one that runs. Raises Conflict if it does not run."""
        await (await self._abilities()).stop(session_id, turn_id)

    async def answer(
        self,
        session_id: str,
        request_id: str,
        approved: bool | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        name: str | None = None,
        always: str | None = None,
        updated_input: Any = None,
        **more: Any,
    ) -> Decided:
        """Answers a permission by `approved`, or a question by `values`; with neither it denies or cancels, as `cancelled`
        does for a question. `name` is the person's, `always` a pattern that approves such requests from now on,
        `updated_input` the tool's input as the person changed it; `more` has other members, such as `option_id`.

        Returns the decision. Raises Conflict if the request was decided before or is not open, Forbidden if the token
        may not approve or a pattern denies the changed input, Invalid for a wrong value.
        """
        if (values is not None or more.get("cancelled")) and approved is not None:
            raise TypeError("a permission has `approved`, a question has `values` or `cancelled`")
        answer = dict(more)
        if values is not None:
            answer["values"] = dict(values)
        elif not more.get("cancelled"):
            answer["approved"] = approved is True
        given = {"name": name, "always": always, "updated_input": updated_input}
        answer |= {member: value for member, value in given.items() if value is not None}
        return cast(Decided, await self._answer(session_id, request_id, answer))

    async def _answer(self, session_id: str, request_id: str, answer: Message) -> Message:
        """An answer, during which the callback of the request is not cancelled."""
        session = self._sessions.get(session_id)
        if session is None:
            return await (await self._abilities()).answer(session_id, request_id, answer)
        session._check()
        session._answering[request_id] = session._answering.get(request_id, 0) + 1
        try:
            decided = await (await self._abilities()).answer(session_id, request_id, answer)
            session._settled({**decided, "request_id": request_id})
            return decided
        finally:
            session._answering[request_id] -= 1
            if not session._answering[request_id]:
                del session._answering[request_id]

    async def settings(self, session_id: str, **options: Any) -> None:
        """Changes options of a session, such as `model` and `mode`. The values in force come as `session.info`."""
        await (await self._abilities()).settings(session_id, options)

    async def rename(self, session_id: str, title: str) -> None:
        """Changes the title, of at most 200 bytes; an empty one removes it."""
        await (await self._abilities()).edit(session_id, {"title": title})

    async def archive(self, session_id: str, archived: bool = True) -> None:
        """Leaves a session out of lists, or lists it again. It goes on either way."""
        await (await self._abilities()).edit(session_id, {"archived": archived})

    async def fork(self, session_id: str, seq: int | None = None) -> ForkedSession:
        """Makes a copy of a session, up to an entry. Open it by its `id`."""
        return cast(ForkedSession, await (await self._abilities()).fork(session_id, seq))

    async def close(self, session_id: str) -> None:
        """Ends a session for all."""
        await (await self._abilities()).close(session_id)

    async def remove(self, session_id: str) -> None:
        """Removes all that is kept of a session. Raises Conflict while a turn or a client uses it, and Unsupported for a
        `command`."""
        await (await self._abilities()).remove(session_id)

    async def search(self, text: str, *, agent: str | None = None, limit: int = 50) -> list[SearchHit]:
        """Finds titles, inputs and outputs that contain a text, at most `limit`. A `command` raises Unsupported."""
        return await (await self._abilities()).search(text, agent, limit)

    def changes(self, after: str | None = None) -> Changes:
        """Follows the changes of all sessions, behind a `position`; without one a snapshot comes first. A `command` raises
        Unsupported when it is iterated."""
        return Changes(self, after)

    async def me(self) -> Me:
        """Returns the rights of the token. A `command` raises Unsupported."""
        return cast(Me, await (await self._abilities()).get("tokens", "/v1/me"))

    async def rules(self) -> list[LastingRule]:
        """Lists the lasting rules, which `always` of an answer makes. A `command` raises Unsupported."""
        return (await (await self._abilities()).get("lasting rules", "/v1/rules")).get("rules") or []

    async def remove_rule(self, rule_id: str) -> None:
        """Removes a lasting rule; it takes effect at once. A `command` raises Unsupported."""
        await (await self._abilities()).delete("lasting rules", f"/v1/rules/{rule_id}")

    async def usage(self, days: int = 30) -> list[UsedInDay]:
        """Returns the usage by day and agent. A `command` raises Unsupported."""
        return (await (await self._abilities()).get("usage", f"/v1/usage?days={int(days)}")).get("days") or []

    async def _abilities(self) -> Abilities:
        while True:
            pipe = await self._connected()
            try:
                if await pipe.requests():
                    return DaemonAbilities(self)
                return PipeAbilities(self)
            except OSError:  # the daemon has ended: the next connection shows
                await asyncio.sleep(delay_of(1))

    async def _abilities_for(self, ability: str) -> None:
        """Raises Unsupported if the transport has the protocol only."""
        if isinstance(await self._abilities(), PipeAbilities):
            raise Unsupported(ability, PIPE)

    @contextlib.asynccontextmanager
    async def _visit(self, session_id: str, observe: bool = False) -> AsyncIterator[ClientSession]:
        """A session for one call on a pipe: the open one, or one that is attached at its end and left again."""
        if session := self._sessions.get(session_id):
            await session._when_live()
            yield session
            return
        try:
            session = await self.open(session_id, permission="leave", question="leave", observe=observe, after="end")
        except SessionEnded as error:
            raise Conflict(409, "the session is closed") from error
        try:
            await session._when_live()
            yield session
        finally:
            if not session._over.done():
                await session.leave()

    async def _fork(self, source: str, seq: int | None, last: int) -> Message:
        """Copies a session over a pipe."""
        new_id = str(uuid.uuid4())
        message: Message = {"type": "session.fork", "session_id": new_id, "source": source, **AGREED}
        message |= {"after": seq if seq is not None else last, **({"seq": seq} if seq is not None else {})}
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        await self._connected()
        fork = self._forks[new_id] = _Fork(message, reply)
        try:
            await self._write(message)
            answer = await reply
        finally:
            del self._forks[new_id]
        reason = answer.get("reason") or ""
        if answer["type"] == "session.refused" and not (fork.is_repeated and reason == "exists"):
            raise refusal(REASONS.get(reason, 403), str(answer.get("message") or reason or "refused"))
        await self._write({"type": "session.detach", "session_id": new_id})
        return {"id": new_id, "copied": answer.get("copied")}

    def _forget(self, session: ClientSession) -> None:
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("the client failed", exc_info=error)

    # The connection.

    @property
    def _address(self) -> str:
        if self._socket is not None:
            return f"the socket {os.fspath(self._socket)}"
        return " or ".join(daemon.url for daemon in self._daemons)

    def _notify(self, state: ConnectionState) -> None:
        self.connection = state
        if self._on_connection:
            try:
                self._on_connection(state)
            except Exception:
                log.exception("the callback of the connection failed")

    async def _connected(self) -> Pipe:
        while True:
            if self._pump is None:
                raise RuntimeError("the client is used within `async with`")
            if self._pump.done():
                raise self._ended or SessionEnded("the client was left")
            if self._pipe:
                return self._pipe
            self._changed.clear()
            await self._changed.wait()

    async def _write(self, message: Message) -> None:
        """Writes if there is a connection. What needs an answer is written again on the next one."""
        if self._pipe:
            with contextlib.suppress(OSError):
                await self._pipe.write(message)

    async def _reply(self, message: Message) -> Message:
        """Writes a message until it is answered, and returns the answer."""
        request_id = str(uuid.uuid4())
        await self._connected()
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._asked[request_id] = {**message, "request_id": request_id}, reply
        try:
            await self._write(self._asked[request_id][0])
            return await reply
        finally:
            del self._asked[request_id]

    async def _elsewhere(self, pipe: Pipe | None) -> bool:
        """Leaves a connection for one to the next address. Returns false if there is no other one."""
        if pipe is None or pipe is not self._pipe or len(self._daemons) < 2:
            return False
        await pipe.close()
        return True

    async def _file(self, session_id: str, file: Message) -> bytes:
        return await (await self._connected()).file(session_id, file)

    async def _dial(self) -> None:
        if self._socket is not None:
            self._pipe = await dial_socket(os.fspath(self._socket))
        elif self._command is not None:
            self._pipe = lines = await start(self._command)
            self.process = lines.process
        else:
            self._pipe = await self._reach()
        self._notify(ConnectionState("connected"))
        self._changed.set()

    async def _reach(self) -> Pipe:
        """Connects to the first of the addresses that answers, from the one behind the last on."""
        why: OSError | TrunklineError | None = None
        for _ in self._daemons:
            daemon = self._daemons[self._next % len(self._daemons)]
            self._next += 1
            try:
                async with asyncio.timeout(ANSWERS):
                    return await (Socket if daemon.is_socket else Events)(daemon).begin()
            except (Refused, ProtocolMismatch) as refused:
                why = refused
            except TimeoutError:
                why = why or TimeoutError(f"no answer within {ANSWERS:.0f} s")
            except OSError as error:
                why = why or error
        assert why is not None
        raise why

    async def _hang_up(self) -> None:
        pipe, self._pipe, self.process = self._pipe, None, None
        if pipe:
            await pipe.close()
            if isinstance(pipe, CommandLines):
                status, output = pipe.process.returncode, pipe.last_output()
                self._broken = ConnectionError(f"the command ended with status {status}" + (f": {output}" if output else ""))

    async def _run(self) -> None:
        tries, too_large, end = 0, 0, SessionEnded("the client was left")
        try:
            while tries < _retry.TRIES:
                if self._pipe:
                    steady = asyncio.get_running_loop().time() + STEADY
                    try:
                        while message := await self._pipe.read():
                            if await self._hear(message):
                                tries = too_large = 0
                    except TooLarge as error:  # once it may be an accident; again it is not
                        too_large += 1
                        if too_large == 2:
                            raise
                        self._broken = error
                    except OSError as error:
                        self._broken = error
                    if asyncio.get_running_loop().time() > steady:
                        tries = 0
                    await self._hang_up()
                tries += 1
                delay = pause_of(tries, self._broken)
                self._notify(ConnectionState("reconnecting", tries, delay, self._broken))
                await asyncio.sleep(delay)
                try:
                    await self._dial()
                    self._spawn(self._enter())
                except (OSError, Refused) as error:
                    if not is_retried(error):
                        raise
                    self._broken = error
            reason = reason_of(self._broken) if self._broken else "the connection ended"
            why = f"{self._address or 'the command'} cannot be reached after {tries} tries: {reason}"
            end = SessionEnded(why, Unreachable(why))
        except (TrunklineError, ImportError) as error:
            end = SessionEnded(str(error), error)
        except Exception as error:
            log.exception("the client failed")
            end = SessionEnded("the client failed", error)
        finally:
            self._ended = end.cause or end
            self._notify(ConnectionState("closed", tries, 0.0, end.cause))
            for session in list(self._sessions.values()):
                session._end(end)
            for future in [*(fork.reply for fork in self._forks.values()), *(reply for _, reply in self._asked.values())]:
                if not future.done():
                    future.set_exception(self._ended)
                    future.exception()
            self._changed.set()

    async def _hear(self, message: Message) -> bool:
        """Takes a message. Returns true if it was a new entry."""
        kind, request_id, id = message.get("type"), message.get("request_id"), message.get("session_id") or ""
        if not isinstance(kind, str) or not isinstance(id, str):
            return False
        if kind.endswith(".result") and isinstance(request_id, str) and request_id in self._asked:
            if not (reply := self._asked[request_id][1]).done():
                reply.set_result(message)
            return False
        if (fork := self._forks.get(id)) and kind in ("session.attached", "session.refused"):
            if not fork.reply.done():
                fork.reply.set_result(message)
            return False
        if (session := self._sessions.get(id)) is None:
            return False
        before = session.last
        try:
            await session._take(message)
        except MALFORMED as error:
            why = f"the host sent a malformed {kind[:64]}: {error!r}"
            session._end(SessionEnded(why, ProtocolMismatch(why)))
        return session.last > before

    async def _enter(self) -> None:
        for session in list(self._sessions.values()):
            await session._enter()
        for message, reply in list(self._asked.values()):
            if not reply.done():
                await self._write(message)
        for fork in list(self._forks.values()):
            fork.is_repeated = True
            await self._write(fork.message)


class Changes:
    """The changes of all sessions, as `GET /v1/events` has them: `async for change in client.changes()`.

    `position` is behind the last change that was taken: give it to `Client.changes` to continue in another program. When
    the connection breaks, the stream continues there. After a `reset` drop what you have: a new `snapshot` follows.
    """

    def __init__(self, client: Client, after: str | None) -> None:
        self._client = client
        self.position = after

    async def __aiter__(self) -> AsyncIterator[StreamedChange]:
        tries = 0
        while True:
            pipe = await self._client._connected()
            broken: Exception | None = None
            try:
                daemon = await pipe.requests()
                if daemon is None:
                    raise Unsupported("stream of all sessions", PIPE)
                query = f"?{urlencode({'after': self.position})}" if self.position is not None else ""
                follow = functools.partial(daemon.send, "GET", f"/v1/events{query}", headers=STREAM)
                answer = await within_limits(follow)
                try:
                    async for position, data in events_of(answer.pieces()):
                        if change := parse(data):
                            tries = 0
                            self.position = position or self.position
                            yield cast(StreamedChange, change)
                finally:
                    answer.close()
            except (OSError, Refused) as error:
                if not is_retried(error) or isinstance(error, RateLimited):
                    raise
                if tries >= _retry.TRIES:
                    raise Unreachable(f"the stream of all sessions cannot be reached: {reason_of(error)}") from error
                broken = error
            tries += 1
            await asyncio.sleep(pause_of(tries, broken))
