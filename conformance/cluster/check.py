"""What must hold of sessions after each thing that may happen, judged by the record, by what people were shown and by what
adapters wrote."""

import asyncio
import datetime
import json
import os

import wire
from cluster import until


def nanoseconds(text):
    """An entry's time, in nanoseconds since 1970."""
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(moment.timestamp() * 1000) * 1_000_000


class Check:
    def __init__(self, load):
        self.load, self.cluster, self.violation = load, load.cluster, load.violation

    async def all(self, is_last=False):
        """Looks at all sessions: what is new in each, or at the end all of it through every host."""
        hosts = list(self.cluster.hosts.values())
        for number, session in enumerate(self.load.sessions):
            if is_last:
                for host in hosts:
                    await self.same(session, host)
            await self.record(session, hosts[number % len(hosts)])
            self.inputs(session)
            self.lives(session)

    async def history(self, session, host, after):
        """The entries behind a number, up to the last."""

        async def state():
            return await host.ask("GET", f"/v1/sessions/{session.name}", within=10)

        try:
            last = (await until(f"{session.name} answers through {host}", state))["last_seq"]
        except TimeoutError as error:
            self.violation(str(error))
            return
        if last <= after:
            if last < after:
                self.violation(f"{session.name} ends with {last} at {host}, and had {after}")
            return
        entries = host.entries(session.name, after)
        try:
            while after < last:
                number, line = await asyncio.wait_for(anext(entries), 20)
                if number != after + 1:
                    self.violation(f"{session.name}: entry {number} comes behind {after} in the record at {host}")
                after = number
                yield number, line
        except (StopAsyncIteration, OSError, wire.Refused, asyncio.TimeoutError) as error:
            self.violation(f"{session.name}: the record at {host} breaks off behind {after} of {last}: {error!r}")
        finally:
            await entries.aclose()

    async def same(self, session, host):
        """All that anyone was shown is there, byte for byte."""
        found = {number: line async for number, line in self.history(session, host, 0)}
        for number, line in session.shown.items():
            if found.get(number) != line:
                self.violation(f"{session.name}: entry {number} was shown as {line!r}, and {host} has {found.get(number)!r}")

    async def record(self, session, host):
        """The entries since the last look: dense, as shown, and each turn as it should be."""
        async for number, line in self.history(session, host, session.checked):
            self.load.show(session, number, line, host)
            session.checked = number
            entry = json.loads(line)
            kind, turn = entry["type"], entry.get("turn_id")
            if entry["seq"] != number:
                self.violation(f"{session.name}: entry {number} has the number {entry['seq']}")
            if not session.epochs or session.epochs[-1][0] < entry["epoch"]:
                session.epochs.append((entry["epoch"], nanoseconds(entry["time"]), entry.get("message", "")))
            elif session.epochs[-1][0] > entry["epoch"]:
                self.violation(f"{session.name}: entry {number} has an earlier epoch: {line!r}")
            known = session.turns.setdefault(turn, {"begins": [], "ends": [], "text": "", "key": None}) if turn else None
            if kind == "turn.begin":
                known["begins"].append(number)
                known["key"] = entry.get("message_id")
            elif kind == "turn.complete":
                known["ends"].append((number, entry.get("status")))
            elif kind == "output" and turn:
                known["text"] += entry["content"]
        if session.last() > session.checked:
            text = f"{session.name}: entry {session.last()} was shown, and {host} has {session.checked}"
            self.violation(text)

    def inputs(self, session):
        """Each input that was accepted has begun once and ended once; what was not has at most."""
        by_key = {}
        for turn, known in session.turns.items():
            if len(known["begins"]) != 1 or len(known["ends"]) != 1:
                self.violation(f"{session.name}: the turn {turn} has {known}")
            by_key.setdefault(known["key"], []).append((turn, known))
        for one in session.inputs:
            turns = by_key.get(one.key, [])
            if len(turns) > 1 or one.turn and [turn for turn, _ in turns] != [one.turn]:
                self.violation(f"{session.name}: {one.key} was accepted as {one.turn}, and is {turns}")
            for _, known in turns:
                status = known["ends"][0][1] if known["ends"] else None
                is_right = known["text"] == one.says if status == "completed" else one.says.startswith(known["text"])
                if not is_right:
                    self.violation(f"{session.name}: {one.key} ({status}) has {known['text']!r}, not {one.says!r}")
        session.inputs, session.turns = [], {}

    def lives(self, session):
        """No adapter of an epoch has written after the next one's first entry, and none has got an input twice."""
        folder = self.cluster.lives / session.name
        if not folder.exists():
            return
        for file in folder.iterdir():
            lines = file.read_bytes().splitlines()
            if file.name == "inputs":
                doubled = {line for line in lines if lines.count(line) > 1}
                if doubled:
                    self.violation(f"{session.name}: an adapter got {doubled} more than once")
                continue
            if not lines:
                continue
            first, last = (int(line.split()[1]) for line in (lines[0], lines[-1]))
            for epoch, at, host in session.epochs:
                # An entry's time is cut to a millisecond.
                if first < at and last >= at + 1_000_000:
                    late = sum(int(line.split()[1]) >= at + 1_000_000 for line in lines)
                    text = f"{session.name}: the adapter {file.name} writes {late} lines after the epoch {epoch} of {host} began"
                    self.violation(f"{text}, the last one {(last - at) / 1e6:.1f} ms after it")
            # One that lives goes on writing at the end.
            os.truncate(file, 0)
        session.epochs = session.epochs[-1:]
