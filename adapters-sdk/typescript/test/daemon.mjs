// A daemon for tests, in a folder of its own.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const skip = spawnSync("trunkline", ["--version"]).status === 0 ? false : "no program trunkline";
export const adapter = `node ${new URL("words.mjs", import.meta.url).pathname}`;

export class Daemon {
  scratch = mkdtempSync(join(tmpdir(), "trunkline-ts-"));
  #more;
  #child;

  static async start(more = []) {
    const daemon = new Daemon();
    daemon.#more = more;
    await daemon.up();
    return daemon;
  }

  // The same folder and address each time.
  async up() {
    const address = this.http?.slice("http://".length) ?? "127.0.0.1:0";
    const args = ["up", "--http", address, "--json", "--state", join(this.scratch, "state"), "--adapter", adapter, ...this.#more];
    const env = { ...process.env, HOME: this.scratch, XDG_STATE_HOME: join(this.scratch, "xdg") };
    delete env.TRUNKLINE_CONFIG;
    const child = spawn("trunkline", args, { env, stdio: ["ignore", "pipe", "pipe"] });
    let [line, stderr] = ["", ""];
    child.stderr.on("data", (data) => (stderr += data));
    const ready = new Promise((resolve, reject) => {
      child.stdout.on("data", (data) => (line += data).includes("\n") && resolve(JSON.parse(line)));
      child.on("close", () => reject(new Error(stderr)));
    });
    const { http, socket } = await ready;
    [this.http, this.socket, this.#child] = [http, socket, child];
  }

  async kill() {
    const ended = new Promise((resolve) => this.#child.on("close", resolve));
    this.#child.kill("SIGKILL");
    await ended;
  }

  async #tokens(...args) {
    const env = { ...process.env, HOME: this.scratch, TRUNKLINE_STATE: join(this.scratch, "state") };
    const child = spawn("trunkline", ["token", ...args], { env, stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    child.stdout.on("data", (data) => (said += data));
    await new Promise((resolve) => child.on("close", resolve));
    return said.trim().split("\n");
  }

  async token(...more) {
    return (await this.#tokens("new", ...(more.includes("--scope") ? [] : ["--scope", "control", "--approve"]), ...more)).at(-1);
  }

  // All tokens that control.
  async revoke() {
    const listed = (await this.#tokens("list")).filter((line) => line.includes("control"));
    for (const line of listed) await this.#tokens("revoke", line.trim().split(/\s+/)[0]);
  }

  async end() {
    await this.kill();
    rmSync(this.scratch, { recursive: true, force: true });
  }
}
