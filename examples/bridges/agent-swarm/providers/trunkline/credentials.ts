// Whether a worker can run its agent: the findings of `trunkline doctor`, which starts no agent.
import { spawn } from "node:child_process";
import type { CredentialStatus } from "./contract.js";
import { hostOf, type TrunklineOptions } from "./options.js";

const TIMEOUT = 20_000; // milliseconds
const LONGEST_REPORT = 1 << 20; // characters
const NAMES_AGENTS = ["--config", "--adapter"]; // arguments of `serve` that `doctor` takes, too
const VARIABLE = /\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b/g;

interface Check {
  code?: string;
  level?: string;
  message?: string;
  hint?: string;
}

/** The swarm's credential check: ready, or the variables that the agent would take and the first thing that is wrong. */
export async function checkTrunklineCredentials(
  env: Readonly<Record<string, string | undefined>>,
  options: TrunklineOptions = {},
): Promise<CredentialStatus> {
  const { command, args } = hostOf(options);
  if (options.connect) return { ready: true, missing: [], satisfiedBy: "sdk-delegated" }; // another program has the agent
  const named = args.flatMap((word, at) => (NAMES_AGENTS.includes(word) ? args.slice(at, at + 2) : []));
  const agent = options.agent ?? env["TRUNKLINE_AGENT"];
  const report = await run(command, ["doctor", "--json", ...named, ...(agent ? [agent] : [])], env);
  if (typeof report === "string") return { ready: false, missing: [], hint: `${report}; install trunkline, or name its path` };
  const failed = report.filter(({ level }) => level === "error");
  if (failed.length === 0) return { ready: true, missing: [], satisfiedBy: "sdk-delegated" };
  const missing = failed.filter(({ code }) => code?.endsWith(".auth")).flatMap(({ hint }) => hint?.match(VARIABLE) ?? []);
  const hint = failed.map(({ message = "", hint }) => (hint ? `${message}: ${hint}` : message)).join("; ");
  return { ready: false, missing: [...new Set(missing)], hint };
}

// The checks of the report; a text is why there is none.
function run(command: string, args: readonly string[], env: Readonly<NodeJS.ProcessEnv>): Promise<Check[] | string> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    const late = setTimeout(() => child.kill("SIGKILL"), TIMEOUT);
    const read = { stdout: "", stderr: "" };
    child.on("error", (error) => (clearTimeout(late), resolve(error.message)));
    for (const name of ["stdout", "stderr"] as const)
      child[name].setEncoding("utf8").on("data", (text: string) => (read[name] = (read[name] + text).slice(0, LONGEST_REPORT)));
    child.on("close", () => {
      clearTimeout(late);
      try {
        const { host, agents } = JSON.parse(read.stdout) as { host: { checks: Check[] }; agents: { checks: Check[] }[] };
        resolve([host, ...agents].flatMap(({ checks }) => checks));
      } catch {
        resolve(read.stderr.trim() || `${command} doctor printed no report`);
      }
    });
  });
}
