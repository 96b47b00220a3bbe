"""Errors that are permanent, errors that are tried again, and bounds."""

import asyncio
import json
import os
import signal
import sys
import threading

import pytest
from daemon import NUMBERS, Daemon, host, needs_trunkline
from test_remote import ATTACHED, CHUNKED, answer, serving
from trunkline.client import (
    BadAnswer, BlockingClient, Client, CommandFailed, Conflict, Forbidden, Gone, Invalid, NotFound, ProtocolMismatch,
    RateLimited, Refused, SessionEnded, TokenRefused, TooLarge, Unavailable, Unreachable,
)  # fmt: skip


def run(work, seconds=40):
    asyncio.run(asyncio.wait_for(work, seconds))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("trunkline._retry.LAST_DELAY", 0.001)


STATUSES = [
    (400, Invalid, 1), (401, TokenRefused, 1), (403, Forbidden, 1), (404, NotFound, 1), (409, Conflict, 1), (410, Gone, 1),
    (413, Invalid, 1), (422, Invalid, 1), (418, Refused, 1), (501, Refused, 1), (425, Refused, 40), (429, RateLimited, 5),
    (500, Unavailable, 40), (502, Unavailable, 40), (503, Unavailable, 40),
]  # fmt: skip


@pytest.mark.parametrize(("status", "kind", "tries"), STATUSES)
def test_each_status_has_its_class_and_is_tried_again_only_if_that_may_help(status, kind, tries):
    asked, keys = [], set()

    async def respond(method, path, writer):
        if path == "/v1/me":
            return writer.write(answer(200, ATTACHED))
        asked.append(path)
        body = json.dumps({"detail": "the reason", "category": "other"}).encode()
        writer.write(b"HTTP/1.1 %d X\r\nretry-after: 0\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body))

    async def use(url):
        async with Client(url=url, token="t") as client:
            with pytest.raises(kind, match="the reason") as raised:
                await client.fork("s")
            assert (raised.value.status, raised.value.category) == (status, "other")

    heads = []

    async def main():
        heads.extend(await serving(respond, use))

    run(main())
    keys = {line for head in heads for line in head.split("\r\n") if line.startswith("Idempotency-Key")}
    assert len(asked) == tries and len(keys) == 1


def test_retry_after_is_waited_for():
    asked = []

    async def respond(method, path, writer):
        if path == "/v1/me":
            return writer.write(answer(200, ATTACHED))
        asked.append(asyncio.get_running_loop().time())
        if len(asked) == 1:
            return writer.write(b"HTTP/1.1 429 X\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n")
        writer.write(answer(200, {"agents": []}))

    async def use(url):
        async with Client(url=url, token="t") as client:
            assert await client.agents() == []

    run(serving(respond, use))
    assert asked[1] - asked[0] >= 1


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20000 + b"\r\n", "the head of an answer is over 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n" + b" " * 9_000_000, "an answer is over 8388608 bytes"),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1" * 70000,
            "a line between two pieces of an answer is over 65536 bytes",
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]", "no object"),
        (answer(200, 1), "no object"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + b"[" * 200000, "no object"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "no length"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n+2\r\n{}\r\n", "no length"),
    ],
)
def test_an_answer_over_a_bound_names_it_and_is_not_asked_for_again(bad, kind):
    asked = []

    async def respond(_, path, writer):
        if path == "/v1/me":
            return writer.write(answer(200, ATTACHED))
        asked.append(path)
        writer.write(bad)

    async def use(url):
        async with Client(url=url, token="t") as client:
            with pytest.raises((BadAnswer, Unreachable), match=kind):
                await client.info("s")

    run(serving(respond, use))
    assert len(asked) == (1 if "over" in kind else 40)


def test_an_event_without_end_ends_its_session_and_no_other():
    over = asyncio.Event()

    async def respond(_, path, writer):
        if "/events" not in path:
            return writer.write(answer(200, ATTACHED))
        writer.write(CHUNKED)
        while "long" in path:
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            try:
                await writer.drain()
            except OSError:
                return
        await over.wait()

    async def use(url):
        async with Client(url=url, token="t") as client:
            other = await client.open("other")
            session = await client.open("long", entries=True)
            with pytest.raises(SessionEnded, match="an event is over 17039360 bytes") as ended:
                async for _ in session:
                    pass
            assert isinstance(ended.value.cause, TooLarge)
            assert not other._over.done()
            over.set()

    run(serving(respond, use))


def test_a_line_without_end_is_not_read_to_its_end(tmp_path):
    sent = 0

    async def take(reader, writer):
        nonlocal sent
        try:
            while sent < 1 << 30:
                writer.write(b"x" * 65536)
                await writer.drain()
                sent += 65536
        except OSError:
            pass

    async def main():
        async with await asyncio.start_unix_server(take, tmp_path / "s"):
            async with Client(socket=tmp_path / "s") as client:
                with pytest.raises(TooLarge, match="a line is over 17039360 bytes"):
                    await client.open()
        assert sent < 50 << 20

    run(main())


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "session.attached"},
        {"type": "session.attached", "last_seq": "1"},
        {"type": "session.attached", "last_seq": 0, "requests": 1},
        {"type": "session.attached", "last_seq": 0, "requests": [[]]},
        {"type": "session.failed", "error": "no exception"},
        {"type": "session.refused", "reason": [1]},
        {"type": "lag"},
    ],
)
def test_a_malformed_message_ends_the_session_with_an_error(tmp_path, bad):
    async def take(reader, writer):
        while line := await reader.readline():
            message = json.loads(line)
            told = [bad, {"type": "session.refused", "reason": "gone", "message": "it was removed"}]
            lines = [json.dumps({"session_id": message["session_id"], **each}).encode() + b"\n" for each in told]
            writer.write(b"".join(lines))

    async def main():
        async with await asyncio.start_unix_server(take, tmp_path / "s"):
            async with Client(socket=tmp_path / "s") as client:
                with pytest.raises((ProtocolMismatch, Gone)):
                    await client.open("s")

    run(main())


def test_what_is_no_daemon_is_a_mismatch_of_the_protocol(tmp_path):
    async def respond(_, __, writer):
        writer.write(answer(200, {"hello": "world"}))

    async def use(url):
        with pytest.raises(ProtocolMismatch, match="no daemon of trunkline"):
            await Client(url=url, token="t").__aenter__()

    run(serving(respond, use))


@needs_trunkline
def test_a_host_without_a_journal_is_a_mismatch_of_the_protocol():
    async def main():
        async with Client(command=["trunkline", "serve"]) as client:
            with pytest.raises(ProtocolMismatch, match="--journal"):
                await client.open()

    run(main())


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        (["sh", "-c", "echo the reason >&2; exit 2"], 2, "ended with status 2: the reason"),
        (["sh", "-c", "exit 127"], 127, "status 127"),
        (["/nonexistent/trunkline"], 127, "could not be started: No such file"),
        (["/"], 126, "could not be started: Permission denied"),
    ],
)
def test_a_command_that_cannot_work_is_started_once(command, status, text):
    states = []

    async def main():
        with pytest.raises(CommandFailed, match=text) as failed:
            async with Client(command=command, on_connection=states.append) as client:
                await client.open()
        assert failed.value.status == status

    run(main())
    assert "reconnecting" not in [each.state for each in states] and states[-1].state == "closed"

    with pytest.raises(CommandFailed):
        with BlockingClient(command=command) as client:
            client.agents()
    assert not [each for each in threading.enumerate() if each.name.startswith("trunkline-client")]


@pytest.mark.parametrize("end", ["exit 1", "exit 0", "kill -9 $$"])
def test_a_command_that_ends_otherwise_is_started_again_within_bounds(tmp_path, end):
    started = tmp_path / "started"

    async def main():
        states = []
        async with Client(command=["sh", "-c", f"echo >>{started}; {end}"], on_connection=states.append) as client:
            with pytest.raises(Unreachable, match="after 40 tries"):
                await client.open()
        tries = [each for each in states if each.state == "reconnecting"]
        assert [each.tries for each in tries] == list(range(1, 41)) and "status" in str(tries[0].error)

    run(main())
    assert len(started.read_text()) == 41  # the first one, and 40 tries


@needs_trunkline
def test_a_journal_in_use_is_reported_at_once(tmp_path):
    async def main():
        async with Client(command=host(tmp_path)) as first:
            await first.open()
            async with Client(command=host(tmp_path)) as second:
                with pytest.raises(CommandFailed, match="in use by the process"):
                    await second.open()

    run(main())


@needs_trunkline
def test_the_state_of_the_connection_is_observable(tmp_path):
    async def main():
        states = []
        async with Daemon(tmp_path) as daemon:
            async with Client(**daemon.by("socket"), on_connection=states.append) as client:
                session = await client.open()
                assert client.connection.state == "connected"
                await daemon.kill()
                while client.connection.state != "reconnecting":
                    await asyncio.sleep(0.01)
                await daemon.up()
                assert await session.send("x").text() == NUMBERS
            assert states[0].state == "connecting" and states[-1].state == client.connection.state == "closed"
            lost = next(each for each in states if each.state == "reconnecting")
            assert lost.tries == 1 and 0 < lost.delay <= 2

    run(main())


def test_an_address_where_nothing_is_names_itself_and_the_cause(tmp_path):
    async def main():
        with pytest.raises(Unreachable, match=r"http://127.0.0.1:1 cannot be reached: Connection refused"):
            await Client(url="http://127.0.0.1:1", token="t").__aenter__()
        with pytest.raises(Unreachable, match=rf"{tmp_path}/none cannot be reached: No such file"):
            await Client(socket=tmp_path / "none").__aenter__()

    run(main())
    assert issubclass(Unreachable, OSError)


@needs_trunkline
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_stderr_of_the_command_goes_on(tmp_path):
    script = f"import sys; sys.path[:0] = {sys.path!r}\nfrom trunkline.client import BlockingClient\n"
    script += f"with BlockingClient(command=['sh', '-c', 'echo heard >&2; exec cat >{os.devnull}']) as client: pass\n"

    async def main():
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stderr=asyncio.subprocess.PIPE)
        assert (await process.communicate())[1] == b"heard\n"

    run(main())
