// What a session can do, with a real daemon by each way to it.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Client, overHttp, Refused, unixSocket, webSocket } from "@trunkline/sdk/client";
import { Daemon, skip } from "./daemon.mjs";

let daemon;
before(async () => {
  if (!skip) daemon = await Daemon.start();
});
after(() => daemon?.end());

const WAYS = {
  socket: async () => unixSocket(daemon.socket),
  HTTP: async () => overHttp(daemon.http, await daemon.token()),
  WebSocket: async () => webSocket(daemon.http, await daemon.token()),
};

function byEachWay(what, use) {
  for (const [way, connect] of Object.entries(WAYS)) test(`${what} (${way})`, { skip, timeout: 60_000 }, async () => use(await connect(), way));
}

// The first entry of a type, of events that go on.
async function first(events, fits) {
  for (let read; !(read = await events.next()).done; ) if (fits(read.value)) return read.value;
  throw new Error("it has ended");
}

byEachWay("turns, permissions, questions, steers and stops", async (connect) => {
  const client = await Client.connect(connect);
  const session = await client.open({}, { listen: true });
  const events = session.events();
  assert.equal((await session.turn("a b")).text, "a b ");
  assert.equal((await session.turn("ask")).text, "false");
  assert.equal((await session.turn("question")).text, "cancelled");
  assert.equal(await session.steer("no turn runs"), false);

  const steered = session.turn("steers");
  await first(events, ({ content }) => content === "ready ");
  assert.equal(await session.steer("more"), true);
  assert.equal((await steered).text, "ready more");

  const long = session.turn("long");
  await first(events, ({ content }) => content === "begun");
  session.stop();
  assert.equal((await long).end.status, "stopped");
  session.stop(); // nothing runs: nothing happens
  assert.deepEqual((await client.sessions({ limit: 1 })).sessions.map(({ session_id }) => session_id), [session.id]);
  assert.equal((await client.agents()).length, 1);

  session.close();
  const entries = [];
  for await (const entry of (await client.attach(session.id, { listen: true })).events()) entries.push(entry);
  assert.deepEqual(entries.map(({ seq }) => seq), entries.map((_, index) => index + 1));
  assert.equal(entries.at(-1).type, "session.closed");
  const over = await client.attach(session.id, { after: entries.length, listen: true });
  for await (const entry of over.events()) assert.fail(JSON.stringify(entry));
  await client.close();
});

byEachWay("callbacks answer permissions and questions; what they throw denies and cancels", async (connect) => {
  const cycle = {};
  cycle.cycle = cycle;
  const fails = () => {
    throw new Error();
  };
  for (const [onPermission, onQuestion, expected] of [
    [async ({ resource }) => ({ approved: resource === "r" }), ({ prompt }) => ({ answer: prompt }), ["true", '{"answer":"Which?"}']],
    [() => true, async () => null, ["true", "cancelled"]],
    [() => "true", fails, ["false", "cancelled"]],
    [() => ({ approved: true, ...cycle }), () => cycle, ["false", "cancelled"]],
    [fails, "leave", ["false", '{"answer":"by hand"}']],
    [fails, () => "leave", ["false", '{"answer":"by hand"}']],
  ]) {
    const client = await Client.connect(connect, { onPermission, onQuestion });
    const session = await client.open({}, { listen: true });
    const permission = (await session.turn("ask")).text;
    const question = session.turn("question");
    if (expected[1].includes("by hand")) await session.answer((await first(session.events(), ({ type }) => type === "input.request")).request_id, { values: { answer: "by hand" } });
    assert.deepEqual([permission, (await question).text], expected);
    session.close();
    await client.close();
  }
});

byEachWay("files go both ways, and inputs stay in order", async (connect, way) => {
  const [a, b] = ["a.txt", "b.txt"].map((name) => join(daemon.scratch, name));
  writeFileSync(a, "of a");
  writeFileSync(b, "of b");
  const client = await Client.connect(connect);
  const session = await client.open({}, { listen: true });
  const own = way === "socket" ? b : new File(["of b"], "b.txt");
  const turns = [session.turn("1"), session.turn("2", { files: [a, own] }), session.turn("3"), session.turn("file")];
  assert.deepEqual((await Promise.all(turns)).map(({ text }) => text), ["1 ", "a.txt: of a, b.txt: of b, 2 ", "3 ", ""]);
  const [said, events] = [[], session.events()];
  const given = await first(events, (entry) => (entry.type === "turn.begin" && said.push(entry.content), entry.type === "file.output"));
  assert.deepEqual(said, ["1", "2", "3", "file"]);
  assert.equal(new TextDecoder().decode(await session.file(given)), "made by the agent");
  await assert.rejects(session.file({ ...given, sha256: [...given.sha256].reverse().join("") }), /not the one|404/);

  const none = join(daemon.scratch, "none.txt");
  const failed = [[none], ...(way === "socket" ? [[new File(["x"], "x.txt")]] : [[new File([new Uint8Array(64 * 1024 * 1024 + 1)], "large")]])];
  for (const files of failed) {
    const { end } = await session.turn("x", { files });
    assert.deepEqual([end.status, end.error.category], ["failed", "file_refused"]);
    assert.match(end.error.message, /none\.txt|x\.txt|large is over/);
  }
  assert.equal((await session.turn("on")).text, "on ");
  session.close();
  await client.close();
});

byEachWay("a session goes on when the daemon has been killed, and in another client", async (connect) => {
  const client = await Client.connect(connect, { onPermission: "leave" });
  const session = await client.open();
  const asked = session.turn("ask");
  const listening = first(session.events(), ({ type }) => type === "permission.request");
  await listening;
  await daemon.kill();
  await daemon.up();
  assert.equal((await asked).end.error.category, "host_restart");
  assert.equal((await session.turn("again")).text, "again ");
  const waits = session.turn("ask");
  await first(session.events(), ({ type }) => type === "permission.request");
  const other = await Client.connect(connect, { onPermission: () => true });
  const behind = session.position - 1;
  const same = await other.attach(session.id, { after: behind, listen: true });
  assert.equal((await waits).text, "true");
  const { value } = await same.events().next();
  assert.deepEqual([value.seq, value.type], [behind + 1, "permission.request"]);
  await Promise.all([client.close(), other.close()]);
});

test("what a daemon refuses over HTTP says so", { skip, timeout: 60_000 }, async () => {
  const refused = (status) => (error) => error instanceof Refused && error.status === status;
  await assert.rejects(Client.connect(overHttp(daemon.http, "wrong")), refused(401));
  assert.throws(() => overHttp([], "t"), /no address/);
  const client = await Client.connect(overHttp(["http://127.0.0.1:1", daemon.http], await daemon.token()));
  await assert.rejects(client.open({ cwd: "/" }), refused(403));
  await assert.rejects(client.attach("none"), /unknown/);
  const session = await client.open();
  await assert.rejects(client.attach(session.id, { after: 1000 }), /ahead/);
  const watcher = await Client.connect(overHttp(daemon.http, await daemon.token("--all-sessions", "--scope", "observe")));
  const { end } = await (await watcher.attach(session.id)).turn("x");
  assert.equal(end.error.category, "permission_denied");
  await Promise.all([client.close(), watcher.close()]);
});

test("a token that is revoked ends the sessions", { skip, timeout: 60_000 }, async () => {
  for (const way of Object.keys(WAYS).filter((way) => way !== "socket")) {
    const client = await Client.connect(await WAYS[way]());
    const session = await client.open({}, { listen: true });
    const long = session.turn("long");
    await first(session.events(), ({ content }) => content === "begun");
    await daemon.revoke();
    await assert.rejects(long, { name: "Refused", status: 401 }, way);
    assert.deepEqual([client.state.state, client.state.error.status], ["closed", 401]);
  }
});
