"""Drives an agent with ACP's own Python library, the same way whatever the agent is. real.py compares the records.

    real_client.py RECORD COMMAND [ARGUMENTS]

The record has the lines of typescript/real.mjs.
"""

import asyncio
import json
import os

from editor import RECORD, Editor, opened, said

STEP_TIMEOUT = 90


def note(line):
    with open(RECORD, "a") as lines:
        lines.write(json.dumps(line) + "\n")


async def step(name, call):
    """Notes a step and what became of it. An agent that refuses one step is driven on."""
    note({"step": name})
    try:
        return await asyncio.wait_for(call, STEP_TIMEOUT)
    except Exception as error:
        note({"step": name, "failed": str(error) or type(error).__name__})
        return None


async def main():
    cwd = os.getcwd()
    editor = Editor()
    async with opened(editor) as agent:
        new = await step("new", agent.new_session(cwd=cwd, mcp_servers=[]))
        if new is None:
            return
        session = new.session_id

        async def prompt(name, text):
            await step(name, agent.prompt(session_id=session, prompt=said(text)))

        await prompt("text", "FAKE:text")
        await prompt("thought", "FAKE:think")
        await prompt("tool", "FAKE:bash:echo hello > made.txt;;")
        editor.allow = False
        await prompt("denied", "FAKE:bash:echo hello > denied.txt;;")
        editor.allow = True
        await prompt("write", f"FAKE:write:{cwd}/written.txt;;")
        await prompt("failed", "FAKE:err:400")
        await asyncio.sleep(1)  # what is sent behind the last answer
    async with opened(Editor()) as agent:
        if await step("load", agent.load_session(cwd=cwd, session_id=session, mcp_servers=[])) is not None:
            await step("after load", agent.prompt(session_id=session, prompt=said("FAKE:text")))


try:
    asyncio.run(main())
except AssertionError as error:
    # A real agent's program may end with any status.
    note({"step": "end", "failed": str(error)})
