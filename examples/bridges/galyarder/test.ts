// Whether a configuration would work: what `trunkline doctor` finds.
import { spawn } from "node:child_process";
import { Client, spawned } from "@trunkline/sdk/client";
import { type } from "./index.js";
import { ensureAbsoluteDirectory, parseJson, parseObject, asString } from "./server-utils.js";
import { settingsOf } from "./settings.js";
import type {
  AdapterEnvironmentCheck,
  AdapterEnvironmentTestContext,
  AdapterEnvironmentTestResult,
  AdapterModel,
  Settings,
} from "./types.js";

const LONGEST = 20_000; // milliseconds
const MOST = 1 << 20; // characters
// Of `serve`, what names the agents.
const NAMING = ["--config", "--adapter"];

/** Finds what would keep a run from working. It starts no agent, and never rejects. */
export async function testEnvironment(ctx: AdapterEnvironmentTestContext): Promise<AdapterEnvironmentTestResult> {
  const checks: AdapterEnvironmentCheck[] = [];
  try {
    const settings = settingsOf(ctx.config);
    const { unknown } = settings;
    if (unknown.length > 0)
      checks.push({ code: "config_unknown", level: "warn", message: `these mean nothing here: ${unknown.join(", ")}` });
    checks.push(await cwdOf(settings), ...(await doctorOf(settings)));
  } catch (error) {
    checks.push({ code: "config_refused", level: "error", message: (error as Error).message });
  }
  const levels = new Set(checks.map(({ level }) => level));
  const status = levels.has("error") ? "fail" : levels.has("warn") ? "warn" : "pass";
  return { adapterType: type, status, checks, testedAt: new Date().toISOString() };
}

async function cwdOf({ cwd }: Settings): Promise<AdapterEnvironmentCheck> {
  try {
    await ensureAbsoluteDirectory(cwd);
    return { code: "cwd_valid", level: "info", message: `it works in ${cwd}` };
  } catch (error) {
    return {
      code: "cwd_invalid",
      level: "error",
      message: (error as Error).message,
      hint: "set cwd to an absolute path of a folder",
    };
  }
}

async function doctorOf({ command, args, agent }: Settings): Promise<AdapterEnvironmentCheck[]> {
  const named = args.flatMap((word, at) => (NAMING.includes(word) ? args.slice(at, at + 2) : []));
  const said = await run(command, ["doctor", "--json", ...named, ...(agent ? [agent] : [])]);
  if (typeof said === "string")
    return [{ code: "trunkline_missing", level: "error", message: said, hint: "install trunkline, or set command to its path" }];
  const report = parseJson(said.stdout);
  if (!report) return [{ code: "doctor_failed", level: "error", message: said.stderr.trim() || "trunkline doctor said nothing" }];
  const parts = [report["host"], ...(Array.isArray(report["agents"]) ? report["agents"] : [])].map(parseObject);
  return parts.flatMap(({ checks }) => (Array.isArray(checks) ? checks.map(parseObject).map(checkOf) : []));
}

function checkOf({ code, level, message, detail, hint }: Record<string, unknown>): AdapterEnvironmentCheck {
  const known = level === "info" || level === "warn" ? level : "error";
  return {
    code: asString(code, "unknown"),
    level: known,
    message: asString(message, ""),
    detail: asString(detail, "") || null,
    hint: asString(hint, "") || null,
  };
}

// A text says why it could not be started.
function run(command: string, args: readonly string[]): Promise<{ stdout: string; stderr: string } | string> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
    const late = setTimeout(() => child.kill("SIGKILL"), LONGEST);
    const said = { stdout: "", stderr: "" };
    child.on("error", (error) => (clearTimeout(late), resolve(error.message)));
    for (const name of ["stdout", "stderr"] as const)
      child[name].setEncoding("utf8").on("data", (text: string) => (said[name] = (said[name] + text).slice(0, MOST)));
    child.on("close", () => (clearTimeout(late), resolve(said)));
  });
}

/** The models of the agents that `config` names; those that an agent tells only when it runs are not among them. */
export async function listModels(config: Record<string, unknown> = {}): Promise<AdapterModel[]> {
  const { command, args, agent } = settingsOf(config);
  const client = await Client.connect(spawned(command, args, { onStderr: () => {} }));
  try {
    const agents = (await client.agents()).filter(({ id }) => agent === "" || id === agent);
    const models = agents.flatMap((entry) => entry.models ?? []).map(({ id, label }) => ({ id, label: label ?? id }));
    return [...new Map(models.map((model) => [model.id, model])).values()];
  } finally {
    await client.close();
  }
}
