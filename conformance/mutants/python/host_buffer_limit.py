"""Reads through a buffer of 64 KiB, as asyncio's readline does, and gives up the stream at a longer line."""

from host_relay import Relay


class BufferLimit(Relay):
    def lines(self, pipe):
        while line := pipe.readline(65536):
            if not line.endswith(b"\n"):
                while pipe.read(65536):
                    pass
                return
            yield line.decode("utf-8", "replace")


BufferLimit().run()
