"""Drives `trunkline acp` with ACP's own Python library: new, prompt, permission, cancel, load, resume, two at once.

    client.py RECORD trunkline acp [ARGUMENTS]

Every line of both sides goes to the file RECORD, which validate.mjs holds against the official schema.
"""

import asyncio
import asyncio.subprocess as aio_subprocess
import json
import os
import sys

import acp
from acp import schema

RECORD, COMMAND = sys.argv[1], sys.argv[2:]


class Editor(acp.Client):
    def __init__(self, allow=True):
        self.allow, self.updates, self.asked = allow, [], []
        self.wait_for_permission = asyncio.Event()

    async def request_permission(self, options, session_id, tool_call, **kwargs):
        self.asked.append(tool_call.title)
        self.wait_for_permission.set()
        if self.allow is None:
            await asyncio.Event().wait()  # until it is cancelled
        kind = "allow_once" if self.allow else "reject_once"
        chosen = next(option for option in options if option.kind == kind)
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        )

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append(update)

    def text(self, kind="agent_message_chunk"):
        chunks = (update for update in self.updates if update.session_update == kind)
        return "".join(getattr(chunk.content, "text", "") for chunk in chunks)

    def kinds(self):
        return [update.session_update for update in self.updates]


class Recorded:
    """An agent's process, whose lines are written down on their way."""

    def __init__(self, editor):
        self.editor = editor

    async def __aenter__(self):
        self.process = await asyncio.create_subprocess_exec(
            *COMMAND, stdin=aio_subprocess.PIPE, stdout=aio_subprocess.PIPE, limit=1 << 26
        )
        reader, process, record = asyncio.StreamReader(limit=1 << 26), self.process, open(RECORD, "a")

        def note(side, line):
            record.write(json.dumps({"from": side, "line": line.decode()}) + "\n")
            record.flush()

        async def pump():
            while line := await process.stdout.readline():
                note("agent", line)
                reader.feed_data(line)
            reader.feed_eof()

        self.pump = asyncio.create_task(pump())
        write = process.stdin.write

        def noted(data):
            for line in bytes(data).splitlines():
                note("client", line)
            write(data)

        process.stdin.write = noted
        self.connection = acp.connect_to_agent(self.editor, process.stdin, reader)
        await self.connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        return self.connection

    async def __aexit__(self, *_):
        self.process.stdin.close()
        assert await asyncio.wait_for(self.process.wait(), 10) == 0
        await self.pump


def said(text):
    return [schema.TextContentBlock(type="text", text=text)]


async def main():
    cwd = os.getcwd()
    editor = Editor()
    async with Recorded(editor) as agent:
        session = (await agent.new_session(cwd=cwd, mcp_servers=[])).session_id

        ended = await agent.prompt(session_id=session, prompt=said("hello from python"))
        assert ended.stop_reason == "end_turn" and editor.text() == "hello from python", editor.updates

        ended = await agent.prompt(session_id=session, prompt=said("/tool ls"))
        assert ended.stop_reason == "end_turn" and editor.asked, editor.updates
        calls = [update for update in editor.updates if update.session_update == "tool_call"]
        ends = [update for update in editor.updates if update.session_update == "tool_call_update"]
        assert calls and ends[-1].status == "completed", editor.kinds()

        editor.allow = False
        await agent.prompt(session_id=session, prompt=said("/tool rm"))
        ends = [update for update in editor.updates if update.session_update == "tool_call_update"]
        assert len(editor.asked) == 2 and all(end.status != "completed" for end in ends[1:]), ends

        # A turn that waits for the person is cancelled: it ends so, and nothing was approved.
        editor.allow = None
        editor.wait_for_permission.clear()
        turn = asyncio.create_task(agent.prompt(session_id=session, prompt=said("/tool wait")))
        await asyncio.wait_for(editor.wait_for_permission.wait(), 10)
        await agent.cancel(session_id=session)
        assert (await asyncio.wait_for(turn, 10)).stop_reason == "cancelled"

        try:
            await agent.prompt(session_id=session, prompt=said("/fail on purpose"))
            raise AssertionError("a turn that fails is an error")
        except acp.RequestError as error:
            assert "on purpose" in str(error), error

        listed = await agent.list_sessions()
        assert session in [entry.session_id for entry in listed.sessions], listed

        # A second editor at the same time: it sees all, then both hear what happens.
        other = Editor()
        async with Recorded(other) as second:
            await second.load_session(cwd=cwd, session_id=session, mcp_servers=[])
            assert "hello from python" in other.text("user_message_chunk"), other.updates
            assert "hello from python" in other.text(), other.updates
            assert not other.asked, "what is settled is not asked again"
            await second.prompt(session_id=session, prompt=said("from the second"))
            while "from the second" not in editor.text("user_message_chunk"):
                await asyncio.sleep(0.01)

    # The editor starts again: without the history, and then goes on.
    editor = Editor()
    async with Recorded(editor) as agent:
        await agent.resume_session(cwd=cwd, session_id=session, mcp_servers=[])
        assert "hello from python" not in editor.text(), editor.updates
        ended = await agent.prompt(session_id=session, prompt=said("again"))
        assert ended.stop_reason == "end_turn" and editor.text() == "again", editor.updates
        await agent.close_session(session_id=session)
        try:
            await agent.prompt(session_id=session, prompt=said("too late"))
            raise AssertionError("a session that was closed takes no prompt")
        except acp.RequestError:
            pass
    print("python: new, prompt, permission, cancel, list, load, resume, close, two at once")


asyncio.run(asyncio.wait_for(main(), 90))
