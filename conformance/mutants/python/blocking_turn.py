"""Runs a turn where it reads, so that no stop arrives before the turn has ended."""

from adapter import Adapter, Session


class BlockingSession(Session):
    def input(self, content):
        self.turn(content)
        self.send("turn.complete")

    def end_turn(self):
        pass  # when it is read, no turn runs any more


class BlockingTurn(Adapter):
    session_type = BlockingSession


BlockingTurn().run()
