"""Cases of errors (C-ERR), of bounds (C-BND), and of inputs that are sent once (C-SND)."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

from ..driver import CallFailure
from ..http_daemon import Reply, Request
from ..journal import Session
from ..trial import ALL, NETWORK, Failure, Trial, bad_gateway, case, lose_request, refuse

PERMANENT = (400, 403, 404, 409, 410, 416, 422)
MIB = 1024 * 1024
BOUND = 72 * MIB  # bytes of one answer or line that a client may take
MEMORY = 320 * MIB  # bytes by which a driver may grow
OFFERED = 200 * MIB  # bytes that are offered before a client counts as without bound


# Errors.


@case("C-ERR-01", "a permanent error of `open` is raised at once, and not retried", "[client.1]")
async def permanent_opens(trial: Trial) -> None:
    await trial.connect()
    for number, status in enumerate(PERMANENT, 1):
        trial.daemon.fault("open", refuse(status))
        await trial.expect_failure("open", permanent=True, status=status)
        made = len(trial.daemon.made("open"))
        trial.expect(made == number, f"one request for an `open` that is refused by {status}", f"{made - number + 1}")
    await trial.quiet()
    made = len(trial.daemon.made("open"))
    trial.expect(made == len(PERMANENT), "no further request", f"{made - len(PERMANENT)} more")


@case("C-ERR-02", "a token that is not known is raised by `connect` or by the first call", "[client.1]", NETWORK)
async def unknown_token(trial: Trial) -> None:
    trial.daemon.token = "tl_another"
    try:
        await trial.connect()
    except CallFailure as error:
        trial.expect(error.is_permanent, "an error of class permanent", error)
        trial.expect(error.status in (None, 401), "the status 401", error)
    else:
        await trial.expect_failure("open", permanent=True, status=401)
    made = len(trial.daemon.requests)
    await trial.expect_no_request("the failure")
    trial.expect(made <= 2, "at most two requests", f"{made}")


@case("C-ERR-03", "a token that is revoked ends what is open, and is not retried", "[client.1]", NETWORK)
async def revoked_token(trial: Trial) -> None:
    session = await trial.open()
    await trial.expect_entries(session)
    trial.daemon.token = "tl_another"
    await trial.daemon_cut()
    await trial.expect_permanent_end(session)
    await trial.expect_no_request("the end")


@case("C-ERR-04", "a permanent error of `attach` is raised at once, and not retried", "[client.1]")
async def permanent_attaches(trial: Trial) -> None:
    await trial.connect()
    for status in PERMANENT:
        session = trial.journal.open()
        # A client may ask for the state first or begin with the stream.
        for operation in ("state", "stream"):
            trial.daemon.fault(operation, refuse(status), times=100, session=session.id)
        await trial.expect_failure("attach", permanent=True, status=status, session=session.id, after=0)
        await trial.quiet(0.15)
        made = [*trial.daemon.made("state", session.id), *trial.daemon.made("stream", session.id)]
        trial.expect(len(made) <= 2, f"at most two requests for an `attach` that is refused by {status}", len(made))


@case("C-ERR-05", "a session that is removed while the client is away ends at once", "[client.1]")
async def removed_meanwhile(trial: Trial) -> None:
    for status in (403, 404, 410):
        session = trial.journal.open()
        if status == 403:
            await trial.connect()
        await trial.attach(session)
        await trial.expect_entries(session)
        for operation in ("state", "stream"):
            trial.daemon.fault(operation, refuse(status), times=100, session=session.id)
        trial.daemon.cut_streams(session.id)
        await trial.expect_permanent_end(session)
        await trial.expect_no_request(f"the status {status}", 0.2)


@case("C-ERR-06", "a refused input ends its turn at once, and is not sent again", "[client.1]")
async def refused_inputs(trial: Trial) -> None:
    session = await trial.open()
    for number, status in enumerate((403, 409, 413, 422), 1):
        trial.daemon.fault("input", refuse(status))
        turn = f"refused-{status}"
        await _send_or_fail(trial, session, turn)
        ends = trial.driver.of("turn", turn=turn)
        if ends:
            trial.expect(ends[0].get("status") != "completed", f"no completed turn after a {status}", ends[0])
            error = ends[0].get("error") or {}
            trial.expect(error.get("class", "permanent") == "permanent", "an error of class permanent", ends[0])
        await trial.quiet(0.15)
        made = len(trial.daemon.made("input"))
        trial.expect(made == number, f"one request for an input that is refused by {status}", f"{made - number + 1}")
    await trial.send(session, "good", "hello")
    await trial.expect_completed("good", "hello")


async def _send_or_fail(trial: Trial, session: Session, turn: str) -> None:
    try:
        await trial.driver.call("send", session=session.id, turn=turn, text="hello")
    except CallFailure as failure:
        trial.expect(failure.is_permanent, "an error of class permanent", failure)
    else:
        await trial.expect_turn(turn)


@case("C-ERR-07", "429 with `Retry-After` is repeated, and not earlier", "[client.2]", status=429)
@case("C-ERR-08", "503 with `Retry-After` is repeated, and not earlier", "[client.2]", status=503)
async def repeated_later(trial: Trial, status: int) -> None:
    session = await trial.open()
    trial.daemon.fault("input", refuse(status, headers={"retry-after": "1"}))
    await trial.send(session, "a", "hello")
    await trial.expect_completed("a", "hello")
    made = trial.daemon.made("input")
    trial.expect(len(made) == 2, "two requests", trial.seen_requests("input"))
    trial.expect(made[0].key and made[0].key == made[1].key, "the same key twice", trial.seen_requests("input"))
    waited = made[1].time - made[0].time
    trial.expect(waited >= 0.97, "a pause of 1 s", f"{waited:.2f} s")


@case("C-ERR-09", "502 without a problem document, 503 and a reset are retried when a session is entered", "[client.2]")
async def temporary_attach(trial: Trial) -> None:
    session = trial.journal.open()

    await trial.connect()
    for fault in (bad_gateway, refuse(503), lose_request):
        trial.daemon.fault("stream", fault)
    await trial.attach(session)
    await trial.expect_entries(session)
    session.append("output", content="later")
    await trial.expect_entries(session)


@case("C-ERR-10", "nothing listens at the address: a temporary error", "[client.1]", NETWORK)
async def nothing_listens(trial: Trial) -> None:
    address = trial.address()
    await trial.daemon.stop()
    try:
        await trial.driver.call("connect", **address, limits={"retry": 1500}, within=10)
        await trial.driver.call("open", within=15)
    except CallFailure as error:
        trial.expect(not error.is_permanent, "an error of class temporary", error)
    else:
        raise Failure("a failure of `connect` or of `open`", "success")


@case("C-ERR-11", "pauses between attempts grow", "[client.2]")
async def growing_pauses(trial: Trial) -> None:
    session = trial.journal.open()
    await trial.connect()
    await trial.attach(session)
    await trial.expect_entries(session)
    for operation in ("state", "stream", "me"):
        trial.daemon.fault(operation, refuse(503), times=1000)
    trial.daemon.cut_streams(session.id)
    before = {name: len(trial.daemon.made(name)) for name in ("state", "stream", "me")}
    made = lambda: max(len(trial.daemon.made(name)) - count for name, count in before.items())  # noqa: E731
    await trial.driver.wait(lambda: made() > 12, 5 / trial.time_scale)
    trial.expect(made() >= 2, "at least two attempts within 5 s", made())
    trial.expect(made() <= 12, "at most 12 attempts within 5 s of 503", made())


# Bounds.


EVENTS = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
JSON = {"content-type": "application/json", "transfer-encoding": "chunked"}


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _offer(reply: Reply, begin: bytes, piece: bytes, bound: int, offered: list[int]) -> None:
    """Sends without end, until the client closes the connection or far too much was taken."""
    try:
        await reply.write(begin)
        while offered[0] < OFFERED and offered[0] < bound * 8:
            async with asyncio.timeout(60):
                await reply.write(piece)
            offered[0] += len(piece)
    except (OSError, TimeoutError):
        pass
    reply.writer.transport.abort()


FILLER = b"a" * 65536
BODY = _chunk(b"a" * 262144)
LINES = _chunk((b"data: " + b"a" * 8000 + b"\n") * 32)
HEAD = b"HTTP/1.1 201 Created\r\nx-filler: "


def endless(case_id: str, title: str, operation: str, *answer: Any) -> Any:
    return case(case_id, title, "[client.4]", operation=operation, answer=answer)


# The head that is whole, how the part without end begins, what repeats, the bound, and its name.
@endless("C-BND-01", "an answer whose body has no end is left", "open", JSON, _chunk(b'{"id":"'), BODY, BOUND, "the answer")
@endless("C-BND-02", "a line of a stream that has no end is left", "stream", EVENTS, _chunk(b"data: "), BODY, BOUND, "the line")
@endless("C-BND-03", "an event whose lines have no end is left", "stream", EVENTS, b"", LINES, BOUND, "the event")
@endless("C-BND-04", "a head that has no end is left", "open", None, HEAD, FILLER, 4 * MIB, "the head")
@endless("C-BND-06", "a chunk whose length has no end is left", "open", JSON, b"", b"f" * 65536, 4 * MIB, "the length")
async def endless_answer(trial: Trial, operation: str, answer: tuple[Any, ...]) -> None:
    """Has one answer never end, and expects that the client leaves it."""
    headers, begin, piece, bound, what = answer
    offered, done = [0], asyncio.Event()

    async def fault(_: Request, reply: Reply) -> bool:
        if headers:
            await reply.head(201 if operation == "open" else 200, headers)
        await _offer(reply, begin, piece, bound, offered)
        done.set()
        return True

    session = trial.journal.open()
    trial.daemon.fault(operation, fault)
    await trial.connect()
    before = trial.driver.peak_memory()
    if operation == "open":
        pending = await trial.driver.start("open")
    else:
        pending = await trial.driver.start("attach", session=session.id, after=0)
    slack = 8 * MIB  # what sockets hold
    try:
        async with asyncio.timeout(30 * trial.time_scale):
            await done.wait()
    except TimeoutError as error:
        raise Failure(f"the client to leave {what}", f"{offered[0]} bytes taken, and the connection open") from error
    trial.expect(offered[0] <= bound + slack, f"{what} to be left after at most {bound} bytes", f"{offered[0]} bytes taken")
    grown = trial.driver.peak_memory() - before
    trial.expect(grown <= MEMORY, f"at most {MEMORY // MIB} MiB more memory", f"{grown // MIB} MiB")
    pending.cancel()


@case("C-BND-05", "an answer that grows by decompression is left", "[client.4]")
async def compressed_bomb(trial: Trial) -> None:
    done = asyncio.Event()
    accepted: list[str] = []
    await trial.connect()
    before = trial.driver.peak_memory()

    async def fault(request: Request, reply: Reply) -> bool:
        accepted.append(request.headers.get("accept-encoding", ""))
        if "gzip" not in accepted[0] or "identity" in accepted[0]:
            done.set()
            return False
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        try:
            await reply.head(201, {**JSON, "content-encoding": "gzip"})
            await reply.write(_chunk(packer.compress(b'{"id":"')))
            for _ in range(640):
                packed = packer.compress(b"a" * MIB) + packer.flush(zlib.Z_SYNC_FLUSH)
                async with asyncio.timeout(20):
                    await reply.write(_chunk(packed))
                if trial.driver.peak_memory() - before > MEMORY:
                    break
            async with asyncio.timeout(5):
                await reply.reader.read(1)
        except (OSError, TimeoutError):
            pass
        done.set()
        reply.writer.transport.abort()
        return True

    trial.daemon.fault("open", fault)
    pending = await trial.driver.start("open")
    async with asyncio.timeout(40 * trial.time_scale):
        await done.wait()
    await trial.quiet(0.1)
    grown = trial.driver.peak_memory() - before
    trial.expect(grown <= MEMORY, f"at most {MEMORY // MIB} MiB more memory for a body of 640 MiB", f"{grown // MIB} MiB")
    pending.cancel()


# Inputs that are sent once.


@case("C-SND-01", "an input whose answer is lost counts once", "[client.3]", ALL, lost="answer")
@case("C-SND-02", "an input that is lost on its way is sent again", "[client.3]", ALL, lost="request")
async def lost_input(trial: Trial, lost: str) -> None:
    session = await trial.open()
    trial.lose("input", lost)
    await trial.send(session, "a", "hello")
    await trial.expect_completed("a", "hello")
    await trial.expect_entries(session)
    await trial.quiet()
    begun = sum(each["type"] == "turn.begin" for each in session.entries)
    trial.expect(begun == 1, "one input in the journal", f"{begun}; {trial.seen_requests('input')()}")
    if trial.transport == "http":
        made = trial.daemon.made("input")
        trial.expect(len({each.key for each in made}) == 1, "one key for all attempts", trial.seen_requests("input"))


@case("C-SND-03", "each input has a key of its own", "[client.3]", ALL)
async def keys_of_inputs(trial: Trial) -> None:
    session = await trial.open()
    for turn in ("a", "b"):
        await trial.send(session, turn, "hello")
        await trial.expect_completed(turn, "hello")
    ids = [each.get("message_id") for each in session.entries if each["type"] == "turn.begin"]
    trial.expect(len(set(ids)) == 2 and all(ids), "two inputs with different message ids", ids)


@case("C-SND-04", "a session whose answer is lost is opened once, or the call fails", "[client.3]", ALL)
async def lost_answer_of_open(trial: Trial) -> None:
    await trial.connect()
    trial.lose("open", "answer")
    try:
        await trial.driver.call("open")
    except CallFailure as failure:
        trial.expect(not failure.is_permanent, "an error of class temporary", failure)
    opened = len(trial.journal.sessions)
    trial.expect(opened == 1, "one session", f"{opened}; {trial.seen_requests('open')()}")


@case("C-SND-05", "a steer whose answer is lost counts once", "[client.3]", ALL)
async def lost_answer_of_steer(trial: Trial) -> None:
    session = await trial.hold()
    trial.lose("input", "answer")
    ok = await trial.driver.call("steer", turn="a", text="left")
    trial.expect(ok.get("delivered") is True, "delivered: true", ok)
    await trial.quiet(0.2)
    steers = sum(each["type"] == "input.steered" for each in session.entries)
    trial.expect(steers == 1, "one steer in the journal", steers)


@case("C-SND-06", "an answer to a permission that is lost on its way is sent again", "[client.3]", ALL)
async def lost_decision(trial: Trial) -> None:
    session = await trial.open()
    await trial.send(session, "a", "ask")
    request = await trial.asked(session)
    trial.lose("answer", "request")
    await trial.driver.call("decide", session=session.id, request=request, approved=True)
    await trial.expect_completed("a", "decided: True")


@case("C-SND-07", "a stop whose answer is lost ends the turn once", "[client.3]", ALL)
async def lost_stop(trial: Trial) -> None:
    session = await trial.hold()
    trial.lose("stop", "answer")
    await trial.driver.call("stop", session=session.id, turn="a")
    end = await trial.expect_turn("a")
    trial.expect(end.get("status") == "stopped", "the status stopped", end)
    await trial.send(session, "b", "hello")
    await trial.expect_completed("b", "hello")
