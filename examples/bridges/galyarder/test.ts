// Whether a configuration would work: what `trunkline doctor` finds.
import { spawn } from "node:child_process";
import { basename } from "node:path";
import { Client, spawned } from "@trunkline/sdk/client";
import { type } from "./index.js";
import { asString, ensureAbsoluteDirectory, parseJson, parseObject } from "./server-utils.js";
import { readSettings } from "./settings.js";
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
    const settings = readSettings(ctx.config);
    const { unknown } = settings;
    if (unknown.length > 0)
      checks.push({ code: "config_unknown", level: "warn", message: `not carried to trunkline: ${unknown.join(", ")}` });
    checks.push(await checkDirectory(settings), ...(await runDoctor(settings)));
  } catch (error) {
    checks.push({ code: "config_refused", level: "error", message: (error as Error).message });
  }
  const levels = new Set(checks.map(({ level }) => level));
  const status = levels.has("error") ? "fail" : levels.has("warn") ? "warn" : "pass";
  return { adapterType: type, status, checks, testedAt: new Date().toISOString() };
}

async function checkDirectory({ cwd }: Settings): Promise<AdapterEnvironmentCheck> {
  if (cwd === "") return { code: "cwd_unset", level: "info", message: "a run works in the workspace that the server prepares" };
  try {
    await ensureAbsoluteDirectory(cwd);
    return { code: "cwd_valid", level: "info", message: `${cwd} takes the place of the agent's home` };
  } catch (error) {
    const { message } = error as Error;
    return { code: "cwd_invalid", level: "error", message, hint: "set cwd to an absolute path of a folder, or leave it out" };
  }
}

async function runDoctor({ command, args, agent }: Settings): Promise<AdapterEnvironmentCheck[]> {
  const named = args.flatMap((word, at) => (NAMING.includes(word) ? args.slice(at, at + 2) : []));
  const output = await runCommand(command, ["doctor", "--json", ...named, ...(agent ? [agent] : [])]);
  if (output instanceof Error) {
    const hint = "install trunkline, or set command to its path";
    return [{ code: "trunkline_missing", level: "error", message: output.message, hint }];
  }
  const report = parseObject(parseJson(output.stdout));
  const parts = [report["host"], ...(Array.isArray(report["agents"]) ? report["agents"] : [])].map(parseObject);
  const checks = parts.flatMap(({ checks }) => (Array.isArray(checks) ? checks.map(parseObject).map(readCheck) : []));
  if (checks.length > 0) return checks;
  // A command of one's own, such as a client of a daemon, may have no doctor.
  const level = basename(command).startsWith("trunkline") ? "error" : "warn";
  return [{ code: "doctor_failed", level, message: output.stderr.trim() || `${command} doctor printed no report` }];
}

function readCheck({ code, level, message, detail, hint }: Record<string, unknown>): AdapterEnvironmentCheck {
  return {
    code: asString(code, "unknown"),
    level: level === "info" || level === "warn" ? level : "error",
    message: asString(message, ""),
    detail: asString(detail, "") || null,
    hint: asString(hint, "") || null,
  };
}

/** Runs a command to its end; an error if it cannot be started. */
function runCommand(command: string, args: readonly string[]): Promise<{ stdout: string; stderr: string } | Error> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
    const late = setTimeout(() => child.kill("SIGKILL"), LONGEST);
    const output = { stdout: "", stderr: "" };
    child.on("error", (error) => (clearTimeout(late), resolve(error)));
    for (const name of ["stdout", "stderr"] as const)
      child[name].setEncoding("utf8").on("data", (text: string) => (output[name] = (output[name] + text).slice(0, MOST)));
    child.on("close", () => (clearTimeout(late), resolve(output)));
  });
}

/** The models of the agents that `config` names; those that an agent lists only when it runs are not among them. */
export async function listModels(config: Record<string, unknown> = {}): Promise<AdapterModel[]> {
  const { command, args, agent } = readSettings(config);
  const client = await Client.connect(spawned(command, args, { onStderr: () => {} }));
  try {
    const agents = (await client.agents()).filter(({ id }) => agent === "" || id === agent);
    const models = agents.flatMap((entry) => entry.models ?? []).map(({ id, label }) => ({ id, label: label ?? id }));
    return [...new Map(models.map((model) => [model.id, model])).values()];
  } finally {
    await client.close();
  }
}
