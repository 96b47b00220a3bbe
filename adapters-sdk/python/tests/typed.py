"""What an author writes with types. It is not run: `check` has mypy look at it."""

import asyncio

import trunkline
from trunkline.client import BlockingClient, Client
from trunkline.testing import Host
from trunkline.types import PermissionRequest


def answer(turn: trunkline.Turn) -> None:
    turn.output(turn.text)


async def follow(url: str, token: str) -> int:
    async def decide(request: PermissionRequest) -> bool:
        return request["tool"] == "Read"

    async with Client(url=url, token=token) as client:
        session = await client.open(permission=decide, question=lambda request: None, entries=True)
        async for entry in session.send("hello", files=["a.txt"]):
            if entry["type"] == "output":
                print(entry["content"].upper())
            elif entry["type"] == "turn.complete":
                print(entry.get("status"), entry["seq"] + 1)
            elif entry["type"] == "turn.begin":
                print(entry["content"], entry.get("by"), entry["time"])
        return session.last


def follow_blocking(command: list[str]) -> int:
    with BlockingClient(command=command) as client:
        session = client.open(permission=lambda request: request["tool"] == "Read", question=lambda request: {"answer": 1})
        for entry in session.send("hello", files=["a.txt"]):
            if entry["type"] == "output":
                print(entry["content"].upper())
        return session.last


with Host(answer) as host:
    print(host.open().send("hello").text)
asyncio.run(follow("http://127.0.0.1:7457", "token"))
