// How the server's cancel, pause and budget stop end a run: by `runningProcesses`, within the run's grace.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { Client, unixSocket } from "@trunkline/sdk/client";
import { prompted, scratch, wake } from "./galyarder.mjs";
import { runningProcesses } from "./galyarder-plugin.mjs";
import { AGENT, NONE, serving } from "./programs.mjs";

after(() => rmSync(scratch, { recursive: true, force: true }));

/** Wakes an agent, and cancels the run as the server does when its output has `text`; at once without one. */
async function cancelled(runId, text, config, more = {}) {
  const spawned = [];
  const isSeen = new Promise((resolve) => {
    more.onLog = async (_, chunk) => void (text !== undefined && chunk.includes(text) && resolve());
    more.onSpawn = async (meta) => void (spawned.push(meta), text === undefined && resolve());
  });
  const run = wake(config, { ...prompted(more.input ?? "wait"), ...more, runId });
  await isSeen;
  const { child, graceSec } = runningProcesses.get(runId);
  const start = performance.now();
  child.kill("SIGTERM");
  assert.equal(child.killed, true); // else the server sends SIGKILL later
  runningProcesses.delete(runId); // as the server does
  const { result } = await run;
  return { result, graceSec, spawned, seconds: (performance.now() - start) / 1000 };
}

const isAlive = (pid) => existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));

describe("Galyarder, cancelled", { concurrency: 4 }, () => {
  test("a turn is stopped, and its process is recorded and gone", { skip: NONE }, async () => {
    const { result, graceSec, spawned, seconds } = await cancelled("run-stop", '"waiting"', { graceSec: 20 });
    assert.deepEqual([result.errorCode, result.signal, result.exitCode, result.timedOut], ["cancelled", "SIGTERM", null, false]);
    assert.equal(result.resultJson.status, "stopped"); // the agent ended its turn itself
    assert.deepEqual([graceSec, spawned.length, Number.isNaN(Date.parse(spawned[0].startedAt))], [20, 1, false]);
    assert.ok(spawned[0].pid > 0 && !isAlive(spawned[0].pid));
    assert.ok(seconds < 5, `${seconds} seconds`);
    assert.equal(runningProcesses.has("run-stop"), false);
  });

  test("an agent that ignores the stop ends within the grace", { skip: NONE }, async () => {
    const { result, spawned, seconds } = await cancelled("run-deaf", '"deaf"', { graceSec: 4 }, { input: "deaf" });
    assert.deepEqual([result.errorCode, isAlive(spawned[0].pid)], ["cancelled", false]);
    assert.ok(seconds < 5, `${seconds} seconds`);
  });

  test("a run whose command never answers ends, too", { skip: NONE }, async () => {
    const config = { command: "sleep", args: ["61"], graceSec: 2 };
    const { result, spawned, seconds } = await cancelled("run-mute", undefined, config);
    assert.deepEqual([result.errorCode, isAlive(spawned[0].pid)], ["cancelled", false]);
    assert.ok(seconds < 5, `${seconds} seconds`);
  });

  test("a run that ends by itself leaves no entry, and a later one of the same id keeps its own", { skip: NONE }, async () => {
    await wake({}, { ...prompted("hello"), runId: "run-done" });
    assert.equal(runningProcesses.has("run-done"), false);
    const other = { child: undefined, graceSec: 1 };
    const onLog = async () => void runningProcesses.set("run-again", other);
    await wake({}, { ...prompted("hello"), onLog, runId: "run-again" });
    assert.equal(runningProcesses.get("run-again"), other);
  });

  test("the command is a client of a daemon: the turn ends there, and the daemon lives", { skip: NONE }, async (t) => {
    const socket = join(scratch, "daemon.sock");
    const args = [...serving(AGENT), "--journal", join(scratch, "journal"), "--listen", `unix:${socket}`];
    const daemon = spawn("trunkline", args, { stdio: ["pipe", "pipe", "inherit"] });
    t.after(() => daemon.kill());
    daemon.stdin.end();
    while (!existsSync(socket)) await new Promise((resolve) => setTimeout(resolve, 20));
    const pipe = `const s = require("node:net").connect(${JSON.stringify(socket)}); process.stdin.pipe(s).pipe(process.stdout)`;
    const config = { command: process.execPath, args: ["-e", pipe], graceSec: 4 };
    const stopped = await cancelled("run-daemon", '"waiting"', config);
    assert.deepEqual([stopped.result.errorCode, stopped.result.resultJson.status], ["cancelled", "stopped"]);
    const deaf = await cancelled("run-daemon-deaf", '"deaf"', config, { input: "deaf" });
    for (const { seconds } of [stopped, deaf]) assert.ok(seconds < 5, `${seconds} seconds`);
    assert.equal(daemon.exitCode, null);
    // A pipe that is gone ends no session there.
    const client = await Client.connect(unixSocket(socket));
    const { sessions } = await client.sessions();
    assert.deepEqual(
      sessions.map(({ state }) => state),
      ["closed", "closed"],
    );
    await client.close();
  });
});
