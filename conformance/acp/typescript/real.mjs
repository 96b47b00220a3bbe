// Drives an agent with ACP's own TypeScript library, the same way whatever the agent is. real.py compares the records.
//
//     node real.mjs RECORD SERVER COMMAND [ARGUMENTS]
//
// SERVER is the script of an MCP server. The record has a line {"step": NAME} before each step, and {"step", "failed"}
// after one without an answer.
import { appendFileSync, readFileSync } from "node:fs";
import * as acp from "@agentclientprotocol/sdk";
import { editor, say } from "./editor.mjs";

const [record, server, ...target] = process.argv.slice(2);
const { agent: methods } = acp.methods;
const STEP_TIMEOUT_MS = 90_000;
const PLAN = /plan|read-only/;
const cwd = process.cwd();
const person = { now: "yes", form: () => ({ action: "cancel" }), asked: () => {} };
const mcpServers = [{ name: "notes", command: "python3", args: [server, "notes.txt"], env: [] }];
const note = (line) => appendFileSync(record, JSON.stringify(line) + "\n");
let sessionId;

/** Notes a step and what became of it. An agent that refuses one step is driven on. */
async function step(name, work) {
  note({ step: name });
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error("no answer")), STEP_TIMEOUT_MS)));
  try {
    return await Promise.race([work(), late]);
  } catch (error) {
    note({ step: name, failed: String(error.message ?? error) });
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

/** Runs a client until `work` is done. How the program ends is no matter here. */
const client = (work) =>
  editor(record, target, person, work, acp.PROTOCOL_VERSION).catch((error) => note({ step: "end", failed: String(error) }));

await client(async ({ agent, can }) => {
  const opened = await step("new", () => agent.request(methods.session.new, { cwd, mcpServers }));
  if (!opened) return;
  ({ sessionId } = opened);
  const prompt = (text, ...more) => agent.request(methods.session.prompt, { sessionId, prompt: [...say(text), ...more] });
  await step("text", () => prompt("FAKE:text"));
  await step("thought", () => prompt("FAKE:think"));
  await step("tool", () => prompt("FAKE:bash:echo hello > made.txt;;"));
  person.now = "no";
  await step("denied", () => prompt("FAKE:bash:echo hello > denied.txt;;"));
  person.now = "yes";
  await step("write", () => prompt(`FAKE:write:${cwd}/written.txt;;`));
  await step("mcp", () => prompt("FAKE:mcp:noted;;"));
  if (can.promptCapabilities?.image) {
    const data = readFileSync(new URL("../../../runtime/profiles/tests/clis/square.png", import.meta.url)).toString("base64");
    await step("image", () => prompt("FAKE:text", { type: "image", mimeType: "image/png", data }));
  }
  const modes = opened.modes?.availableModes ?? [];
  const mode = modes.find(({ id }) => PLAN.test(id) && id !== opened.modes.currentModeId);
  if (mode) {
    await step("set mode", () => agent.request(methods.session.setMode, { sessionId, modeId: mode.id }));
    await step("mode back", () => agent.request(methods.session.setMode, { sessionId, modeId: opened.modes.currentModeId }));
  }
  for (const option of opened.configOptions ?? []) {
    if (option.type !== "select" || option.category === "mode") continue;
    const values = option.options.flatMap((one) => one.options ?? [one]);
    const other = values.find(({ value }) => value !== option.currentValue);
    if (!other) continue;
    const set = (value) => agent.request(methods.session.setConfigOption, { sessionId, configId: option.id, value });
    await step(`set ${option.category ?? option.id}`, () => set(other.value));
    await step(`${option.category ?? option.id} back`, () => set(option.currentValue));
  }
  await step("failed", () => prompt("FAKE:err:400"));
  await step("stop", async () => {
    const turn = prompt("FAKE:slow:200:0.2");
    await new Promise((resolve) => setTimeout(resolve, 2000));
    await agent.notify(methods.session.cancel, { sessionId });
    return turn;
  });
  if (can.sessionCapabilities?.list) await step("list", () => agent.request(methods.session.list, { cwd }));
  // What is sent behind the last answer.
  await new Promise((resolve) => setTimeout(resolve, 1000));
});

if (sessionId)
  await client(async ({ agent, can }) => {
    if (!can.loadSession) return;
    const loaded = await step("load", () => agent.request(methods.session.load, { sessionId, cwd, mcpServers: [] }));
    // One agent answers before the history has an end.
    await new Promise((resolve) => setTimeout(resolve, 1000));
    if (loaded) await step("after load", () => agent.request(methods.session.prompt, { sessionId, prompt: say("FAKE:text") }));
  });
process.exit(0);
