"""Decodes each read by itself, so that a character across two reads is lost."""

import os

from adapter import Adapter


class ChunkDecode(Adapter):
    def run(self):
        rest = ""
        while chunk := os.read(0, 4096):
            *lines, rest = (rest + chunk.decode("utf-8", "replace")).split("\n")
            for line in lines:
                self.take(line)


ChunkDecode().run()
