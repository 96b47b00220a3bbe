"""Requests to a daemon over HTTP: as much of HTTP/1.1 as its paths need, one connection each."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HEAD = 64 * 1024  # bytes of an answer's head, or of a line between its chunks
BODY = 4 * 1024 * 1024  # bytes of an answer in JSON
PIECE = 64 * 1024
NONE: Mapping[str, str] = {}
ANSWERS = 60.0  # seconds for an answer, or between two pieces of one: a stream says something each 15


class Refused(Exception):
    """The daemon refuses: `status` is that of HTTP, `category` one of the protocol's where there is one."""

    def __init__(self, status: int, detail: str, category: str | None = None) -> None:
        super().__init__(f"the daemon refuses with {status}: {detail}")
        self.status, self.detail, self.category = status, detail, category


@dataclass
class Daemon:
    """Where a daemon is, and who asks. Certificates are verified; redirects and proxies are not followed."""

    url: str
    token: str | None = field(default=None, repr=False)
    token_file: str | os.PathLike[str] | None = None
    ca: str | os.PathLike[str] | None = None
    insecure: bool = False
    host: str = field(init=False)
    port: int = field(init=False)
    is_socket: bool = field(init=False)
    tls: ssl.SSLContext | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
            raise ValueError("the address of a daemon begins with http://, https://, ws:// or wss://")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise ValueError("an address holds no secret: give the token as `token` or `token_file`")
        if (self.token is None) == (self.token_file is None):
            raise TypeError("either a token or a token_file")
        self.host, self.is_socket = parts.hostname, parts.scheme.startswith("ws")
        is_safe = parts.scheme in ("https", "wss")
        if not is_safe and not self.insecure and not _is_here(self.host):
            raise ValueError("without TLS the token could be read on the way: use https:// or wss://, or say insecure=True")
        self.tls = ssl.create_default_context(cafile=self.ca) if is_safe else None
        self.port = parts.port or (443 if is_safe else 80)
        self._authority, self.base = parts.netloc, parts.path.rstrip("/")

    def authorization(self) -> str:
        """The header's value. A file is read anew, so that its token may be replaced."""
        token = self.token if self.token is not None else Path(self.token_file or "").read_text()
        token = token.strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("the token is not one: it has no text, or characters that no token has")
        return f"Bearer {token}"

    async def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = NONE) -> Any:
        """An answer in JSON; None for an empty one. Raises Refused for an error, OSError where the connection breaks."""
        data = [json.dumps(body).encode()] if body is not None else []
        async with asyncio.timeout(ANSWERS):
            answer = await self.send(method, path, data, sum(map(len, data)), headers)
            try:
                said = await answer.whole(BODY)
            finally:
                answer.close()
        try:
            return json.loads(said) if said else None
        except ValueError as error:
            raise ConnectionError("an answer is not JSON") from error

    async def send(
        self, method: str, path: str, data: Iterable[bytes] = (), length: int = 0, headers: Mapping[str, str] = NONE
    ) -> Answer:
        """A request; its answer's body is still to be read, and the answer to be closed. Raises as `ask`."""
        verified = self.host if self.tls else None
        async with asyncio.timeout(ANSWERS):
            reader, writer = await asyncio.open_connection(
                self.host, self.port, limit=HEAD, ssl=self.tls, server_hostname=verified
            )
        answer = Answer(reader, writer)
        try:
            lines = [f"{method} {self.base}{path} HTTP/1.1", f"Host: {self._authority}", "Connection: close"]
            lines += [f"Authorization: {self.authorization()}", "Accept-Encoding: identity", f"Content-Length: {length}"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode())
            for piece in data:
                writer.write(piece)
                try:
                    await writer.drain()
                except OSError:
                    break  # it may have refused before it had all: what it said is there to be read
            await answer.begin()
            if answer.status >= 300:
                raise await answer.refusal()
        except BaseException:
            answer.close()
            raise
        return answer


class Answer:
    """An answer to a request: its status, its headers by small names, and its body as it comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.status, self.headers = 0, dict[str, str]()

    async def begin(self) -> None:
        status, *lines = (await self._until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        version, code, *_ = [*status.split(" ", 2), ""]
        if not version.startswith("HTTP/1.") or not code.isdecimal():
            raise ConnectionError("this is no answer of HTTP")
        self.status = int(code)
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()

    async def refusal(self) -> Refused:
        try:
            problem = json.loads(await self.whole(BODY))
        except (OSError, ValueError):
            problem = {}
        if not isinstance(problem, dict):
            problem = {}
        return Refused(self.status, str(problem.get("detail") or self.status), problem.get("category"))

    async def whole(self, most: int) -> bytes:
        """The body. Raises ConnectionError where it is over `most` bytes, or ends early."""
        parts, size = [], 0
        async for piece in self.pieces():
            parts.append(piece)
            if (size := size + len(piece)) > most:
                raise ConnectionError(f"an answer is over {most} bytes")
        return b"".join(parts)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes, in pieces of up to 64 KiB. Raises ConnectionError where it ends early."""
        if self.status == 204:
            return
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while left := _number(await self._until(b"\r\n"), 16):
                async for piece in self._exactly(left):
                    yield piece
                await self._until(b"\r\n")
        else:
            async for piece in self._exactly(_number(self.headers.get("content-length", "0").encode(), 10)):
                yield piece

    async def _exactly(self, left: int) -> AsyncIterator[bytes]:
        while left > 0:
            async with asyncio.timeout(ANSWERS):
                piece = await self._reader.read(min(left, PIECE))
            if not piece:
                raise ConnectionError("an answer ended early")
            left -= len(piece)
            yield piece

    async def _until(self, end: bytes) -> bytes:
        try:
            async with asyncio.timeout(ANSWERS):
                return (await self._reader.readuntil(end))[: -len(end)]
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ConnectionError("an answer ended early, or its head is too long") from error

    def close(self) -> None:
        self._writer.close()


def _number(text: bytes, base: int) -> int:
    try:
        return int(text.split(b";")[0], base)
    except ValueError as error:
        raise ConnectionError("an answer has no length") from error


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
