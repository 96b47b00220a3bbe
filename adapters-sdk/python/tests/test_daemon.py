"""The client with a real daemon, by each way to it."""

import asyncio
import importlib.util
import subprocess

import pytest
from daemon import KILLS, NUMBERS, Daemon, needs_trunkline
from trunkline.client import Client, Conflict, Forbidden, Invalid, NotFound, Refused, SessionEnded, TokenRefused

pytestmark = needs_trunkline
needs_websockets = pytest.mark.skipif(importlib.util.find_spec("websockets") is None, reason="no package websockets")
WAYS = ["socket", pytest.param("ws", marks=needs_websockets), "http"]
by_each_way = pytest.mark.parametrize("way", WAYS)


def run(work, seconds=60):
    asyncio.run(asyncio.wait_for(work, seconds))


@by_each_way
def test_turns_permissions_questions_steers_and_stops(tmp_path, way):
    async def main():
        async with Daemon(tmp_path) as daemon, Client(**daemon.by(way)) as client:
            session = await client.open()
            turn = session.send("x")
            assert await turn.text() == NUMBERS
            assert turn.end["status"] == "completed"
            assert await session.send("ask").text() == "False"
            assert await session.send("question").text() == "None"

            async def approve(request):
                return {"approved": request["resource"] == "rm"}

            other = await client.open(permission=approve, question=lambda request: {"answer": "this one"})
            assert await other.send("ask").text() == "True"
            assert await other.send("question").text() == "this one"

            turn, heard = session.send("steers"), []
            async for entry in turn:
                if entry["type"] == "output":
                    heard.append(entry["content"])
                    if entry["content"] == "ready":
                        assert await turn.steer("more")
            assert heard == ["ready", "more"]
            late = await turn.steer("too late")
            assert (bool(late), late.reason) == (False, "the turn has ended")

            turn = session.send("steers")
            assert await turn.steer("at once")
            assert await turn.text() == "readyat once"

            turn = session.send("long")
            async for entry in turn:
                if entry["type"] == "output":
                    await turn.stop()
            assert turn.end["status"] == "stopped"

            await session.close()
            with pytest.raises(SessionEnded):
                session.send("x")
            assert await other.send("x").text() == NUMBERS

    run(main())


def test_a_callback_may_leave_the_answer_to_others_and_returns_nothing_else_that_is_text(tmp_path):
    async def main():
        failed = []
        async with Daemon(tmp_path) as daemon, Client(**daemon.by("socket")) as client:
            options = {"permission": lambda _: "leave", "question": lambda _: "leave", "entries": True}
            session = await client.open(**options, failed=failed.append)
            for text, answer in [("ask", {"approved": True}), ("question", {"values": {"answer": "by hand"}})]:
                turn = session.send(text)
                async for entry in session:
                    if entry["type"] in ("permission.request", "input.request"):
                        await session.answer(entry["request_id"], **answer)
                        break
                assert await turn.text() in ("True", "by hand")
            assert failed == []
            other = await client.open(permission=lambda _: "yes", question=lambda _: "me", failed=failed.append)
            assert [await other.send("ask").text(), await other.send("question").text()] == ["False", "None"]
            assert ["returned str" in str(error) for error in failed] == [True, True]

    run(main())


@by_each_way
def test_nothing_but_true_approves(tmp_path, way):
    answers = ["yes", 1, {"approved": "true"}, {"approved": True, "message": float("nan")}, OSError("no idea")]

    async def main():
        async with Daemon(tmp_path) as daemon, Client(**daemon.by(way)) as client:
            for answer in answers:

                def decide(_, answer=answer):
                    if isinstance(answer, OSError):
                        raise answer
                    return answer

                session = await client.open(permission=decide)
                assert await session.send("ask").text() == "False", answer

    run(main())


@by_each_way
def test_files_go_both_ways(tmp_path, way):
    async def main():
        async with Daemon(tmp_path) as daemon, Client(**daemon.by(way)) as client:
            (tmp_path / "a.txt").write_text("of a")
            (tmp_path / "b.txt").write_text("of b")
            session = await client.open()
            earlier = session.send("x")
            while earlier.state != "running" or not earlier._inbox._entries:  # files go to the next turn that begins
                await asyncio.sleep(0.01)
            with_files = session.send("y", files=[tmp_path / "a.txt", str(tmp_path / "b.txt")])
            later = session.send("x")
            assert await with_files.text() == f"a.txt: of ab.txt: of b{NUMBERS}"
            assert await earlier.text() == await later.text() == NUMBERS
            files = [entry async for entry in session.send("file") if entry["type"] == "file.output"]
            assert [await session.file(file) for file in files] == [b"made by the agent"]
            with pytest.raises((OSError, Refused)):
                await session.file({**files[0], "sha256": files[0]["sha256"][::-1]})
            turn = session.send("y", files=[tmp_path / "none.txt"])
            await turn.text()
            assert (turn.end["status"], turn.end["error"]["category"]) == ("failed", "file_refused")

    run(main())


@by_each_way
def test_no_entry_is_lost_or_comes_twice_while_the_daemon_is_killed(tmp_path, way):
    async def main():
        daemon = await Daemon(tmp_path).up()
        async with Client(**daemon.by(way)) as client:
            session = await client.open(entries=True)
            seqs, ends, inputs = [], [], []

            async def listen():
                async for entry in session:
                    seqs.append(entry["seq"])
                    if entry["type"] == "turn.complete":
                        ends.append(entry["turn_id"])
                    elif entry["type"] == "turn.begin":
                        inputs.append(entry["message_id"])

            listening = asyncio.create_task(listen())
            for round in range(KILLS):
                turns, heard = [session.send("x"), session.send("y")], 0
                async for entry in turns[round % 2]:
                    heard += 1
                    if heard == 1 + round % 7:
                        await daemon.kill()
                        await daemon.up()
                await turns[1 - round % 2].text()
                for turn in turns:
                    whole = turn.end["status"] == "completed"
                    assert whole or turn.end["error"]["category"] == "host_restart", turn.end
            assert await session.send("x").text() == NUMBERS
            last = session.last
            await session.close()
            await listening
            assert seqs == list(range(1, len(seqs) + 1)) and len(seqs) > last
            assert len(ends) == len(set(ends)) == 2 * KILLS + 1
            assert len(inputs) == len(set(inputs)) == 2 * KILLS + 1
        await daemon.kill()

    run(main(), 60 + KILLS * 20)


@by_each_way
def test_a_session_goes_on_in_another_client_and_is_not_asked_again(tmp_path, way):
    async def main():
        async with Daemon(tmp_path) as daemon:
            ways = daemon.by(way)
            asked = []
            async with Client(**ways) as client:
                session = await client.open(permission=lambda request: True)
                assert await session.send("ask").text() == "True"
                waits = (await client.open(permission="leave")).send("ask")
                async for entry in waits:
                    if entry["type"] == "permission.request":
                        break
            async with Client(**ways) as client:
                again = await client.open(session.id, entries=True, permission=asked.append)
                assert await again.send("x").text() == NUMBERS
                assert asked == []
                with pytest.raises(ValueError):
                    await client.open(session.id)
                async with Client(**ways) as others:
                    behind = again.last - 3
                    watcher = await others.open(session.id, after=behind, observe=True, entries=True)
                    with pytest.raises(ValueError):
                        watcher.send("x")
                    await again.close()
                    assert [entry["seq"] async for entry in watcher] == list(range(behind + 1, again.last + 1))
                entries = [entry async for entry in again]
                assert entries[-1]["type"] == "session.closed"
                assert [entry["seq"] for entry in entries] == list(range(1, again.last + 1))
                # Requests that wait are asked of who comes.
                other = await client.open(waits._session.id, entries=True, permission=lambda request: True)
                async for entry in other:
                    if entry["type"] == "output":
                        break
                assert entry["content"] == "True"

    run(main())


@by_each_way
def test_what_is_refused_says_so(tmp_path, way):
    async def main():
        async with Daemon(tmp_path) as daemon, Client(**(ways := daemon.by(way))) as client:
            with pytest.raises(NotFound):
                await client.open("unknown", after=3)
            with pytest.raises(NotFound):
                await client.open("unknown", observe=True)
            with pytest.raises(Invalid, match="nobody"):
                await client.open(agent="nobody")
            session = await client.open()
            async with Client(**ways) as other:
                with pytest.raises(Conflict, match="1000"):
                    await other.open(session.id, after=1000)
            if way != "socket":
                with pytest.raises(Forbidden, match="cwd"):
                    await client.open(cwd="/")
                with pytest.raises(TokenRefused):
                    await Client(url=f"{way}://{daemon.http}", token="wrong").__aenter__()
                watching = daemon.token("--all-sessions", scope="observe")
                async with Client(url=f"{way}://{daemon.http}", token=watching) as watcher:
                    turn = (await watcher.open(session.id)).send("x")
                    await asyncio.wait_for(turn.text(), 10)
                    assert turn.end["error"]["category"] == "permission_denied"

    run(main())


@pytest.mark.parametrize("way", WAYS[1:])
def test_a_file_over_the_limit_is_refused_before_it_is_sent(tmp_path, way):
    async def main():
        async with Daemon(tmp_path) as daemon, Client(**daemon.by(way)) as client:
            session = await client.open()
            for size, status in [(3 << 20, "completed"), (11 << 20, "failed")]:
                file = tmp_path / f"{size}.bin"
                file.write_bytes(b"x" * size)
                turn = session.send("x", files=[file])
                await asyncio.wait_for(turn.text(), 20)
                assert turn.end["status"] == status
            assert turn.end["error"]["category"] == "oversize"

    run(main())


@needs_websockets
@pytest.mark.parametrize("way", ["ws", "http"])
def test_a_token_that_is_revoked_ends_the_sessions(tmp_path, way):
    async def main():
        async with Daemon(tmp_path) as daemon:
            (tmp_path / "token").write_text(daemon.token() + "\n")
            async with Client(url=f"{way}://{daemon.http}", token_file=tmp_path / "token") as client:
                session = await client.open()
                turn = session.send("long")
                listed = subprocess.run(["trunkline", "token", "list"], env=daemon.env, capture_output=True, text=True)
                ids = [line.split()[0] for line in listed.stdout.splitlines() if "control" in line]
                subprocess.run(["trunkline", "token", "revoke", *ids], env=daemon.env, check=True)
                with pytest.raises(SessionEnded, match="401") as ended:
                    await turn.text()
                assert isinstance(ended.value.cause, TokenRefused)
            await daemon.kill()

    run(main())


@needs_websockets
@pytest.mark.parametrize("way", ["wss", "https"])
def test_a_certificate_is_verified(tmp_path, way):
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    key, certificate = tmp_path / "host.key", tmp_path / "host.pem"
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    try:
        subprocess.run([*new, "-keyout", key, "-out", certificate, *names], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no program openssl")
    key.chmod(0o600)

    async def main():
        tls = ["--listen", "127.0.0.1:0", "--tls-cert", str(certificate), "--tls-key", str(key)]
        async with Daemon(tmp_path, *tls) as daemon:
            url, token = daemon.says["listen"].replace("https", way), daemon.token()
            with pytest.raises(OSError, match="(?i)certificate"):
                await Client(url=url, token=token).__aenter__()
            async with Client(url=url, token=token, ca=certificate) as client:
                session = await client.open()
                assert await session.send("x").text() == NUMBERS

    run(main())


def test_no_token_goes_where_it_could_be_read():
    for url in ["http://me:secret@localhost", "http://localhost/?token=secret", "ftp://localhost", "localhost:1"]:
        with pytest.raises(ValueError):
            Client(url=url, token="t")
    with pytest.raises(ValueError, match="TLS"):
        Client(url="http://agents.example", token="t")
    Client(url="http://agents.example", token="t", insecure=True)
    Client(url="http://[::1]:7457", token="t")
    assert "hidden" not in repr(Client(url="https://agents.example", token="hidden")._daemons)
    for arguments in [{}, {"url": "http://localhost"}, {"url": "http://localhost", "token": "t", "token_file": "f"}]:
        with pytest.raises(TypeError):
            Client(**arguments)
