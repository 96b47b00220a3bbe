"""People who work while machines fail: sessions, who gives inputs in them, and who reads along."""

import asyncio
import collections
import itertools
import json
import random
import time

import wire

# What may be answered while something fails: who asks comes again.
PASSING = {429, 502, 503, 504}


class Input:
    """What was given: under which key, and what came of it."""

    def __init__(self, key, text):
        self.key, self.text, self.turn, self.given_up = key, text, None, False

    @property
    def says(self):
        """What the adapter answers in all."""
        kind, _, rest = self.text.partition(" ")
        if kind == "work":
            seconds, _, rest = rest.partition(" ")
            return "".join(f"{number} " for number in range(int(float(seconds) * 10))) + rest
        return rest


class Session:
    def __init__(self, name):
        self.name, self.inputs = name, []
        # What anyone was shown first, by number; and what came from the record when it was last looked at.
        self.shown, self.ends, self.checked, self.turns = {}, {}, 0, {}
        self.epochs = []
        self.news = asyncio.Event()

    def last(self):
        return max(self.shown, default=0)


class Load:
    """`count` sessions; in `busy` of them inputs are given, and each has two who read: one that leaves a host that is
    silent, and one that stays as long as its connection does."""

    def __init__(self, cluster, count=20, busy=12, seed=1):
        self.cluster, self.random, self.count, self.busy = cluster, random.Random(seed), count, busy
        self.sessions, self.tasks, self.violations = [], [], []
        # Where what is kept was taken away, much may be refused; what was shown stays nonetheless.
        self.is_lenient, self.reasons = False, collections.Counter()
        self.refusals, self.keys, self.is_paused, self.is_idle = collections.Counter(), itertools.count(1), False, []

    def violation(self, text):
        """Something is wrong; what is said often is shown once."""
        if text not in self.violations:
            print(f"    WRONG at {time.strftime('%H:%M:%S', time.gmtime())}: {text}", flush=True)
            self.violations.append(text)

    def any(self):
        return self.random.choice([host for host in self.cluster.hosts.values() if host.http])

    async def begin(self):
        for _ in range(self.count):
            self.sessions.append(Session(await self.any().open()))
        for number, session in enumerate(self.sessions):
            self.start(self.read(session, 4))
            self.start(self.read(session, 3600))
            if number < self.busy:
                self.is_idle.append(asyncio.Event())
                self.start(self.work(session, self.is_idle[-1]))

    def start(self, coroutine):
        task = asyncio.create_task(coroutine)
        task.add_done_callback(self.ended)
        self.tasks.append(task)

    def ended(self, task):
        if not task.cancelled() and task.exception():
            self.violation(f"a client of the test has failed: {task.exception()!r}")

    async def end(self):
        # `asyncio.wait_for` of Python 3.11 loses a cancellation that comes together with what it waits for.
        while going_on := [task for task in self.tasks if not task.done()]:
            for task in going_on:
                task.cancel()
            await asyncio.wait(going_on, timeout=1)

    def refused(self, who, session, host, error):
        """Notes why something was not answered. What is no passing trouble is wrong."""
        if isinstance(error, wire.Refused):
            self.refusals[f"{who}: {error.status}"] += 1
            self.reasons[f"{error.status} {error.detail}"] += 1
            if error.status not in PASSING and not self.is_lenient:
                self.violation(f"{session.name}: {who} is answered with {error} by {host}")
        else:
            self.refusals[f"{who}: {type(error).__name__}"] += 1

    # Who reads.

    async def read(self, session, within):
        last = 0
        while True:
            host = self.any()
            entries = host.entries(session.name, last)
            try:
                while True:
                    number, line = await asyncio.wait_for(anext(entries), within)
                    if number != last + 1:
                        self.violation(f"{session.name}: entry {number} comes behind {last}, from {host}")
                    last = number
                    self.show(session, number, line, host)
            except StopAsyncIteration:
                pass
            except asyncio.TimeoutError:
                pass
            except (OSError, wire.Refused) as error:
                self.refused("a reader", session, host, error)
            finally:
                await entries.aclose()
            await asyncio.sleep(0.1 + self.random.random() / 5)

    def show(self, session, number, line, host):
        before = session.shown.setdefault(number, line)
        if before != line:
            self.violation(f"{session.name}: entry {number} was {before!r} and is {line!r} at {host}")
        elif b'"turn.complete"' in line:
            entry = json.loads(line)
            if entry["type"] == "turn.complete":
                session.ends.setdefault(entry["turn_id"], number)
                session.news.set()

    # Who gives inputs.

    async def work(self, session, is_idle):
        while True:
            while self.is_paused:
                is_idle.set()
                await asyncio.sleep(0.05)
            is_idle.clear()
            given = [self.new(session) for _ in range(self.random.choice((1, 1, 1, 2)))]
            for one in given:
                await self.give(session, one)
            for one in given:
                await self.until_end(session, one)
            await asyncio.sleep(self.random.random() / 2)

    def new(self, session):
        number = next(self.keys)
        text = f"text-{number}"
        kind = "echo" if self.random.random() < 0.5 else f"work {self.random.uniform(0.3, 4):.1f}"
        one = Input(f"key-{number}", f"{kind} {text}")
        session.inputs.append(one)
        return one

    async def give(self, session, one, within=60):
        ends = time.monotonic() + within
        while time.monotonic() < ends:
            host = self.any()
            try:
                got = await host.give(session.name, one.text, one.key, within=5)
            except (OSError, wire.Refused) as error:
                self.refused("an input", session, host, error)
                await asyncio.sleep(0.2 + self.random.random() / 5)
                continue
            if one.turn not in (None, got["turn_id"]):
                self.violation(f"{session.name}: {one.key} is the turn {got['turn_id']} and was {one.turn}")
            one.turn, is_first = got["turn_id"], one.turn is None
            # Said again it is the same one.
            if not is_first or self.random.random() < 0.7:
                return
        one.given_up = one.turn is None

    async def until_end(self, session, one, within=60):
        ends = time.monotonic() + within
        while one.turn and one.turn not in session.ends:
            if time.monotonic() > ends:
                if self.is_lenient:
                    return
                self.violation(f"{session.name}: {one.key} ({one.turn}) has no end after {within} s")
                return
            session.news.clear()
            try:
                await asyncio.wait_for(session.news.wait(), 1)
            except asyncio.TimeoutError:
                pass

    async def pause(self, within=130):
        """No further input is given, and all that were given have ended."""
        self.is_paused = True
        try:
            await asyncio.wait_for(asyncio.gather(*(idle.wait() for idle in self.is_idle)), within)
        except asyncio.TimeoutError:
            self.violation(f"inputs have not ended after {within} s")

    def resume(self):
        for idle in self.is_idle:
            idle.clear()
        self.is_paused = False
