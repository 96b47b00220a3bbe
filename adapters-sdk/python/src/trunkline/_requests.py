"""Permission requests and questions that wait for their answer ([permission.1] to [permission.6])."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._json import Message, optional

if TYPE_CHECKING:
    from ._core import Core
from ._running import Running

UNCHANGEABLE = (
    "the input was changed, and this agent cannot run a changed one, so it was denied; approve it as it is, or deny it"
)
_numbers = itertools.count(1)  # of the whole process: no two ids are ever the same


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a permission. It is true where the action may happen; without an answer it denies."""

    approved: bool = False
    option_id: str | None = None
    """The option that was chosen, by its id."""
    updated_input: Any = None
    """The tool's input as the user changed it: only where `takes_updated_input` was described."""
    message: str | None = None
    """The user's message about it."""
    end_turn: bool = False
    """True where the turn must end with this denial."""
    reason: str | None = None
    """The reason that the host gives: `user`, `timeout`, `policy`, `stopped` or `shutdown`; None if it gives none."""

    def __bool__(self) -> bool:
        return self.approved


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question. It is true where there is one."""

    values: dict[str, Any] = field(default_factory=dict)
    """The values by the ids of the fields."""
    cancelled: bool = True
    """True where no one answered: withdrawn, stopped, closed, or the host cannot ask."""

    def __bool__(self) -> bool:
        return not self.cancelled

    def text(self, field: str = "answer") -> str | None:
        """The text of a field; None where there is none."""
        value = self.values.get(field)
        return value if isinstance(value, str) else None


@dataclass(slots=True)
class Pending:
    """A request without an answer yet; `settle` gets its Decision or its Answer, once."""

    id: str
    turn: Running | None
    is_question: bool
    settle: Callable[[Any], None]
    request: Message


class Requests:
    """Those of one session. Called under the link's lock."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._pending: dict[str, Pending] = {}

    def open(self, turn: Running | None, request: Message, settle: Callable[[Any], None]) -> Pending | None:
        """Writes a request. None where it is settled at once: denied, or cancelled."""
        core = self._core
        is_question = request["type"] == "input.request"
        denied = Answer() if is_question else Decision(reason="stopped")
        request_id = f"{'q' if is_question else 'p'}{next(_numbers)}"
        message = {**request, "request_id": request_id}
        if turn is not None and turn.stopping or not core.speaks_for(turn):
            settle(denied)
            return None
        # What cannot be shown to anyone is not asked; a host that cannot ask shows the question as text ([ext.3]).
        is_sent = core.send(turn.id if turn else None, message)
        if not is_sent or is_question and "questions" not in core.agreed:
            settle(denied)
            return None
        pending = self._pending[request_id] = Pending(request_id, turn, is_question, settle, message)
        return pending

    def answer(self, message: Message) -> None:
        """The host's answer. The first one stands ([permission.4])."""
        core = self._core
        is_question = message["type"] == "input.response"
        if core.ledger and not is_question:
            core.ledger.answer(message)
        pending = self._pending.get(message["request_id"])
        if pending is None or pending.is_question != is_question:
            return
        del self._pending[pending.id]
        if is_question:
            values = optional(message, "values", dict)
            is_answer = values is not None and message.get("cancelled") is not True
            pending.settle(Answer(values, False) if is_answer else Answer())
        else:
            pending.settle(self._decide(pending, message))

    def _decide(self, pending: Pending, message: Message) -> Decision:
        core, approved = self._core, message.get("approved") is True
        reason = optional(message, "reason", str) if "turns" in core.agreed else None
        if "control" not in core.agreed:
            return Decision(approved, reason=reason)
        asked, updated = pending.request, message.get("updated_input")
        changed = updated is not None and updated != asked.get("input")
        if approved and changed and not core.link.description.takes_updated_input:
            if core.speaks_for(pending.turn):
                turn_id = pending.turn.id if pending.turn else None
                told = {"category": "permission_denied", "message": UNCHANGEABLE, "fatal": False}
                core.send(turn_id, {"type": "error", **told})
            return Decision(message=UNCHANGEABLE, reason=reason)
        options = asked.get("options") or []
        option_id = optional(message, "option_id", str)
        if option_id is None and approved and message.get("always_allow") is True:
            option_id = next((option["id"] for option in options if option.get("kind") == "allow_always"), None)
        return Decision(
            approves(approved, option_id, options),
            option_id,
            updated,
            optional(message, "message", str),
            message.get("end_turn") is True,
            reason,
        )

    def deny(self, turn: Running | None, reason: str | None) -> None:
        """Settles everything that a turn asked for, or with none everything."""
        for pending in [p for p in self._pending.values() if turn is None or p.turn is turn]:
            del self._pending[pending.id]
            pending.settle(Answer() if pending.is_question else Decision(reason=reason))

    def withdraw(self, pending: Pending) -> None:
        """Withdraws a request that no one waits for any longer."""
        if self._pending.pop(pending.id, None) and self._core.speaks_for(pending.turn):
            cancel = {"type": "permission.cancel", "request_id": pending.id}
            self._core.send(pending.turn.id if pending.turn else None, cancel)


def approves(approved: bool, option_id: str | None, options: list[Message]) -> bool:
    """Whether an answer approves. An option that contradicts it, or was not offered, denies."""
    if option_id is None:
        return approved
    option = next((option for option in options if option["id"] == option_id), None)
    if option is None:
        return False
    return approved and (option.get("kind") or "allow").startswith("allow")
