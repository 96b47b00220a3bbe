#!/usr/bin/env node
// Turns a second of the package against the baseline, 64 sessions in flight, in turns so that what else runs hits all; and
// processor time a turn, which does not depend on what else runs: node bench/run.mjs [TURNS] [ROUNDS], after `npm run build`.
// Fails where the median of turns a second is below the floor.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";

const [turns = 300_000, rounds = 5] = process.argv.slice(2).map(Number);
const SESSIONS = 64;
const FLOOR = 0.8; // of a handler that returns what `output` returned
const END = '{"type":"turn.complete","session_id":"s';
const inputs = Array.from({ length: SESSIONS }, (_, id) => `{"type":"user.input","session_id":"s${id}","content":"hello, this is what the user says"}\n`);

// User and system time of a process with all its threads, in clock ticks (Linux).
function ticks(pid) {
  const [user, system] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ").slice(11, 13);
  return Number(user) + Number(system);
}

// The driver reads no more of a line than it must: what is measured is the program.
function measure(program) {
  const child = spawn(process.execPath, [new URL(program, import.meta.url).pathname], { stdio: ["pipe", "pipe", "inherit"] });
  return new Promise((resolve) => {
    let [left, done, began, spent, rest] = [turns, 0, 0, 0, ""];
    child.stdout.setEncoding("latin1").on("data", (chunk) => {
      const last = chunk.lastIndexOf("\n");
      const lines = rest + chunk.slice(0, last + 1);
      rest = last < 0 ? lines + chunk : chunk.slice(last + 1);
      if (last < 0) return;
      let out = "";
      for (let at = 0; (at = lines.indexOf(END, at)) >= 0; at += END.length) {
        if (++done === SESSIONS) [began, spent] = [performance.now(), ticks(child.pid)]; // each has begun
        if (left-- > 0) out += inputs[parseInt(lines.slice(at + END.length, at + END.length + 2))];
      }
      if (out) child.stdin.write(out);
      if (done === turns + SESSIONS) {
        resolve([(turns / (performance.now() - began)) * 1000, (ticks(child.pid) - spent) / turns]);
        child.stdin.end();
      }
    });
    for (let id = 0; id < SESSIONS; id++) child.stdin.write(`{"type":"session.start","session_id":"s${id}"}\n` + inputs[id]);
  });
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];
const ratios = { "sdk.mjs": [[], []], "async.mjs": [[], []] };
for (let round = 0; round < rounds; round++) {
  const [rate, cost] = await measure("echo.mjs");
  let said = `baseline ${Math.round(rate)}/s`;
  for (const [program, [rates, costs]] of Object.entries(ratios)) {
    const [itsRate, itsCost] = await measure(program);
    rates.push(itsRate / rate);
    costs.push(itsCost / cost);
    said += `, ${program} ${Math.round(itsRate)}/s`;
  }
  console.log(said);
}
for (const [program, [rates, costs]] of Object.entries(ratios)) {
  console.log(`${program}: median ${median(rates).toFixed(2)} of the baseline's turns, ${median(costs).toFixed(2)} times its processor time`);
}
if (median(ratios["sdk.mjs"][0]) < FLOOR) {
  console.error(`sdk.mjs has fewer turns a second than ${FLOOR} of the baseline`);
  process.exitCode = 1;
}
