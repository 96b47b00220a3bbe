"""A cluster for tests: servers of NATS, daemons with their own ways to them, and what may happen to each.

    async with Cluster(ttl="3s") as cluster:
        session = await cluster["a"].open()
        cluster["a"].kill()
        ...

Needs `trunkline` (with the feature `cluster`) and `nats-server` in the path. All processes end with it, and with the
process that made it, however that ends. No port is chosen before it is bound: daemons and ways say which they got, and
servers have an address of this process alone.
"""

import asyncio
import ctypes
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import wire

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = "trunkline"
STREAMS = (f"KV_{PREFIX}_hosts", f"KV_{PREFIX}_sessions", f"{PREFIX}_journal")
DEATH = ctypes.CDLL(None).prctl


def missing():
    """What is not here; `None`: all is."""
    wanted = ("trunkline", "nats-server")
    return next((f"no program {name}" for name in wanted if shutil.which(name) is None), None)


def dies_with_us():
    DEATH(1, signal.SIGKILL)


async def run(*command, **options):
    return await asyncio.create_subprocess_exec(*command, preexec_fn=dies_with_us, **options)


async def end(process, how=signal.SIGKILL, within=15):
    """Ends a process, also one that is stopped."""
    if process is None or process.returncode is not None:
        return
    process.send_signal(how)
    try:
        await asyncio.wait_for(process.wait(), within)
    except asyncio.TimeoutError:
        process.kill()
        await process.wait()


async def until(what, condition, within=30, every=0.05):
    """Waits until the condition holds, and gives what it gave. Raises `TimeoutError`, saying for what."""
    last, ends = None, time.monotonic() + within
    while time.monotonic() < ends:
        try:
            if got := await condition():
                return got
        except (OSError, wire.Refused) as error:
            last = error
        await asyncio.sleep(every)
    raise TimeoutError(f"not within {within} s: {what}" + (f" ({last})" if last else ""))


def place(number):
    """The address of the servers of this process's cluster of that number: no one else has it."""
    of = os.getpid() % (1 << 21)
    return f"127.{64 + (of >> 15)}.{of >> 7 & 255}.{(of & 127) << 1 | number & 1}"


class Server:
    """One `nats-server` with JetStream. Started again, it has its address and its store."""

    def __init__(self, cluster, number):
        self.cluster, self.number, self.process = cluster, number, None
        self.name, self.folder = f"n{number}", cluster.folder / f"nats-{number}"
        self.folder.mkdir()
        self.host, self.port = cluster.place, 4222 + number
        self.address = f"{self.host}:{self.port}"

    async def up(self):
        flags = ["--addr", self.host, "--port", str(self.port), "--name", self.name, "--jetstream"]
        flags += ["--store_dir", str(self.folder), "--log", str(self.cluster.folder / f"{self.name}.log")]
        if len(self.cluster.servers) > 1:
            routes = ",".join(f"nats://{self.host}:{6222 + other.number}" for other in self.cluster.servers)
            flags += ["--cluster_name", "test", "--cluster", f"nats://{self.host}:{6222 + self.number}"]
            # Hosts know the ways alone that can be cut.
            flags += ["--routes", routes, "--no_advertise"]
        self.process = await run("nats-server", *flags, stderr=subprocess.DEVNULL)

    async def down(self, how=signal.SIGKILL):
        await end(self.process, how)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def cont(self):
        self.process.send_signal(signal.SIGCONT)


class Host:
    """One `trunkline up --cluster`, in a state folder of its own, behind a way to each server."""

    def __init__(self, cluster, name):
        self.cluster, self.name, self.process, self.http, self.token = cluster, name, None, None, None
        self.folder = cluster.folder / name
        self.folder.mkdir()
        self.env = {**os.environ, "HOME": str(self.folder), "TRUNKLINE_STATE": str(self.folder / "state")}
        for variable in ("TRUNKLINE_CONFIG", "TRUNKLINE_AGENT", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            self.env.pop(variable, None)
        self.ways, self.flags, self.keeps_port = [], [], False

    def __repr__(self):
        return self.name

    async def up(self, within=90):
        servers = ",".join(f"nats://127.0.0.1:{port}" for _, port in self.ways)
        at = self.http if self.keeps_port and self.http else "127.0.0.1:0"
        command = ["trunkline", "up", "--json", "--http", at, "--adapter", self.cluster.adapter]
        command += ["--cluster", servers, "--host-id", self.name, "--lease-ttl", self.cluster.ttl]
        told = self.cluster.folder / f"{self.name}.log"
        with open(told, "ab") as log:
            options = {"env": self.env, "cwd": self.folder, "stdout": subprocess.PIPE, "stderr": log}
            self.process = await run(*command, *self.cluster.flags, *self.flags, **options)
        line = await asyncio.wait_for(self.process.stdout.readline(), within)
        if not line:
            await self.process.wait()
            raise ConnectionError(f"the daemon {self.name} does not come up: {told.read_text().rstrip()[-400:]}")
        said = json.loads(line)
        self.http, self.socket = said["http"].removeprefix("http://"), said["socket"]
        self.token = self.token or await self.new_token("--all-sessions")
        return self

    async def new_token(self, *flags, scope="control"):
        flags += () if scope == "observe" else ("--approve",)
        _, out = await self.command("token", "new", "--scope", scope, *flags, stderr=subprocess.DEVNULL)
        return out.split()[-1]

    async def command(self, *words, stderr=subprocess.STDOUT):
        """What a command says to whom is at this host: its status, and its output."""
        process = await run("trunkline", *words, env=self.env, stdout=subprocess.PIPE, stderr=stderr)
        out, _ = await process.communicate()
        return process.returncode, out.decode()

    async def kill(self):
        await end(self.process)

    async def down(self):
        """Ends it in order."""
        await end(self.process, signal.SIGTERM, 30)

    def stop(self):
        """Stops the daemon, and not its adapters."""
        self.process.send_signal(signal.SIGSTOP)

    def cont(self):
        self.process.send_signal(signal.SIGCONT)

    async def cut(self, way="both", how="hold"):
        """Cuts its ways to the servers: `out`, `in` or `both`; what passes then is held, or dropped."""
        for name, _ in self.ways:
            await self.cluster.ways.tell(do="cut", name=name, way=way, how=how)

    async def heal(self):
        for name, _ in self.ways:
            await self.cluster.ways.tell(do="heal", name=name)

    async def ask(self, method, path, body=None, headers=(), within=30):
        return await wire.ask(self.http, self.token, method, path, body, headers, within)

    async def open(self, **body):
        """A new session, on whatever host: its id."""
        return (await self.ask("POST", "/v1/sessions", body))["id"]

    async def give(self, session, content, key, within=30, **query):
        """An input, under a key by which it counts once."""
        wait = "?wait=end" if query.get("wait") else ""
        path = f"/v1/sessions/{session}/inputs{wait}"
        return await self.ask("POST", path, {"content": content}, {"Idempotency-Key": key}, within)

    async def entries(self, session, after=0):
        """The entries behind a number, as they come: number, and line. Ends where the stream does."""
        path = f"/v1/sessions/{session}/events?after={after}"
        async with wire.http(self.http, self.token, "GET", path) as answer:
            if answer.status >= 400:
                raise wire.Refused(answer.status, await answer.body())
            number = None
            async for line in answer.lines():
                if line.startswith(b"id: "):
                    number = int(line[4:])
                elif line.startswith(b"data: ") and number is not None:
                    yield number, line[6:]
                elif not line:
                    number = None

    async def hosts(self):
        """The hosts as it sees them: state by name."""
        return {host["id"]: host["state"] for host in (await self.ask("GET", "/v1/hosts", within=5))["hosts"]}


class Ways:
    """The process that carries bytes between hosts and servers."""

    async def up(self):
        pipe = subprocess.PIPE
        self.process = await run(sys.executable, str(HERE / "proxy.py"), stdin=pipe, stdout=pipe, limit=1 << 24)
        self.turn = asyncio.Lock()
        return self

    async def tell(self, **what):
        async with self.turn:
            self.process.stdin.write(json.dumps(what).encode() + b"\n")
            return json.loads(await self.process.stdout.readline())


class Cluster:
    """Servers and hosts. `number` tells two clusters of one process apart."""

    def __init__(self, hosts=("a", "b", "c"), servers=1, ttl="3s", adapter=None, flags=(), number=0):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trunkline-cluster-"))
        self.place, self.ttl, self.flags, self.ways, self.nats = place(number), ttl, flags, None, None
        self.lives = self.folder / "lives"
        self.adapter = adapter or shlex.join([sys.executable, str(HERE / "adapter.py"), str(self.lives)])
        self.servers = []
        self.servers += [Server(self, index) for index in range(servers)]
        self.hosts = {name: Host(self, name) for name in hosts}
        self.is_kept = False

    def __getitem__(self, name):
        return self.hosts[name]

    @property
    def seconds(self):
        """How long a lease holds."""
        return float(self.ttl.removesuffix("s"))

    async def __aenter__(self):
        try:
            await self.up()
        except BaseException:
            await self.down()
            raise
        return self

    async def __aexit__(self, kind, *_):
        self.is_kept = self.is_kept or kind is not None
        await self.down()

    async def up(self):
        self.ways = await Ways().up()
        await asyncio.gather(*(server.up() for server in self.servers))
        await self.until_served()
        for host in self.hosts.values():
            for server in self.servers:
                name = f"{host.name}-{server.name}"
                to = [server.host, server.port]
                got = await self.ways.tell(do="link", name=name, to=to)
                host.ways.append((name, got["port"]))
        # The first makes what all share.
        first, *others = self.hosts.values()
        await first.up()
        await asyncio.gather(*(host.up() for host in others))
        await self.until_whole()

    async def down(self):
        """Ends everything, and looks that nothing is left."""
        if self.nats:
            self.nats.close()
        mine = [host.process for host in self.hosts.values()]
        mine += [server.process for server in self.servers] + [self.ways and self.ways.process]
        await asyncio.gather(*(end(process) for process in mine))
        try:
            await until("all processes have ended", self.nothing_left, 20)
        finally:
            if self.is_kept:
                print(f"what was there is kept in {self.folder}", file=sys.stderr)
            else:
                shutil.rmtree(self.folder, ignore_errors=True)

    async def nothing_left(self):
        return not self.left()

    def left(self):
        """Processes that have this cluster's folder in their command line."""
        found, mark = [], os.fsencode(self.folder)
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    pass
        return found

    async def request(self, subject, payload=None, within=5):
        """Asks the servers, not over the ways of hosts."""
        return await (await self.connection()).request(subject, payload, within)

    async def connection(self):
        """A connection to a server that answers."""
        if self.nats is None or self.nats.is_gone:
            self.nats = None
            for server in self.servers:
                if server.process and server.process.returncode is None:
                    try:
                        self.nats = await asyncio.wait_for(wire.Nats.connect(server.address), 2)
                        break
                    except (OSError, asyncio.TimeoutError):
                        continue
        if self.nats is None:
            raise ConnectionRefusedError("no server answers")
        return self.nats

    async def until_served(self, within=60):
        """Until the servers keep things: with several, one leads."""

        async def served():
            return "error" not in await self.request("$JS.API.INFO", within=1)

        await until("a server with JetStream answers", served, within)

    async def until_streams_served(self, within=60):
        """Until every stream has a leader that answers."""

        async def served():
            return None not in [await self.leader(stream) for stream in STREAMS]

        await until("every stream is served", served, within)

    async def until_replicated(self, within=60):
        """Until every server has all that the streams have."""

        async def replicated():
            for stream in STREAMS:
                got = await self.request(f"$JS.API.STREAM.INFO.{stream}", within=1)
                copies = got.get("cluster", {}).get("replicas", [])
                if len(copies) + 1 != len(self.servers) or not all(copy.get("current") for copy in copies):
                    return False
            return True

        await until("every server has all that is kept", replicated, within)

    async def leader(self, stream=STREAMS[-1]):
        """The server that leads a stream; `None`: none does now."""
        got = await self.request(f"$JS.API.STREAM.INFO.{stream}", within=1)
        if "error" in got:
            return None
        name = got.get("cluster", {}).get("leader", self.servers[0].name)
        return next((server for server in self.servers if server.name == name), None)

    async def until_whole(self, within=90):
        """Until each host sees every host up."""

        async def whole():
            seen = await asyncio.gather(*(host.hosts() for host in self.hosts.values()))
            return all(all(states.get(name) == "up" for name in self.hosts) for states in seen)

        await until("every host sees every host up", whole, within, 0.1)

    async def until_answer(self, sessions, hosts=None, within=60):
        """Until each of these sessions answers through each of these hosts."""

        async def answers(host, session):
            async def answered():
                return await host.ask("GET", f"/v1/sessions/{session}", within=5)

            await until(f"{session} answers through {host}", answered, within, 0.1)

        hosts = list(self.hosts.values()) if hosts is None else hosts
        await asyncio.gather(*(answers(host, session) for host in hosts for session in sessions))

    async def owner(self, session):
        """The host that has a session, and its epoch, by its row."""
        key = await asyncio.to_thread(key_of, session)
        _, _, row = await (await self.connection()).last(STREAMS[1], f"$KV.{PREFIX}_sessions.{key}")
        row = json.loads(row)
        return row["host"], row["epoch"]


def key_of(session):
    """The name under which a session's row is kept."""
    import hashlib

    return hashlib.sha256(session.encode()).hexdigest()[:32]
