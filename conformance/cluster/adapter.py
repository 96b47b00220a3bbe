#!/usr/bin/env python3
"""An adapter that says when it lives: `adapter.py FOLDER`. For each session that it has it appends a line every 10 ms to
the file FOLDER/SESSION/RUN-N, of its Nth opening: `CLOCK_BOOTTIME CLOCK_REALTIME`, both in nanoseconds.

An input `echo TEXT` is answered with its text, `work SECONDS TEXT` with as many outputs as it lasts tenths of a second.
Each input that it gets stands in FOLDER/SESSION/inputs, as a line. Many sessions at a time, on the standard library.
"""

import asyncio
import itertools
import json
import os
import sys
import time

FOLDER = sys.argv[1]
EVERY = 0.01
OPENINGS = itertools.count(1)
# Its number tells nothing: in a namespace of processes all have the same.
RUN = os.urandom(8).hex()


def send(session, kind, **fields):
    line = json.dumps({"type": kind, "session_id": session, **fields}, ensure_ascii=False) + "\n"
    try:
        # One write: a line is whole or not there.
        os.write(1, line.encode())
    except OSError:
        os._exit(0)


def append(session, name):
    os.makedirs(f"{FOLDER}/{session}", exist_ok=True)
    return os.open(f"{FOLDER}/{session}/{name}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


class Session:
    def __init__(self, name):
        self.name, self.inputs, self.turn = name, [], None
        self.pulse, self.got = append(name, f"{RUN}-{next(OPENINGS)}"), append(name, "inputs")

    def beat(self):
        os.write(self.pulse, b"%d %d\n" % (time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.time_ns()))

    def advance(self, ended=None):
        if ended:
            self.turn = None
            send(self.name, "turn.complete")
        if self.inputs and not self.turn:
            self.turn = asyncio.create_task(self.answer(self.inputs.pop(0)))
            self.turn.add_done_callback(self.advance)

    async def answer(self, text):
        kind, _, rest = text.partition(" ")
        if kind == "work":
            seconds, _, rest = rest.partition(" ")
            for number in range(int(float(seconds) * 10)):
                send(self.name, "output", content=f"{number} ")
                await asyncio.sleep(0.1)
        send(self.name, "output", content=rest)

    def close(self):
        if self.turn:
            self.turn.remove_done_callback(self.advance)
            self.turn.cancel()
        os.close(self.pulse)
        os.close(self.got)


async def main():
    sessions = {}

    async def beat():
        while True:
            for session in sessions.values():
                session.beat()
            await asyncio.sleep(EVERY)

    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    beating = loop.create_task(beat())
    while line := await stdin.readline():
        message = json.loads(line)
        kind, name = message.get("type"), message.get("session_id")
        if kind == "session.start" and name not in sessions:
            sessions[name] = Session(name)
        elif (session := sessions.get(name)) and kind == "user.input":
            text = message.get("content") or ""
            os.write(session.got, text.encode() + b"\n")
            session.inputs.append(text)
            session.advance()
        elif session and kind == "stop" and session.turn:
            session.turn.cancel()
        elif session and kind == "session.close":
            sessions.pop(name).close()
    beating.cancel()


asyncio.run(main())
os._exit(0)
