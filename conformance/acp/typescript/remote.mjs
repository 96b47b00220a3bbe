// Drives a daemon as editors elsewhere do that lose it: a connection that ends while it is asked, one that another takes
// over, a daemon that is killed and comes back.
//
//     node remote.mjs RECORD http|ws                      the daemon at ACP_URL, with ACP_TOKEN; it is killed
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import assert from "node:assert/strict";
import { editor, say } from "./editor.mjs";
import * as acp from "@agentclientprotocol/sdk";

const [record, kind] = process.argv.slice(2);
const { session } = acp.methods.agent;
const cwd = process.cwd();
const allow = { now: "wait" };
const target = [kind];
let sessionId;

const asked = () => new Promise((resolve) => (allow.asked = resolve));

/** Waits until something is so. */
async function until(is) {
  while (!is()) await new Promise((resolve) => setTimeout(resolve, 5));
}

// The editor goes while it is asked. Nothing is denied, and the turn goes on.
let gone;
await editor(record, target, allow, async ({ agent, answers, headers, url }) => {
  ({ sessionId } = await agent.request(session.new, { cwd, mcpServers: [] }));
  const waits = asked();
  agent.request(session.prompt, { sessionId, prompt: say("/tool one") }).catch(() => {});
  await waits;
  if (kind !== "http") return;
  gone = answers.find(({ connection }) => connection).connection;
  const more = { ...headers, "Acp-Connection-Id": gone, Accept: "text/event-stream" };
  for (const stream of [{}, { "Acp-Session-Id": sessionId }]) {
    assert.equal((await fetch(url, { headers: { ...more, ...stream } })).status, 409, "a stream has one reader");
  }
  assert.equal((await fetch(url, { headers: { ...more, "Acp-Session-Id": "never" } })).status, 404);
});
if (kind === "http") {
  const headers = { Authorization: `Bearer ${process.env.ACP_TOKEN}`, "Acp-Connection-Id": gone };
  const after = await fetch(`${process.env.ACP_URL}/acp`, { headers: { ...headers, Accept: "text/event-stream" } });
  assert.equal(after.status, 404, "a connection that was ended is none");
}

// The next one is asked, and its answer counts.
allow.now = "yes";
await editor(record, target, allow, async ({ agent, updates }) => {
  await agent.request(session.load, { sessionId, cwd, mcpServers: [] });
  await until(() => updates.some((update) => update.status === "completed"));
  // Two more connections at the same time, each with its own record: ids are a connection's.
  await editor(`${record}.second`, target, allow, async (second) => {
    await second.agent.request(session.resume, { sessionId, cwd, mcpServers: [] });
    const prompt = say("from the second");
    await second.agent.request(session.prompt, { sessionId, prompt });
    await until(() => updates.some((update) => update.content?.text === "from the second"));
  });
});

// The daemon is killed under an editor, in a turn, and comes back at the same address.
allow.now = "wait";
await assert.rejects(
  editor(record, target, allow, async ({ agent }) => {
    await agent.request(session.resume, { sessionId, cwd, mcpServers: [] });
    const waits = asked();
    const turn = agent.request(session.prompt, { sessionId, prompt: say("/tool lost") });
    await waits;
    const { pid } = JSON.parse(readFileSync(`${process.env.TRUNKLINE_STATE}/daemon.json`));
    process.kill(pid, "SIGKILL");
    await turn;
  }),
  "an editor learns that its daemon has gone",
);
const at = new URL(process.env.ACP_URL).host;
const daemon = spawn("trunkline", ["up", "--http", at, "--json"], { stdio: ["ignore", "pipe", "inherit"] });
await once(daemon.stdout, "data");
allow.now = "yes";
await editor(record, target, allow, async ({ agent, asked, text }) => {
  await agent.request(session.load, { sessionId, cwd, mcpServers: [] });
  assert.ok(text("user_message_chunk").endsWith("/tool lost"), text("user_message_chunk"));
  assert.equal(asked.length, 0, "the turn ended with its daemon");
  const { stopReason } = await agent.request(session.prompt, { sessionId, prompt: say("and on") });
  assert.equal(stopReason, "end_turn");
  assert.ok(text().endsWith("and on"));
});
execFileSync("trunkline", ["down"]);
await once(daemon, "exit");
console.log(`${kind}: a connection that ends, another that goes on, two at once, a daemon that is killed`);
