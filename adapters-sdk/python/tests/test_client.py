"""The client, with a host that it starts."""

import asyncio
import json
import re
import shlex
import sys
from pathlib import Path

from daemon import KILLS, NUMBERS, host, needs_trunkline
from trunkline.client import Client


@needs_trunkline
def test_a_turn_is_answered_and_nothing_is_approved_by_default(tmp_path):
    async def main():
        async with Client(command=host(tmp_path)) as client:
            session = await client.open()
            assert await session.send("x").text() == NUMBERS
            assert await session.send("ask").text() == "False"
            other = await client.open(permission=lambda request: request["resource"] == "rm")
            assert await other.send("ask").text() == "True"

    asyncio.run(asyncio.wait_for(main(), 60))


@needs_trunkline
def test_an_input_is_written_once_to_a_host_that_stays(tmp_path):
    written = tmp_path / "written"
    command = ["sh", "-c", f"tee {written} | {shlex.join(host(tmp_path))}"]

    async def main():
        async with Client(command=command) as client:
            session = await client.open()
            turns = [session.send("x") for _ in range(3)]
            for turn in turns:
                await turn.text()

    asyncio.run(asyncio.wait_for(main(), 60))
    ids = [line["message_id"] for line in map(json.loads, written.open()) if line["type"] == "user.input"]
    assert len(ids) == len(set(ids)) == 3


@needs_trunkline
def test_no_entry_is_lost_or_comes_twice_while_hosts_are_killed(tmp_path):
    async def main():
        async with Client(command=host(tmp_path)) as client:
            session = await client.open(entries=True)
            ends = 0
            for _ in range(KILLS):
                turn, heard = session.send("x"), 0
                async for entry in turn:
                    heard += 1
                    if heard == 5 and client.process:
                        client.process.kill()
                    ends += entry["type"] == "turn.complete"
            assert ends == KILLS
            await session.close()
            entries = [entry async for entry in session]
            assert [entry["seq"] for entry in entries] == list(range(1, session.last + 1))
            inputs = [entry["message_id"] for entry in entries if entry["type"] == "turn.begin"]
            assert len(inputs) == len(set(inputs)) == KILLS

    asyncio.run(asyncio.wait_for(main(), 60 + KILLS * 10))


@needs_trunkline
def test_the_client_of_the_readme_is_true(tmp_path, monkeypatch, capsys):
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    code = next(c for c in programs if "Client(" in c)
    (tmp_path / "parrot.py").write_text(f"import sys\nsys.path[:0] = {sys.path!r}\n{programs[0]}")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert capsys.readouterr().out == "hello completed\n"
