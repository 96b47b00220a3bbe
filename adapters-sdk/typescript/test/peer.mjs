// An adapter process and what it says, for tests: every wait is for a message or for the end.
import { spawn } from "node:child_process";

export class Peer {
  messages = [];
  stderr = "";
  #waiters = [];
  #rest = "";

  // The source of a program, or a command.
  constructor(source, { args = [], env = {} } = {}) {
    const command = Array.isArray(source) ? source : [process.execPath, "--input-type=module", "-e", source, "--", "adapter", ...args];
    this.child = spawn(command[0], command.slice(1), { env: { ...process.env, ...env } });
    this.child.stdout.setEncoding("utf8").on("data", (text) => this.#read(text));
    this.child.stderr.setEncoding("utf8").on("data", (text) => (this.stderr += text));
    this.child.stdin.on("error", () => {});
    this.ended = new Promise((resolve) => this.child.on("close", (status, signal) => resolve({ status, signal })));
    this.ended.then(() => this.#wake());
  }

  #read(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) this.messages.push(JSON.parse(line)); // a line that is no message fails the test
    this.#wake();
  }

  #wake() {
    for (const look of this.#waiters.splice(0)) look();
  }

  raw(data) {
    this.child.stdin.write(data);
  }

  send(...messages) {
    this.raw(messages.map((message) => JSON.stringify(message) + "\n").join(""));
  }

  // The message that fits, from `after` on.
  async wait(fits, after = 0) {
    for (let at = after; ; ) {
      for (; at < this.messages.length; at++) if (fits(this.messages[at])) return this.messages[at];
      if (this.child.exitCode !== null || this.child.signalCode !== null) {
        throw new Error(`it ended: ${JSON.stringify(this.messages).slice(0, 2000)} ${this.stderr}`);
      }
      await new Promise((resolve) => this.#waiters.push(resolve));
    }
  }

  start(session_id, more = {}) {
    this.send({ type: "session.start", session_id, ...more });
  }

  // One input, and all that the adapter says to it.
  async turn(session_id, content, more = {}) {
    const from = this.messages.length;
    this.send({ type: "user.input", session_id, content, ...more });
    await this.wait((m) => m.type === "turn.complete" && m.session_id === session_id, from);
    return this.messages.slice(from).filter((m) => m.session_id === session_id);
  }

  async end() {
    this.child.stdin.end();
    return this.ended;
  }
}

export const ALL = {
  protocol: 1,
  extensions: ["turns", "events", "usage", "resume", "options", "questions", "flow", "control", "large"],
};

export const text = (messages) => messages.filter((m) => m.type === "output").map((m) => m.content).join("");

// A program around the body of its handler.
export const adapter = (body, options = "{}") =>
  `import { serve, Failure } from "@trunkline/sdk"; serve(async (turn, input) => { ${body} }, ${options});`;
