"""The counterpart: the least that answers. It reads a line, parses it, and writes two."""

import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "user.input":
        session = message["session_id"]
        output = {"type": "output", "session_id": session, "content": message["content"], "channel": "stdout"}
        sys.stdout.write(json.dumps(output) + "\n" + json.dumps({"type": "turn.complete", "session_id": session}) + "\n")
        sys.stdout.flush()
