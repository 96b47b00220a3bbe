#!/usr/bin/env python3
"""The echo adapter with the conformance suite's probe. Unless CONFORM_PROBE=1 is set, it is the echo adapter."""
import asyncio, functools
import echo, probe

handle, answer = echo.handle, echo.answer

def probe_of(session):
    return vars(session).setdefault("probe", probe.Probe())

def handle_and_note(message):
    handle(message)
    match message:
        case {"type": str(), "session_id": str(id)} if session := echo.sessions.get(id):
            probe_of(session).note(message)

async def answer_or_obey(session, text):
    probe_of(session).note_input(text)
    if script := probe.script_in(text):
        send, ask = functools.partial(echo.send, session), functools.partial(echo.ask, session)
        try:
            await probe_of(session).run(script, send, ask, room, name="echo.py")
        except Exception as error:  # without extensions a turn fails in words
            send("output", content=f"{error}", channel="system")
    else:
        await answer(session, text)

async def room():
    while echo.outbox.qsize() > 16: await asyncio.sleep(0.002)

echo.handle, echo.answer = handle_and_note, answer_or_obey
echo.loop.run_until_complete(echo.main())
