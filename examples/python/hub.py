#!/usr/bin/env python3
"""Drives `trunkline serve`, or any adapter: two sessions over one pair of pipes, one input each.

usage: python3 hub.py [TEXT TEXT] [-- COMMAND ...]
"""
import contextlib, json, subprocess, sys, threading

arguments = sys.argv[1:]
cut = arguments.index("--") if "--" in arguments else len(arguments)
texts = arguments[:cut] or ["Hello from one.", "Hello from two."]
command = arguments[cut + 1:] or ["trunkline", "serve"]
inputs = {f"session-{number}": text for number, text in enumerate(texts, 1)}
try:
    peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
except OSError as error:
    sys.exit(f"cannot start {command[0]}: {error.strerror}")
writing, asking = threading.Lock(), threading.Lock()
sys.stdout.reconfigure(errors="replace")


def send(type, session, **fields):
    line = json.dumps({"type": type, "session_id": session, **fields})  # ASCII, so U+2028 is escaped
    with writing, contextlib.suppress(OSError):  # a peer that is gone says so by the end of its stdout
        peer.stdin.write(line.encode() + b"\n")
        peer.stdin.flush()


def receive():
    for line in peer.stdout:  # LF alone ends a line
        try:
            message = json.loads(line.decode())
        except (ValueError, RecursionError):
            continue  # noise
        match message:
            case {"type": str(type), "session_id": str(session)} if session in inputs:
                yield type, session, message


def decide(session, request):
    approved = False
    if sys.stdin.isatty():
        with asking, contextlib.suppress(EOFError):
            answer = input(f"[{session}] {request.get('description')} ({request.get('resource')})? [y/N] ")
            approved = answer.strip().lower() == "y"
    send("permission.response", session, request_id=request["request_id"], approved=approved)


for session, text in inputs.items():
    send("session.start", session)
    send("user.input", session, content=text)

running = set(inputs)
for type, session, message in receive():
    if type == "output":
        print(f"[{session}] {message.get('channel') or 'stdout'}: {message.get('content')}", flush=True)
    elif type == "permission.request" and "request_id" in message:  # on a thread, so that no other session waits
        threading.Thread(target=decide, args=(session, message), daemon=True).start()
    elif type == "turn.complete":
        running.discard(session)
    if not running:
        break

for session in inputs:
    send("session.close", session)
with contextlib.suppress(OSError):
    peer.stdin.close()
try:
    status = peer.wait(timeout=10)
except subprocess.TimeoutExpired:
    peer.kill()
    sys.exit("the peer did not exit after the end of its input")
sys.exit(f"the peer ended early, status {status}" if running else 0)
