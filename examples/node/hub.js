#!/usr/bin/env node
// Drives `trunkline serve`, or any adapter: two sessions over one pair of pipes, one input each.
// usage: node hub.js [TEXT TEXT] [-- COMMAND ...]
"use strict";
const { spawn } = require("node:child_process");
const { createInterface } = require("node:readline/promises");

const args = process.argv.slice(2);
const cut = args.includes("--") ? args.indexOf("--") : args.length;
const texts = cut > 0 ? args.slice(0, cut) : ["Hello from one.", "Hello from two."];
const [command, ...rest] = cut + 1 < args.length ? args.slice(cut + 1) : ["trunkline", "serve"];
const inputs = new Map(texts.map((text, index) => [`session-${index + 1}`, text]));
const running = new Set(inputs.keys());
const utf8 = new TextDecoder("utf-8", { fatal: true });
const peer = spawn(command, rest, { stdio: ["pipe", "pipe", "inherit"] });

function send(session_id, type, fields) {
  const line = JSON.stringify({ type, session_id, ...fields });
  peer.stdin.write(line.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029") + "\n");
}

let asking = Promise.resolve(); // one question at a time; meanwhile messages are still read
async function decide({ session_id, request_id, description, resource }) {
  let answer = "";
  if (process.stdin.isTTY) {
    const terminal = createInterface({ input: process.stdin, output: process.stdout });
    answer = await terminal.question(`[${session_id}] ${description} (${resource})? [y/N] `).catch(() => "");
    terminal.close();
  }
  send(session_id, "permission.response", { request_id, approved: answer.trim().toLowerCase() === "y" });
}

function handle(message) {
  if (!inputs.has(message.session_id)) return;
  if (message.type === "output") {
    console.log(`[${message.session_id}] ${message.channel || "stdout"}: ${message.content}`);
  } else if (message.type === "permission.request") {
    asking = asking.then(() => decide(message));
  } else if (message.type === "turn.complete" && running.delete(message.session_id) && running.size === 0) {
    for (const session of inputs.keys()) send(session, "session.close");
    peer.stdin.end();
    setTimeout(() => peer.kill("SIGKILL"), 10_000).unref();
  }
}

const pieces = []; // of a line that has not ended
peer.stdout.on("data", (chunk) => { // LF alone ends a line; decoded whole, no character is cut
  for (let lf; (lf = chunk.indexOf(10)) >= 0; chunk = chunk.subarray(lf + 1)) {
    const line = Buffer.concat([...pieces.splice(0), chunk.subarray(0, lf)]);
    let message;
    try { message = JSON.parse(utf8.decode(line)); } catch { continue; } // noise
    if (message !== null) handle(message);
  }
  pieces.push(chunk);
});
peer.stdin.on("error", () => {}); // a peer that is gone says so by "close"
peer.on("error", (error) => console.error(`cannot start ${command}: ${error.message}`));
peer.on("close", (code, signal) => {
  if (running.size > 0 && peer.pid) console.error(`the peer ended early: ${signal ?? `status ${code}`}`);
  process.exit(running.size > 0 || code !== 0 ? 1 : 0);
});

for (const [session, text] of inputs) {
  send(session, "session.start");
  send(session, "user.input", { content: text });
}
