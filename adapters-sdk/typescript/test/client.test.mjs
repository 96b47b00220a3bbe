import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Client, eventsOf, overHttp, spawned, unixSocket, webSocket } from "@trunkline/sdk/client";
import { adapter, Daemon, skip } from "./daemon.mjs";

const KILLS = Number(process.env.TRUNKLINE_KILLS ?? 5);
let daemon;

before(async () => {
  if (!skip) daemon = await Daemon.start();
});
after(async () => {
  if (!skip) await daemon.end();
});

test("the client of the README has ten lines and talks", { skip }, async () => {
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const [, program] = [...readme.matchAll(/```js\n(.*?)```/gs)].map((m) => m[1]);
  assert.ok(program.trim().split("\n").length <= 10);
  const own = program.replace('"node my-adapter.mjs"', JSON.stringify(adapter));
  const child = spawn(process.execPath, ["--input-type=module", "-e", own], { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout.on("data", (data) => (said += data));
  assert.equal(await new Promise((resolve) => child.on("close", resolve)), 0);
  assert.match(said, /hello agent/);
});

test("the client over HTTP of the README has ten lines and reads files", { skip }, async () => {
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const program = [...readme.matchAll(/```js\n(.*?)```/gs)].map((m) => m[1]).find((program) => program.includes("overHttp("));
  assert.ok(program.trim().split("\n").length <= 10);
  writeFileSync(join(daemon.scratch, "notes.txt"), "notes");
  const own = program.replace("http://127.0.0.1:7457", daemon.http).replace('"hello"', '"file"').replace('["notes.txt"]', JSON.stringify([join(daemon.scratch, "notes.txt")]));
  const env = { ...process.env, TOKEN: await daemon.token() };
  const child = spawn(process.execPath, ["--input-type=module", "-e", own], { stdio: ["ignore", "pipe", "inherit"], env });
  let said = "";
  child.stdout.on("data", (data) => (said += data));
  assert.equal(await new Promise((resolve) => child.on("close", resolve)), 0);
  assert.match(said, /Uint8Array\(17\)/); // "made by the agent"
});

test("a permission without a decision is denied; the callback decides", { skip }, async () => {
  for (const [onPermission, expected] of [[undefined, "false"], [() => true, "true"], [() => "true", "false"], [() => { throw new Error(); }, "false"]]) {
    const client = await Client.connect(unixSocket(daemon.socket), onPermission ? { onPermission } : {});
    const session = await client.open();
    assert.equal((await session.turn("ask")).text, expected);
    session.close();
    client.close();
  }
});

test("a new session keeps what it says first; a relay is started in a folder, and heard", { skip }, async () => {
  const said = [];
  const args = ["serve", "--adapter", adapter, "--also", "none=no-such-program"];
  const client = await Client.connect(spawned("trunkline", args, { cwd: daemon.scratch, onStderr: (line) => said.push(line) }));
  const session = await client.open({}, { listen: true });
  assert.equal((await session.turn("cwd")).text, daemon.scratch);
  const types = [];
  for await (const { type } of session.events()) if (types.push(type) && type === "turn.complete") break;
  assert.equal(types[0], "session.ready");
  assert.deepEqual(types.slice(-2), ["output", "turn.complete"]);
  assert.equal((await (await client.open({ agent_id: "none" })).turn("hello")).end.error.category, "not_installed");
  assert.match(said.join("\n"), /no-such-program/);
  client.close();
});

test("a session that the relay ends says why", { skip }, async () => {
  const client = await Client.connect(spawned("trunkline", ["serve", "--adapter", adapter]));
  const session = await client.open({ env: { A: "b" } }, { listen: true });
  const types = [];
  for await (const { type } of session.events()) types.push(type); // and ends by itself
  assert.equal(types.at(-1), "session.closed");
  await assert.rejects(session.turn("hello"), (error) => {
    assert.match(error.message, /refused.*may not set `env`/);
    return error.cause.category === "permission_denied";
  });
  client.close();
  await assert.rejects(client.agents(), /closed/);
});

test("a relay has ended when its client is closed, even one that does not want to", { skip }, async () => {
  const pidFile = join(daemon.scratch, "pid");
  const deaf = `trap "" TERM; echo $$ >${pidFile}; exec trunkline serve --adapter '${adapter}' | cat; while :; do read line || sleep 1; done`;
  for (const [command, args] of [["sh", ["-c", `echo $$ >${pidFile}; exec trunkline serve --adapter '${adapter}'`]], ["sh", ["-c", deaf]]]) {
    let child;
    const client = await Client.connect(spawned(command, args, { onStderr: () => {}, onSpawn: (started) => (child = started) }));
    await client.agents();
    const pid = Number(readFileSync(pidFile, "utf8"));
    assert.equal(child.pid, pid);
    process.kill(pid, 0);
    void client.close();
    await client.close(); // the second time, too
    assert.throws(() => process.kill(pid, 0), /ESRCH/);
  }
});

test("the relay tells its agents, and the sessions of its journal", { skip }, async () => {
  const client = await Client.connect(unixSocket(daemon.socket));
  const [agent] = await client.agents({ health: true });
  assert.equal(agent.health.severity, "ok");
  const session = await client.open();
  // It is in the list when its first entry is stored.
  await session.turn("a");
  const listed = await client.sessions({ limit: 1 });
  assert.equal(listed.sessions[0].session_id, session.id);
  client.close();
  const without = await Client.connect(spawned("trunkline", ["serve", "--adapter", adapter]));
  await assert.rejects(without.sessions(), /does not list/);
  const asked = assert.rejects(without.agents(), /closed/);
  without.close();
  await asked;
});

test("a session is refused where there is none", { skip }, async () => {
  const client = await Client.connect(unixSocket(daemon.socket));
  await assert.rejects(client.attach("no-such"), /unknown/);
  client.close();
});

test("entries over WebSocket and Server-Sent Events are the same", { skip }, async () => {
  const secret = await daemon.token();
  const client = await Client.connect(webSocket(daemon.http, secret));
  const session = await client.open();
  assert.equal((await session.turn("a b c")).text, "a b c ");
  const seen = [];
  for await (const entry of eventsOf(daemon.http, session.id, { token: secret })) {
    seen.push(entry.seq);
    if (entry.type === "turn.complete") break;
  }
  assert.deepEqual(seen, seen.map((_, index) => index + 1));
  await assert.rejects(eventsOf(daemon.http, "none", { token: secret }).next(), /404/);
  await assert.rejects(eventsOf(daemon.http, session.id, { token: "wrong" }).next(), /401/);
  client.close();
});

// Each with its own session, and its entries by `events` or by a stream of them beside it.
const WAYS = {
  socket: async () => [unixSocket(daemon.socket)],
  "Server-Sent Events": async () => [unixSocket(daemon.socket), await daemon.token("--all-sessions")],
  HTTP: async () => [overHttp(daemon.http, await daemon.token())],
  WebSocket: async () => [webSocket(daemon.http, await daemon.token())],
  command: async () => {
    let child;
    const args = ["serve", "--journal", join(daemon.scratch, "own"), "--adapter", adapter];
    return [spawned("trunkline", args, { onStderr: () => {}, onSpawn: (started) => (child = started) }), undefined, () => child.kill("SIGKILL")];
  },
};

test(`no entry and no input is lost or comes twice over ${KILLS} kills of the daemon, by each transport`, { skip, timeout: 60_000 + KILLS * 6000 }, async () => {
  const ways = await Promise.all(Object.entries(WAYS).map(async ([way, open]) => survivor(way, ...(await open()))));
  for (let round = 0; round < KILLS; round++) {
    const turns = ways.map((way) => way.turns(round));
    if (round % 2) await Promise.all(turns.map(([first]) => first));
    for (const way of ways) way.kill?.();
    await daemon.kill();
    await daemon.up();
    for (const { end } of await Promise.all(turns.flat())) assert.ok(["completed", "failed"].includes(end.status), end.status);
  }
  for (const way of ways) await way.ends();
});

async function survivor(way, connect, token, kill) {
  const client = await Client.connect(connect, { retryFor: 120_000 });
  const session = await client.open({}, { listen: true });
  const [seen, inputs, over] = [[], [], new AbortController()];
  let isLast;
  const last = new Promise((resolve) => (isLast = resolve));
  const reading = (async () => {
    const entries = token ? eventsOf(daemon.http, session.id, { token, signal: over.signal }) : session.events();
    for await (const { seq, type, content } of entries) {
      if (seq !== undefined) seen.push(seq);
      if (type === "turn.begin") inputs.push(content);
      if (type === "output" && content === "words ") isLast();
    }
  })();
  reading.catch(() => {});
  const sent = [];
  const turn = (content) => (sent.push(content), session.turn(content));
  const ends = async () => {
    const { text, end } = await turn("last words");
    assert.deepEqual([text, end.status], ["last words ", "completed"], way);
    await Promise.race([last, reading]);
    assert.deepEqual(seen, seen.map((_, index) => index + 1), way);
    assert.deepEqual([...inputs].sort(), [...sent].sort(), way);
    assert.ok(seen.length > KILLS * 4);
    await client.close();
    over.abort();
    await assert.rejects(reading, /closed|abort/);
  };
  return { kill, ends, turns: (round) => [turn(`one ${round}`), turn(`two ${round}`)] };
}
