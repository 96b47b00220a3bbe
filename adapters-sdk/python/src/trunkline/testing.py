"""A host for an author's tests: it serves an adapter in this process, over pipes, and plays the other side."""

from __future__ import annotations

import itertools
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from ._process import Server
from .adapter import Adapter, Handler, adapter_of

Message = dict[str, Any]
ALL = ("turns", "events", "usage", "resume", "options", "questions", "flow", "control", "large")


class TurnResult:
    """A turn that has ended: all its messages in order, and its end."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.end = messages[-1]
        """The `turn.complete`."""

    @property
    def text(self) -> str:
        """The answer: all `output` on channel `stdout`."""
        said = [m for m in self.messages if m["type"] == "output"]
        return "".join(m["content"] for m in said if (m.get("channel") or "stdout") == "stdout")

    @property
    def status(self) -> str:
        status: str = self.end.get("status", "completed")
        return status

    def of(self, type: str) -> list[Message]:
        """The messages of this type."""
        return [message for message in self.messages if message["type"] == type]


class HostSession:
    """One session of the host. Not for several threads at once."""

    def __init__(self, host: Host, id: str) -> None:
        self._host, self.id = host, id
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._turns = itertools.count(1)
        self.ready: Message = {}
        """The `session.ready`; empty in the core."""

    def write(self, type: str, **members: Any) -> None:
        """Writes a message of this session."""
        self._host.write({"type": type, "session_id": self.id, **members})

    def next(self, timeout: float = 10.0) -> Message:
        """The next message of the adapter. Raises TimeoutError after `timeout` seconds."""
        try:
            return self.inbox.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"nothing came for {self.id} in {timeout} s") from None

    def until(self, type: str, timeout: float = 10.0) -> list[Message]:
        """Messages up to and with the first of this type. Raises TimeoutError after `timeout` seconds."""
        messages: list[Message] = []
        deadline = time.monotonic() + timeout
        while not messages or messages[-1]["type"] != type:
            messages.append(self.next(max(deadline - time.monotonic(), 0.001)))
        return messages

    def begin(self, text: str) -> str:
        """Sends an input, and returns the id of its turn."""
        turn_id = f"t-{next(self._turns)}"
        self.write("user.input", content=text, turn_id=turn_id)
        return turn_id

    def send(
        self, text: str, *, permission: Callable[[Message], bool] | None = None, timeout: float = 10.0
    ) -> TurnResult:
        """Sends an input, answers permission requests, and waits for the turn's end. Without `permission` all are denied."""
        self.begin(text)
        messages: list[Message] = []
        deadline = time.monotonic() + timeout
        while not messages or messages[-1]["type"] != "turn.complete":
            message = self.next(max(deadline - time.monotonic(), 0.001))
            messages.append(message)
            if message["type"] == "permission.request":
                approved = permission is not None and permission(message) is True
                self.write("permission.response", request_id=message["request_id"], approved=approved)
            elif message["type"] == "input.request":
                self.write("input.response", request_id=message["request_id"], cancelled=True)
        return TurnResult(messages)

    def close(self) -> None:
        """Ends the session."""
        self.write("session.close")


class Host:
    """Serves an adapter while it is entered. `extensions` are those that it offers; with none it is a host of the core."""

    def __init__(
        self, handler: Handler | Adapter, *, extensions: Iterable[str] = ALL, probing: bool = False, **description: Any
    ) -> None:
        self._adapter = adapter_of(handler, description)
        self._extensions = list(extensions)
        self._server = Server(self._adapter)
        self._server.probing = probing
        self._sessions: dict[str, HostSession] = {}
        self.pipe: queue.SimpleQueue[Message] = queue.SimpleQueue()
        """Messages that belong to no session."""

    def __enter__(self) -> Host:
        source, self._input = os.pipe()
        self._output, sink = os.pipe()
        self._serving = threading.Thread(target=self._serve, args=(source, sink), daemon=True)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._serving.start()
        self._reading.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end_input()
        self._serving.join(5)
        self._reading.join(5)
        os.close(self._output)

    def end_input(self) -> None:
        """Ends the adapter's input. A second call does nothing."""
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    def _serve(self, source: int, sink: int) -> None:
        self._server.serve(source, sink)
        os.close(sink)
        os.close(source)

    def _read(self) -> None:
        with open(self._output, "rb", closefd=False) as lines:
            for line in lines:
                message = json.loads(line)
                session = self._sessions.get(message["session_id"])
                (session.inbox if session else self.pipe).put(message)

    def write(self, message: Message) -> None:
        """Writes any message."""
        self.write_line(json.dumps(message).encode())

    def write_line(self, line: bytes) -> None:
        """Writes any bytes as a line."""
        rest = memoryview(line + b"\n")
        while rest:
            rest = rest[os.write(self._input, rest) :]

    def open(self, **options: Any) -> HostSession:
        """Opens a session with these members of `session.start`; its `session.ready` stays to be read in `ready`."""
        id = f"s-{len(self._sessions) + 1}"
        session = self._sessions[id] = HostSession(self, id)
        offer = {"protocol": 1, "extensions": self._extensions} if self._extensions else {}
        session.write("session.start", **offer, **options)
        if self._extensions:
            session.ready = session.next()
        return session
