"""The nearest to it on the SDK of the Model Context Protocol for Python: a server with one tool."""
import asyncio
import os
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("notes", version="1.0.0")


class Approval(BaseModel):
    approved: bool


@server.tool()
async def turn(text: str, ctx: Context) -> str:
    kept, (verb, _, rest) = Path(os.environ["NOTES"], "notes"), text.partition(" ")
    if verb == "write":
        return await write(ctx, rest)
    if verb == "wait":
        await ctx.report_progress(0, message="waiting")
        await asyncio.sleep(3600)  # a cancellation ends it
    if verb == "recall":
        return kept.read_text()
    with kept.open("a") as file:
        file.write(text + "\n")
    return "noted"


async def write(ctx: Context, path: str) -> str:
    answer = await ctx.elicit(f"Write {path}", Approval)
    if answer.action != "accept" or not answer.data.approved:
        return "denied"
    Path(path).write_text("written")
    return "written"


server.run()
