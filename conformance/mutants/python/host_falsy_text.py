"""Asks whether there is a text by its truth, so that an input of the empty string is forgotten."""

from host_relay import Relay


class FalsyText(Relay):
    def takes(self, text):
        return bool(text)


FalsyText().run()
