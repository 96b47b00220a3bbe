"""Reads lines from an asyncio.StreamReader with its default limit of 64 KiB, and ends at a longer one."""

import asyncio
import sys

from adapter import Adapter


class AsyncioLimit(Adapter):
    async def read(self):
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        while line := await reader.readline():
            self.take(line)

    def run(self):
        asyncio.run(self.read())


AsyncioLimit().run()
