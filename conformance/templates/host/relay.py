#!/usr/bin/env python3
"""A relay on the standard library of Python 3.10 or later: it speaks the adapter protocol on its own stdin and stdout,
starts one adapter, and hands every line on. A skeleton to put your host into: your host stands between `down` and `up`.

    relay.py ADAPTER_COMMAND...
"""
import json, os, queue, signal, subprocess, sys, threading

LIMIT = 16 << 20  # the longest line; a longer one is dropped

command = sys.argv[1:] or sys.exit("usage: relay.py ADAPTER_COMMAND...")
known = {}  # id -> how many turns are open; what is not in here is not handed on
lock = threading.RLock()
outbox = queue.Queue(maxsize=1024)
ended = False  # the adapter has; it is not started again


def refuse(constant):
    raise ValueError(f"{constant} is not JSON")


def parse(line):
    """A line as a message; None is noise, which is skipped."""
    try:
        message = json.loads(line.decode("utf-8-sig"), parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    named = isinstance(message, dict) and isinstance(message.get("type"), str)
    return message if named and isinstance(message.get("session_id"), str) else None


def line_of(message):
    line = json.dumps(message, ensure_ascii=True)  # escapes U+2028, and half a surrogate pair
    return line.encode() + b"\n"


def lines(pipe):
    """Lines, split at LF alone; what is too long costs that line only."""
    while line := pipe.readline(LIMIT + 1):
        if len(line) > LIMIT and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = pipe.readline(LIMIT + 1)
            continue
        yield line


def down(message):
    """What the hub says. Decide here what your host makes of it."""
    kind, id = message["type"], message["session_id"]
    with lock:
        if kind == "session.start":
            if id in known or not 0 < len(id.encode(errors="replace")) <= 256:
                return
            known[id] = 0
            message = {"type": kind, "session_id": id}  # the core only: nothing is offered that is not kept
        elif id not in known:
            return
        elif kind == "user.input":
            known[id] += 1
            if ended:
                end_turns(id)
                return
        elif kind == "session.close":
            del known[id]
        elif kind == "permission.response":
            message["approved"] = message.get("approved") is True
        elif kind not in ("stop", "file.input"):
            return
    try:
        adapter.stdin.write(line_of(message))
        adapter.stdin.flush()
    except OSError:
        pass  # it has ended; `gone` tells the sessions


def up(message):
    """What the adapter says. Decide here what your host makes of it."""
    kind, id = message["type"], message["session_id"]
    with lock:
        if id not in known:
            return  # closed, or never opened: late
        if kind == "turn.complete":
            if known[id] == 0:
                return  # no one asked
            known[id] -= 1
        elif kind not in ("output", "file.output", "permission.request"):
            return
        outbox.put(line_of(message))


def end_turns(id):
    """Nothing will end the open turns of this session any more: the host does, and says why."""
    why = f"the adapter ended with status {adapter.wait()}"
    for _ in range(known[id]):
        outbox.put(line_of({"type": "output", "session_id": id, "content": why, "channel": "system"}))
        outbox.put(line_of({"type": "turn.complete", "session_id": id}))
    known[id] = 0


def gone():
    """The adapter has ended, and with it every open turn."""
    global ended
    with lock:
        ended = True
        for id in known:
            end_turns(id)


def write():
    try:
        while line := outbox.get():
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    except OSError:
        stop()  # no one reads any more


def read_adapter():
    for line in lines(adapter.stdout):
        if message := parse(line):
            up(message)
    gone()


def stop(*_):
    """The end: the adapter's stdin, then SIGTERM, then SIGKILL."""
    def end():
        try:
            adapter.stdin.close()
        except OSError:
            pass
        for ask in (lambda: None, adapter.terminate, adapter.kill):
            ask()
            try:
                adapter.wait(timeout=2)
                break
            except subprocess.TimeoutExpired:
                continue
        reader.join(timeout=1)
        outbox.put(b"")
        writer.join(timeout=1)
        os._exit(0)
    threading.Thread(target=end).start()


adapter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
writer, reader = threading.Thread(target=write, daemon=True), threading.Thread(target=read_adapter, daemon=True)
writer.start(), reader.start()
signal.signal(signal.SIGTERM, stop)


def read_hub():
    for line in lines(sys.stdin.buffer):
        if message := parse(line):
            down(message)
    stop()


threading.Thread(target=read_hub, daemon=True).start()
threading.Event().wait()
