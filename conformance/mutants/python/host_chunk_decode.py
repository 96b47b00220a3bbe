"""Decodes each read by itself, so that a character that is split over two reads turns into U+FFFD."""

import os

from host_relay import Relay


class ChunkDecode(Relay):
    def lines(self, pipe):
        rest = ""
        while chunk := os.read(pipe.fileno(), 4096):
            *whole, rest = (rest + chunk.decode("utf-8", "replace")).split("\n")
            yield from whole


ChunkDecode().run()
