#!/usr/bin/env python3
"""The way between hosts and servers, which can be cut: links of TCP, told what to do by lines of JSON on stdin.

    {"do": "link", "name": N, "to": [HOST, PORT]}   listens; answers with its `port`
    {"do": "cut", "name": N, "way": W, "how": H}    W: `out` (to the server), `in` or `both`; H: `hold` or `drop`
    {"do": "heal", "name": N}                       all goes on
    {"do": "mark"}                                  begins a new record of what passes
    {"do": "marks"}                                 what passed since: of each link, when

Connections stay open through a cut, and no one hears of it. What is held comes late, as over a network that sends
again; a connection that has lost bytes by `drop` ends when its link is whole again.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time

CHUNK = 64 * 1024
# How many moments of one kind are kept for a link.
MARKS = 1000


def now():
    """Nanoseconds since the machine's start, as all programs on it see them."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Link:
    def __init__(self, name, to):
        self.name, self.to, self.how = name, to, "hold"
        self.cut, self.changed, self.tasks = set(), asyncio.Condition(), set()
        self.clear()

    def clear(self):
        self.marks = {"tries": [], "connects": [], "asks": []}

    def mark(self, kind):
        if len(self.marks[kind]) < MARKS:
            self.marks[kind].append(now())

    async def until(self, ways):
        """Waits until none of these ways is cut."""
        async with self.changed:
            await self.changed.wait_for(lambda: not self.cut & ways)

    async def set(self, ways, how="hold"):
        async with self.changed:
            self.cut, self.how = ways, how
            self.changed.notify_all()

    async def carry(self, reader, writer):
        """One connection of a host, for as long as both sides have it."""
        self.mark("tries")
        # Over a way that is cut no connection comes about.
        await self.until({"out", "in"})
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.to, limit=CHUNK)
        except OSError:
            writer.transport.abort()
            return
        self.mark("connects")
        ways = [self.pump("out", reader, far_writer), self.pump("in", far_reader, writer)]
        ways = [asyncio.create_task(way) for way in ways]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, far_writer):
            end.transport.abort()

    async def pump(self, way, reader, writer):
        """Passes bytes on; ends where one side has ended, and the other may hear of it."""
        has_lost = False
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if way in self.cut and self.how == "drop":
                    if not has_lost:
                        # Idle until then: who waits for an answer waits.
                        self.start(self.end_when_whole(way, writer))
                    has_lost = True
                elif has_lost:
                    return
                else:
                    await self.until({way})
                    if way == "out" and data.strip() not in (b"PONG", b"PING"):
                        self.mark("asks")
                    writer.write(data)
                    await writer.drain()
        await self.until({way})

    async def end_when_whole(self, way, writer):
        await self.until({way})
        writer.transport.abort()

    def met(self, reader, writer):
        self.start(self.carry(reader, writer))

    def start(self, coroutine):
        task = asyncio.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


async def main():
    links = {}
    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    while line := await stdin.readline():
        told, answer = json.loads(line), {}
        link = links.get(told.get("name"))
        if told["do"] == "link":
            link = links[told["name"]] = Link(told["name"], told["to"])
            server = await asyncio.start_server(link.met, "127.0.0.1", 0, limit=CHUNK)
            answer["port"] = server.sockets[0].getsockname()[1]
        elif told["do"] == "cut":
            await link.set({"out", "in"} if told["way"] == "both" else {told["way"]}, told["how"])
        elif told["do"] == "heal":
            await link.set(set())
        elif told["do"] == "mark":
            for link in links.values():
                link.clear()
        elif told["do"] == "marks":
            answer = {link.name: link.marks for link in links.values()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(main())
    os._exit(0)
