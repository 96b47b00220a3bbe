"""A small honest client of the daemon, by which the judge is judged. `Behaviour` has its mutants."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import random
import struct
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

Message = dict[str, Any]
AGREED = {"protocol": 1, "extensions": ["turns", "events", "questions", "control", "options", "journal"]}
LONGEST_LINE = 16 * 1024 * 1024 + 256 * 1024
PIECE = 65536


@dataclass
class Behaviour:
    """What the client does. Each mutant changes one member."""

    reconnects: bool = True
    gives_up_after: int = 1000  # attempts of a request
    grows_pauses: bool = True
    permanent: Callable[[int], bool] = lambda status: 400 <= status < 500 and status not in (408, 425, 429)
    raises_at_once: bool = True  # False: permanent failures of streams are retried
    honours_retry_after: bool = True
    keeps_key: bool = True  # False: each attempt has another key
    sends_key: bool = True
    repeats: bool = True  # False: a request that is lost is not repeated
    skips_known: bool = True
    reads_gaps: bool = True
    reports_lag: bool = True
    resumes: bool = True  # False: a stream begins again at the first entry
    attaches_behind: bool = True
    sends_epoch: bool = True
    separates_messages: bool = True
    decodes_whole_lines: bool = True
    accepts_carriage_return: bool = True
    ends_lines_only_at_lf: bool = True
    joins_line_ends: bool = True
    repeats_questions: bool = True
    joins_data: bool = True
    skips_unknown_types: bool = True
    skips_bom: bool = True
    skips_noise: bool = True
    watches_silence: bool = True
    counts_heartbeats: bool = True
    max_line: int = LONGEST_LINE
    max_body: int = 64 * 1024 * 1024
    max_head: int = 65536
    accepts_gzip: bool = False
    bounds_gzip: bool = True
    follows_redirects: bool = False
    token_in_url: bool = False
    token_in_errors: bool = False
    ends_callbacks: bool = True
    names_decider: bool = True
    reports_refused_answers: bool = True
    repeats_refused_answers: bool = False
    asks_again: bool = False  # after a cut
    asks_decided: bool = False
    decides_by_itself: bool = False
    approves_always: bool = False
    leaves: bool = True
    follows_closed: bool = False
    checks_files: bool = True
    checks_length: bool = True
    tries_next_address: bool = True
    moves_on: bool = True  # to the next address after a failure
    resumes_changes: bool = True
    reports_reset: bool = True
    withdraws: bool = True
    sends_files: bool = True
    reports_failed_turns: bool = True
    ends_refused_turns: bool = True
    sends_while_running: bool = True
    stops: bool = True
    reports_ends: bool = True
    ends_once: bool = True
    new_message_ids: bool = True
    network_is_temporary: bool = True
    buffers_lines: bool = True
    skips_other_fields: bool = True
    reports_snapshots: bool = True
    passes_range: bool = True
    names_lost: bool = True
    reads_files_whole: bool = True
    returns_after_unavailable: bool = True
    joins_frames: bool = True
    splits_messages: bool = True
    steers: bool = True
    pages: bool = True
    restarts_for_status_2: bool = False
    sends_again_on_pipes: bool = True


class ClientFailure(Exception):
    """What the client raises. `permanent`: to repeat is pointless."""

    def __init__(self, message: str, *, permanent: bool, status: int | None = None, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.permanent, self.status, self.retry_after = permanent, status, retry_after


class Answer:
    """An answer of HTTP whose body is still to be read."""

    def __init__(self, client: Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._client, self._reader, self.writer = client, reader, writer
        self.status, self.headers = 0, dict[str, str]()

    async def begin(self) -> None:
        head = (await self._until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        self.status = int(head[0].split(" ")[1])
        for line in head[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()

    async def whole(self) -> bytes:
        behaviour = self._client.behaviour
        unpack = zlib.decompressobj(31) if self.headers.get("content-encoding") == "gzip" else None
        body = bytearray()
        try:
            async for piece in self.pieces():
                if unpack and behaviour.bounds_gzip:
                    body += unpack.decompress(piece, behaviour.max_body)
                else:
                    body += unpack.decompress(piece) if unpack else piece
                if len(body) > behaviour.max_body or (unpack and unpack.unconsumed_tail):
                    raise ClientFailure("the answer is too long", permanent=True)
        except OSError:
            if behaviour.checks_length:
                raise
        return bytes(body)

    async def pieces(self) -> AsyncIterator[bytes]:
        if self.status == 204:
            return
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while left := int((await self._until(b"\r\n")).split(b";")[0], 16):
                async for piece in self._exactly(left):
                    yield piece
                await self._until(b"\r\n")
        else:
            async for piece in self._exactly(int(self.headers.get("content-length") or 0)):
                yield piece

    async def _exactly(self, left: int) -> AsyncIterator[bytes]:
        while left > 0:
            piece = await self._read(self._reader.read(min(left, PIECE)))
            if not piece:
                raise ConnectionError("the answer ended early")
            left -= len(piece)
            yield piece

    async def _until(self, end: bytes) -> bytes:
        try:
            return (await self._read(self._reader.readuntil(end)))[: -len(end)]
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise ConnectionError("the answer ended early, or its head is too long") from error

    async def _read(self, reading: Any) -> bytes:
        if not self._client.behaviour.watches_silence:
            return await reading
        try:
            async with asyncio.timeout(self._client.silence):
                return await reading
        except TimeoutError as error:
            raise ConnectionError("the daemon is silent") from error


class Turn:
    """An input of this client."""

    def __init__(self, session: Session, name: str, content: str) -> None:
        self.session, self.name, self.content = session, name, content
        new_ids = session.behaviour.new_message_ids
        self.message_id, self.id = str(uuid.uuid4()) if new_ids else f"m of {session.id}", ""
        self.files: list[Message] = []
        self.text, self.last_message = "", None
        self.begun = asyncio.Event()
        self.is_over = False


class Session:
    """A session that the client follows."""

    def __init__(self, behaviour: Behaviour, session_id: str, after: int, role: str, is_new: bool) -> None:
        self.behaviour = behaviour
        self.id, self.last, self.role, self.is_new = session_id, after, role, is_new
        self.epoch: int | None = None
        self.turns: dict[str, Turn] = {}
        self.pending: dict[str, Message] = {}  # messages on a pipe that no entry has settled, by id
        self.steers: dict[str, asyncio.Future[bool]] = {}
        self.callbacks: dict[str, asyncio.Future[Message]] = {}
        self.known: dict[str, Message] = {}  # requests that were asked
        self.there = 0  # the last entry at the time of the attach
        self.waiting: set[str] = set()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_over = self.is_live = False
        self.files: dict[int, Message] = {}


class Client:
    """A client over HTTP with Server-Sent Events, or over a pipe. `report` gets what it observes."""

    def __init__(self, behaviour: Behaviour, report: Callable[[Message], None]) -> None:
        self.behaviour, self.report = behaviour, report
        self.sessions: dict[str, Session] = {}
        self.turns: dict[str, Turn] = {}
        self.silence, self.retry = 60.0, 60.0
        self.urls: list[str] = []
        self.token, self.at, self.requests = "", 0, "callback"
        self.pipe: Any = None
        self.tasks: set[asyncio.Task[Any]] = set()
        self.is_left = False

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def pause(self, tries: int, at_least: float = 0.0) -> None:
        growing = 0.04 * 2 ** min(tries, 6) if self.behaviour.grows_pauses else 0.001
        seconds = growing * random.uniform(0.5, 1)
        await asyncio.sleep(max(seconds, at_least if self.behaviour.honours_retry_after else 0))

    # Requests.

    async def fetch(self, method: str, path: str, data: bytes = b"", headers: Message | None = None) -> Answer:
        """One attempt. Raises ClientFailure for a status of an error, and OSError."""
        url = urlsplit(self.urls[self.at % len(self.urls)])
        return await self._fetch_at(url.hostname or "", url.port or 80, method, path, data, headers or {})

    async def _fetch_at(self, host: str, port: int, method: str, path: str, data: bytes, headers: Message) -> Answer:
        if self.behaviour.token_in_url:
            path += f"{'&' if '?' in path else '?'}token={self.token}"
        reader, writer = await asyncio.open_connection(host, port, limit=self.behaviour.max_head)
        answer = Answer(self, reader, writer)
        try:
            lines = [f"{method} {path} HTTP/1.1", f"Host: {host}:{port}", "Connection: close"]
            lines += [f"Authorization: Bearer {self.token}", f"Content-Length: {len(data)}"]
            lines += [f"Accept-Encoding: {'gzip' if self.behaviour.accepts_gzip else 'identity'}"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + data)
            await writer.drain()
            await answer.begin()
            if 300 <= answer.status < 400 and self.behaviour.follows_redirects:
                to = urlsplit(answer.headers["location"])
                target = f"{to.path}?{to.query}" if to.query else to.path
                return await self._fetch_at(to.hostname or "", to.port or 80, method, target, data, headers)
            if answer.status >= 300:
                await self._raise(answer)
        except BaseException:
            writer.close()
            raise
        return answer

    async def _raise(self, answer: Answer) -> None:
        problem: Message = {}
        with contextlib.suppress(ValueError, OSError):
            problem = json.loads(await answer.whole())
        is_permanent = self.behaviour.permanent(answer.status) or answer.status < 400
        detail = str(problem.get("detail") or answer.status)
        if self.behaviour.token_in_errors:
            detail += f" (for {self.token})"
        after = answer.headers.get("retry-after", "")
        seconds = float(after) if after.isdecimal() else 0.0
        raise ClientFailure(detail, permanent=is_permanent, status=answer.status, retry_after=seconds)

    async def ask(self, method: str, path: str, body: Any = None, key: str | None = None, raw: bytes | None = None) -> Any:
        """An answer in JSON, or in bytes for a file. Temporary failures are retried."""
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        until, tries = time.monotonic() + self.retry, 0
        while True:
            headers = {}
            if key and (self.behaviour.sends_key or path.endswith("/inputs")):
                headers["Idempotency-Key"] = key if self.behaviour.keeps_key or not tries else str(uuid.uuid4())
            try:
                answer = await self.fetch(method, path, data, headers)
                try:
                    body_read = await answer.whole()
                finally:
                    answer.writer.close()
                if answer.headers.get("content-type", "").startswith("application/json") and "/files/" not in path:
                    return self._read_json(body_read)
                return body_read
            except ClientFailure as failed:
                failure = failed
            except (OSError, ValueError) as error:
                is_permanent = not self.behaviour.network_is_temporary
                failure = ClientFailure(f"the daemon is not reached: {error}", permanent=is_permanent)
            tries += 1
            if failure.permanent and not (self.behaviour.repeats_refused_answers and "/requests/" in path and tries < 4):
                raise failure
            if time.monotonic() > until or not self.behaviour.repeats or tries > self.behaviour.gives_up_after:
                raise failure
            if self.behaviour.moves_on:
                self.at += 1
            await self.pause(tries, failure.retry_after)

    def _read_json(self, body: bytes) -> Any:
        try:
            return json.loads(body) if body else {}
        except ValueError:
            if self.behaviour.checks_length:
                raise
            return {}

    # The client's calls.

    async def connect(self, how: Message) -> list[str]:
        limits = how.get("limits") or {}
        self.silence = limits.get("silence", 60000) / 1000
        self.retry = limits.get("retry", 60000) / 1000
        self.requests = how.get("requests") or "callback"
        if how["transport"] == "http":
            self.urls = list(how.get("urls") or [how["url"]])
            if not self.behaviour.tries_next_address:
                self.urls = self.urls[:1]
            self.token = how["token"]
            await self.ask("GET", "/v1/me")
        else:
            self.pipe = PipeLink(self, how)
            await self.pipe.begin()
        return list(limits)

    async def open(self, agent: str | None = None, options: Message | None = None) -> Session:
        if self.pipe:
            session = Session(self.behaviour, str(uuid.uuid4()), 0, "control", True)
        else:
            body = {"options": options or {}, **({"agent": agent} if agent else {})}
            opened = await self.ask("POST", "/v1/sessions", body, str(uuid.uuid4()))
            session = Session(self.behaviour, opened["id"], 0, "control", False)
        return await self._enter(session)

    async def attach(self, session_id: str, after: int, role: str = "control") -> Session:
        after = after if self.behaviour.attaches_behind else 0
        return await self._enter(Session(self.behaviour, session_id, after, role, False))

    async def _enter(self, session: Session) -> Session:
        self.sessions[session.id] = session
        if self.pipe:
            await self.pipe.enter(session)
        else:
            self.spawn(self._follow(session))
        try:
            await session.ready
        except ClientFailure:
            self.sessions.pop(session.id, None)
            raise
        return session

    async def send(self, session_id: str, name: str, text: str, files: list[str]) -> None:
        session = self.sessions[session_id]
        turn = self.turns[name] = Turn(session, name, text)
        session.turns[turn.message_id] = turn
        self.spawn(self._send(session, turn, files))

    async def _send(self, session: Session, turn: Turn, files: list[str]) -> None:
        body: Message = {"content": turn.content}
        while not self.behaviour.sends_while_running and any(not each.is_over for each in session.turns.values() if each is not turn):
            await asyncio.sleep(0.05)
        try:
            if files and self.behaviour.sends_files:
                body["files"] = [{"sha256": await self.put_file(session.id, each)} for each in files]
            if self.pipe and not files:
                message = {"type": "user.input", "turn_id": str(uuid.uuid4()), "message_id": turn.message_id}
                await self.pipe.say(session, turn.message_id, {**message, "content": turn.content})
            else:
                await self.ask("POST", f"{_path(session.id)}/inputs", body, turn.message_id)
        except ClientFailure as failure:
            if self.behaviour.ends_refused_turns:
                self._end_turn(session, turn, error=failure)

    async def put_file(self, session_id: str, path: str) -> str:
        with open(path, "rb") as file:
            data = file.read()
        name = quote(os.path.basename(path), safe="")
        return (await self.ask("PUT", f"{_path(session_id)}/files?name={name}", raw=data))["sha256"]

    async def get_file(self, session_id: str, seq: int) -> bytes:
        entry = self.sessions[session_id].files[seq]
        data = await self.ask("GET", f"{_path(session_id)}/files/{entry['sha256']}")
        data = data if self.behaviour.reads_files_whole else data[:-1]
        if self.behaviour.checks_files and hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise ClientFailure("the file is not the one that was announced", permanent=True)
        return data

    async def steer(self, name: str, text: str) -> bool:
        turn = self.turns[name]
        session, key = turn.session, str(uuid.uuid4())
        said = session.steers[key] = asyncio.get_running_loop().create_future()
        if not self.behaviour.steers:
            return False
        if self.pipe:
            message = {"type": "user.input", "mode": "steer", "message_id": key, "turn_id": turn.id, "content": text}
            await self.pipe.say(session, key, message)
        else:
            await self.ask("POST", f"{_path(session.id)}/inputs", {"content": text, "steer": turn.id}, key)
        return await said

    async def stop(self, session_id: str, name: str | None) -> None:
        turn_id = self.turns[name].id if name else None
        session = self.sessions[session_id or self.turns[name].session.id]  # type: ignore[index]
        named = {"turn_id": turn_id} if turn_id else {}
        if not self.behaviour.stops:
            return
        if not self.behaviour.withdraws and len([each for each in session.turns.values() if not each.is_over]) > 1:
            return
        if self.pipe:
            return await self.pipe.say(session, f"stop {turn_id}", {"type": "stop", **named})
        await self.ask("POST", f"{_path(session.id)}/stop", named, str(uuid.uuid4()))

    async def answer(self, session_id: str, request: str, answer: Message) -> None:
        session = self.sessions[session_id]
        if self.behaviour.approves_always and "approved" in answer:
            answer = {**answer, "approved": True}
        if self.pipe:
            if request not in session.known:
                raise ClientFailure("the request is not open", permanent=True, status=409)
            kind = "permission.response" if "approved" in answer else "input.response"
            return await self.pipe.say(session, f"answer {request}", {"type": kind, "request_id": request, **answer})
        await self.ask("POST", f"{_path(session_id)}/requests/{quote(request, safe='')}", answer, str(uuid.uuid4()))

    def decide(self, session_id: str, request: str, answer: Message) -> bool:
        """Has the callback of a request return. Returns False if there is none."""
        callback = self.sessions[session_id].callbacks.get(request)
        if callback is None or callback.done():
            return False
        callback.set_result(answer)
        return True

    async def history(self, session_id: str, query: Message) -> Message:
        query = query if self.behaviour.passes_range else {}
        if self.pipe:
            span = {"from": query.get("from", 1)}
            if "limit" in query:
                span["to"] = span["from"] + query["limit"] - 1
            found = await self.pipe.request({"type": "session.history", "session_id": session_id, **span})
            entries = found.get("entries") or []
            end = span.get("to") or (entries[-1]["seq"] if entries else 0)
            page = {"entries": entries, "lost": found.get("lost"), "next": found.get("next") or end + 1}
        else:
            page = await self.ask("GET", f"{_path(session_id)}/history?{urlencode(query)}")
        return page if self.behaviour.names_lost else {**page, "lost": []}

    async def list_sessions(self, query: Message) -> Message:
        if not self.behaviour.pages:
            query.pop("cursor", None)
        if self.pipe:
            return await self.pipe.request({"type": "sessions.list", "session_id": "", **query, "extensions": ["journal"]})
        return await self.ask("GET", f"/v1/sessions?{urlencode(query)}")

    async def close(self, session_id: str) -> None:
        if self.pipe:
            return await self.pipe.say(self.sessions[session_id], "close", {"type": "session.close"})
        await self.ask("DELETE", _path(session_id))

    async def leave(self) -> None:
        self.is_left = True
        for task in list(self.tasks):
            if task is not asyncio.current_task():
                task.cancel()
        if self.pipe:
            await self.pipe.hang_up()

    # Streams over HTTP.

    async def _follow(self, session: Session) -> None:
        tries = 0
        while not session.is_over:
            before, after_failure = session.last, 0.0
            try:
                await self._read_stream(session)
            except ClientFailure as failure:
                if failure.permanent and self.behaviour.raises_at_once:
                    return self._end(session, failure)
                after_failure = failure.retry_after
            except (OSError, ValueError, EOFError):
                pass
            if session.is_over or not self.behaviour.reconnects:
                return
            if self.behaviour.moves_on:
                self.at += 1
            tries = 0 if session.last > before else tries + 1
            await self.pause(tries, after_failure)

    async def _read_stream(self, session: Session) -> None:
        state = await self.fetch("GET", _path(session.id))
        told = json.loads(await state.whole())
        state.writer.close()
        session.there, session.waiting = told["last_seq"], set(told["requests"])
        after = session.last if self.behaviour.resumes else 0
        epoch = f"&epoch={session.epoch}" if session.epoch is not None and self.behaviour.sends_epoch else ""
        answer = await self.fetch("GET", f"{_path(session.id)}/events?after={after}{epoch}")
        try:
            if not session.ready.done():
                session.ready.set_result(None)
            if answer.status == 204:
                return self._end(session, None)
            async for event in self._events(answer):
                if event.get("type") == "session.refused":
                    if not self.behaviour.returns_after_unavailable:
                        self._end(session, ClientFailure(str(event.get("message")), permanent=True))
                    return
                if not await self.take(session, event):
                    return
                if session.is_over:
                    return
        finally:
            answer.writer.close()

    async def _events(self, answer: Answer, with_ids: bool = False) -> AsyncIterator[Message]:
        """The events of a stream, as the HTML standard has it."""
        behaviour, rest, data, event_id, size, is_first = self.behaviour, bytearray(), list[bytes](), b"", 0, True
        async for piece in answer.pieces():
            if not behaviour.counts_heartbeats and piece.strip() == b":":
                raise ConnectionError("a heartbeat is no event")
            if not behaviour.decodes_whole_lines:
                piece = piece.decode(errors="replace").encode()
            if not behaviour.buffers_lines:
                rest.clear()
            if rest.endswith(b"\r") and not behaviour.joins_line_ends:
                rest += b"\n"
            rest += piece
            if len(rest) > behaviour.max_line:
                raise ClientFailure("an event is too long", permanent=True)
            if b"\n" not in piece:
                continue
            if behaviour.ends_lines_only_at_lf:
                *lines, last = rest.split(b"\n")
            else:
                text = rest.decode(errors="ignore").splitlines(keepends=True)
                *lines, last = [*(each.rstrip("\n\u2028\u2029\x85\x0b\x0c\r").encode() for each in text), b""]
            rest = bytearray(last)
            for line in lines:
                line = bytes(line)
                if is_first and behaviour.skips_bom:  # in front of the first line only
                    line = line.removeprefix(b"\xef\xbb\xbf")
                is_first = False
                if behaviour.accepts_carriage_return:
                    line = line.removesuffix(b"\r")
                name, _, value = line.partition(b":")
                value = value.removeprefix(b" ")
                if name == b"id":
                    event_id = value
                elif name == b"data":
                    data = [*data, value] if behaviour.joins_data else [value]
                    size += len(value)
                    if size > behaviour.max_line:
                        raise ClientFailure("an event is too long", permanent=True)
                elif name not in (b"event", b"retry", b"") and not behaviour.skips_other_fields:
                    raise ClientFailure(f"the field {name!r} is not known", permanent=True)
                elif not line and data:
                    message = self._parse(b"\n".join(data))
                    data, size = [], 0
                    if message is not None:
                        yield {**message, "_id": event_id.decode()} if with_ids else message

    def _parse(self, line: bytes) -> Message | None:
        try:
            message = json.loads(line)
        except ValueError:
            if not self.behaviour.skips_noise:
                raise
            return None
        return message if isinstance(message, dict) else None

    async def follow_changes(self) -> None:
        """Reports the stream over all sessions."""
        position, tries = "", 0
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def follow() -> None:
            nonlocal position, tries
            while True:
                after = f"?after={quote(position)}" if position and self.behaviour.resumes_changes else ""
                try:
                    answer = await self.fetch("GET", f"/v1/events{after}")
                    if not first.done():
                        first.set_result(None)
                    async for event in self._events(answer, with_ids=True):
                        position, tries = event.pop("_id") or position, 0
                        is_hidden = {"reset": not self.behaviour.reports_reset, "snapshot": not self.behaviour.reports_snapshots}
                        if not is_hidden.get(event.get("type") or ""):
                            self.report({"event": "change", "change": event})
                except ClientFailure as failure:
                    if failure.permanent and self.behaviour.raises_at_once:
                        if not first.done():
                            return first.set_exception(failure)
                        return self.report({"event": "changes.ended", "error": as_error(failure)})
                except (OSError, ValueError):
                    pass
                if not self.behaviour.reconnects:
                    return
                tries += 1
                await self.pause(tries)

        self.spawn(follow())
        await first

    # What comes in a session.

    async def take(self, session: Session, entry: Message) -> bool:
        """Takes a message of a session. Returns False if an entry before it is missing."""
        kind, seq, behaviour = entry.get("type"), entry.get("seq"), self.behaviour
        if kind == "lag":
            session.last = max(session.last, entry["to"])
            if behaviour.reports_lag:
                self.report({"event": "lag", "session": session.id, "from": entry["from"], "to": entry["to"]})
            return True
        if not isinstance(seq, int):
            return True
        if seq <= session.last and behaviour.skips_known:
            return True
        if seq > session.last + 1 and behaviour.reads_gaps:
            return False
        if not behaviour.skips_unknown_types and kind in ("hologram", "weather"):
            raise ClientFailure(f"the type {kind} is not known", permanent=True)
        session.last, session.epoch = max(seq, session.last), entry.get("epoch")
        self.report({"event": "entry", "session": session.id, "entry": entry})
        self._note(session, entry)
        return True

    def _note(self, session: Session, entry: Message) -> None:
        kind, message_id, behaviour = entry["type"], entry.get("message_id"), self.behaviour
        if kind == "file.output":
            session.files[entry["seq"]] = entry
        if kind == "turn.begin" and (turn := session.turns.get(message_id or "")):
            turn.id = entry["turn_id"]
            turn.begun.set()
            session.pending.pop(message_id or "", None)
        elif kind == "input.steered":
            session.pending.pop(message_id or "", None)
        elif kind == "steer.result" and (said := session.steers.pop(message_id or "", None)):
            session.pending.pop(message_id or "", None)
            if not said.done():
                said.set_result(entry.get("delivered") is True)
        elif kind == "output" and (turn := self._turn(session, entry)):
            is_next = None not in (turn.last_message, message_id) and message_id != turn.last_message
            turn.text += ("\n\n" if is_next and behaviour.separates_messages else "") + entry["content"]
            turn.last_message = message_id or turn.last_message
        elif kind == "stop.requested":
            session.pending.pop(f"stop {entry.get('turn_id')}", None)
        elif kind == "turn.complete" and (turn := self._turn(session, entry)):
            self._end_turn(session, turn, entry)
        elif kind in ("permission.request", "input.request"):
            self._begin_callback(session, entry)
        elif kind == "request.decided":
            self._settle(session, entry)
        elif kind == "session.closed":
            self._end(session, None)

    def _turn(self, session: Session, entry: Message) -> Turn | None:
        turn_id = entry.get("turn_id")
        return next((each for each in session.turns.values() if each.id == turn_id), None)

    def _end_turn(self, session: Session, turn: Turn, end: Message | None = None, error: ClientFailure | None = None) -> None:
        if turn.is_over and self.behaviour.ends_once or not self.behaviour.reports_ends:
            return
        turn.is_over = True
        session.pending.pop(turn.message_id, None)
        session.pending.pop(f"stop {turn.id}", None)
        event: Message = {"event": "turn", "turn": turn.name}
        if end:
            event |= {"status": end["status"] if self.behaviour.reports_failed_turns else "completed", "text": turn.text}
            if category := (end.get("error") or {}).get("category"):
                event["category"] = category
        if error:
            event |= {"error": as_error(error)}
        self.report(event)

    def _begin_callback(self, session: Session, entry: Message) -> None:
        request, behaviour = entry["request_id"], self.behaviour
        session.known[request] = entry
        is_open = entry["seq"] > session.there or request in session.waiting
        if self.requests == "leave" and behaviour.leaves or session.role == "observe":
            return
        if is_open or behaviour.asks_decided:
            self.spawn(self._callback(session, entry))

    async def _callback(self, session: Session, entry: Message) -> None:
        request = entry["request_id"]
        kind = "permission" if entry["type"] == "permission.request" else "question"
        waiting = session.callbacks[request] = asyncio.get_running_loop().create_future()
        self.report({"event": "asked", "session": session.id, "request": request, "kind": kind})
        if self.behaviour.decides_by_itself:
            waiting.set_result({"approved": False})
        try:
            answer = await waiting
        except asyncio.CancelledError:
            return
        try:
            await self.answer(session.id, request, answer)
        except ClientFailure as failure:
            if self.behaviour.reports_refused_answers:
                self.report(
                    {"event": "answer.refused", "session": session.id, "request": request, "error": as_error(failure)}
                )

    def ask_again(self, session: Session) -> None:
        """Begins the callbacks that wait once more, as only a mutant does."""
        for request in list(session.callbacks):
            if not session.callbacks[request].done() and self.behaviour.asks_again:
                self.spawn(self._callback(session, session.known[request]))

    def _settle(self, session: Session, entry: Message) -> None:
        request = entry["request_id"]
        session.known.pop(request, None)
        session.pending.pop(f"answer {request}", None)
        waiting = session.callbacks.pop(request, None)
        if waiting is None or waiting.done() or not self.behaviour.ends_callbacks:
            return
        waiting.cancel()
        because = "withdrawn" if entry.get("reason") or entry.get("cancelled") else "decided"
        told = {name: entry[name] for name in ("by", "name", "approved") if name in entry and self.behaviour.names_decider}
        self.report({"event": "asked.end", "session": session.id, "request": request, "because": because, **told})

    def _end(self, session: Session, why: ClientFailure | None) -> None:
        if session.is_over:
            return
        session.is_over = not (self.behaviour.follows_closed and why is None)
        if not session.ready.done():
            if why:
                return session.ready.set_exception(why)
            session.ready.set_result(None)
        self.report({"event": "ended", "session": session.id, **({"error": as_error(why)} if why else {})})
        for turn in session.turns.values():
            if not turn.is_over:
                self._end_turn(session, turn, error=why or ClientFailure("the session is closed", permanent=True))


def as_error(failure: ClientFailure) -> Message:
    error: Message = {"class": "permanent" if failure.permanent else "temporary", "message": str(failure)}
    return {**error, "status": failure.status} if failure.status else error


def _path(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}"


# Pipes.


class LineStreams:
    """Lines over two streams, of a socket or of a command."""

    def __init__(self, client: Client, reader: asyncio.StreamReader, writer: Any, process: Any = None) -> None:
        self._client, self._reader, self._writer, self._process = client, reader, writer, process

    async def write(self, line: bytes) -> None:
        self._writer.write(line + b"\n")
        await self._writer.drain()

    async def read(self) -> list[bytes]:
        if not self._client.behaviour.buffers_lines:
            return (await self._reader.read(65536) or self._fail()).split(b"\n")
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("the pipe has ended") from error
        except asyncio.LimitOverrunError as error:
            raise ConnectionError("a line is too long") from error
        return [line]

    @staticmethod
    def _fail() -> bytes:
        raise ConnectionError("the pipe has ended")

    async def close(self) -> int | None:
        """Ends the pipe. Returns the status of a command that has ended by itself."""
        self._writer.close()
        if self._process is None:
            return None
        try:
            async with asyncio.timeout(2):
                return await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            return None


class WebSocketLines:
    """Lines in the messages of a WebSocket."""

    def __init__(self, client: Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._client, self._reader, self._writer = client, reader, writer

    async def write(self, line: bytes) -> None:
        self._frame(1, line)
        await self._writer.drain()

    def _frame(self, kind: int, data: bytes) -> None:
        size, mask = len(data), os.urandom(4)
        length = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack(">H", size) if size < 65536 else b"\xff" + struct.pack(">Q", size)
        key = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big") if size else b""
        self._writer.write(bytes([0x80 | kind]) + length + mask + masked)

    async def read(self) -> list[bytes]:
        parts, total = [], 0
        while True:
            try:
                first, second = await self._reader.readexactly(2)
                size = second & 127
                if size > 125:
                    size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8), "big")
                if (total := total + size) > self._client.behaviour.max_line:
                    raise ConnectionError("a message is too long")
                data = await self._reader.readexactly(size)
            except asyncio.IncompleteReadError as error:
                raise ConnectionError("the WebSocket has ended") from error
            kind = first & 15
            if kind == 8:
                raise ConnectionError("the WebSocket was closed")
            if kind == 9:
                self._frame(10, data)
            elif kind in (0, 1, 2):
                parts.append(data)
                if first & 128 or not self._client.behaviour.joins_frames:
                    whole = b"".join(parts)
                    return whole.split(b"\n") if self._client.behaviour.splits_messages else [whole]

    async def close(self) -> None:
        self._writer.close()


class PipeLink:
    """The sessions of a client over one pipe, which is opened again when it is lost."""

    def __init__(self, client: Client, how: Message) -> None:
        self.client, self.how = client, how
        self.lines: Any = None
        self.asked: dict[str, tuple[Message, asyncio.Future[Message]]] = {}
        self.failure: ClientFailure | None = None  # why there is no further pipe
        self.at = 0

    async def begin(self) -> None:
        until, tries = time.monotonic() + self.client.retry, 0
        while True:
            try:
                await self.dial()
                break
            except ClientFailure:
                raise
            except OSError as error:
                if time.monotonic() > until:
                    raise ClientFailure(str(error), permanent=False) from error
            tries += 1
            await self.client.pause(tries)
        self.client.spawn(self.run())

    async def dial(self) -> None:
        how, limit = self.how, self.client.behaviour.max_line
        if how["transport"] == "socket":
            self.lines = LineStreams(self.client, *await asyncio.open_unix_connection(how["path"], limit=limit))
        elif how["transport"] == "command":
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*how["command"], stdin=pipe, stdout=pipe, limit=limit)
            self.lines = LineStreams(self.client, process.stdout, process.stdin, process)  # type: ignore[arg-type]
        else:
            await self.dial_websocket()

    async def dial_websocket(self) -> None:
        urls = list(self.how.get("urls") or [self.how["url"]])
        if not self.client.behaviour.tries_next_address:
            urls = urls[:1]
        url = urlsplit(urls[self.at % len(urls)])
        self.at += 1
        self.client.urls, self.client.token = [url.geturl()], self.how["token"]
        behaviour = self.client.behaviour
        reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=behaviour.max_line)
        query = f"?token={self.how['token']}" if behaviour.token_in_url else ""
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(
            f"GET /v1/pipe{query} HTTP/1.1\r\nHost: {url.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer {self.how['token']}\r\n\r\n".encode()
        )
        answer = Answer(self.client, reader, writer)
        await answer.begin()
        if answer.status != 101:
            try:
                await self.client._raise(answer)
            finally:
                writer.close()
        self.lines = WebSocketLines(self.client, reader, writer)

    async def write(self, message: Message) -> None:
        if self.lines:
            with contextlib.suppress(OSError):
                await self.lines.write(json.dumps(message).encode())

    async def enter(self, session: Session) -> None:
        if self.failure:
            raise self.failure
        session.is_live = False
        said = {"session_id": session.id, **AGREED}
        if session.is_new and session.last == 0:
            return await self.write({"type": "session.start", **said})
        after = session.last if self.client.behaviour.resumes else 0
        epoch = {"epoch": session.epoch} if session.epoch is not None and self.client.behaviour.sends_epoch else {}
        await self.write({"type": "session.attach", **said, "after": after, "role": session.role, **epoch})

    async def say(self, session: Session, key: str, message: Message) -> None:
        """Sends a message, again on the next pipe until an entry has settled it."""
        session.pending[key] = {**message, "session_id": session.id}
        if session.is_live:
            await self.write(session.pending[key])

    async def request(self, message: Message) -> Message:
        key = str(uuid.uuid4())
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.asked[key] = ({**message, "request_id": key}, answer)
        await self.write(self.asked[key][0])
        return await answer

    async def run(self) -> None:
        tries, client = 0, self.client
        while True:
            before = [each.last for each in client.sessions.values()]
            with contextlib.suppress(OSError, EOFError):
                while True:
                    for line in await self.lines.read():
                        if message := client._parse(line):
                            await self.hear(message)
            status = await self.lines.close()
            self.lines = None
            if client.is_left or not client.behaviour.reconnects:
                return
            try:
                if status == 2 and not client.behaviour.restarts_for_status_2:
                    raise ClientFailure("the command ended with status 2", permanent=True, status=2)
                wait = 0.0
                tries = 0 if before != [each.last for each in client.sessions.values()] else tries
                while True:
                    tries += 1
                    await client.pause(tries, wait)
                    wait = 0.0
                    try:
                        await self.dial()
                        break
                    except OSError:
                        continue
                    except ClientFailure as failure:
                        if failure.permanent and client.behaviour.raises_at_once:
                            raise
                        wait = failure.retry_after
            except ClientFailure as failure:
                self.failure = failure
                for session in list(client.sessions.values()):
                    client._end(session, failure)
                for _, answer in self.asked.values():
                    answer.set_exception(failure)
                return
            for session in list(client.sessions.values()):
                if not session.is_over:
                    client.ask_again(session)
                    await self.enter(session)
            for message, _ in list(self.asked.values()):
                if client.behaviour.repeats_questions:
                    await self.write(message)

    async def hear(self, message: Message) -> None:
        client, kind = self.client, message.get("type")
        if (asked := self.asked.pop(message.get("request_id") or "", None)) and str(kind).endswith(".result"):
            if message.get("error"):
                return asked[1].set_exception(ClientFailure(message["error"], permanent=True))
            return asked[1].set_result(message)
        session = client.sessions.get(message.get("session_id") or "")
        if session is None or session.is_over:
            return
        if kind == "session.attached":
            session.there, session.waiting = message["last_seq"], set(message.get("requests") or ())
            if message.get("state") == "closed" and session.last == session.there:
                client._end(session, None)
            await self.go_live(session)
        elif kind == "session.ready":
            await self.go_live(session)
        elif kind == "session.refused":
            await self.refused(session, message)
        elif kind == "turn.complete" and "seq" not in message and client.behaviour.ends_refused_turns:
            turn = next((each for each in session.turns.values() if not each.is_over), None)
            if turn:
                client._end_turn(session, turn, message)
        elif kind == "request.decided" and "seq" not in message:
            client._settle(session, message)
        elif not await client.take(session, message):
            await self.enter(session)

    async def go_live(self, session: Session) -> None:
        session.is_live = session.is_new = True
        if not session.ready.done():
            session.ready.set_result(None)
        is_first = not session.last
        for message in list(session.pending.values()):
            if is_first or self.client.behaviour.sends_again_on_pipes:
                await self.write(message)

    async def refused(self, session: Session, message: Message) -> None:
        reason = message.get("reason")
        if reason == "exists" and session.is_new:
            session.is_new = False
            return await self.enter(session)
        comes_again = self.client.behaviour.returns_after_unavailable and reason in ("unavailable", "read_only")
        if comes_again or not self.client.behaviour.raises_at_once:
            session.is_live = False
            await self.client.pause(3)
            return await self.enter(session)
        text = f"{reason}: {message.get('message')}"
        self.client._end(session, ClientFailure(text, permanent=True))

    async def hang_up(self) -> None:
        if self.lines:
            await self.lines.close()
