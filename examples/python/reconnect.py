#!/usr/bin/env python3
"""A hub that loses no conversation with its host: each input is one turn, each entry comes once.

usage: python3 reconnect.py [TEXT ...] [-- COMMAND ...]
"""
import contextlib, json, subprocess, sys, uuid

arguments = sys.argv[1:]
cut = arguments.index("--") if "--" in arguments else len(arguments)
texts = arguments[:cut] or ["Hello."]
command = arguments[cut + 1:] or ["trunkline", "serve", "--journal", "journal"]
agreed = {"protocol": 1, "extensions": ["turns", "events", "journal"]}
session = str(uuid.uuid4())
last = 0  # the last entry that it has; a hub that may crash itself keeps these two in a file
HOSTS = 10  # that may end before a text is answered
sys.stdout.reconfigure(errors="replace")


def start():
    try:
        host = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        sys.exit(f"cannot start {command[0]}: {error.strerror}")
    print(f"host {host.pid}", flush=True)
    return host


def send(type, **fields):
    line = json.dumps({"type": type, "session_id": session, **fields})
    with contextlib.suppress(OSError):  # a host that is gone says so by the end of its stdout
        host.stdin.write(line.encode() + b"\n")
        host.stdin.flush()


def enter():
    if last:
        send("session.attach", after=last, **agreed)
    else:
        send("session.start", **agreed)


def hear(turn, resend):
    """Prints each entry up to the end of the turn; whether that came before the host ended."""
    global last
    for line in host.stdout:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            continue  # noise
        match message:
            case {"session_id": str(id)} if id != session:
                continue
            case {"type": "session.refused", "reason": "exists"}:  # its start was stored, and not heard of
                send("session.attach", after=0, **agreed)
                resend()
            case {"type": "session.refused"} | {"type": "session.closed"}:
                sys.exit(f"the host refuses the session: {message.get('message') or message.get('error')}")
            case {"type": "input.result", "duplicate": True}:
                print(f"known {message['message_id']}", flush=True)
            case {"type": "turn.complete"} if "seq" not in message:
                sys.exit(f"the host refuses the input: {message.get('error')}")
            case {"type": str(type), "seq": int(seq)} if type != "input.result" and seq > last:
                last = seq
                error = message.get("error") or {}
                shown = message.get("content") or message.get("fact") or error.get("category") or ""
                print(f"{seq} {type} {shown}".rstrip(), flush=True)
                if type == "permission.request":
                    send("permission.response", request_id=message["request_id"], approved=False)
                if type == "turn.complete" and message.get("turn_id") == turn:
                    return True
    return False


host = None
for number, text in enumerate(texts, 1):
    def say():  # by its message_id it is one input, however often it is sent
        send("user.input", turn_id=f"t-{number}", message_id=f"m-{number}", content=text)

    for _ in range(HOSTS):
        if not host:
            host = start()
            enter()
        say()
        if hear(f"t-{number}", say):
            break
        host.wait()
        host = None
    else:
        sys.exit(f"{HOSTS} hosts ended before the turn did")

send("session.detach")
with contextlib.suppress(OSError):
    host.stdin.close()
sys.exit(host.wait())
