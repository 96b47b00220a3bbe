"""Writes from many threads without a lock, long lines in pieces."""

import json
import os

from adapter import Adapter


class UnlockedWrites(Adapter):
    def write(self, message):
        line = json.dumps(message).encode() + b"\n"
        while line:
            line = line[os.write(1, line[:8192]) :]


UnlockedWrites().run()
