"""The fold-down: a message as a host with fewer extensions may receive it ([ext.2], [ext.3]).

One function of the message and of what was agreed on. What the user needs becomes `output`; what only enriches is left
out.
"""

from __future__ import annotations

from ._json import Message, encode

EXTENSIONS = frozenset({"turns", "events", "usage", "resume", "options", "questions", "flow", "control", "large"})
CORE = frozenset({"output", "turn.complete", "file.output", "permission.request"})
TYPE_OF = {
    "steer.result": "turns",
    **dict.fromkeys(
        ["thinking", "message", "tool.start", "tool.update", "tool.end", "plan", "progress", "log", "error", "custom"],
        "events",
    ),
    **dict.fromkeys(["usage", "context.usage", "compaction", "rate_limit"], "usage"),
    "input.request": "questions",
    **dict.fromkeys(["working", "session.closed", "permission.cancel"], "control"),
}
"""The extension that each type belongs to; `session.ready` and `session.info` belong to any."""
OF_EVENTS = ("message_id", "parent_tool_call_id", "history")
OF_CONTROL = ("input", "title", "tool_call_id", "diffs", "expires_at", "truncated", "options")
OF_RESUME = ("native_session_id", "display_id", "context")
OF_OPTIONS = (
    "options_applied", "model", "reasoning_effort", "mode", "permission_mode", "allowed_tools", "denied_tools",
    "models", "modes", "commands", "options",
)  # fmt: skip
END_OF_RESUME = ("native_session_id", "session_params", "clear_session")
LOST = "the agent started afresh: it does not remember the earlier turns"
STATUS_TEXT = {"failed": "the turn failed", "refused": "the agent declined", "limit": "a limit is reached"}
CLOSED_TEXT = {
    "finished": "the session has ended",
    "failed": "the session cannot continue",
    "refused": "the session was refused",
    "unknown_agent": "there is no such agent",
    "limit": "the session has reached a limit",
    "protocol": "the session cannot be served in this version of the protocol",
    "shutdown": "the session has ended: shutting down",
}


def fold(message: Message, agreed: frozenset[str], tools_as_output: bool = False) -> list[Message]:
    """The messages to write for one of the author's: none, one, or two in this order. `message` is not changed."""
    kind = message["type"]
    extension = TYPE_OF.get(kind)
    if extension is None and kind not in CORE and not agreed or extension and extension not in agreed:
        return _instead(message, tools_as_output, agreed)
    message = {name: value for name, value in message.items() if value is not None}
    if "turns" not in agreed:
        message.pop("turn_id", None)
    if not agreed:
        message.pop("_meta", None)
    if "large" not in agreed:
        _without(message, ("large",))
    if "events" not in agreed and kind in ("output", "permission.request"):
        _without(message, OF_EVENTS)
    if kind == "turn.complete":
        return _end(message, agreed)
    if kind == "permission.request" and "control" not in agreed:
        _without(message, OF_CONTROL)
    elif kind == "file.output" and "large" not in agreed:
        _without(message, ("size", "sha256"))
    elif kind in ("session.ready", "session.info"):
        return _info(message, agreed)
    return [message]


def _without(message: Message, names: tuple[str, ...]) -> None:
    for name in names:
        message.pop(name, None)


def _said(message: Message, channel: str, content: str, agreed: frozenset[str]) -> Message:
    said: Message = {"type": "output", "session_id": message["session_id"]}
    if "turns" in agreed and message.get("turn_id") is not None:
        said["turn_id"] = message["turn_id"]
    return {**said, "content": content, "channel": channel}


def _instead(message: Message, tools_as_output: bool, agreed: frozenset[str]) -> list[Message]:
    kind = message["type"]
    if kind == "error":
        return [_said(message, "system", message["message"], agreed)]
    if kind == "input.request":
        return [_said(message, "question", question_text(message), agreed)]
    if kind == "session.closed":
        return [_said(message, "system", closed_text(message), agreed)]
    if kind in ("session.info", "session.ready") and message.get("context") == "lost":
        return [_said(message, "system", LOST, agreed)]
    if tools_as_output and kind == "tool.start":
        call = message["tool_call_id"]
        use = {"type": "tool_use", "id": call, "name": message["tool"], "input": message.get("input") or {}}
        return [_said(message, "tool", encode(use), agreed)]
    if tools_as_output and kind == "tool.end":
        content, failed = message.get("content") or "", message.get("is_error") is True
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}
        return [_said(message, "tool", encode({**result, "is_error": failed}), agreed)]
    return []


def question_text(message: Message) -> str:
    """A question as text, for a host that cannot ask."""
    lines = [message["prompt"]]
    for field in message.get("fields") or ():
        lines.append(f"- {field.get('label') or field['id']}")
        lines += [f"  - {choice.get('label') or choice['id']}" for choice in field.get("choices") or ()]
    return "\n".join(lines)


def closed_text(message: Message) -> str:
    """The end of a session as text."""
    text = CLOSED_TEXT.get(message.get("reason") or "failed", CLOSED_TEXT["failed"])
    why = (message.get("error") or {}).get("message")
    return f"{text}: {why}" if why else text


def _end(message: Message, agreed: frozenset[str]) -> list[Message]:
    if "usage" not in agreed:
        message.pop("usage", None)
    if "resume" not in agreed:
        _without(message, END_OF_RESUME)
    if "turns" in agreed:
        return [message]
    error = message.get("error") or {}
    text = error.get("message") or STATUS_TEXT.get(message.get("status") or "completed")
    kept = {"type", "session_id", "usage", "_meta", *END_OF_RESUME}
    plain = {name: value for name, value in message.items() if name in kept}
    if not text:
        return [plain]
    if retry_at := error.get("retry_at"):
        text += f" (try again at {retry_at})"
    return [_said(message, "system", text, agreed), plain]


def _info(message: Message, agreed: frozenset[str]) -> list[Message]:
    is_ready = message["type"] == "session.ready"
    lost = message.get("context") == "lost" and "resume" not in agreed
    before = len(message)
    if "resume" not in agreed:
        _without(message, OF_RESUME)
    if "turns" not in agreed:
        message.pop("input_modes", None)
    if "options" not in agreed:
        _without(message, OF_OPTIONS)
    told = [_said(message, "system", LOST, agreed)] if lost else []
    if is_ready:
        return [message, *told]
    is_empty = len(message) == 2 and before > 2
    return told if is_empty else [*told, message]
