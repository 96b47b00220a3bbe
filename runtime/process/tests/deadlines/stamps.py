"""Writes the machine's clock to a FIFO every 10 ms, by itself and by a daemon that it leaves. Usage:
stamps.py FIFO [PIDS]

It adds both numbers to the file PIDS.
"""

import os
import signal
import sys
import time


def stamp(out, who):
    if sys.argv[2:]:
        with open(sys.argv[2], "a") as pids:
            print(os.getpid(), file=pids)
    while True:
        os.write(out, b"%s %d\n" % (who, time.clock_gettime_ns(time.CLOCK_BOOTTIME)))
        time.sleep(0.01)


for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
out = os.open(sys.argv[1], os.O_WRONLY)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    stamp(out, b"daemon")
stamp(out, b"child")
