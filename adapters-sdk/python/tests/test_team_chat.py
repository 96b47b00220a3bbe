"""The team chat of the examples: two people at one server, a third at another one on the same session."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
from daemon import NUMBERS, Daemon, needs_trunkline

EXAMPLES = os.environ.get("TRUNKLINE_EXAMPLES") or Path(__file__).resolve().parents[3] / "examples/python"
CHAT = Path(EXAMPLES) / "team_chat.py"
pytestmark = [needs_trunkline, pytest.mark.skipif(not CHAT.exists(), reason="no examples beside the package")]


class Person:
    """Someone at a terminal: all lines that were shown."""

    async def join(self, port, name):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        self.lines = [await self.line()]
        self.say(name)
        await self.sees("write to the agent")
        return self

    async def line(self):
        return (await asyncio.wait_for(self.reader.readline(), 20)).decode().rstrip("\n")

    async def sees(self, text):
        while text not in (line := await self.line()):
            self.lines.append(line)
        self.lines.append(line)
        return line

    def say(self, text):
        self.writer.write(f"{text}\n".encode())


async def chat(daemon, *arguments):
    """Starts a server on a free port. Returns its process, its session and its port."""
    env = {**os.environ, "PORT": "0", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(CHAT), *arguments, env=env, stdout=asyncio.subprocess.PIPE
    )
    told = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
    session, port = re.fullmatch(r"session (\S+), port (\d+)\n", told).groups()
    return process, session, int(port)


def test_one_approves_and_the_prompts_of_the_others_end_with_the_name(tmp_path):
    async def main():
        async with Daemon(tmp_path) as daemon:
            (tmp_path / "token").write_text(daemon.token("--all-sessions", "--name", "berlin"))
            first, session, port = await chat(daemon, daemon.socket)
            second, _, other_port = await chat(daemon, f"http://{daemon.http}", str(tmp_path / "token"), session)
            anna, ben = await Person().join(port, "Anna"), await Person().join(port, "Ben")
            carol = await Person().join(other_port, "Carol")
            anna.say("ask")
            for person in (anna, ben, carol):
                assert await person.sees("? ") == "? Bash: Delete [rm]  /yes or /no"
            ben.say("/yes")
            assert await carol.sees("no longer open") == "! this is no longer open: Ben"
            for person in (anna, ben, carol):
                assert await person.sees("approved") == "! approved by Ben"
            for person in (anna, ben, carol):
                assert await person.sees("< ") == "< True"
            carol.say("/yes")
            assert await carol.sees("waits") == "nothing waits for an answer"

            carol.say("ask")
            await anna.sees("? ")
            await carol.sees("? ")
            carol.say("/no")
            assert await anna.sees("no longer open") == "! this is no longer open: Carol"
            assert await anna.sees("denied") == "! denied by Carol"

            anna.say("long")
            await ben.sees("> Anna: long")
            ben.say("x")
            assert await ben.sees("> Ben: x") == "> Ben: x (queued)"
            ben.say("/withdraw")
            assert await ben.sees("withdrawn")
            carol.say("/stop")
            assert (await ben.sees("begun")) == "< begun (stopped)"
            anna.say("x")
            assert await carol.sees(NUMBERS[:8]) == f"< {NUMBERS}"
            for process in (first, second):
                process.terminate()
                await process.wait()

    asyncio.run(asyncio.wait_for(main(), 90))
