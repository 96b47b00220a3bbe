#!/usr/bin/env python3
"""An MCP server on stdin and stdout with one tool, `leave_note`, which writes its text into a file.
Usage: fake_mcp.py FILE
"""
import json, sys

TOOL = {"name": "leave_note", "description": "Leaves a note.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}

for line in sys.stdin:
    message = json.loads(line)
    method, result = message.get("method"), {}
    if "id" not in message or method is None:
        continue
    if method == "initialize":
        version = message["params"].get("protocolVersion", "2025-06-18")
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "notes", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        with open(sys.argv[1], "w") as file:
            file.write(message["params"]["arguments"]["text"])
        result = {"content": [{"type": "text", "text": "noted"}]}
    elif method.endswith("/list"):
        result = {method.split("/")[0]: []}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
