"""The conformance suite's probe for an adapter in Python (3.10 or later), on the standard library: copy it.

Where the environment says CONFORM_PROBE=1, an input whose content is `{"$probe": 1, "do": [[operation, …], …]}` is
a script that stands in for the agent. `script_in` finds it; a `Probe`, one for each session, runs it with what your
adapter already has:

    send(type, **fields)                             writes a message of the session; drops it once that is closed
    await ask(tool=…, description=…, resource=…)     asks for a permission; True when it is approved
    await room()                                     waits while much of what was sent has not been written

`stop` and `session.close` cancel the task that runs it; when it returns, the turn is over. It raises where the script
fails (`fail`): end the turn as you end one whose agent has failed, by an `output` on `system`, or by status `failed` where
`turns` is agreed on.
"""
import asyncio, hashlib, json, os, re, tempfile

OPERATIONS = ("hello say echo burst sleep until_stop report set get ask file complete fail exit abort").split()
HALF = re.compile("[\ud800-\udfff]")  # half a surrogate pair, which UTF-8 cannot spell
TICK = 0.05


def script_in(text):
    """The script in an input, or None: the environment does not allow it, or it is an ordinary input."""
    if os.environ.get("CONFORM_PROBE") != "1" or not text.lstrip().startswith("{"):
        return None
    try:
        script = json.loads(text)
    except (ValueError, RecursionError):
        return None
    steps = script.get("do", [])
    well_formed = isinstance(steps, list) and all(isinstance(step, list) for step in steps)
    return script if "$probe" in script and well_formed else None


class Probe:
    """What a session was sent, for `report`, and the scripts that it is sent."""

    def __init__(self):
        self.inputs, self.files, self.permissions, self.values = [], [], [], {}

    def note_input(self, text):
        """Takes each input when its turn begins, script or not."""
        content = text.encode()
        self.inputs.append({"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()})

    def note(self, message):
        """Takes each message of the session that the adapter reads; most of them say nothing to it."""
        if message["type"] == "file.input" and isinstance(path := message.get("file_path"), str):
            name, mime = message.get("file_name"), message.get("file_mime_type")
            self.files.append({"name": name, "mime": mime, "path": path})
        elif message["type"] == "permission.response":
            request, approved = message.get("request_id"), message.get("approved") is True
            self.permissions.append({"request_id": request, "approved": approved})

    async def run(self, script, send, ask, room, name="adapter", version="0"):
        """Does what a script says: the whole turn but its `turn.complete`."""
        def say(content, channel="stdout"):
            send("output", content=HALF.sub("\ufffd", content), channel=channel)

        def tell(**answer):
            say(json.dumps({"$probe": 1, **answer}))

        async def busy(seconds):
            until = asyncio.get_running_loop().time() + seconds
            while (left := until - asyncio.get_running_loop().time()) > 0:
                await asyncio.sleep(min(left, TICK))
                if left >= TICK:
                    say("tick")

        async def ask_one(asked):
            what = {key: as_text(asked.get(key)) or "" for key in ("tool", "description", "resource")}
            approved = await ask(**what)
            if approved and "effect" in asked:
                open(asked["effect"], "w").close()
            tell(asked={"resource": what["resource"], "approved": approved})

        for operation, *arguments in filter(None, script.get("do", [])):
            first, second, third, *_ = *arguments, None, None, None
            match operation:
                case "hello":
                    tell(ops=OPERATIONS, adapter=name, version=version)
                case "say":
                    say(as_text(first) or "", as_text(second) or "stdout")
                case "echo":
                    say(as_text(script.get("text") if first is None else first) or "")
                case "burst":
                    fill = (as_text(third) or "x") * max(0, second - len("00000001 "))
                    for number in range(1, first + 1):
                        await room()
                        await asyncio.sleep(0)  # where a stop is noticed
                        say(f"{number:08} {fill}")
                case "sleep":
                    await busy(first / 1000)
                case "until_stop":
                    await busy(float("inf"))
                case "report":
                    files = await asyncio.to_thread(lambda: [file | judged(file["path"]) for file in self.files])
                    tell(count=len(self.inputs), inputs=self.inputs, files=files, permissions=self.permissions)
                case "set":
                    self.values[as_text(first)] = second
                case "get":
                    tell(key=first, value=self.values.get(as_text(first)))
                case "ask":  # all at once: they may be answered in any order
                    await asyncio.gather(*map(ask_one, arguments))
                case "file":
                    handle, path = tempfile.mkstemp()  # in TMPDIR; a name is a label, not a path
                    with open(handle, "wb") as file:
                        file.write(b"x" * third)
                    send("file.output", file_name=first, file_mime_type=second, file_path=path)
                case "complete":
                    return
                case "fail":
                    raise RuntimeError(as_text(first) or "the script fails")
                case "exit":
                    os._exit(first)
                case "abort":
                    os.abort()
                case unknown:
                    return tell(unsupported=unknown)


def as_text(value):
    return value if value is None or isinstance(value, str) else json.dumps(value)


def judged(path):
    """What a file holds; it may be anything or nothing."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError("not a regular file")
        digest, size = hashlib.sha256(), 0
        with open(path, "rb") as file:
            while chunk := file.read(1 << 16):
                digest.update(chunk)
                size += len(chunk)
        return {"bytes": size, "sha256": digest.hexdigest()}
    except (OSError, ValueError) as error:
        return {"error": f"{error}"}
