"""What a client talks through: the pipes of a command, and the Unix socket of a daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from ._frames import MAX_LINE
from ._json import Message, encode, parse

LAST = 10.0  # seconds that a command has to end


class Pipe(Protocol):
    """A connection. It is used until it breaks, and then never again."""

    async def write(self, message: Message) -> None:
        """Says something to the host. An input may have `files`, each as a `file.input` of it. Raises OSError."""

    async def read(self) -> Message | None:
        """The next message; None when the connection has ended. Raises OSError."""

    async def create(self, options: Message) -> str | None:
        """Opens a session where the host chooses its id; None where the client does, by `session.start`."""

    async def file(self, session_id: str, file: Message) -> bytes:
        """The contents of a file that the agent gave. Raises OSError."""

    async def close(self) -> None: ...


class Lines:
    """Lines over two streams."""

    process: asyncio.subprocess.Process | None = None

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def write(self, message: Message) -> None:
        files = [{**file, "type": "file.input", "session_id": message["session_id"]} for file in message.get("files", ())]
        own = {name: message[name] for name in message if name != "files"}
        self._writer.write("".join(f"{encode(each)}\n" for each in [*files, own]).encode())
        await self._writer.drain()

    async def read(self) -> Message | None:
        try:
            while line := await self._reader.readline():
                if message := parse(line):
                    return message
        except ValueError as error:
            raise ConnectionError(f"a line is over {MAX_LINE} bytes") from error
        return None

    async def create(self, options: Message) -> str | None:
        return None

    async def file(self, session_id: str, file: Message) -> bytes:
        return await asyncio.to_thread(_contents, file["file_path"])

    async def close(self) -> None:
        self._writer.close()
        if self.process:
            try:
                await asyncio.wait_for(self.process.wait(), LAST)
            except TimeoutError:
                self.process.kill()
                await self.process.wait()


async def dial_socket(path: str) -> Lines:
    return Lines(*await asyncio.open_unix_connection(path, limit=MAX_LINE))


async def start(command: Sequence[str]) -> Lines:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=MAX_LINE)
    assert process.stdin and process.stdout
    lines = Lines(process.stdout, process.stdin)
    lines.process = process
    return lines


def _contents(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
