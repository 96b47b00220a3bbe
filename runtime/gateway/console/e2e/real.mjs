// A daemon with real processes, whose agent is the scripts: CONSOLE_TRUNKLINE names the program.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export async function real(program) {
  const state = mkdtempSync(join(tmpdir(), "console-"));
  const env = { ...process.env, TRUNKLINE_STATE: state };
  const adapter = `node ${fileURLToPath(new URL("adapter.mjs", import.meta.url))}`;
  let child;
  const up = async (address) => {
    child = spawn(program, ["up", "--http", address, "--json", "--adapter", adapter], { env, stdio: ["ignore", "pipe", "ignore"] });
    const [line] = await once(createInterface({ input: child.stdout }), "line");
    return JSON.parse(line).http;
  };
  const end = async (signal) => {
    const gone = child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined;
    child.kill(signal);
    await gone;
  };
  const url = await up("127.0.0.1:0");
  const said = execFileSync(program, ["token", "new", "--scope", "control"], { env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  return {
    url,
    token: /tlk_\w+/.exec(said)[0],
    /** The file that hands a browser its code. */
    handover: () => execFileSync(program, ["open", "--print"], { env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim(),
    kill: () => end("SIGKILL"),
    again: () => up(new URL(url).host),
    stop: async () => {
      await end("SIGTERM");
      rmSync(state, { recursive: true, force: true });
    },
  };
}
