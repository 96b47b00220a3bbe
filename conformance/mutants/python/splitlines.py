"""Splits its input with str.splitlines, which ends lines at U+2028 and its kin as well."""

import codecs
import os

from adapter import Adapter


class Splitlines(Adapter):
    def run(self):
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        rest = ""
        while chunk := os.read(0, 65536):
            lines = (rest + decode(chunk)).splitlines(keepends=True)
            rest = lines.pop() if lines and not lines[-1].endswith("\n") else ""
            for line in lines:
                self.take(line)


Splitlines().run()
