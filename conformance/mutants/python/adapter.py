"""The plain adapter that the broken ones are made of: it keeps the core's rules, and has a part of the probe."""

import json
import os
import pathlib
import queue
import sys
import threading
import time

PROBE = os.environ.get("CONFORM_PROBE") == "1"
OPS = ["hello", "say", "echo", "burst", "sleep", "until_stop", "set", "get", "complete"]


class Session:
    """One conversation, served by a thread of its own."""

    def __init__(self, adapter, session_id):
        self.adapter = adapter
        self.id = session_id
        self.open = True
        self.running = False
        self.stop = threading.Event()
        self.inputs = queue.Queue()
        self.variables = {}
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while (content := self.inputs.get()) is not None:
            self.running = True
            self.turn(content)
            self.running = False
            self.send("turn.complete")
            self.stop.clear()

    def input(self, content):
        self.inputs.put(content)

    def end_turn(self):
        if self.running or not self.inputs.empty():
            self.stop.set()

    def close(self):
        self.open = False
        self.stop.set()
        self.inputs.put(None)

    def send(self, kind, **fields):
        if self.open:
            self.adapter.write({"type": kind, "session_id": self.id, **fields})

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
                adapter = pathlib.Path(sys.argv[0]).stem
                self.say(json.dumps({"$probe": 1, "ops": OPS, "adapter": adapter, "version": "1"}))
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


class Adapter:
    """One process: `run` reads lines, `take` is given each, `handle` each message, `write` puts one out."""

    session_type = Session

    def __init__(self):
        self.sessions = {}
        self.lock = threading.Lock()

    def run(self):
        for line in sys.stdin.buffer:
            self.take(line)

    def take(self, line):
        try:
            self.handle(json.loads(line))
        except (ValueError, RecursionError):
            pass

    def handle(self, message):
        if not isinstance(message, dict):
            return
        kind, session_id = message.get("type"), message.get("session_id")
        if not isinstance(session_id, str) or not session_id:
            return
        session = self.sessions.get(session_id)
        if kind == "session.start":
            if session is None:
                self.sessions[session_id] = self.session_type(self, session_id)
        elif session is None:
            return
        elif kind == "user.input":
            content = message.get("content")
            if content is None or isinstance(content, str):
                session.input(content or "")
        elif kind == "stop":
            session.end_turn()
        elif kind == "session.close":
            session.close()
            del self.sessions[session_id]

    def write(self, message):
        with self.lock:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()
