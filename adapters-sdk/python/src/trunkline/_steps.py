"""What a session does besides turns, and how the end of a handler becomes that of its turn: for both kinds of runners."""

from __future__ import annotations

import asyncio
import shutil
import sys
import traceback
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from . import _files
from ._core import Core
from ._running import Running, error_of
from ._json import Message
from .adapter import Failure, Stopped
from .session import Session, put

Call = Callable[[], Any]
CLOSES = {"refused": "refused", "limit": "limit"}


def hook(core: Core, kind: str, job: Any) -> Generator[Call, Any, None]:
    """Yields the calls of the author's code that a step makes, and gets their results or their exceptions."""
    if kind == "start":
        yield from _start(core, job)
    elif kind == "file":
        yield from _file(core, job)
    elif kind == "update":
        yield from _update(core, job)
    elif kind == "close":
        if core.started:
            try:
                yield partial(core.link.adapter.close, core.handle)
            except Exception as error:
                tell(core, "close", error)
        for folder in core.made:
            shutil.rmtree(folder, ignore_errors=True)


def next_call(steps: Generator[Call, Any, None], result: Any = None, error: Exception | None = None) -> Call | None:
    """The next call of a step, after the result or the exception of the one before; None at its end."""
    try:
        return steps.throw(error) if error else steps.send(result)
    except StopIteration:
        return None


def _start(core: Core, options: Message) -> Generator[Call, Any, None]:
    core.handle = Session(core, options)
    try:
        state = yield partial(core.link.adapter.start, core.handle, options)
    except Exception as error:
        failure = failure_of(core, "start", error)
        with core.link.lock:
            core.finish(failure.closes or CLOSES.get(failure.status, "failed"), failure.error)
    else:
        core.started = True
        if state is not None:
            core.handle.state = state


def _file(core: Core, file: Message) -> Generator[Call, Any, None]:
    try:
        if why := _files.differs(file):
            core.refused.append(file)
            raise Failure(f"{file['file_name']!r} was not taken: {why}", "file_refused")
        if core.ledger:
            core.ledger.file(file)
        yield partial(core.link.adapter.file, core.handle, file)
    except Exception as error:
        failure = failure_of(core, "file", error)
        put(core, None, error_of(failure.category, failure.message))


def _update(core: Core, changes: Message) -> Generator[Call, Any, None]:
    info: Any = None
    try:
        info = yield partial(core.link.adapter.update, core.handle, changes)
    except Exception as error:
        tell(core, "update", error)
    with core.link.lock:
        if not core.is_over:
            core.send(None, {"type": "session.info", **(info or {})})


def tell(core: Core, what: str, error: BaseException) -> None:
    """Shows the operator where the author's code has failed."""
    text = "".join(traceback.format_exception(error))
    print(f"{what} of session {core.id} failed: {text}", end="", file=sys.stderr, flush=True)


def failure_of(core: Core, what: str, error: BaseException) -> Failure:
    """What the user sees of an exception."""
    if isinstance(error, Failure):
        return error
    tell(core, what, error)
    name, text = type(error).__name__, str(error)
    return Failure(f"{name}: {text}" if text else name)


def end_of(core: Core, error: BaseException | None) -> tuple[Message, Failure | None]:
    """The end of a turn whose handler has returned, or raised."""
    if error is None:
        return {"status": "completed"}, None
    if isinstance(error, Stopped | asyncio.CancelledError):
        return {"status": "stopped"}, None
    failure = failure_of(core, "a turn", error)
    end = {"status": failure.status}
    if failure.status != "stopped":
        end["error"] = failure.error  # type: ignore[assignment]
    return end, failure if failure.closes else None


def text_of(core: Core, turn: Running) -> None:
    """Reads the text of an input that was too long for a line. Blocks; raises Failure."""
    try:
        turn.text = _files.take_text(core.exchange_dir, turn.large or {})
    except ValueError as error:
        why = f"the text of the input could not be read from its file: {error}"
        raise Failure(why, "file_refused") from error
    if core.ledger:
        core.ledger.input(turn.text)


def finish(core: Core, turn: Running, error: BaseException | None) -> None:
    """Ends a turn as its handler has ended, unless it is over. Called under the link's lock."""
    if turn.over:
        return
    end, closes = end_of(core, error)
    core.end_turn(turn, end)
    if closes:
        core.finish(closes.closes or "failed", closes.error)
