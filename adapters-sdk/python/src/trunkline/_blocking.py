"""The client for programs without asyncio: it runs on a thread of its own, and each call waits."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, cast

from ._conversation import (
    ClientSession, ClientTurn, Decision, Entry, Failed, PendingRequest, SteerResult, Values, takes_pending,
)  # fmt: skip
from ._retry import ConnectionState
from .types import InputRequest, PermissionRequest, TurnComplete

if TYPE_CHECKING:
    from .api import (
        Agent, Conversation, Decided, EntryPage, ForkedSession, LastingRule, ListedSession, Me, SearchHit, Session,
        SessionPage, StreamedChange, UsedInDay,
    )  # fmt: skip
    from .client import Changes

T = TypeVar("T")
MAX_CALLBACKS = 32  # that run at the same time; further ones wait
CALLS_GRACE = 2.0  # seconds that calls of other threads have to end when the client is left


class Ways(TypedDict, total=False):
    """The arguments of `Client`."""

    command: Sequence[str]
    socket: str | os.PathLike[str]
    url: str | Sequence[str]
    token: str
    token_file: str | os.PathLike[str]
    ca: str | os.PathLike[str]
    insecure: bool
    on_connection: Callable[[ConnectionState], object]


class Filters(TypedDict, total=False):
    """The arguments of `Client.sessions`."""

    agent: str | None
    state: Literal["idle", "running", "detached", "closed"] | None
    text: str | None
    cwd: str | None
    archived: bool
    limit: int


class PageOfEntries(TypedDict, total=False):
    """The arguments of `Client.history`."""

    start: int | None
    before: int | Literal["end"] | None
    limit: int


Permit = (
    Callable[[PermissionRequest], Decision] | Callable[[PermissionRequest, PendingRequest], Decision] | Literal["leave"]
)
Question = Callable[[InputRequest], Values] | Callable[[InputRequest, PendingRequest], Values] | Literal["leave"]


class BlockingClient:
    """A `Client` without asyncio: the same arguments, the same calls, entered with `with`.

    Any thread may call it, and its callbacks. A call waits, and raises, as the one of `Client` does; Ctrl-C ends the wait.
    `on_connection` is called on the client's thread, and must not call the client.
    """

    def __init__(self, **ways: Unpack[Ways]) -> None:
        from .client import Client

        self._client = Client(**ways)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._callbacks = ThreadPoolExecutor(MAX_CALLBACKS, "trunkline-callback")

    def __enter__(self) -> BlockingClient:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="trunkline-client")
        self._thread.start()
        try:
            self._call(self._client.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call(self._leave())
        finally:
            self._end()

    @property
    def connection(self) -> ConnectionState:
        """The state of the connection."""
        return self._client.connection

    def open(
        self,
        session_id: str | None = None,
        *,
        permission: Permit | None = None,
        question: Question | None = None,
        failed: Failed | None = None,
        after: int | Literal["end"] = 0,
        epoch: int | None = None,
        observe: bool = False,
        entries: bool = False,
        conversation: str | None = None,
        **options: Any,
    ) -> BlockingSession:
        """Opens a session, or continues one, as `Client.open` does. Callbacks run on threads of their own, up to 32 at the
        same time, and may block: the interpreter's end waits for those that run. A callback that takes a PendingRequest
        waits for its `decided`, too: it is set when another client answers, and the result of the callback is ignored."""
        opening = self._client.open(
            session_id,
            permission=self._on_a_thread(permission),
            question=self._on_a_thread(question),
            failed=failed,
            after=after,
            epoch=epoch,
            observe=observe,
            entries=entries,
            conversation=conversation,
            **options,
        )
        return BlockingSession(self, self._call(opening))

    def agents(self, *, health: bool = False) -> list[Agent]:
        """Lists the agents, as `Client.agents` does."""
        return self._call(self._client.agents(health=health))

    def sessions(self, **filters: Unpack[Filters]) -> list[ListedSession]:
        """Lists sessions, as `Client.sessions` does."""
        return self._call(self._client.sessions(**filters))

    def sessions_page(self, *, cursor: str | None = None, **filters: Unpack[Filters]) -> SessionPage:
        """Returns a page of the list of sessions, as `Client.sessions_page` does."""
        return self._call(self._client.sessions_page(cursor=cursor, **filters))

    def conversations(
        self, agent: str | None = None, *, cwd: str | None = None, limit: int | None = None
    ) -> list[Conversation]:
        """Lists what an agent itself keeps, as `Client.conversations` does."""
        return self._call(self._client.conversations(agent, cwd=cwd, limit=limit))

    def info(self, session_id: str) -> Session:
        """Returns the state of a session."""
        return self._call(self._client.info(session_id))

    def history(self, session_id: str, **page: Unpack[PageOfEntries]) -> EntryPage:
        """Returns a page of entries, as `Client.history` does."""
        return self._call(self._client.history(session_id, **page))

    def stop(self, session_id: str, turn_id: str | None = None) -> None:
        """Asks the agent to end a turn, as `Client.stop` does."""
        self._call(self._client.stop(session_id, turn_id))

    def answer(self, session_id: str, request_id: str, approved: bool | None = None, **answer: Any) -> Decided:
        """Answers a permission or a question, as `Client.answer` does."""
        return self._call(self._client.answer(session_id, request_id, approved, **answer))

    def settings(self, session_id: str, **options: Any) -> None:
        """Changes options of a session."""
        self._call(self._client.settings(session_id, **options))

    def rename(self, session_id: str, title: str) -> None:
        """Changes the title; an empty one removes it."""
        self._call(self._client.rename(session_id, title))

    def archive(self, session_id: str, archived: bool = True) -> None:
        """Leaves a session out of lists, or lists it again."""
        self._call(self._client.archive(session_id, archived))

    def fork(self, session_id: str, seq: int | None = None) -> ForkedSession:
        """Makes a copy of a session, up to an entry. Open it by its `id`."""
        return self._call(self._client.fork(session_id, seq))

    def close(self, session_id: str) -> None:
        """Ends a session for all."""
        self._call(self._client.close(session_id))

    def remove(self, session_id: str) -> None:
        """Removes all that is kept of a session, as `Client.remove` does."""
        self._call(self._client.remove(session_id))

    def search(self, text: str, *, agent: str | None = None, limit: int = 50) -> list[SearchHit]:
        """Finds titles, inputs and outputs, as `Client.search` does."""
        return self._call(self._client.search(text, agent=agent, limit=limit))

    def changes(self, after: str | None = None) -> BlockingChanges:
        """Follows the changes of all sessions, as `Client.changes` does."""
        return BlockingChanges(self, self._client.changes(after))

    def me(self) -> Me:
        """Returns the rights of the token."""
        return self._call(self._client.me())

    def rules(self) -> list[LastingRule]:
        """Lists the lasting rules."""
        return self._call(self._client.rules())

    def remove_rule(self, rule_id: str) -> None:
        """Removes a lasting rule."""
        self._call(self._client.remove_rule(rule_id))

    def usage(self, days: int = 30) -> list[UsedInDay]:
        """Returns the usage by day and agent."""
        return self._call(self._client.usage(days))

    def _on_a_thread(self, callback: Any) -> Any:
        if not callable(callback):
            return callback
        takes_two = takes_pending(callback)

        def called(request: Any, pending: Any) -> Any:
            arguments = (request, pending) if takes_two else (request,)
            return asyncio.get_running_loop().run_in_executor(self._callbacks, functools.partial(callback, *arguments))

        return called

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None or self._loop.is_closed():
            work.close()
            raise RuntimeError("the client is used within `with`")
        waits = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waits.result()
        except BaseException:
            waits.cancel()  # if the wait was ended
            raise

    def _iterate(self, all: AsyncIterator[T]) -> Iterator[T]:
        items = cast(AsyncGenerator[T, None], all)

        async def following() -> T | None:
            return await anext(items, None)

        try:
            while item := self._call(following()):
                yield item
        finally:  # an iterator without a reader holds no session back
            if self._loop and not self._loop.is_closed():
                asyncio.run_coroutine_threadsafe(items.aclose(), self._loop)

    async def _leave(self) -> None:
        await self._client.__aexit__()
        if waiting := asyncio.all_tasks() - {cast(asyncio.Task[Any], asyncio.current_task())}:
            await asyncio.wait(waiting, timeout=CALLS_GRACE)

    def _end(self) -> None:
        assert self._loop
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._callbacks.shutdown(wait=False, cancel_futures=True)


class BlockingChanges:
    """`Changes` as a plain iterator: `for change in client.changes()`."""

    def __init__(self, client: BlockingClient, changes: Changes) -> None:
        self._client, self._changes = client, changes

    @property
    def position(self) -> str | None:
        """Position of the last change that was taken."""
        return self._changes.position

    def __iter__(self) -> Iterator[StreamedChange]:
        return self._client._iterate(aiter(self._changes))


class BlockingSession:
    """A `ClientSession` whose calls wait. With `entries=True` of `open`, `for entry in session` gives all entries."""

    def __init__(self, client: BlockingClient, session: ClientSession) -> None:
        self._client, self._session = client, session

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def last(self) -> int:
        """The number of the last entry that was taken; 0 for none."""
        return self._session.last

    @property
    def epoch(self) -> int | None:
        """The `epoch` of the entry `last`."""
        return self._session.epoch

    @property
    def turns(self) -> list[str]:
        """Ids of the open turns of all clients: the one that runs, then those that are queued."""
        return self._session.turns

    @property
    def requests(self) -> list[str]:
        """Ids of the permissions and questions that wait for an answer."""
        return self._session.requests

    def send(
        self, text: str, files: Sequence[str | os.PathLike[str]] = (), *, limits: Mapping[str, int] | None = None
    ) -> BlockingTurn:
        """Sends an input, and returns its turn, as `ClientSession.send` does; it does not wait for the turn."""

        async def sent() -> ClientTurn:
            return self._session.send(text, files, limits=limits)

        return BlockingTurn(self._client, self._client._call(sent()))

    def file(self, entry: Mapping[str, Any]) -> bytes:
        """Returns the contents of a file that the agent gave, as `ClientSession.file` does."""
        return self._client._call(self._session.file(entry))

    def answer(self, request_id: str, approved: bool | None = None, **answer: Any) -> Decided:
        """Answers a permission or a question, as `Client.answer` does."""
        return self._client.answer(self.id, request_id, approved, **answer)

    def stop(self, turn_id: str | None = None) -> None:
        """Asks the agent to end a turn of any client; without an id the one that runs."""
        self._client.stop(self.id, turn_id)

    def withdraw(self, turn_id: str) -> bool:
        """Takes a queued input of any client back. Returns true if it never runs."""
        return self._client._call(self._session.withdraw(turn_id))

    def settings(self, **options: Any) -> None:
        """Changes options such as `model` and `mode`."""
        self._client.settings(self.id, **options)

    def info(self) -> Session:
        """Returns the state of the session."""
        return self._client.info(self.id)

    def history(self, **page: Unpack[PageOfEntries]) -> EntryPage:
        """Returns a page of entries, as `Client.history` does."""
        return self._client.history(self.id, **page)

    def rename(self, title: str) -> None:
        """Changes the title; an empty one removes it."""
        self._client.rename(self.id, title)

    def archive(self, archived: bool = True) -> None:
        """Leaves the session out of lists, or lists it again."""
        self._client.archive(self.id, archived)

    def fork(self, seq: int | None = None) -> ForkedSession:
        """Makes a copy, up to an entry. Open it by its `id`."""
        return self._client.fork(self.id, seq)

    def remove(self) -> None:
        """Leaves the session, and removes all that is kept of it. Raises Conflict while a turn or another client uses it."""
        self._client._call(self._session.remove())

    def leave(self) -> None:
        """Leaves the session, which goes on."""
        self._client._call(self._session.leave())

    def close(self) -> None:
        """Ends the session for all. Returns when it has ended."""
        self._client._call(self._session.close())

    def __iter__(self) -> Iterator[Entry]:
        return self._client._iterate(aiter(self._session))


class BlockingTurn:
    """A `ClientTurn` whose calls wait: `for entry in turn` gives its entries as they come. Iterate it once."""

    def __init__(self, client: BlockingClient, turn: ClientTurn) -> None:
        self._client, self._turn = client, turn

    @property
    def id(self) -> str:
        return self._turn.id

    @property
    def state(self) -> Literal["sent", "queued", "running", "ended"]:
        """`sent` until the host has it; `queued` while another turn runs."""
        return self._turn.state

    @property
    def end(self) -> TurnComplete | None:
        """Its `turn.complete`, once it was iterated."""
        return self._turn.end

    def __iter__(self) -> Iterator[Entry]:
        return self._client._iterate(aiter(self._turn))

    def text(self) -> str:
        """Waits for the end, and returns the answer, as `ClientTurn.text` does."""
        return self._client._call(self._turn.text())

    def stop(self) -> None:
        """Asks the agent to end the turn; its end comes as an entry."""
        self._client._call(self._turn.stop())

    def withdraw(self) -> bool:
        """Takes the input back while it is queued, as `ClientTurn.withdraw` does."""
        return self._client._call(self._turn.withdraw())

    def steer(self, text: str) -> SteerResult:
        """Adds to the turn while it runs, as `ClientTurn.steer` does."""
        return self._client._call(self._turn.steer(text))
