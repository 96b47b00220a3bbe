"""Runs a turn where it reads, so that no stop arrives before the turn has ended."""

import json
import os
import sys
import threading
import time

PROBE = os.environ.get("CONFORM_PROBE") == "1"
OPS = ["hello", "say", "echo", "burst", "sleep", "until_stop", "set", "get", "complete"]
lock = threading.Lock()


def write(message):
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


class Session:
    """One conversation."""

    def __init__(self, session_id):
        self.id = session_id
        self.open = True
        self.stop = threading.Event()
        self.variables = {}

    def serve(self, content):
        self.turn(content)
        self.send("turn.complete")

    def send(self, kind, **fields):
        if self.open:
            write({"type": kind, "session_id": self.id, **fields})

    def say(self, text):
        self.send("output", content=text)

    def turn(self, content):
        try:
            script = json.loads(content) if PROBE else None
        except ValueError:
            script = None
        if isinstance(script, dict) and "$probe" in script:
            self.run(script)
        else:
            self.say(content)

    def run(self, script):
        for name, *rest in script.get("do", []):
            if self.stop.is_set() or name == "complete":
                return
            if name == "hello":
                self.say(json.dumps({"$probe": 1, "ops": OPS, "adapter": "blocking_turn", "version": "1"}))
            elif name == "say":
                self.say(rest[0])
            elif name == "echo":
                self.say(rest[0] if rest else script.get("text", ""))
            elif name == "burst":
                letter = rest[2] if len(rest) > 2 else "x"
                for number in range(1, rest[0] + 1):
                    if self.stop.is_set():
                        return
                    self.say(f"{number:08d} ".ljust(rest[1], letter))
            elif name in ("sleep", "until_stop"):
                self.busy(rest[0] / 1000 if rest else None)
            elif name == "set":
                self.variables[rest[0]] = rest[1]
            elif name == "get":
                self.say(json.dumps({"$probe": 1, "key": rest[0], "value": self.variables.get(rest[0])}))
            else:
                self.say(json.dumps({"$probe": 1, "unsupported": name}))
                return

    def busy(self, seconds):
        end = time.monotonic() + seconds if seconds is not None else float("inf")
        while (left := end - time.monotonic()) > 0 and not self.stop.wait(min(left, 0.05)):
            self.say("tick")


sessions = {}


def handle(message):
    if not isinstance(message, dict):
        return
    kind, session_id = message.get("type"), message.get("session_id")
    if not isinstance(session_id, str) or not session_id:
        return
    session = sessions.get(session_id)
    if kind == "session.start":
        sessions.setdefault(session_id, session or Session(session_id))
    elif session is None:
        return
    elif kind == "user.input":
        content = message.get("content")
        if content is None or isinstance(content, str):
            session.serve(content or "")
    elif kind == "session.close":
        session.open = False
        session.stop.set()
        del sessions[session_id]


for raw in sys.stdin.buffer:
    try:
        handle(json.loads(raw))
    except (ValueError, RecursionError):
        continue
