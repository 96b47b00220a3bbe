"""Clients of a cluster as people write them, and what they must see: every entry once, whatever happens to the hosts.

A client gives inputs in sessions of its own, hears all that happens in them, and tells what it was shown: `Python` by the
Python package, `TypeScript` by the TypeScript package in a process of Node. `Events` and `Pipe` only hear, by HTTP and by
WebSocket alone.
"""

import asyncio
import collections
import contextlib
import itertools
import json
import os
import pathlib
import random
import subprocess

import wire

HERE = pathlib.Path(__file__).resolve().parent
TEXTS = itertools.count(1)
EXTENSIONS = ["turns", "events", "usage", "control", "options", "questions", "resume", "journal"]
PASSING = {429, 502, 503, 504}


class Seen:
    """What one client was shown of its sessions, and what went wrong for its user."""

    def __init__(self, name):
        self.name, self.entries, self.errors = name, collections.defaultdict(list), []
        self.inputs, self.ends, self.breaks = collections.defaultdict(list), collections.Counter(), 0

    def hear(self, session, entry):
        """Takes an entry, which must be the next one."""
        last = len(self.entries[session])
        if entry["seq"] != last + 1:
            self.wrong(f"{session}: entry {entry['seq']} comes behind {last}")
        self.entries[session].append(entry)

    def last(self, session):
        return len(self.entries[session])

    async def until(self, lasts, within=90):
        """Until it has heard these entries of its sessions."""
        try:
            async with asyncio.timeout(within):
                while any(self.last(session) < lasts[session] for session in self.entries):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            behind = {session: (self.last(session), lasts[session]) for session in self.entries}
            behind = [f"{session}: {had} of {last}" for session, (had, last) in behind.items() if had < last]
            self.wrong(f"it has not heard all after {within} s: {', '.join(behind)}")

    def wrong(self, what):
        if len(self.errors) < 20:
            print(f"    WRONG: {self.name}: {what}", flush=True)
        self.errors.append(what)

    def ended(self, session, end):
        error = end.get("error") or {}
        self.ends[end["status"], error.get("category"), error.get("message")] += 1


class Work:
    """What a client does in its sessions until it is to finish: inputs, one after the other in each of some lanes."""

    def __init__(self, sessions, lanes=1, longest=1.0, pause=0.3):
        self.sessions, self.lanes, self.longest, self.pause = sessions, lanes, longest, pause

    def text(self):
        kind = "echo" if random.random() < 0.4 else f"work {random.uniform(0.2, self.longest):.1f}"
        return f"{kind} text-{next(TEXTS)}"


class Python(Seen):
    """The Python package."""

    def __init__(self, name, work, **address):
        super().__init__(name)
        self.work, self.address, self.is_over = work, address, asyncio.Event()
        self.tasks = []

    async def begin(self):
        from trunkline.client import Client

        self.client = await Client(**self.address).__aenter__()
        for _ in range(self.work.sessions):
            session = await self.client.open(entries=True)
            self.tasks.append(asyncio.create_task(self.listen(session)))
            self.tasks += [asyncio.create_task(self.speak(session)) for _ in range(self.work.lanes)]
            self.entries[session.id] = self.entries[session.id]
        self.sessions = list(self.client._sessions.values())

    async def listen(self, session):
        try:
            async for entry in session:
                self.hear(session.id, entry)
        except Exception as error:
            self.wrong(f"{session.id}: its entries end: {error!r}")

    async def speak(self, session):
        try:
            while not self.is_over.is_set():
                text = self.work.text()
                self.inputs[session.id].append(text)
                turn = session.send(text)
                async for _ in turn:
                    pass
                self.ended(session.id, turn.end)
                await asyncio.sleep(random.uniform(0, self.work.pause))
        except Exception as error:
            self.wrong(f"{session.id}: a turn is lost: {error!r}")

    async def finish(self):
        """No further input is given, and all that were given have ended."""
        self.is_over.set()
        speaking = [task for task in self.tasks if task.get_coro().__name__ == "speak"]
        _, late = await asyncio.wait(speaking, timeout=90)
        for _ in late:
            self.wrong("an input has no end after 90 s")

    async def end(self):
        for task in self.tasks:
            task.cancel()
        with contextlib.suppress(Exception):
            await self.client.__aexit__(None, None, None)


class Hearer(Seen):
    """Who only hears: in tasks, at the next address whenever one breaks off."""

    def __init__(self, name, urls, token):
        super().__init__(name)
        self.urls, self.token, self.tasks = urls, token, []
        self.next = itertools.cycle(urls)

    async def finish(self):
        pass

    async def end(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def again(self, once, *of):
        while True:
            at = next(self.next)
            try:
                await once(at, *of)
            except (OSError, wire.Refused) as error:
                if isinstance(error, wire.Refused) and error.status not in PASSING:
                    self.wrong(f"{of}: {error} at {at}")
            self.breaks += 1
            await asyncio.sleep(random.uniform(0.1, 0.3))


class Events(Hearer):
    """Server-Sent Events, from `Last-Event-ID` on."""

    async def begin(self, sessions):
        for session in sessions:
            self.entries[session] = self.entries[session]
            self.tasks.append(asyncio.create_task(self.again(self.listen, session)))

    async def listen(self, at, session):
        path, last = f"/v1/sessions/{session}/events", {"Last-Event-ID": self.last(session)}
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(20):
                answer = await stack.enter_async_context(wire.http(at, self.token, "GET", path, headers=last))
            if answer.status >= 400:
                raise wire.Refused(answer.status, await answer.body())
            lines = aiter(answer.lines())
            while True:
                try:
                    # Something is said each 15 s.
                    line = await asyncio.wait_for(anext(lines), 20)
                except StopAsyncIteration:
                    return
                if line.startswith(b"data: "):
                    self.hear(session, json.loads(line[6:]))


class Pipe(Hearer):
    """The protocol over a WebSocket, with all sessions on one."""

    async def begin(self, sessions):
        for session in sessions:
            self.entries[session] = self.entries[session]
        self.tasks.append(asyncio.create_task(self.again(self.listen)))

    async def listen(self, at):
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException

        headers, options = {"Authorization": f"Bearer {self.token}"}, {"proxy": None, "open_timeout": 5, "close_timeout": 1}
        try:
            async with connect(f"ws://{at}/v1/pipe", additional_headers=headers, ping_interval=5, ping_timeout=15, **options) as pipe:
                for session in self.entries:
                    await self.attach(pipe, session)
                async with asyncio.TaskGroup() as waiting:
                    async for message in pipe:
                        for line in message.splitlines():
                            self.take(pipe, json.loads(line), waiting)
        except (WebSocketException, BaseExceptionGroup) as error:
            raise ConnectionError(str(error)) from error

    async def attach(self, pipe, session, after=0.0):
        await asyncio.sleep(after)
        said = {"session_id": session, "protocol": 1, "extensions": EXTENSIONS, "role": "observe"}
        await pipe.send(json.dumps({"type": "session.attach", "after": self.last(session), **said}))

    def take(self, pipe, message, waiting):
        kind, session = message["type"], message["session_id"]
        if kind == "session.refused" and message["reason"] == "unavailable":
            waiting.create_task(self.attach(pipe, session, random.uniform(0.2, 0.5)))
        elif kind == "session.refused":
            self.wrong(f"{session}: it is refused: {message}")
        elif "seq" in message and not message.get("provisional"):
            self.hear(session, message)


class TypeScript(Seen):
    """The TypeScript package, in a process of Node: it tells what it is shown, line by line."""

    def __init__(self, name, work, urls, token, package):
        super().__init__(name)
        self.work, self.told = work, {"urls": [f"http://{url}" for url in urls], "token": token, **vars(work)}
        self.package, self.tasks, self.opened, self.quiet = package, [], asyncio.Event(), asyncio.Event()

    async def begin(self):
        command = ["node", "--experimental-websocket", "--no-warnings", str(HERE / "people.mjs"), json.dumps(self.told)]
        env, pipe = {**os.environ, "TRUNKLINE_SDK": self.package}, subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*command, env=env, stdin=pipe, stdout=pipe, limit=1 << 24)
        self.tasks.append(asyncio.create_task(self.listen()))
        async with asyncio.timeout(60):
            await self.opened.wait()

    async def listen(self):
        while line := await self.process.stdout.readline():
            said = json.loads(line)
            session = said.get("session")
            match said["what"]:
                case "entry":
                    self.hear(session, said["entry"])
                case "input":
                    self.inputs[session].append(said["text"])
                case "end":
                    self.ended(session, said["end"])
                case "wrong":
                    self.wrong(f"{session}: {said['why']}")
                case "session":
                    self.entries[session] = []
                case "opened":
                    self.opened.set()
                case "finished":
                    self.quiet.set()
        self.wrong(f"its process has ended with {await self.process.wait()}")
        self.opened.set()
        self.quiet.set()

    async def finish(self):
        self.process.stdin.write(b"finish\n")
        try:
            await asyncio.wait_for(self.quiet.wait(), 90)
        except TimeoutError:
            self.wrong("an input has no end after 90 s")

    async def end(self):
        for task in self.tasks:
            task.cancel()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
