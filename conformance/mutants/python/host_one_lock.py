"""Holds one lock over blocking writes to the adapter; the reader of the adapter wants the same lock, so both wait."""

from host_relay import Relay


class OneLock(Relay):
    def send(self, agent, message):
        if agent.process is not None:
            agent.write(agent.process, message)


OneLock().run()
