"""Drives agent.py through `trunkline acp` with ACP's own Python library: folders, forms, pictures, modes, options, commands,
plans, diffs, thoughts, what it costs, the title.

    features.py RECORD trunkline acp --adapter 'python3 /…/agent.py'
    features.py RECORD ws                the daemon at ACP_URL, with ACP_TOKEN: no servers
"""

import asyncio
import base64
import hashlib
import json
import os

import acp
from acp import schema
from editor import TARGET, Editor, opened, said

LOCAL = TARGET != ["ws"]
PNG = bytes([137, 80, 78, 71, 13, 10, 26, 10])
FILLED = {"where": "us", "copies": 3.5, "dry": False, "tags": ["b"], "note": "ö"}


class Person(Editor):
    can = schema.ClientCapabilities(elicitation=schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities()))

    def __init__(self):
        super().__init__()
        self.forms, self.tool_calls = [], []
        self.answer = schema.AcceptElicitationResponse(action="accept", content=FILLED)

    async def create_elicitation(self, message, mode, **kwargs):
        self.forms.append((message, mode))
        return self.answer

    async def request_permission(self, options, session_id, tool_call, **kwargs):
        self.tool_calls.append((tool_call, [option.kind for option in options]))
        return await super().request_permission(options, session_id, tool_call, **kwargs)

    def of(self, kind):
        return [update for update in self.updates if update.session_update == kind]


def values(options):
    return [option.current_value for option in options]


async def main():
    cwd, person = os.getcwd(), Person()
    other = os.path.join(cwd, "other")
    os.makedirs(other, exist_ok=True)
    async with opened(person) as agent:
        assert person.told.agent_capabilities.prompt_capabilities.image
        server = schema.McpServerStdio(name="files", command="/bin/true", args=["-x"], env=[])
        servers = [server] if LOCAL else []
        begun = await agent.new_session(cwd=cwd, additional_directories=[other], mcp_servers=servers)
        session = begun.session_id

        async def prompt(*blocks):
            person.updates.clear()
            blocks = [block for text in blocks for block in (said(text) if isinstance(text, str) else [text])]
            assert (await agent.prompt(session_id=session, prompt=blocks)).stop_reason == "end_turn"
            return person.text()

        async def refused(why, **option):
            try:
                await agent.set_config_option(session_id=session, **option)
            except acp.RequestError as error:
                assert why in str(error), error
            else:
                raise AssertionError(f"{option} was taken")

        assert [mode.id for mode in begun.modes.available_modes] == ["default", "plan", "auto"]
        assert values(begun.config_options) == ["default", "large", "fast"]
        where = json.loads(await prompt("where"))
        assert (where["cwd"], where["here"], where["add_dirs"]) == (cwd, cwd, [other]), where
        assert [server["name"] for server in where["mcp_servers"] or []] == ["files"] * LOCAL, where
        assert await prompt("/review a.rs") == "Review: a.rs"

        person.updates.clear()
        await agent.set_session_mode(session_id=session, mode_id="plan")
        assert person.of("current_mode_update")[-1].current_mode_id == "plan"
        taken = await agent.set_config_option(session_id=session, config_id="model", value="small")
        assert values(taken.config_options) == ["plan", "small", "fast"]
        await refused("the model is broken", config_id="model", value="broken")
        await refused("may not set `mode`", config_id="mode", value="auto")
        await refused("no such option", config_id="colour", value="red")
        taken = await agent.set_config_option(session_id=session, config_id="mode", value="default")
        assert values(taken.config_options) == ["default", "small", "fast"]

        assert json.loads(await prompt("form")) == FILLED
        message, mode = person.forms[0]
        assert message == "Where should it be deployed?" and mode.requested_schema.required == ["where"]
        assert list(mode.requested_schema.properties) == list(FILLED), mode
        person.answer = schema.DeclineElicitationResponse(action="decline")
        assert await prompt("form") == "null"
        assert "cancelled True" in await prompt("secret") and len(person.forms) == 2

        picture = schema.ImageContentBlock(type="image", mime_type="image/png", data=base64.b64encode(PNG).decode())
        blob = schema.BlobResourceContents(uri="file:///srv/c.bin", blob=base64.b64encode(b"\0blob").decode())
        text = schema.TextResourceContents(uri="file:///srv/e.txt", text="embedded")
        blob, text = (schema.EmbeddedResourceContentBlock(type="resource", resource=found) for found in (blob, text))
        link = schema.ResourceContentBlock(type="resource_link", name="d.rs", uri="file:///srv/d.rs")
        parts = ["embedded", "[@d.rs](file:///srv/d.rs)"]
        shown = await prompt("look", picture, blob, text, link)
        digests = [hashlib.sha256(content).hexdigest()[:8] for content in (PNG, b"\0blob")]
        parts += [f"[image-1.png 8 {digests[0]}]", f"[c.bin 5 {digests[1]}]"]
        for part in parts:
            assert part in shown, shown
        await prompt("picture")
        image = person.of("agent_message_chunk")[0].content
        assert image.mime_type == "image/png" and base64.b64decode(image.data).startswith(PNG), image

        await prompt("edit")
        tool_call, kinds = person.tool_calls[-1]
        assert kinds == ["allow_once", "allow_always", "reject_once"] and tool_call.tool_call_id == "c-1"
        assert [content.type for content in tool_call.content].count("diff") == 1, tool_call
        (call,) = person.of("tool_call")
        assert (call.kind, call.title, call.raw_input) == ("edit", "Edit a.rs", {"n": 1})
        end = person.of("tool_call_update")[-1]
        diff = end.content[0]
        assert (diff.path, diff.old_text, diff.new_text, end.status) == ("/srv/a.rs", "a\n", "b\n", "completed"), end

        await prompt("plan")
        steps = [(entry.content, entry.status, entry.priority) for entry in person.of("plan")[0].entries]
        assert steps[1] == ("mend", "in_progress", "low") and len(steps) == 3, steps
        assert person.text("agent_thought_chunk") == "The test fails because"

        await prompt("cost")
        usage = person.of("usage_update")[-1]
        assert (usage.used, usage.size, usage.cost.amount, usage.cost.currency) == (1500, 200000, 0.25, "USD")

        await prompt("news")
        assert person.of("current_mode_update")[0].current_mode_id == "plan"
        assert values(person.of("config_option_update")[0].config_options) == ["plan", "small", "fast"]
        assert person.of("session_info_update")[0].title == "parser work"
        commands = person.of("available_commands_update")[0].available_commands
        assert [command.name for command in commands] == ["review", "test"]
        listed = await agent.list_sessions(cwd=cwd)
        assert (session, "parser work") in [(entry.session_id, entry.title) for entry in listed.sessions]
    print("python: folders, forms, pictures, modes, options, commands, plans, diffs, thoughts, cost, title")


asyncio.run(asyncio.wait_for(main(), 60))
