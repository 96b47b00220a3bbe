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
import os
import random
import uuid
from collections.abc import Sequence
from typing import Any

from ._blocking import BlockingClient, BlockingSession, BlockingTurn
from ._conversation import TRIES, Ask, ClientSession, ClientTurn, Decide, Entry, SessionEnded, log
from ._http import Daemon, Refused
from ._json import Message
from ._pipes import Pipe, dial_socket, start
from ._remote import Events, Socket

__all__ = [
    "BlockingClient",
    "BlockingSession",
    "BlockingTurn",
    "Client",
    "ClientSession",
    "ClientTurn",
    "Entry",
    "Refused",
    "SessionEnded",
]
FIRST_DELAY, LAST_DELAY = 0.05, 2.0  # seconds between two tries, doubling, with jitter
ANSWERS = 10.0  # seconds in which an address answers; then the next one is tried
STEADY = 10.0  # seconds after which a connection that breaks is none of those in a row


class Client:
    """A hub of one host. When the connection breaks, it comes back, and each session goes on behind its last entry.

    - `command`: is started, and started again when it ends.
    - `socket`: the Unix socket of a daemon.
    - `url`: a daemon over a network, with a `token`, or a `token_file` that holds one: `http://…` for requests and
      Server-Sent Events, `ws://…` for its WebSocket (`pip install 'trunkline[ws]'`); `https://` and `wss://` with TLS, whose
      certificate is verified by the system's authorities, or those in `ca`, a file in PEM. Without TLS only this machine
      is reached, unless `insecure` is True. Proxies and redirects are not followed. A list has several daemons of one
      cluster, which are tried in turn; the token is good at each of them.

    It is entered with `async with`, which raises OSError where nothing is there, and `Refused` where the token is not good.
    It leaves its sessions when it is left: they can be opened again by their ids.
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
        self._pipe: Pipe | None = None
        self._changed = asyncio.Event()  # whether there is a pipe, or never will be
        self.process: asyncio.subprocess.Process | None = None
        """The command's process, while one runs."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pump: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Client:
        await self._dial()
        self._pump = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in [self._pump, *self._tasks]:
            if task:
                task.cancel()
        await asyncio.gather(*filter(None, [self._pump, *self._tasks]), return_exceptions=True)
        await self._hang_up()

    async def open(
        self,
        session_id: str | None = None,
        *,
        permission: Decide | None = None,
        question: Ask | None = None,
        after: int = 0,
        observe: bool = False,
        entries: bool = False,
        **options: Any,
    ) -> ClientSession:
        """Opens a new session, or goes on with the one of this id, behind the entry `after`; 0 for from its first on.

        - `permission` gets each `permission.request` and returns whether it is approved: `True`, or a mapping with
          `approved` and other members of `permission.response`. Anything else denies, and so does a callback that fails.
          Without one all are denied. With `"leave"` other clients of the session answer.
        - `question` gets each `input.request` and returns its values by the ids of the fields; None cancels it. Without one
          all are cancelled. `"leave"` as above. Both may be `async`. A request that came before `after` is not asked again.
        - `observe`: it hears, and says nothing.
        - `entries`: all entries of the session can be iterated.
        - `options` are members of `session.start`, for a new session.

        Returns when the host has the session. Raises SessionEnded where it is refused, and ValueError where this client has
        it open. A new one over `http://` also raises `Refused`, and OSError: then, and when it is cancelled or the connection
        breaks meanwhile, the daemon may have an empty session.
        """
        if session_id in self._sessions:
            raise ValueError("this client has the session open")
        if session_id is None and (observe or after or options.keys() & {"session_id", "type"}):
            raise TypeError("an earlier session is named by its id")
        await self._connected()
        if session_id is None:
            session_id = await self._create(options)
        attaches = session_id is not None
        session = ClientSession(
            self, session_id or str(uuid.uuid4()), options, permission, question, observe, entries, attaches, after
        )
        self._sessions[session.id] = session
        try:
            await session._enter()
            await session._ready
        except BaseException:
            self._forget(session)
            raise
        return session

    async def _create(self, options: Message) -> str | None:
        """Asked again where no host takes it now."""
        tries = 0
        while True:
            pipe, tries = await self._connected(), tries + 1
            try:
                return await pipe.create(options)
            except OSError:
                if tries == TRIES:
                    raise
            except Refused as refused:
                if tries == TRIES or refused.status < 500:
                    raise
            await self._pause(tries)

    def _forget(self, session: ClientSession) -> None:
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("the client failed", exc_info=error)

    # The connection.

    async def _connected(self) -> Pipe:
        while True:
            if self._pump is None:
                raise RuntimeError("the client is used within `async with`")
            if self._pump.done():
                raise SessionEnded("the host cannot be reached")
            if self._pipe:
                return self._pipe
            self._changed.clear()
            await self._changed.wait()

    async def _write(self, message: Message) -> None:
        """Writes, where there is a connection. What needs an answer is written again on the next one."""
        if self._pipe:
            with contextlib.suppress(OSError):
                await self._pipe.write(message)

    async def _elsewhere(self, pipe: Pipe | None) -> bool:
        """Leaves a connection for one to the next address. Whether there is one."""
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
        self._changed.set()

    async def _reach(self) -> Pipe:
        """The first of the addresses that answers, from the one behind the last on."""
        why: OSError | Refused | None = None
        for _ in self._daemons:
            daemon = self._daemons[self._next % len(self._daemons)]
            self._next += 1
            try:
                async with asyncio.timeout(ANSWERS):
                    return await (Socket if daemon.is_socket else Events)(daemon).begin()
            except OSError as error:
                why = why or error
            except Refused as refused:
                why = refused
        assert why is not None
        raise why

    async def _hang_up(self) -> None:
        pipe, self._pipe, self.process = self._pipe, None, None
        if pipe:
            await pipe.close()

    async def _run(self) -> None:
        why, tries = "the client was left", 0
        try:
            while tries < TRIES:
                if self._pipe:
                    steady = asyncio.get_running_loop().time() + STEADY
                    with contextlib.suppress(OSError):
                        while message := await self._pipe.read():
                            if await self._hear(message):
                                tries = 0
                    if asyncio.get_running_loop().time() > steady:
                        tries = 0
                    await self._hang_up()
                tries += 1
                await self._pause(tries)
                with contextlib.suppress(OSError):
                    await self._dial()
                    self._spawn(self._enter())
            why = "the host cannot be reached"
        except Refused as refused:
            why = str(refused)
        except Exception:
            why = "the client failed"
            log.exception(why)
        finally:
            for session in list(self._sessions.values()):
                session._end(SessionEnded(why))
            self._changed.set()

    async def _pause(self, tries: int) -> None:
        await asyncio.sleep(min(FIRST_DELAY * 2**tries, LAST_DELAY) * random.uniform(0.5, 1))

    async def _hear(self, message: Message) -> bool:
        """Whether it was news."""
        session = self._sessions.get(message.get("session_id") or "")
        if session is None or not isinstance(message.get("type"), str):
            return False
        before = session.last
        await session._take(message)
        return session.last > before

    async def _enter(self) -> None:
        for session in list(self._sessions.values()):
            await session._enter()
