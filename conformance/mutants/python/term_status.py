"""Takes SIGTERM for a failure: it raises, and the process ends with status 1."""

import signal

from adapter import Adapter


class Terminated(Exception):
    """What its author raises to leave the read loop."""


def terminated(_signal, _frame):
    raise Terminated


signal.signal(signal.SIGTERM, terminated)
Adapter().run()
