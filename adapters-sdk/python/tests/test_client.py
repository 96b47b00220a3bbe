"""The client, with a real host behind it."""

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from trunkline.client import Client

ADAPTER = """
import trunkline
def answer(turn):
    for number in range(20):
        turn.output(f"{number} ")
        turn.wait(0.01)
    if turn.text == "ask":
        turn.output(str(turn.permission("Bash", "Delete", "rm").approved))
trunkline.serve(answer)
"""
KILLS = int(os.environ.get("KILLS", "5"))
needs_trunkline = pytest.mark.skipif(shutil.which("trunkline") is None, reason="no program trunkline")


def host(tmp_path):
    adapter = tmp_path / "adapter.py"
    adapter.write_text(ADAPTER)
    quoted = f"env PYTHONPATH={os.pathsep.join(sys.path)} {sys.executable} {adapter}"
    return ["trunkline", "serve", "--journal", str(tmp_path / "journal"), "--adapter", quoted]


@needs_trunkline
def test_a_turn_is_answered_and_nothing_is_approved_by_default(tmp_path):
    async def main():
        async with Client(command=host(tmp_path)) as client:
            session = await client.open()
            assert (await session.send("x").text()).split() == [str(n) for n in range(20)]
            assert (await session.send("ask").text()).endswith("False")
            other = await client.open(permission=lambda request: request["resource"] == "rm")
            assert (await other.send("ask").text()).endswith("True")

    asyncio.run(asyncio.wait_for(main(), 60))


@needs_trunkline
def test_no_entry_is_lost_or_comes_twice_while_hosts_are_killed(tmp_path):
    async def main():
        async with Client(command=host(tmp_path)) as client:
            session = await client.open()
            ends, seqs = 0, []
            take = session._take

            async def noted(message):
                before = session.last
                await take(message)
                if session.last != before:
                    seqs.append(session.last)

            session._take = noted
            for _ in range(KILLS):
                turn, heard = session.send("x"), 0
                async for entry in turn:
                    heard += 1
                    if heard == 5 and client.process:
                        client.process.kill()
                    ends += entry["type"] == "turn.complete"
            assert ends == KILLS
            assert seqs == list(range(1, session.last + 1))

    asyncio.run(asyncio.wait_for(main(), 60 + KILLS * 10))


@needs_trunkline
def test_a_connection_over_a_socket_comes_back_after_its_host(tmp_path):
    async def main():
        socket = tmp_path / "journal" / "host.sock"

        async def begin():
            quiet = asyncio.subprocess.DEVNULL
            started = await asyncio.create_subprocess_exec(
                *host(tmp_path), stdin=asyncio.subprocess.PIPE, stdout=quiet, stderr=quiet
            )
            while True:
                try:
                    _, writer = await asyncio.open_unix_connection(str(socket))
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return started

        held = await begin()
        async with Client(socket=str(socket)) as client:
            session, heard = await client.open(), 0
            async for entry in session.send("x"):
                heard += 1
                if heard == 5:
                    held.kill()
                    await held.wait()
                    held = await begin()
            assert entry["error"]["category"] == "host_restart"
            assert (await session.send("x").text()).split() == [str(n) for n in range(20)]
        held.kill()
        await held.wait()

    asyncio.run(asyncio.wait_for(main(), 60))


@needs_trunkline
def test_the_client_of_the_readme_is_true(tmp_path, monkeypatch, capsys):
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    code = next(c for c in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "Client(" in c)
    (tmp_path / "my-adapter").write_text(f"#!{sys.executable}\nimport sys\nsys.path[:0] = {sys.path!r}\n{ADAPTER}")
    (tmp_path / "my-adapter").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert capsys.readouterr().out.split() == [str(n) for n in range(20)]
