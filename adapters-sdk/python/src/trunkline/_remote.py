"""A daemon as a pipe: by requests and Server-Sent Events, or by its WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from ._frames import MAX_LINE, Lines
from ._http import PIECE, Daemon, Refused
from ._inbox import Inbox
from ._json import Message, encode, parse

LONGEST = MAX_LINE + 256 * 1024  # bytes of an entry with what is around it
AHEAD = 64  # messages that were read and not taken; then the connection is not read
LARGEST = 64 * 1024 * 1024  # bytes of a file
SILENT = 60.0  # seconds in which the other side answers no ping
STREAM = {"Accept": "text/event-stream"}
BYTES = {"Content-Type": "application/octet-stream"}


class Events:
    """Sessions over requests, and one stream of events a session, which is opened again where it alone has ended."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._ahead = Inbox(AHEAD)  # it ends when the connection breaks
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self) -> Events:
        """Looks whether the daemon is there and knows the token. Raises Refused and OSError."""
        try:
            await self._daemon.ask("GET", "/v1/me")
        except Refused as refused:
            if refused.status >= 500:
                raise ConnectionError(str(refused)) from refused
            raise
        return self

    async def read(self) -> Message | None:
        return await self._ahead.take()

    async def close(self) -> None:
        self._ahead.leave()
        self._ahead.end()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def create(self, options: Message) -> str | None:
        options = dict(options)
        agent = options.pop("agent_id", None)
        asked = {"options": options} if agent is None else {"agent": agent, "options": options}
        try:
            return str((await self._daemon.ask("POST", "/v1/sessions", asked))["id"])
        except OSError:
            self._ahead.end()
            raise

    async def file(self, session_id: str, file: Message) -> bytes:
        answer = await self._daemon.send("GET", f"{_path(session_id)}/files/{quote(file['sha256'], safe='')}")
        try:
            return await answer.whole(LARGEST)
        finally:
            answer.close()

    async def write(self, message: Message) -> None:
        """Makes the request that a message is. What the daemon says to it alone is read as the pipe would have it."""
        try:
            await self._ask(message)
        except Refused as refused:
            if refused.status == 401:
                self._ahead.end()  # the next connection says whether it is good there
            else:
                await self._ahead.put(_refusal(message, refused))
        except OSError:
            self._ahead.end()
            raise

    async def _ask(self, message: Message) -> None:
        kind, path, daemon = message["type"], _path(message["session_id"]), self._daemon
        if kind == "session.attach":
            if earlier := self._tasks.pop(message["session_id"], None):
                earlier.cancel()
            told = await daemon.ask("GET", path)
            await self._ahead.put({**told, "type": "session.attached", "session_id": message["session_id"]})
            self._tasks[message["session_id"]] = asyncio.create_task(self._listen(message))
        elif kind == "user.input":
            body: Message = {"content": message["content"]}
            if message.get("mode") == "steer":
                body["steer"] = message["turn_id"]
            if files := message.get("files"):
                body["files"] = [await self._give(path, file) for file in files]
            await daemon.ask("POST", f"{path}/inputs", body, {"Idempotency-Key": message["message_id"]})
        elif kind == "stop":
            await daemon.ask("POST", f"{path}/stop", {"turn_id": message["turn_id"]})
        elif kind in ("permission.response", "input.response"):
            answer = {name: message[name] for name in message if name not in ("type", "session_id", "request_id")}
            await daemon.ask("POST", f"{path}/requests/{quote(message['request_id'], safe='')}", answer)
        elif kind == "session.close":
            await daemon.ask("DELETE", path)

    async def _give(self, path: str, file: Message) -> Message:
        name = quote(file["file_name"], safe="")
        answer = await self._daemon.send("PUT", f"{path}/files?name={name}", _pieces(file), file["size"], BYTES)
        answer.close()
        return {"sha256": file["sha256"], "name": file["file_name"], "mime_type": file["file_mime_type"]}

    async def _listen(self, attach: Message) -> None:
        epoch = f"&epoch={attach['epoch']}" if attach.get("epoch") is not None else ""
        path = f"{_path(attach['session_id'])}/events?after={attach['after']}{epoch}"
        is_over = False
        try:
            answer = await self._daemon.send("GET", path, headers=STREAM)
            try:
                is_over = answer.status == 204
                frames, data = Lines(LONGEST), b""
                async for piece in answer.pieces():
                    for line in frames.feed(piece):
                        if not isinstance(line, bytes):
                            raise ConnectionError(f"an entry is over {LONGEST} bytes")
                        if line.startswith(b"data:"):
                            data = line[5:]
                        elif not line.rstrip(b"\r") and (entry := parse(data)):
                            data = b""
                            is_over = is_over or entry.get("type") == "session.closed"
                            await self._ahead.put(entry)
            finally:
                answer.close()
        except Refused as refused:
            if refused.status == 401:
                return self._ahead.end()
            return await self._ahead.put(_refusal(attach, refused))
        except TimeoutError:
            return self._ahead.end()  # the daemon is silent
        except OSError:
            pass  # it is cut, as where it ends
        if not is_over:
            await self._ahead.put(_refusal(attach, Refused(503, "its events have ended")))


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
                max_size=LONGEST,
                ping_timeout=SILENT,
                logger=quiet,
                ssl=daemon.tls,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            if status >= 500:
                raise ConnectionError(f"the daemon answers {status}") from error
            raise Refused(status, "no WebSocket for this token") from error
        except InvalidHandshake as error:
            raise ConnectionError(str(error)) from error
        self._tasks["of the socket"] = asyncio.create_task(self._pump())
        return self

    async def _pump(self) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            while True:
                for line in (await self._socket.recv(decode=False)).split(b"\n"):
                    message = parse(line)
                    if message and message.get("type") == "pong" and message.get("nonce") in self._pongs:
                        self._pongs.pop(message["nonce"]).set_result(None)
                    elif message:
                        await self._ahead.put(message)
        except ConnectionClosed:
            pass
        finally:
            self._ahead.end()
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
        """Waits until the daemon has what was said before: a request does not overtake it."""
        nonce = uuid.uuid4().hex
        pong = self._pongs[nonce] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"type": "ping", "session_id": "", "nonce": nonce})
            await pong
        finally:
            self._pongs.pop(nonce, None)

    async def create(self, options: Message) -> str | None:
        return None

    async def close(self) -> None:
        await super().close()
        with contextlib.suppress(OSError, TimeoutError):
            await self._socket.close()


def _path(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}"


def _pieces(file: Message) -> Iterator[bytes]:
    """The bytes of a file, as many as were announced. Raises OSError where it has changed since."""
    left, sha256 = file["size"], hashlib.sha256()
    with open(file["file_path"], "rb") as source:
        while left > 0 and (piece := source.read(min(left, PIECE))):
            left -= len(piece)
            sha256.update(piece)
            yield piece
    if left or sha256.hexdigest() != file["sha256"]:
        raise OSError("the file has changed")


def _refusal(message: Message, refused: Refused) -> Message:
    """A refusal in the words that the pipe has for it."""
    kind, said = message["type"], {"session_id": message["session_id"]}
    error = {"category": refused.category or "other", "message": refused.detail}
    if refused.status >= 500:  # the session is not served now: what was said is said again
        return {**said, "type": "session.refused", "reason": "unavailable", "message": refused.detail}
    if kind == "session.attach":
        reason = {404: "unknown", 409: "ahead"}.get(refused.status, "forbidden")
        return {**said, "type": "session.refused", "reason": reason, "message": refused.detail}
    if kind == "user.input" and message.get("mode") == "steer":
        result = {"message_id": message["message_id"], "delivered": False, "reason": refused.detail}
        return {**said, "type": "steer.result", **result}
    if kind == "user.input":
        return {**said, "type": "turn.complete", "turn_id": message["turn_id"], "status": "failed", "error": error}
    if kind in ("permission.response", "input.response"):
        return {**said, "type": "request.decided", "request_id": message["request_id"]}
    if kind == "session.close" and refused.status in (404, 409):
        return {**said, "type": "session.closed", "reason": "finished"}
    return {**said, "type": "error", **error}
