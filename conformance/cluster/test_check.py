#!/usr/bin/env python3
"""The judge of fail-overs finds each thing that can be wrong, and nothing where nothing is. Needs no server."""

import asyncio
import contextlib
import io
import json
import pathlib
import tempfile
import types

from check import Check, nanoseconds
from load import Input, Load, Session

MOVED = nanoseconds("2026-01-01T00:00:05.000Z")


class Host:
    """One that has these entries."""

    def __init__(self, lines):
        self.lines = lines

    async def ask(self, *_, **__):
        return {"last_seq": len(self.lines)}

    async def entries(self, _, after=0):
        for number, line in self.lines:
            if number > after:
                yield number, line


def entry(seq, epoch, kind, **fields):
    time = f"2026-01-01T00:00:0{seq}.000Z"
    return seq, json.dumps({"type": kind, "seq": seq, "epoch": epoch, "time": time, **fields}).encode()


GOOD = [
    entry(1, 1, "host.fact"),
    entry(2, 1, "turn.begin", turn_id="t", message_id="k"),
    entry(3, 1, "output", turn_id="t", content="hi"),
    entry(4, 1, "turn.complete", turn_id="t", status="completed"),
    entry(5, 2, "host.fact", message="b"),
]


async def found(lines=GOOD, shown=None, lives=None, got=b"echo hi\n", turn="t", says="echo hi"):
    """What the judge says of one session."""
    with tempfile.TemporaryDirectory() as folder:
        session, folder = Session("s"), pathlib.Path(folder)
        load = Load(types.SimpleNamespace(hosts={"h": Host(lines)}, lives=folder))
        load.sessions, session.shown, session.inputs = [session], dict(shown or lines), [Input("k", says)]
        session.inputs[0].turn = turn
        (folder / "s").mkdir()
        (folder / "s" / "inputs").write_bytes(got)
        for name, moments in (lives or {}).items():
            (folder / "s" / name).write_text("".join(f"1 {moment}\n" for moment in moments))
        with contextlib.redirect_stdout(io.StringIO()):
            await Check(load).all(is_last=True)
        return load.violations


WRONG = {
    "an adapter of the epoch before writes on": {"lives": {"x": [MOVED - 5, MOVED + 1_000_000]}},
    "an entry is missing": {"lines": [GOOD[0], *GOOD[2:]]},
    "an entry was shown otherwise": {"shown": [(1, b"other")]},
    "an entry that was shown is not there": {"shown": [*GOOD, (6, b"six")]},
    "an epoch goes back": {"lines": [*GOOD, entry(6, 1, "host.fact")]},
    "a turn ends twice": {"lines": [*GOOD, entry(6, 2, "turn.complete", turn_id="t", status="failed")]},
    "a turn has no end": {"lines": [*GOOD[:3], entry(4, 2, "host.fact")]},
    "an input is two turns": {
        "lines": [
            *GOOD,
            entry(6, 2, "turn.begin", turn_id="u", message_id="k"),
            entry(7, 2, "turn.complete", turn_id="u", status="completed"),
        ]
    },
    "an input that was accepted is not there": {"turn": "v"},
    "an adapter got an input twice": {"got": b"echo hi\necho hi\n"},
    "what an adapter said is not whole": {"says": "echo him"},
}


async def main():
    good = await found(lives={"x": [MOVED - 5, MOVED - 1], "y": [MOVED + 5, MOVED + 9]})
    assert not good, good
    for what, case in WRONG.items():
        assert await found(**case), f"not found: {what}"
    print(f"the judge finds each of {len(WRONG)} things that can be wrong")


asyncio.run(main())
