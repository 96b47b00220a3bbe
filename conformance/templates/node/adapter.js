#!/usr/bin/env node
// An adapter on Node 20 or later alone. Your agent goes into `answer`.
"use strict";
const { once } = require("node:events");
const fs = require("node:fs");
const { basename } = require("node:path");
const { setTimeout: sleep } = require("node:timers/promises");

/**
 * One turn. Say as much as you like; the end of this function ends the turn, and an error is shown to the user.
 * `turn.say(text)` writes output; `await turn.ask({ tool, description, resource })` asks for permission: act only on
 * true. `turn.signal` is aborted by `stop` and by the end of the session: hand it to whatever you wait for.
 * `turn.files` are the files that came with this input: `{ name, mime, path }`; `turn.file(path)` sends one: write it
 * into `TMPDIR`, and leave it there.
 * `turn.state` is yours, and lives as long as the session.
 */
async function answer(turn, text) {
  // To try it out, and for the recipes in conform.toml. Your agent replaces all of this.
  const [, command, rest] = /^\/(\w+) (.*)$/s.exec(text) ?? [];
  if (command === "sleep") await sleep(Number(rest) * 1000, null, { signal: turn.signal });
  const touch = command === "touch" && { tool: "touch", description: `Create ${rest}`, resource: rest };
  if (touch && (await turn.ask(touch))) fs.writeFileSync(rest, "");
  if (command === "fail") throw new Error(rest);
  turn.say(`You said: ${text}`);
}

// What follows is the protocol. For its core nothing below here needs to change.

const utf8 = new TextDecoder("utf-8", { fatal: true }); // drops a BOM, refuses bad bytes
const probing = process.env.CONFORM_PROBE === "1"; // only the conformance suite sets it
const { Probe, scriptIn } = probing ? require("./probe.js") : {};
const sessions = new Map();
const rest = []; // the pieces of a line that has not ended
let kept = 0; // how long that line is, in bytes
let asks = 0;
const LONGEST = 16 << 20; // a longer line is skipped

class Turn {
  asked = new Map();
  over = false;
  #stop = new AbortController();

  constructor(session, files) {
    this.session = session;
    this.state = session.state;
    this.files = files;
    this.signal = this.#stop.signal;
  }

  say(text, channel = "stdout") {
    this.send("output", { content: String(text).toWellFormed(), channel });
  }

  send(type, fields) { // silence once the turn is over, however long `answer` goes on
    if (!this.over) send(this.session, type, fields);
  }

  ask({ tool, description, resource }) {
    const request_id = `ask-${++asks}`;
    this.send("permission.request", { request_id, tool, description, resource });
    return new Promise((resolve, reject) => {
      this.asked.set(request_id, resolve);
      this.signal.addEventListener("abort", () => reject(this.signal.reason), { once: true });
    });
  }

  file(path, mime = "application/octet-stream") {
    this.send("file.output", { file_path: path, file_name: basename(path), file_mime_type: mime });
  }

  async run(text) {
    const { probe } = this.session;
    probe?.noteInput(text);
    const script = probe && scriptIn(text);
    if (!script) return answer(this, text);
    const { signal } = this;
    const room = async () => {
      while (process.stdout.writableNeedDrain) await once(process.stdout, "drain", { signal });
    };
    await probe.run(script, { send: this.send.bind(this), ask: this.ask.bind(this), room, signal });
  }

  end() { // once: one turn.complete for each input
    if (this.over) return;
    this.over = true;
    this.#stop.abort();
    this.session.turn = null;
    send(this.session, "turn.complete", {});
    begin(this.session);
  }
}

function send(session, type, fields) {
  if (sessions.get(session.id) !== session) return; // silence once the session is closed
  const line = JSON.stringify({ type, session_id: session.id, ...fields });
  process.stdout.write(line.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029") + "\n");
}

function open(id) {
  sessions.set(id, { id, inputs: [], turn: null, sent: [], state: {}, probe: probing ? new Probe() : undefined });
}

function begin(session) { // inputs wait for the turn before
  if (session.turn || session.inputs.length === 0) return;
  const { text, files } = session.inputs.shift();
  const turn = (session.turn = new Turn(session, files));
  turn.run(text)
    .catch((error) => turn.say(error, "system")) // a failure ends its turn like any other end
    .then(() => turn.end());
}

function handle(message) {
  const { type, session_id: id, content, request_id, approved, file_path: path } = message;
  const session = sessions.get(id);
  session?.probe?.note(message);
  if (type === "session.start" && typeof id === "string" && !session) {
    if (id && id.isWellFormed() && Buffer.byteLength(id) <= 256) open(id);
  } else if (!session) {
    return; // unknown or closed
  } else if (type === "user.input" && typeof (content ?? "") === "string") {
    session.inputs.push({ text: (content ?? "").toWellFormed(), files: session.sent.splice(0) });
    begin(session);
  } else if (type === "file.input" && typeof path === "string") {
    session.sent.push({ name: message.file_name, mime: message.file_mime_type, path });
  } else if (type === "permission.response" && session.turn?.asked.has(request_id)) {
    session.turn.asked.get(request_id)(approved === true); // anything but true denies
    session.turn.asked.delete(request_id);
  } else if (type === "stop") {
    session.turn?.end();
  } else if (type === "session.close") {
    sessions.delete(id);
    session.inputs = [];
    session.turn?.end();
  }
}

function read(bytes) {
  let message;
  try { message = JSON.parse(utf8.decode(bytes)); } catch { return; } // noise is skipped
  if (message && typeof message === "object") handle(message);
}

function keep(piece) { // of a line that is too long nothing is kept
  kept += piece.length;
  if (kept <= LONGEST) rest.push(piece);
  else rest.length = 0;
}

process.stdin.on("data", (chunk) => { // LF alone ends a line; decoded whole, no character is cut
  for (let lf; (lf = chunk.indexOf(10)) >= 0; chunk = chunk.subarray(lf + 1))
    keep(chunk.subarray(0, lf)), read(Buffer.concat(rest.splice(0))), (kept = 0);
  keep(chunk);
});

function leave() { // running turns get a moment, then they are stopped
  process.stdin.destroy();
  const running = () => [...sessions.values()].filter((session) => session.turn);
  const began = Date.now();
  setInterval(() => {
    if (Date.now() - began > 100) for (const session of running()) session.turn.end();
    if (running().length === 0) process.exit(0);
  }, 10);
}
process.stdin.on("end", () => (read(Buffer.concat(rest)), leave()));
process.on("SIGTERM", leave);
process.stdout.setMaxListeners(0); // every session may wait for it
process.stdout.on("error", () => process.exit(0)); // no one reads any more
