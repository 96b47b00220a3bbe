"""The client's side of HTTP, with servers that are not ours, and what waits for its readers."""

import asyncio
import json
import random

import pytest
from trunkline._inbox import WAITING, Inbox
from trunkline.client import Client, Refused, SessionEnded

CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def answer(status, body):
    body = json.dumps(body).encode()
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


def event(seq, kind, line_end=b"\n", **members):
    entry = {"type": kind, "session_id": "s", "seq": seq, "epoch": 1, **members}
    lines = [b": a comment", b"id: %d" % seq, b"event: " + kind.encode(), b"data: " + json.dumps(entry).encode(), b"", b""]
    return line_end.join(lines)


async def serving(respond, use):
    """Runs `use` with the address of a server that answers each request as `respond` says, and lists its requests."""
    asked = []

    async def take(reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:  # a client that was left
            return writer.close()
        asked.append(head)
        method, path, _ = head.split(" ", 2)
        await respond(method, path, writer)
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        await use("http://127.0.0.1:%d" % server.sockets[0].getsockname()[1])
    return asked


ATTACHED = {"id": "s", "agent_id": "a", "state": "idle", "first_seq": 1, "last_seq": 0, "epoch": 1, "requests": [], "scope": "control"}


def test_a_stream_is_read_however_it_is_cut_and_goes_on_where_it_broke():
    random.seed(1)
    texts = [f"text {number} ü\u2028" for number in range(60)]
    entries = [event(seq, "output", random.choice([b"\n", b"\r\n"]), content=text) for seq, text in enumerate(texts, 1)]
    entries.append(event(61, "session.closed"))

    async def respond(_, path, writer):
        if "/events" not in path:
            return writer.write(answer(200, {**ATTACHED, "last_seq": 61}))
        after = int(path.split("after=")[1].split("&")[0])
        # Some entries, and half of one more; sometimes one that was there before.
        stream = b"".join(entries[max(after - 1, 0) : after + 7]) + entries[min(after + 7, 60)][:9]
        if after > 50:
            stream = b"".join(entries[after:])
        writer.write(CHUNKED)
        while stream:
            cut = random.randint(1, 40)
            writer.write(b"%x\r\n%s\r\n" % (len(stream[:cut]), stream[:cut]))
            stream = stream[cut:]
            await writer.drain()

    async def use(url):
        async with Client(url=url, token="t") as client:
            session = await client.open("s", entries=True)
            heard = [entry async for entry in session]
            assert [entry["seq"] for entry in heard] == list(range(1, 62))
            assert [entry["content"] for entry in heard[:-1]] == texts

    asked = asyncio.run(asyncio.wait_for(serving(respond, use), 30))
    assert all("Authorization: Bearer t\r\n" in head and "token" not in head.split("\r\n")[0] for head in asked)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"HTTP/1.1 200 OK",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5000000\r\n\r\n" + b" " * 5_000_000,
    ],
)
def test_what_is_no_answer_is_a_broken_connection(bad):
    async def respond(_, __, writer):
        writer.write(bad)

    async def use(url):
        with pytest.raises(OSError):
            await Client(url=url, token="t").__aenter__()

    asyncio.run(asyncio.wait_for(serving(respond, use), 30))


def test_a_redirect_is_not_followed():
    async def elsewhere(url):
        async def respond(_, __, writer):
            writer.write(b"HTTP/1.1 307 X\r\nlocation: %s/v1/me\r\ncontent-length: 0\r\n\r\n" % url.encode())

        async def use(first):
            with pytest.raises(Refused, match="307"):
                await Client(url=first, token="t").__aenter__()

        await serving(respond, use)

    async def never(*_):
        raise AssertionError

    assert asyncio.run(asyncio.wait_for(serving(never, elsewhere), 30)) == []


def test_a_daemon_that_only_fails_is_given_up(monkeypatch):
    monkeypatch.setattr("trunkline._retry.LAST_DELAY", 0.001)

    async def respond(method, path, writer):
        problem = {"status": 503, "detail": "not now"}
        if "/events" in path:
            writer.write(CHUNKED)
            return await writer.drain()
        writer.write(answer(503, problem) if method == "POST" else answer(200, ATTACHED))

    async def use(url):
        async with Client(url=url, token="t") as client:
            for _ in range(2):  # a session that is given up is the only one
                session = await client.open("s")
                with pytest.raises(SessionEnded, match="reached"):
                    await session.send("x").text()

    asyncio.run(asyncio.wait_for(serving(respond, use), 30))


def test_a_session_that_is_not_served_for_the_moment_is_asked_for_again_and_ends_no_other(monkeypatch):
    monkeypatch.setattr("trunkline._retry.LAST_DELAY", 0.001)
    asked, events, is_over = [], [], asyncio.Event()

    async def respond(method, path, writer):
        session = path.split("/")[3].split("?")[0] if path.count("/") > 2 else ""
        asked.append((session, method, path))
        times = sum(1 for each in asked if each == asked[-1])
        if session == "moved" and times < 8:
            return writer.write(answer(503, {"status": 503, "detail": "its host is gone"}))
        if "/events" in path:
            writer.write(CHUNKED)
            await writer.drain()
            await given.wait()
            if session == "moved":
                own = {"session_id": "moved", "turn_id": "t"}
                kinds = [event(1, "turn.begin", message_id=keys[0], **own), event(2, "turn.complete", **own)]
                writer.write(b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in kinds))
                await writer.drain()
            return await is_over.wait()
        if method == "POST":
            given.set()
        writer.write(answer(200, ATTACHED))

    keys, given = [], asyncio.Event()

    async def use(url):
        async with Client(url=url, token="t") as client:
            other = await client.open("other", observe=True)
            session = await client.open("moved")
            turn = session.send("x")
            keys.append(turn.input["message_id"])
            assert await turn.text() == "" and turn.end["turn_id"] == "t"
            events.extend(path for name, _, path in asked if name == "other" and "/events" in path)
            assert other.last == 0 and not is_over.is_set()
            is_over.set()

    asyncio.run(asyncio.wait_for(serving(respond, use), 30))
    assert len(events) == 1  # the stream of the other one was not opened again
    assert len([1 for name, method, _ in asked if (name, method) == ("moved", "POST")]) == 8


def test_of_several_addresses_the_next_one_is_tried(monkeypatch):
    monkeypatch.setattr("trunkline._retry.LAST_DELAY", 0.001)
    asked = []

    async def nowhere(number, method, path, writer):
        asked.append(number)
        if number == 0 and asked.count(0) > 6:
            return  # it breaks off
        if number == 1:
            return writer.write(answer(503, {"status": 503, "detail": "it ends"}))
        if "/events" not in path:
            return writer.write(answer(200, {**ATTACHED, "last_seq": 2}))
        after = int(path.split("after=")[1].split("&")[0])
        first, last = event(1, "output", content="a"), event(2, "session.closed")
        stream = (first if number == 0 else last) if after == number // 2 else b""
        writer.write(CHUNKED + (b"%x\r\n%s\r\n" % (len(stream), stream) if stream else b""))

    async def use_all(*urls):
        if len(urls) < 3:
            number = len(urls)
            return await serving(lambda *request: nowhere(number, *request), lambda url: use_all(*urls, url))
        async with Client(url=urls, token="t") as client:
            session = await client.open("s", entries=True)
            assert [entry["seq"] async for entry in session] == [1, 2]

    asyncio.run(asyncio.wait_for(use_all(), 30))
    assert {0, 1, 2} == set(asked)
    with pytest.raises(ValueError):
        Client(url=[], token="t")


def test_a_refusal_by_one_address_counts_when_no_other_takes_the_token():
    async def respond(status, _, __, writer):
        writer.write(answer(status, {"detail": "no", "scope": "control"}))

    async def use(first):
        async def both(second):
            async with Client(url=[first, second], token="t") as client:
                assert client._pipe is not None
            with pytest.raises(Refused, match="401"):
                await Client(url=[first, "http://127.0.0.1:1"], token="t").__aenter__()

        await serving(lambda *request: respond(200, *request), both)

    asyncio.run(asyncio.wait_for(serving(lambda *request: respond(401, *request), use), 30))


def test_a_pipe_that_does_not_serve_a_session_now_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr("trunkline._retry.LAST_DELAY", 0.001)
    said = []

    async def take(reader, writer):
        while line := await reader.readline():
            message = json.loads(line)
            said.append(message["type"])
            own = {"session_id": message["session_id"]}
            if message["type"] == "session.attach" and said.count("session.attach") < 8:
                told = [{"type": "session.refused", "reason": "unavailable", "message": "its host is gone", **own}]
            elif message["type"] == "session.attach":
                told = [{**ATTACHED, "type": "session.attached", **own}]
            else:
                turn = {"turn_id": message["turn_id"], "epoch": 2, **own}
                told = [
                    {"type": "turn.begin", "message_id": message["message_id"], "seq": 1, **turn},
                    {"type": "turn.complete", "seq": 2, **turn},
                ]
            writer.write(b"".join(json.dumps(each).encode() + b"\n" for each in told))
        writer.close()

    async def main():
        async with await asyncio.start_unix_server(take, tmp_path / "s"):
            async with Client(socket=tmp_path / "s") as client:
                session = await client.open("s")
                assert await session.send("x").text() == ""

    asyncio.run(asyncio.wait_for(main(), 30))
    assert said[:8] == ["session.attach"] * 8 and set(said[8:]) == {"user.input"}


def test_a_late_answer_decides_no_later_request_of_the_same_id():
    """The callback of a request that was settled is cancelled, and its answer is not sent."""
    ask = {"request_id": "r", "tool": "T", "description": "d"}
    stream = [
        event(1, "permission.request", **ask, resource="first"),
        event(2, "request.decided", request_id="r", reason="shutdown"),
        event(3, "permission.request", **ask, resource="second"),
    ]
    answered, cancelled = [], []

    async def respond(method, path, writer):
        if method == "POST":
            answered.append(path)
            return writer.write(answer(200, {"id": "r", "request_id": "r", "approved": False}))
        if "/events" not in path:
            return writer.write(answer(200, ATTACHED))
        writer.write(CHUNKED)
        for each in stream:
            writer.write(b"%x\r\n%s\r\n" % (len(each), each))
            await writer.drain()
            await asyncio.sleep(0.02)
        await is_over.wait()

    is_over = asyncio.Event()

    async def use(url):
        async def decide(request, pending):
            if request["resource"] == "second":
                asyncio.get_running_loop().call_later(0.2, is_over.set)  # long after a late answer
                return False
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                cancelled.append(pending.decision.who)
                return True  # one that goes on all the same decides nothing

        async with Client(url=url, token="t") as client:
            await client.open("s", permission=decide)
            await is_over.wait()

    asyncio.run(asyncio.wait_for(serving(respond, use), 30))
    assert answered == ["/v1/sessions/s/requests/r"] and cancelled == ["shutdown"]


@pytest.mark.parametrize(
    ("end", "who"),
    [
        (event(2, "turn.complete", turn_id="t"), "turn_ended"),
        (event(2, "session.closed"), "session_ended"),
        (event(2, "request.decided", request_id="r", name="Anna", by="ann/t-1/l-2", approved=True), "Anna"),
        (event(2, "request.decided", request_id="r", by="ann/t-1/l-2", approved=True), "ann"),
    ],
)
def test_a_callback_ends_with_its_turn_and_its_session(end, who):
    """Also if no entry settles the request."""
    ended, asked, over = [], asyncio.Event(), asyncio.Event()

    async def respond(method, path, writer):
        if "/events" not in path:
            return writer.write(answer(200, ATTACHED))
        ask = event(1, "permission.request", request_id="r", turn_id="t", tool="T", description="d", resource="x")
        writer.write(CHUNKED + b"%x\r\n%s\r\n" % (len(ask), ask))
        await asked.wait()
        writer.write(b"%x\r\n%s\r\n" % (len(end), end))
        await over.wait()

    async def use(url):
        async def decide(request, pending):
            asked.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(pending.decision.who)
                over.set()

        async with Client(url=url, token="t") as client:
            await client.open("s", permission=decide)
            await over.wait()

    asyncio.run(asyncio.wait_for(serving(respond, use), 10))
    assert ended == [who]


def test_what_no_one_takes_waits_and_is_bounded():
    async def main():
        inbox, put = Inbox(), 0

        async def fill():
            nonlocal put
            for number in range(2 * WAITING):
                await inbox.put({"number": number})
                put += 1
            inbox.end()

        filling = asyncio.create_task(fill())
        for _ in range(3):
            await asyncio.sleep(0)
        assert put == WAITING
        taken = []
        while message := await inbox.take():
            taken.append(message["number"])
            assert put - len(taken) <= WAITING
        assert taken == list(range(2 * WAITING))
        await filling

        left = Inbox(1)
        await left.put({})
        waits = asyncio.create_task(left.put({}))
        await asyncio.sleep(0)
        left.leave()
        await waits

    asyncio.run(asyncio.wait_for(main(), 30))
