// Drives a real Galyarder server with the built plugin. Started by `galyarder`: its help has what is needed.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { chownSync, existsSync, mkdirSync, openSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";

const { GALYARDER_CHECKOUT: checkout, GALYARDER_SCRATCH: scratch, TRUNKLINE_CLIS: clis } = process.env;
const bridges = new URL("..", import.meta.url).pathname;
const home = join(scratch, "home");
const STARTS = 120_000; // milliseconds
const RUNS = 60_000;
const CANCELS = 5_000;
const WORK = { inputTokens: 150, cachedInputTokens: 1000, outputTokens: 80 }; // of the agent's "work", see test/agent.mjs

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(what, ms, probe) {
  for (const end = performance.now() + ms; performance.now() < end; await pause(100)) {
    const found = await probe();
    if (found) return found;
  }
  throw new Error(`${what}: not within ${ms / 1000} s`);
}

async function freePort() {
  const server = createServer();
  const port = await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const port = await freePort();

async function api(method, path, body) {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`http://127.0.0.1:${port}/api${path}`, { method, headers, body: body && JSON.stringify(body) });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
  return text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : text;
}

/** Starts the server, on the loopback interface, without a scheduler, backups or telemetry. */
async function startServer() {
  const data = join(home, "data/instances/default");
  mkdirSync(join(data, "db"), { recursive: true });
  if (process.getuid() === 0) {
    const [user, group] = ["-u", "-g"].map((flag) => Number(spawnSync("id", [flag, "postgres"], { encoding: "utf8" }).stdout));
    assert.ok(user > 0, "as root, a user postgres is needed for the embedded Postgres");
    chownSync(join(data, "db"), user, group);
  }
  writeFileSync(
    join(data, "config.json"),
    JSON.stringify({
      $meta: { version: 1, updatedAt: new Date().toISOString(), source: "configure" },
      database: { mode: "embedded-postgres", embeddedPostgresDataDir: join(data, "db"), embeddedPostgresPort: await freePort() },
      logging: { mode: "file" },
      server: {},
    }),
  );
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    GALYARDER_HOME: join(home, "data"),
    GALYARDER_CONFIG: join(data, "config.json"),
    HOST: "127.0.0.1",
    PORT: String(port),
    SERVE_UI: "false",
    HEARTBEAT_SCHEDULER_ENABLED: "false",
    GALYARDER_DB_BACKUP_ENABLED: "false",
    GALYARDER_TELEMETRY_DISABLED: "1",
    GALYARDER_MIGRATION_AUTO_APPLY: "true",
    GALYARDER_MIGRATION_PROMPT: "never",
    GALYARDER_AGENT_JWT_SECRET: "secret-of-a-test-0123456789abcdef",
  };
  const log = openSync(join(scratch, "server.log"), "w");
  const tsx = join(checkout, "server/node_modules/.bin/tsx");
  const options = { cwd: join(checkout, "server"), env, stdio: ["ignore", log, log], detached: true };
  const server = spawn(tsx, ["src/index.ts"], options);
  server.ended = new Promise((resolve) => server.on("exit", resolve));
  return server;
}

async function stopServer(server) {
  const signal = (name) => {
    try {
      process.kill(-server.pid, name);
    } catch {
      // its group is gone
    }
  };
  signal("SIGTERM");
  await Promise.race([server.ended, pause(15_000)]);
  await pause(1000); // Postgres, which it ends
  signal("SIGKILL");
}

const processesWith = (word) =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((id) => {
      try {
        return readFileSync(`/proc/${id}/cmdline`, "utf8").includes(word);
      } catch {
        return false; // it has ended
      }
    });

const done = [];
async function check(name, body) {
  const start = performance.now();
  const more = await body();
  done.push(name);
  console.log(`ok: ${name}${more ? `: ${more}` : ""} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
}

const run = (id) => api("GET", `/heartbeat-runs/${id}`);
const wake = (agent, payload) => api("POST", `/agents/${agent.id}/wakeup`, { payload });
const ended = (id) =>
  until(`the end of run ${id}`, RUNS, async () => {
    const found = await run(id);
    return !["queued", "running"].includes(found.status) && found.finishedAt && found;
  });
const running = (id, text) =>
  until(`"${text}" of run ${id}`, RUNS, async () => {
    const { content = "" } = await api("GET", `/heartbeat-runs/${id}/log`).catch(() => ({}));
    return content.includes(text) && run(id);
  });
const isAlive = (pid) => existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
const tokens = ({ inputTokens, cachedInputTokens, outputTokens }) => ({ inputTokens, cachedInputTokens, outputTokens });
const runsOf = async (company, agent) => (await api("GET", `/companies/${company.id}/heartbeat-runs?agentId=${agent.id}`)).reverse();

const server = await startServer();
let model;
try {
  await check("the server starts", async () => {
    await until("the server", STARTS, async () => {
      assert.equal(server.exitCode, null, "the server has ended");
      return (await fetch(`http://127.0.0.1:${port}/api/health`).catch(() => undefined))?.ok;
    });
  });
  await scenarios();
  if (clis) await claude();
  else console.log("skipped: Claude Code: no TRUNKLINE_CLIS");
  console.log(`ok: ${done.length} checks of the real server`);
} catch (error) {
  console.error(error);
  console.error(readFileSync(join(scratch, "server.log"), "utf8").split("\n").slice(-20).join("\n"));
  console.error(`failed: after ${done.at(-1)}`);
  process.exitCode = 1;
} finally {
  model?.kill();
  await stopServer(server);
}

async function scenarios() {
  const company = await api("POST", "/companies", { name: "Acme" });
  await api("PATCH", `/companies/${company.id}`, { requireBoardApprovalForNewAgents: false });
  const args = ["serve", "--session-may", "all", "--adapter", `${process.execPath} ${join(bridges, "test/agent.mjs")}`];
  const create = (name, config) =>
    api("POST", `/companies/${company.id}/agents`, {
      name,
      adapterType: "trunkline",
      adapterConfig: { args, ...config },
    });

  await check("the plugin is installed by its folder", async () => {
    const folder = join(bridges, "galyarder");
    const { type, version } = await api("POST", "/adapters/install", { packageName: folder, isLocalPath: true });
    const adapters = await api("GET", "/adapters");
    assert.deepEqual([type, adapters.find((adapter) => adapter.type === type)?.source], ["trunkline", "external"]);
    return `${type} ${version}`;
  });
  await check("the page gets the form and a parser that it can load", async () => {
    const { fields } = await api("GET", "/adapters/trunkline/config-schema");
    assert.ok(fields.some(({ key }) => key === "agent"));
    const source = await api("GET", "/adapters/trunkline/ui-parser.js");
    const { parseStdoutLine } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
    assert.equal(parseStdoutLine('{"type":"output","content":"hi"}', "t")[0].kind, "assistant");
  });
  await check("models and the environment's test", async () => {
    const models = await api("GET", `/companies/${company.id}/adapters/trunkline/models`);
    assert.ok(models.length > 0);
    const { status, checks } = await api("POST", `/companies/${company.id}/adapters/trunkline/test-environment`, {
      adapterConfig: { args },
    });
    assert.notEqual(status, "fail", JSON.stringify(checks));
    return `${models.length} models, ${status}`;
  });

  await check("a run, and two that resume it: each turn is counted once", async () => {
    const agent = await create("Ada", { promptTemplate: "work" });
    for (const before of [null, "native-1", "native-1"]) {
      const { id } = await wake(agent, { taskKey: "t1" });
      const { status, usageJson, sessionIdBefore, sessionIdAfter, processPid, error } = await ended(id);
      assert.deepEqual([status, sessionIdBefore, sessionIdAfter, error], ["succeeded", before, "native-1", null]);
      assert.deepEqual(tokens(usageJson), WORK);
      assert.deepEqual([usageJson.provider, usageJson.biller, usageJson.costUsd], ["example", "example", 0.25]);
      assert.ok(processPid > 0 && !isAlive(processPid));
    }
  });

  await check("a failure has its code", async () => {
    const agent = await create("Bea", { promptTemplate: "fail rate_limit" });
    const { status, errorCode, error } = await ended((await wake(agent)).id);
    assert.deepEqual([status, errorCode, error], ["failed", "rate_limit", "it fails: rate_limit (rate_limit)"]);
  });

  await check("a timeout ends the run", async () => {
    const agent = await create("Cai", { promptTemplate: "deaf", timeoutSec: 1, graceSec: 2 });
    const { status, errorCode, processPid } = await ended((await wake(agent)).id);
    assert.deepEqual([status, errorCode, isAlive(processPid)], ["timed_out", "timeout", false]);
  });

  // The server's three ways to end a run.
  const ends = {
    cancel: (id) => api("POST", `/heartbeat-runs/${id}/cancel`, {}),
    pause: (_, agent) => api("POST", `/agents/${agent.id}/pause`, {}),
    budget: async (_, agent) => {
      await api("PATCH", `/agents/${agent.id}/budgets`, { budgetMonthlyCents: 100 });
      const cost = { provider: "example", model: "large-2", costCents: 200, occurredAt: new Date().toISOString() };
      await api("POST", `/companies/${company.id}/cost-events`, { agentId: agent.id, ...cost });
    },
  };
  for (const [name, end] of Object.entries(ends)) {
    for (const [prompt, graceSec] of Object.entries({ wait: 15, deaf: 3 })) {
      await check(`${name} ends an agent ${prompt === "wait" ? "that stops" : "that ignores the stop"}`, async () => {
        const mark = `--mark-${name}-${prompt}`;
        const marked = [...args.slice(0, -1), `${args.at(-1)} ${mark}`];
        const agent = await create(`${name} ${prompt}`, { promptTemplate: prompt, graceSec, args: marked });
        const { id } = await wake(agent);
        const { processPid } = await running(id, prompt === "wait" ? "waiting" : "deaf");
        assert.ok(isAlive(processPid) && processesWith(mark).length > 0);
        const start = performance.now();
        await end(id, agent);
        await until("the end of its processes", CANCELS, () => !isAlive(processPid) && processesWith(mark).length === 0);
        const seconds = ((performance.now() - start) / 1000).toFixed(1);
        assert.equal((await run(id)).status, "cancelled");
        return `${seconds} s after the request`;
      });
    }
  }

  await check("the project's workspace, the wake and the environment reach the agent", async () => {
    const workspace = join(scratch, "project");
    mkdirSync(workspace);
    const project = await api("POST", `/companies/${company.id}/projects`, {
      name: "Paint",
      workspace: { cwd: workspace, isPrimary: true },
    });
    const agent = await create("Dot", { cwd: scratch, promptTemplate: "echo the prompt" });
    const issue = await api("POST", `/companies/${company.id}/issues`, {
      title: "Paint it",
      projectId: project.id,
      assigneeAgentId: agent.id,
      status: "todo",
    });
    const [first] = await until("the run of the assignment", RUNS, async () => {
      const runs = await runsOf(company, agent);
      return runs.length > 0 && runs;
    });
    const one = await ended(first.id);
    assert.equal(one.contextSnapshot.galyarderWorkspace.cwd, workspace);
    const events = await api("GET", `/heartbeat-runs/${first.id}/events`);
    const { cwd, env } = events.find(({ eventType }) => eventType === "adapter.invoke").payload;
    assert.deepEqual(
      [cwd, env.GALYARDER_WORKSPACE_CWD, env.GALYARDER_TASK_ID, env.GALYARDER_API_KEY],
      [workspace, workspace, issue.id, "***REDACTED***"],
    );
    const comments = async () => api("GET", `/issues/${issue.id}/comments`);
    const own = await until("the comment of the run", RUNS, async () =>
      (await comments()).find(({ body, authorAgentId }) => authorAgentId === agent.id && body.includes("echo the prompt")),
    );
    await api("POST", `/issues/${issue.id}/comments`, { body: "Please use the other color." });
    const second = await until("the run of the comment", RUNS, async () => (await runsOf(company, agent))[1]);
    const { resultJson, status } = await ended(second.id);
    assert.equal(status, "succeeded");
    assert.ok(resultJson.summary.includes("Please use the other color."), resultJson.summary);
    assert.ok(own.body.length > 0);
  });

  await check("the agent calls the server back with its token", async () => {
    const agent = await create("Fay", { promptTemplate: "options" });
    const { resultJson } = await ended((await wake(agent)).id);
    const { GALYARDER_API_URL, GALYARDER_API_KEY } = JSON.parse(resultJson.summary).env;
    const answer = await fetch(`${GALYARDER_API_URL}/api/agents/me`, { headers: { authorization: `Bearer ${GALYARDER_API_KEY}` } });
    assert.equal((await answer.json()).id, agent.id);
  });
}

// The same by Claude Code, with a model that answers by a script.
async function claude() {
  const modelPort = await freePort();
  const base = `http://127.0.0.1:${modelPort}`;
  const requests = join(scratch, "requests.log");
  model = spawn("python3", [join(bridges, "../../runtime/profiles/tests/clis/fake_model.py"), String(modelPort), requests], {
    stdio: "ignore",
  });
  await until("the fake model", RUNS, () => fetch(base).catch(() => undefined));
  const file = join(scratch, "trunkline.json");
  const env = {
    ANTHROPIC_BASE_URL: base,
    ANTHROPIC_API_KEY: "dummy",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1",
  };
  const program = join(clis, "node_modules/.bin/claude");
  writeFileSync(file, JSON.stringify({ agents: [{ id: "claude", profile: "claude-code", env, claude_code: { command: program } }] }));
  const instructions = join(scratch, "AGENTS.md");
  writeFileSync(instructions, "You are the painter of Acme.");
  const company = await api("POST", "/companies", { name: "Claude's" });
  await api("PATCH", `/companies/${company.id}`, { requireBoardApprovalForNewAgents: false });
  const agent = await api("POST", `/companies/${company.id}/agents`, {
    name: "Eve",
    adapterType: "trunkline",
    adapterConfig: {
      agent: "claude",
      model: "claude-sonnet-4-5",
      args: ["serve", "--session-may", "all", "--config", file],
      instructionsFilePath: instructions,
      promptTemplate: "FAKE:text",
    },
  });
  await check("a skill of the company is synced to the agent", async () => {
    const description = "How the fence of Acme is painted";
    const markdown = `---\nname: fence\ndescription: ${description}\n---\n\nTwo coats.\n`;
    const { key } = await api("POST", `/companies/${company.id}/skills`, { name: "Fence", slug: "fence", description, markdown });
    const { supported, mode, entries } = await api("POST", `/agents/${agent.id}/skills/sync`, { desiredSkills: [key] });
    assert.deepEqual([supported, mode], [true, "ephemeral"]);
    const listed = await api("GET", `/agents/${agent.id}/skills`);
    for (const found of [entries, listed.entries]) assert.equal(found.find((entry) => entry.key === key)?.state, "configured");
    return key;
  });
  const issue = await api("POST", `/companies/${company.id}/issues`, { title: "Paint it", assigneeAgentId: agent.id, status: "todo" });
  const nth = (at) => until(`run ${at}`, RUNS, async () => (await runsOf(company, agent))[at]).then(({ id }) => id);
  const comment = (body) => api("POST", `/issues/${issue.id}/comments`, { body });

  let session;
  await check("Claude Code: a run by its issue, with its instructions and its skill", async () => {
    const { status, usageJson, sessionIdAfter, stderrExcerpt } = await ended(await nth(0));
    assert.equal(status, "succeeded", stderrExcerpt);
    session = sessionIdAfter;
    assert.ok(session && usageJson.inputTokens > 0);
    assert.equal(usageJson.provider, "anthropic");
    for (const text of ["You are the painter of Acme.", "How the fence of Acme is painted"])
      assert.ok(readFileSync(requests, "utf8").includes(text), text);
    return JSON.stringify(tokens(usageJson));
  });
  await check("Claude Code: two comments resume it, each counted once, and each answered by a comment", async () => {
    const first = tokens((await run(await nth(0))).usageJson);
    for (const at of [1, 2]) {
      await comment(`Again, please (${at}): FAKE:text`);
      const { status, usageJson, sessionIdBefore, sessionIdAfter } = await ended(await nth(at));
      assert.deepEqual([status, sessionIdBefore, sessionIdAfter], ["succeeded", session, session]);
      assert.deepEqual(tokens(usageJson), first);
    }
    await until("a comment of each run", RUNS, async () => {
      const comments = await api("GET", `/issues/${issue.id}/comments`);
      return comments.filter(({ authorAgentId }) => authorAgentId === agent.id).length === 3;
    });
    assert.ok(readFileSync(requests, "utf8").includes("Again, please (2)"));
  });
  await check("Claude Code: cancel ends it", async () => {
    await comment("Slowly, please: FAKE:slow:200:0.5");
    const { id, processPid } = await running(await nth(3), String.raw`\"output\"`);
    const start = performance.now();
    await api("POST", `/heartbeat-runs/${id}/cancel`, {});
    await until("the end of its processes", CANCELS, () => !isAlive(processPid) && processesWith(program).length === 0);
    assert.equal((await run(id)).status, "cancelled");
    return `${((performance.now() - start) / 1000).toFixed(1)} s after the request`;
  });
}
