#!/usr/bin/env python3
"""The driver of plain HTTP: each call is one run of `curl`. It is for the table of abilities; it retries nothing."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

Message = dict[str, Any]


class Unsupported(Exception):
    """`curl` does not do this; the text is the reason."""


class Refused(Exception):
    """An answer with a status of an error."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Driver:
    """Runs instructions, each in a thread."""

    def __init__(self) -> None:
        self.url = self.token = ""
        self.by: list[str] = []  # options of curl that lead to a socket
        self.turns: dict[str, tuple[str, str]] = {}  # sessions and message ids by the names of turns
        self.entries: dict[str, list[Message]] = {}
        self.changed = threading.Condition()
        self.streams: list[subprocess.Popen[bytes]] = []

    def write(self, message: Message) -> None:
        with self.changed:
            print(json.dumps(message, ensure_ascii=False), flush=True)

    def config(self) -> bytes:
        """The token, which no command line has."""
        return f'header = "Authorization: Bearer {self.token}"\n'.encode() if self.token else b""

    def curl(self, method: str, path: str, body: Any = None, *more: str, key: bool = False) -> bytes:
        command = ["curl", "-sS", "--max-time", "60", "-K", "-", "-X", method, "-w", "\n%{http_code}"]
        command += [*self.by, self.url + path, *more]
        if body is not None:
            command += ["--data-binary", json.dumps(body)]
        if key:
            command += ["-H", f"Idempotency-Key: {uuid.uuid4()}"]
        made = subprocess.run(command, input=self.config(), capture_output=True)
        if made.returncode:
            raise Refused(0, made.stderr.decode().strip())
        answer, _, status = made.stdout.rpartition(b"\n")
        if int(status) >= 400:
            raise Refused(int(status), answer.decode(errors="replace"))
        return answer

    def json(self, method: str, path: str, body: Any = None, *more: str, key: bool = False) -> Message:
        return json.loads(self.curl(method, path, body, *more, key=key) or b"{}")

    def follow(self, path: str, take: Any) -> None:
        """Reads a stream of events in a thread, up to its end."""
        process = subprocess.Popen(
            ["curl", "-sSN", "-K", "-", *self.by, self.url + path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.streams.append(process)
        assert process.stdin and process.stdout
        process.stdin.write(self.config())
        process.stdin.close()

        def read() -> None:
            for line in process.stdout or ():
                if line.startswith(b"data: "):
                    take(json.loads(line[6:]))

        threading.Thread(target=read, daemon=True).start()

    def take_entry(self, session: str, entry: Message) -> None:
        with self.changed:
            self.entries.setdefault(session, []).append(entry)
            self.changed.notify_all()
        self.write({"event": "entry", "session": session, "entry": entry})
        if entry["type"] == "session.closed":
            self.write({"event": "ended", "session": session})

    def turn_id(self, name: str) -> tuple[str, str]:
        """The session and the daemon's id of a turn, when its entry has come."""
        session, message_id = self.turns[name]

        def begun() -> Message | None:
            entries = self.entries.get(session, [])
            return next((each for each in entries if each.get("message_id") == message_id and "content" in each), None)

        with self.changed:
            self.changed.wait_for(begun, 20)
            return session, (begun() or {})["turn_id"]

    # Instructions.

    def connect(self, transport: str, url: str = "", token: str = "", urls: Any = None, path: str = "", **_: Any) -> None:
        if transport not in ("http", "socket"):
            raise Unsupported("`curl` speaks HTTP only")
        if urls:
            raise Unsupported("a command line has one address")
        self.url, self.token = url or "http://localhost", token
        self.by = ["--unix-socket", path] if path else []
        self.json("GET", "/v1/me")

    def open(self, agent: str | None = None, options: Message | None = None) -> Message:
        body = {"options": options or {}, **({"agent": agent} if agent else {})}
        session = self.json("POST", "/v1/sessions", body, key=True)["id"]
        self.attach(session)
        return {"session": session}

    def attach(self, session: str, after: int = 0, role: str = "control", **_: Any) -> None:
        self.follow(f"{path_of(session)}/events?after={after}", lambda entry: self.take_entry(session, entry))

    def send(self, session: str, turn: str, text: str, files: list[str] = [], queue: bool = False) -> None:  # noqa: B006
        message_id = str(uuid.uuid4())
        self.turns[turn] = session, message_id
        body: Message = {"content": text, "message_id": message_id}
        if files:
            names = [Path(each).name for each in files]
            sums = [self.put_file(session, each)["sha256"] for each in files]
            body["files"] = [{"sha256": sha256, "name": name} for sha256, name in zip(sums, names, strict=True)]

        def wait() -> None:
            try:
                told = self.json("POST", f"{path_of(session)}/inputs?wait=end", body)
                self.write({"event": "turn", "turn": turn, "status": told["end"]["status"], "text": told["text"]})
            except Refused as refused:
                self.write({"event": "turn", "turn": turn, "error": error_of(refused)})

        threading.Thread(target=wait, daemon=True).start()

    def steer(self, turn: str, text: str) -> Message:
        session, turn_id = self.turn_id(turn)
        told = self.json("POST", f"{path_of(session)}/inputs", {"content": text, "steer": turn_id}, key=True)

        def result() -> Message | None:
            found = (each for each in self.entries[session] if each.get("type") == "steer.result")
            return next((each for each in found if each.get("message_id") == told["message_id"]), None)

        with self.changed:
            self.changed.wait_for(result, 20)
            return {"delivered": (result() or {}).get("delivered") is True}

    def stop(self, session: str = "", turn: str = "") -> None:
        session, turn_id = self.turn_id(turn)
        self.curl("POST", f"{path_of(session)}/stop", {"turn_id": turn_id}, key=True)

    def withdraw(self, turn: str) -> None:
        self.stop(turn=turn)

    def decide(self, **_: Any) -> None:
        raise Unsupported("a command line has no callbacks; the stream has the requests, which you answer by id")

    def answer(self, session: str, request: str, **answer: Any) -> None:
        self.curl("POST", f"{path_of(session)}/requests/{quote(request, safe='')}", answer, key=True)

    def history(self, session: str, **query: Any) -> Message:
        return self.json("GET", f"{path_of(session)}/history?{urlencode(query)}")

    def sessions(self, filter: Message | None = None) -> Message:
        return self.json("GET", f"/v1/sessions?{urlencode(filter or {})}")

    def agents(self) -> Message:
        return self.json("GET", "/v1/agents")

    def changes(self) -> None:
        self.follow("/v1/events", lambda change: self.write({"event": "change", "change": change}))

    def put_file(self, session: str, path: str) -> Message:
        target = f"{path_of(session)}/files?name={quote(Path(path).name, safe='')}"
        return self.json("PUT", target, None, "-T", path)

    def get_file(self, session: str, seq: int) -> Message:
        entry = next(each for each in self.entries[session] if each.get("seq") == seq)
        with tempfile.NamedTemporaryFile() as file:
            self.curl("GET", f"{path_of(session)}/files/{entry['sha256']}", None, "-o", file.name)
            data = Path(file.name).read_bytes()
        return {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}

    def settings(self, session: str, options: Message) -> None:
        self.curl("POST", f"{path_of(session)}/settings", {"options": options}, key=True)

    def edit(self, session: str, **members: Any) -> None:
        self.curl("PATCH", path_of(session), members)

    def fork(self, session: str, **members: Any) -> Message:
        return {"session": self.json("POST", f"{path_of(session)}/fork", members, key=True)["id"]}

    def close(self, session: str) -> None:
        self.curl("DELETE", path_of(session))

    def remove(self, session: str) -> None:
        self.curl("DELETE", f"{path_of(session)}?remove=true")

    def search(self, text: str) -> Message:
        return self.json("GET", f"/v1/search?{urlencode({'q': text})}")

    def leave(self) -> None:
        for process in self.streams:
            process.kill()


def path_of(session: str) -> str:
    return f"/v1/sessions/{quote(session, safe='')}"


def error_of(refused: Refused) -> Message:
    """The error as plain HTTP has it: the caller decides by the status."""
    is_permanent = 400 <= refused.status < 500 and refused.status not in (408, 425, 429)
    return {"class": "permanent" if is_permanent else "temporary", "status": refused.status, "message": str(refused)}


def main() -> None:
    """Reads instructions up to the end of stdin."""
    driver = Driver()

    def run(message: Message) -> None:
        number, do = message.pop("id"), message.pop("do")
        reply: Message = {"id": number}
        try:
            if do not in NAMES:
                raise Unsupported(f"there is no `{do}`")
            reply["ok"] = getattr(driver, do)(**message) or {}
        except Unsupported as lacking:
            reply["unsupported"] = str(lacking)
        except Refused as refused:
            reply["error"] = error_of(refused)
        except (KeyError, TypeError) as error:
            reply["error"] = {"class": "permanent", "message": repr(error)}
        driver.write(reply)

    for line in sys.stdin:
        threading.Thread(target=run, args=(json.loads(line),), daemon=True).start()
    driver.leave()


NAMES = {
    "connect", "open", "attach", "send", "steer", "stop", "withdraw", "decide", "answer", "history", "sessions", "agents",
    "changes", "put_file", "get_file", "settings", "edit", "fork", "close", "remove", "search", "leave",
}  # fmt: skip

if __name__ == "__main__":
    main()
