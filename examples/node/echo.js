#!/usr/bin/env node
// An echo adapter on Node 20 or later alone: many sessions, stop, a permission demo.
const { setTimeout: sleep } = require("node:timers/promises");
const utf8 = new TextDecoder("utf-8", { fatal: true }); // drops a BOM, refuses bad bytes
const sessions = new Map(); // id -> { id, inputs, turn, asked }; the first input is the running turn's
const rest = []; // the pieces of a line that has not ended

function send(session, type, fields) { // silent once closed; false: much of it waits for the host
  if (sessions.get(session.id) !== session) return true;
  const line = JSON.stringify({ type, session_id: session.id, ...fields });
  return process.stdout.write(line.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029") + "\n");
}
async function serve(session, text) { // one turn.complete for each input, in order
  if (session.inputs.push(text.toWellFormed()) > 1) return; // its turn comes
  for (; session.inputs.length > 0; session.inputs.shift()) {
    [session.turn, session.asked] = [new AbortController(), new Map()];
    if (!process.stdin.destroyed) await echo.answer(session, session.inputs[0], session.turn.signal).catch(() => {});
    send(session, "turn.complete");
  }
}
const ask = (session, what, signal) => new Promise((resolve, reject) => { // nothing but true approves
  const request_id = crypto.randomUUID();
  session.asked.set(request_id, (approved) => resolve(approved === true));
  signal.addEventListener("abort", reject);
  send(session, "permission.request", { request_id, ...what });
});
async function answer(session, text, signal) { // `stop` and `session.close` abort it where it waits
  const [, command, word] = /^\/(tool|sleep) (\S+)/.exec(text) || [];
  if (command === "tool") {
    const approved = await ask(session, { tool: word, description: `Run ${word}`, resource: word }, signal);
    text = `${approved ? "ran" : "denied"} ${word}`;
  } else if (word > 0) await sleep(Math.min(word * 1000, 2 ** 31 - 1), null, { signal });
  send(session, "output", { content: text, channel: "stdout" });
}
function handle({ type, session_id: id, content, request_id, approved }) {
  const session = sessions.get(id);
  if (type === "session.start" && typeof id === "string" && !session) {
    if (id && id.isWellFormed() && Buffer.byteLength(id) <= 256) sessions.set(id, { id, inputs: [] });
  } else if (!session) return; // unknown or closed
  else if (type === "user.input" && typeof (content ?? "") === "string") serve(session, content ?? "");
  else if (type === "permission.response") session.asked?.get(request_id)?.(approved);
  else if (type === "stop") session.turn?.abort(); // which may have ended
  else if (type === "session.close") sessions.delete(id), session.inputs.splice(0), session.turn?.abort();
}
const read = (bytes) => { try { echo.handle(JSON.parse(utf8.decode(bytes))); } catch {} }; // else noise
function leave() { // node exits when nothing is left to wait for and stdout is written
  process.stdin.destroy();
  for (const session of sessions.values()) session.turn?.abort();
  setTimeout(process.exit, 2000, 0).unref();
}
process.stdin.on("data", (chunk) => { // LF alone ends a line; decoded whole, no character is cut
  for (let lf; (lf = chunk.indexOf(10)) >= 0; chunk = chunk.subarray(lf + 1))
    read(Buffer.concat([...rest.splice(0), chunk.subarray(0, lf)]));
  rest.push(chunk);
});
process.stdin.on("end", () => (read(Buffer.concat(rest)), leave()));
process.on("SIGTERM", leave);
process.stdout.on("error", () => process.exit(0)); // no one reads any more
const echo = module.exports = { sessions, send, ask, answer, handle };
