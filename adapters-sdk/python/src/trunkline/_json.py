"""JSON as the protocol reads and writes it ([frame.2], [frame.10], [msg.3] to [msg.7])."""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, Final

Message = dict[str, Any]

HALF = re.compile("[\ud800-\udfff]")  # half a surrogate pair: JSON can spell it, UTF-8 cannot
DEPTH = 128
ID_BYTES = 256
META_BYTES = 64 * 1024


class Deep:
    """Stands for a value that is nested too deep to be read."""


DEEP: Final = Deep()


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _int(digits: str) -> int | float:
    return int(digits) if len(digits) < 400 else float(digits)


_decoder = json.JSONDecoder(parse_constant=_refuse, parse_int=_int)
_decode = _decoder.decode
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_SPACE = re.compile(r"[ \t\n\r]*")
_TOKEN = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|[\[{]|[\]}]')


def parse(line: bytes) -> Message | None:
    """The object on a line; None for noise, which no one answers."""
    if not line or line.isspace():
        return None
    try:
        text = line.decode()
        if line.count(b"[") + line.count(b"{") > DEPTH:
            return _parse_deep(text)
        value = _decode(text)
    except (ValueError, RecursionError):
        return None
    if type(value) is not dict:
        return None
    if "\\u" in text:
        return _cleaned(value)
    return value


def _cleaned(value: Message) -> Message | None:
    """The message without halves of surrogate pairs; None where its type or an id has one."""
    for name, member in value.items():
        if (name == "type" or name.endswith("_id")) and isinstance(member, str) and HALF.search(member):
            return None
    cleaned: Message = _mend(value)
    return cleaned


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return HALF.sub("\ufffd", value)
    if isinstance(value, list):
        return [_mend(item) for item in value]
    if isinstance(value, dict):
        return {_mend(key): _mend(item) for key, item in value.items()}
    return value


def members(text: str) -> dict[str, str]:
    """The JSON text of each member of an object. It does not recurse, so that any depth does no harm."""
    at = _SPACE.match(text).end()  # type: ignore[union-attr]
    if text[at : at + 1] != "{":
        raise ValueError("not an object")
    found: dict[str, str] = {}
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _decoder.raw_decode(text, at)
        if not isinstance(key, str) or text[at := _skip(text, at)] != ":":
            raise ValueError("not a member")
        begin = _skip(text, at + 1)
        at = _end_of(text, begin)
        found[key] = text[begin:at]
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
            if text[at] != '"':
                raise ValueError("no member behind a comma")
        elif text[at] != "}":
            raise ValueError("no end of an object")
    if _skip(text, at + 1) != len(text):
        raise ValueError("more than an object")
    return found


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _end_of(text: str, at: int) -> int:
    if text[at] not in "[{":
        return _decoder.raw_decode(text, at)[1]
    depth = 0
    for token in _TOKEN.finditer(text, at):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    raise ValueError("a value does not end")


def _parse_deep(text: str) -> Message | None:
    try:
        found = members(text)
        value = {key: _shallow(raw) for key, raw in found.items()}
    except (IndexError, RecursionError):
        return None
    return _cleaned(value) if "\\u" in text else value


def _shallow(raw: str) -> Any:
    depth = deepest = 0
    for token in _TOKEN.finditer(raw):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        deepest = max(deepest, depth)
    return DEEP if deepest > DEPTH else _decode(raw)


def text_json(text: str) -> str:
    """A string as JSON, with U+2028 and U+2029 as escapes and no half of a surrogate pair."""
    if text.isascii():
        ascii_json: str = encode_basestring_ascii(text)
        return ascii_json
    wide: str = encode_basestring(HALF.sub("\ufffd", text))
    return wide.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def encode(value: Any) -> str:
    """A value as JSON text. Raises ValueError for NaN and infinities, TypeError for what JSON does not have."""
    text = _encoder.encode(value)
    if text.isascii():
        return text
    if HALF.search(text):
        text = HALF.sub("\ufffd", text)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def is_id(value: Any) -> bool:
    """Whether a value is an id: a string of 1 to 256 bytes."""
    if type(value) is not str or not value:
        return False
    return len(value) <= 64 or len(value.encode("utf-8", "replace")) <= ID_BYTES


def optional_id(message: Message, name: str) -> str | None:
    """An id that may be absent; one of another type or that is empty counts as absent."""
    value = message.get(name)
    return value if is_id(value) else None


def has_bad_id(message: Message) -> bool:
    """Whether an id is too long: the message is bad ([msg.6])."""
    for name in ("session_id", "request_id", "turn_id", "message_id"):
        value = message.get(name)
        if type(value) is str and len(value) > 64 and len(value.encode("utf-8", "replace")) > ID_BYTES:
            return True
    return False


def optional(message: Message, name: str, kind: type) -> Any:
    """A member of this type; None where it is absent or of another one ([msg.5])."""
    value = message.get(name)
    if kind is not bool and isinstance(value, bool):
        return None
    return value if isinstance(value, kind) else None


def uint(message: Message, name: str) -> int | None:
    """An unsigned integer of up to 64 bits, else None."""
    value = message.get(name)
    return value if type(value) is int and 0 <= value < 1 << 64 else None


def meta(message: Message) -> Message | None:
    """`_meta`, where it is an object of up to 64 KiB ([msg.7])."""
    value = message.get("_meta")
    if type(value) is not dict:
        return None
    return value if len(encode(value).encode()) <= META_BYTES else None
