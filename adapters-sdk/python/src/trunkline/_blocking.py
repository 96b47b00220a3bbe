"""The client for programs without asyncio: it runs on a thread of its own, and each call waits."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast

from ._conversation import ClientSession, ClientTurn, Decision, Entry, Values
from .types import InputRequest, PermissionRequest, TurnComplete

T = TypeVar("T")
CALLBACKS = 32  # that run at the same time; further ones wait
LAST = 2.0  # seconds that calls of other threads have to end when the client is left


class Ways(TypedDict, total=False):
    """The arguments of `Client`."""

    command: Sequence[str]
    socket: str | os.PathLike[str]
    url: str | Sequence[str]
    token: str
    token_file: str | os.PathLike[str]
    ca: str | os.PathLike[str]
    insecure: bool


class BlockingClient:
    """A `Client` without asyncio: the same arguments, the same sessions, entered with `with`.

    Any thread may call it, and its callbacks. A call waits, and raises, as the one of `Client` does; Ctrl-C ends the wait.
    """

    def __init__(self, **ways: Unpack[Ways]) -> None:
        from .client import Client

        self._client = Client(**ways)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._callbacks = ThreadPoolExecutor(CALLBACKS, "trunkline-callback")

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

    def open(
        self,
        session_id: str | None = None,
        *,
        permission: Callable[[PermissionRequest], Decision] | Literal["leave"] | None = None,
        question: Callable[[InputRequest], Values] | Literal["leave"] | None = None,
        after: int = 0,
        observe: bool = False,
        entries: bool = False,
        **options: Any,
    ) -> BlockingSession:
        """Opens a session, or goes on with one, as `Client.open` does. Callbacks run on threads of their own, up to 32 at the
        same time, and may take their time: the interpreter's end waits for those that run."""
        opening = self._client.open(
            session_id,
            permission=self._on_a_thread(permission),
            question=self._on_a_thread(question),
            after=after,
            observe=observe,
            entries=entries,
            **options,
        )
        return BlockingSession(self, self._call(opening))

    def _on_a_thread(self, callback: Any) -> Any:
        if not callable(callback):
            return callback

        def called(request: Any) -> Any:
            return asyncio.get_running_loop().run_in_executor(self._callbacks, functools.partial(callback, request))

        return called

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None or self._loop.is_closed():
            work.close()
            raise RuntimeError("the client is used within `with`")
        waits = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waits.result()
        except BaseException:
            waits.cancel()  # where it was the wait that was ended
            raise

    def _iterate(self, all: AsyncIterator[Entry]) -> Iterator[Entry]:
        entries = cast(AsyncGenerator[Entry, None], all)

        async def following() -> Entry | None:
            return await anext(entries, None)

        try:
            while entry := self._call(following()):
                yield entry
        finally:  # what is not heard any longer holds no session back
            if self._loop and not self._loop.is_closed():
                asyncio.run_coroutine_threadsafe(entries.aclose(), self._loop)

    async def _leave(self) -> None:
        await self._client.__aexit__()
        if waiting := asyncio.all_tasks() - {cast(asyncio.Task[Any], asyncio.current_task())}:
            await asyncio.wait(waiting, timeout=LAST)

    def _end(self) -> None:
        assert self._loop
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._callbacks.shutdown(wait=False, cancel_futures=True)


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

    def send(self, text: str, files: Sequence[str | os.PathLike[str]] = ()) -> BlockingTurn:
        """Sends an input, and gives its turn, as `ClientSession.send` does; it does not wait for the turn."""

        async def sent() -> ClientTurn:
            return self._session.send(text, files)

        return BlockingTurn(self._client, self._client._call(sent()))

    def file(self, entry: Mapping[str, Any]) -> bytes:
        """The contents of a file that the agent gave, as `ClientSession.file` has them."""
        return self._client._call(self._session.file(entry))

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
    def end(self) -> TurnComplete | None:
        """Its `turn.complete`, once that was taken."""
        return self._turn.end

    def __iter__(self) -> Iterator[Entry]:
        return self._client._iterate(aiter(self._turn))

    def text(self) -> str:
        """Waits for the end, and returns the answer, as `ClientTurn.text` does."""
        return self._client._call(self._turn.text())

    def stop(self) -> None:
        """Asks the agent to end the turn; its end comes as an entry."""
        self._client._call(self._turn.stop())

    def steer(self, text: str) -> bool:
        """Adds to the turn while it runs. Returns whether the agent took it."""
        return self._client._call(self._turn.steer(text))
