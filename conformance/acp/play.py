#!/usr/bin/env python3
"""Plays the client of a recording to an agent, and compares what the agent says, line by line.

    play.py RECORDING PROGRAM [ARGUMENTS]   plays it, in the present folder
    play.py --keep RECORD                   makes a recording of what record.py wrote, on stdout

A text like `<session 1>` in a recording stands for any text, which is the same one at each place.
"""

import json
import os
import signal
import subprocess
import sys


def keep(record):
    entries = [json.loads(entry) for entry in open(record)]
    messages = [json.loads(entry["line"]) for entry in entries]
    runs = list(dict.fromkeys(entry["run"] for entry in entries))
    names = {"cwd": {}, "sessionId": {}}

    def named(value, key=None):
        if isinstance(value, dict):
            ours = {"version": "<version>"} if value.get("name") == "trunkline" else {}
            return {name: named(inner, name) for name, inner in value.items()} | ours
        if isinstance(value, list):
            return [named(inner) for inner in value]
        if key in names:
            return names[key].setdefault(value, f"<{key} {len(names[key]) + 1}>")
        return value

    for entry, message in zip(entries, messages):
        kept = {"run": runs.index(entry["run"]) + 1, "from": entry["from"], "line": json.dumps(named(message))}
        print(json.dumps(kept))


def is_same(recorded, said, bound):
    if isinstance(recorded, dict):
        has_all = isinstance(said, dict) and recorded.keys() == said.keys()
        return has_all and all(is_same(recorded[key], said[key], bound) for key in recorded)
    if isinstance(recorded, list):
        has_all = isinstance(said, list) and len(recorded) == len(said)
        return has_all and all(is_same(*pair, bound) for pair in zip(recorded, said))
    if isinstance(recorded, str) and recorded[:1] + recorded[-1:] == "<>" and isinstance(said, str):
        return bound.setdefault(recorded, said) == said
    return recorded == said


def filled(recorded, bound):
    if isinstance(recorded, dict):
        return {key: filled(value, bound) for key, value in recorded.items()}
    if isinstance(recorded, list):
        return [filled(value, bound) for value in recorded]
    return bound.get(recorded, recorded) if isinstance(recorded, str) else recorded


def play(recording, command):
    entries = [json.loads(entry) for entry in open(recording)]
    bound = {"<cwd 1>": os.getcwd()}
    for run in dict.fromkeys(entry["run"] for entry in entries):
        agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for entry in (entry for entry in entries if entry["run"] == run):
            message = json.loads(entry["line"])
            if entry["from"] == "client":
                agent.stdin.write(json.dumps(filled(message, bound)) + "\n")
                agent.stdin.flush()
                continue
            said = agent.stdout.readline()
            if not said or not is_same(message, json.loads(said), bound):
                sys.exit(f"run {run}: recorded was\n{entry['line']}\nsaid was\n{said}")
        agent.stdin.close()
        more, status = agent.stdout.read(), agent.wait()
        if more or status:
            sys.exit(f"run {run} ends with {status} and says {more!r}, which was not recorded")
    print(f"recording: {len(entries)} lines of {run} runs are as they were")


if sys.argv[1] == "--keep":
    keep(sys.argv[2])
else:
    signal.alarm(120)  # A line that does not come is a failure.
    play(sys.argv[1], sys.argv[2:])
