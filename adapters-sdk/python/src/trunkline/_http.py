"""Requests to a daemon over HTTP: the part of HTTP/1.1 that its paths need, one connection each."""

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

from ._errors import BadAnswer, Refused, TooLarge, refusal
from ._json import Message, parse

MAX_HEAD = 64 * 1024  # bytes of the head of an answer, or of a line between its chunks
MAX_JSON = 8 * 1024 * 1024  # bytes of an answer in JSON; a page of history has 1 MiB, or one entry
MAX_PROBLEM = 64 * 1024  # bytes of an error's answer
PIECE = 64 * 1024
NONE: Mapping[str, str] = {}
ANSWERS = 60.0  # seconds for the head of an answer, and for a whole one in JSON
CONTINUES = 1.0  # seconds in which a server that knows `Expect` allows the body
SILENCE = 60.0  # seconds between two pieces of an answer: a stream sends a heartbeat each 15
PROBE = b'{"type":"ping","session_id":"","nonce":"probe"}\n'


@dataclass
class Daemon:
    """Address and credentials of a daemon. Certificates are verified; redirects and proxies are not followed."""

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
            raise ValueError("without TLS the token could be read on the way: use https:// or wss://, or insecure=True")
        self.tls = ssl.create_default_context(cafile=self.ca) if is_safe else None
        self.port = parts.port or (443 if is_safe else 80)
        self._authority, self.base = parts.netloc, parts.path.rstrip("/")

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Opens a connection. Raises OSError."""
        verified = self.host if self.tls else None
        return await asyncio.open_connection(self.host, self.port, limit=MAX_HEAD, ssl=self.tls, server_hostname=verified)

    def credentials(self) -> list[str]:
        """Headers that name the host and carry the token."""
        return [f"Host: {self._authority}", f"Authorization: {self.authorization()}"]

    def authorization(self) -> str:
        """The header's value. A file is read each time, so that its token may be replaced."""
        token = self.token if self.token is not None else Path(self.token_file or "").read_text()
        token = token.strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("the token is empty, or has characters that no token has")
        return f"Bearer {token}"

    async def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = NONE) -> Message:
        """Returns the object of an answer; an empty one for none. Raises Refused, and OSError if the connection breaks."""
        data = [json.dumps(body).encode()] if body is not None else []
        try:
            async with asyncio.timeout(ANSWERS):
                answer = await self.send(method, path, data, sum(map(len, data)), headers)
                try:
                    received = await answer.whole(MAX_JSON)
                finally:
                    answer.close()
        except TimeoutError as error:
            raise TimeoutError(f"{self.url} did not answer {method} {path.partition('?')[0]} in {ANSWERS:.0f} s") from error
        return parse_answer(received) if received else {}

    async def send(
        self, method: str, path: str, data: Iterable[bytes] = (), length: int = 0, headers: Mapping[str, str] = NONE
    ) -> Answer:
        """Sends a request. The caller reads the body of the answer, and closes it. Raises as `ask`."""
        async with asyncio.timeout(ANSWERS):
            reader, writer = await self.dial()
        answer = Answer(reader, writer)
        try:
            lines = [f"{method} {self.base}{path} HTTP/1.1", *self.credentials(), "Connection: close"]
            lines += ["Accept-Encoding: identity", f"Content-Length: {length}"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            is_long = length > PIECE
            lines += ["Expect: 100-continue"] if is_long else []
            writer.write("\r\n".join([*lines, "", ""]).encode())
            if not is_long or await answer.continues():
                for piece in data:
                    writer.write(piece)
                    try:
                        await writer.drain()
                    except OSError:
                        break  # a refusal may come before all was sent
                await answer.begin()
            if answer.status >= 300:
                raise await answer.refusal()
        except BaseException:
            answer.close()
            raise
        return answer


class SocketDaemon(Daemon):
    """A daemon at its Unix socket, which takes HTTP without a token."""

    def __init__(self, path: str) -> None:
        self.url, self.base, self.is_socket, self._path = f"unix:{path}", "", False, path

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self._path, limit=MAX_HEAD)

    def credentials(self) -> list[str]:
        return ["Host: localhost"]

    async def has_http(self) -> bool:
        """Returns false for the socket of `trunkline serve`, which answers the line behind the request only."""
        reader, writer = await self.dial()
        try:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" + PROBE)
            async with asyncio.timeout(ANSWERS):
                return await reader.readexactly(5) == b"HTTP/"
        except asyncio.IncompleteReadError as error:
            raise BadAnswer("the socket was closed without an answer") from error
        finally:
            writer.close()


class Answer:
    """An answer to a request: its status, its headers by lower-case names, and its body."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.status, self.headers = 0, dict[str, str]()

    async def continues(self) -> bool:
        """Returns true if the server wants the body, or says nothing about it; false if it has answered without it."""
        try:
            async with asyncio.timeout(CONTINUES):
                await self._begin()
        except TimeoutError:
            return True
        return self.status == 100

    async def begin(self) -> None:
        """Reads the status and the headers. An answer without a body may come before."""
        await self._begin()
        while self.status < 200:
            await self._begin()

    async def _begin(self) -> None:
        status, *lines = (await self._until(b"\r\n\r\n", "the head of an answer")).decode("latin-1").split("\r\n")
        version, code, *_ = [*status.split(" ", 2), ""]
        if not version.startswith("HTTP/1.") or not code.isdecimal() or len(code) != 3:
            raise BadAnswer("this is no answer of HTTP")
        self.status, self.headers = int(code), {}
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()

    async def refusal(self) -> Refused:
        try:
            problem = parse(await self.whole(MAX_PROBLEM)) or {}
        except OSError:
            problem = {}
        detail, category = problem.get("detail"), problem.get("category")
        return refusal(
            self.status,
            detail if isinstance(detail, str) else f"status {self.status}",
            category if isinstance(category, str) else None,
            seconds_of(self.headers.get("retry-after")),
        )

    async def whole(self, most: int) -> bytes:
        """Returns the body. Raises TooLarge if it is over `most` bytes, BadAnswer if it ends early."""
        parts, size = [], 0
        async for piece in self.pieces():
            parts.append(piece)
            if (size := size + len(piece)) > most:
                raise TooLarge("an answer", most)
        return b"".join(parts)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes, in pieces of up to 64 KiB. Raises BadAnswer if it ends early."""
        if self.status == 204:
            return
        between = "a line between two pieces of an answer"
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while left := _number(await self._until(b"\r\n", between), 16):
                async for piece in self._exactly(left):
                    yield piece
                await self._until(b"\r\n", between)
        else:
            async for piece in self._exactly(_number(self.headers.get("content-length", "0").encode(), 10)):
                yield piece

    async def _exactly(self, left: int) -> AsyncIterator[bytes]:
        while left > 0:
            async with asyncio.timeout(SILENCE):
                piece = await self._reader.read(min(left, PIECE))
            if not piece:
                raise BadAnswer("an answer ended early")
            left -= len(piece)
            yield piece

    async def _until(self, end: bytes, part: str) -> bytes:
        try:
            async with asyncio.timeout(SILENCE if self.status else ANSWERS):
                return (await self._reader.readuntil(end))[: -len(end)]
        except asyncio.IncompleteReadError as error:
            raise BadAnswer("an answer ended early") from error
        except asyncio.LimitOverrunError as error:
            raise TooLarge(part, MAX_HEAD) from error

    def close(self) -> None:
        self._writer.close()


def parse_answer(text: bytes) -> Message:
    """Returns the object of an answer. Raises BadAnswer for anything else, at any depth."""
    if (found := parse(text)) is None:
        raise BadAnswer("an answer is no object of JSON")
    return found


def seconds_of(after: str | None) -> float | None:
    """Returns the seconds of a Retry-After; None for a date, which the daemon does not send."""
    return float(after) if after and after.isdecimal() and len(after) < 7 else None


def _number(text: bytes, base: int) -> int:
    digits = text.split(b";")[0].strip()
    if not digits.isalnum() or len(digits) > 16:
        raise BadAnswer("an answer has no length")
    try:
        return int(digits, base)
    except ValueError as error:
        raise BadAnswer("an answer has no length") from error


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
