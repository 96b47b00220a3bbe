#!/usr/bin/env python3
"""Drives one of the programs here through all that it is compared by: a note, a tool call that asks and is denied, one that is
approved, a stop, and the same conversation in another process.

    drive.py PROTOCOL COMMAND...        trunkline, acp or mcp

Says what it has seen, and ends with status 1 where something is missing that the protocol has.
"""
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

LIMIT = 60  # seconds: what hangs is ended


class Pipe:
    """A program, and the JSON lines between us."""

    def __init__(self, command, notes):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "NOTES": notes}
        )
        self.limit = threading.Timer(LIMIT, self.process.kill)
        self.limit.start()
        self.asked = 0

    def send(self, **message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def read(self):
        line = self.process.stdout.readline()
        assert line, "the program has ended"
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait()
        self.limit.cancel()


class Trunkline(Pipe):
    """Ours."""

    resumes = tells_tools = True

    def open(self, native=None):
        resume = {"resume": {"native_session_id": native}} if native else {}
        extensions = ["turns", "events", "resume", "control"]
        self.send(type="session.start", session_id="s", protocol=1, extensions=extensions, **resume)
        self.native, self.context = None, None

    def turn(self, text, approve=False, stop=False):
        """All that is said in the turn: the answer, and the ends of tool calls (whether each failed)."""
        self.asked += 1
        self.send(type="user.input", session_id="s", turn_id=str(self.asked), content=text)
        answer, tools, open_calls = "", [], set()
        while (message := self.read())["type"] != "turn.complete":
            kind = message["type"]
            self.native = message.get("native_session_id", self.native)
            self.context = message.get("context", self.context)
            if kind == "output":
                answer += message["content"]
                if stop:
                    self.send(type="stop", session_id="s", turn_id=str(self.asked))
            elif kind == "tool.start":
                open_calls.add(message["tool_call_id"])
            elif kind == "tool.end":
                open_calls.remove(message["tool_call_id"])
                tools.append(message.get("is_error", False))
            elif kind == "permission.request":
                request = message["request_id"]
                self.send(type="permission.response", session_id="s", request_id=request, approved=approve)
        assert not open_calls
        return answer, tools, message.get("status") == "stopped"


class Rpc(Pipe):
    """What ACP and MCP have in common: JSON-RPC."""

    def call(self, method, params, answer_request=None, on_note=None):
        self.asked += 1
        number = self.asked
        self.send(jsonrpc="2.0", id=number, method=method, params=params)
        while True:
            message = self.read()
            if "method" not in message:
                assert message["id"] == number, message
                return message
            if "id" in message:
                self.send(jsonrpc="2.0", id=message["id"], result=answer_request(message["params"]))
            elif on_note:
                on_note(message["params"])


class Acp(Rpc):
    """The Agent Client Protocol, version 1."""

    resumes = tells_tools = True
    context = "kept"

    def open(self, native=None):
        hello = {"protocolVersion": 1, "clientCapabilities": {}}
        assert self.call("initialize", hello)["result"]["protocolVersion"] == 1
        params = {"cwd": os.getcwd(), "mcpServers": []}
        if native:
            opened = self.call("session/resume", {**params, "sessionId": native})
            self.native = native
        else:
            opened = self.call("session/new", params)
            self.native = opened["result"]["sessionId"]
        assert "result" in opened, opened

    def turn(self, text, approve=False, stop=False):
        answer, tools = [], []

        def note(params):
            update = params["update"]
            if update["sessionUpdate"] == "agent_message_chunk":
                answer.append(update["content"]["text"])
                if stop:
                    self.send(jsonrpc="2.0", method="session/cancel", params={"sessionId": self.native})
            elif update.get("status") in ("completed", "failed"):
                tools.append(update["status"] == "failed")

        def permit(params):
            wanted = "allow_once" if approve else "reject_once"
            option = next(option["optionId"] for option in params["options"] if option["kind"] == wanted)
            return {"outcome": {"outcome": "selected", "optionId": option}}

        prompt = {"sessionId": self.native, "prompt": [{"type": "text", "text": text}]}
        end = self.call("session/prompt", prompt, permit, note)["result"]
        return "".join(answer), tools, end["stopReason"] == "cancelled"


class Mcp(Rpc):
    """The Model Context Protocol: the program is a server, and a turn is a call of its tool. It has no conversations."""

    resumes = tells_tools = False
    native = context = None

    def open(self, native=None):
        us = {"name": "drive", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": us}
        assert "result" in self.call("initialize", hello)
        self.send(jsonrpc="2.0", method="notifications/initialized")

    def turn(self, text, approve=False, stop=False):
        def note(params):
            if stop and "progress" in params:
                self.send(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": self.asked})
                self.send(jsonrpc="2.0", id="ping", method="ping")

        def permit(params):
            return {"action": "accept", "content": {"approved": True}} if approve else {"action": "decline"}

        call = {"name": "turn", "arguments": {"text": text}, "_meta": {"progressToken": text}}
        try:
            end = self.call("tools/call", call, permit, note)
        except AssertionError as other:  # what is cancelled is not answered: the ping is
            assert stop and other.args[0]["id"] == "ping", other
            return "waiting", [], True
        if "error" in end:
            return "waiting", [], stop
        return "".join(part["text"] for part in end["result"]["content"]), [], False


def drive(protocol, command, notes):
    written = Path(notes, "written")
    it = protocol(command, notes)
    it.open()
    assert it.turn("tea please") == ("noted", [], False)
    native = it.native
    said = it.turn(f"write {written}")
    assert not written.exists() and said[1] == [True] * it.tells_tools, said
    said = it.turn(f"write {written}", approve=True)
    assert written.exists() and said[1] == [False] * it.tells_tools, said
    said = it.turn("wait", stop=True)
    assert said == ("waiting", [], True), said
    assert it.turn("recall")[0] == "tea please\n"
    it.end()
    if it.resumes:
        it = protocol(command, notes)
        it.open(native)
        assert it.turn("recall")[0] == "tea please\n" and it.context == "kept"
        it.end()
    print(f"{protocol.__name__.lower()}: {' '.join(command)}: permission, stop"
          + ", tools" * it.tells_tools + ", resume" * it.resumes)


if __name__ == "__main__":
    protocols = {"trunkline": Trunkline, "acp": Acp, "mcp": Mcp}
    with tempfile.TemporaryDirectory() as folder:
        drive(protocols[sys.argv[1]], sys.argv[2:], folder)
