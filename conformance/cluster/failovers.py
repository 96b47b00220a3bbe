#!/usr/bin/env python3
"""Hosts and servers fail while people work, and it is looked what they notice. See `failovers.py --help`.

Ends with 1 where something is wrong, and with 77 where `trunkline` or `nats-server` is not here.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time

import cluster as clusters
import wire
from check import Check, nanoseconds
from load import Load

# Each kind: what happens, and to whom.
KINDS = {
    "kill": "a daemon is killed",
    "stop": "a daemon is stopped for longer than its lease",
    "out": "nothing of a daemon reaches the server",
    "in": "nothing reaches a daemon from the server",
    "both": "a daemon is cut off",
    "server": "the server ends and is back",
    "leader": "of three servers the leader ends",
}
MEDIAN, WORST = 3.0, 6.0
# How much may be wrong before a cluster is given up.
ENOUGH = 10


class Rows:
    """When each run of a host renewed its lease last, by the server's clock."""

    def __init__(self, cluster):
        self.cluster, self.last = cluster, {}

    async def watch(self):
        while True:
            for name in self.cluster.hosts:
                try:
                    nats = await self.cluster.connection()
                    row = await nats.last(clusters.STREAMS[0], f"$KV.{clusters.PREFIX}_hosts.{name}")
                except OSError:
                    continue
                if row and row[2]:
                    said = json.loads(row[2])
                    if not said.get("is_over"):
                        self.last[name, said["incarnation"]] = row[1]
                        self.last[name] = said["incarnation"]
            await asyncio.sleep(0.1)

    def ended(self, name, incarnation, ttl):
        """When a lease ended, in nanoseconds since 1970."""
        return nanoseconds(self.last[name, incarnation][:23] + "Z") + round(ttl * 1e9)


class Trial:
    """One cluster, and what happens to it one after the other."""

    def __init__(self, cluster, seed, sessions):
        self.cluster, self.random = cluster, random.Random(seed)
        self.load = Load(cluster, sessions, busy=sessions * 3 // 5, seed=seed)
        self.check, self.rows, self.results = Check(self.load), Rows(cluster), []

    async def run(self, plan):
        watching = asyncio.create_task(self.rows.watch())
        await self.load.begin()
        try:
            for kind in plan:
                await self.one(kind)
                if len(self.load.violations) > ENOUGH:
                    print("    too much is wrong: what was to come is not tried", flush=True)
                    return
            await self.check.all(is_last=True)
        finally:
            watching.cancel()
            await self.load.end()

    async def one(self, kind):
        began, before = time.monotonic(), len(self.load.violations)
        self.load.resume()
        await asyncio.sleep(self.random.uniform(0.5, 2))
        self.load.refusals.clear()
        said, took = await (self.servers(kind) if kind in ("server", "leader") else self.host(kind))
        await self.load.pause()
        await self.check.all()
        result = {
            "kind": kind, "said": said, "took": took, "ttl": self.cluster.seconds,
            "violations": self.load.violations[before:], "seconds": round(time.monotonic() - began, 1),
            "load": os.getloadavg()[0], "refusals": dict(self.load.refusals),
        }
        self.results.append(result)
        shown = f"median {statistics.median(took):.2f} s, worst {max(took):.2f} s" if took else "nothing to take over"
        print(f"{kind}: {said}: {shown}; {len(took)} sessions, load {result['load']:.1f}, {result['seconds']} s", flush=True)

    async def answered(self, sessions, hosts, since, within=40):
        """When each session answered through all of these hosts, in seconds since a moment since 1970, in nanoseconds."""
        tries = set()

        async def one(session, host):
            path, answered = f"/v1/sessions/{session.name}", asyncio.Event()

            async def asked():
                try:
                    await host.ask("GET", path, within=10)
                    answered.set()
                except wire.Refused as error:
                    if error.status not in (502, 503, 504):
                        self.load.violation(f"{session.name} answers {error} through {host}")
                except OSError:
                    pass

            ends = time.monotonic() + within
            while not answered.is_set():
                if time.monotonic() > ends:
                    self.load.violation(f"{session.name} does not answer through {host} after {within} s")
                    break
                # One that waits for a host that is gone delays no other.
                task = asyncio.create_task(asked())
                tries.add(task)
                task.add_done_callback(tries.discard)
                try:
                    await asyncio.wait_for(answered.wait(), 0.2)
                except asyncio.TimeoutError:
                    pass
            return time.time_ns()

        async def all_of(session):
            return (max(await asyncio.gather(*(one(session, host) for host in hosts))) - since) / 1e9

        took = await asyncio.gather(*(all_of(session) for session in sessions))
        for task in list(tries):
            task.cancel()
        return took

    async def host(self, kind):
        """Something happens to one host, and the others go on."""
        # A host that is back has nothing until another fails.
        owners = [(await self.cluster.owner(session.name))[0] for session in self.load.sessions]
        name, ttl = self.random.choice(owners), self.cluster.seconds
        victim = self.cluster[name]
        others = [host for host in self.cluster.hosts.values() if host is not victim]
        mine = [session for session, owner in zip(self.load.sessions, owners) if owner == name]
        incarnation = self.rows.last[name]
        how, at_once = self.random.choice(("hold", "drop")), self.random.random() < 0.3
        said = name
        restart = None
        if kind == "kill":
            said = f"{name}, started again {'at once' if at_once else 'later'}"
            await victim.kill()
            if at_once:
                restart = asyncio.create_task(victim.up())
        elif kind == "stop":
            victim.stop()
        else:
            said = f"{name}, bytes are {'held' if how == 'hold' else 'dropped'}"
            await self.cluster[name].cut(kind, how)
        # Its lease ends by its last renewal, which may be long past; who is cut off may have renewed and not heard of it.
        while (left := self.rows.ended(name, incarnation, ttl) - time.time_ns()) > 0.5e9:
            await asyncio.sleep(min(left / 1e9 - 0.5, 0.2))
        took = await self.answered(mine, others, self.rows.ended(name, incarnation, ttl))
        await asyncio.sleep(self.random.uniform(0, 2))
        if kind == "kill":
            await (restart or victim.up())
        elif kind == "stop":
            victim.cont()
        else:
            await victim.heal()
        await self.whole()
        return said, took

    async def servers(self, kind):
        """Something happens to a server, and all hosts notice."""
        how = self.random.choice((signal.SIGKILL, signal.SIGTERM))
        if kind == "server":
            server, away = self.cluster.servers[0], self.random.choice((1, 2, self.cluster.seconds * 2 + 2))
            said = f"by {how.name}, for {away:.0f} s"
            await server.down(how)
            await asyncio.sleep(away)
            await server.up()
        else:
            stream = self.random.choice(clusters.STREAMS)
            server = await self.cluster.leader(stream)
            said = f"{server.name}, of {stream}, by {how.name}"
            await server.down(how)
        began = time.monotonic()
        await self.cluster.until_streams_served()
        said += f"; served again after {time.monotonic() - began:.1f} s"
        took = await self.answered(self.load.sessions, list(self.cluster.hosts.values()), time.time_ns())
        if kind == "leader":
            await asyncio.sleep(self.random.uniform(0, 2))
            await server.up()
            await self.cluster.until_replicated()
        await self.whole()
        return said, took

    async def whole(self):
        try:
            await self.cluster.until_whole()
            await self.cluster.until_answer([session.name for session in self.load.sessions])
        except TimeoutError as error:
            self.load.violation(str(error))


async def trial(plan, servers, ttl, seed, sessions):
    """What happened, and what was wrong."""
    print(f"# seed {seed}, {servers} server(s), lease {ttl}: {' '.join(plan)}", flush=True)
    tried = None
    async with clusters.Cluster(servers=servers, ttl=ttl) as cluster:
        try:
            tried = Trial(cluster, seed, sessions)
            await tried.run(plan)
        finally:
            cluster.is_kept = bool(tried and tried.load.violations)
    return {"results": tried.results, "violations": tried.load.violations}


def plans(counts, seed, ttl, side, usual):
    """What each cluster goes through: those with one server share their work. The leaders are those of three, with the
    usual lease, and so are `usual` of what happens to hosts."""
    kinds = [kind for kind in KINDS for _ in range(counts[kind]) if kind != "leader"]
    random.Random(seed).shuffle(kinds)
    three = [kind for kind in kinds if kind != "server"][:usual]
    for kind in three:
        kinds.remove(kind)
    three += ["leader"] * counts["leader"]
    random.Random(seed).shuffle(three)
    shares = [share for share in (kinds[index::side] for index in range(side)) if share]
    made = [{"plan": share, "servers": 1, "ttl": ttl, "seed": seed + index} for index, share in enumerate(shares)]
    if three:
        made.append({"plan": three, "servers": 3, "ttl": "30s", "seed": seed + side})
    return made


def table(results):
    """What each kind took, as lines."""
    lines = [f"{'what':50} {'count':>5} {'sessions':>8} {'median':>8} {'worst':>8}"]
    judged = []
    for kind, text in KINDS.items():
        mine = [result for result in results if result["kind"] == kind]
        took = [seconds for result in mine for seconds in result["took"]]
        if mine:
            median, worst = (statistics.median(took), max(took)) if took else (0, 0)
            judged.append({"kind": kind, "count": len(mine), "sessions": len(took), "median": median, "worst": worst})
            lines.append(f"{text:50} {len(mine):5} {len(took):8} {median:6.2f} s {worst:6.2f} s")
    return lines, judged


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    long = {"kill": 30, "stop": 15, "out": 10, "in": 10, "both": 10, "server": 15, "leader": 10}
    for kind, text in KINDS.items():
        parser.add_argument(f"--{kind}", type=int, metavar="N", help=f"how often {text}")
    parser.add_argument("--long", action="store_true", help=f"a hundred in all: {long}")
    parser.add_argument("--usual", type=int, metavar="N", help="how many of those of hosts have the usual lease, and three servers")
    parser.add_argument("--lease-ttl", default="3s", help="the lease of hosts with one server")
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None, help="what chance does; shown by each run")
    parser.add_argument("--side", type=int, default=2, help="how many clusters with one server run side by side")
    parser.add_argument("--json", metavar="FILE", help="writes all that was measured")
    parser.add_argument("--trial", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if why := clusters.missing():
        print(why, file=sys.stderr)
        sys.exit(77)
    if asked.trial:
        told = json.loads(asked.trial)
        done = asyncio.run(trial(**told))
        print("=" + json.dumps(done), flush=True)
        return
    given = {kind: getattr(asked, kind) for kind in KINDS}
    if asked.long:
        counts = long
    elif any(count is not None for count in given.values()):
        counts = {kind: count or 0 for kind, count in given.items()}
    else:
        counts = dict.fromkeys(KINDS, 1)
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(1, 1_000_000)
    began = time.monotonic()
    running = []
    usual = asked.usual if asked.usual is not None else 10 if asked.long else 0
    for plan in plans(counts, seed, asked.lease_ttl, asked.side, usual):
        plan["sessions"] = asked.sessions
        command = [sys.executable, __file__, "--trial", json.dumps(plan)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=clusters.dies_with_us))
    results, violations, is_broken = gather(running)
    lines, judged = table(results)
    print(*["", *lines], sep="\n")
    wrong = [text for one in judged if (text := judge(one))] + violations
    if is_broken:
        wrong.append("a trial did not come to its end")
    load = max((result["load"] for result in results), default=0)
    print(f"{len(results)} in {time.monotonic() - began:.0f} s, seed {seed}, load up to {load:.1f} on {os.cpu_count()} cores")
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump({"seed": seed, "table": judged, "results": results, "wrong": wrong}, file, indent=1)
    print(*[f"WRONG: {text}" for text in wrong] or ["nothing was lost, doubled or changed, and no old adapter acted"], sep="\n")
    sys.exit(1 if wrong else 0)


def judge(one):
    """What is wrong with how long it took."""
    if one["median"] > MEDIAN or one["worst"] > WORST:
        return f"{KINDS[one['kind']]}: {one['median']:.2f} s and {one['worst']:.2f} s at worst, not {MEDIAN} and {WORST}"
    return None


def gather(running):
    """What the trials say, while they say it."""
    import threading

    results, violations, broken = [], [], []

    def hear(number, process):
        told = None
        for line in process.stdout:
            line = line.decode(errors="replace").rstrip()
            if line.startswith("="):
                told = json.loads(line[1:])
            else:
                print(f"{number}| {line}", flush=True)
        process.wait()
        if told is None:
            broken.append(number)
            return
        results.extend(told["results"])
        violations.extend(told["violations"])

    threads = [threading.Thread(target=hear, args=item) for item in enumerate(running)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results, violations, bool(broken)


if __name__ == "__main__":
    main()
