#!/usr/bin/env python3
"""A model that answers by a script, on loopback only. It speaks, well enough for the real agents:
  Anthropic Messages      POST /v1/messages (+ /v1/messages/count_tokens)
  OpenAI Responses        POST /v1/responses
  OpenAI chat completions POST /v1/chat/completions
  Gemini                  POST /v1beta/models/<m>:streamGenerateContent | :generateContent | :countTokens
  (all streaming SSE, or one JSON body when the request does not ask for a stream)

It is stateless: the reply is chosen from a directive in the newest user text of the request:
  FAKE:text            plain text            FAKE:think         reasoning block, then text
  FAKE:bash:<cmd>;;    shell tool call, then (on the tool result) text
  FAKE:write:<path>;;  file-write tool call, then text
  FAKE:over:<path>;;   the same for a file that holds "before": read first, where the tools want that
  FAKE:two:<cmd>;;<cmd>;;  two shell tool calls in one reply, then text; FAKE:esctwo: as FAKE:esc
  FAKE:esc:<cmd>;;     codex only: the shell call asks to leave the sandbox (sandbox_permissions)
  FAKE:multi           two shell tool calls in one reply, then text
  FAKE:loop            a shell tool call for ever
  FAKE:err:<status>[:<n>]  HTTP error (only for the first n such requests, then text)
  FAKE:errmid          error event in the middle of a stream
  FAKE:drop[:<n>]      connection closed in the middle of a stream (only for the first n such requests, then text)
  FAKE:slow:<n>:<sec>  n text chunks, sec apart
  FAKE:mcp:<text>;;    a call of the tool leave_note of fake_mcp.py, then text
  FAKE:long:<bytes>    a very long text
  FAKE:why:<text>;;    HTTP error 400 with this text
A request without a directive gets a short fixed text. If the newest item is a tool result the
reply is text "after tool: <start of the result>" (unless the directive is FAKE:loop).
Usage: fake_model.py PORT [REQUEST_LOG]
"""
import json, re, sys, threading, time, itertools
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOG = open(sys.argv[2], "a", buffering=1) if len(sys.argv) > 2 else None
LOCK = threading.Lock()
SEQ = itertools.count(1)
ERR = {}
DIRECTIVE = re.compile(r"FAKE:(text|think|multi|loop|errmid|drop(?::(\d+))?|err:(\d+)(?::(\d+))?|slow:(\d+):([\d.]+)|long:(\d+)|bash:(.*?);;|write:(.*?);;|esc:(.*?);;|over:(.*?);;|(?:esc)?two:(.*?);;(.*?);;|mcp:(.*?);;|why:(.*?);;)", re.S)
USAGE = dict(i=1200, o=34, cached=1000, reason=0)


def texts(content):
    if isinstance(content, str):
        return content
    out = []
    for b in content or []:
        if isinstance(b, str):
            out.append(b)
        elif isinstance(b, dict) and isinstance(b.get("text"), str):
            out.append(b["text"])
    return "\n".join(out)


def last_directive(strings):
    for s in reversed(strings):
        m = None
        for m in DIRECTIVE.finditer(s or ""):
            pass
        if m:
            return m
    return None


def kept(results, text):
    """The tool results after a user text: one without a directive, such as a word to a denial, asks for nothing new."""
    return [] if DIRECTIVE.search(text or "") else results


def pick(tools, names):
    for n in names:
        if n in tools:
            return n
    return None


def shell_call(tools, cmd):
    """(tool name, arguments, kind) for whichever shell tool the CLI offered."""
    n = pick(tools, ["Bash", "shell_command", "exec_command", "shell", "local_shell", "run_shell_command", "bash", "exec", "execute_command", "terminal"])
    if n is None:
        return None
    if n == "shell":
        return n, {"command": ["bash", "-lc", cmd], "workdir": "."}, tools[n]
    if n == "exec_command":
        return n, {"cmd": cmd}, tools[n]
    if n == "exec" and tools[n] == "custom":      # codex "code mode": the argument is a program text
        return n, "const r = await tools.exec_command({cmd: %s});\ntext(r.output);\n" % json.dumps(cmd), tools[n]
    if n == "Bash" or n == "bash":
        return n, {"command": cmd, "description": "run a command"}, tools[n]
    return n, {"command": cmd}, tools[n]


def write_call(tools, path):
    n = pick(tools, ["Write", "write_file", "write", "create", "apply_patch", "exec"])
    body = "hello from the fake model\n"
    if n is None:
        return None
    if n == "Write":
        return n, {"file_path": path, "content": body}, tools[n]
    if n == "write_file":
        return n, {"file_path": path, "content": body}, tools[n]
    if n == "write":
        return n, {"filePath": path, "path": path, "content": body}, tools[n]
    if n == "create":
        return n, {"path": path, "file_text": body}, tools[n]
    return patch_call(tools, n, "*** Begin Patch\n*** Add File: %s\n+%s*** End Patch\n" % (path, body))


def patch_call(tools, n, patch):
    if n == "exec":
        return n, "const r = await tools.apply_patch(%s);\ntext(r);\n" % json.dumps(patch), tools[n]
    return n, patch, tools[n]


def overwrite_call(tools, path, step):
    """The call that replaces the line "before", or the one that must come before it."""
    n = pick(tools, ["Write", "write_file", "write", "edit", "apply_patch", "exec"])
    read = {"Write": "Read", "write": "read", "write_file": "read_file"}.get(n)
    if step == 0 and read in tools:
        return read, {"read": {"filePath": path, "path": path}}.get(read, {"file_path": path}), tools[read]
    if step > (1 if read in tools else 0):
        return None
    if n == "edit":
        return n, {"path": path, "old_str": "before\n", "new_str": "hello from the fake model\n"}, tools[n]
    if n in ("apply_patch", "exec"):
        return patch_call(tools, n, "*** Begin Patch\n*** Update File: %s\n@@\n-before\n+hello from the fake model\n*** End Patch\n" % path)
    return write_call(tools, path)


def escape_call(tools, cmd):
    if "exec_command" in tools:
        return "exec_command", {"cmd": cmd, "sandbox_permissions": "require_escalated", "justification": "May I leave the sandbox?"}, "function"
    return shell_call(tools, cmd)


def note_call(tools, text, results):
    """The call of leave_note, or the search that must come before it where tools of MCP servers are listed only then."""
    n = next((n for n in tools if n.endswith("leave_note")), None)
    found = re.search(r'"name":\s*"(\w*leave_note)"', results[-1]) if results and "tool_call" in tools else None
    if found:                                    # what the search found is called by another tool
        return "tool_call", {"name": found.group(1), "arguments": {"text": text}}, tools["tool_call"]
    if n:
        return None if any("noted" in result for result in results) or len(results) > 1 else (n, {"text": text}, tools[n])
    found = re.search(r"\w+\.leave_note", results[0]) if len(results) == 1 and "run_typescript" in tools else None
    if found:
        code = "async function main() { return await tools.%s({text: %s}); }" % (found.group(), json.dumps(text))
        return "run_typescript", {"code": code}, tools["run_typescript"]
    n = pick(tools, ["ToolSearch", "tool_search", "search_tool_functions"])
    return (n, {"query": "leave note"}, tools[n]) if n and not results else None


PATHS = ("file_path", "filePath", "path")


def fit(call, properties):
    """The call as its tool declares it: by its own word for a path, and without what it does not know."""
    n, a, kind = call
    path = next((a[k] for k in PATHS if k in a), None)
    if path is not None:
        a = dict(a, **dict.fromkeys(PATHS, path))
    return n, {k: v for k, v in a.items() if k in properties}, kind


class Reply:
    """What to say: think, text chunks (with delay), calls, and how it goes wrong."""
    def __init__(self):
        self.think = None; self.chunks = []; self.delay = 0.0; self.calls = []; self.err = None; self.why = None; self.mid = None


def nth(d):
    """How often this directive was asked for."""
    with LOCK:
        ERR[d] = ERR.get(d, 0) + 1
        return ERR[d]


def decide(user_texts, results, tools, want_json):
    r = Reply()
    m = last_directive(user_texts)
    d = m.group(1) if m else ""
    data = {"reasoning": "done", "next_speaker": "user", "title": "Fake title"}
    if want_json:
        r.chunks = [json.dumps(data)]
        return r
    if "StructuredOutput" in tools:               # claude: the answer by a schema
        r.calls.append(("StructuredOutput", data, tools["StructuredOutput"]))
        return r
    if d.startswith("over"):
        call = overwrite_call(tools, m.group(11), len(results))
        if call:
            r.chunks = ["I will change a file."]; r.calls.append(call)
            return r
    if d.startswith("mcp"):
        call = note_call(tools, m.group(14), results)
        if call:
            r.chunks = ["I will leave a note."]; r.calls.append(call)
            return r
    if results and d != "loop":
        r.chunks = ["after tool: ", results[-1][:200].strip()]
        return r
    if not m:
        r.chunks = ["(no directive) hello"]
    elif d == "text":
        r.chunks = ["Hello ", "from the ", "fake model."]
    elif d.startswith("mcp"):
        r.chunks = ["no such tool among: ", ",".join(sorted(tools))]
    elif d == "think":
        r.think = ["Let me think ", "about it."]; r.chunks = ["Thought ", "about it."]
    elif d.startswith("err:"):
        status, limit = int(m.group(3)), m.group(4)
        if limit is None or nth(d) <= int(limit):
            r.err = status
        else:
            r.chunks = ["recovered after ", str(int(limit)), " errors"]
    elif d == "errmid":
        r.chunks = ["partial ", "text "]; r.mid = "error"
    elif d.startswith("drop"):
        r.chunks = ["partial ", "text "]; r.mid = "drop"
        if m.group(2) and nth(d) > int(m.group(2)):
            r.chunks = ["recovered after ", m.group(2), " errors"]; r.mid = None
    elif d.startswith("why"):
        r.err = 400; r.why = m.group(15)
    elif d.startswith("slow"):
        r.delay = float(m.group(6)); r.chunks = ["tick%d " % i for i in range(int(m.group(5)))]
    elif d.startswith("long"):
        import random                            # never repeating, or a CLI's loop detection ends the turn
        n = int(m.group(7)); rnd = random.Random(1); words = []
        while sum(map(len, words)) < n:
            words.extend("%08x " % rnd.getrandbits(32) for _ in range(4096)); words.append("\n")
        body = "".join(words)[:n]
        r.chunks = [body[i:i + 8192] for i in range(0, n, 8192)]
    elif d.startswith("bash") or d in ("loop", "multi"):
        cmd = m.group(8) if d.startswith("bash") else "echo hi"
        r.chunks = ["I will run a command."]
        for c in ([cmd] if d != "multi" else ["echo one", "echo two"]):
            call = shell_call(tools, c)
            if call:
                r.calls.append(call)
        if not r.calls:
            r.chunks = ["no shell tool among: ", ",".join(sorted(tools))]
    elif d.startswith("esc"):
        r.chunks = ["I will ask first."]
        r.calls = [escape_call(tools, c) for c in ([m.group(10)] if m.group(10) else m.group(12, 13))]
    elif d.startswith("two"):
        r.chunks = ["I will run two commands."]
        r.calls = [shell_call(tools, c) for c in m.group(12, 13)]
    elif d.startswith("write"):
        r.chunks = ["I will write a file."]
        call = write_call(tools, m.group(9))
        if call:
            r.calls.append(call)
        else:
            r.chunks = ["no write tool among: ", ",".join(sorted(tools))]
    return r


class H(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *a):
        pass

    # -- plumbing ---------------------------------------------------------
    def send_json(self, obj, status=200, headers=()):
        b = json.dumps(obj).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(b)))
        self.send_header("request-id", "req_fake_%d" % self.n)
        for k, v in headers:
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(b)

    def sse_start(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("cache-control", "no-cache")
        self.send_header("request-id", "req_fake_%d" % self.n)
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def sse(self, obj, event=None):
        s = ("event: %s\n" % event if event else "") + "data: " + (obj if isinstance(obj, str) else json.dumps(obj)) + "\n\n"
        self.wfile.write(s.encode())
        self.wfile.flush()

    def log(self, **kw):
        if LOG:
            with LOCK:
                LOG.write(json.dumps(kw) + "\n")

    def do_HEAD(self):
        self.n = next(SEQ)
        self.log(n=self.n, method="HEAD", path=self.path)
        self.send_response(200); self.send_header("content-length", "0"); self.end_headers()

    def do_GET(self):
        self.n = next(SEQ)
        self.log(n=self.n, method="GET", path=self.path, headers=dict(self.headers))
        if "/models" in self.path:
            ids = ["fake-model", "gpt-5.2-codex", "claude-sonnet-4-5"]
            self.send_json({"object": "list", "data": [{"id": i, "object": "model", "type": "model", "display_name": i, "created": 0, "created_at": "2026-01-01T00:00:00Z", "owned_by": "fake"} for i in ids], "has_more": False})
        else:
            self.send_json({"error": {"message": "not found", "type": "not_found_error"}}, 404)

    def do_POST(self):
        self.n = next(SEQ)
        te = (self.headers.get("transfer-encoding") or "").lower()
        if "chunked" in te:
            raw = b""
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                raw += self.rfile.read(size); self.rfile.readline()
                if size == 0:
                    break
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if (self.headers.get("content-encoding") or "") == "gzip":
            import gzip
            raw = gzip.decompress(raw)
        try:
            body = json.loads(raw or b"{}")
        except Exception:
            body = {"_unparsed": repr(raw[:200])}
        p = self.path.split("?")[0]
        self.log(n=self.n, t=time.time(), method="POST", path=self.path, headers=dict(self.headers), body=body)
        try:
            if p.endswith("/count_tokens"):
                self.send_json({"input_tokens": 1234})
            elif p.endswith(":countTokens"):
                self.send_json({"totalTokens": 1234})
            elif p.endswith("/messages"):
                self.anthropic(body)
            elif p.endswith("/responses"):
                self.openai_responses(body)
            elif p.endswith("/chat/completions"):
                self.chat(body)
            elif p.endswith(":streamGenerateContent") or p.endswith(":generateContent"):
                self.gemini(body, p.endswith(":streamGenerateContent"))
            else:
                self.send_json({"error": {"message": "no such path", "type": "not_found_error"}}, 404)
        except (BrokenPipeError, ConnectionResetError):
            self.log(n=self.n, event="client closed the connection")
            self.close_connection = True

    # -- Anthropic --------------------------------------------------------
    def anthropic(self, b):
        users, results = [], []
        for m in b.get("messages", []):
            if m.get("role") != "user":
                continue
            users.append(texts(m.get("content")))
            new = [texts(blk.get("content")) or "(empty)" for blk in m["content"] if blk.get("type") == "tool_result"] if isinstance(m.get("content"), list) else []
            results = kept(results + new, users[-1])
        tools = {t.get("name"): t.get("type", "function") for t in b.get("tools", [])}
        r = decide(users, results, tools, False)
        etype = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}
        if r.err:
            h = [("retry-after", "1")] if r.err == 429 else []
            return self.send_json({"type": "error", "error": {"type": etype.get(r.err, "api_error"), "message": r.why or "fake error %d" % r.err}, "request_id": "req_fake_%d" % self.n}, r.err, h)
        mid = "msg_fake_%04d" % self.n
        usage = {"input_tokens": USAGE["i"] - USAGE["cached"], "cache_creation_input_tokens": 0, "cache_read_input_tokens": USAGE["cached"], "output_tokens": 1, "service_tier": "standard"}
        if not b.get("stream"):
            content = [{"type": "text", "text": "".join(r.chunks)}]
            for i, (n, a, _) in enumerate(r.calls):
                content.append({"type": "tool_use", "id": "toolu_fake_%04d_%d" % (self.n, i), "name": n, "input": a})
            return self.send_json({"id": mid, "type": "message", "role": "assistant", "model": b.get("model"), "content": content, "stop_reason": "tool_use" if r.calls else "end_turn", "stop_sequence": None, "usage": dict(usage, output_tokens=USAGE["o"])})
        self.sse_start()
        ev = lambda o: self.sse(o, o["type"])
        ev({"type": "message_start", "message": {"id": mid, "type": "message", "role": "assistant", "model": b.get("model"), "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}})
        ix = 0
        if r.think:
            ev({"type": "content_block_start", "index": ix, "content_block": {"type": "thinking", "thinking": "", "signature": ""}})
            for c in r.think:
                ev({"type": "content_block_delta", "index": ix, "delta": {"type": "thinking_delta", "thinking": c}})
            ev({"type": "content_block_delta", "index": ix, "delta": {"type": "signature_delta", "signature": "ZmFrZQ=="}})
            ev({"type": "content_block_stop", "index": ix}); ix += 1
        ev({"type": "content_block_start", "index": ix, "content_block": {"type": "text", "text": ""}})
        for c in r.chunks:
            ev({"type": "content_block_delta", "index": ix, "delta": {"type": "text_delta", "text": c}})
            if r.delay:
                time.sleep(r.delay)
        if r.mid == "drop":
            self.connection.close(); return
        if r.mid == "error":
            ev({"type": "error", "error": {"type": "overloaded_error", "message": "fake overload in mid stream"}}); return
        ev({"type": "content_block_stop", "index": ix}); ix += 1
        for i, (n, a, _) in enumerate(r.calls):
            ev({"type": "content_block_start", "index": ix, "content_block": {"type": "tool_use", "id": "toolu_fake_%04d_%d" % (self.n, i), "name": n, "input": {}}})
            js = json.dumps(a); half = len(js) // 2
            for part in (js[:half], js[half:]):
                ev({"type": "content_block_delta", "index": ix, "delta": {"type": "input_json_delta", "partial_json": part}})
            ev({"type": "content_block_stop", "index": ix}); ix += 1
        ev({"type": "message_delta", "delta": {"stop_reason": "tool_use" if r.calls else "end_turn", "stop_sequence": None}, "usage": {"output_tokens": USAGE["o"]}})
        ev({"type": "message_stop"})

    # -- OpenAI Responses -------------------------------------------------
    def openai_responses(self, b):
        users, results, extra, found = [], [], {}, {}
        inp = b.get("input")
        if isinstance(inp, str):
            inp = [{"type": "message", "role": "user", "content": inp}]
        for it in inp or []:
            t = it.get("type", "message")
            if t == "message" and it.get("role") == "user":
                users.append(texts(it.get("content"))); results = kept(results, users[-1])
            elif t == "additional_tools":       # codex "code mode": the tools come as an input item
                for u in it.get("tools", []):
                    for v in u.get("tools", []) if u.get("type") == "namespace" else [u]:
                        extra[v.get("name")] = (v.get("type", "function"), u.get("name") if u.get("type") == "namespace" else None)
            elif t.endswith("_output"):
                for u in it.get("tools") or []:     # what a search has found
                    for v in u.get("tools", []) if u.get("type") == "namespace" else [u]:
                        found[(u["name"] + "." if u.get("type") == "namespace" else "") + v.get("name", "?")] = u.get("type")
                o = it.get("output")
                results.append(o if isinstance(o, str) else (texts(o) if isinstance(o, list) else json.dumps(o)))
        tools = {}
        for t in b.get("tools", []):
            if t.get("type") == "function":
                tools[t["name"]] = "function"
            elif t.get("type") == "custom":
                tools[t["name"]] = "custom"
            elif t.get("type") in ("local_shell", "tool_search"):
                tools[t["type"]] = t["type"]
            elif t.get("type") == "namespace":
                for u in t.get("tools", []):
                    tools[t["name"] + "." + u.get("name", "?")] = "namespace"
        for n, (kind, _) in extra.items():
            tools.setdefault(n, kind)
        tools.update(found)
        r = decide(users, results, tools, bool((b.get("text") or {}).get("format", {}).get("type") == "json_schema"))
        if r.err:
            h = [("retry-after", "1")] if r.err == 429 else []
            return self.send_json({"error": {"message": r.why or "fake error %d" % r.err, "type": {401: "invalid_request_error", 429: "rate_limit_exceeded"}.get(r.err, "server_error"), "code": {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(r.err)}}, r.err, h)
        rid = "resp_fake_%04d" % self.n
        base = {"id": rid, "object": "response", "created_at": int(time.time()), "model": b.get("model"), "status": "in_progress", "output": [], "error": None, "incomplete_details": None}
        usage = {"input_tokens": USAGE["i"], "input_tokens_details": {"cached_tokens": USAGE["cached"]}, "output_tokens": USAGE["o"], "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": USAGE["i"] + USAGE["o"]}
        out = []
        stream = bool(b.get("stream"))
        sq = itertools.count()
        if stream:
            self.sse_start()
        def ev(typ, **kw):
            if stream:
                self.sse(dict(type=typ, sequence_number=next(sq), **kw), typ)
        ev("response.created", response=base)
        ev("response.in_progress", response=base)
        ix = 0
        if r.think:
            item = {"id": "rs_%04d" % self.n, "type": "reasoning", "summary": [], "encrypted_content": None}
            ev("response.output_item.added", output_index=ix, item=item)
            ev("response.reasoning_summary_part.added", item_id=item["id"], output_index=ix, summary_index=0, part={"type": "summary_text", "text": ""})
            for c in r.think:
                ev("response.reasoning_summary_text.delta", item_id=item["id"], output_index=ix, summary_index=0, delta=c)
            full = "".join(r.think)
            ev("response.reasoning_summary_text.done", item_id=item["id"], output_index=ix, summary_index=0, text=full)
            ev("response.reasoning_summary_part.done", item_id=item["id"], output_index=ix, summary_index=0, part={"type": "summary_text", "text": full})
            item = dict(item, summary=[{"type": "summary_text", "text": full}]); out.append(item)
            ev("response.output_item.done", output_index=ix, item=item); ix += 1
        item = {"id": "msg_%04d" % self.n, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        ev("response.output_item.added", output_index=ix, item=item)
        ev("response.content_part.added", item_id=item["id"], output_index=ix, content_index=0, part={"type": "output_text", "text": "", "annotations": []})
        for c in r.chunks:
            ev("response.output_text.delta", item_id=item["id"], output_index=ix, content_index=0, delta=c)
            if r.delay:
                time.sleep(r.delay)
        if r.mid == "drop":
            self.connection.close(); return
        if r.mid == "error":
            ev("response.failed", response=dict(base, status="failed", error={"code": "server_error", "message": "fake failure in mid stream"})); return
        full = "".join(r.chunks)
        ev("response.output_text.done", item_id=item["id"], output_index=ix, content_index=0, text=full)
        item = dict(item, status="completed", content=[{"type": "output_text", "text": full, "annotations": []}]); out.append(item)
        ev("response.content_part.done", item_id=item["id"], output_index=ix, content_index=0, part=item["content"][0])
        ev("response.output_item.done", output_index=ix, item=item); ix += 1
        for i, (n, a, kind) in enumerate(r.calls):
            cid = "call_fake_%04d_%d" % (self.n, i)
            if kind == "custom":
                item = {"id": "ctc_%04d_%d" % (self.n, i), "type": "custom_tool_call", "status": "completed", "call_id": cid, "name": n, "input": a}
                if n in extra and extra[n][1]:
                    item["namespace"] = extra[n][1]
                ev("response.output_item.added", output_index=ix, item=dict(item, status="in_progress", input=""))
                ev("response.custom_tool_call_input.delta", item_id=item["id"], output_index=ix, delta=a)
                ev("response.custom_tool_call_input.done", item_id=item["id"], output_index=ix, input=a)
            elif kind == "tool_search":
                item = {"id": "tsc_%04d_%d" % (self.n, i), "type": "tool_search_call", "status": "completed", "call_id": cid, "execution": "client", "arguments": a}
                ev("response.output_item.added", output_index=ix, item=dict(item, status="in_progress"))
            else:
                args = json.dumps(a)
                item = {"id": "fc_%04d_%d" % (self.n, i), "type": "function_call", "status": "completed", "call_id": cid, "name": n, "arguments": args}
                if kind == "namespace":
                    item["namespace"], item["name"] = n.rsplit(".", 1)
                ev("response.output_item.added", output_index=ix, item=dict(item, status="in_progress", arguments=""))
                ev("response.function_call_arguments.delta", item_id=item["id"], output_index=ix, delta=args)
                ev("response.function_call_arguments.done", item_id=item["id"], output_index=ix, arguments=args)
            out.append(item)
            ev("response.output_item.done", output_index=ix, item=item); ix += 1
        final = dict(base, status="completed", output=out, usage=usage)
        if stream:
            ev("response.completed", response=final)
        else:
            self.send_json(final)

    # -- OpenAI chat completions -------------------------------------------
    def chat(self, b):
        users, results = [], []
        for m in b.get("messages", []):
            if m.get("role") == "user":
                users.append(texts(m.get("content"))); results = kept(results, users[-1])
            elif m.get("role") == "tool":
                results.append(texts(m.get("content")) or "(empty)")
        offered = {t["function"]["name"]: t["function"] for t in b.get("tools", []) if t.get("type") == "function"}
        r = decide(users, results, dict.fromkeys(offered, "function"), False)
        r.calls = [fit(call, offered[call[0]]["parameters"]["properties"]) for call in r.calls]
        if r.err:
            h = [("retry-after", "1")] if r.err == 429 else []
            return self.send_json({"error": {"message": r.why or "fake error %d" % r.err, "type": "fake", "code": {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(r.err)}}, r.err, h)
        usage = {"prompt_tokens": USAGE["i"], "completion_tokens": USAGE["o"], "total_tokens": USAGE["i"] + USAGE["o"], "prompt_tokens_details": {"cached_tokens": USAGE["cached"]}, "completion_tokens_details": {"reasoning_tokens": 5}}
        calls = [{"index": i, "id": "call_fake_%04d_%d" % (self.n, i), "type": "function", "function": {"name": n, "arguments": json.dumps(a)}} for i, (n, a, _) in enumerate(r.calls)]
        cid = "chatcmpl-fake-%04d" % self.n
        fin = "tool_calls" if calls else "stop"
        if not b.get("stream"):
            msg = {"role": "assistant", "content": "".join(r.chunks)}
            if calls:
                msg["tool_calls"] = calls
            return self.send_json({"id": cid, "object": "chat.completion", "created": int(time.time()), "model": b.get("model"), "choices": [{"index": 0, "message": msg, "finish_reason": fin}], "usage": usage})
        self.sse_start()
        def ev(delta, finish=None):
            self.sse({"id": cid, "object": "chat.completion.chunk", "created": int(time.time()), "model": b.get("model"), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        ev({"role": "assistant", "content": ""})
        for c in r.think or []:
            ev({"reasoning_content": c})
        for c in r.chunks:
            ev({"content": c})
            if r.delay:
                time.sleep(r.delay)
        if r.mid == "drop":
            self.connection.close(); return
        if r.mid == "error":
            self.sse({"error": {"message": "fake failure in mid stream", "type": "server_error"}}); return
        for c in calls:
            args = c["function"]["arguments"]
            ev({"tool_calls": [dict(c, function={"name": c["function"]["name"], "arguments": ""})]})
            ev({"tool_calls": [{"index": c["index"], "function": {"arguments": args}}]})
        ev({}, fin)
        self.sse({"id": cid, "object": "chat.completion.chunk", "created": int(time.time()), "model": b.get("model"), "choices": [], "usage": usage})
        self.sse("[DONE]")

    # -- Gemini -----------------------------------------------------------
    def gemini(self, b, stream):
        users, results = [], []
        for c in b.get("contents", []):
            if c.get("role") in (None, "user", "function"):
                users.append(texts(c.get("parts")))
                new = [part["functionResponse"].get("response", {}) for part in c.get("parts", []) if "functionResponse" in part]
                results = kept(results + [resp.get("output") or resp.get("error") or json.dumps(resp) for resp in new], users[-1])
        tools = {}
        for t in b.get("tools", []) or []:
            for f in t.get("functionDeclarations", []) or []:
                tools[f["name"]] = "function"
        gc = b.get("generationConfig", {}) or {}
        r = decide(users, results, tools, gc.get("responseMimeType") == "application/json")
        if r.err:
            st = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}.get(r.err, "UNKNOWN")
            return self.send_json({"error": {"code": r.err, "message": r.why or "fake error %d" % r.err, "status": st}}, r.err)
        um = {"promptTokenCount": USAGE["i"], "candidatesTokenCount": USAGE["o"], "totalTokenCount": USAGE["i"] + USAGE["o"], "cachedContentTokenCount": USAGE["cached"], "thoughtsTokenCount": 5}
        calls = [{"functionCall": {"id": "call_fake_%04d_%d" % (self.n, i), "name": n, "args": a}} for i, (n, a, _) in enumerate(r.calls)]
        model = self.path.split("/models/")[-1].split(":")[0]
        def chunk(parts, fin=None):
            c = {"content": {"role": "model", "parts": parts}, "index": 0}
            if fin:
                c["finishReason"] = fin
            return {"candidates": [c], "usageMetadata": um, "modelVersion": model, "responseId": "resp_fake_%04d" % self.n}
        if not stream:
            return self.send_json(chunk([{"text": "".join(r.chunks)}] + calls, "STOP"))
        self.sse_start()
        for c in r.think or []:
            self.sse(chunk([{"text": "**Thinking** " + c, "thought": True}]))
        for c in r.chunks:
            self.sse(chunk([{"text": c}]))
            if r.delay:
                time.sleep(r.delay)
        if r.mid == "drop":
            self.connection.close(); return
        if r.mid == "error":
            self.sse({"error": {"code": 503, "message": "fake failure in mid stream", "status": "UNAVAILABLE"}}); return
        self.sse(chunk(calls or [{"text": ""}], "STOP"))


class S(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


if __name__ == "__main__":
    S(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
