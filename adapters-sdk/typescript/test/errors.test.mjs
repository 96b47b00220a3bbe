// Errors of a client: what is permanent rejects at once, what is not is retried, and no answer is read without a bound.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import * as sdk from "@trunkline/sdk/client";
import { adapter, skip } from "./daemon.mjs";

const { AnswerTooLarge, Client, CommandEnded, overHttp, ProtocolMismatch, Refused, spawned, unixSocket, Unreachable, webSocket } = sdk;
const scratch = mkdtempSync(join(tmpdir(), "trunkline-errors-"));
after(() => rmSync(scratch, { recursive: true, force: true }));
const MiB = 1024 * 1024;

async function served(respond) {
  const server = createServer(respond);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${server.address().port}`, end: () => (server.closeAllConnections(), server.close()) };
}
const json = (answer, status, body, headers = {}) => answer.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(body));

// Sends without end, for as long as anyone reads. Counts what it has sent.
function flood(stream, piece, counter) {
  const data = Buffer.from(piece);
  const more = () => {
    do counter.bytes += data.length;
    while (!stream.destroyed && stream.write(data));
  };
  stream.on("drain", more);
  stream.on("error", () => {});
  more();
}

test("a status that is permanent rejects at once, and one that is not is retried", async () => {
  let asked = 0;
  let status = 0;
  const { url, end } = await served((request, answer) => {
    if (request.url === "/v1/me") return json(answer, 200, {});
    asked++;
    if (asked > 1) return json(answer, 200, { hits: [], complete: true, next: null });
    json(answer, status, { detail: "why", category: "busy" }, status === 429 ? { "Retry-After": "0.3" } : {});
  });
  const states = [];
  const client = await Client.connect(overHttp(url, "t"), { onState: ({ state }) => states.push(state) });
  for (status of [400, 401, 403, 404, 409, 410, 413, 422, 501, 307]) {
    asked = 0;
    await assert.rejects(client.search("x"), (error) => error instanceof Refused && error.status === status && error.isPermanent);
    assert.equal(asked, 1, String(status));
  }
  for (status of [408, 425, 429, 500, 502, 503, 504]) {
    asked = 0;
    const begin = performance.now();
    assert.equal((await client.search("x")).complete, true);
    assert.equal(asked, 2, String(status));
    if (status === 429) assert.ok(performance.now() - begin >= 299, "it did not wait for Retry-After");
  }
  assert.deepEqual(states, []);
  await client.close();
  const impatient = await Client.connect(overHttp(url, "t"), { retryFor: 20 });
  [asked, status] = [0, 429];
  await assert.rejects(impatient.search("x"), (error) => error.status === 429 && error.retryAfter === 300 && !error.isPermanent);
  await impatient.close();
  end();
});

test("an address that is refused rejects at once, and after it worked it is retried for a time, which the state shows", async () => {
  await assert.rejects(Client.connect(overHttp("http://127.0.0.1:4", "t")), (error) => error instanceof Unreachable && /127\.0\.0\.1:4: ECONNREFUSED/.test(error.message));
  await assert.rejects(Client.connect(unixSocket("/no/such/socket")), (error) => error instanceof Unreachable && /\/no\/such\/socket: ENOENT/.test(error.message));
  assert.throws(() => overHttp("http://127.0.0.1:1", "token\n"), /line break/);
  const states = [];
  const path = join(scratch, "s.sock");
  const server = createSocket((socket) => socket.once("data", () => (socket.destroy(), server.close())));
  await new Promise((resolve) => server.listen(path, resolve));
  const client = await Client.connect(unixSocket(path), { retryFor: 300, onState: (state) => states.push(state) });
  assert.equal(client.state.state, "open");
  await assert.rejects(client.open(), Unreachable);
  assert.deepEqual([states[0].state, states[0].tries, states.at(-1).state], ["reconnecting", 1, "closed"]);
  assert.ok(states.length > 3 && states.length < 12, `${states.length}`);
  const waits = states.slice(0, -1).map(({ retryIn }) => retryIn);
  for (const [number, wait] of waits.entries()) assert.ok(wait >= 25 * 2 ** number && wait <= 50 * 2 ** number, `${waits}`);
});

test("a command that cannot work rejects at once, and one that a signal ended is started again", async () => {
  const starts = join(scratch, "starts");
  const count = () => readFileSync(starts, "utf8").length;
  const run = async (script, options) => {
    rmSync(starts, { force: true });
    let client;
    try {
      client = await Client.connect(spawned("sh", ["-c", `printf x >>${starts}; ${script}`], { onStderr: () => {} }), options);
      await client.open();
    } catch (error) {
      return error;
    } finally {
      await client?.close();
    }
    return assert.fail("it has opened");
  };
  const pong = `echo '{"type":"pong","session_id":""}'`;
  for (const [script, status] of [["exit 2", 2], [`${pong}; exit 2`, 2], ["exec no-such-program", 127]]) {
    const error = await run(script);
    assert.ok(error instanceof CommandEnded && error.isPermanent && error.status === status, `${script}: ${error}`);
    assert.equal(count(), 1, script);
  }
  for (const script of [`${pong}; kill -9 $$`, `${pong}; exit 1`, "exit 0"]) {
    const error = await run(script, { retryFor: 250 });
    assert.ok(error instanceof CommandEnded && !error.isPermanent, `${script}: ${error}`);
    assert.ok(count() > 2 && count() < 10, `${script}: ${count()}`);
  }
  await assert.rejects(Client.connect(spawned("no-such-program")), (error) => error instanceof CommandEnded && error.status === 127 && /not found/.test(error.message));
});

test("without a journal a session is lost with its relay, and the client opens another one", { skip }, async () => {
  let child;
  const client = await Client.connect(spawned("trunkline", ["serve", "--adapter", adapter], { onStderr: () => {}, onSpawn: (started) => (child = started) }));
  const session = await client.open();
  assert.equal((await session.turn("a")).text, "a ");
  const long = session.turn("long");
  child.kill("SIGKILL");
  await assert.rejects(long, (error) => error instanceof CommandEnded && error.signal === "SIGKILL");
  await assert.rejects(session.turn("b"), CommandEnded);
  assert.equal((await (await client.open()).turn("c")).text, "c ");
  await client.close();
  assert.equal(client.state.error.name, "ClientClosed");
});

test("what does not speak the protocol is a mismatch", async () => {
  const { url, end } = await served((_, answer) => answer.writeHead(200, { "Content-Type": "text/html" }).end("<html>"));
  await assert.rejects(Client.connect(overHttp(url, "t")), (error) => error instanceof ProtocolMismatch && /in JSON: is it a daemon/.test(error.message));
  end();
  const noise = await Client.connect(spawned("yes"));
  await assert.rejects(noise.open(), (error) => error instanceof ProtocolMismatch && /no messages, such as "y"/.test(error.message));
  await noise.close();
  const later = await Client.connect(async ({ line }) => ({
    send: (text) => queueMicrotask(() => line(JSON.stringify({ type: "session.ready", session_id: JSON.parse(text).session_id, protocol: 2 }))),
    close: () => {},
  }));
  await assert.rejects(later.open(), (error) => error instanceof ProtocolMismatch && /version 2/.test(error.message));
  await later.close();
});

test("an answer without end is given up at its bound: JSON, an error, a file, a line", async () => {
  const counter = { bytes: 0 };
  const { url, end } = await served((request, answer) => {
    if (request.url === "/v1/me") return json(answer, 200, {});
    if (request.url.startsWith("/v1/search")) answer.writeHead(403);
    else answer.writeHead(200, { "Content-Type": "application/json" });
    flood(answer, `[${"1,".repeat(MiB / 2)}`, counter);
  });
  const before = process.memoryUsage().rss;
  const client = await Client.connect(overHttp(url, "t"));
  const bounded = (bound, name) => (error) => error instanceof AnswerTooLarge && error.isPermanent && error.bound === bound && name.test(error.message);
  await assert.rejects(client.sessions(), bounded(32 * MiB, /the answer to GET \/v1\/sessions is over 33554432 bytes/));
  assert.ok(counter.bytes < 64 * MiB, `${counter.bytes}`);
  await assert.rejects(client.search("x"), (error) => error.status === 403 && error.detail.length === 64 * 1024);
  assert.ok(counter.bytes < 80 * MiB, `${counter.bytes}`);
  await assert.rejects(client.file("s", { sha256: "0" }), bounded(64 * MiB, /the file is over/));
  assert.ok(counter.bytes < 200 * MiB, `${counter.bytes}`);
  await client.close();
  end();

  const command = await Client.connect(spawned("sh", ["-c", "yes | tr -d '\\n'"], { onStderr: () => {} }));
  await assert.rejects(command.open(), bounded(32 * MiB, /a line is over 33554432 bytes/));
  await command.close();
  const path = join(scratch, "flood.sock");
  const server = createSocket((socket) => flood(socket, "x".repeat(MiB), counter));
  await new Promise((resolve) => server.listen(path, resolve));
  const socket = await Client.connect(unixSocket(path));
  await assert.rejects(socket.open(), bounded(32 * MiB, /a line is over/));
  assert.deepEqual([socket.state.state, socket.state.error.name], ["closed", "AnswerTooLarge"]);
  server.close();
  const grown = process.memoryUsage().rss - before;
  assert.ok(grown < 500 * MiB, `${grown}`);
});

test("a stream without end loses its session only", async () => {
  const counter = { bytes: 0 };
  const state = (id) => ({ id, state: "idle", first_seq: 1, last_seq: 0, epoch: 1, requests: [] });
  const { url, end } = await served((request, answer) => {
    const { pathname } = new URL(request.url, "http://x");
    if (pathname === "/v1/me") return json(answer, 200, {});
    if (!pathname.endsWith("/events")) return json(answer, 200, state(pathname.split("/").at(-1)));
    answer.writeHead(200, { "Content-Type": "text/event-stream" });
    if (pathname.includes("/other/")) answer.write(":\n\n");
    else flood(answer, `data: ${"x".repeat(MiB)}\n`, counter);
  });
  const client = await Client.connect(overHttp(url, "t"));
  const other = await client.attach("other");
  const session = await client.attach("s", { listen: true });
  await assert.rejects(session.events().next(), (error) => error instanceof AnswerTooLarge && /an entry is over/.test(error.message));
  await assert.rejects(client.watch().next(), AnswerTooLarge);
  assert.equal(await other.steer("x"), false); // it is there
  await client.close();
  end();
});

test("a WebSocket's line over the bound closes the client", async () => {
  const { server, url, end } = await served((_, answer) => json(answer, 200, {}));
  const peers = [];
  server.on("upgrade", (request, socket) => {
    peers.push(socket);
    const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    socket.on("error", () => {});
    const size = Buffer.alloc(8);
    size.writeBigUInt64BE(BigInt(33 * MiB));
    socket.write(Buffer.concat([Buffer.from([0x81, 127]), size, Buffer.alloc(33 * MiB, "x")]));
  });
  const closed = new Promise((resolve) => void Client.connect(webSocket(url, "t"), { onState: (state) => state.state === "closed" && resolve(state.error) }));
  assert.match((await closed).message, /a line is over 33554432 bytes/);
  assert.equal(peers.length, 3);
  for (const peer of peers) peer.destroy();
  end();
});
