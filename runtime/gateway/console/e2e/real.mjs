// A daemon with real processes, whose agents are the scripts: CONSOLE_TRUNKLINE names the program.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "node:http";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const ADAPTER = fileURLToPath(new URL("adapter.mjs", import.meta.url));

/** The program that was built, where none is named. */
export function program() {
  const found = process.env.CONSOLE_TRUNKLINE ?? join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), "debug/trunkline");
  if (existsSync(found)) return found;
  throw new Error(`no program at ${found}: cargo build, or CONSOLE_TRUNKLINE names one; CONSOLE_MOCK=1 needs none`);
}

const scripts = (id, name, description) => ({ id, name, description, profile: "external", external: { command: process.execPath, args: [ADAPTER] }, env_passthrough: ["CONSOLE_PACE"] });

/** `names` are those of further agents. */
export async function real({ names = [] } = {}) {
  const it = program();
  const state = mkdtempSync(join(tmpdir(), "console-"));
  const work = join(state, "app");
  mkdirSync(work);
  const config = join(state, "trunkline.json");
  const agents = [
    scripts("coder", "Coder", "Writes and repairs code"), scripts("reviewer", "Reviewer", "Reads what others wrote"), { id: "echo", profile: "echo" },
    ...names.map((name, at) => scripts(`agent-${at}`, name, name)),
  ];
  writeFileSync(config, JSON.stringify({ agents, default_agent: "coder" }));
  // Records and the usage log of the one who runs the flows stay as they are.
  const env = { ...process.env, TRUNKLINE_STATE: join(state, "daemon"), XDG_STATE_HOME: join(state, "xdg") };
  const said = (...args) => execFileSync(it, args, { env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  let child;
  const up = async (address) => {
    child = spawn(it, ["up", "--http", address, "--json", "--config", config], { env, cwd: work, stdio: ["ignore", "pipe", "ignore"] });
    const [line] = await once(createInterface({ input: child.stdout }), "line");
    return JSON.parse(line).http;
  };
  const end = async (signal) => {
    const gone = child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined;
    child.kill(signal);
    await gone;
  };
  const url = await up("127.0.0.1:0");
  const token = () => /tlk_\w+/.exec(said("token", "new", "--scope", "control", "--approve", "--all-sessions"))[0];
  /** Asks over the socket of this user, as `trunkline open --pair` does. */
  const ask = (method, path, body) => new Promise((resolve, reject) => {
    const asked = request({ socketPath: join(state, "daemon/journal/host.sock"), method, path, headers: { "Content-Type": "application/json" } }, async (answer) => {
      let text = "";
      for await (const part of answer) text += part;
      resolve(text === "" ? {} : JSON.parse(text));
    });
    asked.on("error", reject);
    asked.end(body === undefined ? "" : JSON.stringify(body));
  });
  return {
    url,
    /** A folder that ends with the flow. */
    folder: state,
    ask,
    /** Runs the program. */
    said,
    token: token(),
    /** Another party's token: its name and its secret. */
    another: token,
    /** The file that hands a browser its code. */
    handover: () => said("open", "--print").trim(),
    kill: () => end("SIGKILL"),
    again: () => up(new URL(url).host),
    stop: async () => {
      await end("SIGTERM");
      rmSync(state, { recursive: true, force: true });
    },
  };
}
