// Both bridges over agents that people use, against a fake model. `TRUNKLINE_CLIS` is the folder where `npm install` put them.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { TrunklineAdapter } from "../dist/agent-swarm/providers/trunkline/adapter.js";
import { plugin } from "./galyarder-plugin.mjs";
import { example, NONE } from "./programs.mjs";

const { TRUNKLINE_CLIS } = process.env;
const program = (name) => join(TRUNKLINE_CLIS ?? "", "node_modules/.bin", name);
const skipWithout = (name) =>
  NONE || (!TRUNKLINE_CLIS && "no TRUNKLINE_CLIS") || (existsSync(program(name)) ? false : `no ${name} there`);

const scratch = mkdtempSync(join(tmpdir(), "bridge-real-"));
const seen = []; // what reached the MCP server
let model, base, mcp;

before(async () => {
  if (NONE || !TRUNKLINE_CLIS) return;
  const listening = (server) => new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));
  const probe = createServer();
  const port = await listening(probe);
  await new Promise((resolve) => probe.close(resolve));
  base = `http://127.0.0.1:${port}`;
  model = spawn("python3", [example("../runtime/profiles/tests/clis/fake_model.py"), String(port)], { stdio: "ignore" });
  while (!(await fetch(base).catch(() => undefined))) await new Promise((resolve) => setTimeout(resolve, 50));

  // As much of an MCP server as an agent asks for.
  mcp = createServer(async (request, answer) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    seen.push({ url: request.url, headers: request.headers, text });
    const { id, method } = request.method === "POST" ? JSON.parse(text) : {};
    if (id === undefined) return void answer.writeHead(request.method === "POST" ? 202 : 405).end();
    const info = { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "swarm", version: "1" } };
    const result = method === "initialize" ? info : { tools: [] };
    answer.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  });
  mcp.port = await listening(mcp);
});
after(() => {
  model?.kill();
  mcp?.close();
  mcp?.closeAllConnections();
  rmSync(scratch, { recursive: true, force: true });
});

// The configuration of Codex in a folder of its own, and of trunkline over it.
function codex() {
  const [home, work] = [join(scratch, ".codex"), join(scratch, "work")];
  for (const folder of [home, work]) mkdirSync(folder, { recursive: true });
  const provider = `name = "fake"\nbase_url = "${base}/v1"\nenv_key = "FAKE_KEY"\nwire_api = "responses"\n`;
  const own = 'model = "gpt-5.5"\nmodel_provider = "fake"\ncheck_for_update_on_startup = false\n';
  writeFileSync(join(home, "config.toml"), `${own}[model_providers.fake]\n${provider}[analytics]\nenabled = false\n`);
  const env = { CODEX_HOME: home, FAKE_KEY: "dummy" };
  const file = join(scratch, "trunkline.json");
  writeFileSync(file, JSON.stringify({ agents: [{ id: "codex", profile: "codex", env, codex: { command: program("codex") } }] }));
  return { work, args: ["serve", "--session-may", "all", "--config", file] };
}

test("a task of agent-swarm by Codex: the swarm's MCP server, cost, resuming", { skip: skipWithout("codex") }, async () => {
  const { work, args } = codex();
  const adapter = new TrunklineAdapter({ agent: "codex", args });
  const said = {
    systemPrompt: "Be brief.",
    model: "",
    role: "worker",
    agentId: "agent-9",
    taskId: "task-1",
    apiKey: "key-of-the-swarm-0123456789",
  };
  const config = {
    ...said,
    prompt: "FAKE:bash:echo hello;;",
    apiUrl: `http://127.0.0.1:${mcp.port}`,
    cwd: work,
    logFile: join(scratch, "run.jsonl"),
  };
  const run = async (more) => {
    const session = await adapter.createSession({ ...config, ...more });
    const events = [];
    session.onEvent((event) => events.push(event));
    return { result: await session.waitForCompletion(), events };
  };
  const { result, events } = await run({});
  assert.equal(result.exitCode, 0, result.failureReason);
  assert.match(result.output, /hello/);
  const { headers } = seen.find(({ url, text }) => url === "/mcp" && text.includes('"initialize"'));
  assert.deepEqual(
    [headers.authorization, headers["x-agent-id"], headers["x-source-task-id"]],
    [`Bearer ${config.apiKey}`, "agent-9", "task-1"],
  );
  assert.ok(events.some(({ type }) => type === "tool_start") && events.some(({ type }) => type === "tool_end"));
  assert.ok(events.some(({ type }) => type === "context_usage"));
  assert.ok(
    result.cost.inputTokens > 0 && result.cost.outputTokens > 0 && result.cost.cacheReadTokens > 0,
    JSON.stringify(result.cost),
  );
  const again = await run({ prompt: "FAKE:text", resumeSessionId: result.sessionId });
  assert.equal(again.result.sessionId, result.sessionId);
  assert.ok(events.length > 0 && again.events.some(({ name, data }) => name === "trunkline.context" && data.context === "kept"));
});

test("a run of Galyarder by Codex, and the next one goes on", { skip: skipWithout("codex") }, async () => {
  const { work, args } = codex();
  const agent = { id: "agent-9", companyId: "company-1", name: "Ada", adapterType: "trunkline", adapterConfig: {} };
  const run = (say, sessionParams) => {
    const runtime = { sessionId: null, sessionParams, sessionDisplayId: null, taskKey: null };
    const config = { cwd: work, agent: "codex", args, promptTemplate: "{{context.say}}", timeoutSec: 60 };
    return plugin.execute({
      runId: "run-1",
      agent,
      runtime,
      config,
      context: { say },
      onLog: async () => {},
      authToken: "token-of-the-run",
    });
  };
  const first = await run("FAKE:bash:echo key $GALYARDER_API_KEY;;", null);
  assert.equal(first.exitCode, 0, first.errorMessage);
  assert.match(first.summary, /key token-of-the-run/); // what the agent runs can call back
  assert.ok(first.usage.inputTokens > 0);
  const second = await run("FAKE:text", first.sessionParams);
  assert.deepEqual([second.sessionId, second.clearSession, second.exitCode], [first.sessionId, false, 0]);
  const gone = await run("FAKE:text", {
    ...first.sessionParams,
    sessionId: "00000000-0000-4000-8000-000000000000",
    params: undefined,
  });
  assert.deepEqual([gone.exitCode, gone.clearSession, gone.sessionId !== first.sessionId], [0, false, true]);
});
