"""What an author writes: a handler, or an `Adapter` with hooks."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._fold import EXTENSIONS

if TYPE_CHECKING:
    from .session import Session
    from .turn import AsyncTurn, Turn

Options = dict[str, Any]
"""The members of a message, by name, as the specification has them."""


class Failure(Exception):
    """Ends a turn as failed, refused or limited; raised in `start`, it ends the session.

    The user sees `message`, so it must hold no secret. Every other exception fails the turn with category `other`.
    """

    def __init__(
        self,
        message: str,
        category: str = "other",
        *,
        status: str = "failed",
        code: str | None = None,
        retry_at: str | None = None,
        closes: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.category, self.status = message, category, status
        self.code, self.retry_at = code, retry_at
        self.closes = closes
        """The `reason` of `session.closed`, where the session must end behind the turn."""

    @property
    def error(self) -> Options:
        """The member `error` of the turn's end."""
        error = {"category": self.category, "message": self.message, "code": self.code, "retry_at": self.retry_at}
        return {name: value for name, value in error.items() if value is not None}


class Stopped(BaseException):
    """The turn must end. Calls of a blocking handler raise it, once after a stop and always after the turn's end.

    Like `asyncio.CancelledError` it is not an `Exception`. A handler that catches it may send last words.
    """


@dataclass
class Description:
    """What an adapter says of itself, in `session.ready` and for `--describe`. Names are those of the specification."""

    name: str = ""
    version: str | None = None
    use_when: str | None = None
    avoid_when: str | None = None
    without: Iterable[str] = ()
    """Extensions that are not used."""
    resumes: bool = False
    """It can go on with an earlier session: `options["resume"]` reaches `start`, and `sessions` is asked."""
    steerable: bool = False
    """It takes inputs during a turn, by `next_steer`."""
    honours: Sequence[str] = ()
    """The options of `session.start` that it honours ([ext.7]). What restricts must be named only if it holds."""
    takes_updated_input: bool = False
    """It runs a tool with the input that an approval changed."""
    tools_as_output: bool = False
    """Tool calls go as JSON on channel `tool` to hosts without `events`."""
    max_sessions: int | None = None
    capabilities: Options = field(default_factory=dict)
    models: Sequence[Options] = ()
    modes: Sequence[Options] = ()
    commands: Sequence[Options] = ()
    config_schema: Any = None
    login_hint: str | None = None
    """What a person can set or run to log in; it is added to failures of category `auth`."""

    def __post_init__(self) -> None:
        program = os.path.splitext(os.path.basename(sys.argv[0]))[0] if sys.argv else ""
        self.name = self.name or program or "adapter"

    def agreeable(self) -> frozenset[str]:
        """The extensions that are used where the host offers them."""
        return EXTENSIONS - set(self.without) - (set() if self.resumes else {"resume"})

    def _capabilities(self) -> Options:
        own: Options = {"turn_completion": True}
        if self.resumes:
            own["resume_attach"] = True
        if self.takes_updated_input:
            own["updated_input"] = True
        if self.max_sessions is not None:
            own["max_sessions"] = self.max_sessions
        return {**own, **self.capabilities}

    def greeting(self, options: Options, own: Options) -> Options:
        """What `session.ready` says; `own` precedes."""
        applied = list(own.get("options_applied") or [name for name in self.honours if name in options])
        folder = options.get("exchange_dir")
        if folder is not None and os.path.isabs(folder) and "exchange_dir" not in applied:
            applied.append("exchange_dir")  # files go there where the host names one ([file.6])
        adapter = {"name": self.name, **({"version": self.version} if self.version else {})}
        lists = {"models": self.models, "modes": self.modes, "commands": self.commands}
        return {
            "adapter": adapter,
            "capabilities": self._capabilities(),
            "input_modes": ["queue", "steer"] if self.steerable else ["queue"],
            **{name: list(value) for name, value in lists.items() if value},
            **own,
            "options_applied": applied,
        }

    def printed(self) -> Options:
        """What `--describe` prints."""
        version = {"version": self.version} if self.version else {}
        return {
            "name": self.name,
            **version,
            "protocol": 1,
            "models": list(self.models),
            "capabilities": self._capabilities(),
            "extensions": sorted(self.agreeable()),
            "options": list(self.honours),
            "config_schema": self.config_schema,
            "use_when": self.use_when,
            "dont_use_when": self.avoid_when,
        }


class Adapter:
    """An adapter: how a turn is served, and what else differs from the defaults.

    One value serves every session of the process. Sessions run at the same time; within one session everything runs one
    after the other in the host's order, so `session.state` needs no lock. Where `turn` is an `async def`, all runs on one
    event loop and every hook may be one too. Else each session that is busy has a thread, and hooks are plain functions.
    """

    def describe(self) -> Description:
        """Says what the adapter is and can. Called once."""
        return Description()

    def greet(self, options: Options) -> Options | None:
        """Members of `session.ready` that depend on the session's options. It must not block."""
        return None

    def start(self, session: Session, options: Options) -> Any:
        """Makes `session.state` when a session is opened. Inputs wait for it. An exception ends the session."""

    def turn(self, turn: Any) -> Any:
        """Serves one turn: its return is the turn's end, an exception a failed one."""
        raise NotImplementedError

    def update(self, session: Session, changes: Options) -> Any:
        """Changes options between turns; returns the values now in force, as members of `session.info`."""

    def file(self, session: Session, file: Options) -> Any:
        """Takes note of a file as soon as it is announced. It comes with the next turn's `files` too."""

    def close(self, session: Session) -> Any:
        """Frees what the session holds, after its last turn."""

    def sessions(self, cwd: str | None, limit: int | None) -> Any:
        """Lists sessions that can be resumed, newest first. Needs `resumes`."""
        return []

    def diagnose(self) -> Any:
        """Checks what the adapter needs (`--diagnose`): objects of `code`, `level` (info, warn, error), `message`."""
        return [{"code": "start", "level": "info", "message": "the adapter starts"}]


Handler = Callable[["Turn"], None] | Callable[["AsyncTurn"], Awaitable[None]]


class FunctionAdapter(Adapter):
    """A handler as an adapter."""

    def __init__(self, handler: Handler, description: Description) -> None:
        self.turn = handler  # type: ignore[method-assign, assignment]
        self._description = description

    def describe(self) -> Description:
        return self._description


def adapter_of(handler: Handler | Adapter, description: Options) -> Adapter:
    """The adapter that a handler makes. Raises TypeError for a description beside an `Adapter`."""
    if isinstance(handler, Adapter):
        if description:
            raise TypeError("an Adapter describes itself, by describe()")
        return handler
    return FunctionAdapter(handler, Description(**description))


def is_async(adapter: Adapter) -> bool:
    """Whether an adapter's turns run on an event loop."""
    turn = adapter.turn
    call = getattr(turn, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(turn) or inspect.iscoroutinefunction(call)
