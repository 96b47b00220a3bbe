"""The same on the SDK of the Agent Client Protocol for Python."""
import asyncio
import os
import uuid
from pathlib import Path
from typing import Any

import acp
from acp import schema


class Notes(acp.Agent):
    def __init__(self) -> None:
        self.client: acp.Client
        self.running: dict[str, asyncio.Task[None]] = {}

    def on_connect(self, conn: acp.Client) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **more: Any) -> schema.InitializeResponse:
        resume = schema.SessionCapabilities(resume=schema.SessionResumeCapabilities())
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="notes", version="1.0.0"),
            agent_capabilities=schema.AgentCapabilities(session_capabilities=resume),
        )

    async def new_session(self, cwd: str, **more: Any) -> schema.NewSessionResponse:
        return schema.NewSessionResponse(session_id=str(uuid.uuid4()))

    async def resume_session(self, session_id: str, cwd: str, **more: Any) -> schema.ResumeSessionResponse:
        if not kept_of(session_id).exists():
            raise acp.RequestError.resource_not_found(session_id)
        return schema.ResumeSessionResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **more: Any) -> schema.PromptResponse:
        text = "".join(block.text for block in prompt if block.type == "text")
        task = self.running[session_id] = asyncio.create_task(self.turn(session_id, text))
        try:
            await task
        except asyncio.CancelledError:
            return schema.PromptResponse(stop_reason="cancelled")
        finally:
            del self.running[session_id]
        return schema.PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **more: Any) -> None:
        if task := self.running.get(session_id):
            task.cancel()

    async def say(self, session_id: str, text: str) -> None:
        await self.client.session_update(session_id, acp.update_agent_message_text(text))

    async def turn(self, session_id: str, text: str) -> None:
        kept, (verb, _, rest) = kept_of(session_id), text.partition(" ")
        if verb == "write":
            await self.write(session_id, rest)
        elif verb == "wait":
            await self.say(session_id, "waiting")
            await asyncio.sleep(3600)
        elif verb == "recall":
            await self.say(session_id, kept.read_text())
        else:
            with kept.open("a") as file:
                file.write(text + "\n")
            await self.say(session_id, "noted")

    async def write(self, session_id: str, path: str) -> None:
        call = str(uuid.uuid4())
        start = acp.start_tool_call(call, f"Write {path}", kind="edit", status="pending", raw_input={"path": path})
        await self.client.session_update(session_id, start)
        answer = await self.client.request_permission(
            session_id,
            schema.ToolCallUpdate(tool_call_id=call, title=f"Write {path}"),
            [
                schema.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
                schema.PermissionOption(option_id="no", name="Deny", kind="reject_once"),
            ],
        )
        approved = answer.outcome.outcome == "selected" and answer.outcome.option_id == "yes"
        if approved:
            Path(path).write_text("written")
        status = "completed" if approved else "failed"
        await self.client.session_update(session_id, acp.update_tool_call(call, status=status))


def kept_of(session_id: str) -> Path:
    return Path(os.environ["NOTES"], Path(session_id).name)


asyncio.run(acp.run_agent(Notes(), use_unstable_protocol=True))
