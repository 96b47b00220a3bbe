"""Transports of lines: the pipes of a command, and the Unix socket of a daemon."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from typing import Protocol

from ._errors import PERMANENT_EXITS, CommandFailed, TooLarge
from ._frames import MAX_LINE
from ._http import Daemon, SocketDaemon
from ._json import Message, encode, parse

EXIT_GRACE = 10.0  # seconds that a command has to end
MAX_ENTRY = MAX_LINE + 256 * 1024  # bytes of an entry with the members that a journal adds
OUTPUT_GRACE = 1.0  # seconds in which stderr of a command that has failed ends
MAX_FILE = 64 * 1024 * 1024  # bytes of a file
UNSTARTED = {errno.ENOENT: 127, errno.ENOTDIR: 127, errno.EACCES: 126, errno.ENOEXEC: 126}  # statuses, as of a shell
MAX_OUTPUT = 2048  # bytes of a command's stderr that an error repeats


class Pipe(Protocol):
    """A connection. It is used until it breaks, and never again."""

    async def write(self, message: Message) -> None:
        """Sends a message to the host. An input may have `files`, each as a `file.input`. Raises OSError."""

    async def read(self) -> Message | None:
        """Returns the next message; None after the end. Raises OSError."""

    async def create(self, options: Message, conversation: str | None, key: str) -> str | None:
        """Opens a session whose id the host chooses; None if the client chooses it and sends `session.start`."""

    async def file(self, session_id: str, file: Message) -> bytes:
        """Returns the contents of a file that the agent gave. Raises OSError."""
        ...

    async def requests(self) -> Daemon | None:
        """Returns the daemon that takes requests over HTTP; None if this transport has the protocol only."""

    async def close(self) -> None:
        """Ends the connection. Raises CommandFailed for a command that no retry helps."""


class Lines:
    """Lines over two streams."""

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
            raise TooLarge("a line", MAX_ENTRY) from error
        return None

    async def create(self, options: Message, conversation: str | None, key: str) -> str | None:
        return None

    async def file(self, session_id: str, file: Message) -> bytes:
        return await asyncio.to_thread(_contents, file["file_path"])

    async def requests(self) -> Daemon | None:
        return None

    async def close(self) -> None:
        self._writer.close()


class SocketLines(Lines):
    """Lines over the Unix socket of a daemon, or of `trunkline serve`."""

    def __init__(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self._daemon = SocketDaemon(path)
        self._has_http: bool | None = None

    async def requests(self) -> Daemon | None:
        if self._has_http is None:
            self._has_http = await self._daemon.has_http()
        return self._daemon if self._has_http else None


class CommandLines(Lines):
    """Lines over the pipes of a command. Its stderr goes on to this process's, and its end is kept for an error."""

    def __init__(self, program: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdin and process.stdout and process.stderr
        super().__init__(process.stdout, process.stdin)
        self._program, self.process = program, process
        self._output = b""
        self._copying = asyncio.create_task(self._copy(process.stderr))

    async def _copy(self, stderr: asyncio.StreamReader) -> None:
        while piece := await stderr.read(1 << 16):
            self._output = (self._output + piece)[-MAX_OUTPUT:]
            with contextlib.suppress(OSError, ValueError):
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, piece)

    async def close(self) -> None:
        await super().close()
        try:
            await asyncio.wait_for(self.process.wait(), EXIT_GRACE)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        if (self.process.returncode or 0) > 0:  # its last words; another process may have the stream
            await asyncio.wait([self._copying], timeout=OUTPUT_GRACE)
        self._copying.cancel()
        if self.process.returncode in PERMANENT_EXITS:
            raise CommandFailed(self._program, self.process.returncode, self.last_output())

    def last_output(self) -> str:
        """Returns the last lines of stderr."""
        return self._output.decode(errors="replace").strip()


async def dial_socket(path: str) -> Lines:
    return SocketLines(path, *await asyncio.open_unix_connection(path, limit=MAX_ENTRY))


async def start(command: Sequence[str]) -> CommandLines:
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, limit=MAX_ENTRY)
    except OSError as error:
        if (status := UNSTARTED.get(error.errno or 0)) is None:
            raise
        raise CommandFailed(command[0], status, f"it could not be started: {error.strerror}") from error
    return CommandLines(command[0], process)


def _contents(path: str) -> bytes:
    with open(path, "rb") as file:
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise TooLarge(f"the file {os.path.basename(path)}", MAX_FILE)
    return data


