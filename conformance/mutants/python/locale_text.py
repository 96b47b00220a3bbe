"""Reads text in the encoding that the name of the locale promises, and keeps what does not fit as surrogates."""

import os

from adapter import Adapter


class LocaleText(Adapter):
    def run(self):
        encoding = os.environ.get("LANG", "").partition(".")[2] or "ascii"
        for line in open(0, encoding=encoding, errors="surrogateescape", newline="\n"):
            self.take(line)


LocaleText().run()
