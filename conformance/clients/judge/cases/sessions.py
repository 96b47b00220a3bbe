"""Cases of turns (C-TRN), of lost connections (C-RSM) and of the bytes of a stream (C-FRM)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from ..http_daemon import StreamPlan
from ..journal import Journal, Message, Session, Turn, encode
from ..trial import ALL, NETWORK, Trial, case, lose_request

TEXT = "grüße, 世界 🙂"  # characters of two, three and four bytes


# Turns.


@case("C-TRN-01", "a plain turn", "[journal.7]", ALL)
async def plain_turn(trial: Trial) -> None:
    session = await trial.open()
    await trial.send(session, "a", TEXT)
    await trial.expect_completed("a", TEXT)
    await trial.expect_entries(session)


async def _two_inputs(trial: Trial) -> Session:
    """Opens a session whose turn `a` runs while the input `b` waits."""
    session = await trial.hold()
    await trial.send(session, "b", "second", queue=True)
    await trial.until(lambda: session.waiting, "a second input that waits", trial.seen_requests("input"))
    return session


@case("C-TRN-02", "two inputs at once are two turns, in their order", "[turn.3]", ALL)
async def queued_turns(trial: Trial) -> None:
    session = await _two_inputs(trial)
    session.complete(session.running)  # type: ignore[arg-type]
    await trial.expect_completed("a")
    await trial.expect_completed("b", "second")
    await trial.expect_entries(session)


@case("C-TRN-03", "a turn is stopped", "[turn.4]", ALL)
async def stopped_turn(trial: Trial) -> None:
    session = await trial.hold()
    await trial.driver.call("stop", session=session.id, turn="a")
    end = await trial.expect_turn("a")
    trial.expect(end.get("status") == "stopped", "the status stopped", end)


@case("C-TRN-04", "a steer is added to the turn that runs", "[turn.10]", ALL)
async def steered_turn(trial: Trial) -> None:
    session = await trial.hold()
    ok = await trial.driver.call("steer", turn="a", text="left")
    trial.expect(ok.get("delivered") is True, "delivered: true", ok)
    await trial.until(lambda: _count(session, "input.steered") == 1, "one steer", lambda: session.entries)
    session.complete(session.running)  # type: ignore[arg-type]
    await trial.expect_completed("a", "steered: left")


@case("C-TRN-05", "an input that waits is withdrawn", "[turn.9]", ALL)
async def withdrawn_input(trial: Trial) -> None:
    session = await _two_inputs(trial)
    await trial.begun(session, 2)
    await trial.driver.call("withdraw", turn="b")
    end = await trial.expect_turn("b")
    trial.expect(end.get("status") == "stopped", "the status stopped of the withdrawn input", end)
    trial.expect(session.running is not None, "the first turn to run on", "it has ended")


@case("C-TRN-06", "separate messages of an answer stay separate", "[journal.4]", ALL)
async def separate_messages(trial: Trial) -> None:
    session = await trial.open()
    await trial.send(session, "a", "messages")
    end = await trial.expect_completed("a")
    if "text" in end:
        trial.expect(re.fullmatch(r"ab\s+c", end["text"]), "the texts 'ab' and 'c' apart", repr(end["text"]))
    outputs = [each for each in trial.driver.entries(session.id) if each["type"] == "output"]
    seen = [(each.get("message_id"), each.get("content")) for each in outputs]
    trial.expect(seen == [("m1", "a"), ("m1", "b"), ("m2", "c")], "the outputs with their message ids", seen)


@case("C-TRN-07", "a failed turn is reported as failed", "[turn.7]", ALL)
async def failed_turn(trial: Trial) -> None:
    session = await trial.open()
    await trial.send(session, "a", "fail")
    end = await trial.expect_turn("a")
    trial.expect(end.get("status") == "failed", "the status failed", end)
    trial.expect(end.get("category") in (None, "overloaded"), "the category overloaded", end)


# Lost connections.


def _three_entries(session: Session) -> Session:
    session.append("output", content=TEXT)
    session.append("output", content="third")
    return session


async def _follow(trial: Trial, session: Session, **members: Any) -> Session:
    """Connects, attaches, and expects all entries of a session that there is."""
    await trial.connect(**members)
    await trial.attach(session)
    await trial.expect_entries(session)
    return session


async def _follow_three(trial: Trial, **members: Any) -> Session:
    return await _follow(trial, _three_entries(trial.journal.open()), **members)


@case("C-RSM-01", "a stream is cut at each byte of an event", "[journal.5]")
async def cut_at_each_byte(trial: Trial) -> None:
    journal = trial.journal
    model = _three_entries(journal.open("model"))
    sizes = [len(_event(entry)) for entry in model.entries]
    points = range(sizes[0], sizes[0] + sizes[1] + 1)
    for point in points:
        _three_entries(journal.open(f"cut-{point}"))
    hows = ("abort", "close", "end")

    def plan(session: Session, after: int, number: int) -> StreamPlan:
        if number > 1:
            session.close()  # a browser has six connections to a daemon: each is done with soon
            return StreamPlan()
        # The names of the sessions differ in length from the model's: points are counted from the end of the first event.
        point = int(session.id[4:]) - sizes[0] + len(_event(session.entries[0]))
        return StreamPlan(cut_at=point, cut_how=hows[int(session.id[4:]) % 3])

    trial.daemon.plan = plan
    await trial.connect()
    for point in points:
        await trial.attach(journal.sessions[f"cut-{point}"])
    for session in (journal.sessions[f"cut-{point}"] for point in points):
        reopened = lambda session=session: session.closed  # noqa: E731
        await trial.until(reopened, f"a second stream of {session.id}", lambda: f"{trial.daemon.streams.get(session.id)} streams", 20)
        await trial.expect_entries(session, within=20)


@case("C-RSM-02", "an attach behind an entry brings only later ones", "[journal.5]", ALL)
async def attach_behind(trial: Trial) -> None:
    session = _three_entries(trial.journal.open())
    await trial.connect()
    await trial.attach(session, after=2)
    await trial.expect_entries(session, after=2)
    session.append("output", content="later")
    await trial.expect_entries(session, after=2)


@case("C-RSM-03", "the daemon restarts on the same journal", "[journal.10]", ALL)
async def daemon_restarts(trial: Trial) -> None:
    session = await trial.open()
    await trial.send(session, "a", "first")
    await trial.expect_completed("a", "first")
    await trial.send(session, "b", "hold")
    await trial.begun(session, 2)
    await trial.daemon_stop()
    trial.journal.restart()
    await trial.daemon_start()
    end = await trial.expect_turn("b")
    trial.expect(end.get("status") == "failed", "the status failed of the turn that the restart has ended", end)
    await trial.send(session, "c", "third")
    await trial.expect_completed("c", "third")
    await trial.expect_entries(session)


def _replace_third(journal: Journal, session: Session) -> None:
    journal.epoch = 2
    session.entries.pop()
    session.append("output", content="another third entry")
    session.append("output", content="fourth")


def _drop_two(journal: Journal, session: Session) -> None:
    del session.entries[1:]


@case("C-RSM-04", "another entry at the client's position is not continued", "[journal.5]", change=_replace_third)
@case("C-RSM-05", "a journal with fewer entries than the client has is refused", "[journal.5]", change=_drop_two)
async def other_journal(trial: Trial, change: Callable[[Journal, Session], None]) -> None:
    session = await _follow_three(trial)
    await trial.daemon.stop()
    change(trial.journal, session)
    await trial.daemon.start()
    await trial.expect_permanent_end(session)
    await _no_more(trial, "stream", session)
    numbers = [each.get("seq") for each in trial.driver.entries(session.id)]
    trial.expect(numbers == [1, 2, 3], "no entry behind those of the first epoch", numbers)


@case("C-RSM-06", "entries that come twice are handed out once", "[journal.3]")
async def repeated_entries(trial: Trial) -> None:
    trial.daemon.plan = lambda session, after, number: StreamPlan(rewrite=lambda text, entry: text * 2)
    session = await _follow_three(trial)
    await trial.send(session, "a", "hello")
    await trial.expect_completed("a", "hello")
    await trial.expect_entries(session)


@case("C-RSM-07", "`lag` is reported, and what follows is handed out", "[journal.8]", NETWORK)
async def lost_entries(trial: Trial) -> None:
    session = trial.journal.open()
    for number in range(2, 8):
        session.append("output", content=f"entry {number}")
    session.lost = {3, 4, 5}
    await trial.connect()
    await trial.attach(session)
    numbers = lambda: [each.get("seq") for each in trial.driver.entries(session.id) if each["type"] != "lag"]  # noqa: E731
    await trial.until(lambda: len(numbers()) >= 4, "the entries 1, 2, 6, 7", numbers)
    trial.expect(numbers() == [1, 2, 6, 7], "the entries 1, 2, 6, 7", numbers())
    lags = [*trial.driver.of("lag"), *(each for each in trial.driver.entries(session.id) if each["type"] == "lag")]
    seen = [(each.get("from"), each.get("to")) for each in lags]
    trial.expect(seen == [(3, 5)], "one report that the entries 3 to 5 are lost", seen)


@case("C-RSM-08", "an entry that is missing without `lag` is read again", "[journal.3]")
async def missing_entry(trial: Trial) -> None:
    def plan(session: Session, after: int, number: int) -> StreamPlan:
        is_bad = number == 1
        return StreamPlan(rewrite=lambda text, entry: b"" if is_bad and entry["seq"] == 3 else text)

    trial.daemon.plan = plan
    session = trial.journal.open()
    for number in range(2, 6):
        session.append("output", content=f"entry {number}")
    await _follow(trial, session)


def _end_first(trial: Trial, how: str) -> None:
    """Has the first stream of a session end behind its second entry."""
    trial.daemon.plan = lambda session, after, number: StreamPlan(upto=2, then=how) if number == 1 else StreamPlan()


@case("C-RSM-09", "`session.refused` ends the stream, and the client comes back", "docs/gateway.md#events-of-a-session")
async def refused_stream(trial: Trial) -> None:
    _end_first(trial, "refused")
    await _follow_three(trial)


@case("C-RSM-10", "a closed session ends, and is not asked for again", "docs/gateway.md#events-of-a-session", ALL)
async def closed_session(trial: Trial) -> None:
    session = await _follow_three(trial)
    session.close()
    ended = await trial.expect_end(session)
    trial.expect(not ended.get("error"), "an end without an error", ended)
    await trial.expect_entries(session)
    await _no_more(trial, "stream", session)


@case("C-RSM-11", "the daemon is away for a second", "[client.2]", ALL)
async def daemon_away(trial: Trial) -> None:
    session = await trial.open()
    await trial.daemon_stop()
    await asyncio.sleep(1)
    session.append("output", content="while it was away")
    await trial.daemon_start()
    await trial.expect_entries(session)
    await trial.send(session, "a", "hello")
    await trial.expect_completed("a", "hello")


@case("C-RSM-12", "a silent stream is a lost one", "[client.7]")
async def silent_stream(trial: Trial) -> None:
    _end_first(trial, "silent")
    await trial.connect(limits={"silence": 400})
    trial.needs_limit("silence")
    session = _three_entries(trial.journal.open())
    await trial.attach(session)
    await trial.expect_entries(session)


@case("C-RSM-13", "heartbeats keep a stream, and are no entries", "[client.7]")
async def heartbeats(trial: Trial) -> None:
    trial.daemon.heartbeat = 0.1
    silence = trial.time_scale  # in which a busy machine sends a heartbeat
    session = await _follow_three(trial, limits={"silence": int(1000 * silence)})
    await asyncio.sleep(2 * silence)
    session.append("output", content="after the heartbeats")
    await trial.expect_entries(session)
    made = trial.daemon.made("stream", session.id)
    trial.expect(len(made) == 1, "one stream", f"{len(made)} streams")


@case("C-RSM-14", "a connection that is lost before the head of its answer is made again", "[client.2]")
async def lost_heads(trial: Trial) -> None:
    trial.daemon.fault("stream", lose_request, times=2)
    await _follow_three(trial)


# Bytes.


def _with_other_fields(text: bytes, entry: Message) -> bytes:
    return b": a comment\n\nretry: 50\nnonsense: 1\nnonsense\n\nevent: weather\ndata: {\"type\":\"rain\"}\n\n" + text


def _over_two_lines(text: bytes, entry: Message) -> bytes:
    head, data = text.rstrip(b"\n").split(b"data: ", 1)
    # A line of `data` may end wherever JSON has white space.
    first, rest = data.split(b",", 1)
    return b"data:" + first + b",\ndata: " + rest + b"\n" + head + b"\n\n"


OTHER_FIELDS = StreamPlan(rewrite=_with_other_fields)
SPLIT_DATA = StreamPlan(rewrite=_over_two_lines, preamble=b"\xef\xbb\xbf")
CUT_CHARACTERS = StreamPlan(splits=bytes(range(0x80, 0x100)), pause=0.005)
CUT_LINE_ENDS = StreamPlan(rewrite=_over_two_lines, newline=b"\r\n", splits=b"\r", pause=0.005)


@case("C-FRM-01", "one byte at a time", "[frame.4]", plan=StreamPlan(step=1))
@case("C-FRM-02", "lines that end with CR LF", "[frame.3]", plan=StreamPlan(newline=b"\r\n"))
@case("C-FRM-03", "characters are cut between two writes", "[frame.4]", plan=CUT_CHARACTERS)
@case("C-FRM-05", "comments, `retry` and unknown fields and events between entries", "[client.9]", plan=OTHER_FIELDS)
@case("C-FRM-06", "`data` over several lines, without a space, and a byte order mark", "[client.9]", plan=SPLIT_DATA)
@case("C-FRM-09", "a CR and its LF are cut between two writes", "[client.9]", plan=CUT_LINE_ENDS)
async def unusual_form(trial: Trial, plan: StreamPlan) -> None:
    """Expects all entries of a turn from a stream in an unusual form."""
    trial.daemon.plan = lambda session, after, number: plan
    session = await trial.open()
    await trial.send(session, "a", TEXT)
    await trial.expect_completed("a", TEXT, within=12)
    await trial.expect_entries(session)
    _one_stream(trial, session)


def _one_stream(trial: Trial, session: Session) -> None:
    made = trial.daemon.made("stream", session.id)
    trial.expect(len(made) == 1, "one stream, which is not lost", f"{len(made)} streams")


@case("C-FRM-04", "unknown types of entries and unknown members are no failure", "[journal.3]", ALL)
async def unknown_types(trial: Trial) -> None:
    async def agent(session: Session, turn: Turn) -> None:
        session.append("hologram", turn_id=turn.id, depth=3)
        session.output(turn, "seen", colour={"of": ["the", "sky"]})
        session.append("host.fact", fact="eclipse")

    trial.journal.agent = agent
    session = await trial.open()
    await trial.send(session, "a", "hello")
    await trial.expect_completed("a", "seen")
    # A client may leave out the entry whose type it does not know.
    wanted = [each["seq"] for each in session.entries if each["type"] != "hologram"]
    known = lambda: [each.get("seq") for each in trial.driver.entries(session.id) if each["type"] != "hologram"]  # noqa: E731
    await trial.until(lambda: known() == wanted, f"the entries {wanted}", known)
    await trial.quiet(0.2)
    if trial.transport == "http":
        _one_stream(trial, session)


SEPARATORS = "a\u2028b\u2029c\u0085d\x0be\x0cf"
LONG = "x" * (16 * 1024 * 1024 - 1024)


@case("C-FRM-07", "U+2028, U+2029 and U+0085 end no line", "[frame.2]", ALL, text=SEPARATORS)
@case("C-FRM-08", "an entry of nearly 16 MiB", "[frame.5]", ALL, text=LONG)
async def unusual_text(trial: Trial, text: str) -> None:
    async def agent(session: Session, turn: Turn) -> None:
        session.output(turn, text)

    trial.journal.agent = agent
    session = await trial.open()
    await trial.send(session, "a", "hello")
    await trial.expect_completed("a", text, within=20)
    await trial.expect_entries(session)


# Help.


def _event(entry: Message) -> bytes:
    return f"id: {entry['seq']}\nevent: {entry['type']}\ndata: ".encode() + encode(entry) + b"\n\n"


def _count(session: Session, kind: str) -> int:
    return sum(each["type"] == kind for each in session.entries)


async def _no_more(trial: Trial, operation: str, session: Session) -> None:
    """Expects that nothing more is asked of a session that is over."""
    before = len(trial.daemon.made(operation, session.id))
    more = lambda: len(trial.daemon.made(operation, session.id)) - before  # noqa: E731
    await trial.driver.wait(more, 1.2)
    trial.expect(more() == 0, "no further request for the session", lambda: f"{more()} more of `{operation}`")
