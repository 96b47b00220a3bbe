// The scripts of the mock as an adapter on stdin and stdout, so that the flows run against a daemon with real processes.
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SCRIPTS } from "../mock/agent.mjs";
import { COMMANDS, sha256 } from "../mock/world.mjs";

const KNOWN = ["turns", "events", "usage", "options", "questions", "control", "large"];
/** All that a host without extensions gets, and of each the members that it knows. */
const CORE = {
  output: ["content", "channel"], "turn.complete": [], "file.output": ["file_name", "file_mime_type", "file_path"],
  "permission.request": ["request_id", "tool", "description", "resource"],
};
const PACE = Number(process.env.CONSOLE_PACE ?? 8);
const sessions = new Map();

// A naive reader of lines takes U+2028 for the end of one, so it goes as its escape.
const write = (message) => process.stdout.write(`${JSON.stringify(message).replace(/[\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16)}`)}\n`);

class Session {
  constructor({ session_id, extensions = [], cwd, exchange_dir }) {
    Object.assign(this, { id: session_id, cwd: cwd ?? process.cwd(), dir: exchange_dir ?? tmpdir(), queue: [], running: "", requests: new Map(), paths: new Map() });
    this.agreed = KNOWN.filter((name) => extensions.includes(name));
    this.send({ type: "session.ready", protocol: 1, extensions: this.agreed, adapter: { name: "console-scripts" }, input_modes: ["queue", "steer"], capabilities: { turn_completion: true, updated_input: true }, options_applied: ["cwd", "model", "mode", "reasoning_effort"], ...this.settings() });
  }

  settings(change = {}) {
    this.chosen = { model: "large-2", mode: "code", reasoning_effort: "medium", ...this.chosen, ...change };
    return { ...this.chosen, models: [{ id: "large-2", label: "Large 2" }, { id: "small-1", label: "Small 1" }], modes: [{ id: "code", name: "Code" }, { id: "plan", name: "Plan" }], commands: COMMANDS };
  }

  send(message) {
    if (this.agreed.length > 0) return write({ session_id: this.id, ...message });
    const members = CORE[message.type];
    if (!members) return undefined;
    return write({ type: message.type, session_id: this.id, ...Object.fromEntries(members.map((name) => [name, message[name]])) });
  }

  /** A file in a folder of its own, whatever it is called. */
  file(name, content) {
    const hash = sha256(content);
    const path = join(mkdtempSync(join(this.dir, "file-")), "content");
    writeFileSync(path, content);
    this.paths.set(hash, path);
    return hash;
  }

  input(message) {
    const { message_id, turn_id, mode } = message;
    const content = message.content ?? "";
    if (mode === "steer") return this.send({ type: "steer.result", message_id, delivered: this.running !== "" });
    this.queue.push({ turn: turn_id, content });
    if (this.running === "") void this.next();
  }

  /** A turn that waits is removed; else the running one ends. */
  stop(turn) {
    const queued = this.queue.find((each) => each.turn === turn);
    if (!queued) return turn === undefined || turn === this.running ? this.stopper?.abort() : undefined;
    this.queue = this.queue.filter((each) => each !== queued);
    return this.send({ type: "turn.complete", turn_id: turn, status: "stopped", stop_reason: "user" });
  }

  async next() {
    const { turn, content } = this.queue.shift();
    this.running = turn;
    this.stopper = new AbortController();
    const { signal } = this.stopper;
    const say = ({ sha256: hash, size, ...message }) => {
      if (signal.aborted || !sessions.has(this.id)) return;
      const large = this.agreed.includes("large") ? { size, sha256: hash } : {};
      this.send(message.type === "file.output" ? { ...message, file_path: this.paths.get(hash), ...large } : message);
    };
    const ask = (message) => new Promise((resolve, reject) => {
      this.requests.set(message.request_id, resolve);
      signal.addEventListener("abort", () => reject(new Error("stopped")), { once: true });
      say(message);
    });
    const begun = Date.now();
    let end = { status: "completed" };
    try {
      const script = SCRIPTS[content.trim().split(/\s+/)[0]] ?? SCRIPTS.stream;
      end = (await script({ say, ask, turn, session: this, signal, pace: PACE })) ?? end;
    } catch (error) {
      end = signal.aborted ? { status: "stopped", stop_reason: "user" } : { status: "failed", error: { category: "other", message: error.message } };
    }
    this.requests.clear();
    if (sessions.has(this.id)) this.send({ type: "turn.complete", turn_id: turn, duration_ms: Date.now() - begun, model: this.chosen.model, usage: { input_tokens: 1200, output_tokens: 340, cost_usd: 0.0213, scope: "turn" }, ...end });
    this.running = "";
    if (this.queue.length > 0) void this.next();
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function take(line) {
  let message;
  try {
    message = JSON.parse(utf8.decode(line));
  } catch {
    return;
  }
  if (message?.type === "ping") return write({ type: "pong", session_id: "", nonce: message.nonce });
  if (message?.type === "session.start" && !sessions.has(message.session_id)) return sessions.set(message.session_id, new Session(message));
  const session = sessions.get(message?.session_id);
  if (!session) return;
  switch (message.type) {
    case "user.input":
      return typeof (message.content ?? "") === "string" ? session.input(message) : undefined;
    case "stop":
      return session.stop(message.turn_id);
    case "permission.response":
    case "input.response":
      session.requests.get(message.request_id)?.(message);
      return session.requests.delete(message.request_id);
    case "session.update": {
      const { model, mode, reasoning_effort } = message;
      return session.send({ type: "session.info", ...session.settings(JSON.parse(JSON.stringify({ model, mode, reasoning_effort }))) });
    }
    case "session.close":
      sessions.delete(session.id);
      return session.stopper?.abort();
  }
}

// Node's readline ends lines at U+2028 too, where the protocol has data.
let rest = Buffer.alloc(0);
process.stdin.on("data", (chunk) => {
  rest = Buffer.concat([rest, chunk]);
  for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
    take(rest.subarray(0, end));
    rest = rest.subarray(end + 1);
  }
}).on("end", () => process.exit(0));
