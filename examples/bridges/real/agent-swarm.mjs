// Drives copies of agent-swarm with the bridge, and reads their databases. Started by the script `agent-swarm` beside it.
import { spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import * as fs from "node:fs";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { edited, editsOf } from "./agent-swarm-edits.mjs";

const { SCRATCH, TRUNKLINE, TRUNKLINE_BUN, TRUNKLINE_CLIS, TRUNKLINE_AGENT_SWARM, TRUNKLINE_AGENT_SWARM_OLD } = process.env;
const BRIDGE = new URL("../agent-swarm", import.meta.url).pathname;
const FAKE_MODEL = new URL("../../../runtime/profiles/tests/clis/fake_model.py", import.meta.url).pathname;
const CLAUDE = join(TRUNKLINE_CLIS ?? "", "node_modules/.bin/claude");
const KEY = "key-of-the-swarm-0123456789";
const LEFT_OUT = new Set(["node_modules", ".git", "apps", "docs-site", "assets", "landing", "new-ui", "templates-ui"]);
const ENDED = ["completed", "failed", "cancelled"];
const LONGEST_TASK = 90_000; // milliseconds

let failed = 0;
const running = new Set(); // programs that were started here

function check(name, isGood, found) {
  if (!isGood) failed++;
  console.log(`${isGood ? "ok    " : "FAILED"} ${name}${isGood ? "" : `: ${JSON.stringify(found)}`}`);
}
const skip = (name, why) => console.log(`skipped: ${name}: ${why}`);
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function until(condition, milliseconds) {
  for (const end = Date.now() + milliseconds; Date.now() < end; await pause(200)) {
    const value = await condition();
    if (value) return value;
  }
  return undefined;
}

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

function start(command, args, cwd, env, log) {
  const file = fs.openSync(log, "a");
  const child = spawn(command, args, { cwd, env, stdio: ["ignore", file, file], detached: true });
  fs.closeSync(file);
  running.add(child);
  child.on("exit", () => running.delete(child));
  return child;
}

async function end(child) {
  if (!running.has(child)) return;
  const ended = new Promise((resolve) => child.on("exit", resolve));
  child.kill("SIGTERM");
  const late = setTimeout(() => process.kill(-child.pid, "SIGKILL"), 15_000);
  await ended;
  clearTimeout(late);
}

// A copy of the checkout's sources with the bridge in it and the edits of its page; its packages are linked.
function copyOf(checkout, version) {
  const copy = join(SCRATCH, version);
  fs.mkdirSync(join(copy, "node_modules/@trunkline"), { recursive: true });
  for (const name of fs.readdirSync(checkout))
    if (!LEFT_OUT.has(name)) fs.cpSync(join(checkout, name), join(copy, name), { recursive: true });
  for (const name of fs.readdirSync(join(checkout, "node_modules")))
    if (name !== "@trunkline") fs.symlinkSync(join(checkout, "node_modules", name), join(copy, "node_modules", name));
  fs.symlinkSync(join(SCRATCH, "sdk"), join(copy, "node_modules/@trunkline/sdk"));
  fs.cpSync(join(BRIDGE, "providers/trunkline"), join(copy, "src/providers/trunkline"), { recursive: true });
  for (const [path, edits] of Object.entries(editsOf(version))) {
    const file = join(copy, path);
    fs.writeFileSync(file, edited(fs.readFileSync(file, "utf8"), edits, path));
  }
  return copy;
}

// The compiler judges the bridge with the swarm's own types, and whether the shapes of our fast tests are those.
async function checkTypes(copy, version) {
  const compilers = [
    join(copy, "node_modules/typescript/bin/tsc"),
    new URL("../node_modules/typescript/bin/tsc", import.meta.url).pathname,
  ];
  const tsc = compilers.find((path) => fs.existsSync(path));
  if (!tsc) return skip(`${version}: types`, "no typescript; run `npm ci` in examples/bridges");
  const own = version.startsWith("1.70.") ? join(BRIDGE, "../test/agent-swarm-1.70.ts") : join(BRIDGE, "providers/types.ts");
  fs.copyFileSync(own, join(copy, "src/providers/trunkline/shapes.ts"));
  // `provider` of `session_init` names the swarm's providers, which the bridge does not send.
  // A type is the other's if each can be assigned to the other, and theirs has no member that ours lacks.
  const names = "CostData ProviderEvent ProviderSessionConfig ProviderSession ProviderResult ProviderAdapter".split(" ");
  if (!version.startsWith("1.70.")) names.push("ProviderTraits", "SteerDelivery", "SteerDeliveryResult", "CredStatus");
  const lines = names.flatMap((name) => [
    `export const ${name}Here: Without<theirs.${name}> = {} as Without<ours.${name}>;`,
    `export const ${name}There: Without<ours.${name}> = {} as Without<theirs.${name}>;`,
    `export const ${name}Members: [Exclude<Keys<theirs.${name}>, Keys<ours.${name}> | "provider">] extends [never] ? true : false = true;`,
  ]);
  const head = [
    'import type * as theirs from "../types";',
    'import type * as ours from "./shapes";',
    "type Keys<T> = T extends unknown ? keyof T : never;",
    'type Without<T> = T extends { type: "session_init" } ? Omit<T, "provider"> : T;',
  ];
  fs.writeFileSync(join(copy, "src/providers/trunkline/shapes-check.ts"), [...head, ...lines, ""].join("\n"));
  const compiler = start(process.execPath, [tsc, "--noEmit"], copy, process.env, join(SCRATCH, "tsc.log"));
  await new Promise((resolve) => compiler.on("exit", resolve));
  const stdout = fs.readFileSync(join(SCRATCH, "tsc.log"), "utf8");
  fs.rmSync(join(SCRATCH, "tsc.log"));
  for (const name of ["shapes.ts", "shapes-check.ts"]) fs.rmSync(join(copy, "src/providers/trunkline", name));
  const places = ["src/providers/trunkline/", ...Object.keys(editsOf(version))];
  const errors = stdout
    .split("\n")
    .filter((line) => places.some((place) => line.startsWith(place)) || line.includes("trunkline"));
  check(
    `${version}: the bridge and the edits compile with the swarm's types`,
    errors.filter((e) => !e.includes("shapes")).length === 0,
    errors,
  );
  check(`${version}: the shapes of the fast tests are the swarm's`, !errors.some((e) => e.includes("shapes")), errors);
}

const turn = (when, ...steps) => ({ when, steps });
const usage = (more) => ({ usage: { input_tokens: 1200, output_tokens: 80, cache_read_tokens: 1000, ...more } });

// A scripted agent, and Claude if it is given.
function configuration(base) {
  const turns = [
    // A child's prompt has the text of its parent, too.
    turn("case-child", { output: "The child's answer." }),
    turn(
      "case-plain",
      { output: "Hi from the agent." },
      { event: { type: "progress", message: "half of it" } },
      usage({ cost_usd: 0.25 }),
    ),
    turn("case-price", { output: "No price." }, usage({ provider: "openai", model: "gpt-of-the-test" })),
    turn("case-denied", { permission: { tool: "Bash", resource: "rm -r /", denied: [{ output: "Then not." }] } }),
    turn(
      "case-context",
      { event: { type: "context.usage", used_tokens: 150 } },
      { event: { type: "compaction", pre_tokens: 190, total_tokens: 200 } },
      { output: "Shorter." },
    ),
    turn("case-limit", {
      fail: {
        category: "rate_limit",
        message: "429 too many requests",
        retry_at: new Date(Date.now() + 7_200_000).toISOString(),
      },
    }),
    turn("case-cancel", { tool: { tool: "Bash", input: { command: "sleep" }, content: "" } }, "until_stop"),
    turn("case-crash", { output: "It goes well." }, { exit: 3 }),
    turn("case-secret", { output: `the key is ${KEY}` }),
    turn("case-steer", { event: { type: "progress", message: "waits" } }, { delay: "12s" }, { output: "First." }),
    turn("case-follow", { output: "The follow-up." }),
  ];
  const agents = [{ id: "mock", profile: "mock", unenforced: "allow", mock: { turns } }];
  if (fs.existsSync(CLAUDE)) {
    const env = {
      ANTHROPIC_BASE_URL: base,
      ANTHROPIC_API_KEY: "key-of-the-model-012345",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_AUTOUPDATER: "1",
      CLAUDE_CODE_MAX_RETRIES: "0",
    };
    agents.push({ id: "claude", profile: "claude-code", env, claude_code: { command: CLAUDE } });
  }
  return { agents };
}

class Swarm {
  constructor(copy, version) {
    this.copy = copy;
    this.version = version;
    this.folder = join(SCRATCH, `state-${version}`);
    this.database = join(this.folder, "swarm.sqlite");
    fs.mkdirSync(join(this.folder, "home"), { recursive: true });
  }

  async startApi() {
    this.url = `http://127.0.0.1:${await freePort()}`;
    this.env = {
      PATH: `${join(SCRATCH, "bin")}:${process.env.PATH}`,
      HOME: join(this.folder, "home"),
      LANG: "C.UTF-8",
      NO_PROXY: "*",
      ANONYMIZED_TELEMETRY: "false",
      SLACK_DISABLE: "true",
      GITHUB_DISABLE: "true",
      STEERING_ENABLED: "true",
      DATABASE_PATH: this.database,
      API_KEY: KEY,
      MCP_BASE_URL: this.url,
      PORT: new URL(this.url).port,
    };
    this.api = start(TRUNKLINE_BUN, ["src/http.ts"], this.copy, this.env, join(this.folder, "api.log"));
    const isUp = await until(
      () =>
        fetch(`${this.url}/health`).then(
          (answer) => answer.ok,
          () => false,
        ),
      120_000,
    );
    check(`${this.version}: the API server is up`, isUp, this.tail("api"));
    return isUp;
  }

  // A worker that runs one agent.
  async startWorker(agent, config) {
    this.agentId = randomUUID();
    const env = {
      ...this.env,
      HARNESS_PROVIDER: "trunkline",
      AGENT_ID: this.agentId,
      AGENT_NAME: `worker of ${agent}`,
      LOG_DIR: join(this.folder, "logs"),
      MAX_CONCURRENT_TASKS: "4",
      TRUNKLINE_CONFIG: config,
      TRUNKLINE_AGENT: agent,
      ANTHROPIC_API_KEY: "key-of-the-model-012345",
    };
    this.work = join(this.folder, "work");
    fs.mkdirSync(this.work, { recursive: true });
    this.worker = start(
      TRUNKLINE_BUN,
      [join(this.copy, "src/cli.tsx"), "worker"],
      this.work,
      env,
      join(this.folder, `worker-${agent}.log`),
    );
    const rows = () => this.rows("SELECT status FROM agents WHERE id = ?", this.agentId)[0]?.status;
    const isReady = await until(() => ["idle", "busy"].includes(rows()), 60_000);
    check(`${this.version}: a worker of ${agent} registers`, isReady, [rows(), this.tail(`worker-${agent}`)]);
    return isReady;
  }

  async ask(method, path, body) {
    const headers = { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json", "X-Agent-ID": this.agentId };
    const answer = await fetch(`${this.url}${path}`, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
    return answer.json().catch(() => ({}));
  }

  async begin(text, more = {}) {
    const body = await this.ask("POST", "/api/tasks", { task: text, agentId: this.agentId, ...more });
    return body.id ?? body.task?.id;
  }

  async endOf(id) {
    await until(() => ENDED.includes(this.task(id)?.status), LONGEST_TASK);
    return this.task(id);
  }

  task(id) {
    return this.rows("SELECT * FROM agent_tasks WHERE id = ?", id)[0];
  }

  costs(id) {
    return this.rows("SELECT * FROM session_costs WHERE taskId = ?", id);
  }

  rows(query, ...values) {
    const script =
      "const { Database } = await import('bun:sqlite'); const [file, query, ...values] = process.argv.slice(1);" +
      "console.log(JSON.stringify(new Database(file, { readonly: true }).query(query).all(...values)))";
    const read = spawnSync(TRUNKLINE_BUN, ["-e", script, this.database, query, ...values], { encoding: "utf8" });
    if (read.status !== 0) throw new Error(`${query}: ${read.stderr}`);
    return JSON.parse(read.stdout);
  }

  tail(name) {
    return fs.readFileSync(join(this.folder, `${name}.log`), "utf8").slice(-1500);
  }
}

async function drive(checkout) {
  if (!fs.existsSync(join(checkout, "node_modules"))) throw new Error(`${checkout} has no packages; run \`bun install\` there`);
  const { version } = JSON.parse(fs.readFileSync(join(checkout, "package.json"), "utf8"));
  const isOld = version.startsWith("1.70.");
  const copy = copyOf(checkout, version);
  const types = checkTypes(copy, version);
  const swarm = new Swarm(copy, version);
  const port = await freePort();
  const model = start("python3", [FAKE_MODEL, String(port)], SCRATCH, process.env, join(SCRATCH, "model.log"));
  const config = join(swarm.folder, "trunkline.json");
  const agents = configuration(`http://127.0.0.1:${port}`);
  fs.writeFileSync(config, JSON.stringify(agents));
  if ((await swarm.startApi()) && (await swarm.startWorker("mock", config))) await mockTasks(swarm, isOld);
  await end(swarm.worker);
  if (agents.agents.length === 1) skip(`${version}: tasks by Claude`, "no TRUNKLINE_CLIS with claude");
  else if (await swarm.startWorker("claude", config)) await claudeTasks(swarm, isOld);
  for (const child of [swarm.worker, swarm.api, model]) await end(child);
  await types;
  runTheirTests(copy, version);
  if (failed > 0 && process.env.TRUNKLINE_KEEP) fs.cpSync(swarm.folder, process.env.TRUNKLINE_KEEP, { recursive: true });
}

// Tests of the swarm that judge every provider.
function runTheirTests(copy, version) {
  const files = ["provider-steering-capabilities", "provider-command-format", "secret-scrubber"].map(
    (name) => `src/tests/${name}.test.ts`,
  );
  const tests = files.filter((file) => fs.existsSync(join(copy, file)));
  const env = { ...process.env, ANONYMIZED_TELEMETRY: "false", HOME: join(SCRATCH, `state-${version}`, "home") };
  const run = spawnSync(TRUNKLINE_BUN, ["test", ...tests], { cwd: copy, env, encoding: "utf8" });
  check(
    `${version}: ${tests.length} test files of the swarm pass`,
    run.status === 0 && tests.length > 0,
    run.stderr.slice(-1500),
  );
}

async function mockTasks(swarm, isOld) {
  const { version } = swarm;
  const is = (name, isGood, found) => check(`${version}: ${name}`, isGood, found);
  const cases = ["plain", "price", "denied", "context", "limit", "crash", "secret"];
  const ids = {};
  for (const name of cases) ids[name] = await swarm.begin(`Say hi: case-${name}`);
  const ends = {};
  for (const name of cases) ends[name] = await swarm.endOf(ids[name]);

  // The runner of 1.70 takes the output from the task's progress, which an agent stores by the swarm's MCP server.
  const isAnswered = (task, output) => task?.status === "completed" && (isOld || task.output === output);
  is("a task completes, with its output", isAnswered(ends.plain, "Hi from the agent."), ends.plain);
  const logs = swarm.rows("SELECT * FROM session_logs WHERE taskId = ?", ids.plain);
  is(
    "its log is a transcript by trunkline",
    logs.some(({ cli, content }) => cli === "trunkline" && content.includes('"type":"text","text":"Hi')),
    logs,
  );
  is(
    "no option that is a fact is warned of",
    !logs.some(({ content }) => /takes no .*(task_id|role|iteration)/.test(content)),
    logs,
  );
  if (!isOld) is("its progress is the task's", ends.plain.progress === "half of it", ends.plain.progress);
  const [plain, ...others] = swarm.costs(ids.plain);
  is(
    "it has one row of cost",
    plain?.totalCostUsd === 0.25 && plain.inputTokens === 200 && plain.outputTokens === 80 && others.length === 0,
    plain,
  );
  const [price] = swarm.costs(ids.price);
  const isRow = price?.totalCostUsd === 0 && price.inputTokens === 1200 && price.outputTokens === 80;
  is("a row without a price has tokens, model and 0", isRow && price.model === "gpt-of-the-test", price);
  for (const name of cases.filter((name) => swarm.costs(ids[name]).length !== 1))
    is(`${name} has a row of cost`, false, swarm.costs(ids[name]));

  is("a denied tool ends well", isAnswered(ends.denied, "Then not."), ends.denied);
  const context = swarm.rows("SELECT * FROM task_context_snapshots WHERE taskId = ? AND eventType != 'completion'", ids.context);
  is(
    "a context without its size is stored",
    context.some((row) => row.contextUsedTokens === 150),
    context,
  );
  is(
    "a compaction is stored",
    context.some((row) => row.eventType === "compaction" && row.preCompactTokens === 190),
    context,
  );
  is(
    "a rate limit fails the task with its text",
    ends.limit?.status === "failed" && ends.limit.failureReason.includes("429"),
    ends.limit,
  );
  if (!isOld) {
    const log = fs.readFileSync(join(swarm.folder, "worker-mock.log"), "utf8"); // a later success frees the key
    const [, key] = /as rate-limited until (\S+)/.exec(log) ?? [];
    const minutes = (Date.parse(key) - Date.now()) / 60_000;
    is("its key cools down until the limit ends", minutes > 100 && minutes < 121, key);
  }
  is(
    "a crash fails the task with its exit code",
    ends.crash?.status === "failed" && /3/.test(ends.crash.failureReason),
    ends.crash,
  );
  const everything = JSON.stringify([ends.secret, swarm.rows("SELECT content FROM session_logs WHERE taskId = ?", ids.secret)]);
  is("a secret is in no output and no log", ends.secret?.status === "completed" && !everything.includes(KEY), everything);

  const cancelled = await swarm.begin("Say hi: case-cancel");
  await until(() => swarm.task(cancelled)?.status === "in_progress", 30_000);
  await until(() => swarm.rows("SELECT * FROM session_logs WHERE taskId = ?", cancelled).length > 0, 30_000);
  const beat = () => swarm.rows("SELECT * FROM active_sessions WHERE taskId = ? AND lastHeartbeatAt > startedAt", cancelled)[0];
  is("its session is reported as alive", await until(beat, 45_000), beat());
  await swarm.ask("POST", `/api/tasks/${cancelled}/cancel`, { reason: "not wanted" });
  const row = await until(() => swarm.costs(cancelled)[0], 60_000);
  is(
    "a cancelled task is cancelled, and its session ends with a row",
    swarm.task(cancelled)?.status === "cancelled" && row?.isError === 1,
    [swarm.task(cancelled), row],
  );
  const sessions = () => swarm.rows("SELECT * FROM active_sessions WHERE taskId = ?", cancelled);
  is("no session of it is left", await until(() => sessions().length === 0, 20_000), sessions());

  const child = await swarm.begin("Say hi: case-child", { parentTaskId: ids.plain });
  const ended = await swarm.endOf(child);
  is("a child task completes", isAnswered(ended, "The child's answer."), ended);

  if (isOld) return;
  const steered = await swarm.begin("Say hi: case-steer");
  await until(() => swarm.task(steered)?.progress === "waits", 60_000);
  const answer = await swarm.ask("POST", `/api/tasks/${steered}/steer`, { message: "and then case-follow", mode: "steer" });
  const both = await swarm.endOf(steered);
  const [message] = swarm.rows("SELECT * FROM task_steering_messages WHERE task_id = ?", steered);
  is("steering is delivered to the agent", both?.output === "First.\n\nThe follow-up." && message?.status === "delivered", [
    both?.output,
    message,
    answer,
  ]);
  const [agent] = swarm.rows("SELECT * FROM agents WHERE id = ?", swarm.agentId);
  is("its credentials are reported", JSON.stringify(agent).includes("sdk-delegated"), agent);
}

async function claudeTasks(swarm, isOld) {
  const is = (name, isGood, found) => check(`${swarm.version}: Claude: ${name}`, isGood, found);
  const [plain, denied, limited] = [
    await swarm.begin("FAKE:text"),
    await swarm.begin("FAKE:bash:touch made;;"),
    await swarm.begin("FAKE:err:429"),
  ];
  const ended = await swarm.endOf(plain);
  is("a task completes", ended?.status === "completed" && (isOld || ended.output.includes("Hello from the fake model.")), ended);
  const [cost] = swarm.costs(plain);
  is("it has a row of cost", cost?.outputTokens === 34 && cost.inputTokens === 200 && /claude/.test(cost.model), cost);
  is("its own session is the task's", /^[0-9a-f-]{36}$/.test(ended?.claudeSessionId), ended);
  const refusal = await swarm.endOf(denied);
  const logs = swarm.rows("SELECT content FROM session_logs WHERE taskId = ?", denied);
  const isDenied = refusal?.status === "completed" && !fs.existsSync(join(swarm.work, "made"));
  is(
    "a denied tool is denied, and in the log",
    isDenied && logs.some(({ content }) => content.includes('"is_error":true')),
    logs,
  );
  const limit = await swarm.endOf(limited);
  is("a rate limit fails the task", limit?.status === "failed" && /rate.?limit|429/i.test(limit.failureReason), limit);
  const child = await swarm.endOf(await swarm.begin("FAKE:text", { parentTaskId: plain }));
  is("a child task completes", child?.status === "completed", child);
  if (isOld) is("it resumes the session of its parent", child?.claudeSessionId === ended?.claudeSessionId, [child, ended]);
  is(
    "every task has a row of cost",
    [plain, denied, limited].every((id) => swarm.costs(id).length === 1),
    limited,
  );
}

process.on("exit", () => {
  for (const child of running) process.kill(-child.pid, "SIGKILL");
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));
fs.mkdirSync(join(SCRATCH, "bin"));
for (const [name, program] of [
  ["trunkline", TRUNKLINE],
  ["bun", TRUNKLINE_BUN],
])
  fs.symlinkSync(resolve(program), join(SCRATCH, "bin", name));
if (TRUNKLINE_AGENT_SWARM) await drive(TRUNKLINE_AGENT_SWARM);
else skip("agent-swarm 1.135", "no TRUNKLINE_AGENT_SWARM");
if (TRUNKLINE_AGENT_SWARM_OLD) await drive(TRUNKLINE_AGENT_SWARM_OLD);
else skip("agent-swarm 1.70", "no TRUNKLINE_AGENT_SWARM_OLD");
process.exitCode = failed > 0 ? 1 : 0;
