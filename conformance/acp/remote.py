"""Drives a daemon as editors elsewhere do that lose it: a connection that ends while it is asked, one that another takes
over, a daemon that is killed and comes back.

    remote.py RECORD http|h2c|ws                  the daemon at ACP_URL, with ACP_TOKEN; it is killed
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from urllib.parse import urlsplit

from editor import RECORD, Editor, opened, said

CWD = os.getcwd()


async def until(ready):
    while not ready():
        await asyncio.sleep(0.005)


async def asks(editor, agent, session, text):
    """A turn that waits for the person, who does not answer."""
    editor.allow = None
    editor.wait_for_permission.clear()
    turn = asyncio.create_task(agent.prompt(session_id=session, prompt=said(text)))
    await asyncio.wait_for(editor.wait_for_permission.wait(), 10)
    return turn


async def main():
    # The editor goes while it is asked. Nothing is denied, and the turn goes on.
    editor = Editor()
    async with opened(editor) as agent:
        session = (await agent.new_session(cwd=CWD, mcp_servers=[])).session_id
        lost = await asks(editor, agent, session, "/tool one")
    assert isinstance(await asyncio.wait_for(asyncio.gather(lost, return_exceptions=True), 10), list)

    # The next one is asked, and its answer counts.
    editor = Editor()
    async with opened(editor) as agent:
        await agent.load_session(cwd=CWD, session_id=session, mcp_servers=[])
        done = lambda: any(getattr(update, "status", None) == "completed" for update in editor.updates)  # noqa: E731
        await asyncio.wait_for(until(done), 10)
        other = Editor()
        async with opened(other, f"{RECORD}.second") as second:
            await second.resume_session(cwd=CWD, session_id=session, mcp_servers=[])
            await second.prompt(session_id=session, prompt=said("from the second"))
            assert other.text() == "from the second", other.updates
        await asyncio.wait_for(until(lambda: "from the second" in editor.text()), 10)

    # The daemon is killed under an editor, in a turn, and comes back at the same address.
    editor = Editor()
    async with opened(editor) as agent:
        await agent.resume_session(cwd=CWD, session_id=session, mcp_servers=[])
        lost = await asks(editor, agent, session, "/tool lost")
        with open(os.environ["TRUNKLINE_STATE"] + "/daemon.json") as noted:
            os.kill(json.load(noted)["pid"], signal.SIGKILL)
        try:
            await asyncio.wait_for(lost, 10)
            raise AssertionError("an editor learns that its daemon has gone")
        except (ConnectionError, OSError):
            pass
    at = urlsplit(os.environ["ACP_URL"]).netloc
    daemon = subprocess.Popen(["trunkline", "up", "--http", at, "--json"], stdout=subprocess.PIPE)
    daemon.stdout.readline()
    editor = Editor()
    async with opened(editor) as agent:
        await agent.load_session(cwd=CWD, session_id=session, mcp_servers=[])
        assert editor.text("user_message_chunk").endswith("/tool lost"), editor.updates
        assert not editor.asked, "the turn ended with its daemon"
        ended = await agent.prompt(session_id=session, prompt=said("and on"))
        assert ended.stop_reason == "end_turn" and editor.text().endswith("and on"), editor.updates
    subprocess.run(["trunkline", "down"], check=True, stdout=subprocess.DEVNULL)
    daemon.wait()
    print(f"{sys.argv[2]}: a connection that ends, another that goes on, two at once, a daemon that is killed")


asyncio.run(asyncio.wait_for(main(), 90))
