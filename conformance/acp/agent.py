#!/usr/bin/env python3
"""An adapter that uses all that an editor can show: what features.mjs and features.py drive through `trunkline acp`.

It speaks the protocol without a package. The first word of an input says what to do; anything else is repeated.
"""

import base64
import hashlib
import json
import os
import sys
import tempfile

# One pixel.
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CHOICES = [{"id": "eu", "label": "Europe", "description": "three zones"}, {"id": "us"}]
FORM = [
    {"id": "where", "label": "Cluster", "kind": "choice", "choices": CHOICES, "required": True, "default": "eu"},
    {"id": "copies", "kind": "number", "default": 2},
    {"id": "dry", "kind": "boolean"},
    {"id": "tags", "kind": "choices", "choices": [{"id": "a"}, {"id": "b"}]},
    {"id": "note", "kind": "text"},
]
MODELS = [{"id": "large", "label": "Large", "description": "thinks longest"}, {"id": "small"}, {"id": "broken"}]
SPEEDS = [{"id": "fast", "label": "Fast", "description": "answers at once"}, {"id": "slow"}]
# The host lets no session choose the last one.
MODES = [{"id": "default", "name": "Asks", "description": "asks before tools run"}, {"id": "plan", "name": "Plan"}, {"id": "auto"}]
COMMANDS = [{"name": "review", "description": "Reviews the changes", "hint": "a path", "text": "Review:"}]


def say(**message):
    print(json.dumps(message), flush=True)


class Session:
    def __init__(self, start):
        self.id, self.start, self.files, self.asks = start["session_id"], start, [], 0
        self.values = {"model": "large", "mode": "default"}
        speed = {"id": "speed", "label": "Speed", "description": "How fast it answers", "category": "model_config"}
        self.options = [{**speed, "kind": "select", "value": "fast", "choices": SPEEDS}]
        self.options.append({"id": "web", "label": "Web", "kind": "boolean", "value": False})
        self.turn, self.wanted = None, None
        applied = ["cwd", "add_dirs", "mcp_servers", "model", "mode"]
        say(
            type="session.ready",
            session_id=self.id,
            protocol=1,
            extensions=[known for known in start["extensions"] if known != "journal"],
            options_applied=[name for name in applied if name in start],
            models=MODELS,
            modes=MODES,
            commands=COMMANDS,
            options=self.options,
            **self.values,
        )

    def say(self, kind, /, **message):
        say(type=kind, session_id=self.id, **({"turn_id": self.turn} if self.turn else {}), **message)

    def ends(self, **how):
        self.say("turn.complete", **{"status": "completed", **how})
        self.turn = self.wanted = None

    def asked(self, kind, then, /, **request):
        """Asks, and goes on with `then` at the answer."""
        self.asks += 1
        self.wanted = then
        self.say(kind, request_id=f"r-{self.asks}", **request)

    def update(self, message):
        if message.get("model") == "broken":
            self.say("error", message="the model is broken", fatal=False)
        else:
            self.values |= {name: message[name] for name in ("model", "mode") if name in message}
        for option in self.options:
            option["value"] = message.get("options", {}).get(option["id"], option["value"])
        say(type="session.info", session_id=self.id, options=self.options, **self.values)

    def input(self, message):
        self.turn = message.get("turn_id")
        word = message["content"].split(" ")[0]
        getattr(self, f"do_{word}", self.repeat)(message["content"])

    def repeat(self, text):
        for name, size, digest in self.files:
            text += f" [{name} {size} {digest}]"
        self.files = []
        self.say("output", content=text, message_id="m-1")
        self.ends()

    def do_where(self, _):
        told = {name: self.start.get(name) for name in ("cwd", "add_dirs", "mcp_servers")}
        self.repeat(json.dumps(told | {"here": os.getcwd()}, sort_keys=True))

    def do_form(self, _):
        answered = lambda answer: self.repeat(json.dumps(answer.get("values"), sort_keys=True))  # noqa: E731
        self.asked("input.request", answered, prompt="Where should it be deployed?", fields=FORM)

    def do_secret(self, _):
        answered = lambda answer: self.repeat(f"cancelled {answer.get('cancelled')}")  # noqa: E731
        self.asked("input.request", answered, prompt="The token?", fields=[{"id": "token", "kind": "secret"}])

    def do_edit(self, _):
        diffs = [{"path": "/srv/a.rs", "old_text": "a\n", "new_text": "b\n"}]
        patch = {"path": "/srv/b.rs", "patch": "@@ -1 +1 @@\n-a\n+b\n"}
        place = [{"path": "/srv/a.rs", "line": 12}]
        call = {"tool_call_id": "c-1"}
        self.say("tool.start", tool="Edit", kind="edit", title="Edit a.rs", input={"n": 1}, locations=place, **call)

        def answered(answer):
            self.say("tool.update", content="1 line\n", stream="stdout", locations=[{"path": "/srv/b.rs"}], **call)
            self.say("tool.end", is_error=not answer["approved"], diffs=[*diffs, patch], data=[{"n": 2}], **call)
            self.ends()

        options = [
            {"id": "once", "label": "Allow", "kind": "allow_once"},
            {"id": "always", "label": "Always", "kind": "allow_always"},
            {"id": "no", "label": "Deny", "kind": "reject_once"},
        ]
        request = {"tool": "Edit", "description": "Change a.rs", "resource": "/srv/a.rs", "title": "Edit a file"}
        self.asked("permission.request", answered, diffs=diffs, options=options, **request, **call)

    def do_plan(self, _):
        steps = [("read", "completed", "high"), ("mend", "in_progress", "low"), ("test", "pending", "medium")]
        entries = [{"content": text, "status": status, "priority": priority} for text, status, priority in steps]
        self.say("plan", entries=entries)
        self.say("thinking", content="The test fails because", message_id="m-7")
        self.ends()

    def do_picture(self, _):
        path = os.path.join(self.start.get("exchange_dir") or tempfile.gettempdir(), "one pixel.png")
        with open(path, "wb") as file:
            file.write(PICTURE)
        self.say("file.output", file_name="one pixel.png", file_mime_type="image/png", file_path=path)
        self.ends()

    def do_compact(self, _):
        self.say("compaction", trigger="manual", pre_tokens=1500, id="k-1", summary="The test fails.")
        self.ends()

    def do_cost(self, _):
        self.say("context.usage", used_tokens=1500, total_tokens=200000)
        self.ends(usage={"input_tokens": 1200, "output_tokens": 300, "cost_usd": 0.25, "scope": "turn"})

    def do_news(self, _):
        """What the agent changes by itself."""
        self.values["mode"] = "plan"
        commands = [*COMMANDS, {"name": "test"}]
        say(type="session.info", session_id=self.id, display_id="parser work", commands=commands, **self.values)
        self.ends()

    def do_wait(self, _):
        self.say("output", content="waits")

    def stop(self):
        if self.turn:
            self.ends(status="stopped", stop_reason="user")


def main():
    sessions = {}
    for line in sys.stdin:
        message = json.loads(line)
        kind, session = message["type"], sessions.get(message["session_id"])
        if kind == "ping":
            say(type="pong", session_id="", **({"nonce": message["nonce"]} if "nonce" in message else {}))
        elif kind == "session.start":
            sessions[message["session_id"]] = Session(message)
        elif session is None:
            continue
        elif kind == "user.input":
            session.input(message)
        elif kind == "file.input":
            with open(message["file_path"], "rb") as file:
                content = file.read()
            digest = hashlib.sha256(content).hexdigest()[:8]
            session.files.append((message["file_name"], len(content), digest))
        elif kind in ("permission.response", "input.response") and session.wanted:
            then, session.wanted = session.wanted, None
            then(message)
        elif kind == "session.update":
            session.update(message)
        elif kind == "stop":
            session.stop()
        elif kind == "session.close":
            del sessions[message["session_id"]]
            say(type="session.closed", session_id=message["session_id"])


main()
