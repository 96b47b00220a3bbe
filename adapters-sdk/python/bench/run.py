#!/usr/bin/env python3
"""Turns a second of the package, 64 in flight, against a synchronous echo of 15 lines.

usage: python3 bench/run.py [TURNS] [ROUNDS]

Each round has all three, one after the other, so that what else runs hits all. Prints the rates, and at the end the median
of the ratios: of turns a second, and of the processor time of a turn, which a busy machine disturbs less. Fails where the
median of turns a second is below its floor.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

TURNS, ROUNDS = (*map(int, sys.argv[1:3]), *(60_000, 9)[len(sys.argv) - 1 :])
GOALS = {"blocking": 0.7, "asyncio": 0.35}
FLOORS = {"blocking": 0.2, "asyncio": 0.1}  # what a quiet machine gives; docs/performance.md says why it is less than the goal
SESSIONS = 64
TEXT = "hello, this is what the user says"
END = b'{"type":"turn.complete"'


def input_of(session):
    return json.dumps({"type": "user.input", "session_id": session, "content": TEXT}).encode() + b"\n"


def spent(process):
    """The processor time of a process until now, in seconds."""
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    return sum(map(int, stat.rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def measure(*program):
    """Turns a second of a program, and its processor time of a turn in seconds."""
    command = [sys.executable, str(Path(__file__).parent / program[0]), *program[1:]]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    source, sink = child.stdout.fileno(), child.stdin.fileno()
    inputs = {f"s{number}": input_of(f"s{number}") for number in range(SESSIONS)}
    for session, line in inputs.items():
        os.write(sink, json.dumps({"type": "session.start", "session_id": session}).encode() + b"\n" + line)
    left, done, began, before, rest = TURNS, 0, 0.0, 0.0, b""
    while done < TURNS + SESSIONS:
        *lines, rest = (rest + os.read(source, 1 << 16)).split(b"\n")
        more = []
        for line in lines:
            if not line.replace(b" ", b"", 1).startswith(END):
                continue
            done += 1
            if done == SESSIONS:
                began, before = time.perf_counter(), spent(child)  # each has begun
            if left > 0:
                left -= 1
                more.append(inputs[json.loads(line)["session_id"]])
        if more:
            os.write(sink, b"".join(more))
    took, used = time.perf_counter() - began, spent(child) - before
    child.stdin.close()
    child.stdout.close()
    child.wait()
    return TURNS / took, used / TURNS


def main():
    ratios = {kind: [] for kind in FLOORS}
    for _ in range(ROUNDS):
        baseline = measure("echo.py")
        shown = [f"echo {baseline[0]:.0f}/s, {baseline[1] * 1e6:.1f} µs a turn"]
        for kind, found in ratios.items():
            rate, used = measure("sdk.py", kind)
            found.append((rate / baseline[0], used / baseline[1]))
            shown.append(f"{kind} {rate:.0f}/s, {used * 1e6:.1f} µs")
        print("; ".join(shown), flush=True)
    below = []
    for kind, found in ratios.items():
        for what, each in zip(("turns a second", "processor time of a turn"), zip(*found)):
            goal = f" (goal {GOALS[kind]})" if what == "turns a second" else ""
            print(f"{kind}, {what}, × echo: {statistics.median(each):.2f}{goal}, from {min(each):.2f} to {max(each):.2f}")
        if statistics.median(rate for rate, _ in found) < FLOORS[kind]:
            below.append(f"{kind} has fewer turns a second than {FLOORS[kind]} × echo")
    sys.exit("\n".join(below) or None)


main()
