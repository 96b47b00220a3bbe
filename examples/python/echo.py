#!/usr/bin/env python3
"""An echo adapter on the standard library (Python 3.10 or later): many sessions, stop, a permission demo."""
import asyncio, contextlib, itertools, json, os, queue, re, signal, sys, threading, types
HALF = re.compile("[\ud800-\udfff]")  # half a surrogate pair: JSON can spell it, UTF-8 cannot
PARSE = json.JSONDecoder(parse_constant=int, parse_int=float).decode  # no NaN, numbers of any length
sessions, outbox, numbers, loop = {}, queue.SimpleQueue(), itertools.count(1), asyncio.new_event_loop()

def send(session, type, **fields):  # never waits: the writer does, for a slow host
    line = json.dumps({"type": type, "session_id": session.id, **fields}, ensure_ascii=False)
    outbox.put(line.replace("\u2028", r"\u2028").replace("\u2029", r"\u2029").encode() + b"\n")
def advance(session, ended=None):  # one turn.complete for each input, in order; silence once closed
    if sessions.get(session.id) is not session: return
    if ended:
        session.turn, session.asked = None, {}
        send(session, "turn.complete")
    if session.inputs and not session.turn:
        session.turn = loop.create_task(answer(session, session.inputs.pop(0)))
        session.turn.add_done_callback(lambda turn: advance(session, turn))
async def ask(session, **what):  # nothing but True approves
    verdict = session.asked[request := f"ask-{next(numbers)}"] = asyncio.Queue()
    send(session, "permission.request", request_id=request, **what)
    return await verdict.get() is True
async def answer(session, text):  # `stop` and `session.close` cancel it where it waits
    if match := re.match(r"/tool (\S+)", text):
        approved = await ask(session, tool=match[1], description=f"Run {match[1]}", resource=match[1])
        text = f"{'ran' if approved else 'denied'} {match[1]}"
    elif match := re.fullmatch(r"/sleep (\d+\.?\d*)", text): await asyncio.sleep(float(match[1]))
    send(session, "output", content=text, channel="stdout")
def handle(message):  # what fits no case (unknown, closed, wrong type) is ignored
    match message:
        case {"type": "session.start", "session_id": str(id)} if not HALF.search(id) and 0 < len(id.encode()) <= 256:
            sessions.setdefault(id, types.SimpleNamespace(id=id, inputs=[], turn=None, asked={}))
        case {"type": kind, "session_id": str(id)} if session := sessions.get(id):
            text, request = message.get("content"), message.get("request_id")
            if kind == "user.input" and isinstance(text, str | None):
                session.inputs.append(HALF.sub("\ufffd", text or ""))
                advance(session)
            elif kind == "permission.response" and isinstance(request, str) and request in session.asked:
                session.asked.pop(request).put_nowait(message.get("approved"))
            elif kind in ("stop", "session.close"):
                if kind == "session.close": del sessions[id]
                if session.turn: session.turn.cancel()
def read():
    for line in open(0, "rb"):  # splits at LF alone
        with contextlib.suppress(ValueError, RecursionError):  # noise
            loop.call_soon_threadsafe(handle, PARSE(line.decode("utf-8-sig")))
def write():
    with contextlib.suppress(OSError), open(1, "wb") as stdout:
        while line := outbox.get(): stdout.write(line); stdout.flush()
async def main():
    reading, writing = loop.run_in_executor(None, read), loop.run_in_executor(None, write)
    loop.add_signal_handler(signal.SIGTERM, reading.cancel)
    await asyncio.wait([reading, writing], return_when=asyncio.FIRST_COMPLETED)
    while turns := [session.turn for session in sessions.values() if session.turn]:  # short ones finish
        for turn in (await asyncio.wait(turns, timeout=0.05))[1]: turn.cancel()
    outbox.put(None)
    await asyncio.wait([writing], timeout=2); os._exit(0)  # without waiting for stdin
sys.setrecursionlimit(12_000); threading.stack_size(64 << 20)  # unknown fields may nest deeply
if __name__ == "__main__": loop.run_until_complete(main())
