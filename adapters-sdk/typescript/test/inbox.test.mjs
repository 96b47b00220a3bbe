// The inbox of the examples, as a process at a real daemon: two sessions, a key that answers, a turn that fails, hostile words.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Client, unixSocket } from "@trunkline/sdk/client";
import { Daemon, skip } from "./daemon.mjs";

const program = join(process.env.TRUNKLINE_EXAMPLES ?? new URL("../../../examples/typescript", import.meta.url).pathname, "dist/inbox.js");

// The text of a terminal as a picture.
function picture(frame) {
  const rows = frame.trimEnd().split("\r\n").map((row) => {
    const [, color = "0", text] = /^(?:\x1b\[(\d+)m)?(.*?)(?:\x1b\[0m)?$/.exec(row);
    return { fill: { 31: "#f28b82", 32: "#81c995", 33: "#fdd663" }[color] ?? "#e8eaed", text: text.replace(/&/g, "&amp;").replace(/</g, "&lt;") };
  });
  const lines = rows.map(({ fill, text }, at) => `<text x="16" y="${32 + at * 20}" fill="${fill}" xml:space="preserve">${text}</text>`);
  const height = 24 + rows.length * 20;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="720" height="${height}" font-family="monospace" font-size="14"><rect width="100%" height="100%" rx="8" fill="#202124"/>${lines.join("")}</svg>\n`;
}

test("the inbox shows what waits over all sessions, and a key answers it", { skip: skip || (existsSync(program) ? false : "no example was built"), timeout: 60_000 }, async () => {
  const daemon = await Daemon.start();
  const client = await Client.connect(unixSocket(daemon.socket), { onPermission: "leave", onQuestion: "leave" });
  const env = { ...process.env, TRUNKLINE_TOKEN: await daemon.token("--scope", "control", "--approve", "--all-sessions"), USER: "ann" };
  const inbox = spawn(process.execPath, [program, daemon.http], { env, stdio: ["pipe", "pipe", "inherit"] });
  let frame = "";
  let look = () => {};
  inbox.stdout.setEncoding("utf8").on("data", (text) => {
    frame = (frame + text).split("\x1b[H\x1b[J").at(-1);
    look();
  });
  const shows = (pattern) =>
    new Promise((resolve) => {
      look = () => pattern.test(frame) && resolve(frame);
      look();
    });
  try {
    const [fixing, reading] = [await client.open({}, { listen: true }), await client.open()];
    await fixing.setTitle("fix the test");
    await reading.setTitle("read the logs");
    const asked = fixing.turn("ask");
    await shows(/1 to answer[^]*> waits .*adapter.*fix the test: Bash r/);
    const question = reading.turn("question");
    await shows(/2 to answer[^]*read the logs: Which\?/);
    inbox.stdin.write("y");
    assert.equal((await asked).text, "true");
    const answered = [];
    for await (const entry of fixing.events()) {
      if (entry.type === "request.decided") answered.push([entry.approved, entry.name]);
      if (entry.type === "turn.complete") break;
    }
    assert.deepEqual(answered, [[true, "ann"]]);
    await shows(/1 to answer[^]*ended .*fix the test: completed/);
    const { end } = await fixing.turn("long", { limits: { turn_timeout_ms: 100 } });
    assert.equal(end.status, "failed");
    await shows(/failed .*fix the test: timeout/);
    const second = fixing.turn("ask");
    await shows(/2 to answer[^]*fix the test: Bash r/);
    if (process.env.TRUNKLINE_PICTURE) writeFileSync(process.env.TRUNKLINE_PICTURE, picture(frame));
    // Another client answers: the inbox drops it.
    await client.answer(fixing.id, fixing.requests[0].request_id, { approved: false });
    assert.equal((await second).text, "false");
    await shows(/1 to answer[^]*> waits .*read the logs/);
    inbox.stdin.write("n");
    assert.equal((await question).text, "cancelled");
    await shows(/0 to answer/);
    const evil = await client.open();
    const words = "\u001b[2J\u202e" + "evil";
    await evil.turn(words);
    const shown = await shows(/evil/);
    assert.ok(!shown.includes("\u202e") && !shown.includes("\x1b[2J"));
    await daemon.kill();
    await shows(/reconnecting: /);
    await daemon.up();
    await shows(/ sessions\r\n/);
    const ended = new Promise((resolve) => inbox.on("close", resolve));
    inbox.stdin.write("q");
    assert.equal(await ended, 0);
  } finally {
    inbox.kill("SIGKILL");
    await client.close();
    await daemon.end();
  }
});
