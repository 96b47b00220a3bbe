"""Prints to stdout what it is doing, which was of use once."""

from adapter import Adapter

print("adapter started, waiting for sessions", flush=True)
Adapter().run()
