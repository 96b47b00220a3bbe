"""Reads text and cuts it with str.splitlines, which also ends lines at U+2028, U+2029 and U+0085."""

from host_relay import Relay


class SplitLines(Relay):
    def lines(self, pipe):
        rest = b""
        while chunk := pipe.read(65536):
            whole, _, rest = (rest + chunk).rpartition(b"\n")
            yield from whole.decode("utf-8", "replace").splitlines()


SplitLines().run()
