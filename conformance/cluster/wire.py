"""What speaks to daemons and to servers: the least of HTTP and of NATS, on the standard library."""

import asyncio
import base64
import contextlib
import itertools
import json
import os


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status, body):
        super().__init__(f"{status} {body.decode(errors='replace')[:300]}")
        self.status, self.body = status, body
        try:
            self.detail = json.loads(body)["detail"]
        except (ValueError, KeyError, TypeError):
            self.detail = body.decode(errors="replace")


class Answer:
    """The answer to one request, whose body may still come."""

    def __init__(self, reader, writer, status, headers):
        self.reader, self.writer, self.status, self.headers = reader, writer, status, headers

    async def pieces(self):
        """The body, as it comes."""
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int((await self.reader.readline()).split(b";")[0] or b"!", 16):
                yield await self.reader.readexactly(size)
                await self.reader.readexactly(2)
        elif (left := self.headers.get("content-length")) is not None:
            yield await self.reader.readexactly(int(left))
        else:
            while piece := await self.reader.read(65536):
                yield piece

    async def body(self):
        return b"".join([piece async for piece in self.pieces()])

    async def lines(self):
        rest = b""
        async for piece in self.pieces():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line


@contextlib.asynccontextmanager
async def http(address, token, method, path, body=None, headers=()):
    """One request on a connection of its own. A connection that breaks is an `OSError`."""
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20)
    try:
        if not isinstance(body, bytes):
            body = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", f"Host: {address}", f"Authorization: Bearer {token}"]
        head += ["Connection: close", f"Content-Length: {len(body)}"]
        head += [f"{name}: {value}" for name, value in dict(headers).items()]
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        await writer.drain()
        status = (await reader.readline()).split()
        if len(status) < 2:
            raise ConnectionResetError("it ends without an answer")
        got = {}
        while line := (await reader.readline()).strip():
            name, value = line.decode().split(":", 1)
            got[name.lower()] = value.strip()
        yield Answer(reader, writer, int(status[1]), got)
    except (asyncio.IncompleteReadError, ValueError) as error:
        raise ConnectionResetError(f"the answer breaks off: {error}") from error
    finally:
        writer.transport.abort()


async def ask(address, token, method, path, body=None, headers=(), within=30):
    """What is answered, as JSON.

    Raises `Refused`, and `OSError` (with `TimeoutError`) where no answer comes.
    """

    async def asked():
        async with http(address, token, method, path, body, headers) as answer:
            got = await answer.body()
            if answer.status >= 400:
                raise Refused(answer.status, got)
            return json.loads(got) if got else None

    try:
        return await asyncio.wait_for(asked(), within)
    except asyncio.TimeoutError as error:
        raise TimeoutError(f"{method} {path}: no answer within {within} s") from error


class Nats:
    """A connection to a server of NATS, for questions."""

    @classmethod
    async def connect(cls, address):
        self = cls()
        host, port = address.rsplit(":", 1)
        self.reader, self.writer = await asyncio.open_connection(host, int(port), limit=1 << 24)
        self.inbox, self.numbers, self.waiting = f"_INBOX.{os.urandom(8).hex()}", itertools.count(), {}
        await self.reader.readline()
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "name": "test"}
        self.writer.write(f"CONNECT {json.dumps(options)}\r\nSUB {self.inbox}.* 1\r\n".encode())
        self.task = asyncio.create_task(self.read())
        return self

    async def read(self):
        try:
            while line := await self.reader.readline():
                kind, *words = line.split()
                if kind == b"PING":
                    self.writer.write(b"PONG\r\n")
                elif kind in (b"MSG", b"HMSG"):
                    data = await self.reader.readexactly(int(words[-1]) + 2)
                    if (waiting := self.waiting.pop(words[0], None)) and not waiting.done():
                        waiting.set_result(data[int(words[-2]) if kind == b"HMSG" else 0 : -2])
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass
        for waiting in self.waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the server is gone"))
        self.is_gone = True

    is_gone = False

    async def request(self, subject, payload=None, within=5):
        """The answer's JSON; an empty answer means that no one answers."""
        if self.is_gone:
            raise ConnectionResetError("the server is gone")
        reply = f"{self.inbox}.{next(self.numbers)}".encode()
        self.waiting[reply] = asyncio.get_running_loop().create_future()
        body = b"" if payload is None else json.dumps(payload).encode()
        self.writer.write(b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), reply, len(body), body))
        try:
            answer = await asyncio.wait_for(self.waiting[reply], within)
        except asyncio.TimeoutError as error:
            raise TimeoutError(f"{subject}: no answer") from error
        finally:
            self.waiting.pop(reply, None)
        if not answer:
            raise ConnectionRefusedError(f"{subject}: no one answers")
        return json.loads(answer)

    async def last(self, stream, subject):
        """What a stream has last under a subject: its number, its time as text and its bytes; `None`: nothing."""
        got = await self.request(f"$JS.API.STREAM.MSG.GET.{stream}", {"last_by_subj": subject})
        if "error" in got:
            if got["error"].get("err_code") in (10037, 10014):
                return None
            raise ConnectionError(got["error"]["description"])
        message = got["message"]
        return message["seq"], message["time"], base64.b64decode(message.get("data", ""))

    def close(self):
        self.task.cancel()
        self.writer.transport.abort()
