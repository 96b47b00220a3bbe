"""The scripted daemon over HTTP/1.1: its routes, its streams of events, and the faults of both."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from .journal import Journal, Message, Refusal, Session, encode

MAX_HEAD = 64 * 1024
MAX_BODY = 80 * 1024 * 1024
TOKEN = "tl_judge_0123456789abcdefghijklmnopqrstuvwxyz"
# What lets a page of any origin send requests and read the answers, as a daemon with `--allow-origin` does.
PREFLIGHT = {
    "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
    "access-control-allow-headers": "authorization, content-type, idempotency-key, if-none-match, last-event-id",
    "access-control-max-age": "600",
}
READABLE = {"access-control-expose-headers": "etag, location, retry-after, idempotency-replayed", "vary": "origin"}
REASONS = {200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 307: "Temporary Redirect", 429: "Too Many Requests"}


class ConnectionCut(Exception):
    """Ends a connection on purpose."""


@dataclass
class Request:
    """A request as the daemon got it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    time: float
    operation: str = ""
    session: str = ""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def json(self) -> Message:
        if not self.body:
            return {}
        try:
            body = json.loads(self.body)
        except ValueError as error:
            raise Refusal(400, "the body is not JSON") from error
        if not isinstance(body, dict):
            raise Refusal(422, "the body is not an object")
        return body

    @property
    def is_preflight(self) -> bool:
        return self.method == "OPTIONS" and "access-control-request-method" in self.headers

    @property
    def key(self) -> str | None:
        """The key under which it counts once."""
        key = self.headers.get("idempotency-key")
        if key is None and self.body and self.method == "POST":
            with contextlib.suppress(ValueError):
                body = json.loads(self.body)
                key = body.get("message_id") if isinstance(body, dict) else None
        return key

    def __str__(self) -> str:
        return f"{self.method} {self.target}"


@dataclass
class StreamPlan:
    """The way in which a stream of events is sent."""

    cut_at: int | None = None  # bytes of the events after which the connection ends
    cut_how: str = "abort"  # `abort` resets it, `close` ends it within a chunk, `end` ends the body as if it were whole
    step: int = 0  # bytes of a write; 0 for each event whole
    pause: float = 0.0  # seconds between writes
    splits: bytes = b""  # a write ends behind each of these bytes
    newline: bytes = b"\n"
    preamble: bytes = b"retry: 1000\n:" + b" " * 64 + b"\n\n"
    rewrite: Callable[[bytes, Message], bytes] | None = None  # changes the bytes of an event
    upto: int | None = None  # the last entry that is sent; then the stream is silent or ends
    then: str = "live"  # behind `upto`: `silent`, `heartbeats`, `end`, `refused`


class Reply:
    """The answer to one request. Faults write to it what they like."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, origin: str | None) -> None:
        self.reader, self.writer = reader, writer
        self.begun = self.keep_alive = False
        self._cors = {"access-control-allow-origin": origin, **READABLE} if origin else {}

    async def write(self, data: bytes) -> None:
        self.begun = True
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}", "cache-control: no-store"]
        lines += [f"{name}: {value}" for name, value in (headers | self._cors).items()]
        await self.write("\r\n".join([*lines, "", ""]).encode())

    async def send(self, status: int, body: Any = None, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else b"" if body is None else encode(body)
        kind = "application/problem+json" if status >= 400 else "application/json"
        fields = {"content-type": kind, "content-length": str(len(data)), **(headers or {})}
        if status == 204:
            fields = dict(headers or {})
        await self.head(status, fields)
        if data:
            await self.write(data)
        self.keep_alive = True

    async def refuse(self, status: int, detail: str, category: str | None = None, headers: dict[str, str] | None = None) -> None:
        problem: Message = {"type": "about:blank", "title": "Refused", "status": status, "detail": detail}
        if category:
            problem["category"] = category
        await self.send(status, problem, headers)

    def cut(self) -> None:
        """Resets the connection."""
        self.writer.transport.abort()
        raise ConnectionCut


Fault = Callable[[Request, Reply], Awaitable[bool]]
"""Answers a request in place of the daemon. Returns False if the daemon is to answer."""

ROUTES = [
    ("me", "GET", r"/v1/me"),
    ("agents", "GET", r"/v1/agents"),
    ("sessions", "GET", r"/v1/sessions"),
    ("open", "POST", r"/v1/sessions"),
    ("changes", "GET", r"/v1/events"),
    ("search", "GET", r"/v1/search"),
    ("pipe", "GET", r"/v1/pipe"),
    ("state", "GET", r"/v1/sessions/([^/]+)"),
    ("edit", "PATCH", r"/v1/sessions/([^/]+)"),
    ("close", "DELETE", r"/v1/sessions/([^/]+)"),
    ("input", "POST", r"/v1/sessions/([^/]+)/inputs"),
    ("stream", "GET", r"/v1/sessions/([^/]+)/events"),
    ("history", "GET", r"/v1/sessions/([^/]+)/history"),
    ("stop", "POST", r"/v1/sessions/([^/]+)/stop"),
    ("answer", "POST", r"/v1/sessions/([^/]+)/requests/([^/]+)"),
    ("settings", "POST", r"/v1/sessions/([^/]+)/settings"),
    ("fork", "POST", r"/v1/sessions/([^/]+)/fork"),
    ("put_file", "PUT", r"/v1/sessions/([^/]+)/files"),
    ("get_file", "GET", r"/v1/sessions/([^/]+)/files/([^/]+)"),
    ("ready", "GET", r"/readyz|/healthz"),
]


@dataclass
class PlannedFault:
    operation: str
    fault: Fault
    times: int
    session: str | None = None


class HttpDaemon:
    """A daemon on the loopback. It can be stopped, and started again at the same port."""

    def __init__(self, journal: Journal, token: str = TOKEN) -> None:
        self.journal, self.token = journal, token
        self.port = 0
        self._reserved: socket.socket | None = None  # keeps the port while the daemon is stopped
        self.requests: list[Request] = []
        self.may_approve = True
        self.heartbeat = 15.0
        self.plan: Callable[[Session, int, int], StreamPlan] = lambda session, after, number: StreamPlan()
        self.streams: dict[str, int] = {}  # how many streams of a session were opened
        self._live: dict[str, set[Reply]] = {}  # replies with a stream that is open
        self.upgrade: Callable[[Request, Reply], Awaitable[None]] | None = None
        self._faults: list[PlannedFault] = []
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._replays: dict[tuple[str, str], tuple[int, Any]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _bind(self) -> socket.socket:
        """Returns a socket at the daemon's port, or at one that is free."""
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(("127.0.0.1", self.port))
        return bound

    async def start(self) -> None:
        if self._reserved is None:
            self._reserved = self._bind()
            self.port = self._reserved.getsockname()[1]
        self._server = await asyncio.start_server(self._serve, sock=self._bind(), limit=MAX_HEAD)

    async def stop(self) -> None:
        """Closes the port and resets all connections."""
        if self._server:
            self._server.close()
            self._server = None
        await self.cut()

    async def cut(self) -> None:
        """Resets all connections."""
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def cut_streams(self, session_id: str) -> None:
        """Resets the streams of a session, or with an empty id those over all sessions."""
        for reply in list(self._live.get(session_id, ())):
            reply.writer.transport.abort()

    def fault(self, operation: str, fault: Fault, times: int = 1, session: str | None = None) -> None:
        """Has the next requests of an operation answered by a fault."""
        self._faults.append(PlannedFault(operation, fault, times, session))

    def made(self, operation: str, session: str | None = None) -> list[Request]:
        """The requests of an operation so far."""
        return [
            each for each in self.requests if each.operation == operation and (session is None or each.session == session)
        ]

    # Connections.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionCut, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await read_request(reader)
        if request is None:
            return False
        reply = Reply(reader, writer, request.headers.get("origin"))
        if request.is_preflight:  # of the browser, not of the client
            await reply.send(204, headers=PREFLIGHT)
            return True
        self.requests.append(request)
        for operation, method, pattern in ROUTES:
            if request.method == method and (found := re.fullmatch(pattern, request.path)):
                request.operation = operation
                request.session = unquote(found.group(1)) if found.groups() else ""
        if not await self._fail(request, reply):
            await self.answer(request, reply)
        return reply.keep_alive and request.headers.get("connection", "").lower() != "close"

    async def _fail(self, request: Request, reply: Reply) -> bool:
        for planned in self._faults:
            if planned.operation not in (request.operation, "*") or planned.session not in (None, request.session):
                continue
            planned.times -= 1
            if planned.times == 0:
                self._faults.remove(planned)
            return await planned.fault(request, reply)
        return False

    async def answer(self, request: Request, reply: Reply) -> None:
        """Answers as a daemon without faults."""
        if request.operation != "ready" and request.headers.get("authorization") != f"Bearer {self.token}":
            if request.operation != "pipe" or "authorization" in request.headers:
                return await reply.refuse(401, "the token is not known")
        try:
            if request.operation == "stream":
                return await self._stream(request, reply)
            if request.operation == "changes":
                return await self._changes(request, reply)
            if request.operation == "pipe" and self.upgrade:
                return await self.upgrade(request, reply)
            answer = self.act(request)
            if request.operation == "input" and request.query.get("wait") == "end":
                answer = 200, await self._ended(self.journal.find(request.session), answer[1])
            await reply.send(*answer)
        except Refusal as refusal:
            if not reply.begun:
                await reply.refuse(refusal.status, refusal.detail, refusal.category)

    async def _ended(self, session: Session, taken: Message) -> Message:
        """Waits for the end of a turn. Returns the answer of an input with `wait=end`."""
        turn, changed = session.turns[taken["turn_id"]], asyncio.Event()
        wake = changed.set
        session.listeners.append(wake)
        try:
            while turn.end is None:
                changed.clear()
                await changed.wait()
        finally:
            session.listeners.remove(wake)
        outputs = (each for each in session.entries if each["type"] == "output" and each.get("turn_id") == turn.id)
        text = "".join(each["content"] for each in outputs)
        return {"turn_id": turn.id, "message_id": turn.message_id, "seq": turn.seq, "end": turn.end, "text": text}

    def act(self, request: Request) -> tuple[Any, ...]:
        """Does what a request asks for, once for each key. Returns a status, a body and headers."""
        key = request.headers.get("idempotency-key") if request.operation not in ("input", "") else None
        if key and request.method == "POST":
            if earlier := self._replays.get((request.path, key)):
                return (*earlier, {"idempotency-replayed": "true"})
            answer = self._act(request)
            self._replays[request.path, key] = answer
            return answer
        return self._act(request)

    def _act(self, request: Request) -> tuple[int, Any]:
        journal, operation, query = self.journal, request.operation, request.query
        by = "t-judge/l-1"
        if operation == "ready":
            return 200, {"state": "ready", "version": "0.1.0"}
        if operation == "me":
            me = {"scope": "control", "may_approve": self.may_approve, "name": "t-judge", "agents": ["echo"]}
            return 200, {**me, "sees_all": True, "version": "0.1.0"}
        if operation == "agents":
            agent = {"id": "echo", "name": "echo", "profile": "echo", "capabilities": {}, "state": "idle"}
            return 200, {"agents": [agent], "default": "echo"}
        if operation == "open":
            body = request.json
            if unknown := body.keys() - {"agent", "options", "native_session_id"}:
                raise Refusal(422, f"unknown members: {', '.join(sorted(unknown))}")
            session = journal.open(None, body.get("agent") or "echo", body.get("options"))
            return 201, {"id": session.id, "agent": session.agent}
        if operation == "sessions":
            return 200, self.list_page(query)
        if operation == "search":
            hits = [
                {"id": each.id, "agent": each.agent, "title": each.title, "seq": entry["seq"], "kind": "output",
                 "turn": entry.get("turn_id"), "snippet": entry["content"][:200]}
                for each in journal.sessions.values() for entry in each.entries
                if query.get("q", "").lower() in str(entry.get("content", "")).lower() and "content" in entry
            ]  # fmt: skip
            return 200, {"hits": hits, "next": None, "complete": True, "sessions_searched": 1, "sessions_total": 1}
        if not operation:
            raise Refusal(404, "there is nothing at this path")
        session = journal.find(request.session)
        if operation == "state":
            told = session.attached(by)
            return 200, {"id": session.id, "agent": session.agent, **told}
        if operation == "edit":
            body = request.json
            session.title = body.get("title", session.title)
            session.archived = body.get("archived", session.archived)
            session.append("session.edited", by=by, **body)
            return 204, None
        if operation == "close":
            session.close()
            session.removed = query.get("remove") == "true"
            return 204, None
        if operation == "input":
            return self._input(session, request, by)
        if operation == "stop":
            session.stop(request.json.get("turn_id"), by)
            return 202, {}
        if operation == "answer":
            return self._decide(session, unquote(request.path.rsplit("/", 1)[1]), request.json, by)
        if operation == "settings":
            session.options.update(request.json.get("options") or {})
            return 202, {}
        if operation == "fork":
            copy = journal.open(None, session.agent)
            copy.entries = [{**entry, "session_id": copy.id} for entry in session.entries[: request.json.get("seq")]]
            copy.append("host.fact", fact="forked_from", source=session.id)
            return 201, {"id": copy.id, "agent": copy.agent, "copied": "transcript"}
        if operation == "put_file":
            sha256 = session.keep(request.body)
            return 201, {"sha256": sha256, "size": len(request.body), "name": query.get("name")}
        if operation == "get_file":
            data = session.files.get(request.path.rsplit("/", 1)[1])
            if data is None:
                raise Refusal(404, "there is no such file")
            return 200, data
        if operation == "history":
            return 200, history_page(session, query)
        raise Refusal(404, "there is nothing at this path")

    def list_page(self, query: dict[str, str]) -> Message:
        """A page of the sessions, the last opened first."""
        found = [each.listed() for each in reversed(self.journal.sessions.values()) if not each.removed]
        archived = query.get("archived") == "true"
        found = [each for each in found if each.get("archived", False) == archived]
        for name in ("agent", "state"):
            found = [each for each in found if name not in query or each[name] == query[name]]
        if text := query.get("text", "").lower():
            found = [each for each in found if text in f"{each['title']} {each['id']}".lower()]
        begin, limit = int(query.get("cursor") or 0), int(query.get("limit") or 50)
        more = begin + limit < len(found)
        return {"sessions": found[begin : begin + limit], "next": str(begin + limit) if more else None}

    def _input(self, session: Session, request: Request, by: str) -> tuple[int, Any]:
        body = request.json
        if unknown := body.keys() - {"content", "files", "limits", "message_id", "options", "steer"}:
            raise Refusal(422, f"unknown members: {', '.join(sorted(unknown))}")
        if not isinstance(body.get("content"), str):
            raise Refusal(422, "content is missing")
        message_id = request.key or self.journal.new_id("m")
        files = [each if isinstance(each, str) else each["sha256"] for each in body.get("files") or ()]
        if missing := [each for each in files if each not in session.files]:
            raise Refusal(422, f"no upload has the sum {missing[0]}")
        if body.get("steer"):
            if session.running is None and message_id not in session.by_message:
                raise Refusal(409, "no turn runs")
            result = session.steer(body["content"], message_id, by)
        else:
            result = session.submit(body["content"], message_id, None, by, files)
        turn = session.turns[result["turn_id"]]
        told = {**result, "state": turn.state, "duplicate": result.get("duplicate", False)}
        return 202, {**told, **({"end": turn.end} if turn.end else {})}

    def _decide(self, session: Session, request_id: str, body: Message, by: str) -> tuple[int, Any]:
        asked = next((each for each in session.entries if each.get("request_id") == request_id), None)
        if not self.may_approve and asked and asked["type"] == "permission.request":
            raise Refusal(403, "the token answers no permissions", "permission_denied")
        members = {name: body[name] for name in ("option_id", "values", "cancelled", "name") if name in body}
        if asked and asked["type"] == "permission.request":
            members["approved"] = body.get("approved") is True
        entry = session.decide(request_id, by=by, **members)
        return 200, {"id": request_id, **{name: entry[name] for name in entry if name in ("by", "approved", "name", "seq")}}

    # Streams.

    async def _stream(self, request: Request, reply: Reply) -> None:
        session = self.journal.find(request.session)
        after = int(request.headers.get("last-event-id") or request.query.get("after") or 0)
        if after > session.last:
            raise Refusal(409, f"the session has {session.last} entries, and {after} were claimed")
        epoch = request.query.get("epoch")
        if epoch and after and session.entries[after - 1]["epoch"] != int(epoch):
            raise Refusal(409, f"entry {after} is of another epoch than {epoch}")
        if session.closed and after == session.last:
            return await reply.send(204)
        number = self.streams[session.id] = self.streams.get(session.id, 0) + 1
        plan = self.plan(session, after, number)
        events = EventWriter(reply, plan)
        await events.begin()
        changed = asyncio.Event()
        wake = changed.set
        session.listeners.append(wake)
        live = self._live.setdefault(session.id, set())
        live.add(reply)
        try:
            await self._entries(session, after, plan, events, changed)
        finally:
            live.discard(reply)
            session.listeners.remove(wake)

    async def _entries(
        self, session: Session, after: int, plan: StreamPlan, events: EventWriter, changed: asyncio.Event
    ) -> None:
        while True:
            changed.clear()
            while after < (session.last if plan.upto is None else min(plan.upto, session.last)):
                entry = session.entries[after]
                after += 1
                if entry["seq"] in session.lost:
                    last = entry["seq"]
                    while last + 1 in session.lost:
                        last += 1
                    lag = {"type": "lag", "session_id": session.id, "from": entry["seq"], "to": last}
                    after = last
                    await events.send(lag, None)
                else:
                    await events.send(entry, str(entry["seq"]))
                if entry["type"] == "session.closed":
                    return await events.end()
            if plan.upto is not None and after >= plan.upto and plan.then != "live":
                if plan.then == "end":
                    return await events.end()
                if plan.then == "refused":
                    refused = {"type": "session.refused", "session_id": session.id, "reason": "unavailable"}
                    await events.send({**refused, "message": "the session moves to another host"}, None)
                    return await events.end()
                if plan.then == "silent":
                    await asyncio.Event().wait()
            if not await wait_for(changed, self.heartbeat):
                await events.comment()

    async def _changes(self, request: Request, reply: Reply) -> None:
        journal = self.journal
        position = request.headers.get("last-event-id") or request.query.get("after")
        events = EventWriter(reply, StreamPlan())
        await events.begin()
        positions = [each for each, _ in journal.changes]
        at = len(positions)
        if position in positions and positions.index(position) >= journal.forgotten:
            at = positions.index(position) + 1
        elif position is not None and position == f"{journal.boot}-0":
            at = 0
        else:
            if position is not None:
                reason = "too_old" if position in positions else "unknown_position"
                await events.send({"type": "reset", "reason": reason}, None)
            await events.send(journal.snapshot(), positions[-1] if positions else f"{journal.boot}-0")
        changed = asyncio.Event()
        wake = changed.set
        journal.change_listeners.append(wake)
        live = self._live.setdefault("", set())
        live.add(reply)
        try:
            while True:
                changed.clear()
                while at < len(journal.changes):
                    number, change = journal.changes[at]
                    at += 1
                    await events.send(change, number)
                if not await wait_for(changed, self.heartbeat):
                    await events.comment()
        finally:
            live.discard(reply)
            journal.change_listeners.remove(wake)


class EventWriter:
    """Server-Sent Events in chunks, written as a plan says."""

    def __init__(self, reply: Reply, plan: StreamPlan) -> None:
        self._reply, self._plan, self._sent = reply, plan, 0

    async def begin(self) -> None:
        await self._reply.head(200, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"})
        if self._plan.preamble:
            await self._chunk(self._plan.preamble.replace(b"\n", self._plan.newline))

    async def send(self, message: Message, event_id: str | None) -> None:
        lines = [f"id: {event_id}"] if event_id is not None else []
        text = "\n".join([*lines, f"event: {message['type']}", ""]).encode() + b"data: " + encode(message) + b"\n\n"
        if self._plan.rewrite:
            text = self._plan.rewrite(text, message)
        await self.write(text.replace(b"\n", self._plan.newline))

    async def write(self, data: bytes) -> None:
        plan = self._plan
        if plan.cut_at is not None and self._sent + len(data) >= plan.cut_at:
            await self._pieces(data[: plan.cut_at - self._sent])
            await self._cut(plan.cut_how)
        self._sent += len(data)
        await self._pieces(data)

    async def _cut(self, how: str) -> None:
        if how == "end":
            await self.end()
        elif how == "close":
            await self._reply.write(b"fffff\r\n")  # a chunk whose rest never comes
        if how == "abort":
            await asyncio.sleep(0.01)  # a reset would overtake what was written
            self._reply.cut()
        self._reply.writer.close()
        raise ConnectionCut

    async def _pieces(self, data: bytes) -> None:
        step = self._plan.step or len(data) or 1
        ends = list(range(step, len(data), step))
        if self._plan.splits:
            ends = [at + 1 for at, byte in enumerate(data) if byte in self._plan.splits]
        for begin, end in zip([0, *ends], [*ends, len(data)], strict=True):
            await self._chunk(data[begin:end])
            if self._plan.pause:
                await asyncio.sleep(self._plan.pause)

    async def _chunk(self, data: bytes) -> None:
        if not data:
            return
        await self._reply.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def comment(self) -> None:
        await self._chunk(b":" + 2 * self._plan.newline)

    async def end(self) -> None:
        await self._reply.write(b"0\r\n\r\n")
        self._reply.keep_alive = True


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def history_page(session: Session, query: dict[str, str]) -> Message:
    limit = int(query.get("limit") or 1000)
    if before := query.get("before"):
        end = session.last if before == "end" else int(before) - 1
        begin = max(0, end - limit)
    else:
        begin = int(query.get("from") or 1) - 1
        end = min(session.last, begin + limit)
    lost = sorted(seq for seq in session.lost if begin < seq <= end)
    return {
        "entries": [entry for entry in session.entries[begin:end] if entry["seq"] not in session.lost],
        "lost": [{"from": seq, "to": seq} for seq in lost],
        "previous": begin + 1 if begin else None,
        "next": end + 1 if end < session.last else None,
        "last": session.last,
    }


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    line, *fields = head[:-4].split("\r\n")
    method, target, _ = line.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (each.partition(":") for each in fields)}
    body = b""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        parts = []
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            parts.append((await reader.readexactly(size + 2))[:-2])
        await reader.readuntil(b"\r\n")
        body = b"".join(parts)
    elif length := min(int(headers.get("content-length") or 0), MAX_BODY):
        body = await reader.readexactly(length)
    return Request(method, target, headers, body, asyncio.get_running_loop().time())
