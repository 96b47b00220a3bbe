"""The conformance suite's script: what lets it judge an adapter without its model.

Every adapter on this package carries it. It is off unless the environment says `CONFORM_PROBE=1` at the start; then an
input whose content is an object with `$probe` is not given to the handler but done. The operations are those of the
package in Rust; data goes out as one object with `"$probe":1`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from . import _files
from ._json import Message, encode
from .adapter import Failure, Stopped
from .types import FIELDS

if TYPE_CHECKING:
    from .turn import AsyncTurn, Turn

OPERATIONS = (
    "hello say echo burst sleep until_stop report set get ask question file event info ready complete fail"
    " close_session exit abort"
).split()
KEPT = 4096
TICK = 0.05
MOST = 64 * 1024 * 1024


class Ledger:
    """What one session has seen and was asked to keep."""

    def __init__(self) -> None:
        self.inputs: deque[Message] = deque(maxlen=KEPT)
        self.files: deque[Message] = deque(maxlen=KEPT)
        self.answers: deque[Message] = deque(maxlen=KEPT)
        self.values: dict[str, Any] = {}

    def input(self, text: str) -> None:
        content = text.encode()
        self.inputs.append({"bytes": len(content), "sha256": sha256(content).hexdigest()})

    def file(self, file: Message) -> None:
        self.files.append(file)

    def answer(self, message: Message) -> None:
        self.answers.append({"request_id": message["request_id"], "approved": message.get("approved") is True})

    def report(self) -> Message:
        files = [judged(file) for file in self.files]
        inputs, answers = list(self.inputs), list(self.answers)
        return {"count": len(inputs), "inputs": inputs, "files": files, "permissions": answers}


def judged(file: Message) -> Message:
    """What a file holds, which may be anything or nothing."""
    told = {"name": file["file_name"], "mime": file["file_mime_type"], "path": file["file_path"]}
    try:
        size, digest = _files.digest(file["file_path"])
    except (OSError, ValueError) as error:
        return {**told, "error": str(error)}
    return {**told, "bytes": size, "sha256": digest}


def script_in(text: str) -> Message | None:
    """The script in an input, or None: it is an ordinary one."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        script = json.loads(text)
    except (ValueError, RecursionError):
        return None
    steps = script.get("do", []) if isinstance(script, dict) and "$probe" in script else None
    return script if isinstance(steps, list) and all(isinstance(step, list) for step in steps) else None


def as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def as_number(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def shaped(message: Message) -> Message:
    """A message with the members that its type has."""
    names = FIELDS.get(message.get("type", ""), {}).keys() - {"session_id", "turn_id"}
    return {name: value for name, value in message.items() if name in names and value is not None}


Call = Callable[[], Any]


def _steps(
    turn: Turn | AsyncTurn,
    script: Message,
    busy: Callable[[float], Any],
    ask: Callable[[list[tuple[Call, Callable[[Any], None]]]], Any],
) -> Generator[Call, Any, None]:
    """Yields what the script makes the turn do, one after the other, and gets what comes of it."""
    core = turn._core
    ledger: Ledger = core.ledger

    def say(**data: Any) -> Call:
        return partial(turn.output, encode({"$probe": 1, **data}))

    for name, *arguments in filter(None, script.get("do", [])):
        if turn.stopped:
            raise Stopped()
        first, second, third = [*arguments, None, None, None][:3]
        match as_text(name):
            case "hello":
                described = core.link.description
                yield say(ops=OPERATIONS, adapter=described.name, version=described.version)
            case "say":
                yield partial(turn.output, as_text(first) or "", as_text(second) or "stdout")
            case "echo":
                yield partial(turn.output, as_text(script.get("text") if first is None else first) or "")
            case "burst":
                letter = third if isinstance(third, str) and len(third) == 1 else "x"
                fill = letter * (min(as_number(second), MOST) - len("00000001 "))
                for number in range(1, as_number(first) + 1):
                    yield partial(turn.output, f"{number:08} {fill}")
            case "sleep":
                yield partial(busy, as_number(first) / 1000)
            case "until_stop":
                yield partial(busy, float("inf"))
            case "report":
                yield say(**ledger.report())
            case "set":
                ledger.values[as_text(first) or ""] = second
            case "get":
                yield say(key=as_text(first) or "", value=ledger.values.get(as_text(first) or ""))
            case "ask":
                yield partial(ask, [_asked(turn, asked) for asked in arguments if isinstance(asked, dict)])
            case "question":
                prompt, fields = as_text(first.get("prompt")) or "", first.get("fields")
                answer = yield partial(turn.question, prompt, fields)
                yield say(values=answer.values, cancelled=answer.cancelled)
            case "file":
                data = b"x" * min(as_number(third), MOST)
                yield partial(turn.new_file, as_text(first) or "probe.bin", data, as_text(second))
            case "event" | "info":
                event = shaped({**first, "type": "session.info"} if name == "info" else first)
                if event:
                    yield partial(turn.emit, event.pop("type"), **event)
            case "ready":
                yield say(extensions=sorted(core.agreed))
            case "complete":
                end = first if isinstance(first, dict) else {"status": first} if isinstance(first, str) else None
                if end is not None:
                    members = shaped({**end, "type": "turn.complete"})
                    members.pop("type")
                    turn.end(**members)
                return
            case "fail":
                raise Failure(as_text(first) or "the script fails")
            case "close_session":
                return turn.session.end(as_text(first) or "finished")
            case "exit":
                os._exit(as_number(first))
            case "abort":
                os.abort()
            case unknown:
                yield say(unsupported=unknown)
                return


def _asked(turn: Turn | AsyncTurn, asked: Message) -> tuple[Call, Callable[[Any], Any]]:
    """How to ask for a permission, and what to do with its decision."""
    tool, description, resource = (as_text(asked.get(key)) or "" for key in ("tool", "description", "resource"))
    options = [option for option in asked.get("options") or [] if isinstance(option, dict) and option.get("kind")]

    def decided(decision: Any) -> Any:
        if decision.approved and asked.get("effect"):
            open(asked["effect"], "w").close()
        told = {"resource": asked.get("resource"), "approved": decision.approved, "option_id": decision.option_id}
        return turn.output(encode({"$probe": 1, "asked": told}))

    request = partial(turn.permission, tool, description, resource, title=asked.get("title"), options=options or None)
    return request, decided


def run(turn: Turn, script: Message) -> None:
    """Does what a script says, blocking."""

    def busy(seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if steer := turn.next_steer(min(left, TICK)):
                steer.accept()
            elif turn.stopped:
                raise Stopped()
            elif left >= TICK:
                turn.output("tick")

    def ask(asked: list[Any]) -> None:
        """All at once: they may be answered in any order."""
        turn._blocking()
        with ThreadPoolExecutor(max(len(asked), 1)) as pool:
            list(pool.map(lambda one: one[1](one[0]()), asked))

    steps = _steps(turn, script, busy, ask)
    try:
        call = next(steps)
        while True:
            call = steps.send(call())
    except StopIteration:
        pass


async def run_async(turn: AsyncTurn, script: Message) -> None:
    """Does what a script says, on the loop."""
    loop = asyncio.get_running_loop()

    async def take_steers() -> None:
        while steer := await turn.next_steer():
            steer.accept()

    async def busy(seconds: float) -> None:
        until, steers = loop.time() + seconds, asyncio.create_task(take_steers())
        try:
            while (left := until - loop.time()) > 0:
                await asyncio.sleep(min(left, TICK))
                if left >= TICK:
                    await turn.output("tick")
        finally:
            steers.cancel()

    async def one(request: Call, decided: Callable[[Any], Any]) -> None:
        await decided(await request())

    async def ask(asked: list[Any]) -> None:
        await asyncio.gather(*(one(*each) for each in asked))

    steps = _steps(turn, script, busy, ask)
    try:
        call = next(steps)
        while True:
            call = steps.send(await call())
    except StopIteration:
        pass
