#!/usr/bin/env python3
"""What clients see of a cluster whose hosts end, stop and are emptied. See `clients.py --help`.

Needs the packages `trunkline` and `websockets` for Python. Ends with 1 where something is wrong, and with 77 where a
program or a package is not here.
"""

import argparse
import asyncio
import importlib.util
import json
import os
import sys
import time

import cluster as clusters
import wire
from people import Events, Pipe, Python, TypeScript, Work


class Trial:
    """A cluster with clients of all kinds."""

    def __init__(self, cluster, package):
        self.cluster, self.package, self.clients, self.hearers = cluster, package, [], []

    async def share(self):
        """Each host has one token, and stays at its address."""
        hosts = list(self.cluster.hosts.values())
        self.token, self.urls = hosts[0].token, [host.http for host in hosts]
        for host in hosts:
            host.keeps_port, host.token = True, self.token
            await clusters.until("every host knows the token", lambda host=host: host.ask("GET", "/v1/me"), 10)

    def by(self, way):
        """The address of a Python client. Each begins at another host."""
        at = len(self.clients) % len(self.urls)
        return {"url": [f"{way}://{url}" for url in self.urls[at:] + self.urls[:at]], "token": self.token}

    async def begin(self, *clients, hears=True):
        for client in clients:
            self.clients.append(client)
            await client.begin()
        sessions = [session for client in self.clients for session in client.entries]
        if hears:
            self.hearers = [kind(kind.__name__.lower(), self.urls, self.token) for kind in (Events, Pipe)]
            for hearer in self.hearers:
                await hearer.begin(sessions)
        print(f"{len(sessions)} sessions of {len(self.clients)} clients", flush=True)

    def ts(self, name, work):
        at = len(self.clients) % len(self.urls)
        return TypeScript(name, work, self.urls[at:] + self.urls[:at], self.token, self.package)

    async def finish(self, completes=False):
        """All that was given has ended, and everyone has seen what the record has."""
        await asyncio.gather(*(client.finish() for client in self.clients))
        record = {}
        for client in self.clients:
            for session in client.entries:
                record[session] = await self.record(session)
        lasts = {session: len(entries) for session, entries in record.items()}
        everyone = [*self.clients, *self.hearers]
        await asyncio.gather(*(one.until(lasts) for one in everyone))
        for one in everyone:
            for session, entries in one.entries.items():
                if entries != record[session][: len(entries)]:
                    one.wrong(f"{session}: what it was shown is not what the record has")
        for client in self.clients:
            self.judge(client, record, completes)
        heard = sum(map(len, record.values()))
        given = sum(len(texts) for client in self.clients for texts in client.inputs.values())
        breaks = {hearer.name: hearer.breaks for hearer in self.hearers}
        print(f"{heard} entries, {given} inputs; {breaks} connections broke", flush=True)
        for client in self.clients:
            print(f"  {client.name}: {dict(client.ends)}", flush=True)
        return [f"{one.name}: {what}" for one in everyone for what in one.errors]

    async def record(self, session, host=None):
        """A session's entries, as it has them when nothing more happens."""
        host, entries, first = host or next(iter(self.cluster.hosts.values())), [], 1
        while first:
            path = f"/v1/sessions/{session}/history?from={first}"
            page = await clusters.until(f"{session} can be read", lambda path=path: host.ask("GET", path), 60)
            entries, first = entries + page["entries"], page["next"]
        if [entry["seq"] for entry in entries] != list(range(1, len(entries) + 1)):
            self.clients[0].wrong(f"{session}: its record is not dense")
        return entries

    def judge(self, client, record, completes):
        """Each input is there once, has one end, and got to an agent once at most."""
        for session, texts in client.inputs.items():
            begun = [entry["content"] for entry in record[session] if entry["type"] == "turn.begin"]
            if sorted(begun) != sorted(texts):
                client.wrong(f"{session}: inputs lost: {set(texts) - set(begun)}, others: {len(begun)} of {len(texts)}")
            turns = [entry["turn_id"] for entry in record[session] if entry["type"] == "turn.begin"]
            ends = [entry["turn_id"] for entry in record[session] if entry["type"] == "turn.complete"]
            if sorted(turns) != sorted(ends):
                client.wrong(f"{session}: {len(turns)} turns have {len(ends)} ends")
            got = self.cluster.lives / session / "inputs"
            got = got.read_text().splitlines() if got.exists() else []
            if len(got) != len(set(got)):
                client.wrong(f"{session}: an agent got an input twice")
        for (status, category, message), count in client.ends.items():
            if status != "completed" and (completes or category != "host_restart"):
                client.wrong(f"{count} turns have ended as {status}, {category}: {message}")

    async def goes_on(self, within):
        """Everyone hears of each session what happens from now on."""
        host = next(iter(self.cluster.hosts.values()))
        lasts = {}
        for session in (session for client in self.clients for session in client.entries):
            path = f"/v1/sessions/{session}"
            told = await clusters.until(f"{session} answers", lambda path=path: host.ask("GET", path), 30)
            lasts[session] = told["last_seq"] + 1
        await asyncio.gather(*(one.until(lasts, within) for one in [*self.clients, *self.hearers]))

    async def end(self):
        await asyncio.gather(*(one.end() for one in [*self.clients, *self.hearers]))

    # What happens to a host.

    async def kill(self, host):
        await host.kill()
        await asyncio.sleep(self.cluster.seconds + 2)
        await host.up()

    async def stop(self, host):
        host.stop()
        await asyncio.sleep(self.cluster.seconds + 3)
        host.cont()

    async def leave(self, host):
        await self.drain(host, 5)
        await host.down()
        await asyncio.sleep(1)
        await host.up()

    async def drain(self, host, deadline):
        """Empties a host, as another one is asked to. What the command said, where it has not."""
        other = next(each for each in self.cluster.hosts.values() if each is not host)
        code, out = await other.command("daemon", "drain", "--host", host.name, "--deadline", f"{deadline}s")
        return None if code == 0 else out.strip()


async def clients(trial, options):
    """Hosts end, stop and are emptied under clients of each kind."""
    work = Work(options.sessions)
    them = [Python("python http", work, **trial.by("http"))]
    await trial.begin(them[0], hears=False)
    await trial.begin(Python("python ws", work, **trial.by("ws")), hears=False)
    await trial.begin(Python("python socket", work, socket=trial.cluster["a"].socket), hears=not trial.package)
    if trial.package:
        await trial.begin(trial.ts("typescript", work))
    for number in range(options.rounds):
        what = [trial.kill, trial.stop, trial.leave][number % 3]
        host = list(trial.cluster.hosts.values())[number // 3 % 3]
        began = time.monotonic()
        await what(host)
        await trial.cluster.until_whole()
        print(f"{number + 1}: {what.__name__} {host.name}, {time.monotonic() - began:.1f} s", flush=True)
    return await trial.finish()


async def drain(trial, options):
    """One host after the other is emptied while people work, ended, and is back."""
    await trial.begin(Python("python http", Work(5), **trial.by("http")), hears=False)
    await trial.begin(Python("python ws", Work(4), **trial.by("ws")), hears=False)
    await trial.begin(Python("python, two at a time", Work(2, lanes=2), **trial.by("ws")), hears=not trial.package)
    if trial.package:
        await trial.begin(trial.ts("typescript", Work(9)))
    trouble = []
    for host in trial.cluster.hosts.values():
        began = time.monotonic()
        said = await trial.drain(host, 20)
        print(f"{host.name} is empty after {time.monotonic() - began:.1f} s" if not said else f"{host.name}: {said}", flush=True)
        trouble += [f"drain of {host.name}: {said}"] if said else []
        await trial.goes_on(10)
        await host.down()
        await host.up()
        await trial.cluster.until_whole()
    return trouble + await trial.finish(completes=True)


async def storage(trial, options):
    """The files of some sessions are at one host, which is gone for a while: they wait for it."""
    a, b, c = trial.cluster.hosts.values()
    trial.urls = [b.http, c.http, a.http]
    await trial.begin(Python("python http", Work(4), **trial.by("http")), hears=False)
    await trial.begin(Python("python ws", Work(4), **trial.by("ws")), hears=not trial.package)
    if trial.package:
        await trial.begin(trial.ts("typescript", Work(4)))
    of_a = [session for session in trial.hearers[0].entries if (await trial.cluster.owner(session))[0] == a.name]
    trouble = [] if of_a else ["no session began at the host with the storage"]
    anew = [await at_home(trial, a) for _ in range(2)]
    trouble += await listed(trial, [*trial.hearers[0].entries, *anew])
    await a.kill()
    await asyncio.sleep(trial.cluster.seconds + 3)
    for session in of_a + anew:
        for host in (b, c):
            for method, what, body in [("GET", "", None), ("POST", "/inputs", {"content": "x"}), ("GET", "/events", None)]:
                async with wire.http(host.http, trial.token, method, f"/v1/sessions/{session}{what}", body) as answer:
                    said = (await answer.body()).decode()
                    if answer.status != 503 or "host a" not in said or "retry-after" not in answer.headers:
                        trouble.append(f"{session}: {host} answers {method} {what} with {answer.status} {answer.headers}: {said}")
    print(f"{len(of_a)} sessions wait for {a}", flush=True)
    trouble += await relocate(trial, b, c, anew)
    ends = sum(client.ends.total() for client in trial.clients)
    await asyncio.sleep(3)
    if sum(client.ends.total() for client in trial.clients) == ends:
        trouble.append("the other sessions do not go on")
    await a.up()
    await trial.cluster.until_whole()
    await trial.goes_on(20)
    owners = {session: (await trial.cluster.owner(session))[0] for session in of_a}
    trouble += [f"{session} has gone to {owner}" for session, owner in owners.items() if owner != a.name]
    for session in anew:
        if (await trial.cluster.owner(session))[0] == a.name:
            trouble.append(f"{session} has gone back to {a}")
        await a.give(session, "echo three", "three", wait=True)
        await trial.record(session)
    return trouble + await trial.finish()


async def at_home(trial, host):
    """A session with a turn, at this host."""
    while True:
        session = await host.open()
        if (await trial.cluster.owner(session))[0] == host.name:
            await host.give(session, "echo one", "one", wait=True)
            return session


async def listed(trial, sessions):
    """Each host lists all of these, over its socket as over HTTP."""
    wrong = []
    for host in trial.cluster.hosts.values():
        code, out = await host.command("sessions", "list", "--limit", "1000", "--json")
        by_socket = {one["session_id"]: one["host"] for one in json.loads(out)["sessions"]} if code == 0 else {}
        by_http = (await host.ask("GET", "/v1/sessions?limit=1000"))["sessions"]
        by_http = {one["session_id"]: one["host"] for one in by_http}
        if by_socket != by_http or not set(sessions) <= set(by_http):
            wrong.append(f"{host} lists {len(by_socket)} sessions on its socket, {len(by_http)} over HTTP: {out[:300]}")
    return wrong


async def relocate(trial, one, other, sessions):
    """What waits for its host begins anew at another: by the command that the error names, and over HTTP."""
    wrong = []
    by_command, by_http = sessions
    code, out = await one.command("sessions", "send", by_command, "echo two")
    if code == 0 or f"trunkline sessions attach {by_command} --relocate" not in " ".join(out.split()):
        wrong.append(f"a session without a host: {code} {out}")
    code, out = await one.command("sessions", "send", by_command, "echo two", "--relocate")
    if code or "context lost" not in out or "two" not in out.splitlines():
        wrong.append(f"send --relocate: {code} {out}")
    path = f"/v1/sessions/{by_http}/relocate"
    token = await other.new_token("--all-sessions")
    async with wire.http(other.http, token, "POST", path) as answer:
        if answer.status != 403:
            wrong.append(f"the scope control relocates: {answer.status}")
    token = await other.new_token("--all-sessions", scope="admin")
    host = (await wire.ask(other.http, token, "POST", path))["host"]
    await other.give(by_http, "echo two", "two", wait=True)
    for session in sessions:
        record = await trial.record(session, one)
        facts = [(entry["fact"], entry.get("context")) for entry in record if entry["type"] == "host.fact"]
        ends = [entry.get("status", "completed") for entry in record if entry["type"] == "turn.complete"]
        if facts != [("opened", None), *facts[1:-2], ("moved", "lost"), ("resumed", "lost")] or ends != ["completed"] * 2:
            wrong.append(f"{session}: {facts}, {ends}")
    print(f"two sessions have begun anew, one at {host}", flush=True)
    return wrong


async def main(options):
    if (why := clusters.missing()) or (why := without(options)):
        print(f"skipped: {why}", file=sys.stderr)
        return 77
    wrong = []
    for part in options.parts:
        print(f"== {part}", flush=True)
        cluster = clusters.Cluster(ttl="3s")
        if part == "storage":
            (cluster.folder / "disk").mkdir()
            cluster["a"].flags = ["--storage", f"disk={cluster.folder / 'disk'}"]
        async with cluster:
            trial = Trial(cluster, options.package)
            try:
                await trial.share()
                found = await PARTS[part](trial, options)
                cluster.is_kept = bool(found)
                wrong += found
            finally:
                await trial.end()
    print(f"{len(wrong)} things are wrong" if wrong else "all is well", flush=True)
    return 1 if wrong else 0


def without(options):
    """What is not here; `None`: all is."""
    missing = next((name for name in ("trunkline", "websockets") if importlib.util.find_spec(name) is None), None)
    return missing and f"no Python package {missing}"


PARTS = {"clients": clients, "drain": drain, "storage": storage}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--rounds", type=int, default=21, help="how many fail-overs under `clients`")
    parser.add_argument("--sessions", type=int, default=5, help="of each client under `clients`")
    parser.add_argument("--package", default=os.environ.get("TRUNKLINE_SDK"), help="the folder with the TypeScript package as JavaScript")
    sys.exit(asyncio.run(main(parser.parse_args())))
