"""Cases of requests (C-REQ), of the stream over all sessions (C-EVT), of lists and files (C-LST, C-FIL), of the token (C-SEC)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable

from ..driver import CallFailure
from ..http_daemon import TOKEN, HttpDaemon, Reply, Request
from ..journal import Journal, Message, Session, encode
from ..trial import ALL, NETWORK, Failure, Trial, case, refuse

OTHER = {"by": "t-other/l-9", "name": "Anna"}


# Requests.


async def _asking(trial: Trial) -> tuple[Session, str]:
    """Opens a session whose turn has asked for a permission."""
    session = await trial.open()
    await trial.send(session, "a", "ask")
    return session, await trial.asked(session)


@case("C-REQ-01", "a callback approves", "[permission.1]", ALL, approved=True)
@case("C-REQ-02", "a callback denies", "[permission.4]", ALL, approved=False)
async def callback_decides(trial: Trial, approved: bool) -> None:
    session, request = await _asking(trial)
    await trial.driver.call("decide", session=session.id, request=request, approved=approved)
    await trial.expect_completed("a", f"decided: {approved}")
    decided = session.decided[request]
    trial.expect(decided.get("approved") is approved, "an approval" if approved else "a denial", decided)


@case("C-REQ-03", "a request that someone else decides ends the callback, with who decided", "[client.6]", ALL)
async def decided_elsewhere(trial: Trial) -> None:
    session, request = await _asking(trial)
    session.decide(request, approved=True, **OTHER)
    end = await _callback_end(trial, request, "decided")
    trial.expect(end.get("name") == "Anna" or end.get("by") == OTHER["by"], "who decided: Anna, t-other/l-9", end)
    await trial.expect_completed("a", "decided: True")


@case("C-REQ-04", "a request that is withdrawn ends the callback", "[client.6]", ALL)
async def withdrawn_request(trial: Trial) -> None:
    session, request = await _asking(trial)
    session.decide(request, cancelled=True, approved=False, reason="timeout")
    await _callback_end(trial, request, "withdrawn")


async def _callback_end(trial: Trial, request: str, because: str) -> Message:
    """Expects the one end of a callback, and no answer of the client."""
    await trial.until(
        lambda: trial.driver.of("asked.end", request=request), "the end of the callback", trial.seen_events, within=5
    )
    ends = trial.driver.of("asked.end", request=request)
    trial.expect(len(ends) == 1, "one end of the callback", ends)
    trial.expect(ends[0].get("because") == because, f"the reason `{because}`", ends[0])
    await trial.quiet(0.2)
    made = len(trial.answers())
    trial.expect(made == 0, "no answer of the client", f"{made}")
    return ends[0]


@case("C-REQ-05", "a 403 of an answer is reported, and the answer is not repeated", "[client.8]")
async def forbidden_answer(trial: Trial) -> None:
    trial.daemon.may_approve = False
    session, request = await _asking(trial)
    await _decide_refused(trial, session, request, 403)
    trial.expect(request in session.requests, "the request to be open", "it is decided")
    session.decide(request, approved=True, **OTHER)
    await trial.expect_completed("a", "decided: True")


@case("C-REQ-06", "a 409 of a late answer is reported, and the answer is not repeated", "[client.8]")
async def late_answer(trial: Trial) -> None:
    session, request = await _asking(trial)
    trial.daemon.fault("answer", refuse(409, "the request is not open"))
    await _decide_refused(trial, session, request, 409)
    session.decide(request, approved=False, **OTHER)
    await trial.expect_completed("a", "decided: False")


async def _decide_refused(trial: Trial, session: Session, request: str, status: int) -> None:
    errors: list[Message] = []
    try:
        await trial.driver.call("decide", session=session.id, request=request, approved=True)
        await trial.until(
            lambda: trial.driver.of("answer.refused", request=request), "the event `answer.refused`", trial.seen_events, within=5
        )
        errors = [each.get("error") or {} for each in trial.driver.of("answer.refused", request=request)]
    except CallFailure as failure:
        errors = [failure.error]
    trial.expect(errors[0].get("status") in (None, status), f"the status {status}", errors)
    trial.expect(errors[0].get("class") == "permanent", "an error of class permanent", errors)
    await trial.quiet(0.3)
    made = len(trial.answers())
    trial.expect(made == 1, "one request with the answer", made)


@case("C-REQ-07", "a callback that waits outlives a lost connection, and is not begun twice", "[journal.6]", ALL)
async def callback_over_a_cut(trial: Trial) -> None:
    session, request = await _asking(trial)
    await trial.daemon_cut()
    await trial.quiet(0.3)
    session.append("output", content="after the cut")
    await trial.expect_entries(session)
    asked = len(trial.driver.of("asked", request=request))
    trial.expect(asked == 1, "one callback", asked)
    await trial.driver.call("decide", session=session.id, request=request, approved=True)
    await trial.expect_completed("a", "decided: True")


@case("C-REQ-08", "a question is answered by its values", "[permission.2]", ALL)
async def answered_question(trial: Trial) -> None:
    session = await trial.open()
    await trial.send(session, "a", "ask question")
    request = await trial.asked(session, "question")
    await trial.driver.call("decide", session=session.id, request=request, values={"answer": "blue"})
    await trial.expect_completed("a", "decided: {'answer': 'blue'}")


async def _left_to_others(trial: Trial) -> tuple[Session, str]:
    """Opens a session whose turn has asked for a permission, with a client that leaves requests to others."""
    session = await trial.open(requests="leave")
    await trial.send(session, "a", "ask")
    await trial.until(lambda: session.requests, "a request", trial.seen_events)
    [request] = session.requests
    return session, request


async def _no_callback(trial: Trial) -> None:
    await trial.quiet(0.2)
    trial.expect(not trial.driver.of("asked") and not trial.answers(), "no callback and no answer", trial.seen_events)


@case("C-REQ-09", "requests that are left to others have no callback, and are answered by id", "[journal.6]", ALL)
async def answered_by_id(trial: Trial) -> None:
    session, request = await _left_to_others(trial)
    await _no_callback(trial)
    await trial.driver.call("answer", session=session.id, request=request, approved=True)
    await trial.expect_completed("a", "decided: True")


@case("C-REQ-10", "an answer by id that comes too late fails, and is not repeated", "[client.8]")
async def late_answer_by_id(trial: Trial) -> None:
    session, request = await _left_to_others(trial)
    session.decide(request, approved=False, **OTHER)
    await trial.expect_completed("a", "decided: False")
    await trial.expect_failure("answer", permanent=True, status=409, session=session.id, request=request, approved=True)
    trial.expect(len(trial.answers()) <= 1, "at most one request with the answer", len(trial.answers()))


@case("C-REQ-11", "a request that was decided while the client was away has no callback", "[journal.5]", ALL)
async def decided_before(trial: Trial) -> None:
    session = trial.journal.open()
    session.submit("ask", "m-other", None, "t-other/l-1", [])
    await trial.driver.wait(lambda: session.requests, 2)
    [request] = session.requests
    session.decide(request, approved=True, **OTHER)
    await trial.connect()
    await trial.attach(session)
    await trial.expect_entries(session)
    await _no_callback(trial)


# The stream over all sessions.


def _changes(trial: Trial) -> list[Message]:
    return [each["change"] for each in trial.driver.of("change")]


async def _watch(trial: Trial) -> None:
    """Connects, and follows the stream over all sessions from its snapshot on."""
    await trial.connect()
    await trial.driver.call("changes")
    await trial.until(lambda: _changes(trial), "a snapshot", trial.seen_events)


def _lists(changes: Iterable[Message], session_id: str) -> bool:
    """Whether a snapshot has a session."""
    return any(each.get("id") == session_id for change in changes for each in change.get("sessions") or ())


async def _expect_change(trial: Trial, **members: str) -> None:
    await trial.until(
        lambda: any(members.items() <= each.items() for each in _changes(trial)), f"a change {members}", trial.seen_events
    )


@case("C-EVT-01", "the stream over all sessions brings a snapshot and each change once", "docs/gateway.md#changes-of-all-sessions", NETWORK)
async def changes(trial: Trial) -> None:
    trial.journal.open("before")
    await _watch(trial)
    await trial.until(lambda: _lists(_changes(trial), "before"), "the session `before` in a snapshot", trial.seen_events)
    session = trial.journal.open("after")
    session.submit("hello", "m-1", None, "t-other/l-1", [])
    await _expect_change(trial, type="turn", change="ended", session_id="after")
    kinds = [(each.get("type"), each.get("change")) for each in _changes(trial) if each.get("session_id") == "after"]
    trial.expect(kinds == [("session", "opened"), ("turn", "started"), ("turn", "ended")], "three changes in order", kinds)


@case("C-EVT-02", "the stream over all sessions continues behind its last event", "docs/gateway.md#changes-of-all-sessions", NETWORK)
async def changes_continue(trial: Trial) -> None:
    await _watch(trial)
    trial.journal.open("first")
    await _expect_change(trial, change="opened", session_id="first")
    trial.daemon.cut_streams("")
    for name in ("second", "third"):
        trial.journal.open(name)
    await _expect_change(trial, change="opened", session_id="third")
    await trial.quiet(0.1)
    opened = [each.get("session_id") for each in _changes(trial) if each.get("change") == "opened"]
    trial.expect(opened == ["first", "second", "third"], "each change once: first, second, third", opened)


@case("C-EVT-03", "`reset` voids what the stream gave, and a new snapshot follows", "docs/gateway.md#changes-of-all-sessions", NETWORK)
async def changes_reset(trial: Trial) -> None:
    await _watch(trial)
    trial.journal.open("first")
    await _expect_change(trial, change="opened", session_id="first")
    await trial.daemon.stop()
    trial.journal.restart()
    trial.journal.open("unseen")
    await trial.daemon.start()
    is_reset = lambda each: each["event"] == "changes.reset" or (each.get("change") or {}).get("type") == "reset"  # noqa: E731
    await trial.until(lambda: any(map(is_reset, trial.driver.events)), "a reset", trial.seen_events)
    at = next(index for index, each in enumerate(trial.driver.events) if is_reset(each))
    later = lambda: [each.get("change") or {} for each in trial.driver.events[at:]]  # noqa: E731
    await trial.until(lambda: _lists(later(), "unseen"), "a snapshot behind the reset", trial.seen_events)


@case("C-EVT-04", "a refused stream over all sessions ends, and is not retried", "[client.1]", NETWORK)
async def changes_refused(trial: Trial) -> None:
    await trial.connect()
    trial.daemon.fault("changes", refuse(403), times=100)
    try:
        await trial.driver.call("changes")
    except CallFailure as failure:
        trial.expect(failure.is_permanent, "an error of class permanent", failure)
    else:
        await trial.until(lambda: trial.driver.of("changes.ended"), "the event `changes.ended`", trial.seen_events)
        error = trial.driver.of("changes.ended")[0].get("error") or {}
        trial.expect(error.get("class") == "permanent", "an error of class permanent", error)
    await trial.quiet(0.2)
    made = len(trial.daemon.made("changes"))
    trial.expect(made == 1, "one request", made)


# Lists, history and files.


@case("C-LST-01", "sessions are listed page by page", "[journal.12]", ALL)
async def listed_sessions(trial: Trial) -> None:
    names = [f"listed-{number}" for number in range(5)]
    for name in names:
        trial.journal.open(name)
    await trial.connect()
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(4):
        page = await trial.driver.call("sessions", filter={"limit": 2, **({"cursor": cursor} if cursor else {})})
        seen += [each.get("id") or each.get("session_id") for each in page.get("sessions") or ()]
        cursor = page.get("next")
        if not cursor:
            break
    trial.expect(sorted(seen) == names, "five sessions over three pages, each once", seen)


@case("C-LST-02", "the history is read page by page", "docs/gateway.md#history", ALL)
async def history_pages(trial: Trial) -> None:
    session = trial.journal.open()
    for number in range(2, 8):
        session.append("output", content=f"entry {number}")
    await trial.connect()
    page = await trial.driver.call("history", session=session.id, **{"from": 2, "limit": 3})
    numbers = [each.get("seq") for each in page.get("entries") or ()]
    trial.expect(numbers == [2, 3, 4], "the entries 2 to 4", numbers)
    trial.expect(page.get("next") == 5, "the next page from 5", page.get("next"))


@case("C-LST-05", "a page names entries that are lost, and the next page begins behind them", "docs/gateway.md#history", ALL)
async def lost_entries(trial: Trial) -> None:
    session = trial.journal.open()
    for number in range(2, 10):
        session.append("output", content=f"entry {number}")
    session.lost = {4, 5}
    await trial.connect()
    page = await trial.driver.call("history", session=session.id, **{"from": 4, "limit": 2})
    trial.expect(page.get("entries") == [], "no entries", page.get("entries"))
    lost = [number for gap in page.get("lost") or () for number in range(gap["from"], gap["to"] + 1)]
    trial.expect(lost == [4, 5], "the entries 4 and 5 as lost", page.get("lost"))
    trial.expect(page.get("next") == 6, "the next page from 6", page.get("next"))


@case("C-LST-03", "a list that is cut is never part of a result", "[client.2]")
async def cut_list(trial: Trial) -> None:
    session = trial.journal.open()
    for number in range(2, 40):
        session.append("output", content=f"entry {number}")

    async def fault(request: Request, reply: Reply) -> bool:
        _, body, *_ = trial.daemon.act(request)
        data = encode(body)
        await reply.head(200, {"content-type": "application/json", "content-length": str(len(data))})
        await reply.write(data[: len(data) // 2])
        reply.writer.close()
        return True

    await trial.connect()
    trial.daemon.fault("history", fault)
    try:
        page = await trial.driver.call("history", session=session.id, **{"from": 1})
    except CallFailure as failure:
        trial.expect(not failure.is_permanent, "an error of class temporary", failure)
    else:
        seen = len(page.get("entries") or ())
        trial.expect(seen == 39, "39 entries, or a temporary error", seen)


@case("C-LST-04", "a list whose answer is lost is asked for again, or the call fails", "[client.2]", ("http", "socket", "command"))
async def lost_list(trial: Trial) -> None:
    trial.journal.open("listed")
    await trial.connect()
    trial.lose("sessions", "answer")
    try:
        page = await trial.driver.call("sessions", filter={"limit": 2})
    except CallFailure as failure:
        trial.expect(not failure.is_permanent, "an error of class temporary", failure)
    else:
        seen = [each.get("id") or each.get("session_id") for each in page.get("sessions") or ()]
        trial.expect(seen == ["listed"], "the one session", seen)


@case("C-FIL-01", "a file goes with an input", "docs/gateway.md#uploads", NETWORK)
async def file_in(trial: Trial) -> None:
    path = trial.folder / "note.txt"
    data = b"a note \x00\xff" * 1000
    path.write_bytes(data)
    session = await trial.open()
    await trial.send(session, "a", "hello", files=[str(path)])
    await trial.expect_completed("a", "hello")
    begin = next(each for each in session.entries if each["type"] == "turn.begin")
    sha256 = hashlib.sha256(data).hexdigest()
    trial.expect(begin.get("files") == [sha256], f"the file {sha256[:12]} of the input", begin)


@case("C-FIL-02", "a file of the agent is read whole", "docs/gateway.md#paths", NETWORK)
async def file_out(trial: Trial) -> None:
    session, entry = await _with_file(trial)
    ok = await trial.driver.call("get_file", session=session.id, seq=entry["seq"])
    trial.expect(ok.get("sha256") == entry["sha256"], f"contents with the sum {entry['sha256'][:12]}", ok)


@case("C-FIL-03", "a file that is cut or changed is never a result", "[client.2]", NETWORK)
async def changed_file(trial: Trial) -> None:
    session, entry = await _with_file(trial)
    good = session.files[entry["sha256"]]

    async def cut(_: Request, reply: Reply) -> bool:
        await reply.head(200, {"content-type": "application/octet-stream", "content-length": str(len(good))})
        await reply.write(good[:5])
        reply.writer.close()
        return True

    trial.daemon.fault("get_file", cut)
    await _good_or_failed(trial, session, entry)
    session.files[entry["sha256"]] = b"something else entirely"
    await _good_or_failed(trial, session, entry)


async def _with_file(trial: Trial) -> tuple[Session, Message]:
    session = await trial.open()
    await trial.send(session, "a", "file")
    await trial.expect_completed("a")
    await trial.expect_entries(session)
    return session, next(each for each in session.entries if each["type"] == "file.output")


async def _good_or_failed(trial: Trial, session: Session, entry: Message) -> None:
    try:
        ok = await trial.driver.call("get_file", session=session.id, seq=entry["seq"])
    except CallFailure:
        return
    trial.expect(ok.get("sha256") == entry["sha256"], "the announced contents, or an error", ok)


# The token, and addresses.


@case("C-SEC-01", "the token is in no URL and in no report", "[client.5]", NETWORK)
async def token_in_reports(trial: Trial) -> None:
    session = await trial.open()
    await trial.send(session, "a", "hello")
    await trial.expect_completed("a")
    trial.daemon.fault("*", refuse(403, "no"), times=1)
    try:
        await trial.driver.call("open")
    except CallFailure:
        pass
    with_token = [str(each) for each in trial.daemon.requests if TOKEN in each.target]
    trial.expect(not with_token, "no URL with the token", with_token)
    stderr = getattr(trial.driver, "stderr", b"").decode(errors="replace")
    trial.expect(TOKEN not in "\n".join(trial.driver.output) + stderr, "no report with the token", "one")


@case("C-SEC-02", "a redirect is not followed with the token", "[client.5]")
async def redirects(trial: Trial) -> None:
    other = HttpDaemon(Journal())
    await other.start()
    try:

        async def fault(request: Request, reply: Reply) -> bool:
            await reply.send(307, None, {"location": f"{other.url}{request.target}"})
            return True

        await trial.connect()
        trial.daemon.fault("open", fault, times=100)
        with_token = lambda: [each for each in other.requests if TOKEN in str(each.headers) + each.target]  # noqa: E731
        try:
            await trial.driver.call("open", within=3)
        except (CallFailure, TimeoutError):
            pass
        else:
            raise Failure("`open` to fail", f"success; {len(with_token())} requests with the token went to the other address")
        session = trial.journal.open()
        trial.daemon.fault("stream", fault, times=100, session=session.id)
        pending = await trial.driver.start("attach", session=session.id, after=0)
        await trial.quiet()
        pending.cancel()
        trial.expect(not with_token(), "no request with the token at the other address", [str(each) for each in with_token()])
    finally:
        await other.stop()


@case("C-ALT-01", "of several addresses the next one is tried", "docs/scale.md", NETWORK)
async def several_addresses(trial: Trial) -> None:
    dead = HttpDaemon(Journal())
    await dead.start()
    await dead.stop()
    address = {**trial.address(), "urls": [dead.url, trial.daemon.url]}
    del address["url"]
    await trial.driver.call("connect", **address)
    session = await trial.open_more()
    await trial.send(session, "a", "hello")
    await trial.expect_completed("a", "hello")


@case("C-ALT-02", "a daemon that goes away leaves its sessions to the next address", "docs/scale.md")
async def next_address(trial: Trial) -> None:
    second = HttpDaemon(trial.journal)
    await second.start()
    try:
        address = {**trial.address(), "urls": [trial.daemon.url, second.url]}
        del address["url"]
        await trial.driver.call("connect", **address)
        session = await trial.open_more()
        first, other = (trial.daemon, second) if trial.daemon.made("open") else (second, trial.daemon)
        await first.stop()
        await asyncio.sleep(0.1)
        await trial.send(session, "a", "hello")
        await trial.expect_completed("a", "hello")
        trial.expect(other.made("stream"), "a stream at the other address", "none")
    finally:
        await second.stop()
