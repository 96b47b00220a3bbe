// Drives `trunkline acp` with ACP's own TypeScript library: new, prompt, permission, cancel, load, resume, reconnect.
//
//     node client.mjs RECORD trunkline acp [ARGUMENTS]
import { spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import assert from "node:assert/strict";
import * as acp from "@agentclientprotocol/sdk";

const [record, program, ...args] = process.argv.slice(2);
const { methods } = acp;

/** A stream whose lines are written down on their way. */
function recorded(from) {
  let rest = "";
  const decoder = new TextDecoder();
  return new TransformStream({
    transform(bytes, controller) {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines.filter(Boolean)) appendFileSync(record, JSON.stringify({ from, line }) + "\n");
      controller.enqueue(bytes);
    },
  });
}

/** Runs an agent and a client of it, until `work` is done. */
async function editor(allow, work) {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const updates = [];
  const asked = [];
  const app = acp
    .client({ name: "test" })
    .onRequest(methods.client.session.requestPermission, async ({ params, signal }) => {
      asked.push(params);
      const kind = { yes: "allow_once", no: "reject_once" }[allow.now];
      if (kind === undefined) {
        allow.asked();
        await new Promise((resolve) => signal?.addEventListener("abort", resolve));
        return { outcome: { outcome: "cancelled" } };
      }
      const { optionId } = params.options.find((option) => option.kind === kind);
      return { outcome: { outcome: "selected", optionId } };
    })
    .onNotification(methods.client.session.update, ({ params }) => void updates.push(params.update));
  const toAgent = recorded("client");
  toAgent.readable.pipeTo(Writable.toWeb(child.stdin)).catch(() => {});
  const stream = acp.ndJsonStream(toAgent.writable, Readable.toWeb(child.stdout).pipeThrough(recorded("agent")));
  const text = (kind = "agent_message_chunk") =>
    updates.filter((update) => update.sessionUpdate === kind).map((update) => update.content.text).join("");
  await app.connectWith(stream, async (agent) => {
    const told = await agent.request(methods.agent.initialize, {
      protocolVersion: 2,
      clientCapabilities: { elicitation: { form: {} }, session: { notices: {} } },
    });
    assert.equal(told.protocolVersion, 1);
    await work({ agent, updates, asked, text });
  });
  child.stdin.end();
  const code = await new Promise((resolve) => child.once("exit", resolve));
  assert.equal(code, 0);
}

const cwd = process.cwd();
const say = (text) => [{ type: "text", text }];
const allow = { now: "yes" };
let sessionId;

await editor(allow, async ({ agent, updates, asked, text }) => {
  ({ sessionId } = await agent.request(methods.agent.session.new, { cwd, mcpServers: [] }));
  const prompt = (words) => agent.request(methods.agent.session.prompt, { sessionId, prompt: say(words) });

  assert.equal((await prompt("hello from typescript")).stopReason, "end_turn");
  assert.equal(text(), "hello from typescript");

  await prompt("/tool ls");
  assert.equal(asked.length, 1);
  assert.equal(updates.filter((update) => update.status === "completed").length, 1);
  allow.now = "no";
  await prompt("/tool rm");
  assert.equal(updates.filter((update) => update.status === "completed").length, 1, "what is rejected does not run");

  allow.now = "wait";
  const waits = new Promise((resolve) => (allow.asked = resolve));
  const turn = prompt("/tool wait");
  await waits;
  await agent.notify(methods.agent.session.cancel, { sessionId });
  assert.equal((await turn).stopReason, "cancelled");

  await prompt("/think of it");
  assert.ok(text("agent_thought_chunk").length > 0);
  await prompt("/plan one, two");
  assert.ok(updates.some((update) => update.sessionUpdate === "plan"));
  await assert.rejects(prompt("/fail on purpose"), /on purpose/);

  const { sessions } = await agent.request(methods.agent.session.list, {});
  assert.ok(sessions.some((session) => session.sessionId === sessionId && session.cwd === cwd), JSON.stringify(sessions));
});

allow.now = "yes";
await editor(allow, async ({ agent, asked, text }) => {
  await agent.request(methods.agent.session.load, { sessionId, cwd, mcpServers: [] });
  assert.ok(text("user_message_chunk").startsWith("hello from typescript"));
  assert.ok(text().startsWith("hello from typescript"));
  assert.equal(asked.length, 0, "what is settled is not asked again");
});

await editor(allow, async ({ agent, text }) => {
  await agent.request(methods.agent.session.resume, { sessionId, cwd, mcpServers: [] });
  assert.equal(text(), "");
  const prompt = say("and on");
  assert.equal((await agent.request(methods.agent.session.prompt, { sessionId, prompt })).stopReason, "end_turn");
  assert.equal(text(), "and on");
  await agent.request(methods.agent.session.delete, { sessionId });
  const { sessions } = await agent.request(methods.agent.session.list, {});
  assert.ok(!sessions.some((session) => session.sessionId === sessionId));
});
console.log("typescript: new, prompt, permission, cancel, thoughts, plan, failure, list, load, resume, delete");
