"""What an author writes with types. It is not run: `check` has mypy look at it."""

import asyncio

import trunkline
from trunkline.client import BlockingClient, Client, PendingRequest
from trunkline.testing import Host
from trunkline.types import PermissionRequest


def answer(turn: trunkline.Turn) -> None:
    turn.output(turn.text)


async def follow(url: str, token: str) -> int:
    async def decide(request: PermissionRequest) -> bool:
        return request["tool"] == "Read"

    async def ask(request: PermissionRequest, pending: PendingRequest) -> dict[str, object]:
        return {"approved": pending.decision is None, "name": "Anna"}

    async with Client(url=url, token=token, on_connection=lambda state: print(state.tries + 1)) as client:
        await client.open(permission=ask, question=lambda request, pending: {"answer": request["prompt"]})
        async for change in client.changes():
            if change["type"] == "request":
                decided = await client.answer(change["session_id"], change.get("request_id", ""), True, name="Anna")
                print(decided.get("by", "").upper())
            elif change["type"] == "snapshot":
                print([each["id"].upper() for each in change["sessions"]])
            elif change["type"] == "reset":
                print(change["reason"].upper())
        page = await client.history((await client.sessions(state="idle"))[0]["id"], before="end")
        print(page["next"] is None, [entry["type"] for entry in page["entries"]])
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
        print([agent["id"].upper() for agent in client.agents()], session.info().get("state"))
        return session.last


with Host(answer) as host:
    print(host.open().send("hello").text)
asyncio.run(follow("http://127.0.0.1:7457", "token"))
