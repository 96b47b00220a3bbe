// What Galyarder shows of the bridge and keeps of it: forms, transcripts, a watched run, stored sessions, diagnostics.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { trunklineCLIAdapter } from "../galyarder/dist/cli.js";
import { buildConfig, createUIAdapter } from "../galyarder/dist/ui.js";
import { parseStdoutLine } from "../galyarder/dist/ui-parser.js";
import { adapter, scratch, wake } from "./galyarder.mjs";
import { plugin } from "./galyarder-plugin.mjs";
import { AGENT, NONE, serving } from "./programs.mjs";

after(() => rmSync(scratch, { recursive: true, force: true }));

// Most of a run is waiting, so some go side by side.
describe("Galyarder, shown", { concurrency: 4 }, () => {
  test("the environment is tested without a run, and twice alike", { skip: NONE }, async () => {
    const tested = async (config) =>
      adapter.testEnvironment({
        companyId: "company-1",
        adapterType: "trunkline",
        config: { cwd: scratch, args: serving(AGENT), ...config },
      });
    const [one, two] = [await tested({}), await tested({})];
    assert.deepEqual([one.adapterType, one.status === "fail"], ["trunkline", false], JSON.stringify(one.checks));
    assert.deepEqual(
      one.checks.map(({ code }) => code),
      two.checks.map(({ code }) => code),
    );
    assert.ok(Date.parse(one.testedAt) && one.checks.some(({ code, level }) => code === "command.found" && level === "info"));
    const found = async (config) => {
      const { status, checks } = await tested(config);
      return [status, checks.find(({ level }) => level === "error")?.code];
    };
    assert.deepEqual(await found({ cwd: "relative" }), ["fail", "cwd_invalid"]);
    assert.deepEqual(await found({ command: "no-such-relay" }), ["fail", "trunkline_missing"]);
    assert.deepEqual(await found({ args: serving("no-such-program") }), ["fail", "command.missing"]);
    assert.deepEqual(await found({ agent: "no-such-agent" }), ["fail", "doctor_failed"]);
    assert.deepEqual(await found({ dangerouslySkipPermissions: true }), ["fail", "config_refused"]);
    const { status, checks } = await tested({ heartbeat: 5 });
    assert.deepEqual([status, checks[0].code, checks[0].level], ["warn", "config_unknown", "warn"]);
  });

  test("a stored session is read as it was written, and nothing else is taken for one", () => {
    const { deserialize, serialize, getDisplayId } = adapter.sessionCodec;
    const usage = { inputTokens: 1, outputTokens: 2, cachedInputTokens: 3 };
    const params = { sessionId: "native-1", cwd: "/srv/app", agent: "claude", params: { deep: [1] }, usage };
    assert.deepEqual(deserialize(JSON.parse(JSON.stringify(serialize(params)))), params);
    assert.deepEqual([getDisplayId(params), getDisplayId(null), getDisplayId({ sessionId: 7 })], ["native-1", null, null]);
    for (const bad of [null, undefined, 7, "native-1", [], {}, { sessionId: 7 }, { sessionId: "" }, { cwd: "/" }])
      assert.equal(deserialize(bad), null, JSON.stringify(bad));
    assert.equal(serialize(null), null);
    const none = { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0 };
    const odd = { sessionId: "a", cwd: 7, other: 1, usage: { inputTokens: -1, outputTokens: "2" } };
    assert.deepEqual(deserialize(odd), { sessionId: "a", cwd: "", agent: "", usage: none });
  });

  test("the package is a plugin: its entry, its parser without imports, its form", () => {
    const folder = new URL("../galyarder/", import.meta.url);
    const read = (path) => readFileSync(new URL(path, folder), "utf8");
    const { exports, galyarder, bundleDependencies } = JSON.parse(read("package.json"));
    assert.deepEqual([exports["."], galyarder.adapterUiParser, bundleDependencies], ["./dist/server.js", "1.0.0", ["@trunkline/sdk"]]);
    for (const path of Object.values(exports)) assert.ok(read(path).length > 0, path);
    const parser = read(exports["./ui-parser"]);
    assert.ok(parser.length < 50 * 1024 && /export function parseStdoutLine/.test(parser));
    assert.doesNotMatch(parser, /\b(import|require|await|window|process|globalThis)\b/);
    assert.equal(plugin.createServerAdapter().type, "trunkline");
    // Each field of the form is a setting, and its default is what counts without it.
    const { fields } = adapter.getConfigSchema();
    const settings = read("settings.ts");
    for (const { key, label, type, options } of fields) {
      assert.ok(settings.includes(`config["${key}"]`) && label !== "" && type !== "", key);
      assert.equal(type === "select", options !== undefined, key);
    }
    const ConfigFields = () => null;
    const page = createUIAdapter(ConfigFields);
    assert.deepEqual([page.type, page.ConfigFields, page.parseStdoutLine], ["trunkline", ConfigFields, parseStdoutLine]);
  });

  test("the helpers are those of the server that loads the plugin, and no second copy", () => {
    const root = join(scratch, "server");
    const put = (path, text) => {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    };
    const plugin = new URL("../galyarder/dist/server-utils.js", import.meta.url).href;
    const server = "app/node_modules/@galyarder-framework/server";
    const utils = `${server}/node_modules/@galyarder-framework/adapter-utils`; // as pnpm nests it
    cpSync(fileURLToPath(new URL("adapter-utils", import.meta.url)), join(root, "utils"), { recursive: true });
    put(`${server}/package.json`, '{"type":"module","exports":"./index.js"}');
    put(
      `${server}/index.js`,
      `import { runningProcesses } from "@galyarder-framework/adapter-utils/server-utils";
       const plugin = await import(${JSON.stringify(plugin)});
       console.log(plugin.runningProcesses === runningProcesses);`,
    );
    put("app/cli.mjs", 'import "@galyarder-framework/server";');
    put("outside.mjs", `await import(${JSON.stringify(plugin)});`);
    mkdirSync(dirname(join(root, utils)), { recursive: true });
    symlinkSync(join(root, "utils"), join(root, utils));
    symlinkSync(join(root, "app/cli.mjs"), join(root, "galyarder")); // as npm links a program
    const { GALYARDER_ADAPTER_UTILS, ...env } = process.env;
    const run = (file, more) => spawnSync(process.execPath, [join(root, file)], { env: { ...env, ...more }, encoding: "utf8" });
    // What a published package exports: by condition.
    const exports = { "./*": { types: "./*.d.ts", import: "./*.mjs" } };
    put("utils/package.json", JSON.stringify({ name: "@galyarder-framework/adapter-utils", type: "module", exports }));
    for (const program of ["app/cli.mjs", "galyarder"]) assert.equal(run(program).stdout, "true\n", run(program).stderr);
    assert.match(run("outside.mjs").stderr, /adapter-utils of the Galyarder server not found.*GALYARDER_ADAPTER_UTILS/);
    assert.equal(run("outside.mjs", { GALYARDER_ADAPTER_UTILS: join(root, "utils") }).status, 0);
    put("utils/package.json", "{}");
    assert.match(run("outside.mjs", { GALYARDER_ADAPTER_UTILS: join(root, "utils") }).stderr, /does not export server-utils/);
  });

  test("the company's skills are listed as a run would get them", async () => {
    const skill = (name, required) => ({ key: `acme/${name}`, runtimeName: name, source: `/skills/${name}`, required });
    const config = {
      galyarderRuntimeSkills: [skill("report", true), skill("deploy", false), skill("review", false)],
      galyarderSkillSync: { desiredSkills: ["acme/review", "acme/none"] },
    };
    const ctx = { agentId: "agent-9", companyId: "company-1", adapterType: "trunkline", config };
    const snapshot = await adapter.listSkills(ctx);
    assert.deepEqual(await adapter.syncSkills(ctx, ["acme/review", "acme/none"]), snapshot);
    const { adapterType, supported, mode, desiredSkills, entries, warnings } = snapshot;
    assert.deepEqual([adapterType, supported, mode], ["trunkline", true, "ephemeral"]);
    assert.deepEqual(desiredSkills, ["acme/report", "acme/review", "acme/none"]);
    assert.deepEqual(
      entries.map(({ key, state, desired, origin }) => [key, state, desired, origin]),
      [
        ["acme/deploy", "available", false, "company_managed"],
        ["acme/none", "missing", true, "external_unknown"],
        ["acme/report", "configured", true, "galyarder_required"],
        ["acme/review", "configured", true, "company_managed"],
      ],
    );
    assert.match(warnings[0], /acme\/none/);
  });

  test("the adapter describes itself", () => {
    const { type, supportsLocalAgentJwt, models, agentConfigurationDoc } = adapter;
    assert.deepEqual([type, supportsLocalAgentJwt, models[0].id, typeof plugin.label], ["trunkline", true, "default", "string"]);
    for (const part of ["Use when:", "Don't use when:", "Core fields:"]) assert.ok(agentConfigurationDoc.includes(part));
    // Each setting is documented.
    const source = readFileSync(new URL("../galyarder/settings.ts", import.meta.url), "utf8");
    const keys = [...source.matchAll(/config\["(\w+)"\]/g)].map(([, key]) => key);
    keys.push(...["thinkingEffort", "modelReasoningEffort"]);
    assert.ok(keys.length > 14);
    for (const key of keys) assert.ok(agentConfigurationDoc.includes(key), key);
  });

  test("a line that is no entry is shown as it is, and one of the wrong types harms nothing", () => {
    for (const line of ["plain", "{", "[1]", '{"type":"of a later version"}', '{"type":7}', "null"])
      assert.deepEqual(parseStdoutLine(line, "t"), [{ kind: "stdout", ts: "t", text: line }]);
    const types = [
      "session.info",
      "output",
      "thinking",
      "message",
      "tool.start",
      "tool.update",
      "tool.end",
      "error",
      "plan",
      "log",
      "turn.complete",
      "permission.request",
      "file.output",
    ];
    for (const type of types) {
      for (const wrong of [null, 7, [], {}, [null], [[]]]) {
        const names = [
          "content",
          "tool",
          "tool_call_id",
          "entries",
          "usage",
          "error",
          "status",
          "model",
          "input",
          "role",
          "channel",
          "message",
          "summary",
        ];
        const line = JSON.stringify({ type, ...Object.fromEntries(names.map((name) => [name, wrong])) });
        for (const entry of parseStdoutLine(line, "t"))
          for (const text of [entry.text ?? "", entry.content ?? "", entry.name ?? ""]) assert.equal(typeof text, "string", line);
      }
    }
    assert.deepEqual(parseStdoutLine('{"type":"turn.complete","status":"failed","error":{"message":"no"}}', "t")[0].errors, [
      "no",
    ]);
  });

  test("the form becomes a configuration that a run takes", { skip: NONE }, async () => {
    const values = {
      adapterType: "trunkline",
      cwd: "",
      promptTemplate: "",
      model: "",
      thinkingEffort: "",
      dangerouslySkipPermissions: false,
      command: "",
      args: "",
      extraArgs: "",
      envVars: "",
      envBindings: {},
      bootstrapPrompt: "",
      maxTurnsPerRun: 0,
    };
    assert.deepEqual(buildConfig(values), { timeoutSec: 0, graceSec: 15 });
    const full = {
      ...values,
      cwd: scratch,
      promptTemplate: "options",
      bootstrapPrompt: "",
      model: "large-2",
      thinkingEffort: "high",
      extraArgs: "--a, --b",
      envVars: "A=1\n# no\nB=x=y",
      envBindings: { C: { type: "plain", value: "z" } },
      adapterSchemaValues: { agent: "", graceSec: 20, maxTurnsPerRun: 4 },
      maxTurnsPerRun: 4,
      args: serving(AGENT).join(","),
    };
    const config = buildConfig(full);
    const { env, ...rest } = config;
    assert.deepEqual(
      [env, rest.extraArgs, rest.maxTurnsPerRun, rest.reasoningEffort],
      [{ A: "1", B: "x=y", C: { type: "plain", value: "z" } }, ["--a", "--b"], 4, "high"],
    );
    const given = JSON.parse((await wake(config)).answer);
    assert.deepEqual([given.model, given.env.B, given.extra_args], ["large-2", "x=y", ["--a", "--b"]]);
    assert.match(
      (await wake(buildConfig({ ...full, dangerouslySkipPermissions: true }))).result.errorMessage,
      /cannot be carried/,
    );
  });

  test("a watched run has its colours, and does not control the terminal", () => {
    const usage = { input_tokens: 9, output_tokens: 6, cache_read_tokens: 3, cache_write_tokens: 1, cost_usd: 0.5 };
    const lines = [
      { type: "session.info", native_session_id: "native-1", model: "large-2" },
      { type: "output", content: "I " },
      { type: "output", content: "look \u001b[2J\u0007\u009b31m" },
      { type: "tool.start", tool: "Bash", tool_call_id: "c", input: { a: 1 } },
      { type: "tool.end", tool_call_id: "c", content: "no", is_error: true },
      { type: "turn.complete", usage },
    ];
    const watch = (debug) => {
      let printed = "";
      const write = process.stdout.write;
      process.stdout.write = (text) => ((printed += text), true);
      try {
        for (const line of lines) trunklineCLIAdapter.formatStdoutEvent(JSON.stringify(line) + "\n", debug);
        trunklineCLIAdapter.formatStdoutEvent("what is this", debug);
      } finally {
        process.stdout.write = write;
      }
      return printed;
    };
    const result = "completed: tokens in 5, out 6, cached 3, $0.5000";
    const plain = ["session native-1 model large-2", "I look [2J31m", 'tool Bash {"a":1}', "tool failed no", result, ""].join(
      "\n",
    );
    process.env.NO_COLOR = "1";
    assert.equal(watch(false), plain);
    assert.equal(watch(true), plain + "what is this\n");
    delete process.env.NO_COLOR;
    process.env.FORCE_COLOR = "1";
    const coloured = watch(true);
    delete process.env.FORCE_COLOR;
    const [blue, green, yellow, red, gray] = [34, 32, 33, 31, 90].map((code) => (text) => `\u001b[${code}m${text}\u001b[39m`);
    for (const part of [
      blue("session native-1 model large-2"),
      green("I "),
      yellow('tool Bash {"a":1}'),
      red("tool failed no"),
      blue(result),
      gray("what is this"),
    ])
      assert.ok(coloured.includes(part), part);
  });
});
