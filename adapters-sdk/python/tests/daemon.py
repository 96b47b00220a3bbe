"""What tests of the client share: an adapter, and a real daemon."""

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest

ADAPTER = """
import trunkline
def answer(turn):
    text = turn.text.rpartition(": ")[2]  # behind the name of who writes
    if text == "ask":
        return turn.output(str(turn.permission("Bash", "Delete", "rm").approved))
    if text == "edits":
        decision = turn.permission("Bash", "Delete", "rm", input={"command": "rm"})
        return turn.output(f"{decision.approved} {(decision.updated_input or {}).get('command')}")
    if text == "question":
        return turn.output(str(turn.question("Which?").text()))
    if text == "steers":
        turn.output("ready")
        return turn.output(turn.next_steer().accept())
    if text == "messages":
        for message, text in [("m1", "a"), ("m1", "b"), ("m2", "c"), (None, "d"), ("m2", "e")]:
            turn.emit("output", content=text, message_id=message)
        return
    if text == "long":
        turn.output("begun")
        return turn.wait(60)
    for file in turn.files:
        with open(file["file_path"]) as source:
            turn.output(f"{file['file_name']}: {source.read()}")
    if text == "file":
        turn.new_file("made.txt", b"made by the agent")
        return
    for number in range(20):
        turn.output(f"{number} ")
        turn.wait(0.002)
trunkline.serve(answer, steerable=True, takes_updated_input=True, honours=['model'])
"""
KILLS = int(os.environ.get("TRUNKLINE_KILLS", "5"))
NUMBERS = "".join(f"{number} " for number in range(20))
needs_trunkline = pytest.mark.skipif(shutil.which("trunkline") is None, reason="no program trunkline")


def host(folder):
    """A command that keeps a journal."""
    return ["trunkline", "serve", "--journal", str(folder / "journal"), "--adapter", command_of(folder)]


def command_of(folder):
    """The adapter as a command line."""
    adapter = folder / "adapter.py"
    adapter.write_text(ADAPTER)
    return shlex.join(["env", f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}", sys.executable, str(adapter)])


class Daemon:
    """A `trunkline up` in a folder of its own: at the same address each time that it is started."""

    def __init__(self, folder, *flags):
        self.folder, self.flags, self.http = folder, flags, "127.0.0.1:0"
        self.env = {**os.environ, "HOME": str(folder), "TRUNKLINE_STATE": str(folder / "state")}
        for name in ("TRUNKLINE_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            self.env.pop(name, None)

    async def up(self):
        command = ["trunkline", "up", "--json", "--http", self.http, "--adapter", command_of(self.folder), *self.flags]
        pipe, quiet = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        self.process = await asyncio.create_subprocess_exec(*command, env=self.env, stdout=pipe, stderr=quiet)
        self.says = json.loads(await asyncio.wait_for(self.process.stdout.readline(), 30))
        self.http, self.socket = self.says["http"].removeprefix("http://"), self.says["socket"]
        return self

    def start(self):
        """Starts it for tests that share it."""
        command = ["trunkline", "up", "--json", "--http", self.http, "--adapter", command_of(self.folder), *self.flags]
        self.child = subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.says = json.loads(self.child.stdout.readline())
        self.http, self.socket = self.says["http"].removeprefix("http://"), self.says["socket"]
        return self

    async def kill(self):
        self.process.kill()
        await self.process.wait()

    def token(self, *flags, scope="control", approve=True):
        """A token that answers permissions, if its scope lets it."""
        flags += ("--approve",) if approve and scope != "observe" else ()
        command = ["trunkline", "token", "new", "--scope", scope, *flags]
        return subprocess.run(command, env=self.env, capture_output=True, check=True, text=True).stdout.split()[-1]

    def by(self, way):
        """The arguments of a `Client` that comes this way."""
        if way == "command":
            return {"command": host(self.folder)}
        if way == "socket":
            return {"socket": self.socket}
        return {"url": f"{way}://{self.http}", "token": self.token("--all-sessions")}

    async def __aenter__(self):
        return await self.up()

    async def __aexit__(self, *_):
        if self.process.returncode is None:
            self.process.terminate()
            await self.process.wait()
