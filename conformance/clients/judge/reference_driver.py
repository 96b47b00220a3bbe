#!/usr/bin/env python3
"""The driver of the reference client: instructions on stdin, replies and events on stdout."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from judge.reference_client import Behaviour, Client, ClientFailure, Message, as_error
else:
    from .reference_client import Behaviour, Client, ClientFailure, Message, as_error


class UnsupportedInstruction(Exception):
    """The client does not do this; the text is the reason."""


class DriverLoop:
    """Runs instructions, each in a task of its own."""

    def __init__(self, behaviour: Behaviour, write: Callable[[str], None]) -> None:
        self._write = write
        self.client = Client(behaviour, self._report)
        self.tasks: set[asyncio.Task[None]] = set()

    def _report(self, message: Message) -> None:
        self._write(json.dumps(message, ensure_ascii=False))

    def take(self, line: str) -> None:
        """Begins the instruction of a line."""
        task = asyncio.get_running_loop().create_task(self._run(json.loads(line)))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _run(self, message: Message) -> None:
        number, do = message.pop("id"), message.pop("do")
        reply: Message = {"id": number}
        try:
            method = getattr(self, f"do_{do}", None)
            if method is None:
                raise UnsupportedInstruction(f"there is no `{do}` in the reference client")
            reply["ok"] = await method(**{name.rstrip("_"): value for name, value in message.items()}) or {}
        except UnsupportedInstruction as lacking:
            reply["unsupported"] = str(lacking)
        except ClientFailure as failure:
            reply["error"] = as_error(failure)
        self._report(reply)

    async def do_connect(self, **how: Any) -> Message:
        return {"limits": await self.client.connect(how)}

    async def do_open(self, agent: str | None = None, options: Message | None = None) -> Message:
        return {"session": (await self.client.open(agent, options)).id}

    async def do_attach(self, session: str, after: int = 0, role: str = "control") -> None:
        await self.client.attach(session, after, role)

    async def do_send(self, session: str, turn: str, text: str, files: list[str] = [], queue: bool = False) -> None:  # noqa: B006
        await self.client.send(session, turn, text, files)

    async def do_steer(self, turn: str, text: str) -> Message:
        return {"delivered": await self.client.steer(turn, text)}

    async def do_stop(self, session: str = "", turn: str | None = None) -> None:
        await self.client.stop(session, turn)

    async def do_withdraw(self, turn: str) -> None:
        await self.client.stop("", turn)

    async def do_decide(self, session: str, request: str, **answer: Any) -> None:
        if not self.client.decide(session, request, answer):
            raise ClientFailure("no callback waits for the request", permanent=True)

    async def do_answer(self, session: str, request: str, **answer: Any) -> None:
        await self.client.answer(session, request, answer)

    async def do_history(self, session: str, **query: Any) -> Message:
        return await self.client.history(session, query)

    async def do_sessions(self, filter: Message | None = None) -> Message:
        return await self.client.list_sessions(dict(filter or {}))

    async def do_changes(self) -> None:
        if not self.client.urls:
            raise UnsupportedInstruction("the stream over all sessions is a path of HTTP")
        await self.client.follow_changes()

    async def do_get_file(self, session: str, seq: int) -> Message:
        data = await self.client.get_file(session, seq)
        return {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}

    async def do_put_file(self, session: str, path: str) -> Message:
        return {"sha256": await self.client.put_file(session, path)}

    async def do_close(self, session: str) -> None:
        await self.client.close(session)

    async def do_leave(self) -> None:
        await self.client.leave()


async def main() -> None:
    """Runs the driver on stdin and stdout. An argument names a mutant."""
    behaviour = Behaviour()
    if len(sys.argv) > 1:
        from judge.mutants import MUTANTS

        behaviour = next(each for each in MUTANTS if each.name == sys.argv[1]).behaviour()
    reader = asyncio.StreamReader(limit=1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    loop = DriverLoop(behaviour, lambda line: print(line, flush=True))
    while line := await reader.readline():
        loop.take(line.decode())


if __name__ == "__main__":
    asyncio.run(main())
