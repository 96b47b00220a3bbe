// Handles messages in an async function, whose rejection nobody handles and which ends the process.
"use strict";

const PROBE = process.env.CONFORM_PROBE === "1";
const OPS = ["hello", "say", "echo", "burst", "sleep", "until_stop", "set", "get", "complete"];
const sessions = new Map();

const write = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

class Session {
  constructor(id) {
    this.id = id;
    this.open = true;
    this.queue = [];
    this.running = false;
    this.variables = new Map();
  }

  send(type, fields) {
    if (this.open) write({ type, session_id: this.id, ...fields });
  }

  say(content) {
    this.send("output", { content });
  }

  input(content) {
    this.queue.push(content);
    if (!this.running) this.serve();
  }

  async serve() {
    this.running = true;
    while (this.queue.length > 0 && this.open) {
      this.stopped = false;
      await this.turn(this.queue.shift());
      this.send("turn.complete");
    }
    this.running = false;
  }

  stop() {
    if (!this.running) return;
    this.stopped = true;
    this.wake?.();
  }

  async turn(content) {
    const script = PROBE ? parsed(content) : undefined;
    if (script?.$probe === undefined) return this.say(content);
    for (const [name, ...rest] of script.do ?? []) {
      if (this.stopped || name === "complete") return;
      if (name === "hello") this.say(JSON.stringify({ $probe: 1, ops: OPS, adapter: "unhandled_rejection", version: "1" }));
      else if (name === "say") this.say(rest[0]);
      else if (name === "echo") this.say(rest[0] ?? script.text ?? "");
      else if (name === "burst") await this.burst(...rest);
      else if (name === "sleep") await this.busy(rest[0]);
      else if (name === "until_stop") await this.busy(Infinity);
      else if (name === "set") this.variables.set(rest[0], rest[1]);
      else if (name === "get") {
        const value = this.variables.get(rest[0]) ?? null;
        this.say(JSON.stringify({ $probe: 1, key: rest[0], value }));
      } else return this.say(JSON.stringify({ $probe: 1, unsupported: name }));
    }
  }

  async burst(pieces, bytes, letter = "x") {
    for (let number = 1; number <= pieces && !this.stopped; number += 1) {
      this.say(`${String(number).padStart(8, "0")} `.padEnd(bytes, letter));
      if (process.stdout.writableNeedDrain) await new Promise((done) => process.stdout.once("drain", done));
    }
  }

  async busy(ms) {
    const end = Date.now() + ms;
    while (!this.stopped && Date.now() < end) {
      await new Promise((done) => {
        const timer = setTimeout(done, Math.min(50, end - Date.now()));
        this.wake = () => {
          clearTimeout(timer);
          done();
        };
      });
      if (!this.stopped && Date.now() < end) this.say("tick");
    }
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function handle(message) {
  const { type, session_id: id } = message ?? {};
  if (typeof id !== "string" || id === "") return;
  const session = sessions.get(id);
  if (type === "session.start") {
    if (session === undefined) sessions.set(id, new Session(id));
  } else if (session === undefined) {
    return;
  } else if (type === "user.input") {
    const content = message.content ?? "";
    session.input(content.replaceAll("\r\n", "\n"));
  } else if (type === "stop") {
    session.stop();
  } else if (type === "session.close") {
    session.open = false;
    session.stop();
    sessions.delete(id);
  }
}

let rest = Buffer.alloc(0);
process.stdin.on("data", (chunk) => {
  rest = Buffer.concat([rest, chunk]);
  for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
    handle(parsed(rest.subarray(0, end).toString()));
    rest = rest.subarray(end + 1);
  }
});
process.stdin.on("end", () => sessions.forEach((session) => session.stop()));
