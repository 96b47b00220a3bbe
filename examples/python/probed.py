#!/usr/bin/env python3
"""The echo adapter with the conformance suite's probe. Unless CONFORM_PROBE=1 is set, it is the echo adapter."""
import asyncio, functools
import echo, probe

handle, answer, probes = echo.handle, echo.answer, {}

def handle_and_note(message):
    handle(message)
    match message:
        case {"type": str(), "session_id": str(id)} if id in echo.sessions:
            probes.setdefault(id, probe.Probe()).note(message)
        case {"session_id": str(id)}:
            probes.pop(id, None)  # closed

async def answer_or_obey(session, text):
    probes[session.id].note_input(text)
    if script := probe.script_in(text):
        send, ask = functools.partial(echo.send, session), functools.partial(echo.ask, session)
        await probes[session.id].run(script, send, ask, room, name="echo.py")
    else:
        await answer(session, text)

async def room():
    while echo.outbox.qsize() > 16: await asyncio.sleep(0.002)

echo.handle, echo.answer = handle_and_note, answer_or_obey
echo.loop.run_until_complete(echo.main())
