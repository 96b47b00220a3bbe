"""A turn from its input to its one end, and the messages that the package itself says of one."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

from ._json import Message

BUSY = {"category": "busy", "message": "too many inputs wait in this session"}
_serials = itertools.count(1)


class Running:
    """A turn from its input to its one end; `serial` tells it from every other, even where the host gives no ids."""

    __slots__ = (
        "serial", "id", "text", "files", "message_id", "meta", "large", "stopping", "stop_reason", "over", "on_stop",
        "tools", "steers", "taken", "on_steer", "head", "task",
    )  # fmt: skip

    def __init__(self, id: str | None, text: str, message_id: str | None, meta: Message | None) -> None:
        self.serial = next(_serials)
        self.id, self.text, self.message_id, self.meta = id, text, message_id, meta
        self.files: list[Message] = []
        self.large: Message | None = None
        self.stopping = self.over = False
        self.stop_reason: str | None = None
        self.on_stop: list[Any] = []  # called once, at a stop or at the end
        self.tools: dict[str, bool] = {}  # by the id of each call: whether it is open
        self.steers: deque[tuple[str | None, str]] = deque()
        self.taken: dict[int, str | None] = {}  # steers that the handler holds and has not answered
        self.task: Any = None
        self.on_steer: list[Any] = []
        self.head = ""


def busy() -> Message:
    return {"type": "turn.complete", "status": "failed", "error": BUSY}


def stopped(reason: str | None) -> Message:
    return {"type": "turn.complete", "status": "stopped", "stop_reason": reason}


def not_delivered(message_id: str | None, reason: str) -> Message:
    return {"type": "steer.result", "message_id": message_id, "delivered": False, "reason": reason}


def error_of(category: str, message: str) -> Message:
    return {"type": "error", "category": category, "message": message, "fatal": False}
