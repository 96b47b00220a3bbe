"""Sessions of the scripted daemon: their entries, turns and requests, without any transport."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
TIME = "2026-03-01T12:00:00.000Z"
EXTENSIONS = ["turns", "events", "usage", "options", "questions", "control", "resume", "journal"]


def encode(message: Message) -> bytes:
    """One line of the protocol, without its LF."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


class Refusal(Exception):
    """A request that the daemon refuses, with a status of HTTP."""

    def __init__(self, status: int, detail: str, category: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.category = status, detail, category


@dataclass
class Turn:
    """An input of a session and the work on it."""

    id: str
    message_id: str
    content: str
    seq: int
    files: list[str]
    state: str = "queued"
    end: Message | None = None
    steers: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[None] | None = None


class Session:
    """A session of the journal. Entries are numbered from 1, and listeners are called for each."""

    def __init__(self, journal: Journal, session_id: str, agent: str) -> None:
        self.journal, self.id, self.agent = journal, session_id, agent
        self.entries: list[Message] = []
        self.lost: set[int] = set()  # entries that a stream replaces by `lag`
        self.turns: dict[str, Turn] = {}
        self.by_message: dict[str, Message] = {}  # results of inputs and steers
        self.waiting: list[Turn] = []
        self.running: Turn | None = None
        self.requests: dict[str, asyncio.Future[Message]] = {}
        self.decided: dict[str, Message] = {}
        self.files: dict[str, bytes] = {}
        self.title, self.archived, self.closed, self.removed = "", False, False, False
        self.options: Message = {}
        self.listeners: list[Callable[[], None]] = []

    @property
    def last(self) -> int:
        return len(self.entries)

    @property
    def state(self) -> str:
        return "closed" if self.closed else "running" if self.running else "idle"

    def append(self, kind: str, **members: Any) -> Message:
        """Stores an entry and wakes the listeners."""
        entry = {"type": kind, "session_id": self.id, **members}
        entry.update(seq=self.last + 1, epoch=self.journal.epoch, time=TIME)
        self.entries.append(entry)
        self.journal.note_change(self, entry)
        for wake in list(self.listeners):
            wake()
        return entry

    def output(self, turn: Turn, text: str, **members: Any) -> Message:
        return self.append("output", turn_id=turn.id, content=text, **members)

    def attached(self, listener: str, role: str = "control") -> Message:
        """The members of `session.attached`."""
        told: Message = {"agent_id": self.agent, "state": self.state, "role": role, "listener": listener}
        if self.running:
            told["turn_id"] = self.running.id
        told["queued"] = [turn.id for turn in self.waiting]
        told["requests"] = list(self.requests)
        told.update(first_seq=1, last_seq=self.last, epoch=self.journal.epoch, title=self.title)
        return told

    def listed(self) -> Message:
        """The session in a list, by the names of HTTP."""
        return {
            "id": self.id, "agent": self.agent, "title": self.title, "state": self.state, "created": TIME,
            "active": TIME, "entries": self.last, "bytes": 100, "open_turns": int(self.running is not None),
            "open_requests": len(self.requests), **({"archived": True} if self.archived else {}),
        }  # fmt: skip

    # Inputs.

    def submit(self, content: str, message_id: str, turn_id: str | None, by: str, files: list[str]) -> Message:
        """Takes an input once, and returns the members of `input.result`."""
        if earlier := self.by_message.get(message_id):
            if earlier["content"] != content or earlier["files"] != files:
                raise Refusal(409, "another input has this message id", "protocol")
            return {**earlier["result"], "duplicate": True}
        if self.closed:
            raise Refusal(409, "the session is closed")
        if self.journal.refuses:
            raise Refusal(422, "a limit is not enforced", "protocol")
        if turn_id is None or turn_id in self.turns:
            turn_id = self.journal.new_id("t")
        queued = self.running is not None
        named = {"files": files} if files else {}
        entry = self.append(
            "turn.begin", turn_id=turn_id, message_id=message_id, content=content, queued=queued, by=by, **named
        )
        turn = self.turns[turn_id] = Turn(turn_id, message_id, content, entry["seq"], files)
        result = {"turn_id": turn_id, "message_id": message_id, "seq": entry["seq"]}
        self.by_message[message_id] = {"content": content, "files": files, "result": result}
        self.title = self.title or content[:80]
        if queued:
            self.waiting.append(turn)
        else:
            self._run(turn)
        return result

    def steer(self, content: str, message_id: str, by: str) -> Message:
        """Takes a steer once, and returns the members of `input.result`."""
        if earlier := self.by_message.get(message_id):
            return {**earlier["result"], "duplicate": True}
        if self.running is None:
            raise Refusal(409, "no turn runs")
        turn = self.running
        entry = self.append("input.steered", turn_id=turn.id, message_id=message_id, content=content, by=by)
        result = {"turn_id": turn.id, "message_id": message_id, "seq": entry["seq"]}
        self.by_message[message_id] = {"content": content, "files": [], "result": result}
        turn.steers.put_nowait(content)
        self.append("steer.result", turn_id=turn.id, message_id=message_id, delivered=True)
        return result

    def _run(self, turn: Turn) -> None:
        self.running, turn.state = turn, "running"
        turn.task = asyncio.get_running_loop().create_task(self._work(turn))

    async def _work(self, turn: Turn) -> None:
        await self.journal.agent(self, turn)
        if turn.end is None:
            self.complete(turn)

    def complete(self, turn: Turn, status: str = "completed", **members: Any) -> None:
        """Ends a turn, settles its requests, and begins the next one."""
        if turn.end:
            return
        for request_id in list(self.requests):
            self.decide(request_id, cancelled=True, reason="stopped")
        turn.state = "ended"
        turn.end = self.append("turn.complete", turn_id=turn.id, status=status, delivered="yes", **members)
        if turn.task and turn.task is not asyncio.current_task():
            turn.task.cancel()
        if self.running is turn:
            self.running = None
            if self.waiting:
                self._run(self.waiting.pop(0))

    def stop(self, turn_id: str | None, by: str) -> None:
        turn = self.turns.get(turn_id) if turn_id else self.running
        if turn is None or turn.end:
            raise Refusal(409, "no turn runs")
        self.append("stop.requested", turn_id=turn.id, reason="user", by=by)
        if turn in self.waiting:
            self.waiting.remove(turn)
        self.complete(turn, "stopped")

    # Requests.

    def ask(self, turn: Turn, kind: str = "permission.request", **members: Any) -> tuple[str, asyncio.Future[Message]]:
        """Opens a request. The future has its `request.decided`."""
        request_id = self.journal.new_id("r")
        answer = self.requests[request_id] = asyncio.get_running_loop().create_future()
        asked: Message = {"tool": "Bash", "description": "Delete the logs", "resource": "rm -r logs"}
        if kind == "input.request":
            asked = {"prompt": "Which one?"}
        self.append(kind, turn_id=turn.id, request_id=request_id, **(members or asked))
        return request_id, answer

    def decide(self, request_id: str, **members: Any) -> Message:
        """Settles a request; refused if it is settled already."""
        answer = self.requests.pop(request_id, None)
        if answer is None:
            raise Refusal(409, "the request is not open")
        entry = self.append("request.decided", request_id=request_id, **members)
        self.decided[request_id] = entry
        if not answer.done():
            answer.set_result(entry)
        return entry

    def close(self) -> None:
        if self.closed:
            return
        for turn in [*self.waiting, *([self.running] if self.running else [])]:
            self.waiting = [each for each in self.waiting if each is not turn]
            self.complete(turn, "stopped")
        self.closed = True
        self.append("session.closed", reason="finished")

    def keep(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.files[sha256] = data
        return sha256


class Journal:
    """All sessions of the scripted daemon. It outlives the daemon's restarts."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.epoch = 1
        self.by_key: dict[str, str] = {}  # sessions by the Idempotency-Key of their request
        self.changes: list[tuple[str, Message]] = []
        self.forgotten = 0  # changes before this index are no longer kept
        self.boot = "a1"  # begins the positions of changes
        self.change_listeners: list[Callable[[], None]] = []
        self.agent: Callable[[Session, Turn], Any] = default_agent
        self.refuses = False  # whether each input is refused
        self._ids = 0

    def new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}-{self._ids:04d}"

    def open(self, session_id: str | None = None, agent: str = "echo", options: Message | None = None) -> Session:
        session = Session(self, session_id or self.new_id("s"), agent)
        session.options = dict(options or {})
        self.sessions[session.id] = session
        session.append("host.fact", fact="opened")
        return session

    def find(self, session_id: str) -> Session:
        session = self.sessions.get(session_id)
        if session is None or session.removed:
            raise Refusal(404, "there is no session of this id")
        return session

    def restart(self) -> None:
        """Closes what was open, as the next daemon on the same journal does."""
        self.epoch += 1
        self.boot = f"a{self.epoch}"
        self.changes.clear()
        for session in self.sessions.values():
            turns = [turn for turn in (session.running, *session.waiting) if turn]
            session.waiting = []
            if not turns:
                continue
            session.append("host.fact", fact="host_restarted", message="the host ended and has been started again")
            error = {"category": "host_restart", "message": "the host ended while this turn ran"}
            for turn in turns:
                session.complete(turn, "failed", error=error)

    def end(self) -> None:
        """Ends the work of all agents."""
        for session in self.sessions.values():
            for turn in session.turns.values():
                if turn.task:
                    turn.task.cancel()

    # The stream over all sessions.

    def note_change(self, session: Session, entry: Message) -> None:
        kind, change = entry["type"], None
        if kind == "host.fact" and entry.get("fact") == "opened":
            change = {"type": "session", "change": "opened", "state": session.state, "title": session.title}
        elif kind == "turn.begin":
            change = {"type": "turn", "change": "started", "turn_id": entry["turn_id"]}
        elif kind == "turn.complete":
            change = {"type": "turn", "change": "ended", "turn_id": entry["turn_id"], "status": entry["status"]}
        elif kind in ("permission.request", "input.request"):
            request = "permission" if kind == "permission.request" else "question"
            change = {"type": "request", "change": "opened", "request_id": entry["request_id"], "request": request}
        elif kind == "request.decided":
            told = {name: entry[name] for name in ("by", "approved", "cancelled") if name in entry}
            change = {"type": "request", "change": "answered", "request_id": entry["request_id"], **told}
        elif kind == "session.closed":
            change = {"type": "session", "change": "closed", "state": "closed", "title": session.title}
        if change:
            self.publish({**change, "session_id": session.id, "agent": session.agent, "time": TIME, "seq": entry["seq"]})

    def publish(self, change: Message) -> None:
        self.changes.append((f"{self.boot}-{len(self.changes) + 1}", change))
        for wake in list(self.change_listeners):
            wake()

    def snapshot(self) -> Message:
        sessions = [
            {"id": each.id, "agent": each.agent, "title": each.title, "state": each.state, "last_seq": each.last}
            for each in self.sessions.values()
            if not each.removed
        ]
        return {"type": "snapshot", "sessions": sessions, "complete": True}


async def default_agent(session: Session, turn: Turn) -> None:
    """Obeys the words of its input; anything else is echoed."""
    word = turn.content
    if word.startswith("hold"):
        while True:
            session.output(turn, f"steered: {await turn.steers.get()}")
    elif word.startswith("ask"):
        _, answer = session.ask(turn, "input.request" if word == "ask question" else "permission.request")
        decided = await answer
        session.output(turn, f"decided: {decided.get('values') or decided.get('approved')}")
    elif word == "messages":
        for message_id, text in [("m1", "a"), ("m1", "b"), ("m2", "c")]:
            session.output(turn, text, message_id=message_id)
    elif word == "file":
        data = b"made by the agent"
        sha256 = session.keep(data)
        session.append(
            "file.output", turn_id=turn.id, file_name="made.txt", file_mime_type="text/plain", size=len(data),
            sha256=sha256, file_path="/nowhere/made.txt",
        )  # fmt: skip
    elif word.startswith("fail"):
        session.complete(turn, "failed", error={"category": "overloaded", "message": "the provider is overloaded"})
    else:
        session.output(turn, word)
