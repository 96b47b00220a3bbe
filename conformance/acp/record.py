#!/usr/bin/env python3
"""Runs an agent, and writes down each line of both sides: record.py RECORD PROGRAM [ARGUMENTS]. One RECORD takes many runs."""

import json
import os
import subprocess
import sys
import threading

record = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def pass_on(side, lines, to):
    for line in lines:
        entry = {"run": os.getpid(), "from": side, "line": line.decode().rstrip("\n")}
        # One write: another run appends to the same file.
        os.write(record, json.dumps(entry).encode() + b"\n")
        try:
            to.write(line)
            to.flush()
        except BrokenPipeError:
            break
    to.close()


threading.Thread(target=pass_on, args=("client", sys.stdin.buffer, agent.stdin), daemon=True).start()
pass_on("agent", agent.stdout, sys.stdout.buffer)
sys.exit(agent.wait())
