#!/usr/bin/env python3
"""Real agents, driven by clients of ACP's own libraries: directly, and through `trunkline acp`.

    real.py [--client CLIENT]... AGENT...
                            of gemini-cli, qwen-code, opencode, claude-agent-acp, codex-acp; all without one. Clients are
                            typescript, python and rust; all without one

TRUNKLINE_CLIS names the folder of an npm install that has the agents, ACP_PYTHON a Python with ACP's library, and ACP_RUST
the built client of rust/src/real.rs. Their model is fake_model.py, in a network namespace that has only loopback. Prints a
table agent x thing: `=` is the same through us, `-N` items are missing, `+N` are more. A loss without a reason in real-reasons.json fails, and a reason without a loss when its agent ran.
"""

import argparse
import contextlib
import fnmatch
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLIS_TESTS = HERE.parents[1] / "runtime/profiles/tests/clis"
MODEL_SERVER = CLIS_TESTS / "fake_model.py"
MCP_SERVER = CLIS_TESTS / "fake_mcp.py"
RUN_TIMEOUT = 600
INSIDE = "TRUNKLINE_REAL_INSIDE"
LOOPBACK_UP = """import fcntl, socket, struct
s = socket.socket()
r = struct.pack('16sH14s', b'lo', 0, b'')
f = struct.unpack('16sH14s', fcntl.ioctl(s, 0x8913, r))[1]
fcntl.ioctl(s, 0x8914, struct.pack('16sH14s', b'lo', f | 1, b''))"""


class Agent:
    """How an agent is started alone, what its entry in a configuration has, and how it reaches the fake model."""

    def __init__(self, command, entry, environment, files):
        self.command, self.entry = command, entry
        self.environment, self.files = environment, files


def claude_environment(base):
    return {
        "ANTHROPIC_BASE_URL": base,
        "ANTHROPIC_API_KEY": "dummy",
        "ANTHROPIC_MODEL": "claude-sonnet-4-5",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
    }


def gemini_environment(base):
    return {
        "GOOGLE_GEMINI_BASE_URL": base,
        "GEMINI_API_KEY": "dummy",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_MODEL": "gemini-2.5-flash",
    }


def gemini_files(base):
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False, "retryFetchErrors": False, "maxAttempts": 2},
        "privacy": {"usageStatisticsEnabled": False},
    }
    return {".gemini/settings.json": json.dumps(settings)}


def qwen_files(base):
    def model(name):
        generation = {"maxRetries": 1, "modalities": {"image": True}}
        return {"id": name, "envKey": "FAKE_KEY", "baseUrl": f"{base}/v1", "generationConfig": generation}

    settings = {
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "openai"}},
        "model": {"name": "fake-model"},
        "modelProviders": {"openai": [model("fake-model"), model("other-model")]},
        # In its own default mode a model judges, in place of the user.
        "tools": {"approvalMode": "default"},
    }
    return {".qwen/settings.json": json.dumps(settings)}


def opencode_environment(base):
    off = ("AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "SHARE")
    return {f"OPENCODE_DISABLE_{name}": "1" for name in off}


def opencode_files(base):
    model = {
        "name": "Fake",
        "tool_call": True,
        "attachment": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "limit": {"context": 200_000, "output": 8000},
        "cost": {"input": 3, "output": 15},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "fake",
        "options": {"baseURL": f"{base}/v1", "apiKey": "dummy"},
        "models": {"fake-model": model, "other-model": {"name": "Other", "tool_call": True}},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "disabled_providers": ["opencode"],
        "permission": {"bash": "ask", "edit": "ask"},
        "model": "fake/fake-model",
        "small_model": "fake/fake-model",
        "provider": {"fake": provider},
    }
    return {".config/opencode/opencode.json": json.dumps(settings)}


def codex_files(base):
    settings = f"""model = "gpt-5.5"
model_provider = "fake"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false

[model_providers.fake]
name = "fake"
base_url = "{base}/v1"
env_key = "FAKE_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1

[analytics]
enabled = false
"""
    return {".codex/config.toml": settings}


def no_files(base):
    return {}


def fake_key(base):
    return {"FAKE_KEY": "dummy"}


AGENTS = {
    "gemini-cli": Agent(["gemini", "--acp"], {"profile": "gemini-cli"}, gemini_environment, gemini_files),
    "qwen-code": Agent(["qwen", "--acp"], {"profile": "qwen-code"}, fake_key, qwen_files),
    "opencode": Agent(["opencode", "acp"], {"profile": "opencode"}, opencode_environment, opencode_files),
    "claude-agent-acp": Agent(
        ["claude-agent-acp"],
        {"profile": "acp", "acp": {"command": "claude-agent-acp"}},
        claude_environment,
        no_files,
    ),
    "codex-acp": Agent(["codex-acp"], {"profile": "acp", "acp": {"command": "codex-acp"}}, fake_key, codex_files),
}

CLIENTS = {
    "typescript": lambda record: ["node", str(HERE / "typescript/real.mjs"), str(record), str(MCP_SERVER)],
    "python": lambda record: [os.environ["ACP_PYTHON"], str(HERE / "real_client.py"), str(record)],
    "rust": lambda record: [os.environ["ACP_RUST"], str(record)],
}
# The variables without which a client is left out.
NEEDED = {"python": "ACP_PYTHON", "rust": "ACP_RUST"}


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def search_path():
    clis = Path(os.environ["TRUNKLINE_CLIS"]).absolute()
    own = [clis / "node_modules/node/bin", clis / "node_modules/.bin", clis / "bin"]
    return os.pathsep.join([*map(str, own), os.environ["PATH"]])


def drive(scratch, name, client, through):
    """Runs a client with an agent in a place of its own. Returns the record's lines."""
    agent = AGENTS[name]
    place = scratch / f"{name}-{client}-{'through' if through else 'direct'}"
    for part in ("home", "work", "tmp"):
        (place / part).mkdir(parents=True)
    subprocess.run(["git", "init", "-q", place / "work"], check=True)
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    for path, text in agent.files(base).items():
        file = place / "home" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    own = agent.environment(base)
    environment = {
        "PATH": search_path(),
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "TRUNKLINE_STATE": str(place / "state"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "USER": "somebody",
    }
    command = agent.command
    if through:
        entry = {"id": name, "env": own, **agent.entry}
        config = place / "trunkline.json"
        config.write_text(json.dumps({"agents": [entry]}))
        command = ["trunkline", "--config", str(config), "acp", "--unstable", "--agent", name]
    else:
        environment |= own
    record = place / "record.jsonl"
    model = subprocess.Popen(
        [sys.executable, MODEL_SERVER, str(port), place / "requests.jsonl"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port)
        with open(place / "stderr.txt", "w") as stderr:
            driver = CLIENTS[client](record) + command
            driven = subprocess.Popen(driver, env=environment, cwd=place / "work", stderr=stderr, start_new_session=True)
            try:
                if driven.wait(RUN_TIMEOUT) != 0:
                    sys.exit(f"the {client} client of {name} failed: {place}/stderr.txt")
            finally:
                # Not every agent ends with its stdin.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(driven.pid, signal.SIGKILL)
                driven.wait()
    finally:
        if through:
            subprocess.run(["trunkline", "down"], env=environment, stderr=subprocess.DEVNULL)
        model.terminate()
        model.wait()
    return [json.loads(line) for line in record.read_text().splitlines()]


def wait_for(port):
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    sys.exit(f"the fake model does not listen on port {port}")


def facts(lines):
    """The things that a client sees, each a set of items. An item names no id of a session, a call or a message."""
    seen = {}
    step, requests, calls = "initialize", {}, {}

    def add(thing, *items):
        seen.setdefault(thing, set()).update(items)

    for line in lines:
        if "step" in line:
            step = line["step"]
            # A real agent's program may end with any status.
            if "failed" in line and step != "end":
                add("failed steps", step)
            continue
        try:
            message = json.loads(line["line"])
        except ValueError:
            continue
        if line["from"] == "client":
            if "method" in message and "id" in message:
                requests[message["id"]] = (message["method"], step)
            continue
        if "method" not in message:
            method, asked_in = requests.pop(message.get("id"), (None, None))
            if method == "session/prompt":
                reason = message.get("result", {}).get("stopReason")
                add("ends", f"{asked_in}: {reason or 'error'}")
                for key, value in (message.get("result") or {}).items():
                    if key != "stopReason":
                        add("ends", *(f"{asked_in}: {path}" for path in paths(value, key)))
            elif method and "error" in message:
                add("errors", f"{asked_in}: {message['error'].get('code')}")
            elif method == "initialize":
                add("capabilities", *truths(message["result"].get("agentCapabilities", {})))
                add("login", *(method["id"] for method in message["result"].get("authMethods") or []))
            elif method in ("session/new", "session/load"):
                opened(add, asked_in, message["result"] or {})
            elif method == "session/list":
                for session in message["result"]["sessions"]:
                    add("list", *session.keys() - {"_meta"})
            elif method and asked_in.startswith("set "):
                add("changes", asked_in)
        elif message["method"] == "session/request_permission":
            params = message["params"]
            add("permissions", *(f"{step}: {option['kind']}" for option in params["options"]))
            add("permissions", *(f"{step}: call.{key}" for key in filled(params["toolCall"])))
        elif message["method"] == "session/update":
            updated(add, step, calls, message["params"]["update"])
        elif message["method"].partition("/")[0] in ("fs", "terminal", "elicitation"):
            add("requests of the agent", message["method"])
        else:
            add("methods of its own", message["method"])
    return seen


def opened(add, step, result):
    """The modes, the models and the options of a session."""
    modes = result.get("modes") or {}
    add("modes", *(f"{step}: {mode['id']}" for mode in modes.get("availableModes", [])))
    add("modes", *(f"{step}: description of {mode['id']}" for mode in modes.get("availableModes", []) if mode.get("description")))
    if "currentModeId" in modes:
        add("modes", f"{step}: current {modes['currentModeId']}")
    models = result.get("models") or {}
    listed = models.get("availableModels", [])
    add("models", *(f"{step}: {model['modelId']}" for model in listed))
    add("models", *(f"{step}: description of {model['modelId']}" for model in listed if model.get("description")))
    for option in result.get("configOptions") or []:
        name = option.get("category") or option["id"]
        values = [one for value in option.get("options", []) for one in value.get("options", [value])]
        # Models are a list of their own, or an option: a client sees them by either.
        thing = "models" if name == "model" else "options"
        prefix = step if name == "model" else f"{step}: {name}"
        add(thing, *(f"{prefix}: {value['value']}" for value in values))
        described = [value["value"] for value in values if value.get("description")]
        add(thing, *(f"{prefix}: description of {value}" for value in described))
        if not values:
            add(thing, prefix)
    for key in result.keys() - {"sessionId", "modes", "models", "configOptions", "_meta"}:
        add("options", f"{step}: member {key}")


def updated(add, step, calls, update):
    """What one update shows."""
    kind = update["sessionUpdate"]
    # The history has one step; so have updates behind an answer.
    where = "load: " if step == "load" else ""
    if kind in ("tool_call", "tool_call_update"):
        # In the history calls have their ids of before.
        begun = where or calls.setdefault(update["toolCallId"], f"{step}: ")
        for key in filled(update):
            add("tools", f"{begun}{key}")
        for content in update.get("content") or []:
            add("tools", f"{begun}content {content['type']}")
        if update.get("kind"):
            add("tools", f"{begun}kind {update['kind']}")
        if update.get("status") in ("completed", "failed"):
            add("tools", f"{begun}{update['status']}")
    elif kind == "available_commands_update":
        add("commands", *(command["name"] for command in update["availableCommands"]))
        add("commands", *(f"input of {command['name']}" for command in update["availableCommands"] if command.get("input")))
    elif kind in ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"):
        add("messages", f"{where}{kind} {update['content']['type']}")
    elif kind == "plan":
        add("plan", *(f"{where}{key}" for entry in update["entries"] for key in filled(entry)))
    else:
        add("updates", *(f"{where}{kind}.{key}" for key in filled(update)) or [kind])


def filled(thing):
    """The members that have a value, without ids and without what is no part of the protocol."""
    left_out = ("_meta", "toolCallId", "sessionUpdate", "messageId", "status", "kind")
    return [key for key, value in thing.items() if key not in left_out and value not in (None, [], {}, "")]


def truths(value, path=""):
    """The paths of an object whose values are not false."""
    if not isinstance(value, dict):
        return [path] if value not in (None, False) else []
    found = [inner for key, one in value.items() if key != "_meta" for inner in truths(one, f"{path}.{key}".strip("."))]
    return found or ([path] if path else [])


def paths(value, path):
    """The paths of the values in an object."""
    if path == "_meta":
        return []
    if not isinstance(value, dict):
        return [path] if value is not None else []
    return [inner for key, one in value.items() for inner in paths(one, f"{path}.{key}")]


def compare(name, client, direct, through, reasons, used):
    """Prints the row of an agent. Returns its losses without a reason."""
    unexplained = []
    cells, lines = [], []
    for thing in sorted(direct.keys() | through.keys()):
        # What we add fails nothing but a step.
        alone, ours = direct.get(thing, set()), through.get(thing, set())
        if thing in ("failed steps", "errors"):
            alone, ours = ours, alone
        lost, more = alone - ours, ours - alone
        cells.append(f"{thing} " + (" ".join([f"-{len(lost)}"] * bool(lost) + [f"+{len(more)}"] * bool(more)) or "="))
        for item in sorted(lost):
            found = [
                number
                for number, reason in enumerate(reasons)
                if name in reason.get("agents", [name])
                and reason["thing"] == thing
                and any(fnmatch.fnmatch(item, pattern) for pattern in reason["items"])
            ]
            used.update(found)
            why = reasons[found[0]]["why"] if found else "NO REASON"
            if not found:
                unexplained.append(f"{name}, {client}: {thing}: {item}")
            lines.append(f"    - {thing}: {item}  ({why})")
    print(f"{name} | {client} | " + " | ".join(cells))
    print("\n".join(lines), flush=True)
    return unexplained


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--client", action="append", choices=CLIENTS)
    parser.add_argument("agents", nargs="*")
    given = parser.parse_args()
    names, clients = given.agents or list(AGENTS), given.client or list(CLIENTS)
    unknown = [name for name in names if name not in AGENTS]
    if unknown:
        sys.exit(f"no such agent: {', '.join(unknown)} ({', '.join(AGENTS)})")
    if "TRUNKLINE_CLIS" not in os.environ:
        sys.exit("TRUNKLINE_CLIS names no folder of an npm install that has the agents")
    if INSIDE not in os.environ:
        alone = subprocess.run(["unshare", "-n", "true"], stderr=subprocess.DEVNULL).returncode == 0
        flags = ["-n"] if alone else ["-U", "-r", "-n"]
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", *flags, sys.executable, __file__, *sys.argv[1:]])
    exec(LOOPBACK_UP)
    reasons = json.loads((HERE / "real-reasons.json").read_text())
    scratch = Path(tempfile.mkdtemp(prefix="trunkline-real-"))
    unexplained, used = [], set()
    for name in names:
        for client in clients:
            if NEEDED.get(client, "PATH") not in os.environ:
                print(f"{name} | {client} | left out: {NEEDED[client]} is not set")
                continue
            direct, through = (facts(drive(scratch, name, client, way)) for way in (False, True))
            unexplained += compare(name, client, direct, through, reasons, used)
    # Not every client drives all that has a reason.
    for number, reason in enumerate(reasons if clients == list(CLIENTS) else []):
        if number not in used and set(reason.get("agents", AGENTS)) <= set(names):
            unexplained.append(f"a reason without a loss: {json.dumps(reason)}")
    if unexplained:
        print(f"records: {scratch}", file=sys.stderr)
        sys.exit("\n".join(unexplained))
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
