#!/usr/bin/env python3
"""A team chat around one agent: all see the same, each may write, approve and stop.

usage: python3 team_chat.py SOCKET [SESSION]            the socket of `trunkline up`, which it prints
       python3 team_chat.py URL TOKEN_FILE [SESSION]    a token of `trunkline token new --approve`

People join by `nc 127.0.0.1 7600` (PORT sets another port). Whoever reaches the port may approve.
"""
import asyncio
import os
import sys

from trunkline.client import Client, SessionEnded, TrunklineError

HELP = "write to the agent, or: /yes /no (a permission), /stop (the turn), /withdraw (your queued input)"


def clean(text):
    """One line without control characters: an agent's text must not move a terminal's cursor."""
    return "".join(char if char.isprintable() else " " for char in text)


class Room:
    """The people, the session, and the permission that waits for one of them."""

    def __init__(self):
        self.people, self.turns, self.texts, self.waiting = {}, {}, {}, None

    def tell(self, text, *writers):
        for writer in writers or self.people.values():
            writer.write(f"{clean(text)}\n".encode())

    async def ask(self, request, pending):
        """Asks everyone. It is cancelled when another client of the session answers, or the turn ends."""
        self.waiting = asyncio.get_running_loop().create_future()
        self.tell(f"? {request['tool']}: {request['description']} [{request['resource']}]  /yes or /no")
        try:
            name, approved = await self.waiting
            return {"approved": approved, "name": name}
        except asyncio.CancelledError:
            self.tell(f"! this is no longer open: {pending.decision.who}")
            raise
        finally:
            self.waiting = None

    async def follow(self, session):
        """Shows what happens in the session, whoever began it."""
        async for entry in session:
            turn = entry.get("turn_id")
            if entry["type"] == "turn.begin":
                self.tell(f"> {entry['content']}" + (" (queued)" if entry.get("queued") else ""))
            elif entry["type"] == "output" and (entry.get("channel") or "stdout") == "stdout":
                self.texts[turn] = self.texts.get(turn, "") + entry["content"]
            elif entry["type"] == "request.decided" and "approved" in entry and "reason" not in entry:
                who = entry.get("name") or entry.get("by", "").split("/")[0]
                self.tell(f"! {'approved' if entry['approved'] else 'denied'} by {who}")
            elif entry["type"] == "turn.complete":
                status = entry.get("status") or "completed"
                text = self.texts.pop(turn, "")
                self.tell(f"< {text}" + ("" if status == "completed" else f" ({status})"))

    async def join(self, session, reader, writer):
        """One person, until the connection ends."""
        self.tell("your name?", writer)
        name = clean((await reader.readline()).decode(errors="replace").strip())[:64]
        if not name or name in self.people:
            self.tell("that name is taken, or no name", writer)
            return writer.close()
        self.people[name] = writer
        self.tell(f"* {name} joins")
        self.tell(HELP, writer)
        while line := await reader.readline():
            try:
                await self.take(session, name, line.decode(errors="replace").strip(), writer)
            except TrunklineError as error:
                self.tell(f"! {error}", writer)
        del self.people[name]
        self.tell(f"* {name} leaves")
        writer.close()

    async def take(self, session, name, text, writer):
        if text in ("/yes", "/no"):
            if self.waiting is None or self.waiting.done():
                return self.tell("nothing waits for an answer", writer)
            self.waiting.set_result((name, text == "/yes"))
        elif text == "/stop":
            await session.stop()
        elif text == "/withdraw":
            turn = self.turns.get(name)
            self.tell("withdrawn" if turn and await turn.withdraw() else "it is not queued", writer)
        elif text:
            self.turns[name] = session.send(f"{name}: {text}")


async def main(address, *rest):
    is_url = "://" in address
    ways = {"url": address, "token_file": rest[0]} if is_url else {"socket": address}
    room = Room()
    async with Client(**ways, on_connection=lambda state: room.tell(f"* {state.state}")) as client:
        failed = lambda error: room.tell(f"! {error}")  # noqa: E731
        old = rest[is_url:][:1]
        session = await client.open(*old, permission=room.ask, failed=failed, entries=True, after="end" if old else 0)
        join = lambda reader, writer: room.join(session, reader, writer)  # noqa: E731
        async with await asyncio.start_server(join, "127.0.0.1", int(os.environ.get("PORT", "7600"))) as server:
            print(f"session {session.id}, port {server.sockets[0].getsockname()[1]}", flush=True)
            await room.follow(session)


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except (KeyboardInterrupt, SessionEnded, TrunklineError, TypeError, IndexError) as error:
        sys.exit(str(error) or __doc__)
