// The plain adapter that the broken ones are made of: it keeps the core's rules, and has a part of the probe.
"use strict";

const path = require("node:path");

const PROBE = process.env.CONFORM_PROBE === "1";
const OPS = ["hello", "say", "echo", "burst", "sleep", "until_stop", "set", "get", "complete"];

class Session {
  constructor(adapter, id) {
    this.adapter = adapter;
    this.id = id;
    this.open = true;
    this.queue = [];
    this.running = false;
    this.variables = new Map();
  }

  send(type, fields) {
    if (this.open) this.adapter.write({ type, session_id: this.id, ...fields });
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
      if (name === "hello") {
        const adapter = path.basename(process.argv[1], ".js");
        this.say(JSON.stringify({ $probe: 1, ops: OPS, adapter, version: "1" }));
      } else if (name === "say") this.say(rest[0]);
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
      await this.pause(Math.min(50, end - Date.now()));
      if (!this.stopped && Date.now() < end) this.say("tick");
    }
  }

  pause(ms) {
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  }
}

// One process: `run` reads lines, `handle` is given each message, `write` puts one out.
class Adapter {
  constructor(SessionType = Session) {
    this.SessionType = SessionType;
    this.sessions = new Map();
  }

  run() {
    let rest = Buffer.alloc(0);
    process.stdin.on("data", (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
        this.handle(parsed(rest.subarray(0, end).toString()));
        rest = rest.subarray(end + 1);
      }
    });
    process.stdin.on("end", () => this.stopAll());
  }

  stopAll() {
    this.sessions.forEach((session) => session.stop());
  }

  handle(message) {
    const { type, session_id: id } = message ?? {};
    if (typeof id !== "string" || id === "") return;
    const session = this.sessions.get(id);
    if (type === "session.start") {
      if (session === undefined) this.sessions.set(id, new this.SessionType(this, id));
    } else if (session === undefined) {
      return;
    } else if (type === "user.input") {
      const content = message.content ?? "";
      if (typeof content === "string") session.input(content);
    } else if (type === "stop") {
      session.stop();
    } else if (type === "session.close") {
      session.open = false;
      session.stop();
      this.sessions.delete(id);
    }
  }

  write(message) {
    process.stdout.write(`${JSON.stringify(message)}\n`);
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

module.exports = { Adapter, Session, parsed };
