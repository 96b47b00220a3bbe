// Drives the server's part of the bridge as Galyarder does.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { ADA, adapter, prompted, scratch, TOKEN, wake } from "./galyarder.mjs";
import { plugin, runningProcesses } from "./galyarder-plugin.mjs";
import { AGENT, example, NONE, serving, skipWithout } from "./programs.mjs";

const WORK = { inputTokens: 150, outputTokens: 80, cachedInputTokens: 1000 }; // of the agent's "work"

after(() => rmSync(scratch, { recursive: true, force: true }));

// Most of a run is waiting, so some go side by side.
describe("Galyarder", { concurrency: 4 }, () => {
  test("a run goes from wake to result", { skip: NONE }, async () => {
    const { result, metas, transcript, stderr, order } = await wake({ model: "large-2", agent: "adapter" }, prompted("work"));
    const { resultJson, ...rest } = result;
    assert.deepEqual(rest, {
      exitCode: 0,
      signal: null,
      timedOut: false,
      usage: WORK,
      sessionId: "native-1",
      sessionParams: { sessionId: "native-1", cwd: scratch, agent: "adapter", params: { branch: 2 }, usage: WORK },
      sessionDisplayId: "native-1",
      provider: "example",
      biller: "example",
      billingType: "unknown",
      model: "large-2",
      costUsd: 0.25,
      summary: "looked around",
      question: null,
      clearSession: false,
    });
    assert.equal(resultJson.num_turns, 3);
    const [{ before, adapterType, command, commandArgs, cwd, prompt }] = metas;
    assert.deepEqual(
      [metas.length, before, adapterType, command, commandArgs.at(-1), cwd, prompt],
      [1, true, "trunkline", "trunkline", AGENT, scratch, "work"],
    );
    assert.match(stderr, /^a warning of the agent$/m);
    const at = (text) => order.findIndex((chunk) => chunk.includes(text));
    assert.ok(at("1 file") < at("a warning of the agent") && at("a warning of the agent") < at("half of it"), "in order");

    const of = (kind) => transcript.filter((entry) => entry.kind === kind);
    assert.deepEqual(of("init")[0], { kind: "init", ts: "now", model: "large-2", sessionId: "native-1" });
    assert.deepEqual(
      of("assistant").map(({ text }) => text),
      ["I look", " around.", "Done."],
    );
    assert.ok([...of("assistant"), ...of("thinking")].every(({ delta }) => delta === true));
    assert.equal(
      of("thinking")
        .map(({ text }) => text)
        .join(""),
      "Let me see.",
    );
    assert.deepEqual(of("tool_call"), [
      { kind: "tool_call", ts: "now", name: "Bash", input: { command: "ls" }, toolUseId: "call-1" },
    ]);
    assert.deepEqual(of("tool_result"), [
      { kind: "tool_result", ts: "now", toolUseId: "call-1", content: "1 file", isError: false },
    ]);
    assert.deepEqual(
      of("system").map(({ text }) => text),
      ["half of it", "[completed] look", "the context was shortened, from 190 tokens"],
    );
    assert.deepEqual(
      of("stderr").map(({ text }) => text),
      ["a hiccup"],
    );
    const sums = { inputTokens: 150, outputTokens: 80, cachedTokens: 1000, costUsd: 0.25 };
    assert.deepEqual(of("result"), [
      { kind: "result", ts: "now", text: "looked around", ...sums, subtype: "completed", isError: false, errors: [] },
    ]);
  });

  test("the text of a sub-agent is not the agent's answer", { skip: NONE }, async () => {
    const { answer, transcript } = await wake({}, prompted("delegate"));
    assert.equal(answer, "It helped.");
    assert.ok(transcript.some(({ kind, text }) => kind === "system" && text === "I help."));
  });

  test("the environment names the agent and the wake; no secret goes elsewhere", { skip: NONE }, async () => {
    const woken = {
      taskId: "task-1",
      wakeReason: "comment",
      commentId: "comment-2",
      approvalId: "approval-3",
      approvalStatus: "granted",
      issueIds: ["i-1", "i-2"],
    };
    const config = { env: { CI: "1", SOME_TOKEN: "of-the-config", PLAIN: { type: "plain", value: "bound" } } };
    const { answer, metas, stderr } = await wake(config, { context: { input: "options", ...woken }, authToken: TOKEN, runId: "run-1" });
    const given = JSON.parse(answer);
    assert.deepEqual(given.env, {
      GALYARDER_AGENT_ID: "agent-9",
      GALYARDER_COMPANY_ID: "company-1",
      GALYARDER_API_URL: "http://127.0.0.1:3100",
      GALYARDER_RUN_ID: "run-1",
      GALYARDER_TASK_ID: "task-1",
      GALYARDER_WAKE_REASON: "comment",
      GALYARDER_WAKE_COMMENT_ID: "comment-2",
      GALYARDER_APPROVAL_ID: "approval-3",
      GALYARDER_APPROVAL_STATUS: "granted",
      GALYARDER_LINKED_ISSUE_IDS: "i-1,i-2",
      CI: "1",
      SOME_TOKEN: "of-the-config",
      PLAIN: "bound",
      GALYARDER_API_KEY: TOKEN,
    });
    assert.deepEqual([given.run_id, given.task_id, given.cwd], ["run-1", "task-1", scratch]);
    assert.ok(!(JSON.stringify(metas) + stderr).includes(TOKEN) && !JSON.stringify(metas).includes("of-the-config"));
    assert.equal(metas[0].env.GALYARDER_API_KEY, "***REDACTED***");
    assert.equal(metas[0].env.CI, "1");

    const own = await wake(
      { env: { GALYARDER_API_KEY: "the agent's own" } },
      { context: { input: "options", issueId: "issue-4" }, authToken: TOKEN },
    );
    const { env } = JSON.parse(own.answer);
    assert.deepEqual(
      [env.GALYARDER_API_KEY, env.GALYARDER_TASK_ID, "GALYARDER_WAKE_REASON" in env],
      ["the agent's own", "issue-4", false],
    );
  });

  test("the prompt is rendered; what is not there is empty", { skip: NONE }, async () => {
    const promptTemplate =
      "{{agentId}} {{companyId}}{{company.id}} {{ runId }} {{run.id}} {{agent.name}} [{{context.none.deep}}] {{context.list}}";
    const { answer } = await wake({ promptTemplate }, { context: { list: [1] }, runId: "run-1" });
    assert.equal(answer, "agent-9 company-1company-1 run-1 run-1 Ada [] [1]");
    assert.equal(
      (await wake({ promptTemplate: 7 })).answer,
      "You are agent agent-9 (Ada). Continue your Galyarder Framework work.",
    );
  });

  test("further settings reach the agent, and those without a meaning are logged", { skip: NONE }, async () => {
    const config = {
      systemPrompt: "Be brief.",
      extraArgs: ["--fast"],
      skills: ["/skills/a"],
      model: "default",
      reasoningEffort: "high",
      heartbeat: 5,
      mode: 7,
    };
    const { answer, stderr } = await wake(config, prompted("options"));
    const given = JSON.parse(answer);
    assert.deepEqual(
      [given.system_prompt, given.extra_args, given.skills, given.model],
      ["Be brief.", ["--fast"], ["/skills/a"], undefined],
    );
    assert.match(stderr, /not carried from the configuration: heartbeat$/m);
    assert.match(stderr, /the agent takes no reasoning_effort$/m);
    const quiet = { galyarderRuntimeSkills: [], galyarderSkillSync: {}, workspaceStrategy: {}, instructionsBundleMode: "managed" };
    assert.equal((await wake(quiet, prompted("hello"))).stderr, ""); // facts and the server's own keys are no wishes
  });

  test("a session is resumed by the next wake, in its folder and by its agent only", { skip: NONE }, async () => {
    const stored = {};
    await wake({}, prompted("work", { stored }));
    assert.equal(stored.displayId, "native-1");
    const resumed = JSON.parse((await wake({}, prompted("options", { stored }))).answer).resume;
    assert.deepEqual(resumed, { native_session_id: "native-1", params: { branch: 2 } });

    const elsewhere = join(scratch, "elsewhere");
    mkdirSync(elsewhere, { recursive: true });
    const other = await wake({ cwd: elsewhere }, prompted("options", { stored: { ...stored } }));
    assert.equal(JSON.parse(other.answer).resume, undefined);
    assert.match(other.stderr, /was saved for ".*"; it is not resumed in ".*elsewhere"/);
    const foreign = { params: JSON.stringify({ sessionId: "native-1", cwd: scratch, agent: "another" }) };
    const strange = await wake({}, prompted("options", { stored: foreign }));
    assert.deepEqual([JSON.parse(strange.answer).resume, /agent "another"/.test(strange.stderr)], [undefined, true]);
    const legacy = { legacy: { sessionId: "native-1" } };
    assert.deepEqual(JSON.parse((await wake({}, prompted("options", { stored: legacy }))).answer).resume, {
      native_session_id: "native-1",
    });
  });

  test("a session that the agent does not know is replaced, and the run begins anew", { skip: NONE }, async () => {
    const stored = { params: JSON.stringify({ sessionId: "refused", cwd: scratch }) };
    const { result, metas, stderr } = await wake({}, prompted("work", { stored }));
    // With `clearSession` the server would forget the new session, too.
    assert.deepEqual([result.exitCode, result.clearSession, result.sessionId, metas.length], [0, false, "native-1", 2]);
    assert.match(stderr, /does not know session refused/);
    assert.equal(JSON.parse(stored.params).sessionId, "native-1");
    const lost = await wake(
      {},
      prompted("work", { stored: { params: JSON.stringify({ sessionId: "of another host", cwd: scratch, usage: WORK }) } }),
    );
    assert.deepEqual(
      [lost.result.exitCode, lost.result.clearSession, lost.result.sessionId, lost.metas.length, lost.result.usage],
      [0, false, "native-2", 1, WORK],
    );
    assert.deepEqual(
      [lost.result.sessionDisplayId, lost.transcript.some(({ text }) => text === "context lost")],
      ["native-2", true], // the server keys usage by it, and resumes by it
    );
    // Another failure is no reason to run twice, and keeps the session.
    const failed = await wake({}, prompted("fail", { stored: { params: JSON.stringify({ sessionId: "native-1", cwd: scratch }) } }));
    assert.deepEqual(
      [failed.result.exitCode, failed.result.clearSession, failed.metas.length, failed.result.sessionId],
      [1, false, 1, "native-1"],
    );
    const { result: unstarted } = await wake(
      { args: serving("no-such-program") },
      prompted("hello", { stored: { params: JSON.stringify({ sessionId: "native-1", cwd: scratch }) } }),
    );
    assert.deepEqual([unstarted.exitCode, unstarted.sessionParams.sessionId, unstarted.clearSession], [1, "native-1", false]);
    // Nothing to resume, and nothing new: the stale session goes.
    const args = serving(AGENT.replace("agent.mjs", "agent.mjs --no-session"));
    const gone = await wake({ args }, prompted("hello", { stored: { params: JSON.stringify({ sessionId: "refused", cwd: scratch }) } }));
    assert.deepEqual([gone.result.exitCode, gone.result.clearSession, gone.result.sessionParams], [0, true, null]);
  });

  test("usage is the session's sum: the server subtracts the last run's", { skip: NONE }, async () => {
    const stored = {};
    const sum = (times) => Object.fromEntries(Object.entries(WORK).map(([name, count]) => [name, count * times]));
    const agent = { ...ADA, id: "agent-of-usage" };
    const usage = async (text, more = { stored }) => (await wake({}, prompted(text, { agent, ...more }))).result.usage;
    assert.deepEqual(await usage("work"), sum(1));
    assert.deepEqual(await usage("work"), sum(2));
    assert.deepEqual(await usage("hello"), sum(2)); // without it the server would count all of the next sum anew
    assert.deepEqual(await usage("fail"), sum(2));
    assert.deepEqual(await usage("work"), sum(3));
    // A wake without a task has the id only, and the task's next wake knows of it.
    assert.deepEqual(await usage("work", { stored: { legacy: { sessionId: "native-1" } } }), sum(4));
    assert.deepEqual(await usage("work"), sum(5));
    assert.deepEqual(await usage("work", {}), sum(1)); // another session
    assert.equal(await usage("hello", {}), undefined); // unknown is no zero
    // A session without an id has no last run to subtract.
    const args = serving(`${AGENT} --no-session`);
    const params = JSON.stringify({ params: { branch: 2 }, cwd: scratch, usage: WORK });
    const { result } = await wake({ args }, prompted("work", { stored: { params } }));
    assert.deepEqual([result.usage, result.sessionId], [WORK, null]);
  });

  test("the ledger gets provider, biller and billing type; the configuration counts first", { skip: NONE }, async () => {
    const own = { provider: "acme", biller: "reseller", billingType: "credits" };
    const { result } = await wake(own, prompted("work"));
    assert.deepEqual([result.provider, result.biller, result.billingType], ["acme", "reseller", "credits"]);
    const { resolveBilling } = await import("../galyarder/dist/billing.js");
    const none = { provider: "", biller: "", billingType: "" };
    const bill = (adapter, end, env = {}) => Object.values(resolveBilling({ end, adapter }, none, env));
    const key = process.env.ANTHROPIC_API_KEY;
    delete process.env.ANTHROPIC_API_KEY;
    assert.deepEqual(bill("claude-code", undefined), ["anthropic", "anthropic", "subscription"]);
    assert.deepEqual(bill("claude-code", undefined, { ANTHROPIC_API_KEY: "k" }), ["anthropic", "anthropic", "api"]);
    assert.deepEqual(bill("codex", { provider: "fake" }), ["fake", "fake", "unknown"]);
    assert.deepEqual(bill("gemini-cli", { usage: { provider: "google" } }, { GEMINI_API_KEY: "k" }), ["google", "google", "api"]);
    assert.deepEqual(bill("some-agent", {}), [null, null, "unknown"]);
    if (key !== undefined) process.env.ANTHROPIC_API_KEY = key;
  });

  test("a failure has its reason and its code", { skip: NONE }, async () => {
    const of = async (config, more) => {
      const { result, metas } = await wake(config, prompted("work", more));
      return [result.errorCode, result.errorMessage, metas.length];
    };
    assert.match((await of({ dangerouslySkipPermissions: true }))[1], /dangerouslySkipPermissions cannot be carried/);
    assert.match((await of({ cwd: "relative" }))[1], /must be an absolute path/);
    assert.match((await of({ cwd: join(AGENT.split(" ").at(-1), "none") }))[1], /ENOTDIR|not a directory|create/);
    assert.deepEqual(await of({ env: { A: { secret: "ref" } } }), ["configuration", "variables without a text: A", 0]);
    assert.match((await of({ command: "no-such-relay" }))[1], /no-such-relay/);
    assert.match((await of({ args: serving("no-such-program"), folder: "process" }))[1], /no-such-program.*\(not_installed\)/);
    assert.match((await of({ args: serving("no-such-program") }))[1], /not_installed|start/);
    assert.match((await of({ args: ["serve", "--adapter", AGENT] }))[1], /may not set .*\(permission_denied\)/);
    const failed = await wake({}, prompted("fail rate_limit"));
    assert.deepEqual(
      [failed.result.exitCode, failed.result.errorMessage, failed.result.errorCode, failed.result.timedOut],
      [1, "it fails: rate_limit (rate_limit)", "rate_limit", false],
    );
    assert.deepEqual(failed.result.errorMeta, { category: "rate_limit" });
    assert.equal((await wake({}, prompted("fail"))).result.errorCode, null); // the server's own word then
    assert.match(failed.result.resultJson.stdout, /it fails/);
    assert.deepEqual(failed.transcript.at(-1).errors, ["it fails: rate_limit"]);
    const broken = await wake({}, prompted("work", { onLog: async () => Promise.reject(new Error("the log is away")) }));
    assert.match(broken.result.errorMessage, /the log is away/);
  });

  test("no permission is given, no question answered, and both are logged", { skip: NONE }, async () => {
    const { answer, stderr, transcript } = await wake({}, prompted("ask"));
    assert.equal(answer, "denied, no answer");
    assert.match(stderr, /denied: Bash rm -r target/);
    assert.match(stderr, /asked, and not answered in this run: Which one\?/);
    assert.deepEqual(
      transcript.filter(({ kind }) => kind === "system").map(({ text }) => text),
      ["denied: Bash rm -r target", "not answered: Which one?"],
    );
  });

  test("a question is in the result, and in the text that becomes the issue's comment", { skip: NONE }, async () => {
    const { result } = await wake({}, prompted("choose"));
    const choices = [{ key: "a", label: "The first", description: "safe" }, { key: "b", label: "b" }];
    assert.deepEqual(result.question, { prompt: "Which one?", choices });
    assert.equal(result.summary, "no answer\n\nQuestion: Which one?\n- a: The first\n- b: b");
    assert.deepEqual([result.resultJson.summary, result.resultJson.question], [result.summary, result.question]);
    const { resultJson } = (await wake({}, prompted("hello"))).result;
    assert.deepEqual([resultJson.summary, "question" in resultJson], ["hello", false]); // the server comments with it
  });

  test("output comes in order, however slow its reader", { skip: NONE }, async () => {
    const [begun, ended] = [[], []];
    const onLog = async (stream, chunk) => {
      begun.push(chunk);
      assert.equal(begun.length, ended.length + 1, "one at a time");
      await new Promise((resolve) => setImmediate(resolve));
      ended.push(chunk);
    };
    assert.equal((await wake({}, prompted("work", { onLog }))).result.exitCode, 0);
    assert.equal(JSON.parse(ended.findLast((chunk) => chunk.startsWith("{"))).type, "turn.complete");
  });

  test("an agent that knows no folders works in its process's", { skip: skipWithout("python3") }, async () => {
    const args = serving(`python3 ${example("python/sdk_adapter.py")}`);
    const { answer, stderr, result } = await wake({ args, folder: "process" }, prompted("hello"));
    assert.deepEqual([answer, result.exitCode, result.sessionParams], ["hello", 0, null]);
    assert.match(stderr, /the agent takes no env$/m);
    assert.match((await wake({ args }, prompted("hello"))).result.errorMessage, /does not enforce cwd/);
  });

  test("Claude Code, as it was recorded: a run, and the next one resumes it", { skip: skipWithout("fake_cli") }, async () => {
    const file = join(scratch, "claude.json");
    writeFileSync(
      file,
      JSON.stringify({
        agents: [
          { id: "claude", profile: "claude-code", claude_code: { command: "fake_cli", env: { FAKE_CLI_SERVE: "claude" } } },
        ],
      }),
    );
    const config = { agent: "claude", args: ["serve", "--session-may", "all", "--config", file] };
    const stored = {};
    const { result } = await wake(config, prompted("FAKE:text", { stored }));
    assert.deepEqual(
      [result.summary, result.costUsd, result.model, result.provider, result.biller],
      ["Hello from the fake model.", 0.00141, "claude-sonnet-4-5", "anthropic", "anthropic"],
    );
    assert.deepEqual(result.usage, { inputTokens: 200, outputTokens: 34, cachedInputTokens: 1000 });
    const again = await wake(config, prompted("FAKE:text", { stored }));
    assert.deepEqual([again.result.sessionId, again.result.clearSession], [result.sessionId, false]);
    assert.ok(again.transcript.some(({ text }) => text === "context kept"));
    const { status, checks } = await adapter.testEnvironment({
      companyId: "company-1",
      adapterType: "trunkline",
      config: { cwd: scratch, ...config },
    });
    assert.ok(
      checks.some(({ code }) => code.startsWith("adapter:claude.")),
      JSON.stringify([status, checks]),
    );
    assert.ok((await plugin.listModels(config)).some(({ id, label }) => id === "opus" && label === "Opus"));
  });
});

/** What runs on this machine with this word in its command. */
function commandsWith(word) {
  const commands = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((id) => {
      try {
        return readFileSync(`/proc/${id}/cmdline`, "utf8");
      } catch {
        return ""; // it has ended
      }
    });
  return commands.filter((command) => command.includes(word));
}

// Its clock is this test's, so it runs alone.
test("a run has its time, and then its grace; nothing of it is left", { skip: NONE }, async ({ mock }) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let answer = "";
  const onLog = async (_, chunk) => {
    answer += chunk;
    if (chunk.includes('"waiting"')) mock.timers.tick(30_000);
  };
  const { result } = await wake({ timeoutSec: 30 }, prompted("wait", { onLog }));
  assert.deepEqual(
    [result.timedOut, result.exitCode, result.errorMessage, result.errorCode],
    [true, null, "Timed out after 30s", "timeout"],
  );
  assert.match(answer, /"status":"stopped"/);

  const time = `60.${process.pid}`;
  const deaf = `sh -c 'trap "" TERM; sleep ${time} & touch ran; while :; do sleep ${time}; done'`;
  const running = setInterval(() => {
    if (!existsSync(join(scratch, "ran"))) return;
    clearInterval(running);
    assert.notDeepEqual(commandsWith(time), []);
    mock.timers.tick(30_000);
    mock.timers.tick(15_000);
  }, 20);
  const cut = await wake({ timeoutSec: 30, args: serving(deaf), folder: "process" }, prompted("work"));
  assert.deepEqual(
    [cut.result.timedOut, cut.result.exitCode, cut.result.resultJson.type],
    [true, null, undefined],
    "its turn has no end",
  );
  assert.deepEqual(commandsWith(time), []);
});
