"""A small core-only relay host: hub on stdin and stdout, one process for each agent. The broken hosts change a method."""

import argparse
import json
import os
import queue
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading

REQUIRED = {
    "output": ("content",),
    "turn.complete": (),
    "file.output": ("file_path",),
    "permission.request": ("request_id", "tool"),
}
OPTIONAL = {"output": ("channel",), "file.output": ("file_name", "file_mime_type")}


class Agent:
    """One process, started when it is needed."""

    def __init__(self, relay, command):
        self.relay, self.command, self.process = relay, shlex.split(command), None

    def start(self):
        tmp = tempfile.mkdtemp(dir=self.relay.folder)
        passed = ("HOME", "PATH", "TERM", "LANG", "USER", "LOGNAME", "SHELL")
        env = {name: os.environ[name] for name in passed if name in os.environ}
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.relay.stderr(),
            env={**env, "TMPDIR": tmp}, start_new_session=True, bufsize=0)
        self.outbox = queue.Queue()
        threading.Thread(target=self.drain, args=(self.process, self.outbox), daemon=True).start()
        threading.Thread(target=self.read, args=(self.process,), daemon=True).start()

    def drain(self, process, outbox):
        """Writes what waits; `None` ends the pipe."""
        while (message := outbox.get()) is not None:
            self.write(process, message)
        process.stdin.close()

    def read(self, process):
        for line in self.relay.lines(process.stdout):
            self.relay.hear(self, line)
        status = process.wait()
        with self.relay.lock:
            self.process = None
            self.relay.ended(self, f"the adapter exited with status {status}")

    def write(self, process, message):
        try:
            data = memoryview(json.dumps(message).encode() + b"\n")
            while data:
                data = data[process.stdin.write(data):]
        except OSError:
            pass


class Session:
    def __init__(self, agent):
        self.agent, self.process, self.inputs, self.running = agent, None, [], False
        self.requests, self.turn, self.restarted = [], False, False


class Relay:
    def __init__(self):
        options = argparse.ArgumentParser()
        options.add_argument("--adapter", required=True)
        options.add_argument("--adapter2")
        chosen = options.parse_args()
        self.folder = tempfile.mkdtemp(prefix="relay-")
        self.lock, self.out = threading.RLock(), threading.Lock()
        self.agents = [Agent(self, command) for command in (chosen.adapter, chosen.adapter2) if command]
        self.sessions, self.copies = {}, 0

    # What the broken hosts change.

    def stderr(self):
        return None

    def lines(self, pipe):
        """The lines of a pipe, as text; what is not UTF-8 is skipped."""
        for line in iter(pipe.readline, b""):
            try:
                yield line.decode("utf-8-sig")
            except UnicodeDecodeError:
                pass

    def send(self, agent, message):
        """Writes without holding the reading of anything up."""
        if agent.process is not None:
            agent.outbox.put(message)

    def approves(self, message):
        return message.get("approved") is True

    def takes(self, text):
        return isinstance(text, str)

    # The hub.

    def say(self, message):
        with self.out:
            sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
            sys.stdout.buffer.flush()

    def run(self):
        for line in sys.stdin.buffer:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(message, dict) and isinstance(message.get("session_id"), str):
                with self.lock:
                    self.obey(message.get("type"), message["session_id"], message)
        self.end()

    def obey(self, kind, sid, message):
        session = self.sessions.get(sid)
        if kind == "session.start" and session is None and sid:
            at = 1 if message.get("agent_id") == "second" and len(self.agents) > 1 else 0
            self.sessions[sid] = session = Session(self.agents[at])
            self.open(sid, session)
        elif session is None:
            return
        elif kind == "user.input" and self.takes(message.get("content") or ""):
            session.inputs.append(message.get("content") or "")
            self.advance(sid, session)
        elif kind == "file.input" and isinstance(message.get("file_path"), str):
            path = message["file_path"]
            self.send(session.agent, {
                "type": kind, "session_id": sid, "file_name": message.get("file_name") or os.path.basename(path),
                "file_mime_type": message.get("file_mime_type") or "application/octet-stream", "file_path": path})
        elif kind == "stop" and session.turn:
            self.send(session.agent, {"type": "stop", "session_id": sid})
            self.deny(sid, session)
        elif kind == "permission.response" and message.get("request_id") in session.requests:
            session.requests.remove(message["request_id"])
            self.answer(sid, session, message["request_id"], self.approves(message))
        elif kind == "session.close":
            del self.sessions[sid]
            self.send(session.agent, {"type": kind, "session_id": sid})

    def answer(self, sid, session, request, approved):
        self.send(session.agent, {
            "type": "permission.response", "session_id": sid, "request_id": request, "approved": approved})

    def deny(self, sid, session):
        for request in session.requests:
            self.answer(sid, session, request, False)
        session.requests = []

    def open(self, sid, session):
        if session.agent.process is None:
            try:
                session.agent.start()
            except OSError as error:
                self.say({"type": "output", "session_id": sid, "content": str(error), "channel": "system"})
                return False
        if session.restarted:
            self.say({"type": "output", "session_id": sid, "content": "the context is lost", "channel": "system"})
        session.process, session.restarted = session.agent.process, True
        self.send(session.agent, {"type": "session.start", "session_id": sid})
        return True

    def advance(self, sid, session):
        while session.inputs and not session.turn:
            content = session.inputs.pop(0)
            if session.process is None and not self.open(sid, session):
                self.say({"type": "turn.complete", "session_id": sid})
                continue
            session.turn = True
            self.send(session.agent, {"type": "user.input", "session_id": sid, "content": content})

    # The adapters.

    def hear(self, agent, line):
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict) or message.get("type") not in REQUIRED:
            return
        kind, sid = message["type"], message.get("session_id")
        if not all(isinstance(message.get(name), str) for name in ("session_id",) + REQUIRED[kind]):
            return
        with self.lock:
            session = self.sessions.get(sid)
            if session is None or session.agent is not agent:
                return
            told = {"type": kind, "session_id": sid, **{name: message[name] for name in REQUIRED[kind]}}
            for name in OPTIONAL.get(kind, ()):
                if isinstance(message.get(name), str) and message[name]:
                    told[name] = message[name]
            if kind == "turn.complete":
                if not session.turn:
                    return
                session.turn = False
                self.deny(sid, session)
            elif kind == "permission.request":
                if told["request_id"] in session.requests:
                    return
                session.requests.append(told["request_id"])
                for name, ours in (("description", told["tool"] + " asks"), ("resource", "")):
                    told[name] = message[name] if isinstance(message.get(name), str) else ours
            elif kind == "file.output" and not self.copy(told):
                told = {"type": "output", "session_id": sid, "content": "a file was refused", "channel": "system"}
            self.say(told)
            self.advance(sid, session)

    def copy(self, told):
        path = told["file_path"]
        if not os.path.isabs(path) or not os.path.isfile(path) or os.path.islink(path):
            return False
        if not os.path.realpath(path).startswith((self.folder, os.getcwd())) or os.path.getsize(path) > 10 << 20:
            return False
        self.copies += 1
        told.setdefault("file_name", os.path.basename(path))
        told.setdefault("file_mime_type", "application/octet-stream")
        told["file_path"] = shutil.copyfile(path, os.path.join(self.folder, str(self.copies)))
        return True

    def ended(self, agent, why):
        for sid, session in list(self.sessions.items()):
            if session.agent is agent and session.process is not None:
                session.process, session.requests = None, []
                self.say({"type": "output", "session_id": sid, "content": why, "channel": "system"})
                waiting, session.inputs = len(session.inputs) + session.turn, []
                session.turn = False
                for _ in range(waiting):
                    self.say({"type": "turn.complete", "session_id": sid})

    def end(self):
        with self.lock:
            for sid, session in self.sessions.items():
                self.send(session.agent, {"type": "session.close", "session_id": sid})
                if session.turn:
                    self.say({"type": "turn.complete", "session_id": sid})
            self.sessions = {}
            processes = [agent.process for agent in self.agents if agent.process]
            for agent in self.agents:
                if agent.process:
                    agent.outbox.put(None)
        for process in processes:
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":
    Relay().run()
