"""One pipe and its sessions: what a line from the host does. Nothing here waits."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ._core import Core
from ._fit import ANSWER_TOO_LONG, MIN_MAX_LINE
from ._running import Running, error_of
from ._frames import MAX_LINE, Lines, TooLong
from ._json import (
    DEEP, ID_BYTES, Message, encode, has_bad_id, is_id, members, meta, optional, optional_id, parse, uint,
)  # fmt: skip
from ._wire import OVERRUN, Wire
from .adapter import Adapter, Description

PROTOCOL = 1
STOP_GRACE = 2.0
LATER = {
    "session.update": "options",
    "input.response": "questions",
    "flow.pause": "flow",
    "flow.resume": "flow",
}
"""The types beyond the core, and the extension that each needs."""
CORE_START = ("protocol", "extensions", "max_line", "resume")
UPDATES = ("model", "reasoning_effort", "mode", "permission_mode", "allowed_tools", "denied_tools", "options")
STRINGS = (
    "agent_id", "user_id", "task_id", "run_id", "role", "cwd", "exchange_dir", "model", "reasoning_effort",
    "system_prompt", "system_prompt_mode", "mode", "permission_mode",
)  # fmt: skip
LISTS = ("add_dirs", "allowed_tools", "denied_tools", "allowed_domains", "extra_args")
MAPS = ("variables", "env")
NUMBERS = ("temperature", "max_cost_usd")
UINTS = (
    "iteration", "max_turns", "max_tokens", "turn_timeout_ms", "inactivity_timeout_ms", "protocol", "max_line",
)  # fmt: skip
_SESSION = re.compile(rb'"session_id"\s*:\s*("(?:[^"\\]|\\.)*")')


class Runner(Protocol):
    """What runs the author's code: threads or an event loop."""

    def work(self, core: Core, worker: object) -> None:
        """Runs a session's steps, soon."""

    def cancel(self, core: Core, turn: Running | None) -> None:
        """Lets a handler know that its turn is stopped; with none, cuts the hook that runs."""

    def spawn(self, call: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Calls the author's code outside any session."""


class Link:
    """The adapter and the sessions of one pipe."""

    def __init__(self, adapter: Adapter, fd: int, runner: Runner, *, grace: float = STOP_GRACE) -> None:
        self.adapter, self.runner, self.grace = adapter, runner, grace
        self.description: Description = adapter.describe()
        self.lock = threading.RLock()
        self.wire = Wire(fd, self.lock)
        self.sessions: dict[str, Core] = {}
        self.probing = os.environ.get("CONFORM_PROBE") == "1"
        self.active = 0  # sessions that have a worker
        self.ring: Callable[[], None] = lambda: None  # a deadline came, or the last worker has gone
        self._last_key = 0
        self._named: set[str] = set()  # extensions that some `session.ready` has named ([ext.9])
        self._late: deque[tuple[float, Core, Running]] = deque()
        self._lines = Lines(MAX_LINE)

    def warn(self, text: str) -> None:
        """A line for the operator."""
        print(text, file=sys.stderr, flush=True)

    # Lines.

    def feed(self, chunk: bytes) -> None:
        """Takes what was read. What is not a message is skipped and never answered ([frame.6], [msg.4])."""
        for line in self._lines.feed(chunk):
            if isinstance(line, TooLong):
                self._too_long(line)
            elif (message := parse(line)) is not None:
                with self.lock:
                    self._take(message, line)

    def finish(self) -> None:
        """The input has ended; an adapter skips what was cut ([frame.7])."""
        for line in self._lines.finish():
            if (message := parse(line)) is not None:
                with self.lock:
                    self._take(message, line)

    def _too_long(self, line: TooLong) -> None:
        named = _SESSION.search(line.first)
        if not named:
            return
        try:
            id = json.loads(named[1])
        except ValueError:
            return
        with self.lock:
            core = self.sessions.get(id)
            if core and not core.is_over:
                core.send(None, error_of("oversize", f"a line of {line.bytes} bytes is over the limit and was skipped"))

    def _take(self, message: Message, line: bytes) -> None:
        kind, id = message.get("type"), message.get("session_id")
        if type(kind) is not str or type(id) is not str:
            return
        if has_bad_id(message):
            return self.warn(f"a message of type {kind[:64]!r} is dropped: one of its ids has more than {ID_BYTES} bytes")
        if kind in ("ping", "sessions.list"):
            if id == "":
                self._take_of_pipe(kind, message, line)
            return
        core = self.sessions.get(id)
        if kind == "session.start":
            if is_id(id) and (core is None or core.phase == "closed"):
                self._open(id, message)
        elif core is None:
            return
        elif kind == "session.close":
            del self.sessions[id]
            core.close()
        elif (extension := LATER.get(kind)) is None or extension in core.agreed:
            self._take_of_session(core, kind, message)

    def _take_of_session(self, core: Core, kind: str, message: Message) -> None:
        if self.wire.held(core.key) > OVERRUN:
            return core.finish("limit", {"category": "busy", "message": "the host reads less than it asks for"})
        with_turns = "turns" in core.agreed
        turn_id = optional_id(message, "turn_id") if with_turns else None
        if kind == "user.input":
            text = message.get("content")
            if text is None:
                text = ""
            if type(text) is not str:
                return
            message_id = optional_id(message, "message_id") if with_turns else None
            if with_turns and message.get("mode") == "steer":
                return core.steer(message_id, text)
            turn = Running(turn_id, text, message_id, meta(message) if core.agreed and "_meta" in message else None)
            if "large" in core.agreed and isinstance(large := message.get("large"), dict):
                turn.large = large.get("content") if isinstance(large.get("content"), dict) else None
            core.take("turn", turn)
        elif kind == "file.input":
            if (path := optional(message, "file_path", str)) is not None:
                self._take_file(core, path, message)
        elif kind in ("permission.response", "input.response"):
            if is_id(message.get("request_id")):
                core.requests.answer(message)
        elif kind == "stop":
            core.stop(turn_id, optional(message, "reason", str) if with_turns else None)
        elif kind == "session.update":
            core.take("update", {name: message[name] for name in UPDATES if _has(message, name)})
        elif kind == "flow.pause":
            self.wire.flow(core.key, True)
        elif kind == "flow.resume":
            self.wire.flow(core.key, False)
            if core.phase == "closed":
                self.forget(core)

    def _take_file(self, core: Core, path: str, message: Message) -> None:
        file = {
            "file_name": optional(message, "file_name", str) or os.path.basename(path),
            "file_mime_type": optional(message, "file_mime_type", str) or "application/octet-stream",
            "file_path": path,
        }
        if "large" in core.agreed:
            file |= {"size": uint(message, "size"), "sha256": optional(message, "sha256", str)}
        core.take("file", file)

    def _take_of_pipe(self, kind: str, message: Message, line: bytes) -> None:
        if kind == "ping" and "control" in self._named:
            nonce = message.get("nonce")
            # As it was written: a number of any length stays the same.
            text = "" if nonce is None or nonce is DEEP else f',"nonce":{members(line.decode())["nonce"].strip()}'
            if nonce is not DEEP:
                self.wire.put_urgent(f'{{"type":"pong","session_id":""{text}}}\n'.encode())
        elif kind == "sessions.list" and "resume" in self._named and is_id(message.get("request_id")):
            asked = {"cwd": optional(message, "cwd", str), "limit": uint(message, "limit")}
            head = {"type": "sessions.list.result", "session_id": "", "request_id": message["request_id"]}

            def done(entries: Any, error: BaseException | None) -> None:
                result: Message = {"entries": list(entries or [])} if error is None else {"entries": [], "error": str(error)}
                with self.lock:
                    # The host reads its sessions and this answer from one pipe.
                    longest = max((core.max_line for core in self.sessions.values()), default=MIN_MAX_LINE)
                    line = encode({**head, **result})
                    if len(line.encode()) > longest:
                        line = encode({**head, "error": ANSWER_TOO_LONG})
                    self.wire.put(0, f"{line}\n".encode())

            self.runner.spawn(lambda: self.adapter.sessions(**asked), done)

    def _open(self, id: str, message: Message) -> None:
        offered = message.get("extensions")
        is_list = isinstance(offered, list) and all(isinstance(name, str) for name in offered)
        agreed = frozenset(offered if is_list and offered else ()) & self.description.agreeable()
        start = options_of(message, agreed)
        self._last_key += 1
        core = Core(self, id, self._last_key, agreed, start)
        if self.probing:
            from ._probe import Ledger

            core.ledger = Ledger()
        open_sessions = len(self.sessions)
        if before := self.sessions.get(id):
            self.wire.purge(before.key)
        self.sessions[id] = core
        theirs = start.get("protocol", PROTOCOL)
        if agreed:
            self._named |= agreed
            try:
                own = self.adapter.greet(start) or {}
            except Exception as error:
                self.warn(f"greet failed: {error!r}")
                own = {}
            ready = {"protocol": min(theirs, PROTOCOL), "extensions": sorted(agreed), "max_line": MAX_LINE}
            core.send(None, {"type": "session.ready", **ready, **self.description.greeting(start, own)})
        if theirs == 0:
            text = f"the host speaks version 0 of the protocol, this adapter {PROTOCOL}"
            core.finish("protocol", {"category": "protocol", "message": text})
        elif self.description.max_sessions is not None and open_sessions >= self.description.max_sessions:
            text = f"the adapter serves {self.description.max_sessions} sessions at a time"
            core.finish("limit", {"category": "busy", "message": text})
        else:
            core.take("start", start)

    # Sessions and their deadlines.

    def forget(self, core: Core) -> None:
        """A session that has ended by itself: its id is unknown from now on."""
        if self.sessions.get(core.id) is core:
            del self.sessions[core.id]

    def count_down(self, core: Core, turn: Running) -> None:
        """Gives a stopped turn the grace. All have the same one: the first added is the first due."""
        self._late.append((time.monotonic() + self.grace, core, turn))
        if len(self._late) == 1:
            self.ring()

    def end_late(self) -> float | None:
        """Ends the turns whose time is over. Returns the seconds until the next one is due."""
        while self._late:
            due, core, turn = self._late[0]
            if not turn.over and (left := due - time.monotonic()) > 0:
                return left
            self._late.popleft()
            core.end_late(turn)
        return None

    def shut(self) -> None:
        for core in list(self.sessions.values()):
            core.shut()

    def shut_now(self) -> None:
        for core in list(self.sessions.values()):
            core.shut_now()


def _has(message: Message, name: str) -> bool:
    """Whether an option has a value of its type."""
    value = message.get(name)
    if name in STRINGS:
        return isinstance(value, str)
    if name in LISTS:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if name in MAPS:
        return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    if name in NUMBERS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if name in UINTS:
        return uint(message, name) is not None
    return value is not None and value is not DEEP


def options_of(message: Message, agreed: frozenset[str]) -> Message:
    """The fields of a `session.start` that count: of the agreed extensions, and of their type."""
    known = {*STRINGS, *LISTS, *MAPS, *NUMBERS, "iteration", "max_turns", "mcp_servers", "output_schema", "skills"}
    names = set(CORE_START) | (known if "options" in agreed else set())
    start = {name: message[name] for name in names if name in message and _has(message, name)}
    if start.get("system_prompt_mode") not in (None, "append", "replace"):
        del start["system_prompt_mode"]
    if "resume" not in agreed or not isinstance(start.get("resume"), dict):
        start.pop("resume", None)
    return start
