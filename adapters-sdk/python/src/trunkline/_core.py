"""One session's life: its queue, its turn, its requests. Called under the link's lock; nothing here waits."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from typing import TYPE_CHECKING, Any

from ._fit import MIN_MAX_LINE, TooLong, fit
from ._fold import fold
from ._json import Message, text_json
from ._requests import Requests
from ._running import Running, busy, error_of, not_delivered, stopped

if TYPE_CHECKING:
    from ._link import Link

QUEUED_TURNS = 1024
QUEUED_BYTES = 32 * 1024 * 1024
QUEUED_OTHERS = 4096
QUEUED_STEERS = 64


class Core:
    """What the protocol knows of one session."""

    def __init__(self, link: Link, id: str, key: int, agreed: frozenset[str], start: Message) -> None:
        self.link, self.id, self.key, self.agreed = link, id, key, agreed
        folder = start.get("exchange_dir")
        self.exchange_dir = folder if isinstance(folder, str) and os.path.isabs(folder) else None
        limit = start.get("max_line")
        self.max_line = max(limit if agreed and isinstance(limit, int) else 0, MIN_MAX_LINE)
        self.phase = "open"  # then "shutting", "told" (ended, and the host understands only a text) or "closed"
        self.closed: Message = {}
        self.queue: deque[tuple[str, Any]] = deque()
        self.queued_turns = self.queued_bytes = 0
        self.running: Running | None = None
        self.requests = Requests(self)
        self.files: list[Message] = []
        self.refused: list[Message] = []
        self.worker: object | None = None
        self.ledger: Any = None
        self.made: list[str] = []
        self.handle: Any = None  # what the author holds of it
        self.started = self.freed = False
        self.hook: Any = None  # the task of a hook that is no turn
        self.lost = False
        self.head = f',"session_id":{text_json(id)}'

    @property
    def is_over(self) -> bool:
        return self.phase in ("told", "closed")

    def speaks_for(self, turn: Running | None) -> bool:
        """Whether a message of this turn, or of none, may still go out."""
        return not self.is_over and (turn is None or turn is self.running)

    def scratch_dir(self) -> str:
        return self.exchange_dir or tempfile.gettempdir()

    # What goes out.

    def output(self, turn: Running | None, text: str) -> None:
        """The short way of an `output` on stdout."""
        if not self.speaks_for(turn):
            return
        if len(text) > 100_000:
            return self.put(turn, {"type": "output", "content": text, "channel": "stdout"})
        if turn is None:
            head = self.head
        elif not (head := turn.head):
            head = turn.head = self.head + (f',"turn_id":{text_json(turn.id)}' if turn.id else "")
        line = f'{{"type":"output"{head},"content":{text_json(text)},"channel":"stdout"}}\n'
        self.link.wire.put(self.key, line.encode())

    def put(self, turn: Running | None, event: Message) -> None:
        """Sends an author's event, of a turn or of none. Late ones are left out."""
        if not self.speaks_for(turn):
            return
        kind = event["type"]
        if event.get("history") is True:
            return void(self.send(None, event))
        if turn is not None:
            if kind == "tool.start":
                if turn.tools.get(event["tool_call_id"]):
                    return
                turn.tools[event["tool_call_id"]] = True
            elif kind == "tool.end":
                if (is_open := turn.tools.get(event["tool_call_id"])) is None:
                    raise ValueError(f"no tool call {event['tool_call_id']!r} was started in this turn: call tool_start() first")
                if not is_open:
                    return
                turn.tools[event["tool_call_id"]] = False
        self.send(turn.id if turn else None, event)

    def send(self, turn_id: str | None, event: Message) -> bool:
        """Folds, cuts and writes a message. False when it is too long however it is cut; the host learns of it."""
        message = {"type": event["type"], "session_id": self.id}
        if turn_id is not None:
            message["turn_id"] = turn_id
        message.update({name: value for name, value in event.items() if value is not None})
        self._hint(message)
        if self.lost and message["type"] == "turn.complete":
            self.lost = False
            message.setdefault("clear_session", True)
        elif message.get("context") == "lost":
            self.lost = True
        for folded in fold(message, self.agreed, self.link.description.tools_as_output):
            try:
                for line in fit(folded, self.agreed, self.max_line):
                    self.link.wire.put(self.key, f"{line}\n".encode())
            except TooLong as long:
                kind = message["type"]
                text = f"a {kind} of {long.bytes} bytes was not sent, since the host reads lines of {self.max_line}"
                self.send(turn_id, error_of("oversize", text))
                return False
        return True

    def _hint(self, message: Message) -> None:
        """Adds how to log in to a failure of category `auth` that does not say it."""
        hint, error = self.link.description.login_hint, message.get("error")
        if hint and message["type"] in ("turn.complete", "session.closed") and error:
            said = error.get("message") or ""
            if error.get("category") == "auth" and hint not in said:
                told = f"{said.rstrip().rstrip('.')}; {hint}" if said else hint
                message["error"] = {**error, "message": told}

    # What comes in.

    def take(self, kind: str, job: Any) -> None:
        """Takes a job of the host's: `start`, `turn`, `file` or `update`. Never waits."""
        if self.phase != "open":
            if kind == "turn" and self.phase == "told":
                self.send(job.id, {"type": "session.closed", **self.closed})
                self.send(job.id, {"type": "turn.complete", "status": "failed" if "turns" in self.agreed else None})
            elif kind == "turn" and self.phase == "shutting":
                self.end_queued(job, stopped("shutdown"))
            return
        if kind == "turn":
            job.files, self.files = self.files, []
            if self.ledger and not job.large:
                self.ledger.input(job.text)
            if self.queued_turns >= QUEUED_TURNS or self.queued_bytes + len(job.text) > QUEUED_BYTES:
                return self.refuse(job)
            self.queued_turns += 1
            self.queued_bytes += len(job.text)
        elif kind == "file":
            if len(self.files) >= QUEUED_OTHERS or len(self.queue) >= QUEUED_OTHERS:
                return self.link.warn(f"session {self.id}: too many files before an input; one left out")
            self.files.append(job)
        elif kind == "update" and len(self.queue) >= QUEUED_OTHERS:
            return void(self.send(None, {"type": "session.info"}))
        self.queue.append((kind, job))
        self.wake()

    def refuse(self, turn: Running) -> None:
        """Ends a turn that there is no room for: at once where turns have ids, else in its order."""
        if "turns" in self.agreed and turn.id:
            self.end_queued(turn, busy())
        elif self.queue and self.queue[-1][0] == "refused":
            self.queue[-1] = ("refused", self.queue[-1][1] + 1)
        else:
            self.queue.append(("refused", 1))

    def end_queued(self, turn: Running, end: Message) -> None:
        for message_id, _ in turn.steers:
            self.send(turn.id, not_delivered(message_id, "the turn has ended"))
        self.send(turn.id, end)

    def wake(self) -> None:
        """Gives the session a worker where it has none."""
        if self.worker is None:
            self.worker = object()
            self.link.active += 1
            self.link.runner.work(self, self.worker)

    def rest(self) -> None:
        """The session has no worker any longer."""
        self.worker = None
        self.link.active -= 1
        if not self.link.active:
            self.link.ring()

    def next(self, worker: object) -> tuple[str, Any] | None:
        """The next step of a worker: `start`, `turn`, `file`, `update` or `close`; None when it has ended."""
        while True:
            if worker is not self.worker:
                return None
            if self.is_over:
                if self.freed:
                    self.rest()
                    return None
                self.freed = True
                return ("close", None)
            shutting = self.phase == "shutting"
            if not self.queue:
                if shutting:
                    self.phase = "closed"
                    continue
                self.rest()
                return None
            kind, job = self.queue.popleft()
            if kind == "turn":
                self.queued_turns -= 1
                self.queued_bytes -= len(job.text)
                if shutting:
                    self.end_queued(job, stopped("shutdown"))
                    continue
                job.files = [file for file in job.files if not any(file is bad for bad in self.refused)]
                self.refused.clear()
                self.running = job
                return (kind, job)
            if kind == "refused":
                for _ in range(job):
                    self.send(None, busy())
            elif not shutting:
                return (kind, job)

    # A turn's life.

    def end_turn(self, turn: Running | None, end: Message, said: bool = False) -> Running | None:
        """Ends the running turn, if it is this one or none is named ([turn.1]). `said`: it stands although it was stopped."""
        running = self.running
        if running is None or (turn is not None and turn is not running):
            return None
        self.running = None
        running.over = True
        self.requests.deny(running, "stopped" if running.stopping else None)
        self._call(running)
        if not self.is_over:
            for call in [call for call, is_open in running.tools.items() if is_open]:
                self.send(running.id, {"type": "tool.end", "tool_call_id": call, "is_error": True})
            for message_id in [*running.taken.values(), *(message_id for message_id, _ in running.steers)]:
                self.send(running.id, not_delivered(message_id, "the turn has ended"))
            if running.stopping and not said:
                end = stopped(running.stop_reason)
            elif end.get("status") == "stopped" and not end.get("stop_reason"):
                end = {**end, "stop_reason": running.stop_reason}
            self.send(running.id, {"type": "turn.complete", **end, "status": end.get("status") or "completed"})
        return running

    def _call(self, running: Running) -> None:
        callbacks, running.on_stop, running.on_steer = running.on_stop + running.on_steer, [], []
        for callback in callbacks:
            callback()

    def stop(self, turn_id: str | None, reason: str | None) -> None:
        """Stops the running turn, or removes a queued one ([turn.4], [turn.9])."""
        if self.is_over:
            return
        if self.running and (turn_id is None or self.running.id == turn_id):
            return self.stop_running(reason)
        if turn_id is None and self.running:
            return
        for at, (kind, job) in enumerate(self.queue):
            if kind == "turn" and (turn_id is None or job.id == turn_id):
                del self.queue[at]
                self.queued_turns -= 1
                self.queued_bytes -= len(job.text)
                return self.end_queued(job, stopped(reason))

    def stop_running(self, reason: str | None) -> None:
        running = self.running
        if running is None or running.stopping:
            return
        running.stopping, running.stop_reason = True, reason
        self.requests.deny(running, "stopped")
        self._call(running)
        self.link.runner.cancel(self, running)
        self.link.count_down(self, running)

    def end_late(self, turn: Running) -> None:
        """Ends a turn whose handler has had its time; what waits behind it gets another worker."""
        if self.end_turn(turn, {}) and self.worker is not None and not self.is_over:
            self.rest()
            if self.queue or self.phase == "shutting":
                self.wake()

    def steer(self, message_id: str | None, text: str) -> None:
        """Adds to the running turn, or says that there is none ([turn.10])."""
        if self.is_over:
            return
        turn = self.running or next((job for kind, job in self.queue if kind == "turn"), None)
        if not self.link.description.steerable:
            why = "the agent takes no input during a turn"
        elif turn is None or turn.stopping:
            why = "no turn is running"
        elif len(turn.steers) >= QUEUED_STEERS:
            why = "too many inputs wait for the turn"
        else:
            turn.steers.append((message_id, text))
            callbacks, turn.on_steer = turn.on_steer, []
            for callback in callbacks:
                callback()
            return
        self.send(None, not_delivered(message_id, why))

    # The session's end.

    def close(self) -> None:
        """The host's last word: silence from now on ([session.4])."""
        was_over = self.is_over
        self.stop_running(None)
        self.phase = "closed"
        self.queue.clear()
        self.requests.deny(None, None)
        self.link.wire.purge(self.key)
        if not was_over:
            self._over()

    def _over(self) -> None:
        """Cuts what is no turn, and has the worker free the session."""
        self.link.runner.cancel(self, None)
        self.wake()

    def finish(self, reason: str, error: Message | None) -> None:
        """Ends the session from this side ([session.8]). A second call does nothing."""
        if self.is_over:
            return
        end = {"status": "completed" if reason == "finished" else "failed", "error": error}
        if running := self.end_turn(None, end):
            self.link.runner.cancel(self, running)
        while self.queue:
            kind, job = self.queue.popleft()
            if kind == "turn":
                why = {"category": "cancelled", "message": "the session has ended"}
                self.end_queued(job, {"type": "turn.complete", "status": "failed", "error": why})
            elif kind == "refused":
                for _ in range(job):
                    self.send(None, busy())
            elif kind == "update":
                self.send(None, {"type": "session.info"})
        self.requests.deny(None, None)
        self.closed = {"reason": reason, "error": error}
        self.send(None, {"type": "session.closed", **self.closed})
        self.phase = "closed" if "control" in self.agreed else "told"
        self._over()
        if self.phase == "closed" and not self.link.wire.is_paused(self.key):
            self.link.forget(self)

    def shut(self) -> None:
        """The link shuts down: the running turn is stopped, those that wait are ended after it ([process.1])."""
        if not self.is_over:
            self.stop_running("shutdown")
            self.requests.deny(None, "shutdown")
            self.phase = "shutting"
            self._over()

    def shut_now(self) -> None:
        """Ends every turn now and falls silent."""
        if self.running:
            self.running.stopping, self.running.stop_reason = True, "shutdown"
        self.end_turn(None, {})
        while not self.is_over and self.queue:
            kind, job = self.queue.popleft()
            if kind == "turn":
                self.end_queued(job, stopped("shutdown"))
        if not self.is_over:
            self.phase = "closed"


def void(_: object) -> None:
    """For a call whose result does not matter."""
