"""Drives an agent with ACP's own Python library: new, prompt, permission, cancel, load, resume, two at once.

    client.py RECORD trunkline acp [ARGUMENTS]
    client.py RECORD http|h2c|ws                  the daemon at ACP_URL, with ACP_TOKEN

Every message of both sides goes to the file RECORD, which validate.mjs holds against the official schema.
"""

import asyncio
import os

import acp
from editor import RECORD, Editor, opened, said


async def main():
    cwd = os.getcwd()
    editor = Editor()
    async with opened(editor) as agent:
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
        async with opened(other, f"{RECORD}.second") as second:
            await second.load_session(cwd=cwd, session_id=session, mcp_servers=[])
            assert "hello from python" in other.text("user_message_chunk"), other.updates
            assert "hello from python" in other.text(), other.updates
            assert not other.asked, "what is settled is not asked again"
            await second.prompt(session_id=session, prompt=said("from the second"))
            while "from the second" not in editor.text("user_message_chunk"):
                await asyncio.sleep(0.01)

    # The editor starts again: without the history, and then goes on.
    editor = Editor()
    async with opened(editor) as agent:
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
