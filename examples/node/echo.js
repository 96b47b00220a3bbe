#!/usr/bin/env node
// An echo adapter on Node 20 or later alone: many sessions, stop, a permission demo.
const utf8 = new TextDecoder("utf-8", { fatal: true }); // drops a BOM, refuses bad bytes
const sessions = new Map(); // id -> { id, inputs, turn }
const rest = []; // the pieces of a line that has not ended
let asks = 0, leaving = false;

function send({ id }, type, fields) {
  const line = JSON.stringify({ type, session_id: id, ...fields });
  process.stdout.write(line.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029") + "\n");
}
function begin(session) { // a turn waits for a timer or for an answer, and holds up nobody else
  if (session.turn || session.inputs.length === 0) return;
  const text = session.inputs.shift();
  const [, command, word] = (!leaving && /^\/(tool|sleep) (\S+)/.exec(text)) || [];
  if (command === "tool") {
    const ask = `ask-${++asks}`;
    session.turn = { ask, tool: word };
    send(session, "permission.request", { request_id: ask, tool: word, description: `Run ${word}`, resource: word });
  } else {
    const ms = command === "sleep" && word > 0 ? Math.min(word * 1000, 2 ** 31 - 1) : 0;
    session.turn = { echo: ms ? undefined : text, timer: setTimeout(finish, ms, session, text) };
  }
}
function finish(session, output) { // without output: stopped
  clearTimeout(session.turn.timer);
  session.turn = null;
  if (output !== undefined) send(session, "output", { content: output, channel: "stdout" });
  send(session, "turn.complete");
  begin(session);
}
function handle({ type, session_id: id, content, request_id, approved }) {
  const session = sessions.get(id);
  if (type === "session.start" && typeof id === "string" && !session) {
    if (id && id.isWellFormed() && Buffer.byteLength(id) <= 256) sessions.set(id, { id, inputs: [], turn: null });
  } else if (!session) return; // unknown or closed
  else if (type === "user.input" && typeof (content ?? "") === "string") {
    session.inputs.push((content ?? "").toWellFormed());
    begin(session);
  } else if (type === "permission.response" && session.turn?.ask && session.turn.ask === request_id) {
    finish(session, `${approved === true ? "ran" : "denied"} ${session.turn.tool}`);
  } else if (type === "stop" && session.turn) finish(session);
  else if (type === "session.close") clearTimeout(session.turn?.timer), sessions.delete(id);
}
const read = (bytes) => { try { handle(JSON.parse(utf8.decode(bytes))); } catch {} }; // else noise
function leave() { // node exits when nothing is left to wait for and stdout is written
  leaving = true;
  for (const session of sessions.values()) if (session.turn) finish(session, session.turn.echo);
  process.stdin.destroy();
  setTimeout(process.exit, 2000, 0).unref();
}
process.stdin.on("data", (chunk) => { // LF alone ends a line; decoded whole, no character is cut
  for (let lf; (lf = chunk.indexOf(10)) >= 0; chunk = chunk.subarray(lf + 1))
    read(Buffer.concat([...rest.splice(0), chunk.subarray(0, lf)]));
  rest.push(chunk);
});
process.stdin.on("end", () => (read(Buffer.concat(rest)), leave()));
process.on("SIGTERM", leave);
process.stdout.on("error", () => process.exit(0)); // nobody reads any more
