"""What is given at one host is had from the next: files, and tokens. The host that got them is killed.

Each file is given over HTTP at the host that opened the session, the owner is killed with its input done, and any other host
gives the same bytes. A token that is made at one host is good at each; revoked at one, it is good at none, also at one that
was down meanwhile."""

import asyncio
import hashlib
import json
import os
import sys
import time

import wire
from cluster import Cluster, missing, until

SIZES = (0, 1, 262_129, 5_000_000)


async def fetch(host, session, sha256):
    async with wire.http(host.http, host.token, "GET", f"/v1/sessions/{session}/files/{sha256}") as answer:
        body = await answer.body()
        if answer.status != 200:
            raise wire.Refused(answer.status, body)
        return body


async def files(cluster):
    a = cluster["a"]
    session = await a.open()
    given = {}
    for size in SIZES:
        content = os.urandom(size)
        sha256 = hashlib.sha256(content).hexdigest()
        said = await a.ask("PUT", f"/v1/sessions/{session}/files?name=f", content)
        assert said["sha256"] == sha256, said
        given[sha256] = content
    body = {"content": "echo with files", "files": [{"sha256": sha256} for sha256 in given]}
    await a.ask("POST", f"/v1/sessions/{session}/inputs?wait=end", body)
    owner = cluster[(await cluster.owner(session))[0]]
    others = [host for host in cluster.hosts.values() if host is not owner]
    await owner.kill()
    await cluster.until_answer([session], others)
    for host in others:
        began = time.monotonic()
        for sha256, content in given.items():
            assert await fetch(host, session, sha256) == content, f"{host} gives another file"
        print(f"    {len(given)} files from {host} in {(time.monotonic() - began) * 1000:.0f} ms")
    try:
        await fetch(others[0], session, "0" * 64)
        raise AssertionError("a file that no one gave is served")
    except wire.Refused as refused:
        assert refused.status == 404, refused
    return owner


async def is_good(host, token):
    try:
        await wire.ask(host.http, token, "GET", "/v1/sessions", within=5)
        return True
    except wire.Refused as refused:
        assert refused.status == 401, refused
        return False


async def tokens(cluster, down):
    up = [host for host in cluster.hosts.values() if host is not down]
    a, b = up
    token = await a.new_token()
    began = time.monotonic()

    async def everywhere(wanted, hosts):
        return all([await is_good(host, token) == wanted for host in hosts])

    await until("the token is good at each host", lambda: everywhere(True, up), 10, 0.02)
    print(f"    a token is good at the other host after {(time.monotonic() - began) * 1000:.0f} ms")
    await down.up()
    assert await is_good(down, token), "one that was down does not know the token"
    await down.kill()
    began = time.monotonic()
    await command(b, "token", "revoke", token.split("_")[1])
    await until("the token is good nowhere", lambda: everywhere(False, up), 10, 0.02)
    print(f"    a token is good nowhere after {(time.monotonic() - began) * 1000:.0f} ms")
    await down.up()
    assert not await is_good(down, token), "one that was down takes a token that was revoked"


async def command(host, *words):
    code, out = await host.command(*words, stderr=None)
    assert code == 0, f"{words} at {host}: {code}"
    return out


async def commands(cluster):
    """What is asked by the command line at any host is of the sessions of all."""
    hosts = list(cluster.hosts.values())
    for host in hosts:
        session = await hosts[0].open()
        await hosts[0].give(session, "echo once", "once", wait=True)
        for other in hosts:
            path = f"/v1/sessions/{session}/history"
            entries = (await other.ask("GET", path))["entries"]
            read = await command(other, "sessions", "history", session, "--json")
            assert [json.loads(line) for line in read.splitlines()] == entries, f"{other} reads another history"
        await command(host, "sessions", "rm", session)
        for other in hosts:
            listed = json.loads(await command(other, "sessions", "list", "--json"))["sessions"]
            assert session not in [one["session_id"] for one in listed], f"{other} lists what {host} has removed"
    print(f"    {len(hosts)} hosts read and remove each other's sessions")


async def main():
    if what := missing():
        print(what)
        return 77
    async with Cluster() as cluster:
        await commands(cluster)
        await tokens(cluster, await files(cluster))
    print("what was given at one host is had from the next")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
