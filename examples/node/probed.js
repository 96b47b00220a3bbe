#!/usr/bin/env node
// The echo adapter with the conformance suite's probe. Unless CONFORM_PROBE=1 is set, it is the echo adapter.
"use strict";
const { once } = require("node:events");
const { Probe, scriptIn } = require("./probe.js");
const echo = require("./echo.js"); // reads stdin when this file has been run

const { answer, handle } = echo;
const probes = new WeakMap(); // by session
process.stdout.setMaxListeners(0); // every session may wait for it

function probeOf(session) {
  if (!probes.has(session)) probes.set(session, new Probe());
  return probes.get(session);
}
echo.handle = (message) => {
  const session = echo.sessions.get(message.session_id);
  if (session) probeOf(session).note(message);
  handle(message);
};
echo.answer = async (session, text, signal) => {
  const script = scriptIn(text);
  probeOf(session).noteInput(text);
  if (!script) return answer(session, text, signal);
  await probeOf(session).run(script, {
    send: (type, fields) => echo.send(session, type, fields),
    ask: (what) => echo.ask(session, what, signal),
    room: async () => { while (process.stdout.writableNeedDrain) await once(process.stdout, "drain", { signal }); },
    signal,
    name: "echo.js",
  }).catch((error) => echo.send(session, "output", { content: error.message, channel: "system" }));
};
