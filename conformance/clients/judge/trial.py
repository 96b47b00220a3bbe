"""What a case works with: the scripted daemon, the driver, and the ways to judge."""

from __future__ import annotations

import asyncio
import fnmatch
import functools
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .driver import CallFailure, Driver, DriverFailure, Unsupported
from .http_daemon import TOKEN, Fault, HttpDaemon, Reply, Request
from .journal import Journal, Message, Session
from .pipes import Pipes

SOON = 6.0  # seconds in which an ordinary thing happens, with two or three reconnects
QUIET = 0.4  # seconds in which a thing that must not happen does not
NETWORK = ("http", "websocket")
PIPES = ("websocket", "socket", "command")
ALL = ("http", *PIPES)


class Failure(Exception):
    """A verdict: what was expected and what was seen."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(f"expected {expected}; saw {seen}")
        self.expected, self.seen = expected, seen


@dataclass
class Case:
    """One demand on a client."""

    id: str
    title: str
    clause: str
    transports: tuple[str, ...]
    run: Callable[[Trial], Awaitable[None]]
    is_slow: bool = False


CASES: list[Case] = []


def case(case_id: str, title: str, clause: str, transports: tuple[str, ...] = ("http",), **arguments: Any) -> Any:
    """Registers a case: a function of a trial. It may stand for several cases, by their arguments."""

    def register(run: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        CASES.append(Case(case_id, title, clause, transports, functools.partial(run, **arguments)))
        return run

    return register


def select(only: list[str], without: list[str], transport: str) -> list[Case]:
    """The cases of a transport that patterns select."""
    named = lambda patterns, each: any(fnmatch.fnmatchcase(each.id, pattern) for pattern in patterns)  # noqa: E731
    return [
        each
        for each in sorted(CASES, key=lambda each: each.id)
        if transport in each.transports and (not only or named(only, each)) and not named(without, each)
    ]


@dataclass
class Verdict:
    """The outcome of a case."""

    case: Case
    result: str  # pass, fail, skip or broken
    seconds: float = 0.0
    expected: str = ""
    seen: str = ""
    reason: str = ""

    def as_json(self) -> str:
        members = {"case": self.case.id, "title": self.case.title, "clause": self.case.clause, "result": self.result}
        members |= {name: text for name in ("expected", "seen", "reason") if (text := getattr(self, name))}
        return json.dumps({**members, "seconds": round(self.seconds, 2)}, ensure_ascii=False)


@dataclass
class Trial:
    """A run of one case."""

    driver: Driver
    daemon: HttpDaemon
    journal: Journal
    transport: str
    folder: Path
    time_scale: float = 1.0
    limits: list[str] = field(default_factory=list)
    pipes: Pipes | None = None  # for each transport but HTTP

    # Instructions that nearly every case begins with.

    async def connect(self, **members: Any) -> Message:
        """Connects the client to the daemon by the transport of the run."""
        ok = await self.driver.call("connect", **self.address(), **members)
        self.limits = list(ok.get("limits") or ())
        return ok

    def address(self) -> Message:
        if self.transport in NETWORK:
            return {"transport": self.transport, "url": self.daemon.url, "token": TOKEN}
        return {"transport": self.transport, **self.pipes.address(self.transport)}

    async def open(self, **members: Any) -> Session:
        """Connects and opens a session."""
        await self.connect(**members)
        return await self.open_more()

    async def open_more(self) -> Session:
        opened = await self.driver.call("open")
        session_id = opened.get("session")
        if session_id not in self.journal.sessions:
            raise Failure("the id of the session that the daemon has opened", repr(session_id))
        return self.journal.sessions[session_id]

    async def attach(self, session: Session, after: int = 0, **members: Any) -> None:
        await self.driver.call("attach", session=session.id, after=after, **members)

    async def send(self, session: Session, turn: str, text: str, **members: Any) -> None:
        await self.driver.call("send", session=session.id, turn=turn, text=text, **members)

    async def hold(self) -> Session:
        """Opens a session whose turn `a` runs until it is stopped or steered."""
        session = await self.open()
        await self.send(session, "a", "hold")
        await self.begun(session)
        return session

    async def begun(self, session: Session, count: int = 1) -> None:
        """Waits until the client has reported the begin of a number of turns."""
        has = lambda: sum(each["type"] == "turn.begin" for each in self.driver.entries(session.id)) >= count  # noqa: E731
        await self.until(has, "the entry turn.begin" if count == 1 else f"{count} entries turn.begin", self.seen_events)

    async def asked(self, session: Session, kind: str = "permission") -> str:
        """Waits for the one callback of a request. Returns the request's id."""
        await self.until(lambda: session.requests, "a request of the agent", self.seen_events)
        [request] = session.requests
        await self.until(lambda: self.driver.of("asked", request=request), "the event `asked`", self.seen_events)
        event = self.driver.of("asked", request=request)[0]
        self.expect(event.get("kind") == kind, f"a callback for a {kind}", event)
        return request

    # The daemon, whichever transport the client has.

    async def daemon_stop(self) -> None:
        await self.daemon.stop()
        if self.pipes:
            await self.pipes.stop()

    async def daemon_start(self) -> None:
        await self.daemon.start()
        if self.pipes:
            await self.pipes.start()

    async def daemon_cut(self) -> None:
        """Resets every connection. New ones are served."""
        await self.daemon.cut()
        if self.pipes:
            await self.pipes.cut()

    def lose(self, operation: str, what: str) -> None:
        """Has the next message of an operation lost with its connection: the `request`, or only the `answer`."""
        if self.transport == "http":
            self.daemon.fault(operation, lose_request if what == "request" else lose_answer(self.daemon))
        else:
            self.pipes.lose(operation, what)

    def answers(self) -> list[Any]:
        """The answers to permissions and questions that the client has sent."""
        return [*self.daemon.made("answer"), *(self.pipes.made("answer") if self.pipes else ())]

    # Judgements.

    def expect(self, condition: Any, expected: str, seen: Any) -> None:
        if not condition:
            raise Failure(expected, str(seen() if callable(seen) else seen)[:2000])

    async def until(self, condition: Callable[[], Any], expected: str, seen: Any, within: float = SOON) -> Any:
        """Waits for a condition; a failure names what was seen instead."""
        found = await self.driver.wait(condition, within)
        self.expect(found, f"{expected} within {within:g} s", seen)
        return found

    async def quiet(self, seconds: float = QUIET) -> None:
        await asyncio.sleep(seconds * self.time_scale)

    async def expect_entries(self, session: Session, upto: int | None = None, after: int = 0, within: float = SOON) -> None:
        """Expects each entry behind `after` once and in order, up to one."""
        wanted = list(range(after + 1, (session.last if upto is None else upto) + 1))
        numbers = lambda: [each.get("seq") for each in self.driver.entries(session.id)]  # noqa: E731
        await self.driver.wait(lambda: len(self.driver.entries(session.id)) >= len(wanted), within)
        self.expect(numbers() == wanted, f"the entries {_ranges(wanted)} of {session.id}, each once", lambda: _ranges(numbers()))
        for entry in self.driver.entries(session.id):
            stored = session.entries[entry["seq"] - 1]
            if stored["type"] == "output" and entry.get("content") != stored["content"]:
                raise Failure(
                    f"entry {entry['seq']} with the content {stored['content'][:200]!r}", repr(entry.get("content"))[:400]
                )

    async def expect_end(self, session: Session) -> Message:
        """Expects the event `ended` of a session, and returns it."""
        await self.until(lambda: self.driver.of("ended", session=session.id), "the event `ended`", self.seen_events)
        return self.driver.of("ended", session=session.id)[0]

    async def expect_permanent_end(self, session: Session) -> None:
        ended = await self.expect_end(session)
        self.expect((ended.get("error") or {}).get("class") == "permanent", "an end with a permanent error", ended)

    async def expect_no_request(self, behind: str, seconds: float = QUIET) -> None:
        """Expects that the client sends nothing for a while."""
        made = len(self.daemon.requests)
        await self.quiet(seconds)
        more = len(self.daemon.requests) - made
        self.expect(more == 0, f"no request behind {behind}", f"{more}")

    async def expect_turn(self, turn: str, within: float = SOON) -> Message:
        """Expects the one end of a turn, and returns it."""
        await self.until(lambda: self.driver.of("turn", turn=turn), f"the end of the turn {turn}", self.seen_events, within)
        await asyncio.sleep(0.02)
        ends = self.driver.of("turn", turn=turn)
        self.expect(len(ends) == 1, f"one end of the turn {turn}", f"{len(ends)}: {ends}")
        return ends[0]

    async def expect_completed(self, turn: str, text: str | None = None, within: float = SOON) -> Message:
        end = await self.expect_turn(turn, within)
        self.expect(end.get("status") == "completed", f"the status completed of the turn {turn}", end)
        if text is not None and end.get("text") is not None:
            self.expect(end["text"] == text, f"the text {text[:200]!r} of the turn {turn}", repr(end["text"][:400]))
        return end

    async def expect_failure(self, do: str, *, permanent: bool, status: int | None = None, within: float = 5.0, **members: Any) -> CallFailure:
        """Expects a call to fail in time, as permanent or temporary."""
        kind = "permanent" if permanent else "temporary"
        expected = f"`{do}` to fail with an error of class {kind}" + (f" and status {status}" if status else "")
        try:
            ok = await self.driver.call(do, within=within, **members)
        except CallFailure as failure:
            self.expect(failure.is_permanent == permanent, expected, failure)
            if status is not None and failure.status is not None:
                self.expect(failure.status == status, expected, failure)
            return failure
        except TimeoutError as error:
            raise Failure(expected, str(error)) from error
        raise Failure(expected, f"success: {ok}")

    def seen_events(self) -> str:
        """The last events, for a verdict."""
        if not self.driver.events:
            return "no events"
        return "the events " + ", ".join(json.dumps(each, ensure_ascii=False)[:160] for each in self.driver.events[-5:])

    def seen_requests(self, operation: str) -> Callable[[], str]:
        def seen() -> str:
            made = self.daemon.made(operation)
            return f"{len(made)} requests" + "".join(f"; {each} with the key {each.key}" for each in made[:6])

        return seen

    def needs_limit(self, name: str) -> None:
        if name not in self.limits:
            raise Unsupported(f"connect: the limit `{name}` cannot be set")


def _ranges(numbers: list[Any]) -> str:
    """Numbers as ranges, such as 1-4, 7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and isinstance(number, int) and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts) or "none"


# Faults.


def refuse(status: int, detail: str = "refused by the script", headers: dict[str, str] | None = None, category: str | None = None) -> Fault:
    async def fault(_: Request, reply: Reply) -> bool:
        await reply.refuse(status, detail, category, headers)
        return True

    return fault


def lose_answer(daemon: HttpDaemon) -> Fault:
    """Does what is asked for and resets the connection before the answer."""

    async def fault(request: Request, reply: Reply) -> bool:
        daemon.act(request)
        reply.cut()
        return True

    return fault


async def bad_gateway(_: Request, reply: Reply) -> bool:
    """Answers as a proxy without a daemon behind it."""
    await reply.send(502, b"<html>Bad Gateway</html>", {"content-type": "text/html"})
    return True


async def lose_request(_: Request, reply: Reply) -> bool:
    """Resets the connection before anything is done."""
    reply.cut()
    return True


async def run_case(
    each: Case, transport: str, make_driver: Callable[[Path], Driver], time_scale: float = 1.0
) -> Verdict:
    """Runs a case with a daemon and a driver of its own."""
    began = time.monotonic()
    verdict = Verdict(each, "pass")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="judge-")))
        journal = Journal()
        daemon = HttpDaemon(journal)
        await daemon.start()
        stack.push_async_callback(daemon.stop)
        pipes = Pipes(journal, daemon, folder) if transport != "http" else None
        if pipes:
            await pipes.start()
            stack.push_async_callback(pipes.stop)
        driver = make_driver(folder)
        stack.push_async_callback(driver.end)
        trial = Trial(driver, daemon, journal, transport, folder, time_scale, pipes=pipes)
        try:
            await driver.begin()
            async with asyncio.timeout(120 * time_scale):
                await each.run(trial)
        except Failure as failure:
            verdict.result, verdict.expected, verdict.seen = "fail", failure.expected, failure.seen
        except CallFailure as failure:
            verdict.result, verdict.expected = "fail", "the calls of the case to succeed"
            verdict.seen = f"the error {failure}"
        except TimeoutError as error:
            verdict.result, verdict.expected = "fail", "the case to end in time"
            verdict.seen = str(error) or "it does not"
        except Unsupported as lacking:
            verdict.result, verdict.reason = "skip", str(lacking)
        except DriverFailure as broken:
            verdict.result, verdict.expected, verdict.seen = "fail", "a driver that works", str(broken)
        except (KeyError, TypeError, ValueError, AttributeError) as odd:
            verdict.result, verdict.seen = "fail", f"{odd!r}; {trial.seen_events()}"
            verdict.expected = "reports with the members that README.md names"
        finally:
            journal.end()
    verdict.seconds = time.monotonic() - began
    return verdict
