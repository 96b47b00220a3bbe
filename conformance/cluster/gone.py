#!/usr/bin/env python3
"""The server is away for a minute, and what it keeps is lost or older than it was. See `gone.py --help`.

Ends with 1 where something is wrong, and with 77 where `trunkline` or `nats-server` is not here.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import time

import cluster as clusters
import wire
from check import Check
from load import Load

MINUTE = float(os.environ.get("TRUNKLINE_MINUTE", "60"))


async def refusals(cluster, load, within):
    """What each host says to an input that cannot be kept."""
    session, said = load.sessions[-1].name, {}

    async def one(host):
        began = time.monotonic()
        try:
            await host.give(session, "echo no", f"never-{host}", within=within)
            said[host.name] = "accepted"
        except wire.Refused as error:
            said[host.name] = f"{error.status} {error.detail}"
        except OSError as error:
            said[host.name] = type(error).__name__
        said[host.name] += f" ({time.monotonic() - began:.1f} s)"

    await asyncio.gather(*(one(host) for host in cluster.hosts.values()))
    return said


def spread(marks, since):
    """Of each host, in milliseconds: when it tried to connect first, and when it asked first."""
    first = {}
    for name, moments in marks.items():
        of = {kind: [(at - since) / 1e6 for at in moments[kind] if at >= since] for kind in ("tries", "asks")}
        first[name.split("-")[0]] = {kind: round(of[kind][0], 1) if of[kind] else None for kind in of}
        first[name.split("-")[0]]["in a second"] = sum(at < 1000 for at in of["asks"])
    return first


async def away(how):
    """The server answers nothing for a minute (`stop`), or is not there (`kill`), and is back."""
    async with clusters.Cluster(hosts="abcdef", ttl="3s" if how == "stop" else "30s") as cluster:
        load = Load(cluster, 20, 12, seed=11)
        check = Check(load)
        await load.begin()
        await asyncio.sleep(3)
        server = cluster.servers[0]
        server.stop() if how == "stop" else await server.down()
        await asyncio.sleep(MINUTE / 2)
        said = await refusals(cluster, load, 10)
        for host, text in said.items():
            if not text.startswith("503 "):
                load.violation(f"without a server {host} answers an input with {text}")
        await asyncio.sleep(max(0, MINUTE / 2 - 10))
        await cluster.ways.tell(do="mark")
        since = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        server.cont() if how == "stop" else await server.up()
        began = time.monotonic()
        await cluster.until_answer([session.name for session in load.sessions], within=60)
        took = time.monotonic() - began
        marks = await cluster.ways.tell(do="marks")
        await load.pause()
        await cluster.until_whole()
        await check.all(is_last=True)
        cluster.is_kept = bool(load.violations)
        await load.end()
        said = {"refusals": said, "first": spread(marks, since), "all answer after": round(took, 2)}
        return {"said": said, "wrong": load.violations, "reasons": dict(load.reasons)}


async def changed(what, is_down):
    """What is kept is taken away: one stream of it (by name), or all since a moment (`restored`), while the hosts run or
    while they are down. No number of an entry that was shown may come to stand for another."""
    async with clusters.Cluster() as cluster:
        load = Load(cluster, 12, 8, seed=12)
        load.is_lenient = True
        await load.begin()
        server, hosts = cluster.servers[0], list(cluster.hosts.values())
        store, copy = server.folder / "jetstream", cluster.folder / "copy"
        await asyncio.sleep(4)
        # Some sessions have had two hosts.
        await hosts[0].kill()
        await cluster.until_answer([session.name for session in load.sessions], hosts[1:])
        await hosts[0].up()
        if what == "restored":
            await server.down(signal.SIGTERM)
            shutil.copytree(store, copy)
            await server.up()
            await cluster.until_streams_served()
            await asyncio.sleep(4)
            await hosts[1].kill()
            names = [session.name for session in load.sessions]
            await cluster.until_answer(names, [hosts[0], hosts[2]])
            await hosts[1].up()
        await asyncio.sleep(2)
        if is_down:
            await asyncio.gather(*(host.kill() for host in hosts))
        if what == "restored":
            await server.down(signal.SIGTERM)
            shutil.rmtree(store)
            shutil.copytree(copy, store)
            await server.up()
            await cluster.until_served()
        else:
            got = await cluster.request(f"$JS.API.STREAM.DELETE.{what}")
            if not got.get("success"):
                raise ConnectionError(f"{what} was not deleted: {got}")
        shown = {session.name: session.last() for session in load.sessions}
        if is_down:
            await asyncio.gather(*(comes_up(host) for host in hosts))
        await asyncio.sleep(8)
        # What is not served where it was may be taken by another, whose copy is older.
        ups = []
        for host in hosts:
            await host.kill()
            await asyncio.sleep(cluster.seconds + 3)
            ups.append(await comes_up(host))
        await asyncio.sleep(2)
        await load.end()
        answers, longer, statuses = await read_again(load, hosts)
        grown = sum(session.last() > shown[session.name] for session in load.sessions)
        said = {
            "sessions": len(load.sessions), "answer": answers, "went on": grown, "hosts": ups, "statuses": statuses,
            "came": longer,
        }
        cluster.is_kept = bool(load.violations)
        return {"said": said, "wrong": load.violations, "reasons": dict(load.reasons)}


async def comes_up(host):
    """Whether a host joins, or why it does not: it has seen more than there is."""
    try:
        await host.up()
        return True
    except (OSError, asyncio.TimeoutError) as error:
        return str(error)


async def read_again(load, hosts):
    """Reads all sessions through all hosts from the first entry on. How many answer, and with what."""
    answers, came, statuses = 0, 0, {}
    for session in load.sessions:
        found = False
        for host in hosts:
            if host.process.returncode is not None:
                continue
            entries, expected = host.entries(session.name), 1
            try:
                while True:
                    number, line = await asyncio.wait_for(anext(entries), 1)
                    if number != expected:
                        load.violation(f"{session.name}: entry {number} comes where {expected} should, from {host}")
                    expected = number + 1
                    load.show(session, number, line, host)
                    came += 1
            except asyncio.TimeoutError:
                found = True
            except StopAsyncIteration:
                pass
            except (OSError, wire.Refused) as error:
                text = f"{error.status} {error.detail}" if isinstance(error, wire.Refused) else repr(error)
                statuses[text] = statuses.get(text, 0) + 1
            finally:
                await entries.aclose()
        answers += found
    return answers, came, statuses


CASES = {"away-stop": lambda: away("stop"), "away-kill": lambda: away("kill")}
for _what in (*clusters.STREAMS, "restored"):
    for _down in (False, True):
        _name = f"{_what.removeprefix('KV_trunkline_').removeprefix('trunkline_')}-{'down' if _down else 'up'}"
        CASES[_name] = lambda what=_what, down=_down: changed(what, down)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all without")
    parser.add_argument("--json", metavar="FILE")
    asked = parser.parse_args()
    if why := clusters.missing():
        print(why, file=sys.stderr)
        sys.exit(77)
    done, wrong = {}, 0
    for name in asked.cases or CASES:
        began = time.monotonic()
        done[name] = await CASES[name]()
        print(f"{name}: {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
        print("   ", json.dumps(done[name]["said"]), flush=True)
        for reason, count in done[name]["reasons"].items():
            print(f"    {count:5} times {reason}")
        for text in done[name]["wrong"]:
            print(f"    WRONG: {text}")
        wrong += len(done[name]["wrong"])
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(done, file, indent=1)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    asyncio.run(main())
