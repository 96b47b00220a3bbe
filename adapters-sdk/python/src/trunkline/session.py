"""A session and its turns, as their adapter holds them: one form for blocking handlers, one for `async def`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._check import check_event, check_text
from ._core import Core
from ._running import Running

if TYPE_CHECKING:
    from .adapter import Options


class Session:
    """One conversation. `state` is the author's; it outlives turns. After the session's end it is silent."""

    def __init__(self, core: Core, options: Options) -> None:
        self._core = core
        self.options = options
        """The members of `session.start` that count: of the agreed extensions, and of their type."""
        self.state: Any = None
        """What the author keeps of the session: what `start` returned."""

    @property
    def id(self) -> str:
        """The host's id of the session."""
        return self._core.id

    @property
    def agreed(self) -> frozenset[str]:
        """The extensions that both sides use. What the host did not offer is folded down or left out."""
        return self._core.agreed

    @property
    def resume(self) -> Options | None:
        """What to go on with, where the host says so: `native_session_id`, `params`, `history`."""
        resume: Options | None = self.options.get("resume")
        return resume

    @property
    def scratch_dir(self) -> str:
        """The folder for files of this session ([file.6])."""
        return self._core.scratch_dir()

    @property
    def is_closed(self) -> bool:
        """Whether the session has ended, by either side."""
        return self._core.is_over

    def output(self, text: str, channel: str = "stdout") -> None:
        """Sends text outside any turn. Never waits; raises BufferError where the host reads too little."""
        check_text(text)
        self.emit("output", content=text, channel=channel)

    def info(self, **members: Any) -> None:
        """Reports what became known of the session: `model`, `native_session_id`, `context` and their kin."""
        self.emit("session.info", **members)

    def emit(self, type: str, **members: Any) -> None:
        """Sends any message outside any turn, as `Turn.emit` does. Never waits; raises BufferError likewise."""
        put(self._core, None, {"type": type, **members})

    def end(self, reason: str = "finished", message: str | None = None, category: str = "other") -> None:
        """Ends the session by the adapter's own will, after ending its turns. A second call does nothing."""
        with self._core.link.lock:
            self._core.finish(reason, {"category": category, "message": message} if message else None)


UNAWAITED = 16 * 1024 * 1024


def put(core: Core, turn: Running | None, event: Options) -> None:
    """Sends an event; what of it is too long for a line may go by file before ([large.2])."""
    from ._fit import BY_FILE, by_file, wants_file
    from ._files import keep

    check_event(event)
    folder = core.exchange_dir
    if folder and event["type"] in BY_FILE and wants_file(event, core.agreed, core.max_line - 1024):
        event = {name: value for name, value in event.items() if value is not None}
        event = by_file(event, core.max_line - 1024, lambda text: keep(folder, text))
    with core.link.lock:
        if core.link.wire.held(core.key) > UNAWAITED:
            raise BufferError("the host reads too little: await what you send")
        core.put(turn, event)


class Steer:
    """A text that the user adds to a turn that runs. The turn's end refuses it where the handler did neither."""

    def __init__(self, core: Core, turn: Running, message_id: str | None, text: str) -> None:
        self._core, self._turn, self._message_id = core, turn, message_id
        self.text = text
        turn.taken[id(self)] = message_id

    def accept(self) -> str:
        """Reports to the host that the agent has it, and returns the text."""
        self._answer(True, None)
        return self.text

    def refuse(self, reason: str) -> None:
        """Reports to the host that the agent did not take it, and why."""
        self._answer(False, reason)

    def _answer(self, delivered: bool, reason: str | None) -> None:
        core, turn = self._core, self._turn
        with core.link.lock:
            if id(self) in turn.taken and core.speaks_for(turn):
                del turn.taken[id(self)]
                result = {"message_id": self._message_id, "delivered": delivered, "reason": reason}
                core.send(turn.id, {"type": "steer.result", **result})


def next_steer(core: Core, turn: Running) -> Steer | None:
    """The next input that was added to a turn, if one waits. Call it under the lock."""
    if not turn.steers or turn.over:
        return None
    message_id, text = turn.steers.popleft()
    return Steer(core, turn, message_id, text)
