"""Cases of pipes (C-PIP), of commands (C-CMD) and of the WebSocket (C-WSK)."""

from __future__ import annotations

import asyncio
import struct

from ..driver import CallFailure
from ..journal import Message, Session, Turn, encode
from ..pipes import PipePlan, frame_of
from ..trial import PIPES, Failure, Trial, bad_gateway, case, refuse
from .errors import MIB
from .sessions import TEXT

LINES = ("socket", "command")


@case("C-PIP-01", "a pipe is cut at many bytes of a line", "[journal.5]", PIPES)
async def cut_in_lines(trial: Trial) -> None:
    assert trial.pipes
    session = trial.journal.open()
    cuts = 24
    for _ in range(cuts + 1):
        session.append("output", content=TEXT)
    sizes = [len(encode(each)) + 1 for each in session.entries]

    def plan(number: int) -> PipePlan:
        # Each pipe brings one whole entry and a part of the next one.
        if number > cuts:
            return PipePlan()
        size = sizes[number]
        points = [1, 2, size - 3, size - 2, size - 1, *range(5, size, size // 19)]
        return PipePlan(cut_at=sizes[number - 1] + points[number - 1])

    trial.pipes.plan = plan
    await trial.connect()
    await trial.attach(session)
    await trial.expect_entries(session, within=40)


@case("C-PIP-02", "noise between lines is skipped", "[frame.6]", LINES)
async def noise(trial: Trial) -> None:
    assert trial.pipes
    bad = b'Debugger listening\n["output"]\n{\'a\': 1}\n\xff\xfe\n   \n\nnull\n17\n'
    trial.pipes.plan = lambda number: PipePlan(rewrite=lambda line, entry: bad + line)
    session = await trial.open()
    await trial.send(session, "a", TEXT)
    await trial.expect_completed("a", TEXT)
    await trial.expect_entries(session)


@case("C-PIP-03", "one byte at a time, and lines that end with CR LF", "[frame.4]", LINES)
async def single_bytes(trial: Trial) -> None:
    assert trial.pipes
    trial.pipes.plan = lambda number: PipePlan(step=1, rewrite=lambda line, entry: line[:-1] + b"\r\n")
    session = await trial.open()
    await trial.send(session, "a", TEXT)
    await trial.expect_completed("a", TEXT)
    await trial.expect_entries(session)
    trial.expect(len(trial.pipes.hubs) == 1, "one pipe", len(trial.pipes.hubs))


@case("C-PIP-04", "a line without end is held within a bound", "[client.4]", PIPES)
async def endless_line(trial: Trial) -> None:
    assert trial.pipes
    session = trial.journal.open()
    session.append("output", content="second")
    await trial.connect()
    await trial.attach(session)
    await trial.expect_entries(session)
    before = trial.driver.peak_memory()
    [hub] = trial.pipes.hubs
    offered = 0
    try:
        hub.writer.write(b'{"type":"output","content":"' if not hub.is_websocket else frame_of(1, b'{"type":"', False))
        while offered < 256 * MIB:
            piece = b"a" * 262144
            hub.writer.write(frame_of(0, piece, False) if hub.is_websocket else piece)
            async with asyncio.timeout(20):
                await hub.writer.drain()
            offered += len(piece)
            if trial.driver.peak_memory() - before > 160 * MIB:
                break
        hub.writer.write(frame_of(0, b'"}', True) if hub.is_websocket else b'"}\n')
    except (OSError, TimeoutError):
        pass
    grown = trial.driver.peak_memory() - before
    trial.expect(grown <= 160 * MIB, "at most 160 MiB more memory for a line of 256 MiB", f"{grown // MIB} MiB")
    session.append("output", content="third")
    await trial.expect_entries(session, within=20)


@case("C-PIP-05", "`unavailable` on a pipe has the client attach again", "[journal.5]", PIPES)
async def unavailable(trial: Trial) -> None:
    assert trial.pipes
    session = await trial.open()
    await trial.expect_entries(session)
    [hub] = trial.pipes.hubs
    hub.following.pop(session.id)
    hub.send({"type": "session.refused", "session_id": session.id, "reason": "unavailable", "message": "it moves"})
    session.append("output", content="meanwhile")
    await trial.expect_entries(session)
    await trial.send(session, "a", "hello")
    await trial.expect_completed("a", "hello")


@case("C-PIP-06", "a refused attach fails at once, and is not repeated", "[client.1]", PIPES)
async def refused_attaches(trial: Trial) -> None:
    assert trial.pipes
    await trial.connect()
    await trial.expect_failure("attach", permanent=True, session="missing", after=0)
    session = trial.journal.open()
    await trial.expect_failure("attach", permanent=True, session=session.id, after=7)
    await trial.quiet(0.3)
    made = len(trial.pipes.made("attach"))
    trial.expect(made == 2, "two messages session.attach", made)


@case("C-PIP-07", "an entry that is missing or comes twice", "[journal.3]", PIPES)
async def missing_entry(trial: Trial) -> None:
    assert trial.pipes
    session = trial.journal.open()
    for number in range(2, 7):
        session.append("output", content=f"entry {number}")
    left_out = [3]

    def rewrite(line: bytes, entry: Message) -> bytes:
        if entry["seq"] in left_out:
            left_out.clear()
            return b""
        return line * 2 if trial.transport != "websocket" else line

    trial.pipes.plan = lambda number: PipePlan(rewrite=rewrite)
    await trial.connect()
    await trial.attach(session)
    await trial.expect_entries(session)


@case("C-PIP-08", "an input that the host refuses ends its turn", "[journal.4]", PIPES)
async def refused_input(trial: Trial) -> None:
    assert trial.pipes
    session = await trial.open()
    trial.journal.refuses = True
    await trial.send(session, "a", "hello")
    end = await trial.expect_turn("a")
    trial.expect(end.get("status") != "completed", "no completed turn", end)
    trial.journal.refuses = False
    made = len(trial.pipes.made("input"))
    trial.expect(made == 1, "one message user.input", made)
    await trial.send(session, "b", "hello")
    await trial.expect_completed("b", "hello")


@case("C-PIP-09", "a provisional end is no entry, and the end is reported once", "[journal.11]", PIPES)
async def provisional_end(trial: Trial) -> None:
    assert trial.pipes

    async def agent(session: Session, turn: Turn) -> None:
        assert trial.pipes
        [hub] = trial.pipes.hubs
        end = {"type": "turn.complete", "session_id": session.id, "turn_id": turn.id, "status": "failed"}
        hub.send({**end, "error": {"category": "other", "message": "the disk is full"}, "provisional": True})
        await asyncio.sleep(0.2)
        session.output(turn, "late")

    trial.journal.agent = agent
    session = await trial.open()
    await trial.send(session, "a", "hello")
    await trial.expect_turn("a")
    await trial.until(lambda: session.running is None, "the turn to end", lambda: session.state)
    await trial.expect_entries(session)
    await trial.quiet(0.1)
    ends = trial.driver.of("turn", turn="a")
    trial.expect(len(ends) == 1, "one end of the turn", ends)


@case("C-CMD-01", "a command that ends with status 2 is not started again", "[client.1]", ("command",))
async def status_two(trial: Trial) -> None:
    (trial.folder / "refuses").touch()
    (trial.folder / "status").write_text("2")
    try:
        await trial.connect()
        await trial.driver.call("open", within=5)
    except CallFailure as failure:
        trial.expect(failure.is_permanent, "an error of class permanent", failure)
    except TimeoutError as error:
        raise Failure("a failure of `connect` or of `open`", str(error)) from error
    else:
        raise Failure("a failure of `connect` or of `open`", "success")
    await trial.quiet()
    runs = len((trial.folder / "runs").read_text())
    trial.expect(runs == 1, "one start of the command", runs)


@case("C-CMD-02", "a command that ends with status 2 later ends its sessions", "[client.1]", ("command",))
async def later_status_two(trial: Trial) -> None:
    assert trial.pipes
    session = await trial.open()
    await trial.expect_entries(session)
    (trial.folder / "status").write_text("2")
    await trial.pipes.cut()
    await trial.expect_permanent_end(session)
    await trial.quiet()
    runs = len((trial.folder / "runs").read_text())
    trial.expect(runs == 1, "one start of the command", runs)


@case("C-WSK-01", "messages in fragments, with pings between them", "docs/gateway.md#the-pipe", ("websocket",))
async def fragments(trial: Trial) -> None:
    assert trial.pipes
    trial.pipes.plan = lambda number: PipePlan(fragment=7)
    session = await trial.open()
    await trial.send(session, "a", TEXT)
    await trial.expect_completed("a", TEXT)
    await trial.expect_entries(session)


@case("C-WSK-02", "several lines in one message", "docs/gateway.md#the-pipe", ("websocket",))
async def several_lines(trial: Trial) -> None:
    assert trial.pipes
    held: list[bytes] = []

    def rewrite(line: bytes, entry: Message) -> bytes:
        held.append(line)
        if len(held) < 3:
            return b""
        joined = b"".join(held)
        held.clear()
        return joined

    session = trial.journal.open()
    for number in range(2, 7):
        session.append("output", content=f"entry {number}")
    trial.pipes.plan = lambda number: PipePlan(rewrite=rewrite)
    await trial.connect()
    await trial.attach(session)
    await trial.expect_entries(session)
    made = len(trial.pipes.made("attach"))
    trial.expect(made == 1, "one message session.attach", made)


@case("C-WSK-03", "a WebSocket that is closed is opened again", "[client.2]", ("websocket",))
async def closed_socket(trial: Trial) -> None:
    assert trial.pipes
    session = await trial.open()
    for code in (1001, 1011):
        [hub] = trial.pipes.hubs
        hub.writer.write(frame_of(8, struct.pack(">H", code) + b"the daemon ends", True))
        await hub.writer.drain()
        hub.writer.close()
        session.append("output", content="meanwhile")
        await trial.expect_entries(session)


@case("C-WSK-04", "a WebSocket that is refused for the moment is tried again", "[client.2]", ("websocket",))
async def refused_for_now(trial: Trial) -> None:
    session = await trial.open()

    for fault in (bad_gateway, refuse(503), refuse(429, headers={"retry-after": "1"})):
        trial.daemon.fault("pipe", fault)
    await trial.daemon_cut()
    session.append("output", content="meanwhile")
    await trial.expect_entries(session, within=10)
