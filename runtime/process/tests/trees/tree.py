"""A child that makes a tree of processes, says `ready`, and waits for the end of its input. Usage: tree.py KIND

plain    no other process
deaf     minds neither the end of its input nor SIGTERM
daemon   a daemon in a session of its own, deaf, without pipes
hopper   the same, which forks and ends every two milliseconds
holder   a child and a daemon that hold stdout and stderr open
"""

import os
import signal
import sys
import time

DEAF = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
LONG = 600


def deafen():
    for number in DEAF:
        signal.signal(number, signal.SIG_IGN)


def daemonise(then, pipes):
    """Runs `then` in a grandchild with a session of its own; returns once it runs."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        deafen()
        if not pipes:
            for number in range(3):
                os.close(number)
        os.write(writing, b"x")
        os.close(writing)
        then()
        os._exit(0)
    os.close(writing)
    os.wait()
    os.read(reading, 1)


def rest():
    time.sleep(LONG)


def hop():
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
        time.sleep(0.002)


kind = sys.argv[1]
if kind == "daemon":
    daemonise(rest, pipes=False)
elif kind == "hopper":
    daemonise(hop, pipes=False)
elif kind == "holder":
    daemonise(rest, pipes=True)
    if os.fork() == 0:
        rest()
        os._exit(0)
elif kind == "deaf":
    deafen()
print("ready", flush=True)
sys.stdin.read()
if kind == "deaf":
    rest()
