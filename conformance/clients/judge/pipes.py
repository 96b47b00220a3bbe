"""The scripted daemon over pipes: a Unix socket, a command, and a WebSocket."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .http_daemon import ConnectionCut, HttpDaemon, Reply, Request, history_page
from .journal import EXTENSIONS, Journal, Message, Refusal, Session, encode

MAX_LINE = 80 * 1024 * 1024
WEBSOCKET_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
OPERATIONS = {
    "session.start": "open",
    "session.attach": "attach",
    "user.input": "input",
    "stop": "stop",
    "permission.response": "answer",
    "input.response": "answer",
    "session.close": "close",
    "sessions.list": "sessions",
    "session.history": "history",
    "agents.list": "agents",
}
AGENT = {"id": "echo", "name": "echo", "profile": "echo", "capabilities": {}, "state": "idle"}


@dataclass
class PipePlan:
    """The way in which entries are written to a pipe."""

    cut_at: int | None = None  # bytes of entries after which the pipe is cut
    step: int = 0  # bytes of a write; 0 for each line whole
    pause: float = 0.0  # seconds between writes
    rewrite: Callable[[bytes, Message], bytes] | None = None  # changes the line of an entry, with its LF
    fragment: int = 0  # bytes of a frame of a WebSocket; 0 for a message in one frame


@dataclass
class Hub:
    """A hub at one pipe."""

    pipes: Pipes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int
    plan: PipePlan
    is_websocket: bool = False
    following: dict[str, list[Any]] = field(default_factory=dict)  # position and role of each session
    is_mute: bool = False
    queue: asyncio.Queue[tuple[bytes, bool]] = field(default_factory=asyncio.Queue)
    written: int = 0

    def send(self, message: Message) -> None:
        if not self.is_mute:
            self.queue.put_nowait((encode(message) + b"\n", False))

    def raw(self, data: bytes) -> None:
        """Writes bytes as they are."""
        self.queue.put_nowait((data, False))

    def cut(self) -> None:
        self.is_mute = True
        self.writer.transport.abort()

    # What is written.

    async def write_all(self) -> None:
        while True:
            data, is_entry = await self.queue.get()
            if is_entry and self.plan.cut_at is not None and self.written + len(data) > self.plan.cut_at:
                await self.write(data[: self.plan.cut_at - self.written])
                await asyncio.sleep(0.02)
                return self.cut()
            self.written += len(data) if is_entry else 0
            await self.write(data)

    async def write(self, data: bytes) -> None:
        step = self.plan.step or len(data) or 1
        if self.is_websocket:
            # A message holds whole lines, so only its frames can be cut.
            return await self.write_frames(data.removesuffix(b"\n"), data.endswith(b"\n"))
        for begin in range(0, len(data), step):
            self.writer.write(data[begin : begin + step])
            await self.writer.drain()
            if self.plan.pause:
                await asyncio.sleep(self.plan.pause)

    async def write_frames(self, data: bytes, is_whole: bool) -> None:
        fragment = self.plan.fragment or len(data) or 1
        parts = [data[begin : begin + fragment] for begin in range(0, len(data), fragment)] or [b""]
        for index, part in enumerate(parts):
            is_last = index == len(parts) - 1 and is_whole
            frame = frame_of(0 if index else 1, part, is_last)
            step = self.plan.step or len(frame)
            for begin in range(0, len(frame), step):
                self.writer.write(frame[begin : begin + step])
                await self.writer.drain()
                if self.plan.pause:
                    await asyncio.sleep(self.plan.pause)
            if self.plan.fragment and not is_last:
                self.writer.write(frame_of(9, b"between", True))

    def flush(self) -> None:
        """Queues the entries that came behind the position of each session."""
        for session_id, place in list(self.following.items()):
            session = self.pipes.journal.sessions[session_id]
            while place[0] < session.last and not self.is_mute:
                entry = session.entries[place[0]]
                place[0] += 1
                if entry["seq"] in session.lost:
                    last = entry["seq"]
                    while last + 1 in session.lost:
                        last += 1
                    place[0] = last
                    self.send({"type": "lag", "session_id": session.id, "from": entry["seq"], "to": last})
                    continue
                line = encode(entry) + b"\n"
                if self.plan.rewrite:
                    line = self.plan.rewrite(line, entry)
                if line:
                    self.queue.put_nowait((line, True))

    # What is read.

    async def run(self, read: Callable[[], Any]) -> None:
        listener = self.flush
        watched: set[str] = set()
        writing = asyncio.create_task(self.write_all())
        writing.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            while lines := await read():
                for line in lines:
                    try:
                        message = json.loads(line)
                    except ValueError:
                        continue
                    if not isinstance(message, dict):
                        continue
                    self.pipes.messages.append(message)
                    if not self.pipes.intercept(self, message):
                        self.handle(message)
                    for session_id in self.following.keys() - watched:
                        watched.add(session_id)
                        self.pipes.journal.sessions[session_id].listeners.append(listener)
                    self.flush()
        finally:
            writing.cancel()
            for session_id in watched:
                self.pipes.journal.sessions[session_id].listeners.remove(listener)
            self.following.clear()

    def handle(self, message: Message) -> None:
        kind, session_id = message.get("type"), message.get("session_id") or ""
        try:
            if session_id:
                self.handle_session(str(kind), session_id, message)
            else:
                self.handle_pipe(str(kind), message)
        except Refusal as refusal:
            self.refuse(message, refusal)

    def handle_pipe(self, kind: str, message: Message) -> None:
        request_id = message.get("request_id")
        if kind == "ping":
            self.send({"type": "pong", "session_id": "", "nonce": message.get("nonce")})
        elif kind == "agents.list":
            self.send({"type": "agents.list.result", "session_id": "", "request_id": request_id, "agents": [AGENT]})
        elif kind == "sessions.list":
            query = {name: str(message[name]) for name in ("text", "state", "cursor", "limit") if name in message}
            if "agent_id" in message:
                query["agent"] = message["agent_id"]
            if message.get("archived"):
                query["archived"] = "true"
            page = self.pipes.daemon.list_page(query)
            listed = [{**each, "session_id": each["id"], "agent_id": each["agent"]} for each in page["sessions"]]
            for each in listed:
                del each["id"], each["agent"]
            result = {"type": "sessions.list.result", "session_id": "", "request_id": request_id, "sessions": listed}
            self.send({**result, **({"next": page["next"]} if page["next"] else {})})

    def handle_session(self, kind: str, session_id: str, message: Message) -> None:
        journal = self.pipes.journal
        listener = f"l-{self.number}"
        if kind == "session.start":
            if session_id in journal.sessions:
                return self.send({"type": "session.refused", "session_id": session_id, "reason": "exists"})
            ready = {"type": "session.ready", "session_id": session_id, "protocol": 1, "extensions": EXTENSIONS}
            self.send(ready)
            journal.open(session_id, message.get("agent_id") or "echo")
            self.following[session_id] = [0, "control"]
            return None
        if kind == "session.attach":
            return self.attach(session_id, message, listener)
        if kind == "session.history":
            return self.history(session_id, message)
        session = journal.find(session_id)
        if kind == "session.detach":
            self.following.pop(session_id, None)
            return None
        if self.following.get(session_id, [0, "control"])[1] == "observe":
            return None
        if kind == "user.input" and message.get("mode") == "steer":
            result = session.steer(message["content"], message.get("message_id") or "", listener)
            self.flush()
            self.send({"type": "input.result", "session_id": session_id, **result})
        elif kind == "user.input":
            message_id = message.get("message_id") or journal.new_id("m")
            result = session.submit(message["content"], message_id, message.get("turn_id"), listener, [])
            self.flush()
            self.send({"type": "input.result", "session_id": session_id, **result})
        elif kind == "stop":
            with contextlib.suppress(Refusal):
                session.stop(message.get("turn_id"), listener)
        elif kind in ("permission.response", "input.response"):
            self.decide(session, message, listener)
        elif kind == "session.close":
            session.close()
        elif kind == "session.edit":
            told = {name: message[name] for name in ("title", "archived") if name in message}
            session.title, session.archived = told.get("title", session.title), told.get("archived", session.archived)
            session.append("session.edited", by=listener, **told)
            self.flush()
            self.send({"type": "session.edit.result", "session_id": session_id, "request_id": message["request_id"]})
        elif kind == "session.update":
            session.append("session.info", options=message.get("options") or {})
        return None

    def attach(self, session_id: str, message: Message, listener: str) -> None:
        session, after = self.pipes.journal.sessions.get(session_id), message.get("after") or 0
        refused = {"type": "session.refused", "session_id": session_id}
        self.following.pop(session_id, None)
        if session is None or session.removed:
            return self.send({**refused, "reason": "unknown", "message": "the journal has no session of this id"})
        if after > session.last:
            return self.send({**refused, "reason": "ahead", "last_seq": session.last})
        epoch = message.get("epoch")
        if epoch is not None and after and session.entries[after - 1]["epoch"] != epoch:
            return self.send({**refused, "reason": "forked", "last_seq": after - 1})
        role = message.get("role") or "control"
        self.send({"type": "session.attached", "session_id": session_id, **session.attached(listener, role)})
        self.following[session_id] = [after, role]
        return None

    def history(self, session_id: str, message: Message) -> None:
        result: Message = {"type": "session.history.result", "session_id": session_id, "request_id": message["request_id"]}
        session = self.pipes.journal.sessions.get(session_id)
        if session is None:
            return self.send({**result, "error": "the journal has no session of this id"})
        begin = message.get("from") or 1
        end = min(message.get("to") or session.last, session.last)
        page = history_page(session, {"from": str(begin), "limit": str(max(1, end - begin + 1))})
        if end < begin:
            return self.send({**result, "entries": []})
        return self.send({**result, "entries": page["entries"], **({"lost": page["lost"]} if page["lost"] else {})})

    def decide(self, session: Session, message: Message, listener: str) -> None:
        request_id = message["request_id"]
        if request_id in session.decided:
            entry = session.decided[request_id]
            return self.send({name: entry[name] for name in entry if name not in ("seq", "epoch", "time")})
        names = ("option_id", "values", "cancelled", "name")
        members = {name: message[name] for name in names if name in message}
        if message["type"] == "permission.response":
            if not self.pipes.daemon.may_approve:
                error = {"category": "permission_denied", "message": "this hub answers no permissions", "fatal": False}
                return self.send({"type": "error", "session_id": session.id, "request_id": request_id, **error})
            members["approved"] = message.get("approved") is True
        with contextlib.suppress(Refusal):
            session.decide(request_id, by=listener, **members)
        return None

    def refuse(self, message: Message, refusal: Refusal) -> None:
        told = {"session_id": message.get("session_id")}
        error = {"category": refusal.category or "other", "message": refusal.detail}
        if message.get("type") == "user.input" and message.get("mode") == "steer":
            result = {"message_id": message.get("message_id"), "delivered": False, "reason": refusal.detail}
            return self.send({"type": "steer.result", **told, **result})
        if message.get("type") == "user.input":
            end = {"turn_id": message.get("turn_id"), "status": "refused", "error": error, "delivered": "no"}
            return self.send({"type": "turn.complete", **told, **end})
        return self.send({"type": "error", **told, **error, "fatal": False})


class Pipes:
    """The pipes of a daemon, all on one journal."""

    def __init__(self, journal: Journal, daemon: HttpDaemon, folder: Path) -> None:
        self.journal, self.daemon, self.folder = journal, daemon, folder
        self.messages: list[Message] = []
        self.hubs: list[Hub] = []
        self.plan: Callable[[int], PipePlan] = lambda number: PipePlan()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._losses: list[tuple[str, str]] = []
        self._count = 0
        daemon.upgrade = self.upgrade

    def address(self, transport: str) -> Message:
        if transport == "socket":
            return {"path": str(self.folder / "host.sock")}
        child = str(Path(__file__).with_name("child.py"))
        return {"command": [sys.executable, "-S", "-E", "-B", child, str(self.folder)]}

    async def start(self) -> None:
        for name in ("host.sock", "command.sock"):
            (self.folder / name).unlink(missing_ok=True)
            server = await asyncio.start_unix_server(self.serve, str(self.folder / name), limit=MAX_LINE)
            self._servers.append(server)

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        for name in ("host.sock", "command.sock"):
            (self.folder / name).unlink(missing_ok=True)
        await self.cut()

    async def cut(self) -> None:
        tasks = list(self._tasks)
        for hub in self.hubs:
            hub.cut()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def lose(self, operation: str, what: str) -> None:
        self._losses.append((operation, what))

    def made(self, operation: str) -> list[Message]:
        return [each for each in self.messages if OPERATIONS.get(each.get("type") or "") == operation]

    def intercept(self, hub: Hub, message: Message) -> bool:
        """Loses a message as planned. Returns True if it is not to be handled."""
        operation = OPERATIONS.get(message.get("type") or "", "")
        for loss in self._losses:
            if loss[0] == operation:
                self._losses.remove(loss)
                if loss[1] == "answer":
                    hub.is_mute = True
                    hub.handle(message)
                hub.cut()
                return True
        return False

    def _hub(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Hub:
        self._count += 1
        hub = Hub(self, reader, writer, self._count, self.plan(self._count))
        self.hubs.append(hub)
        return hub

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hub = self._hub(reader, writer)

        async def read() -> list[bytes]:
            line = await reader.readline()
            return [line] if line else []

        await self._run(hub, read)

    async def _run(self, hub: Hub, read: Callable[[], Any]) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        try:
            await hub.run(read)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self.hubs.remove(hub)
            hub.writer.close()

    # The WebSocket.

    async def upgrade(self, request: Request, reply: Reply) -> None:
        key = request.headers.get("sec-websocket-key", "").encode()
        accept = base64.b64encode(hashlib.sha1(key + WEBSOCKET_KEY).digest()).decode()
        if request.headers.get("upgrade", "").lower() != "websocket":
            return await reply.refuse(400, "this path is a WebSocket's")
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
        await reply.write("\r\n".join([*lines, f"Sec-WebSocket-Accept: {accept}", "", ""]).encode())
        hub = self._hub(reply.reader, reply.writer)
        hub.is_websocket = True
        is_known = "authorization" in request.headers

        async def read() -> list[bytes]:
            nonlocal is_known
            while True:
                lines = await read_message(reply.reader, reply.writer)
                if lines and not is_known:
                    first = json.loads(lines.pop(0))
                    if first.get("type") != "auth" or first.get("token") != self.daemon.token:
                        reply.writer.write(frame_of(8, struct.pack(">H", 4401) + b"the token is not known", True))
                        await reply.writer.drain()
                        raise ConnectionCut
                    is_known = True
                    if not lines:
                        continue
                return lines

        try:
            await self._run(hub, read)
        except ConnectionCut:
            pass
        reply.keep_alive = False
        return None


def frame_of(kind: int, data: bytes, is_last: bool) -> bytes:
    """A frame of a WebSocket, as a server sends it."""
    size = len(data)
    if size < 126:
        length = bytes([size])
    elif size < 65536:
        length = b"\x7e" + struct.pack(">H", size)
    else:
        length = b"\x7f" + struct.pack(">Q", size)
    return bytes([(0x80 if is_last else 0) | kind]) + length + data


async def read_message(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
    """The lines of the next message of a WebSocket; none at its end."""
    parts: list[bytes] = []
    while True:
        first, second = await reader.readexactly(2)
        size = second & 127
        if size > 125:
            size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
        if size > MAX_LINE:
            return []
        mask = await reader.readexactly(4) if second & 128 else b"\0\0\0\0"
        data = await reader.readexactly(size)
        repeated = (mask * (size // 4 + 1))[:size]
        data = (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
        kind = first & 15
        if kind == 8:
            writer.write(frame_of(8, data[:2], True))
            return []
        if kind == 9:
            writer.write(frame_of(10, data, True))
        elif kind in (0, 1, 2):
            parts.append(data)
            if first & 128:
                return [line for line in b"".join(parts).split(b"\n") if line]
