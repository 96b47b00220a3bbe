#!/usr/bin/env python3
"""An agent that misbehaves on request. Usage: agent.py DIALECT [what the profile adds]

DIALECT is claude, codex or acp. What an input asks for:
  say WORD       answers "heard WORD"
  wait FILE      begins an answer, and ends it once FILE is in the working directory
  ask FILE       the same, with an open request for a permission in place of signs of life
  exit           writes to stderr and exits with 7
  hang           never ends this answer, nor lets it be stopped
  freeze         answers nothing to no one any more, whatever it is asked or sent
  noise          writes lines that are not messages, forever
  endless        writes one line, forever
"""
import json, os, signal, sys, threading, time, uuid

DIALECT, ARGUMENTS = sys.argv[1], sys.argv[2:]
LOCK = threading.Lock()
HUNG = threading.Event()


def send(**message):
    if HUNG.is_set():
        return
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def flood(end):
    block = (b"x" * 8191) + end
    while True:
        with LOCK:
            os.write(1, block)


def act(text, say, ask, cwd, stopped):
    """Does what an input asks for; `say` takes parts of the answer, `ask` asks for a permission. Gives whether it was
    stopped."""
    word, _, rest = text.strip().partition(" ")
    if word == "say":
        say("heard " + rest)
    elif word in ("wait", "ask"):
        say("waiting")
        if word == "ask":
            ask()
        ticks = 0
        while not os.path.exists(os.path.join(cwd, rest)):
            if stopped.wait(0.01):
                return True
            ticks += 1
            if word == "wait" and ticks % 20 == 0:  # not silent
                say(".")
    elif word == "exit":
        sys.stderr.write("fatal: the agent has had enough\n")
        sys.stderr.flush()
        os._exit(7)
    elif word in ("hang", "freeze"):
        if word == "freeze":
            HUNG.set()
        while True:
            time.sleep(3600)
    elif word == "noise":
        flood(b"\n")
    elif word == "endless":
        flood(b"x")
    return False


def run(*arguments):
    threading.Thread(target=act_and_end, args=arguments, daemon=True).start()


def act_and_end(text, say, ask, cwd, stopped, end):
    end(act(text, say, ask, cwd, stopped))


# -- one conversation for each process, JSON on lines
def claude():
    session = option("--resume") or option("--session-id") or str(uuid.uuid4())
    stopped = [threading.Event()]

    def say(text):
        content = [{"type": "text", "text": text}]
        message = {"id": "m", "type": "message", "role": "assistant", "model": "fake", "content": content, "stop_reason": None}
        send(type="assistant", message=message, parent_tool_use_id=None, session_id=session)

    def ask():
        request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "true"}}
        send(type="control_request", request_id="ask", request=request)

    def end(was_stopped):
        usage = {"input_tokens": 1, "output_tokens": 1}
        if was_stopped:
            send(type="result", subtype="error_during_execution", is_error=True, terminal_reason="aborted_streaming", errors=[], session_id=session, usage=usage, num_turns=1)
        else:
            send(type="result", subtype="success", is_error=False, terminal_reason="completed", result="", session_id=session, usage=usage, num_turns=1)
        send(type="control_cancel_request", request_id="ask")

    for message in messages():
        if message.get("type") == "control_request":
            response = {"subtype": "success", "request_id": message.get("request_id"), "response": {}}
            send(type="control_response", response=response)
            if message["request"].get("subtype") == "interrupt":
                stopped[0].set()
        elif message.get("type") == "user":
            content = message["message"]["content"]
            text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
            stopped[0] = threading.Event()
            send(type="system", subtype="init", session_id=session, model="fake", cwd=os.getcwd(), tools=[], mcp_servers=[], apiKeySource="ANTHROPIC_API_KEY")
            run(text, say, ask, os.getcwd(), stopped[0], end)


# -- all conversations in one process, JSON-RPC without its version
def codex():
    folders, stops = {}, {}
    for message in messages():
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "initialize":
            send(id=id, result={"userAgent": "codex-cli/0.169.0", "codexHome": "/"})
        elif method in ("thread/start", "thread/resume"):
            thread = params.get("threadId") or str(uuid.uuid4())
            folders[thread] = params.get("cwd") or os.getcwd()
            send(id=id, result={"thread": {"id": thread, "turns": []}, "model": "fake", "cwd": folders[thread]})
        elif method == "turn/start":
            thread, turn = params["threadId"], "turn-%s" % id
            stops[turn] = stopped = threading.Event()
            text = "".join(part.get("text", "") for part in params["input"])
            send(id=id, result={"turn": {"id": turn, "status": "inProgress", "items": []}})
            send(method="turn/started", params={"threadId": thread, "turn": {"id": turn, "status": "inProgress", "items": []}})

            def say(text, thread=thread, turn=turn):
                at = {"threadId": thread, "turnId": turn}
                item = {"type": "agentMessage", "id": "item-" + turn}
                send(method="item/started", params=dict(at, item=dict(item, text="")))
                send(method="item/agentMessage/delta", params=dict(at, itemId=item["id"], delta=text))
                send(method="item/completed", params=dict(at, item=dict(item, text=text)))

            def ask(thread=thread, turn=turn):
                params = {"threadId": thread, "turnId": turn, "itemId": "item-" + turn, "command": "true"}
                send(id="ask-" + turn, method="item/commandExecution/requestApproval", params=params)

            def end(was_stopped, thread=thread, turn=turn):
                status = "interrupted" if was_stopped else "completed"
                send(method="turn/completed", params={"threadId": thread, "turn": {"id": turn, "status": status, "items": [], "error": None}})

            run(text, say, ask, folders.get(thread, "."), stopped, end)
        elif method == "turn/interrupt":
            send(id=id, result={})
            stops.get(params.get("turnId"), threading.Event()).set()
        elif id is not None and method:
            send(id=id, error={"code": -32600, "message": "Invalid request: unknown method " + method})


# -- all conversations in one process, JSON-RPC
def acp():
    folders, stops = {}, {}

    def answer(id, result):
        send(jsonrpc="2.0", id=id, result=result)

    for message in messages():
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "initialize":
            answer(id, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "authMethods": []})
        elif method == "session/new":
            session = str(uuid.uuid4())
            folders[session] = params.get("cwd", ".")
            answer(id, {"sessionId": session})
        elif method == "session/load":
            folders[params["sessionId"]] = params.get("cwd", ".")
            answer(id, {})
        elif method == "session/prompt":
            session = params["sessionId"]
            stops[session] = stopped = threading.Event()
            text = "".join(part.get("text", "") for part in params["prompt"])

            def say(text, session=session):
                update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
                send(jsonrpc="2.0", method="session/update", params={"sessionId": session, "update": update})

            def ask(session=session):
                options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
                params = {"sessionId": session, "toolCall": {"toolCallId": "call", "title": "true"}, "options": options}
                send(jsonrpc="2.0", id="ask", method="session/request_permission", params=params)

            def end(was_stopped, id=id):
                answer(id, {"stopReason": "cancelled" if was_stopped else "end_turn"})

            run(text, say, ask, folders.get(session, "."), stopped, end)
        elif method == "session/cancel":
            stops.get(params.get("sessionId"), threading.Event()).set()
        elif id is not None and method:
            send(jsonrpc="2.0", id=id, error={"code": -32601, "message": "method not found"})


def option(name):
    return ARGUMENTS[ARGUMENTS.index(name) + 1] if name in ARGUMENTS[:-1] else None


def messages():
    for line in sys.stdin.buffer:
        if HUNG.is_set():
            continue
        message = json.loads(line)
        if isinstance(message, dict):
            yield message
    while HUNG.is_set():  # not even the end of its input ends it
        time.sleep(3600)


VERSIONS = {"claude": "2.1.329 (Claude Code)", "codex": "codex-cli 0.169.0", "acp": "1.0.0"}
if "--version" in ARGUMENTS:
    print(VERSIONS[DIALECT])
elif os.path.exists(os.path.join(os.environ["HOME"], "exit-at-once")):
    sys.exit("fatal: the agent does not start")
else:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: HUNG.is_set() or os._exit(128 + number))
    {"claude": claude, "codex": codex, "acp": acp}[DIALECT]()
