"""Lines that their reader takes: a message over its limit is cut ([frame.11])."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ._json import Message, encode

PIECES, END, WAY = "pieces", "end", "way"
GIVES: dict[str, dict[str, str]] = {
    "output": {"content": PIECES},
    "thinking": {"content": PIECES},
    "tool.update": {"content": PIECES, "input": WAY, "data": WAY, "title": END},
    "tool.start": {"input": WAY, "locations": WAY, "title": END},
    "tool.end": {"content": END, "diffs": WAY, "data": WAY},
    "message": {"content": END},
    "log": {"content": END},
    "error": {"message": END},
    "progress": {"message": END},
    "custom": {"data": WAY},
    "turn.complete": {
        "result": WAY, "artifacts": WAY, "session_params": WAY, "error": WAY, "usage": WAY,
        "summary": END, "stop_reason": END,
    },
    "permission.request": {"input": WAY, "diffs": WAY, "title": END},
    "session.ready": {"commands": WAY, "models": WAY, "modes": WAY},
    "session.info": {"commands": WAY, "models": WAY, "modes": WAY},
    "session.closed": {"error": WAY},
}  # fmt: skip
"""How members give way where their message is too long for a line."""
BY_FILE: dict[str, tuple[str, ...]] = {
    "message": ("content",),
    "log": ("content",),
    "tool.start": ("input", "locations"),
    "tool.update": ("input", "data"),
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
    _shorten(message, agreed, max_line)
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
            if name != delta:
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
    while (size := size_of(message)) > max_line:
        if not left:
            raise TooLong(size)
        name, how = left.pop()
        if how == WAY:
            del message[name]
            continue
        mark = "" if marked else "\u2026"
        text = message[name]
        most = len(encode(text).encode()) - 2 - (size - max_line) - len(mark.encode())
        message[name] = _cut(text, most) + mark


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
