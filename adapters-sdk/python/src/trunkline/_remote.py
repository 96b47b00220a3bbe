"""A daemon as a pipe: by requests and Server-Sent Events, or by its WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

from ._errors import BadAnswer, ProtocolMismatch, Refused, TooLarge, TokenRefused, Unavailable, is_retried, refusal
from ._frames import Lines
from ._http import PIECE, Daemon, seconds_of
from ._inbox import Inbox
from ._json import Message, encode, parse
from ._pipes import MAX_ENTRY, MAX_FILE
from ._retry import within_limits

AHEAD = 64  # messages that were read and not taken; then the connection is not read
SILENT = 60.0  # seconds in which the other side answers no ping
STREAM = {"Accept": "text/event-stream"}
BYTES = {"Content-Type": "application/octet-stream"}
FAILED = "session.failed"
"""Type of a message that only this package makes: `error` is the exception that ends a session."""


class Events:
    """Sessions over requests, and one stream of events for each, which is opened again if only it has ended."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._ahead = Inbox(AHEAD)  # it ends when the connection breaks
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self) -> Events:
        """Checks that the daemon answers and accepts the token. Raises Refused, ProtocolMismatch and OSError."""
        try:
            me = await self._daemon.ask("GET", "/v1/me")
        except Unavailable as refused:
            raise ConnectionError(str(refused)) from refused
        if "scope" not in me:
            raise ProtocolMismatch(f"{self._daemon.url} answers, but is no daemon of trunkline")
        return self

    async def read(self) -> Message | None:
        return await self._ahead.take()

    async def requests(self) -> Daemon | None:
        return self._daemon

    async def close(self) -> None:
        self._ahead.leave()
        self._ahead.end()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def create(self, options: Message, conversation: str | None, key: str) -> str | None:
        options = dict(options)
        agent = options.pop("agent_id", None)
        asked = {"agent": agent, "native_session_id": conversation, "options": options}
        body = {name: value for name, value in asked.items() if value is not None}
        try:
            made = await within_limits(lambda: self._daemon.ask("POST", "/v1/sessions", body, {"Idempotency-Key": key}))
        except OSError:
            self._ahead.end()
            raise
        if not isinstance(made.get("id"), str):
            raise BadAnswer("the daemon named no session")
        return str(made["id"])

    async def file(self, session_id: str, file: Message) -> bytes:
        answer = await self._daemon.send("GET", f"{path_of(session_id)}/files/{quote(file['sha256'], safe='')}")
        try:
            return await answer.whole(MAX_FILE)
        finally:
            answer.close()

    async def write(self, message: Message) -> None:
        """Makes the request of a message. What the daemon answers to it alone is read as from a pipe."""
        try:
            await within_limits(lambda: self._ask(message))
        except TokenRefused:
            self._ahead.end()  # the next connection shows whether another daemon accepts it
        except Refused as refused:
            if told := _refusal(message, refused):
                await self._ahead.put(told)
        except TooLarge as error:
            await self._ahead.put({"type": FAILED, "session_id": message["session_id"], "error": error})
        except OSError:
            self._ahead.end()
            raise

    async def _ask(self, message: Message) -> None:
        kind, path, daemon = message["type"], path_of(message["session_id"]), self._daemon
        if kind in ("session.attach", "session.detach"):
            if earlier := self._tasks.pop(message["session_id"], None):
                earlier.cancel()
        if kind == "session.attach":
            told = await daemon.ask("GET", path)
            if isinstance(told.get("last_seq"), int) and message["after"] > told["last_seq"]:
                raise refusal(409, f"the session has {told['last_seq']} entries, and {message['after']} were claimed")
            await self._ahead.put({**told, "type": "session.attached", "session_id": message["session_id"]})
            self._tasks[message["session_id"]] = asyncio.create_task(self._listen(message))
        elif kind == "user.input":
            body: Message = {"content": message["content"]}
            if message.get("mode") == "steer":
                body["steer"] = message["turn_id"]
            if message.get("limits"):
                body["limits"] = message["limits"]
            if files := message.get("files"):
                body["files"] = [await self._give(path, file) for file in files]
            await daemon.ask("POST", f"{path}/inputs", body, {"Idempotency-Key": message["message_id"]})
        elif kind == "stop":
            await daemon.ask("POST", f"{path}/stop", {"turn_id": message["turn_id"]})
        elif kind == "session.close":
            await daemon.ask("DELETE", path)

    async def _give(self, path: str, file: Message) -> Message:
        name = quote(file["file_name"], safe="")
        answer = await self._daemon.send("PUT", f"{path}/files?name={name}", _pieces(file), file["size"], BYTES)
        answer.close()
        return {"sha256": file["sha256"], "name": file["file_name"], "mime_type": file["file_mime_type"]}

    async def _listen(self, attach: Message) -> None:
        epoch = f"&epoch={attach['epoch']}" if attach.get("epoch") is not None else ""
        path = f"{path_of(attach['session_id'])}/events?after={attach['after']}{epoch}"
        is_over = False
        error: Exception | None = None
        try:
            answer = await within_limits(lambda: self._daemon.send("GET", path, headers=STREAM))
            try:
                is_over = answer.status == 204
                async for _, data in events_of(answer.pieces()):
                    if entry := parse(data):
                        is_over = is_over or entry.get("type") == "session.closed"
                        await self._ahead.put(entry)
            finally:
                answer.close()
        except (TokenRefused, TimeoutError):  # the token is checked on the next connection; the daemon is silent
            return self._ahead.end()
        except (Refused, OSError) as broken:
            error = broken
        if error is not None and not is_retried(error):
            return await self._ahead.put({"type": FAILED, "session_id": attach["session_id"], "error": error})
        if not is_over:
            refused = error if isinstance(error, Refused) else refusal(503, "its events have ended")
            await self._ahead.put(_refusal(attach, refused) or {})


class Socket(Events):
    """Sessions over the WebSocket. Inputs with files are requests, since no path goes over a network."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon)
        self._socket: Any = None
        self._pongs: dict[str, asyncio.Future[None]] = {}

    async def begin(self) -> Socket:
        try:
            from websockets.asyncio.client import connect
            from websockets.exceptions import InvalidHandshake, InvalidStatus
        except ImportError as error:
            raise ImportError("a WebSocket needs the package websockets: pip install 'trunkline[ws]'") from error
        quiet = logging.getLogger("trunkline.websocket")
        quiet.setLevel(max(quiet.level, logging.INFO))  # with DEBUG it would log the token
        daemon = self._daemon
        try:
            self._socket = await connect(
                f"{daemon.url.rstrip('/')}/v1/pipe",
                additional_headers={"Authorization": daemon.authorization()},
                # One host, whatever it answers: the token goes nowhere else.
                host=daemon.host,
                port=daemon.port,
                proxy=None,
                compression=None,
                max_size=MAX_ENTRY,
                ping_timeout=SILENT,
                logger=quiet,
                ssl=daemon.tls,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            if status >= 500:
                raise ConnectionError(f"the daemon answers {status}") from error
            after = seconds_of(error.response.headers.get("retry-after"))
            raise refusal(status, "no WebSocket for this token", None, after) from error
        except InvalidHandshake as error:
            raise ConnectionError(str(error)) from error
        self._tasks["of the socket"] = asyncio.create_task(self._pump())
        return self

    async def _pump(self) -> None:
        from websockets.exceptions import ConnectionClosed

        why: Exception | None = None
        try:
            while True:
                for line in (await self._socket.recv(decode=False)).split(b"\n"):
                    message = parse(line)
                    if message and message.get("type") == "pong" and message.get("nonce") in self._pongs:
                        self._pongs.pop(message["nonce"]).set_result(None)
                    elif message:
                        await self._ahead.put(message)
        except ConnectionClosed as closed:
            if closed.sent and closed.sent.code == 1009:
                why = TooLarge("a message of the WebSocket", MAX_ENTRY)
        finally:
            self._ahead.end(why)
            for pong in self._pongs.values():
                pong.set_exception(ConnectionError("the WebSocket was closed"))
            self._pongs.clear()

    async def write(self, message: Message) -> None:
        if message.get("files"):
            await self._fence()
            return await super().write(message)
        await self._send(message)

    async def _send(self, message: Message) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            await self._socket.send(encode(message))
        except ConnectionClosed as error:
            raise ConnectionError(str(error)) from error

    async def _fence(self) -> None:
        """Waits until the daemon has read what was sent before: a request does not overtake it."""
        nonce = uuid.uuid4().hex
        pong = self._pongs[nonce] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"type": "ping", "session_id": "", "nonce": nonce})
            await pong
        finally:
            self._pongs.pop(nonce, None)

    async def create(self, options: Message, conversation: str | None, key: str) -> str | None:
        return None if conversation is None else await super().create(options, conversation, key)

    async def close(self) -> None:
        await super().close()
        with contextlib.suppress(OSError, TimeoutError):
            await self._socket.close()


def path_of(session_id: str) -> str:
    """The path of a session."""
    return f"/v1/sessions/{quote(session_id, safe='')}"


async def events_of(pieces: AsyncIterator[bytes]) -> AsyncIterator[tuple[str | None, bytes]]:
    """The events of a stream: the id of each, None if it has none, and its data. Raises TooLarge and OSError."""
    frames, event_id, data, size = Lines(MAX_ENTRY), None, list[bytes](), 0
    async for piece in pieces:
        for line in frames.feed(piece):
            if not isinstance(line, bytes) or size + len(line) > MAX_ENTRY:
                raise TooLarge("an event", MAX_ENTRY)
            name, _, value = line.rstrip(b"\r").partition(b":")
            value = value.removeprefix(b" ")
            if not line.rstrip(b"\r"):
                if data:
                    yield event_id, b"\n".join(data)
                event_id, data, size = None, [], 0
            elif name == b"data":
                data.append(value)
                size += len(line)
            elif name == b"id":
                event_id = value.decode(errors="replace")
        if frames.is_skipping:
            raise TooLarge("an event", MAX_ENTRY)


def _pieces(file: Message) -> Iterator[bytes]:
    """The bytes of a file, as many as were announced. Raises OSError if it has changed since."""
    left, sha256 = file["size"], hashlib.sha256()
    with open(file["file_path"], "rb") as source:
        while left > 0 and (piece := source.read(min(left, PIECE))):
            left -= len(piece)
            sha256.update(piece)
            yield piece
    if left or sha256.hexdigest() != file["sha256"]:
        raise OSError("the file has changed")


def _refusal(message: Message, refused: Refused) -> Message | None:
    """The message of a pipe for a refused request."""
    kind, told = message["type"], {"session_id": message["session_id"]}
    error = {"category": refused.category or "other", "message": refused.detail}
    if is_retried(refused) and not (kind == "user.input" and refused.status == 429):
        # The session is not served now: what has no answer is sent again.
        again = {"reason": "unavailable", "message": refused.detail, "retry_after": refused.retry_after}
        return {**told, "type": "session.refused", **again}
    if kind == "session.attach":
        return {**told, "type": FAILED, "error": refused}
    if kind == "user.input" and message.get("mode") == "steer":
        result = {"message_id": message["message_id"], "delivered": False, "reason": refused.detail}
        return {**told, "type": "steer.result", **result}
    if kind == "user.input":
        return {**told, "type": "turn.complete", "turn_id": message["turn_id"], "status": "failed", "error": error}
    if refused.status in (404, 409):  # a stop or a close of what has ended
        return {**told, "type": "session.closed", "reason": "finished"} if kind == "session.close" else None
    return {**told, "type": "error", **error}
