"""Prints without a flush, so that its answers stay in the buffer of a pipe."""

import json

from adapter import Adapter


class Unflushed(Adapter):
    def write(self, message):
        with self.lock:
            print(json.dumps(message))


Unflushed().run()
