#!/usr/bin/env python3
"""The driver of the Python client: `python.py asyncio` or `python.py blocking`."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "adapters-sdk/python/src"))

from trunkline import _http, _remote, _retry  # noqa: E402
from trunkline.client import BlockingClient, Client, SessionEnded, TrunklineError, Unsupported  # noqa: E402

Message = dict[str, Any]
THREADS = 256  # calls and iterators of the blocking form at the same time


class UnsupportedInstruction(Exception):
    """The client does not do this; the text is the reason."""


def as_error(error: Exception) -> Message:
    """What the client reports of a failure."""
    if isinstance(error, SessionEnded) and isinstance(error.cause, TrunklineError):
        error = error.cause
    permanent = error.is_permanent if isinstance(error, TrunklineError) else not isinstance(error, OSError)
    found = {"status": getattr(error, "status", None), "category": getattr(error, "category", None)}
    members = {name: value for name, value in found.items() if value is not None}
    return {"class": "permanent" if permanent else "temporary", "message": str(error), **members}


class Waiting:
    """A callback that waits for `decide`."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.answered, self.returned = threading.Event(), threading.Event()


class DriverLoop:
    """Runs instructions, each in a task of its own. `call` and `each` differ by the form of the client."""

    def __init__(self, is_blocking: bool) -> None:
        self.is_blocking = is_blocking
        self.threads = ThreadPoolExecutor(THREADS)
        self.loop = asyncio.get_running_loop()
        self.writing = threading.Lock()
        self.client: Any = None
        self.leaves = False
        self.sessions: dict[str, Any] = {}
        self.turns: dict[str, Any] = {}
        self.entries: dict[tuple[str, int], Message] = {}
        self.waiting: dict[tuple[str, str], Waiting] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def report(self, **message: Any) -> None:
        with self.writing:
            print(json.dumps(message, ensure_ascii=False), flush=True)

    def spawn(self, work: Any) -> None:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def call(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if not self.is_blocking:
            return await method(*arguments, **named)
        return await self.loop.run_in_executor(self.threads, lambda: method(*arguments, **named))

    async def each(self, items: Any) -> AsyncIterator[Any]:
        """All items of an iterator of either form."""
        if not self.is_blocking:
            async for item in items:
                yield item
            return
        iterator: Iterator[Any] = iter(items)
        while (item := await self.loop.run_in_executor(self.threads, lambda: next(iterator, None))) is not None:
            yield item

    async def run(self, message: Message) -> None:
        number, do = message.pop("id"), message.pop("do")
        reply: Message = {"id": number}
        try:
            method = getattr(self, f"do_{do}", None)
            if method is None:
                raise UnsupportedInstruction(f"there is no `{do}`")
            reply["ok"] = await method(**{f"{name}_" if name == "from" else name: message[name] for name in message}) or {}
        except (UnsupportedInstruction, Unsupported) as lacking:
            reply["unsupported"] = str(lacking)
        except (TrunklineError, OSError, ValueError, TypeError, RuntimeError) as failure:
            reply["error"] = as_error(failure)
        self.report(**reply)

    # Callbacks.

    def begin_callback(self, request: Message) -> Waiting:
        key = request["session_id"], request["request_id"]
        waiting = self.waiting[key] = Waiting()
        kind = "permission" if request["type"] == "permission.request" else "question"
        self.report(event="asked", session=key[0], request=key[1], kind=kind)
        return waiting

    def end_callback(self, request: Message, pending: Any) -> None:
        decision = pending.decision
        if decision is None:
            return
        because = "withdrawn" if decision.reason else "decided"
        if decision.reason in ("session_ended", "client_left"):
            because = "ended"
        known = {"by": decision.by, "name": decision.name, "approved": decision.approved}
        given = {name: value for name, value in known.items() if value is not None}
        self.report(event="asked.end", session=request["session_id"], request=request["request_id"], because=because, **given)

    async def ask(self, request: Any, pending: Any) -> Any:
        waiting = self.begin_callback(request)
        try:
            while not waiting.answered.is_set():
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.end_callback(request, pending)
            raise
        waiting.returned.set()
        return waiting.answer

    def ask_on_a_thread(self, request: Any, pending: Any) -> Any:
        waiting = self.begin_callback(request)
        while not waiting.answered.is_set():
            if pending.wait(0.005):
                return self.end_callback(request, pending)
        waiting.returned.set()
        return waiting.answer

    # Instructions.

    async def do_connect(
        self, transport: str, url: str = "", urls: list[str] | None = None, token: str | None = None, path: str | None = None,
        command: list[str] | None = None, requests: str = "callback", limits: Message | None = None,
    ) -> Message:  # fmt: skip
        self.leaves = requests == "leave"
        set_limits(limits or {})
        if transport == "command":
            ways: Message = {"command": command}
        elif transport == "socket":
            ways = {"socket": path}
        else:
            found = [each.replace("http", "ws", 1) if transport == "websocket" else each for each in urls or [url]]
            ways = {"url": found, "token": token}
        client: Any = (BlockingClient if self.is_blocking else Client)(**ways, on_connection=self.connected())
        await self.call(client.__enter__ if self.is_blocking else client.__aenter__)
        self.client = client
        return {"limits": list(limits or {})}

    def connected(self) -> Callable[[Any], None]:
        was_lost = False

        def changed(state: Any) -> None:
            nonlocal was_lost
            if state.state == "reconnecting" and not was_lost:
                was_lost = True
                self.report(event="connection", state="lost")
            elif state.state == "connected" and was_lost:
                was_lost = False
                self.report(event="connection", state="back")

        return changed

    async def enter(self, session: str | None, **options: Any) -> Message:
        ask: Any = "leave" if self.leaves else self.ask_on_a_thread if self.is_blocking else self.ask

        def failed(error: Exception) -> None:
            if request := getattr(error, "request_id", None):
                self.report(event="answer.refused", session=opened.id, request=request, error=as_error(error))

        opened = await self.call(
            self.client.open, session, permission=ask, question=ask, failed=failed, entries=True, **options
        )
        self.sessions[opened.id] = opened
        self.spawn(self.follow(opened))
        return {"session": opened.id}

    async def follow(self, session: Any) -> None:
        error: Message = {}
        try:
            async for entry in self.each(session):
                if entry["type"] == "lag":
                    self.report(event="lag", session=session.id, **{"from": entry["from"], "to": entry["to"]})
                else:
                    self.entries[session.id, entry["seq"]] = entry
                    self.report(event="entry", session=session.id, entry=entry)
        except SessionEnded as ended:
            error = {"error": as_error(ended)}
        self.report(event="ended", session=session.id, **error)

    async def do_open(self, agent: str | None = None, options: Message | None = None) -> Message:
        return await self.enter(None, **({"agent_id": agent} if agent else {}), **(options or {}))

    async def do_attach(self, session: str, after: int = 0, epoch: int | None = None, role: str = "control") -> None:
        await self.enter(session, after=after, epoch=epoch, observe=role == "observe")

    async def do_send(self, session: str, turn: str, text: str, files: list[str] | None = None, queue: bool = False) -> None:
        send, files = self.sessions[session].send, files or []
        sent = self.turns[turn] = await self.call(send, text, files) if self.is_blocking else send(text, files)
        self.spawn(self.finish(turn, sent))

    async def finish(self, name: str, turn: Any) -> None:
        try:
            text = await self.call(turn.text)
        except SessionEnded as ended:
            return self.report(event="turn", turn=name, error=as_error(ended))
        category = (turn.end.get("error") or {}).get("category")
        more = {"category": category} if category else {}
        self.report(event="turn", turn=name, status=turn.end.get("status") or "completed", text=text, **more)

    async def do_steer(self, turn: str, text: str) -> Message:
        steered = await self.call(self.turns[turn].steer, text)
        return {"delivered": bool(steered)}

    async def do_stop(self, session: str = "", turn: str | None = None) -> None:
        if turn is not None:
            await self.call(self.turns[turn].stop)
        else:
            await self.call(self.client.stop, session)

    async def do_withdraw(self, turn: str) -> None:
        await self.call(self.turns[turn].withdraw)

    async def do_decide(self, session: str, request: str, values: Any = None, cancelled: bool = False, **answer: Any) -> None:
        if (waiting := self.waiting.get((session, request))) is None:
            raise ValueError("no callback waits for this request")
        waiting.answer = answer if "approved" in answer else None if cancelled else values
        waiting.answered.set()
        while not waiting.returned.is_set():
            await asyncio.sleep(0.005)

    async def do_answer(self, session: str, request: str, **answer: Any) -> None:
        await self.call(self.client.answer, session, request, **answer)

    async def do_history(self, session: str, from_: int | None = None, before: Any = None, limit: int = 100) -> Message:
        page = await self.call(self.client.history, session, start=from_, before=before, limit=limit)
        return {name: page[name] for name in ("entries", "lost", "next", "previous") if page.get(name) is not None}

    async def do_sessions(self, filter: Message | None = None) -> Message:
        page = await self.call(self.client.sessions_page, **(filter or {}))
        return {name: page[name] for name in ("sessions", "next") if page[name] is not None}

    async def do_agents(self) -> Message:
        return {"agents": await self.call(self.client.agents)}

    async def do_changes(self) -> None:
        changes = self.each(self.client.changes())
        first = self.loop.create_task(anext(changes))
        done, _ = await asyncio.wait({first}, timeout=0.2)
        if done and isinstance(error := first.exception(), Unsupported):
            raise error
        self.spawn(self.follow_changes(first, changes))

    async def follow_changes(self, first: asyncio.Task[Any], changes: AsyncIterator[Any]) -> None:
        error: Message = {}
        try:
            self.report(event="change", change=await first)
            async for change in changes:
                self.report(event="change", change=change)
        except (TrunklineError, OSError) as failure:
            error = {"error": as_error(failure)}
        self.report(event="changes.ended", **error)

    async def do_put_file(self, session: str, path: str) -> Message:
        raise UnsupportedInstruction("a file comes with an input, by `files` of `send`")

    async def do_get_file(self, session: str, seq: int) -> Message:
        data = await self.call(self.sessions[session].file, self.entries[session, seq])
        return {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}

    async def do_settings(self, session: str, options: Message) -> None:
        await self.call(self.client.settings, session, **options)

    async def do_edit(self, session: str, title: str | None = None, archived: bool | None = None) -> None:
        if title is not None:
            await self.call(self.client.rename, session, title)
        if archived is not None:
            await self.call(self.client.archive, session, archived)

    async def do_fork(self, session: str, seq: int | None = None) -> Message:
        return {"session": (await self.call(self.client.fork, session, seq))["id"]}

    async def do_close(self, session: str) -> None:
        opened = self.sessions.get(session)
        await (self.call(opened.close) if opened else self.call(self.client.close, session))

    async def do_remove(self, session: str) -> None:
        opened = self.sessions.get(session)
        await (self.call(opened.remove) if opened else self.call(self.client.remove, session))

    async def do_search(self, text: str) -> Message:
        return {"hits": await self.call(self.client.search, text)}

    async def do_leave(self) -> None:
        if self.client:
            await self.call(self.client.__exit__ if self.is_blocking else self.client.__aexit__, None, None, None)


def set_limits(limits: Message) -> None:
    """Sets the limits of the client's modules."""
    if "silence" in limits:
        _http.SILENCE = _remote.SILENT = limits["silence"] / 1000
    if "answer" in limits:
        _http.ANSWERS = limits["answer"] / 1000
    if "retry" in limits:
        left, tries = limits["retry"] / 1000, 0
        while left > 0:
            tries += 1
            left -= 0.75 * min(_retry.FIRST_DELAY * 2.0**tries, _retry.LAST_DELAY)
        _retry.TRIES = max(tries, 1)


async def main() -> None:
    """Runs the driver on stdin and stdout."""
    reader = asyncio.StreamReader(limit=1024 * 1024)
    loop = DriverLoop(sys.argv[1:] == ["blocking"])
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        loop.spawn(loop.run(json.loads(line)))


if __name__ == "__main__":
    asyncio.new_event_loop().run_until_complete(main())
    os._exit(0)  # calls that still wait do not hold it
