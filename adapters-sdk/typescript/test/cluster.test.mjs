// What clients do where sessions go from one host to another: hosts that are played by the test.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { mock, test } from "node:test";
import { Client, eventsOf, webSocket } from "@trunkline/sdk/client";
import { Daemon, skip } from "./daemon.mjs";

const own = (session_id, message) => ({ ...message, session_id });
const attached = (last_seq = 0, requests = []) => ({ type: "session.attached", state: "idle", first_seq: 1, last_seq, epoch: 1, requests });
const refused = { type: "session.refused", reason: "unavailable", message: "its host is gone" };

// A connection to a host that answers each message as `answer` says: by messages, by null to end the pipe.
function played(answer, others = false) {
  const connect = async (events) => {
    const number = ++connect.opened;
    const say = (message) => queueMicrotask(() => events.line(JSON.stringify(message)));
    return {
      send(line) {
        const message = JSON.parse(line);
        connect.said.push(message);
        for (const each of answer(message, number, connect.said) ?? []) {
          if (each === null) queueMicrotask(() => events.closed("it ends"));
          else say(own(message.session_id, each));
        }
      },
      close: () => connect.closed++,
    };
  };
  return Object.assign(connect, { opened: 0, closed: 0, said: [], others });
}
const ofType = (connect, type) => connect.said.filter((message) => message.type === type);
const turn = ({ turn_id, message_id }, seq = 1) => [
  { type: "turn.begin", turn_id, message_id, seq, epoch: 1 },
  { type: "turn.complete", turn_id, status: "completed", seq: seq + 1, epoch: 1 },
];

test("a session that is not served for the moment is asked for again, and its input waits", async () => {
  const connect = played((message, _, said) => {
    if (message.type === "session.attach") return said.length < 4 ? [refused] : [attached()];
    return message.type === "user.input" ? turn(message) : [];
  });
  const client = await Client.connect(connect);
  const session = await client.attach("s");
  const { end } = await session.turn("x");
  assert.equal(end.status, "completed");
  assert.deepEqual(connect.said.map(({ type }) => type), [...Array(4).fill("session.attach"), "user.input"]);
  assert.equal(connect.opened, 1);
  await client.close();
});

test("an input that is given while no host has the session waits for one, and comes once", async () => {
  let isAway = false;
  const connect = played((message, _, said) => {
    if (message.type === "session.attach") return isAway && ofType({ said }, "session.attach").length < 4 ? [refused] : [attached(2)];
    if (message.content !== "first") return message.type === "user.input" ? turn(message, 3) : [];
    isAway = true;
    return [...turn(message), null];
  });
  const client = await Client.connect(connect);
  const session = await client.attach("s");
  await session.turn("first");
  await session.turn("second");
  assert.deepEqual(ofType(connect, "user.input").map(({ content }) => content), ["first", "second"]);
  assert.deepEqual(ofType(connect, "session.attach").map(({ after }) => after), [0, 2, 2, 2]);
  await client.close();
});

test("after some refusals another address is tried; the last refusal is what a user gets", async () => {
  const connect = played(({ type }, number) => (type === "session.attach" ? [number === 2 ? attached() : refused] : []), true);
  const client = await Client.connect(connect);
  await client.attach("s");
  assert.deepEqual([connect.opened, connect.closed], [2, 1]);
  await client.close();
  const never = await Client.connect(played(() => [refused]), { retryFor: 200 });
  await assert.rejects(never.attach("s"), /its host is gone/);
  await never.close();
});

test("an answer is said again until it is stored", async () => {
  const request = { type: "permission.request", request_id: "r", tool: "T", seq: 1, epoch: 1 };
  const decided = { type: "request.decided", request_id: "r", seq: 2, epoch: 1 };
  const connect = played(({ type }, number) => {
    if (type === "session.attach") return number === 1 ? [attached(1, ["r"]), request] : [attached(1, ["r"])];
    return type === "permission.response" ? (number === 1 ? [null] : [decided]) : [];
  });
  const client = await Client.connect(connect, { onPermission: () => true });
  const session = await client.attach("s");
  for await (const { type } of session.events()) if (type === "request.decided") break;
  assert.deepEqual(ofType(connect, "permission.response").map(({ approved }) => approved), [true, true]);
  await client.close();
});

test("without a journal a turn has begun when its first message comes", async () => {
  const connect = played(({ type, mode, turn_id, message_id }) => {
    if (type === "session.start") return [{ type: "session.ready" }];
    if (type !== "user.input") return [];
    if (mode !== "steer") return [{ type: "progress", turn_id, message: "on it" }];
    return [{ type: "steer.result", turn_id, message_id, delivered: true }];
  });
  const client = await Client.connect(connect);
  const session = await client.open({}, { listen: true });
  assert.equal(await session.steer("too early"), false);
  const lost = assert.rejects(session.turn("work"));
  for await (const { type } of session.events()) if (type === "progress") break;
  assert.equal(await session.steer("more"), true);
  const [turn, steer] = ofType(connect, "user.input");
  assert.deepEqual([steer.content, steer.turn_id], ["more", turn.turn_id]);
  await client.close();
  await lost;
});

test("what is added to a turn is said again until it is stored, and once", async () => {
  const steered = { type: "input.steered", turn_id: "t", seq: 1, epoch: 1 };
  const connect = played(({ type, message_id }, number) => {
    if (type === "session.attach") {
      const more = number === 3 ? [{ type: "steer.result", message_id: ofType(connect, "user.input")[0].message_id, delivered: true, seq: 2, epoch: 1 }] : [];
      return [{ ...attached(0), turn_id: "t" }, ...more];
    }
    return type !== "user.input" ? [] : number === 1 ? [null] : [{ ...steered, message_id }, null];
  });
  const client = await Client.connect(connect);
  const session = await client.attach("s");
  assert.equal(await session.steer("more"), true);
  const said = ofType(connect, "user.input").map(({ message_id, mode, turn_id }) => [message_id, mode, turn_id]);
  assert.deepEqual(said, Array(2).fill([said[0][0], "steer", "t"]));
  const waits = assert.rejects(session.steer("no one answers"), /closed/);
  await client.close();
  await waits;
  await assert.rejects(session.steer("too late"), /closed/);
});

test("a pipe on which nothing is heard is left", async () => {
  mock.timers.enable({ apis: ["setInterval"] });
  try {
    const connect = played(({ type }, number) => (type === "session.attach" ? [attached()] : type === "ping" && number === 2 ? [{ type: "pong" }] : []));
    const client = await Client.connect(connect);
    await client.attach("s");
    mock.timers.tick(20_000 * 4);
    while (ofType(connect, "session.attach").length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    for (let number = 0; number < 8; number++) {
      mock.timers.tick(20_000);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    assert.deepEqual([connect.opened, connect.closed], [2, 1]);
    await client.close();
  } finally {
    mock.timers.reset();
  }
});

test("of several addresses the next one has the events", async () => {
  const asked = [];
  const servers = await Promise.all([0, 1, 2].map((number) => new Promise((resolve) => {
    const server = createServer((request, answer) => {
      const after = Number(new URL(request.url, "http://x").searchParams.get("after"));
      asked.push([number, after]);
      if (number === 1) return answer.writeHead(503).end("its host is gone");
      const entry = { type: after === 0 ? "output" : "session.closed", seq: after + 1 };
      if (after < 2) answer.write(`data: ${JSON.stringify(entry)}\n\n`);
      else answer.writeHead(204).end();
      if (after < 2) setTimeout(() => answer.destroy(), 10);
    });
    server.listen(0, "127.0.0.1", () => resolve(server));
  })));
  const urls = servers.map((server) => `http://127.0.0.1:${server.address().port}`);
  const seen = [];
  for await (const { seq } of eventsOf(urls, "s", { token: "t" })) seen.push(seq);
  assert.deepEqual(seen, [1, 2]);
  assert.deepEqual(asked, [[0, 0], [1, 1], [2, 1], [0, 2]]);
  for (const server of servers) server.close();
  await assert.rejects(eventsOf([], "s", { token: "t" }).next(), /no address/);
});

test("a stream that was open for long is lost when it breaks, and not before", async () => {
  let asked = 0;
  const server = createServer((_, answer) => {
    asked++;
    answer.write(": a comment\n\n");
    if (asked === 1) return setTimeout(() => answer.destroy(), 400);
    answer.end('data: {"type":"session.closed","seq":1}\n\n');
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const entries = eventsOf(`http://127.0.0.1:${server.address().port}`, "s", { token: "t", retryFor: 200 });
  assert.equal((await entries.next()).value.seq, 1);
  assert.equal(asked, 2);
  await entries.return();
  server.close();
});

test("of several addresses the one that answers has the WebSocket", { skip }, async () => {
  const daemon = await Daemon.start();
  const token = await daemon.token();
  try {
    const client = await Client.connect(webSocket(["http://127.0.0.1:1", daemon.http], token));
    assert.equal((await (await client.open()).turn("a b")).text, "a b ");
    await client.close();
    await assert.rejects(Client.connect(webSocket(["http://127.0.0.1:1", "http://127.0.0.1:2"], token)), /no connection/);
    assert.throws(() => webSocket([], token), /no address/);
    await assert.rejects(Client.connect(webSocket([daemon.http], "wrong")), { name: "Refused", status: 401 });
  } finally {
    await daemon.end();
  }
});
