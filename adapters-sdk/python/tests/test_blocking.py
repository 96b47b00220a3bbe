"""The client without asyncio, with a real host."""

import asyncio
import re
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest
from daemon import NUMBERS, Daemon, command_of, needs_trunkline
from trunkline.client import BlockingClient, Refused, SessionEnded


@pytest.fixture
def host(tmp_path):
    return ["trunkline", "serve", "--journal", str(tmp_path / "journal"), "--adapter", command_of(tmp_path)]


@needs_trunkline
def test_turns_permissions_questions_steers_files_and_stops(tmp_path, host):
    threads, inside = set(), []

    def permit(request):
        threads.add(threading.current_thread())
        inside.append(client.open().send("x").text())  # a callback may use the client
        return request["resource"] == "rm"

    with BlockingClient(command=host) as client:
        session = client.open(permission=permit, question=lambda request: {"answer": "this one"}, entries=True)
        assert session.send("x").text() == NUMBERS
        assert session.send("ask").text() == "True"
        assert inside == [NUMBERS] and threading.current_thread() not in threads
        assert session.send("question").text() == "this one"
        assert session.send("messages").text() == "ab\n\ncde"

        turn, heard = session.send("steers"), []
        for entry in turn:
            if entry["type"] == "output":
                heard.append(entry["content"])
                if entry["content"] == "ready":
                    assert turn.steer("more")
        assert heard == ["ready", "more"] and turn.end["status"] == "completed"

        turn = session.send("long")
        for entry in turn:
            if entry["type"] == "output":
                turn.stop()
        assert turn.end["status"] == "stopped" and turn.id == turn.end["turn_id"]

        (tmp_path / "a.txt").write_text("of a")
        assert session.send("y", files=[tmp_path / "a.txt"]).text() == f"a.txt: of a{NUMBERS}"
        files = [entry for entry in session.send("file") if entry["type"] == "file.output"]
        assert [session.file(file) for file in files] == [b"made by the agent"]

        session.close()
        assert [entry["seq"] for entry in session] == list(range(1, session.last + 1))
        with pytest.raises(SessionEnded):
            session.send("x")
    with pytest.raises(RuntimeError):
        client.open()


@needs_trunkline
def test_a_turn_that_is_not_heard_to_its_end_holds_no_session_back(host):
    with BlockingClient(command=host) as client:
        session = client.open()
        left = session.send("long")
        for entry in left:
            if entry["type"] == "output":
                break
        inbox, until = left._turn._inbox, time.monotonic() + 30
        while inbox._heard and time.monotonic() < until:  # the client's thread leaves it
            time.sleep(0.01)
        assert not inbox._heard
        left.stop()
        assert session.send("x").text() == NUMBERS


@needs_trunkline
def test_it_ends_what_other_threads_wait_for_and_leaves_no_thread(host):
    ended, begun = [], threading.Event()

    def follow(session):
        try:
            for entry in session.send("long"):
                if entry["type"] == "output":
                    begun.set()
        except SessionEnded as error:
            ended.append(str(error))

    with BlockingClient(command=host) as client:
        thread = threading.Thread(target=follow, args=[client.open()])
        thread.start()
        assert begun.wait(30)
    thread.join(10)
    assert ended == ["the client was left"]
    assert not [each for each in threading.enumerate() if each.name.startswith("trunkline-client")]


@needs_trunkline
def test_what_cannot_be_reached_leaves_no_thread(tmp_path):
    with pytest.raises(OSError):
        BlockingClient(socket=tmp_path / "none").__enter__()
    assert not [each for each in threading.enumerate() if each.name.startswith("trunkline-client")]
    with pytest.raises(RuntimeError):
        BlockingClient(socket=tmp_path / "none").open()


@needs_trunkline
def test_ctrl_c_ends_a_wait_and_nothing_else(host, monkeypatch):
    with BlockingClient(command=host) as client:
        session = client.open(entries=True)
        turn = session.send("long")
        own, interrupted = Future.result, []

        def result(self, timeout=None):
            if not interrupted:
                interrupted.append(self)
                raise KeyboardInterrupt
            return own(self, timeout)

        monkeypatch.setattr(Future, "result", result)
        with pytest.raises(KeyboardInterrupt):
            turn.text()
        assert interrupted[0].cancelled()
        turn.stop()
        assert session.send("x").text() == NUMBERS


@needs_trunkline
def test_the_blocking_client_of_the_readme_is_true(tmp_path, monkeypatch, capsys):
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    code = next(c for c in programs if "BlockingClient(" in c)
    assert len(code.strip().splitlines()) <= 10
    (tmp_path / "parrot.py").write_text(f"import sys\nsys.path[:0] = {sys.path!r}\n{programs[0]}")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert capsys.readouterr().out == "hello"


@needs_trunkline
def test_a_wrong_token_is_refused(tmp_path):
    async def main():
        async with Daemon(tmp_path) as daemon:

            def wrong():
                with pytest.raises(Refused):
                    BlockingClient(url=f"http://{daemon.http}", token="wrong").__enter__()
                with BlockingClient(**daemon.by("http")) as client:
                    assert client.open().send("x").text() == NUMBERS

            await asyncio.to_thread(wrong)

    asyncio.run(asyncio.wait_for(main(), 60))
