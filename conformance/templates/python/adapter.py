#!/usr/bin/env python3
"""An adapter on the standard library of Python 3.10 or later. Your agent goes into `answer`."""
import asyncio, contextlib, itertools, json, mimetypes, os, queue, re, signal, sys, threading


async def answer(session, text):
    """One turn. Say as much as you like; the end of this function ends the turn, and an error is shown to the user.

    `stop` cancels it at its next `await`. `session.say(text)` writes output, and
    `await session.ask(tool, description, resource)` asks for permission: act only on True.
    `session.files` are the files that came with this input: `{"name", "mime", "path"}`; `session.file(path)` sends
    one: write it into `TMPDIR`, and leave it there. `await session.room()` waits for a slow host: between many outputs.
    `session.state` is yours, and lives as long as the session.
    """
    # To try it out, and for the recipes in conform.toml. Your agent replaces all of this.
    command, _, rest = text.partition(" ")
    if command == "/sleep":
        await asyncio.sleep(float(rest))
    elif command == "/touch" and await session.ask("touch", f"Create {rest}", rest):
        open(rest, "w").close()
    elif command == "/fail":
        raise RuntimeError(rest)
    session.say(f"You said: {text}")


# What follows is the protocol. For its core nothing below here needs to change.

HALF = re.compile("[\ud800-\udfff]")  # half a surrogate pair: JSON can spell it, UTF-8 cannot
LONGEST = 16 << 20  # bytes of a line; a longer one is skipped
BACKLOG = 64  # lines that wait for a slow host, before `room` waits as well
PARSE = json.JSONDecoder(parse_constant=int, parse_int=float).decode  # no NaN, numbers of any length
sessions, outbox, numbers = {}, queue.SimpleQueue(), itertools.count(1)
loop = asyncio.new_event_loop()
if os.environ.get("CONFORM_PROBE") == "1":  # only the conformance suite sets it
    from probe import Probe, script_in
else:
    Probe, script_in = None, lambda text: None


class Session:
    def __init__(self, id):
        self.id, self.inputs, self.turn, self.asked, self.state = id, [], None, {}, {}
        self.sent, self.files = [], []  # of the next input, of the running turn
        self.probe = Probe and Probe()

    def send(self, type, **fields):  # never waits: a thread writes
        if sessions.get(self.id) is self:  # silence once the session is closed
            line = json.dumps({"type": type, "session_id": self.id, **fields}, ensure_ascii=False)
            line = HALF.sub("\ufffd", line).replace("\u2028", r"\u2028").replace("\u2029", r"\u2029")
            outbox.put(line.encode() + b"\n")

    def say(self, text, channel="stdout"):
        self.send("output", content=text, channel=channel)

    def file(self, path):
        mime = mimetypes.guess_type(path)[0] or "application/octet-stream"
        self.send("file.output", file_path=path, file_name=os.path.basename(path), file_mime_type=mime)

    async def ask(self, tool, description, resource):
        request, verdict = f"ask-{next(numbers)}", loop.create_future()
        self.asked[request] = verdict
        self.send("permission.request", request_id=request, tool=tool, description=description, resource=resource)
        return await verdict

    async def room(self):
        while outbox.qsize() > BACKLOG:
            await asyncio.sleep(0.002)

    async def run(self, text):  # a failure ends its turn like any other end
        try:
            if self.probe:
                self.probe.note_input(text)
            if script := script_in(text):
                await self.probe.run(script, self.send, self.ask, self.room)
            else:
                await answer(self, text)
        except Exception as error:
            self.say(f"{type(error).__name__}: {error}", channel="system")

    def advance(self, ended=None):  # one turn.complete for each input, in order
        if ended:
            self.turn, self.asked = None, {}
            self.send("turn.complete")
        if self.inputs and not self.turn and sessions.get(self.id) is self:
            text, self.files = self.inputs.pop(0)
            self.turn = loop.create_task(self.run(text))
            self.turn.add_done_callback(self.advance)


def handle(message):  # what is unknown, closed or of the wrong type is ignored
    if not isinstance(message, dict) or not isinstance(id := message.get("session_id"), str):
        return
    kind, session = message.get("type"), sessions.get(id)
    if kind == "session.start" and not session and 0 < len(HALF.sub("", id)) == len(id) and len(id.encode()) <= 256:
        sessions[id] = Session(id)
        return
    elif not session:
        return
    if session.probe:
        session.probe.note(message)
    if kind == "user.input" and isinstance(text := message.get("content"), str | None):
        session.inputs.append((HALF.sub("\ufffd", text or ""), session.sent))
        session.sent = []
        session.advance()
    elif kind == "file.input" and isinstance(path := message.get("file_path"), str):
        session.sent.append({"name": message.get("file_name"), "mime": message.get("file_mime_type"), "path": path})
    elif kind == "permission.response" and isinstance(request := message.get("request_id"), str):
        verdict = session.asked.pop(request, None)
        if verdict and not verdict.done():
            verdict.set_result(message.get("approved") is True)  # anything but true denies
    elif kind in ("stop", "session.close"):
        if kind == "session.close":
            del sessions[id]
        if session.turn:
            session.turn.cancel()


def read():
    stdin, skipping = open(0, "rb"), False
    while line := stdin.readline(LONGEST + 1):  # splits at LF and nowhere else
        ended, skipped = line.endswith(b"\n"), skipping
        skipping = not ended and (skipped or len(line) > LONGEST)
        with contextlib.suppress(ValueError, RecursionError):  # noise is skipped
            if not (skipped or skipping):
                loop.call_soon_threadsafe(handle, PARSE(line.decode("utf-8-sig")))


def write():
    with contextlib.suppress(OSError), open(1, "wb") as stdout:
        while line := outbox.get():
            stdout.write(line)
            stdout.flush()


async def main():
    reading, writing = loop.run_in_executor(None, read), loop.run_in_executor(None, write)
    loop.add_signal_handler(signal.SIGTERM, reading.cancel)
    await asyncio.wait([reading, writing], return_when=asyncio.FIRST_COMPLETED)
    while turns := [session.turn for session in sessions.values() if session.turn]:  # short ones finish
        for turn in (await asyncio.wait(turns, timeout=0.05))[1]:
            turn.cancel()
    outbox.put(None)
    await asyncio.wait([writing], timeout=2)
    os._exit(0)  # without waiting for stdin


sys.setrecursionlimit(12_000), threading.stack_size(64 << 20)  # unknown fields may nest deeply
loop.run_until_complete(main())
