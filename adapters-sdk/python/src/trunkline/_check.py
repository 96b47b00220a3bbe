"""Checks of what an author sends, at its call: a wrong type, member or value would otherwise be ignored by the host."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from ._fold import CORE, TYPE_OF
from ._json import Message, encode
from .types import FIELDS, REQUIRED

OURS = frozenset(
    "turn.complete permission.request permission.cancel input.request session.ready session.closed steer.result"
    " sessions.list.result agents.list.result pong".split()
)
"""The types that the package alone sends."""
TYPES = (CORE | TYPE_OF.keys() | {"session.info"}) - OURS
"""The types that an author may send."""
PYTHON: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list, tuple), "object": (dict,),
}  # fmt: skip
"""The Python types of each JSON type. A `bool` is a number in Python, but not in JSON."""


def check_event(event: Message) -> None:
    """Rejects an event that an author must not send, by TypeError or ValueError."""
    kind = event["type"]
    if kind in OURS:
        raise ValueError(f"{kind} is sent by the package itself")
    if kind not in TYPES:
        advice = meant(kind, TYPES) or "use custom() for an event of your own"
        raise ValueError(f"no message of an adapter has the type {kind!r}: {advice}")
    check_members(event)


def check_members(message: Message, given_later: frozenset[str] = frozenset({"session_id"})) -> None:
    """Rejects unknown members, values of a wrong type, and a message without a required member, by TypeError."""
    type = message["type"]
    kinds = FIELDS[type]
    for name, value in message.items():
        if (kind := kinds.get(name)) is None:
            advice = meant(name, kinds)
            raise TypeError(f"{type} has no member {name!r}" + (f": {advice}" if advice else ""))
        if value is None or kind == "any":
            continue
        if not isinstance(value, PYTHON[kind]) or isinstance(value, bool) and kind in ("integer", "number"):
            raise TypeError(f"{name} of {type} must be of the type {kind}, not {value.__class__.__name__}")
    for name in REQUIRED[type] - given_later:
        if message.get(name) is None:
            raise TypeError(f"{type} needs the member {name!r}")
    encode(message)


def check_text(text: object) -> None:
    """Raises TypeError for an output that is no text."""
    if not isinstance(text, str):
        raise TypeError(f"output() takes a str, not {text.__class__.__name__}")


def check_result(result: object) -> None:
    """Raises TypeError for a result of a handler: it would not reach the user."""
    if result is not None:
        advice = "write it as an async def" if hasattr(result, "__await__") else "send text with turn.output()"
        raise TypeError(f"the handler returned {result.__class__.__name__}; {advice}")


def meant(name: str, names: Iterable[str]) -> str | None:
    """Returns a hint to the name that is most alike; None if none is."""
    near = difflib.get_close_matches(name, names, 1, 0.75)
    return f"did you mean {near[0]!r}?" if near else None
