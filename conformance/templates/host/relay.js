#!/usr/bin/env node
// A relay on Node 20 or later alone: it speaks the adapter protocol on its own stdin and stdout, starts one adapter, and
// hands every line on. A skeleton to put your host into: your host stands between `down` and `up`.
//
//     relay.js ADAPTER_COMMAND...
"use strict";

const { spawn } = require("node:child_process");

const LIMIT = 16 << 20; // the longest line; a longer one is dropped
const utf8 = () => new TextDecoder("utf-8", { fatal: true });
const known = new Map(); // id -> how many turns are open; what is not in here is not handed on
let ended = ""; // why, when the adapter has

const [program, ...rest] = process.argv.slice(2);
if (!program) {
  console.error("usage: relay.js ADAPTER_COMMAND...");
  process.exit(2);
}
const adapter = spawn(program, rest, { stdio: ["pipe", "pipe", "inherit"] });

// What the hub says. Decide here what your host makes of it.
function down(message) {
  const { type, session_id: id } = message;
  if (type === "session.start") {
    if (known.has(id) || !id || Buffer.byteLength(id) > 256) return;
    known.set(id, 0);
    message = { type, session_id: id }; // the core only: nothing is offered that is not kept
  } else if (!known.has(id)) {
    return;
  } else if (type === "user.input") {
    known.set(id, known.get(id) + 1);
    if (ended) return endTurns(id);
  } else if (type === "session.close") {
    known.delete(id);
  } else if (type === "permission.response") {
    message.approved = message.approved === true;
  } else if (type !== "stop" && type !== "file.input") {
    return;
  }
  if (adapter.stdin.writable && !adapter.stdin.write(lineOf(message))) { // full: the hub waits
    process.stdin.pause();
    adapter.stdin.once("drain", () => process.stdin.resume());
  }
}

// What the adapter says. Decide here what your host makes of it.
function up(message) {
  const { type, session_id: id } = message;
  if (!known.has(id)) return; // closed, or never opened: late
  if (type === "turn.complete") {
    if (known.get(id) === 0) return; // no one asked
    known.set(id, known.get(id) - 1);
  } else if (!["output", "file.output", "permission.request"].includes(type)) {
    return;
  }
  process.stdout.write(lineOf(message));
}

// Nothing will end the open turns of this session any more: the host does, and says why.
function endTurns(id) {
  for (; known.get(id) > 0; known.set(id, known.get(id) - 1)) {
    process.stdout.write(lineOf({ type: "output", session_id: id, content: ended, channel: "system" }));
    process.stdout.write(lineOf({ type: "turn.complete", session_id: id }));
  }
}

// The adapter has ended, and with it every open turn. It is not started again.
function gone(why) {
  ended = why;
  for (const id of known.keys()) endTurns(id);
}

function lineOf(message) {
  return JSON.stringify(message).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029") + "\n";
}

// Lines are split at LF alone and decoded whole; noise is skipped, and what is too long costs that line only.
function eachLine(stream, handle) {
  let pieces = [], length = 0;
  const read = () => {
    const bytes = Buffer.concat(pieces);
    const tooLong = length > LIMIT;
    pieces = [], length = 0;
    if (tooLong) return;
    let message;
    try { message = JSON.parse(utf8().decode(bytes)); } catch { return; }
    if (typeof message?.type === "string" && typeof message.session_id === "string") handle(message);
  };
  const keep = (piece) => {
    length += piece.length;
    if (length <= LIMIT) pieces.push(piece);
    else pieces = [];
  };
  stream.on("data", (chunk) => {
    for (let lf; (lf = chunk.indexOf(10)) >= 0; chunk = chunk.subarray(lf + 1)) {
      keep(chunk.subarray(0, lf));
      read();
    }
    keep(chunk);
  });
  stream.on("end", read);
}

// The end: the adapter's stdin, then SIGTERM, then SIGKILL.
function stop() {
  process.stdin.destroy();
  adapter.stdin.end();
  setTimeout(() => adapter.kill("SIGTERM"), 2000).unref();
  setTimeout(() => adapter.kill("SIGKILL"), 3000).unref();
  setTimeout(() => process.exit(0), 3500);
  if (adapter.exitCode !== null || adapter.signalCode !== null) process.exit(0);
  adapter.on("close", () => setImmediate(() => process.exit(0)));
}

eachLine(process.stdin, down);
eachLine(adapter.stdout, up);
adapter.on("error", (error) => gone(`the adapter cannot be started: ${error.message}`));
adapter.on("close", (code, signal) => gone(`the adapter ended with ${signal ?? `status ${code}`}`));
adapter.stdin.on("error", () => {}); // it has ended; `gone` tells the sessions
process.stdin.on("end", stop);
process.on("SIGTERM", stop);
process.stdout.on("error", stop); // no one reads any more
