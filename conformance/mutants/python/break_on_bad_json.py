"""Leaves its read loop at the first line that is not JSON."""

import json
import sys

from adapter import Adapter


class BreakOnBadJson(Adapter):
    def run(self):
        for line in sys.stdin.buffer:
            try:
                self.handle(json.loads(line))
            except ValueError:
                break


BreakOnBadJson().run()
