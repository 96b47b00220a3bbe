// Drives an agent with ACP's own TypeScript library: new, prompt, permission, cancel, load, resume, reconnect.
//
//     node client.mjs RECORD trunkline acp [ARGUMENTS]
//     node client.mjs RECORD http|ws                      the daemon at ACP_URL, with ACP_TOKEN
import assert from "node:assert/strict";
import { editor, say } from "./editor.mjs";
import * as acp from "@agentclientprotocol/sdk";

const [record, ...target] = process.argv.slice(2);
const { methods } = acp;

const cwd = process.cwd();
const allow = { now: "yes" };
let sessionId;

await editor(record, target, allow, async ({ agent, updates, asked, text }) => {
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
await editor(record, target, allow, async ({ agent, asked, text }) => {
  await agent.request(methods.agent.session.load, { sessionId, cwd, mcpServers: [] });
  assert.ok(text("user_message_chunk").startsWith("hello from typescript"));
  assert.ok(text().startsWith("hello from typescript"));
  assert.equal(asked.length, 0, "what is settled is not asked again");
});

await editor(record, target, allow, async ({ agent, text }) => {
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
