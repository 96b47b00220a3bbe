"""Each ability of the client on each transport, with a real daemon or host."""

import asyncio
import functools
import importlib.util
import threading

import pytest
from daemon import NUMBERS, Daemon, needs_trunkline
from trunkline.client import (
    BlockingClient, Client, Conflict, Forbidden, Invalid, NotFound, SessionEnded, Unsupported,
)  # fmt: skip

pytestmark = needs_trunkline
no_websockets = importlib.util.find_spec("websockets") is None
WAYS = ["command", "socket", pytest.param("ws", marks=pytest.mark.skipif(no_websockets, reason="no websockets")), "http"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    daemon = Daemon(tmp_path_factory.mktemp("daemon")).start()
    yield daemon
    daemon.child.terminate()
    daemon.child.wait()


def on_each_way(test):
    """Runs a test with a client on each transport."""

    @pytest.mark.parametrize("way", WAYS)
    def run(daemon, tmp_path, way):
        async def main():
            ways = Daemon(tmp_path).by(way) if way == "command" else daemon.by(way)
            async with Client(**ways) as client:
                await test(client, way, daemon)

        asyncio.run(asyncio.wait_for(main(), 60))

    return run


async def until(turn, kind):
    """The first entry of a kind, after which the turn goes on."""
    async for entry in turn:
        if entry["type"] == kind:
            return entry
    raise AssertionError(kind)


@on_each_way
async def test_sessions_are_listed_read_named_archived_copied_and_closed(client, way, daemon):
    agents = await client.agents()
    assert [agent["id"] for agent in agents] == ["adapter"] and "health" not in agents[0]
    assert "verdict" in (await client.agents(health=True))[0]["health"]

    session = await client.open()
    assert await session.send("x").text() == NUMBERS
    await session.rename(f"About {session.id}")
    assert [each["id"] for each in await client.sessions(text=f"about {session.id}")] == [session.id]
    assert (await client.sessions(agent="adapter", text=session.id))[0]["agent"] == "adapter"
    assert await client.sessions(agent="nobody") == []
    others = [(await client.open()).id for _ in range(2)]
    assert {*others, session.id} <= {each["id"] for each in await client.sessions()}
    assert len(await client.sessions(limit=2)) == 2
    await session.archive()
    assert session.id not in {each["id"] for each in await client.sessions()}
    assert [each["id"] for each in await client.sessions(archived=True, text=session.id)] == [session.id]
    await session.archive(False)

    info = await session.info()
    assert (info["id"], info["agent"], info["state"], info["requests"]) == (session.id, "adapter", "idle", [])
    assert info["title"] == f"About {session.id}" and info["last_seq"] >= session.last > 20

    seqs, start = [], 1
    while start is not None:
        page = await session.history(start=start, limit=9)
        seqs += [entry["seq"] for entry in page["entries"]]
        assert len(page["entries"]) <= 9 and page["last"] >= session.last
        start = page["next"]
    assert seqs == list(range(1, page["last"] + 1))
    back, before = [], "end"
    while before is not None:
        page = await client.history(session.id, before=before, limit=9)
        assert len(page["entries"]) <= 9
        back = [entry["seq"] for entry in page["entries"]] + back
        before = page["previous"]
    assert back == seqs

    copy = await session.fork(seq=10)
    assert copy["id"] != session.id and copy["agent"] == "adapter"
    copied = await client.open(copy["id"])
    assert await copied.send("x").text() == NUMBERS
    assert (await client.history(copy["id"], limit=2))["entries"][0]["fact"] == "opened"

    await client.close(copy["id"])
    await client.close(copy["id"])
    assert (await client.info(copy["id"]))["state"] == "closed"
    with pytest.raises(Conflict):
        await client.stop(copy["id"])
    for call in (client.info, client.history, functools.partial(client.rename, title="t"), client.fork, client.stop):
        with pytest.raises(NotFound):
            await call("unknown")
    with pytest.raises(Invalid):
        await session.rename("x" * 201)


@on_each_way
async def test_what_a_command_lacks_names_the_transports_that_have_it(client, way, daemon):
    session = await client.open()
    await session.send("needle in a haystack").text()
    if way == "command":
        for call in (client.search("x"), session.remove(), client.me(), client.rules(), client.usage()):
            with pytest.raises(Unsupported, match=r"connect by socket=… or url=…"):
                await call
        with pytest.raises(Unsupported, match="all sessions"):
            await anext(aiter(client.changes()))
        return
    hits = [hit for hit in await client.search("NEEDLE in a") if hit["id"] == session.id]
    assert [hit["kind"] for hit in hits if hit["kind"] == "input"] == ["input"]
    assert len(await client.search("n", limit=1)) == 1
    assert (await client.me())["may_approve"]
    await session.remove()
    with pytest.raises(NotFound):
        await client.info(session.id)


@on_each_way
async def test_turns_are_stopped_queued_and_withdrawn(client, way, daemon):
    session = await client.open(entries=True)
    with pytest.raises(Conflict):
        await session.stop()
    running = session.send("long")
    await until(running, "output")
    queued, kept = session.send("x"), session.send("x")
    assert await queued.withdraw()
    while kept.state == "sent":
        await asyncio.sleep(0.01)
    assert running.state == "running" and kept.state == "queued" and queued.state == "ended"
    await queued.text()
    assert queued.end["status"] == "stopped"
    assert not await running.withdraw() and running.state == "running"
    assert (await session.info())["queued"] == [kept.id]

    another = session.send("x")
    while another.state == "sent":
        await asyncio.sleep(0.01)
    assert await session.withdraw(another.id)  # by its id, as of another client
    await client.stop(session.id)
    assert await kept.text() == NUMBERS
    limited = session.send("long", limits={"turn_timeout_ms": 100})
    await limited.text()
    assert limited.end["error"]["category"] == "timeout"
    await session.settings(model="large")
    await session.leave()
    with pytest.raises(SessionEnded):
        session.send("x")
    again = await client.open(session.id, after="end")
    assert await again.send("x").text() == NUMBERS


@on_each_way
async def test_requests_are_answered_by_id(client, way, daemon):
    session = await client.open(permission="leave", question="leave", entries=True)
    turn = session.send("ask")
    request = await until(turn, "permission.request")
    assert (await session.info())["requests"] == session.requests == [request["request_id"]]
    if way == "command":
        with pytest.raises(Unsupported, match="name"):
            await session.answer(request["request_id"], True, name="Anna")
        decided = await session.answer(request["request_id"], True)
    else:
        decided = await session.answer(request["request_id"], True, name="Anna")
        assert decided["name"] == "Anna"
    assert decided["approved"] and session.requests == []
    async for entry in session:
        if entry["type"] == "request.decided":
            assert entry.get("name") == (None if way == "command" else "Anna") and entry["by"] == decided["by"]
            break
    with pytest.raises(Conflict):
        await session.answer(request["request_id"], True)

    turn = session.send("edits")
    request = await until(turn, "permission.request")
    await client.answer(session.id, request["request_id"], True, updated_input={"command": "ls"})
    assert (await until(session.send("x"), "output")) and "True ls" in [
        entry.get("content") for entry in (await session.history(before="end"))["entries"]
    ]
    turn = session.send("question")
    request = await until(turn, "input.request")
    await session.answer(request["request_id"], values={"answer": "this one"})
    assert "this one" in str((await session.history(before="end", limit=3))["entries"])
    with pytest.raises(Conflict):
        await session.answer("never", True)
    with pytest.raises(TypeError):
        await session.answer("never", True, values={})
    if way != "command":
        turn = session.send("ask")
        request = await until(turn, "permission.request")
        decided = await session.answer(request["request_id"], True, always="Bash(rm)")
        assert decided["rule"]["pattern"] == "Bash(rm)"
        assert await session.send("ask").text() == "True"
        assert [rule["pattern"] for rule in await client.rules()] == ["Bash(rm)"]
        await client.remove_rule(decided["rule"]["id"])
        assert await client.rules() == []


@on_each_way
async def test_a_callback_ends_with_its_request(client, way, daemon):
    """It is cancelled when another client answers, the turn is stopped, or the session ends, and learns why."""
    ended, asked, gone = [], asyncio.Event(), asyncio.Event()

    async def ask_a_person(request, pending):
        asked.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append((request["type"], pending.decision.who))
            gone.set()
            raise

    async def next_end():
        await asyncio.wait_for(gone.wait(), 10)
        asked.clear(), gone.clear()

    session = await client.open(permission=ask_a_person, question=ask_a_person)
    if way != "command":
        async with Client(**daemon.by(way)) if way == "socket" else Client(socket=daemon.socket) as other:
            turn = session.send("ask")
            await asked.wait()
            await other.answer(session.id, session.requests[0], True, name="Berta")
            assert await turn.text() == "True"
            await next_end()
    turn = session.send("question")
    await asked.wait()
    await turn.stop()
    await turn.text()
    await next_end()
    turn = session.send("ask")
    await asked.wait()
    await (session.close() if way == "command" else client.close(session.id))
    await next_end()
    expected = [("permission.request", "Berta")] * (way != "command") + [("input.request", "stopped")]
    assert ended[:-1] == expected and ended[-1][0] == "permission.request"


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("command", "socket")])
def test_a_refused_answer_is_an_error_of_the_answer(daemon, way):
    async def main():
        failures, refused = [], asyncio.Event()

        def failed(error):
            failures.append(error)
            refused.set()

        url, token = f"{way}://{daemon.http}", daemon.token("--all-sessions", approve=False)
        async with Client(**daemon.by("socket")) as owner, Client(url=url, token=token) as client:
            session = await client.open(permission=lambda request: True, failed=failed)
            turn = session.send("ask")
            await refused.wait()
            assert isinstance(failures[0], Forbidden)
            request = session.requests[0]  # it is still open
            with pytest.raises(Forbidden):
                await session.answer(request, True)
            await owner.answer(session.id, request, True)
            assert await turn.text() == "True" and len(failures) == 1

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("way", [way for way in WAYS if way != "command"])
def test_changes_of_all_sessions_continue_behind_their_position(daemon, way):
    async def main():
        async with Client(**daemon.by(way)) as client:
            session = await client.open()
            changes = client.changes()
            found = aiter(changes)
            snapshot = await anext(found)
            assert snapshot["type"] == "snapshot"
            assert session.id in [each["id"] for each in snapshot["sessions"]] or not snapshot["complete"]
            turn = session.send("x")
            async for change in found:
                if change["type"] == "turn" and change["session_id"] == session.id:
                    break
            assert change["change"] == "started" and change["turn_id"]
            await turn.text()
            async for change in client.changes(changes.position):
                assert change["type"] != "snapshot"  # it continues
                if change["type"] == "turn" and change["session_id"] == session.id:
                    break
            assert change["change"] == "ended"
            async for change in client.changes("wrong"):
                assert change["type"] == "reset"
                break

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("way", WAYS)
def test_the_blocking_client_has_the_same(daemon, tmp_path, way):
    ways = Daemon(tmp_path).by(way) if way == "command" else daemon.by(way)
    asked, learned = threading.Event(), []

    def ask_a_person(request, pending):
        asked.set()
        learned.append(pending.wait(20).who)
        return True

    with BlockingClient(**ways) as client:
        assert [agent["id"] for agent in client.agents()] == ["adapter"]
        session = client.open(permission=ask_a_person)
        running = session.send("long")
        next(entry for entry in running if entry["type"] == "output")
        queued = session.send("x")
        assert queued.withdraw() and running.state == "running" and queued.state == "ended"
        client.stop(session.id)
        assert session.send("x").text() == NUMBERS
        session.rename("A title")
        assert session.info()["title"] == "A title"
        assert [each["id"] for each in client.sessions(text=session.id)] == [session.id]
        assert client.history(session.id, before="end", limit=3)["entries"][-1]["type"] == "session.edited"
        turn = session.send("ask")
        assert asked.wait(20)
        if way == "command":
            turn.stop()
        else:
            with BlockingClient(socket=daemon.socket) as other:
                other.answer(session.id, session.requests[0], True, name="Berta")
        assert turn.text() == ("" if way == "command" else "True")
        copy = client.open(session.fork()["id"])
        client.archive(copy.id)
        session.settings(model="large")
        copy.leave()
        client.close(copy.id)
        if way == "command":
            for call in (session.remove, client.me, client.rules, client.usage, lambda: client.search("x")):
                with pytest.raises(Unsupported):
                    call()
            with pytest.raises(Unsupported):
                next(iter(client.changes()))
        else:
            changes = client.changes()
            assert next(iter(changes))["type"] == "snapshot" and changes.position
            assert client.search("A title") and client.me()["may_approve"]
            assert client.rules() == [] and client.usage() is not None
            session.remove()
    assert learned == ["stopped" if way == "command" else "Berta"]
