"""Cuts messages to the longest line that their reader accepts ([frame.11]).

The largest member gives way first. Ids never do, so that the end of a turn, a session or a tool call always fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from typing import Any

from ._json import Message, encode

PIECES, END, WAY, FAILURE = "pieces", "end", "way", "failure"
INFO = dict.fromkeys(
    [
        "adapter", "capabilities", "input_modes", "native_session_id", "display_id", "options_applied", "model", "models",
        "reasoning_effort", "mode", "modes", "permission_mode", "allowed_tools", "denied_tools", "commands", "options",
    ],
    WAY,
)  # fmt: skip
GIVES: dict[str, dict[str, str]] = {
    "output": {"content": PIECES},
    "thinking": {"content": PIECES},
    "tool.update": {"content": PIECES, "input": WAY, "locations": WAY, "data": WAY, "stream": WAY, "title": END},
    "tool.start": {"input": WAY, "locations": WAY, "kind": WAY, "title": END, "tool": END},
    "tool.end": {"content": END, "diffs": WAY, "data": WAY},
    "message": {"content": END},
    "log": {"content": END},
    "error": {"message": END},
    "progress": {"message": END},
    "custom": {"data": WAY},
    "turn.complete": {
        "result": WAY, "artifacts": WAY, "session_params": WAY, "usage": WAY, "native_session_id": WAY,
        "model": WAY, "provider": WAY, "error": FAILURE, "summary": END, "stop_reason": END,
    },
    "permission.request": {"input": WAY, "diffs": WAY, "expires_at": WAY, "title": END},
    "input.request": {"expires_at": WAY},
    "file.output": {"file_name": WAY, "file_mime_type": WAY},
    "usage": {"model": WAY, "provider": WAY, "models": WAY},
    "compaction": {"summary": END},
    "rate_limit": {"window": WAY, "status": WAY, "resets_at": WAY},
    "steer.result": {"reason": END},
    "session.ready": INFO,
    "session.info": INFO,
    "session.closed": {"error": FAILURE},
}  # fmt: skip
"""How members give way when their message is too long for a line: in pieces, at their end, or as a whole. Of a failure
the category stays and the message is cut."""
BY_FILE: dict[str, tuple[str, ...]] = {
    "message": ("content",),
    "log": ("content",),
    "tool.start": ("input", "locations"),
    "tool.update": ("input", "locations", "data"),
    "tool.end": ("content", "diffs", "data"),
    "custom": ("data",),
    "turn.complete": ("result", "artifacts", "summary"),
}
"""The members that may lie in files ([large.2])."""
MARKED = {
    **dict.fromkeys(["message", "tool.start", "tool.update", "tool.end", "log", "custom"], "events"),
    "turn.complete": "turns",
    "permission.request": "control",
}
"""The extension that has `truncated` on this type."""


MIN_MAX_LINE = 1024 * 1024
"""The longest line that every reader accepts, in bytes without its LF ([frame.5])."""
ANSWER_TOO_LONG = "the answer is longer than a line may be; ask for less"
MIN_PIECE = 16
"""The least room for a piece of a delta, in bytes: more than a character or an escape needs."""


class TooLong(ValueError):
    """A message of which nothing may be left out is longer than a line: `bytes` says how long."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes")
        self.bytes = size


def size_of(message: Message) -> int:
    """The length of a message's line in bytes, without its LF."""
    return len(encode(message).encode())


def wants_file(message: Message, agreed: frozenset[str], max_line: int) -> bool:
    """Whether `by_file` would change a message."""
    kind = message["type"]
    if not ("large" in agreed and "options" in agreed) or kind not in BY_FILE or MARKED[kind] not in agreed:
        return False
    return size_of(message) > max_line


def by_file(message: Message, max_line: int, keep: Callable[[str], Message]) -> Message:
    """Puts members into files by `keep`, the largest first, until the rest is short enough."""
    message = dict(message)
    large: Message = {}
    left = [name for name in BY_FILE[message["type"]] if message.get(name) is not None]
    left.sort(key=lambda name: len(encode(message[name])))
    while left and size_of({**message, "large": large}) > max_line:
        name = left.pop()
        try:
            large[name] = keep(encode(message[name]))
        except OSError:
            continue
        if message["type"] in ("message", "log"):
            message[name] = ""  # it must be there
        else:
            del message[name]
    return {**message, "large": large} if large else message


def fit(message: Message, agreed: frozenset[str], max_line: int) -> Iterator[str]:
    """The lines, without their LF, that carry a message to a reader of lines of up to `max_line` bytes.

    Raises `TooLong`, before any line, when what must stay is longer.
    """
    whole = encode(message)
    if len(whole) * 4 <= max_line or len(whole.encode()) <= max_line:
        yield whole
        return
    kind = message["type"]
    gives = GIVES.get(kind, {})
    message = dict(message)
    delta = next((name for name, how in gives.items() if how == PIECES and name in message), None)
    rest = message.pop(delta) if delta else ""
    if delta:
        message[delta] = ""
    _shorten(message, agreed, max_line - MIN_PIECE if delta else max_line)
    if not delta:
        yield encode(message)
        return
    while rest:
        room = max_line - size_of(message)
        piece = _cut(rest, room)
        if not piece:
            raise TooLong(size_of(message))
        yield encode({**message, delta: piece})
        rest = rest[len(piece) :]
        for name in [*gives, "truncated", "_meta", "large"]:
            if name not in (delta, "stream"):
                message.pop(name, None)


def _shorten(message: Message, agreed: frozenset[str], max_line: int) -> None:
    if size_of(message) <= max_line:
        return
    kind = message["type"]
    marked = MARKED.get(kind) in agreed
    if marked:
        message["truncated"] = True
    left = [(name, how) for name, how in GIVES.get(kind, {}).items() if how != PIECES and message.get(name) is not None]
    left.sort(key=lambda member: len(encode(message[member[0]])))
    mark = "" if marked else "\u2026"
    while (size := size_of(message)) > max_line:
        if not left:
            raise TooLong(size)
        name, how = left.pop()
        if how == WAY:
            del message[name]
        elif how == FAILURE and isinstance(message[name], dict):
            message[name] = _cut_failure(message[name], size_of(message[name]) - (size - max_line), mark)
        else:
            text = message[name]
            most = len(encode(text).encode()) - 2 - (size - max_line) - len(mark.encode())
            message[name] = _cut(text, most) + mark


def _cut_failure(failure: Message, most: int, mark: str) -> Message:
    """A failure of at most so many bytes: its category, and as much of its message as fits."""
    short: Message = {name: failure[name] for name in ("category", "message") if name in failure}
    over = size_of(short) - most
    text: Any = short.get("message")
    if over > 0 and isinstance(text, str):
        short["message"] = _cut(text, len(encode(text).encode()) - 2 - over - len(mark.encode())) + mark
    return short


def _cut(text: str, most: int) -> str:
    """The longest beginning of a text of which the JSON, without quotes, has at most so many bytes."""

    def cost(end: int) -> int:
        return len(encode(text[:end]).encode()) - 2

    if most <= 0:
        return ""
    low, high = 0, min(len(text), most)
    if cost(high) <= most:
        return text[:high]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) <= most else (low, middle)
    return text[:low]
