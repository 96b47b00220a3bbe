"""What a turn or a session can say, in one form for both kinds of handlers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

R = TypeVar("R")

Members = dict[str, Any]


class Events(Generic[R]):
    """The messages that an author sends. Each is sent whole when it is called, folded down to what the host offered.

    In a blocking handler a call waits while the session holds more than its share of the pipe. In an `async def` handler
    `await` does: the message is sent even where it is cancelled there.
    """

    def emit(self, type: str, **members: Any) -> R:
        """Sends any message of the specification, by its type and its members; None leaves a member out.

        Raises TypeError or ValueError for what JSON does not have, and for types that the package sends itself.
        """
        raise NotImplementedError

    def output(self, text: str, channel: str = "stdout") -> R:
        """Sends a piece of the answer: joined in order, the pieces are the whole."""
        return self.emit("output", content=text, channel=channel)

    def thinking(self, text: str, *, message_id: str | None = None) -> R:
        """Sends a piece of what the model thinks."""
        return self.emit("thinking", content=text, message_id=message_id)

    def message(self, role: str, text: str, *, history: bool | None = None) -> R:
        """Sends a whole message of the conversation; with `history` one that was said before."""
        return self.emit("message", role=role, content=text, history=history)

    def tool_start(self, call: str, tool: str, input: Any = None, **members: Any) -> R:
        """Reports that a tool call begins. A call that the turn leaves open is ended for it, as failed."""
        return self.emit("tool.start", tool_call_id=call, tool=tool, input=input, **members)

    def tool_update(self, call: str, text: str | None = None, **members: Any) -> R:
        """Sends what a tool call printed since the last update."""
        return self.emit("tool.update", tool_call_id=call, content=text, **members)

    def tool_end(self, call: str, text: str | None = None, *, is_error: bool = False, **members: Any) -> R:
        """Reports that a tool call has ended."""
        return self.emit("tool.end", tool_call_id=call, content=text, is_error=is_error, **members)

    def plan(self, entries: Sequence[Members]) -> R:
        """Sends the plan, whole each time: objects of `content`, `status`, `priority`."""
        return self.emit("plan", entries=list(entries))

    def progress(self, text: str) -> R:
        """Reports in a line how the work goes."""
        return self.emit("progress", message=text)

    def log(self, text: str, stream: str = "raw") -> R:
        """Sends a line for the log: `raw`, `stderr`, `host` or `meta`."""
        return self.emit("log", stream=stream, content=text)

    def error(self, text: str, category: str = "other") -> R:
        """Reports an error that ends nothing. Every host gets it, as text where need be."""
        return self.emit("error", category=category, message=text, fatal=False)

    def custom(self, name: str, data: Any = None) -> R:
        """Sends an event of the agent's own."""
        return self.emit("custom", name=name, data=data)

    def usage(self, **members: Any) -> R:
        """Reports tokens and cost so far: `input_tokens`, `output_tokens`, `cost_usd` and their kin."""
        return self.emit("usage", **members)

    def context_usage(self, used_tokens: int, total_tokens: int | None = None) -> R:
        """Reports how full the context is, in tokens."""
        return self.emit("context.usage", used_tokens=used_tokens, total_tokens=total_tokens)

    def compaction(
        self, trigger: str | None = None, pre_tokens: int | None = None, total_tokens: int | None = None, **members: Any
    ) -> R:
        """Reports that the agent shortened its context: `auto` or `manual`. Further members: `id`, `summary`."""
        return self.emit("compaction", trigger=trigger, pre_tokens=pre_tokens, total_tokens=total_tokens, **members)

    def rate_limit(self, **members: Any) -> R:
        """Reports how much of a provider's limit is used: `window`, `status`, `utilization`, `resets_at`."""
        return self.emit("rate_limit", **members)

    def working(self) -> R:
        """Reports that quiet work goes on, so that no host takes it for a stall."""
        return self.emit("working")

    def info(self, **members: Any) -> R:
        """Reports what became known of the session: `model`, `native_session_id`, `context` and their kin."""
        return self.emit("session.info", **members)


def permission_request(tool: str, description: str, resource: str, more: Members) -> Members:
    """The message of a permission request, but its id."""
    return {"type": "permission.request", "tool": tool, "description": description, "resource": resource, **more}


def question(prompt: str, fields: Sequence[Members] | None, expires_at: str | None) -> Members:
    """The message of a question, but its id."""
    asked: Members = {"type": "input.request", "prompt": prompt, "expires_at": expires_at}
    return {**asked, "fields": list(fields) if fields else None}
