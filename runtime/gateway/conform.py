#!/usr/bin/env python3
"""A relay for the conformance suite that is a daemon: lines of stdin and stdout go over its WebSocket.

conform.py STATE ADAPTER SECOND [OPTION...]

Each run starts a daemon of its own on the folder STATE, `-` for a fresh one, with the two adapters; sessions may set the
OPTIONs. It asks for /v1/pipe on the daemon's socket, where it is this user. With stdin the pipe ends, and with that the
daemon; it does not outlive this program.
"""

import base64
import ctypes
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def start(state, adapters, may):
    """Starts the daemon, and comes back when it is ready."""
    agents = []
    for name, line in zip(("first", "second"), adapters):
        command, *args = shlex.split(line)
        agent = {"id": name, "profile": "external", "external": {"command": command, "args": args}}
        agents.append(agent | ({"session_may": may} if may else {}))
    config = os.path.join(state, "conform.json")
    with open(config, "w") as file:
        json.dump({"agents": agents, "default_agent": "first"}, file)
    command = ["trunkline", "--config", config, "up", "--state", state, "--http", "127.0.0.1:0", "--json"]
    libc = ctypes.CDLL(None)
    until = time.monotonic() + 10
    while True:
        daemon = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A bridge that is killed takes its daemon with it.
            preexec_fn=lambda: libc.prctl(1, signal.SIGKILL),
        )
        if daemon.stdout.readline():
            threading.Thread(target=shutil.copyfileobj, args=(daemon.stderr, sys.stderr.buffer), daemon=True).start()
            return daemon
        # The one before, which was killed, may still hold the journal.
        said = daemon.communicate()[1].decode(errors="replace")
        if time.monotonic() > until:
            sys.exit(f"the daemon does not start: {said}")
        time.sleep(0.05)


class Pipe:
    """A WebSocket on the daemon's socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.stream = self.socket.makefile("rb", buffering=1 << 18)
        self.writes = threading.Lock()
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            "GET /v1/pipe HTTP/1.1\r\nHost: trunkline\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        status = self.stream.readline()
        if b" 101 " not in status:
            sys.exit(f"the pipe is refused: {status}")
        while self.stream.readline() not in (b"\r\n", b""):
            pass

    def send(self, kind, data):
        size = len(data)
        head = bytes([0x80 | kind])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 1 << 16:
            head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
        else:
            head += bytes([0x80 | 127]) + size.to_bytes(8, "big")
        mask = os.urandom(4)
        key = (mask * (size // 4 + 1))[:size]
        masked = int.from_bytes(data, "big") ^ int.from_bytes(key, "big")
        with self.writes:
            self.socket.sendall(head + mask + masked.to_bytes(size, "big"))

    def messages(self):
        """Gives what each message holds, until the daemon closes."""
        held = b""
        while True:
            head = self.stream.read(2)
            if len(head) < 2:
                return
            size = head[1] & 127
            if size > 125:
                size = int.from_bytes(self.stream.read(2 if size == 126 else 8), "big")
            data = self.stream.read(size)
            kind = head[0] & 15
            if kind == CLOSE:
                return
            if kind == PING:
                self.send(PONG, data)
            elif kind != PONG:
                held += data
                if head[0] & 0x80:
                    yield held
                    held = b""


def forward(pipe):
    """Says what stdin has, in messages of whole lines; at its end, that nothing more comes."""
    rest = b""
    try:
        while chunk := os.read(0, 1 << 16):
            lines, end, rest = (rest + chunk).rpartition(b"\n") if b"\n" in chunk else (b"", b"", rest + chunk)
            if end:
                # No text, perhaps: that is for the relay to judge.
                pipe.send(BINARY, lines + end)
        if rest:
            pipe.send(BINARY, rest)
        pipe.send(CLOSE, (1000).to_bytes(2, "big"))
    except OSError:
        # The daemon has closed, and says why to who reads.
        pass


def main():
    state, first, second, *may = sys.argv[1:]
    fresh = tempfile.mkdtemp(prefix="conform-") if state == "-" else None
    state = fresh or state
    os.makedirs(state, 0o700, exist_ok=True)
    daemon = start(state, (first, second), may)
    pipe = Pipe(os.path.join(state, "journal", "host.sock"))
    signal.signal(signal.SIGTERM, lambda *_: pipe.socket.shutdown(socket.SHUT_RDWR))
    threading.Thread(target=forward, args=(pipe,), daemon=True).start()
    try:
        for lines in pipe.messages():
            while lines:
                lines = lines[os.write(1, lines) :]
    except OSError:
        # Who hears has gone.
        pass
    daemon.terminate()
    daemon.wait()
    if fresh:
        shutil.rmtree(fresh, ignore_errors=True)
    # The thread that reads may wait for stdin.
    os._exit(0)


main()
