"""What a client can do with any session: by requests to a daemon, or by messages of the protocol on a pipe."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlencode

from . import _retry
from ._errors import Conflict, Invalid, NotFound, Refused, Unreachable, Unsupported, is_retried, refusal
from ._json import Message
from ._remote import path_of
from ._retry import pause_of, within_limits

if TYPE_CHECKING:
    from .client import Client

PAGE = 100  # hits of a search that are asked for at a time
PIPE = "a connection to `trunkline serve`"


class Abilities(Protocol):
    """The calls of `Client`, which documents them."""

    async def agents(self, health: bool) -> list[Any]: ...
    async def sessions(self, filters: Message) -> Any: ...
    async def conversations(self, agent: str | None, cwd: str | None, limit: int | None) -> list[Any]: ...
    async def info(self, id: str) -> Any: ...
    async def history(self, id: str, start: int | None, before: Any, limit: int) -> Any: ...
    async def stop(self, id: str, turn_id: str | None) -> None: ...
    async def answer(self, id: str, request_id: str, answer: Message) -> Message: ...
    async def settings(self, id: str, options: Message) -> None: ...
    async def edit(self, id: str, change: Message) -> None: ...
    async def fork(self, id: str, seq: int | None) -> Any: ...
    async def close(self, id: str) -> None: ...
    async def remove(self, id: str) -> None: ...
    async def search(self, text: str, agent: str | None, limit: int) -> list[Any]: ...
    async def get(self, ability: str, path: str) -> Message: ...
    async def delete(self, ability: str, path: str) -> None: ...


class DaemonAbilities:
    """Requests to a daemon over HTTP. Each is repeated until it is answered, within the tries of the client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(self, method: str, path: str, body: Any = None) -> Message:
        """Makes a request once, however often it is sent: a POST has an Idempotency-Key."""
        key = {"Idempotency-Key": uuid.uuid4().hex} if method == "POST" else {}
        tries = 0
        while True:
            pipe = await self._client._connected()
            daemon = await pipe.requests()
            assert daemon
            try:
                return await within_limits(functools.partial(daemon.ask, method, path, body, key))
            except (OSError, Refused) as error:
                tries += 1
                if tries > 1 and method == "DELETE" and isinstance(error, NotFound):
                    return {}  # an earlier try has done it
                if not is_retried(error) or isinstance(error, Refused) and error.status == 429:
                    raise
                if tries >= _retry.TRIES:
                    if isinstance(error, Refused):
                        raise
                    raise Unreachable(f"{daemon.url} cannot be reached: {error}") from error
                if isinstance(error, OSError):
                    await self._client._elsewhere(pipe)
                pause = pause_of(tries, error)
            await asyncio.sleep(pause)

    async def agents(self, health: bool) -> list[Any]:
        agents = _list(await self.ask("GET", "/v1/agents"), "agents")
        return agents if health else [{name: each[name] for name in each if name != "health"} for each in agents]

    async def sessions(self, filters: Message) -> Any:
        query = {name: "true" if value is True else value for name, value in filters.items()}
        page = await self.ask("GET", f"/v1/sessions?{urlencode(query)}")
        return {**page, "sessions": _list(page, "sessions"), "next": page.get("next") or None}

    async def conversations(self, agent: str | None, cwd: str | None, limit: int | None) -> list[Any]:
        if agent is None:
            agent = str((await self.ask("GET", "/v1/agents")).get("default") or "")
        query = urlencode({name: value for name, value in {"cwd": cwd, "limit": limit}.items() if value is not None})
        path = f"/v1/agents/{quote(agent, safe='')}/conversations?{query}"
        return _list(await self.ask("GET", path), "conversations")

    async def info(self, id: str) -> Any:
        return await self.ask("GET", path_of(id))

    async def history(self, id: str, start: int | None, before: Any, limit: int) -> Any:
        query = {"from": start, "before": before, "limit": limit}
        asked = urlencode({name: value for name, value in query.items() if value is not None})
        return await self.ask("GET", f"{path_of(id)}/history?{asked}")

    async def stop(self, id: str, turn_id: str | None) -> None:
        await self.ask("POST", f"{path_of(id)}/stop", {"turn_id": turn_id} if turn_id else {})

    async def answer(self, id: str, request_id: str, answer: Message) -> Message:
        return await self.ask("POST", f"{path_of(id)}/requests/{quote(request_id, safe='')}", answer)

    async def settings(self, id: str, options: Message) -> None:
        await self.ask("POST", f"{path_of(id)}/settings", {"options": options})

    async def edit(self, id: str, change: Message) -> None:
        await self.ask("PATCH", path_of(id), change)

    async def fork(self, id: str, seq: int | None) -> Any:
        return await self.ask("POST", f"{path_of(id)}/fork", {} if seq is None else {"seq": seq})

    async def close(self, id: str) -> None:
        await self.ask("DELETE", path_of(id))

    async def remove(self, id: str) -> None:
        await self.ask("DELETE", f"{path_of(id)}?remove=true")

    async def search(self, text: str, agent: str | None, limit: int) -> list[Any]:
        hits: list[Any] = []
        query = {"q": text, "limit": min(limit, PAGE), **({"agent": agent} if agent is not None else {})}
        while True:
            page = await self.ask("GET", f"/v1/search?{urlencode(query)}")
            hits += _list(page, "hits")
            if not (after := page.get("next")) or len(hits) >= limit:
                return hits[:limit]
            query["after"] = after

    async def get(self, ability: str, path: str) -> Message:
        return await self.ask("GET", path)

    async def delete(self, ability: str, path: str) -> None:
        await self.ask("DELETE", path)


class PipeAbilities:
    """Messages on a pipe. What the protocol lacks raises Unsupported."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def agents(self, health: bool) -> list[Any]:
        return _list(await self._client._reply({"type": "agents.list", "session_id": "", "health": health}), "agents")

    async def sessions(self, filters: Message) -> Any:
        asked = {("agent_id" if name == "agent" else name): value for name, value in filters.items()}
        message = {"type": "sessions.list", "session_id": "", "extensions": ["journal"], **asked}
        page = await self._client._reply(message)
        if error := page.get("error"):
            raise Invalid(422, str(error))
        found = [{**each, "id": each["session_id"], "agent": each["agent_id"]} for each in _list(page, "sessions")]
        missing = {"missing": page["missing"]} if page.get("missing") else {}
        return {"sessions": found, "next": page.get("next") or None, **missing}

    async def conversations(self, agent: str | None, cwd: str | None, limit: int | None) -> list[Any]:
        asked = {"agent_id": agent, "cwd": cwd, "limit": limit}
        given = {name: value for name, value in asked.items() if value is not None}
        page = await self._client._reply({"type": "sessions.list", "session_id": "", **given})
        if error := page.get("error"):
            known = [each["id"] for each in await self.agents(False)]
            raise refusal(404 if agent is not None and agent not in known else 501, str(error))
        entries = page.get("entries") or ()
        return [{**each, "id": each["native_session_id"], "agent": each.get("agent_id") or agent or ""} for each in entries]

    async def _row(self, id: str) -> Message:
        if not (rows := (await self.sessions({"id": id}))["sessions"]):
            raise NotFound(404, "the journal has no session with this id")
        row: Message = rows[0]
        return row

    async def info(self, id: str) -> Any:
        row = await self._row(id)
        known = ("id", "agent", "agent_id", "title", "cwd", "archived", "host", "state")
        info = {name: row[name] for name in known if name in row}
        info |= {"first_seq": 1, "last_seq": row.get("entries") or 0, "epoch": 0, "queued": [], "requests": []}
        if row.get("state") == "closed":
            return info
        async with self._client._visit(id, observe=True) as session:
            turns = session.turns
            info |= {"last_seq": max(session.last, info["last_seq"]), "epoch": session.epoch or 0}
            return info | {"queued": turns[1:], "requests": session.requests, **({"turn_id": turns[0]} if turns else {})}

    async def history(self, id: str, start: int | None, before: Any, limit: int) -> Any:
        last = (await self._row(id)).get("entries") or 0
        if before is None:
            first, end = max(start or 1, 1), min((start or 1) + limit - 1, last)
        else:
            end = last if before == "end" else min(before - 1, last)
            first = max(end - limit + 1, 1)
        entries: list[Message] = []
        lost: list[Message] = []
        at = first
        while at <= end:
            message = {"type": "session.history", "session_id": id, "from": at, "to": end}
            page = await self._client._reply(message)
            if error := page.get("error"):
                raise Invalid(422, str(error))
            entries += page.get("entries") or ()
            lost += page.get("lost") or ()
            following = page.get("next")
            at = following if isinstance(following, int) and following > at else end + 1
            if before is None:
                break
        page = {"next": at if at <= last else None, "previous": first if first > 1 and end > 0 else None, "last": last}
        return {"entries": entries, "lost": lost, **page}

    async def stop(self, id: str, turn_id: str | None) -> None:
        async with self._client._visit(id) as session:
            await session._stop_on_pipe(turn_id)

    async def answer(self, id: str, request_id: str, answer: Message) -> Message:
        for member, ability in {"name": "name of the person who answers", "always": "lasting rules"}.items():
            if member in answer:
                raise Unsupported(ability, PIPE)
        async with self._client._visit(id) as session:
            decision = await session._answer_on_pipe(request_id, answer)
        return {"id": request_id, **decision.message}

    async def settings(self, id: str, options: Message) -> None:
        async with self._client._visit(id) as session:
            await session._update_on_pipe(options)

    async def edit(self, id: str, change: Message) -> None:
        answer = await self._client._reply({"type": "session.edit", "session_id": id, **change})
        if error := answer.get("error"):
            await self._row(id)
            raise Invalid(422, str(error))

    async def fork(self, id: str, seq: int | None) -> Any:
        row = await self._row(id)
        return {"agent": row["agent"], **await self._client._fork(id, seq, row.get("entries") or 0)}

    async def close(self, id: str) -> None:
        with contextlib.suppress(Conflict):  # it is closed already
            async with self._client._visit(id) as session:
                await session.close()

    async def remove(self, id: str) -> None:
        raise Unsupported("removal of sessions", PIPE)

    async def search(self, text: str, agent: str | None, limit: int) -> list[Any]:
        raise Unsupported("search", PIPE)

    async def get(self, ability: str, path: str) -> Message:
        raise Unsupported(ability, PIPE)

    async def delete(self, ability: str, path: str) -> None:
        raise Unsupported(ability, PIPE)


def _list(answer: Message, name: str) -> list[Any]:
    """Returns a list of objects of an answer; other values are left out."""
    found = answer.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

