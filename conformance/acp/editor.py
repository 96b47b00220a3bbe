"""An editor made of ACP's own Python library, and how it reaches its agent."""

import asyncio
import asyncio.subprocess as aio_subprocess
import contextlib
import json
import os
import sys

import acp
from acp import schema

RECORD, TARGET = sys.argv[1], sys.argv[2:]


class Editor(acp.Client):
    can = None

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


def note(record, side, line):
    with open(record, "a") as lines:
        lines.write(json.dumps({"from": side, "line": line}) + "\n")


class Noted:
    """A transport of the library, whose messages are written down on their way."""

    def __init__(self, transport, record):
        self.transport, self.record, self.close = transport, record, transport.close

    async def send(self, message):
        note(self.record, "client", json.dumps(message))
        await self.transport.send(message)

    async def receive(self):
        message = await self.transport.receive()
        if message is not None:
            note(self.record, "agent", json.dumps(message))
        return message


@contextlib.asynccontextmanager
async def process(editor, record):
    """An agent's process, whose lines are written down on their way."""
    child = await asyncio.create_subprocess_exec(
        *TARGET, stdin=aio_subprocess.PIPE, stdout=aio_subprocess.PIPE, limit=1 << 26
    )
    reader = asyncio.StreamReader(limit=1 << 26)

    async def pump():
        while line := await child.stdout.readline():
            note(record, "agent", line.decode())
            reader.feed_data(line)
        reader.feed_eof()

    pumping = asyncio.create_task(pump())
    write = child.stdin.write

    def noted(data):
        for line in bytes(data).splitlines():
            note(record, "client", line.decode())
        write(data)

    child.stdin.write = noted
    # Forms are not stable there.
    yield acp.connect_to_agent(editor, child.stdin, reader, use_unstable_protocol=True)
    child.stdin.close()
    assert await asyncio.wait_for(child.wait(), 10) == 0
    await pumping


@contextlib.asynccontextmanager
async def daemon(editor, record):
    """The daemon at ACP_URL, for who has ACP_TOKEN."""
    url, headers = os.environ["ACP_URL"] + "/acp", {"Authorization": f"Bearer {os.environ['ACP_TOKEN']}"}
    if TARGET[0] in ("http", "h2c"):
        import httpx
        from acp.http import create_http_stream

        # HTTP/2 without TLS is spoken by a client that knows of it beforehand.
        client = httpx.AsyncClient(http1=TARGET == ["http"], http2=True, timeout=None)
        transport = create_http_stream(url, headers=headers, client=client)
    else:
        from acp.ws import create_websocket_stream

        transport = await create_websocket_stream(url.replace("http", "ws", 1), headers=headers)
    connection = acp.connect_to_agent(editor, Noted(transport, record), use_unstable_protocol=True)
    try:
        yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def opened(editor, record=RECORD):
    """An agent that knows the editor. `http`, `h2c` and `ws` are a daemon's; else TARGET is a command."""
    async with (daemon if TARGET[0] in ("http", "h2c", "ws") else process)(editor, record) as agent:
        editor.told = await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION, client_capabilities=editor.can
        )
        yield agent


def said(text):
    return [schema.TextContentBlock(type="text", text=text)]
