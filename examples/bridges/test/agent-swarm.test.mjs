// Drives the bridge as a worker of agent-swarm does: a session for each task, events to its API, the result at the end.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createServer } from "node:http";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { unixSocket } from "@trunkline/sdk/client";
import { TrunklineAdapter } from "../dist/agent-swarm/providers/trunkline/adapter.js";
import { checkTrunklineCredentials } from "../dist/agent-swarm/providers/trunkline/credentials.js";
import { AGENT, example, NONE, serving, skipWithout } from "./programs.mjs";

const scratch = mkdtempSync(join(tmpdir(), "bridge-swarm-"));
let daemon; // ended also where its test fails
after(async () => {
  if (daemon && daemon.exitCode === null && daemon.signalCode === null) {
    const ended = new Promise((resolve) => daemon.on("exit", resolve));
    daemon.kill();
    await ended;
  }
  rmSync(scratch, { recursive: true, force: true });
});
let tasks = 0;
const shown = [];
console.error = (...what) => shown.push(...what);

function configOf(prompt, more = {}) {
  const taskId = `task-${++tasks}`;
  const logFile = join(scratch, "logs", taskId, "run.jsonl");
  const given = {
    role: "worker",
    agentId: "agent-9",
    taskId,
    apiUrl: "http://127.0.0.1:1",
    apiKey: "key-of-the-swarm-0123456789",
  };
  return { prompt, systemPrompt: "", model: "", cwd: scratch, logFile, ...given, ...more };
}

async function run(adapter, config, during = () => {}) {
  const session = await adapter.createSession(config);
  const events = [];
  session.onEvent((event) => {
    events.push(event);
    during(event, session);
  });
  const result = await session.waitForCompletion();
  const of = (type) => events.filter((event) => event.type === type);
  const custom = (name) =>
    of("custom")
      .filter((event) => event.name === name)
      .map(({ data }) => data);
  return { session, events, of, custom, result, log: readFileSync(config.logFile, "utf8") };
}

const swarm = (args = serving(AGENT), more = {}) => new TrunklineAdapter({ args, ...more });

// Most of a run is waiting, so some go side by side.
describe("agent-swarm", { concurrency: 4 }, () => {
  test("a task goes from prompt to result, and each event has its kind", { skip: NONE }, async () => {
    const config = configOf("work", { model: "large-2", iteration: 2 });
    const { events, of, custom, result, log } = await run(swarm(), config);
    const variant = { harnessVariant: "agent", harnessVariantMeta: { version: "1" } };
    assert.deepEqual(of("session_init"), [{ type: "session_init", sessionId: "native-1", ...variant }]);
    assert.deepEqual(
      of("message").map(({ role, content }) => [role, content]),
      [
        ["assistant", "I look around."],
        ["assistant", "Done."],
      ],
    );
    assert.deepEqual(custom("trunkline.thinking"), [{ content: "Let me see." }]);
    assert.deepEqual(of("tool_start"), [{ type: "tool_start", toolCallId: "call-1", toolName: "Bash", args: { command: "ls" } }]);
    const [{ toolCallId, toolName, result: ended }] = of("tool_end");
    assert.deepEqual([toolCallId, toolName, ended.content, ended.isError], ["call-1", "Bash", "1 file", false]);
    assert.deepEqual(
      custom("trunkline.tool_update").map(({ content }) => content),
      ["README.md\n"],
    );
    assert.ok(of("raw_stderr").some(({ content }) => content === "a warning of the agent"));
    assert.deepEqual(of("progress"), [{ type: "progress", message: "half of it" }]);
    assert.equal(custom("trunkline.plan").length, 1);
    assert.equal(custom("trunkline.rate_limit")[0].window, "five_hour");
    assert.deepEqual(custom("agent.own"), [{ deep: [1] }]);
    assert.deepEqual(of("context_usage"), [
      {
        type: "context_usage",
        contextUsedTokens: 150,
        contextTotalTokens: 200,
        contextPercent: 75,
        outputTokens: 7,
        contextFormula: "harness-reported",
      },
    ]);
    assert.deepEqual(of("compaction"), [
      { type: "compaction", preCompactTokens: 190, compactTrigger: "auto", contextTotalTokens: 200 },
    ]);
    assert.deepEqual(of("error"), [{ type: "error", message: "a hiccup", category: "server_error" }]);
    assert.deepEqual(custom("trunkline.not_taken"), []);

    const cost = {
      sessionId: "native-1",
      taskId: config.taskId,
      agentId: "agent-9",
      totalCostUsd: 0.25,
      inputTokens: 150,
      outputTokens: 80,
      cacheReadTokens: 1000,
      cacheWriteTokens: 50,
      durationMs: 1234,
      numTurns: 3,
      model: "large-2",
      isError: false,
    };
    const output = "I look around.Done.";
    const { rateLimitWindows, ...rest } = result;
    assert.deepEqual(rest, {
      exitCode: 0,
      sessionId: "native-1",
      cost,
      output,
      isError: false,
      appliedReasoningEffort: null,
    });
    assert.deepEqual(Object.keys(rateLimitWindows), ["five_hour"]);
    assert.equal(rateLimitWindows.five_hour.status, "allowed");
    assert.deepEqual(events.at(-1), { type: "result", cost, output, isError: false });

    // The log has each event as a line, with a time; what the agent said stands there verbatim.
    const lines = log
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    assert.deepEqual(
      lines.map(({ type }) => type),
      events.map(({ type }) => type),
    );
    for (const { timestamp } of lines) assert.ok(Date.parse(timestamp));
    const raw = of("raw_log").map(({ content }) => JSON.parse(content));
    assert.equal(raw.find(({ type }) => type === "turn.complete").session_params.branch, 2);
    // Its form is that of a transcript that the swarm's page draws.
    assert.deepEqual(
      raw.filter(({ message }) => message?.content).map(({ type, message }) => [type, message.content[0]]),
      [
        ["assistant", { type: "thinking", thinking: "Let me see." }],
        ["assistant", { type: "text", text: "I look around." }],
        ["assistant", { type: "tool_use", id: "call-1", name: "Bash", input: { command: "ls" } }],
        ["user", { type: "tool_result", tool_use_id: "call-1", content: "1 file", is_error: false }],
        ["assistant", { type: "text", text: "Done." }],
      ],
    );
  });

  test("a session is there at once, however long its agent takes; abort ends it, once and again", { skip: NONE }, async () => {
    let session;
    void swarm(serving("sleep 60"))
      .createSession(configOf("work"))
      .then((made) => (session = made));
    await null;
    await null;
    assert.ok(session, "it does not wait");
    const [one, two] = [session.abort(), session.abort()];
    await Promise.all([one, two]);
    const result = await session.waitForCompletion();
    assert.deepEqual([result.exitCode, result.isError, result.errorCategory], [130, true, "cancelled"]);
    await session.abort();
  });

  test("abort in the middle of a turn stops it, even where the agent does not listen", { skip: NONE }, async () => {
    for (const prompt of ["wait", "deaf"]) {
      let [aborts, seen] = [[], false];
      const { result, of } = await run(swarm(), configOf(prompt), ({ type }, session) => {
        // The agent runs when it has told its id; what it says comes once its message has ended.
        if (type === "session_init" && !seen) [seen, aborts] = [true, [session.abort(), session.abort()]];
      });
      await Promise.all(aborts);
      assert.deepEqual([result.exitCode, result.isError, result.errorCategory], [130, true, "cancelled"], JSON.stringify(result));
      assert.equal(of("result").length, 1);
      assert.equal(result.cost.isError, true);
    }
  });

  test("a secret stands in no event, no result and no log, whatever it is cut into", { skip: NONE }, async () => {
    const env = { DEPLOY_TOKEN: "tok-9f8e7d6c5b4a3f2e1d" };
    const shape = "ghp_0123456789abcdefghijABCDEFGHIJ";
    for (const [pieces, secret] of [
      [["tok-9f8e7d6c", "5b4a3f2e1d"], env.DEPLOY_TOKEN],
      [["ghp_01234567", shape.slice(12)], shape],
      [["key-of-the-", "swarm-0123456789"], "key-of-the-swarm-0123456789"],
    ]) {
      const { events, result, log } = await run(swarm(), configOf(`secrets ${pieces.join(" ")}`, { env }));
      const all = JSON.stringify([events, result]) + log;
      assert.ok(!all.includes(secret), secret);
      assert.match(result.output, /^\[REDACTED:\w+\]$/);
      assert.ok(all.split("[REDACTED:").length > 8, "each place shows that something was hidden");
    }
  });

  test("the agent reaches the swarm's MCP server by its three headers, and gets what the task says", { skip: NONE }, async () => {
    let seen;
    const server = createServer(({ url, headers }, answer) => ((seen = { url, ...headers }), answer.writeHead(204).end()));
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const apiUrl = `http://127.0.0.1:${server.address().port}/`;
    const installed = { mcpServers: async () => ({ docs: { type: "http", url: "http://127.0.0.1:2/mcp" } }) };
    const config = configOf("mcp", { apiUrl });
    assert.equal((await run(swarm(), config)).result.output, "204");
    const { url, authorization, "x-agent-id": agent, "x-source-task-id": task } = seen;
    assert.deepEqual([url, authorization, agent, task], ["/mcp", "Bearer key-of-the-swarm-0123456789", "agent-9", config.taskId]);
    server.close();

    const said = {
      systemPrompt: "You are a worker.\n",
      model: "large-2",
      iteration: 3,
      env: { CI: "1" },
      additionalArgs: ["--fast", "--resume", "native-1"],
    };
    const asked = configOf("options", said);
    const { result } = await run(swarm(undefined, installed), asked);
    const given = JSON.parse(result.output);
    assert.deepEqual(Object.keys(given.mcp_servers), ["docs", "agent-swarm"]);
    assert.deepEqual(
      [given.system_prompt, given.model, given.iteration, given.role],
      ["You are a worker.\n", "large-2", 3, "worker"],
    );
    assert.deepEqual([given.env, given.extra_args, given.cwd], [{ CI: "1" }, ["--fast"], scratch]);
    assert.deepEqual([given.resume, given.task_id], [{ native_session_id: "native-1" }, asked.taskId]);

    // Those of the swarm's API; their secrets are hidden, whatever their names.
    const header = "value-of-a-header-0123";
    const servers = [
      {
        name: "notes",
        transport: "stdio",
        isActive: true,
        isEnabled: true,
        command: "notes",
        args: '["-v"]',
        resolvedEnv: { A: "b" },
      },
      {
        name: "wiki",
        transport: "sse",
        isActive: true,
        isEnabled: true,
        url: "http://w/",
        headers: "{",
        resolvedHeaders: { X: header },
      },
      { name: "off", transport: "stdio", isActive: true, isEnabled: false, command: "off" },
    ];
    const api = createServer(({ url }, answer) => {
      const isList = url === "/api/agents/agent-9/mcp-servers?resolveSecrets=true";
      answer.writeHead(isList ? 200 : 404).end(JSON.stringify({ servers }));
    });
    await new Promise((resolve) => api.listen(0, "127.0.0.1", resolve));
    const listed = await run(swarm(), configOf("options", { apiUrl: `http://127.0.0.1:${api.address().port}` }));
    const { notes, wiki, off } = JSON.parse(listed.result.output).mcp_servers;
    assert.deepEqual([notes, off], [{ command: "notes", args: ["-v"], env: { A: "b" } }, undefined]);
    assert.deepEqual(wiki, { type: "sse", url: "http://w/", headers: { X: "[REDACTED:X]" } });
    assert.ok(!listed.log.includes(header));
    api.close();
    api.closeAllConnections();

    const broken = { mcpServers: async () => Promise.reject(new Error("the list is away")) };
    const without = await run(swarm(undefined, broken), configOf("options"));
    assert.deepEqual(Object.keys(JSON.parse(without.result.output).mcp_servers), ["agent-swarm"]);
    assert.ok(without.of("raw_stderr").some(({ content }) => content.includes("the list is away")));
  });

  test("a session is resumed; a lost one says so", { skip: NONE }, async () => {
    const kept = await run(swarm(), configOf("work", { resumeSessionId: "native-1" }));
    assert.deepEqual([kept.result.sessionId, kept.custom("trunkline.context")], ["native-1", [{ context: "kept" }]]);
    const lost = await run(swarm(), configOf("work", { resumeSessionId: "of another host" }));
    assert.deepEqual([lost.result.sessionId, lost.custom("trunkline.context")], ["native-2", [{ context: "lost" }]]);
  });

  test(
    "canResume tells agents that can from those that cannot; formatCommand writes as the agent wants it",
    { skip: NONE },
    async () => {
      const file = join(scratch, "agents.json");
      const agents = [
        { id: "claude", profile: "claude-code" },
        { id: "echo", profile: "echo" },
      ];
      writeFileSync(file, JSON.stringify({ agents }));
      const [claude, echo, none] = ["claude", "echo", "none"].map(
        (agent) => new TrunklineAdapter({ agent, args: ["serve", "--config", file] }),
      );
      assert.deepEqual(
        [await claude.canResume("id"), await claude.canResume(""), await echo.canResume("id"), await none.canResume("id")],
        [true, false, false, false],
      );
      assert.equal(await new TrunklineAdapter({ command: "no-such-relay" }).canResume("id"), false);

      assert.deepEqual([claude.formatCommand("review-pr"), claude.name], ["/review-pr", "trunkline"]);
      assert.equal(new TrunklineAdapter({ commandForm: "/skill:{name}" }).formatCommand("a$&b"), "/skill:a$&b");
      const adapter = swarm();
      await run(adapter, configOf("work"));
      assert.equal(adapter.formatCommand("review-pr"), "/skill:review-pr");
    },
  );

  test("each listener gets each event, a late one what came before; one that fails harms no one", { skip: NONE }, async () => {
    const session = await swarm().createSession(configOf("work"));
    await session.waitForCompletion();
    const [first, second] = [[], []];
    session.onEvent((event) => first.push(event.type));
    session.onEvent((event) => second.push(event.type));
    assert.deepEqual([first.includes("session_init"), first.at(-1), second], [true, "result", []]);

    const other = await swarm().createSession(configOf("work"));
    const [failing, fine] = [[], []];
    other.onEvent(({ type }) => {
      failing.push(type);
      throw new Error("a listener's own");
    });
    other.onEvent(({ type }) => fine.push(type));
    assert.equal((await other.waitForCompletion()).exitCode, 0);
    assert.equal(shown.filter((error) => error.message === "a listener's own").length, failing.length);
    assert.deepEqual([failing, fine.at(-1)], [fine, "result"]);
  });

  test("permissions are denied unless the worker decides; a question has no answer", { skip: NONE }, async () => {
    const denied = await run(swarm(), configOf("ask"));
    assert.equal(denied.result.output, "denied, no answer");
    assert.deepEqual(denied.custom("trunkline.permission"), [
      { tool: "Bash", description: "Remove it", resource: "rm -r target", answer: false },
    ]);
    assert.deepEqual(denied.custom("trunkline.question"), [{ prompt: "Which one?", cancelled: true }]);
    const config = configOf("ask");
    const onPermission = ({ tool }, { taskId }) => tool === "Bash" && taskId === config.taskId;
    assert.equal((await run(swarm(undefined, { onPermission }), config)).result.output, "approved, no answer");
  });

  test("what fails says how, and its category is the swarm's", { skip: NONE }, async () => {
    const of = async (adapter, prompt, more) => {
      const { result, of: events } = await run(adapter, configOf(prompt, more));
      assert.deepEqual(events("error").at(-1), { type: "error", message: result.failureReason, category: result.errorCategory });
      assert.equal(result.cost.totalCostUsd, 0); // a row needs a number
      return [result.exitCode, result.isError, result.errorCategory, result.failureReason];
    };
    assert.deepEqual(await of(swarm(), "fail auth"), [1, true, "authentication_failed", "it fails: auth"]);
    assert.deepEqual(await of(swarm(), "fail context_exhausted"), [1, true, "context_overflow", "it fails: context_exhausted"]);
    assert.deepEqual(await of(swarm(), "fail rate_limit"), [1, true, "rate_limit", "it fails: rate_limit"]);
    assert.deepEqual((await of(swarm(serving("no-such-program")), "work")).slice(0, 3), [1, true, "not_installed"]);
    const [exitCode, , , reason] = await of(new TrunklineAdapter({ command: "no-such-relay" }), "work");
    assert.deepEqual([exitCode, reason.includes("no-such-relay")], [1, true]);
    const [, , category, refusal] = await of(new TrunklineAdapter({ args: ["serve", "--adapter", AGENT] }), "work");
    assert.deepEqual([category, refusal.includes("--session-may")], ["permission_denied", true]);
  });

  test("tasks side by side on one daemon do not meet", { skip: NONE }, async () => {
    const [command, ...args] = AGENT.split(" ");
    const agents = [{ id: "agent", profile: "external", session_may: ["cwd", "mcp_servers"], external: { command, args } }];
    const file = join(scratch, "daemon.json");
    writeFileSync(file, JSON.stringify({ agents }));
    const env = { ...process.env, HOME: scratch, XDG_STATE_HOME: join(scratch, "xdg") };
    const up = ["up", "--http", "127.0.0.1:0", "--json", "--state", join(scratch, "state"), "--config", file];
    daemon = spawn("trunkline", up, { env, stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    for await (const chunk of daemon.stdout) if ((said += chunk).includes("}\n")) break;
    const adapter = new TrunklineAdapter({ connect: unixSocket(JSON.parse(said).socket), agent: "agent" });
    const prompts = Array.from({ length: 8 }, (_, task) => `say ${task}`);
    const runs = await Promise.all(prompts.map((prompt) => run(adapter, configOf(prompt))));
    assert.deepEqual(
      runs.map(({ result }) => result.output),
      prompts,
    );
    for (const { of } of runs) assert.equal(of("message").length, 1);
    const { custom } = await run(adapter, configOf("work"));
    assert.equal(custom("trunkline.plan").length, 1);
    assert.equal(await adapter.canResume("native-1"), true);
  });

  test("what a sub-agent says, or was said long ago, is not one of its messages", { skip: NONE }, async () => {
    const { of, custom } = await run(swarm(), configOf("delegate"));
    assert.deepEqual(of("message"), [{ type: "message", role: "assistant", content: "It helped." }]);
    assert.deepEqual(custom("trunkline.sub_agent"), [{ toolCallId: "call-1", content: "I help." }]);
    assert.ok(of("raw_log").some(({ content }) => content.includes("long ago")));
  });

  test(
    "an agent that takes no options says which, and goes into the folder by its process",
    { skip: skipWithout("python3") },
    async () => {
      const adapter = swarm(serving(`python3 ${example("python/echo.py")}`), { folder: "process", systemPromptIn: "prompt" });
      const { result, custom, session, of } = await run(
        adapter,
        configOf("hello", { systemPrompt: "Be brief.", model: "large-2", reasoningEffort: "high" }),
      );
      assert.equal(result.output, "Be brief.\n\nhello");
      assert.deepEqual(custom("trunkline.not_taken"), [{ options: ["mcp_servers", "model", "reasoning_effort"] }]);
      assert.equal(result.appliedReasoningEffort, null);
      assert.deepEqual(
        of("session_init").map(({ sessionId }) => sessionId),
        [session.sessionId],
      );
      assert.deepEqual([result.cost.totalCostUsd, result.cost.inputTokens, result.cost.model], [0, undefined, "large-2"]);
      const refused = await run(swarm(serving(`python3 ${example("python/sdk_adapter.py")}`)), configOf("hello"));
      assert.match(refused.result.failureReason, /does not enforce cwd/);
    },
  );

  test("Claude Code, as it was recorded: cost, context, id", { skip: skipWithout("fake_cli") }, async () => {
    const file = join(scratch, "claude.json");
    const claude = { command: "fake_cli", env: { FAKE_CLI_SERVE: "claude" } };
    writeFileSync(file, JSON.stringify({ agents: [{ id: "claude", profile: "claude-code", claude_code: claude }] }));
    const adapter = swarm(["serve", "--session-may", "all", "--config", file], { agent: "claude" });
    const { result, of, custom, session } = await run(adapter, configOf("FAKE:text", { systemPrompt: "Be brief." }));
    assert.equal(result.output, "Hello from the fake model.");
    const { totalCostUsd, inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, numTurns, model } = result.cost;
    assert.deepEqual(
      [totalCostUsd, inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, numTurns, model],
      [0.00141, 200, 34, 1000, 0, 1, "claude-sonnet-4-5"],
    );
    assert.equal(of("context_usage")[0].contextUsedTokens, 1201);
    assert.deepEqual([of("session_init")[0].sessionId, of("session_init").length], [session.sessionId, 1]);
    assert.ok(
      custom("trunkline.not_taken").every(
        ({ options }) => !options.includes("mcp_servers") && !options.includes("system_prompt"),
      ),
    );
  });

  test("a task is aborted with a reason, which its result has", { skip: NONE }, async () => {
    let aborted;
    const { result } = await run(swarm(), configOf("wait"), ({ type }, session) => {
      if (type === "session_init") aborted ??= session.abort("graceful_shutdown");
    });
    await aborted;
    assert.deepEqual([result.exitCode, result.failureReason], [130, "aborted: graceful_shutdown"]);
  });

  test("steering joins the running turn, else it is the next one; the task ends after the last", { skip: NONE }, async () => {
    const adapter = swarm();
    assert.deepEqual(adapter.traits, {
      hasMcp: true,
      nativeSkillDiscovery: false,
      hasLocalEnvironment: true,
      steerModes: ["steer", "queue"],
    });
    assert.deepEqual(new TrunklineAdapter({ traits: { hasMcp: false, steerModes: [] } }).traits.steerModes, []);
    const answers = [];
    const { result, of, session } = await run(adapter, configOf("steered"), async ({ type }, session) => {
      if (type !== "progress") return;
      const isFirst = answers.length === 0;
      if (isFirst) answers.push(await session.deliverSteering({ mode: "queue", text: "steered" }));
      answers.push(await session.deliverSteering({ mode: "steer", text: isFirst ? "tests" : "more" }));
    });
    const [queued, steered] = [
      { delivered: true, mode: "queue" },
      { delivered: true, mode: "steer" },
    ];
    assert.deepEqual(answers, [queued, steered, steered]);
    assert.equal(result.output, "ready, then tests\n\nready, then more");
    assert.deepEqual([of("result").length, result.cost.inputTokens, result.cost.numTurns], [1, 20, 2]);
    assert.equal((await session.deliverSteering({ mode: "queue", text: "late" })).delivered, false);
  });

  test("a cost has its provider, its models and the input as the provider's prices count it", { skip: NONE }, async () => {
    const costOf = async (prompt, more) => (await run(swarm(undefined, more), configOf(prompt))).result.cost;
    const large = { model: "large", outputTokens: 50, cacheReadTokens: 600, cacheWriteTokens: 100 };
    const small = { model: "small", inputTokens: 200, outputTokens: 30, cacheReadTokens: 0, cacheWriteTokens: 0 };
    const claude = await costOf("bill anthropic");
    assert.deepEqual(
      claude.models,
      [{ ...large, inputTokens: 300 }, small].map((model) => ({ ...model })),
    );
    assert.deepEqual(
      [claude.provider, claude.inputTokens, claude.totalCostUsd, claude.reasoningOutputTokens, "numTurns" in claude],
      ["claude", 500, 0, 20, false],
    );
    const codex = await costOf("bill openai");
    assert.deepEqual([codex.provider, codex.inputTokens, codex.models[0].inputTokens], ["codex", 1200, 1000]);
    assert.deepEqual(
      [(await costOf("bill mine")).provider, (await costOf("bill mine", { pricedAs: "pi" })).provider],
      [undefined, "pi"],
    );
    // A turn that does not report its models would be missing from a row that has any.
    const session = await swarm().createSession(configOf("bill anthropic"));
    await session.deliverSteering({ mode: "queue", text: "work" });
    const { cost } = await session.waitForCompletion();
    assert.deepEqual([cost.models, cost.outputTokens], [undefined, 160]);
    for (const value of [claude.inputTokens, claude.durationMs, codex.outputTokens]) assert.ok(Number.isInteger(value));
  });

  test("context and compaction have numbers, or no member: the swarm's API refuses null", { skip: NONE }, async () => {
    const { of, custom } = await run(swarm(), configOf("shorten 200"));
    const formula = { contextFormula: "harness-reported" };
    assert.deepEqual(of("context_usage"), [
      { type: "context_usage", contextUsedTokens: 150, ...formula },
      { type: "context_usage", contextUsedTokens: 170, contextTotalTokens: 200, contextPercent: 85, ...formula },
    ]);
    assert.deepEqual(custom("trunkline.compaction"), [{ preCompactTokens: 150, compactTrigger: "manual" }]);
    assert.deepEqual(of("compaction"), [
      { type: "compaction", preCompactTokens: 170, compactTrigger: "auto", contextTotalTokens: 200 },
    ]);
  });

  test("a rate limit has its window and the time of its end, within the swarm's bounds", { skip: NONE }, async () => {
    const after = async (seconds) => {
      const { result } = await run(swarm(), configOf(`limited ${seconds}`));
      assert.equal(result.failureReason, "[rate-limit] come back later");
      const { status, utilization, resetsAt } = result.rateLimitWindows.five_hour;
      assert.deepEqual([status, utilization, Math.abs(resetsAt - Date.now() / 1000 - seconds) < 30], ["rejected", 1, true]);
      return (Date.parse(result.rateLimitResetAt) - Date.now()) / 1000;
    };
    for (const [seconds, bounded] of [
      [3600, 3600],
      [1, 60],
      [40 * 86400, 7 * 86400],
    ]) {
      const left = await after(seconds);
      assert.ok(left <= bounded && left > bounded - 30, `${seconds}: ${left}`);
    }
  });

  test("the effort of a task is an option in the agent's words, and the result has what is applied", { skip: NONE }, async () => {
    const of = async (reasoningEffort, prompt = "options", more) => {
      const { result } = await run(swarm(serving(`${AGENT} --thinks`), more), configOf(prompt, { reasoningEffort }));
      return [JSON.parse(result.output).reasoning_effort, result.appliedReasoningEffort];
    };
    assert.deepEqual(await of("high"), ["high", "high"]);
    assert.deepEqual(await of("off", "options", { efforts: { off: "none" } }), ["none", "off"]);
    assert.deepEqual(await of("max"), ["max", null]); // the agent thinks less hard
    assert.deepEqual(await of(undefined), [undefined, null]);
  });

  test("the swarm is told that the session lives, and asked whether it is cancelled", { skip: NONE }, async () => {
    const requests = [];
    let cancelled = [];
    const server = createServer(({ method, url, headers }, answer) => {
      requests.push(`${method} ${url}`);
      assert.deepEqual([headers.authorization, headers["x-agent-id"]], ["Bearer key-of-the-swarm-0123456789", "agent-9"]);
      answer.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ cancelled }));
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const config = configOf("cancelled", { apiUrl: `http://127.0.0.1:${server.address().port}` });
    cancelled = [{ id: "another" }, { id: config.taskId }];
    const { result } = await run(swarm(), config);
    assert.deepEqual([result.exitCode, result.failureReason], [130, "aborted: cancelled"]);
    assert.deepEqual(
      [...new Set(requests)].sort(),
      [
        `GET /cancelled-tasks?taskId=${config.taskId}`,
        "PUT /api/agents/agent-9/activity",
        `PUT /api/active-sessions/heartbeat/${config.taskId}`,
        "GET /api/agents/agent-9/mcp-servers?resolveSecrets=true",
      ].sort(),
    );
    server.close();
    server.closeAllConnections();
  });

  test("credentials are those that doctor finds; what is missing is named", { skip: NONE }, async () => {
    assert.deepEqual(await checkTrunklineCredentials({}, { args: serving(AGENT) }), {
      ready: true,
      missing: [],
      satisfiedBy: "sdk-delegated",
    });
    const none = await checkTrunklineCredentials({}, { command: "no-such-relay" });
    assert.deepEqual([none.ready, none.missing, none.hint.includes("no-such-relay")], [false, [], true]);
    const gone = await checkTrunklineCredentials({}, { args: serving("no-such-program") });
    assert.deepEqual([gone.ready, gone.missing, gone.hint.includes("no-such-program")], [false, [], true]);
    const doctor = join(scratch, "doctor");
    const check = {
      code: "adapter:claude.auth",
      level: "error",
      message: "claude is not logged in",
      hint: "set MY_API_KEY or run it",
    };
    const report = { host: { checks: [] }, agents: [{ checks: [{ code: "x", level: "info" }, check] }] };
    writeFileSync(doctor, `#!/bin/sh\necho "$@" "$OWN" >&2\necho '${JSON.stringify(report)}'\nexit 1\n`, { mode: 0o755 });
    assert.deepEqual(await checkTrunklineCredentials({}, { command: doctor }), {
      ready: false,
      missing: ["MY_API_KEY"],
      hint: "claude is not logged in: set MY_API_KEY or run it",
    });
    writeFileSync(doctor, '#!/bin/sh\necho "$@" "$OWN" >&2\n', { mode: 0o755 });
    const { hint } = await checkTrunklineCredentials(
      { OWN: "variable" },
      { command: doctor, agent: "a", args: ["serve", "--config", "f"] },
    );
    assert.match(hint, /^doctor --json --config f a variable/);
  });

  test("the same in Bun", { skip: skipWithout("bun") }, () => {
    const config = JSON.stringify(configOf("work"));
    const { status, stdout, stderr } = spawnSync(
      "bun",
      [new URL("bun.ts", import.meta.url).pathname, JSON.stringify(serving(AGENT)), config],
      { encoding: "utf8" },
    );
    assert.equal(status, 0, stderr);
    const { result, types } = JSON.parse(stdout);
    assert.deepEqual(
      [result.output, result.exitCode, result.cost.totalCostUsd, types.includes("session_init"), types.at(-1)],
      ["I look around.Done.", 0, 0.25, true, "result"],
    );
  });
});
