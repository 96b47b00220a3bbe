// Drives ../agent.py through `trunkline acp` with ACP's own TypeScript library: folders, forms, pictures, modes, options,
// commands, plans, diffs, thoughts, what it costs, the title, a request that is cancelled.
//
//     node features.mjs RECORD trunkline acp --adapter 'python3 /…/agent.py'
//     node features.mjs RECORD ws                         the daemon at ACP_URL, with ACP_TOKEN: no servers
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { RequestError, methods } from "@agentclientprotocol/sdk";
import { editor, say } from "./editor.mjs";

const [record, ...target] = process.argv.slice(2);
const isLocal = target[0] !== "ws";
const cwd = process.cwd();
const other = join(cwd, "other");
mkdirSync(other, { recursive: true });

const forms = [];
const filled = { where: "us", copies: 3, dry: true, tags: ["a", "b"], note: "n" };
let answer = { action: "accept", content: filled };
const person = {
  now: "yes",
  form(params) {
    forms.push(params);
    return answer;
  },
};

await editor(record, target, person, async ({ agent, updates, asked, text, can }) => {
  assert.ok(can.promptCapabilities.image);
  assert.ok(can.promptCapabilities.embeddedContext);
  const server = { type: "http", name: "files", url: "http://127.0.0.1:1/", headers: [] };
  const opened = await agent.request(methods.agent.session.new, {
    cwd,
    additionalDirectories: [other],
    mcpServers: isLocal ? [server] : [],
  });
  const { sessionId } = opened;
  /** What is seen from now on. */
  const fresh = () => void updates.splice(0);
  const of = (kind) => updates.filter((update) => update.sessionUpdate === kind);
  const prompt = async (blocks, options) => {
    fresh();
    const asks = { sessionId, prompt: typeof blocks === "string" ? say(blocks) : blocks };
    const { stopReason } = await agent.request(methods.agent.session.prompt, asks, options);
    assert.equal(stopReason, "end_turn");
    return text();
  };

  // What the answer to the opening declares, and what follows it.
  assert.deepEqual(opened.modes.availableModes.map((mode) => mode.id), ["default", "plan", "auto"]);
  assert.equal(opened.modes.currentModeId, "default");
  assert.equal(opened.modes.availableModes[0].description, "asks before tools run");
  assert.equal(opened.configOptions[1].options[0].description, "thinks longest");
  assert.deepEqual(opened.configOptions.map((option) => [option.id, option.currentValue]), [["mode", "default"], ["model", "large"], ["speed", "fast"], ["web", false]]);
  const where = JSON.parse(await prompt("where"));
  assert.deepEqual([where.cwd, where.here, where.add_dirs], [cwd, cwd, [other]]);
  assert.deepEqual(where.mcp_servers, isLocal ? [server] : null);

  // A command is said as the agent reads it.
  assert.equal(await prompt("/review a.rs"), "Review: a.rs");

  // Modes and options, by both ways; one that the agent does not take.
  fresh();
  await agent.request(methods.agent.session.setMode, { sessionId, modeId: "plan" });
  assert.equal(of("current_mode_update").at(-1)?.currentModeId, "plan");
  const set = await agent.request(methods.agent.session.setConfigOption, { sessionId, configId: "model", value: "small" });
  assert.deepEqual(set.configOptions.map((option) => option.currentValue), ["plan", "small", "fast", false]);
  const refused = (configId, value, why) =>
    assert.rejects(agent.request(methods.agent.session.setConfigOption, { sessionId, configId, value }), why);
  await refused("model", "broken", /the model is broken/);
  await refused("model", "unheard of", /knows no/);
  await refused("mode", "auto", /may not set `mode`/);
  await refused("colour", "red", /no such option/);
  const back = await agent.request(methods.agent.session.setConfigOption, { sessionId, configId: "mode", value: "default" });
  assert.deepEqual(back.configOptions.map((option) => option.currentValue), ["default", "small", "fast", false]);

  // A form with each kind of field, and one that is not answered. A secret is not asked in a form.
  assert.deepEqual(JSON.parse(await prompt("form")), filled);
  const { properties, required } = forms[0].requestedSchema;
  assert.deepEqual(required, ["where"]);
  assert.deepEqual(Object.values(properties).map((property) => property.type), ["string", "number", "boolean", "array", "string"]);
  assert.equal(properties.where.default, "eu");
  for (const action of ["decline", "cancel"]) {
    answer = { action };
    assert.equal(await prompt("form"), "null");
  }
  assert.match(await prompt("secret"), /The token\?.*cancelled True/s);
  assert.equal(forms.length, 3);

  // A picture and other files go in from here, and a picture comes out.
  const png = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
  const digest = createHash("sha256").update(png).digest("hex").slice(0, 8);
  const words = [{ type: "text", text: "look" }, { type: "resource_link", name: "d.rs", uri: "file:///srv/d.rs" }];
  const image = { type: "image", mimeType: "image/png", data: png.toString("base64") };
  const blob = { type: "resource", resource: { uri: "file:///srv/c.bin", blob: png.toString("base64") } };
  const looked = "look[@d.rs](file:///srv/d.rs)";
  assert.equal(await prompt([...words, image, blob]), `${looked} [image-1.png 8 ${digest}] [c.bin 8 ${digest}]`);
  await prompt("picture");
  const [picture] = of("agent_message_chunk");
  assert.equal(picture.content.type, "image");
  assert.equal(picture.content.mimeType, "image/png");
  assert.deepEqual([...Buffer.from(picture.content.data, "base64").subarray(0, 8)], [...png]);

  // A tool with a diff, which the person is asked about.
  await prompt("edit");
  const { toolCall, options } = asked.at(-1);
  assert.deepEqual(options.map((option) => option.kind), ["allow_once", "allow_always", "reject_once"]);
  assert.equal(toolCall.toolCallId, "c-1");
  const diff = { type: "diff", path: "/srv/a.rs", oldText: "a\n", newText: "b\n" };
  assert.ok(toolCall.content.some((content) => content.type === "diff"));
  const [call] = of("tool_call");
  assert.deepEqual([call.kind, call.title, call.rawInput], ["edit", "Edit a.rs", { n: 1 }]);
  assert.deepEqual(call.locations, [{ path: "/srv/a.rs", line: 12 }]);
  const places = of("tool_call_update").filter((update) => update.locations);
  assert.deepEqual(places.map((update) => update.locations), [[{ path: "/srv/b.rs" }]]);
  const end = of("tool_call_update").at(-1);
  assert.deepEqual([end.status, end.rawOutput, end.content[0]], ["completed", [{ n: 2 }], diff]);
  assert.match(end.content[1].content.text, /^```diff\n@@ -1/);

  await prompt("plan");
  const steps = of("plan")[0].entries.map(({ content, status, priority }) => [content, status, priority].join(" "));
  assert.deepEqual(steps, ["read completed high", "mend in_progress low", "test pending medium"]);
  assert.equal(text("agent_thought_chunk"), "The test fails because");
  assert.equal(of("agent_thought_chunk")[0].messageId, "m-7");

  await prompt("cost");
  const usage = of("usage_update").at(-1);
  assert.deepEqual([usage.used, usage.size, usage.cost], [1500, 200000, { amount: 0.25, currency: "USD" }]);

  await prompt("compact");
  const compaction = { compactionId: "k-1", status: "completed", summary: [{ type: "text", text: "The test fails." }] };
  assert.deepEqual(of("compaction_update"), [{ sessionUpdate: "compaction_update", ...compaction }]);

  // What the agent changes by itself.
  await prompt("news");
  assert.equal(of("current_mode_update")[0].currentModeId, "plan");
  assert.equal(of("config_option_update")[0].configOptions[0].currentValue, "plan");
  assert.equal(of("session_info_update")[0].title, "parser work");
  assert.deepEqual(of("available_commands_update")[0].availableCommands.map((command) => command.name), ["review", "test"]);
  const { sessions } = await agent.request(methods.agent.session.list, { cwd });
  assert.equal(sessions.find((session) => session.sessionId === sessionId)?.title, "parser work");

  // A request that is cancelled: the turn is stopped, and the session takes the next one.
  fresh();
  const stop = new AbortController();
  const asks = { sessionId, prompt: say("wait") };
  const waits = agent.request(methods.agent.session.prompt, asks, { cancellationSignal: stop.signal });
  while (text() !== "waits") await new Promise((resolve) => setImmediate(resolve));
  stop.abort();
  const ended = await waits.catch((error) => error);
  assert.ok(ended instanceof RequestError || ended.stopReason === "cancelled", String(ended));
  assert.equal(await prompt("after it"), "after it");
});
console.log("typescript: folders, forms, pictures, modes, options, commands, plans, diffs, thoughts, cost, title, $/cancel_request");
