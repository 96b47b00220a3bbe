#!/usr/bin/env node
// An adapter on Node 20 or later alone. Your agent goes into `answer`.
"use strict";

/**
 * One turn. Say as much as you like; the end of this function ends the turn.
 * `turn.say(text)` writes output; `await turn.may(tool, description, resource)` asks for permission: act only on true.
 * `turn.signal` is aborted by `stop` and by the end of the session: hand it to whatever you wait for.
 * `turn.state` is yours, and lives as long as the session.
 */
async function answer(turn, text) {
  turn.say(`You said: ${text}`);
}

// What follows is the protocol. Nothing below here needs to change.

const utf8 = new TextDecoder("utf-8", { fatal: true }); // drops a BOM, refuses bad bytes
const sessions = new Map();
const rest = []; // the pieces of a line that has not ended
let asks = 0;

class Turn {
  asked = new Map();
  over = false;
  #stop = new AbortController();

  constructor(session) {
    this.session = session;
    this.state = session.state;
    this.signal = this.#stop.signal;
  }

  say(text, channel = "stdout") { // silence once the turn is over, however long `answer` goes on
    if (!this.over) send(this.session, "output", { content: String(text).toWellFormed(), channel });
  }

  may(tool, description, resource) {
    const ask = `ask-${++asks}`;
    if (!this.over) send(this.session, "permission.request", { request_id: ask, tool, description, resource });
    return new Promise((settle) => this.asked.set(ask, settle));
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

function begin(session) { // inputs wait for the turn before
  if (session.turn || session.inputs.length === 0) return;
  const text = session.inputs.shift();
  const turn = (session.turn = new Turn(session));
  (async () => answer(turn, text))()
    .catch((error) => turn.say(error, "stderr")) // a failure ends its turn like any other end
    .then(() => turn.end());
}

function handle({ type, session_id: id, content, request_id, approved }) {
  const session = sessions.get(id);
  if (type === "session.start" && typeof id === "string" && !session) {
    if (id && id.isWellFormed() && Buffer.byteLength(id) <= 256) sessions.set(id, { id, inputs: [], turn: null, state: {} });
  } else if (!session) {
    return; // unknown or closed
  } else if (type === "user.input" && typeof (content ?? "") === "string") {
    session.inputs.push((content ?? "").toWellFormed());
    begin(session);
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

process.stdin.on("data", (chunk) => { // LF alone ends a line; decoded whole, no character is cut
  for (let lf; (lf = chunk.indexOf(10)) >= 0; chunk = chunk.subarray(lf + 1))
    read(Buffer.concat([...rest.splice(0), chunk.subarray(0, lf)]));
  rest.push(chunk);
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
process.stdout.on("error", () => process.exit(0)); // no one reads any more
