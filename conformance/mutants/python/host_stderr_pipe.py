"""Opens a pipe for stderr and never reads it, so that a talkative adapter stands still."""

import subprocess

from host_relay import Relay


class StderrPipe(Relay):
    def stderr(self):
        return subprocess.PIPE


StderrPipe().run()
