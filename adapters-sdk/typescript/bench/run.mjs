#!/usr/bin/env node
// Turns a second of the package against the baseline, 64 sessions in flight, in turns so that what else runs hits both:
// node bench/run.mjs [TURNS] [ROUNDS], after `npm run build`.
import { spawn } from "node:child_process";

const [turns = 60_000, rounds = 5] = process.argv.slice(2).map(Number);
const SESSIONS = 64;

function measure(program) {
  const child = spawn(process.execPath, [new URL(program, import.meta.url).pathname], { stdio: ["pipe", "pipe", "inherit"] });
  return new Promise((resolve) => {
    let [left, done, began, rest] = [turns, 0, 0, ""];
    const input = (id) => `{"type":"user.input","session_id":"${id}","content":"hello, this is what the user says"}\n`;
    child.stdout.setEncoding("utf8").on("data", (chunk) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop();
      let out = "";
      for (const line of lines) {
        if (!line.startsWith('{"type":"turn.complete"')) continue;
        if (++done === SESSIONS) began = performance.now(); // each has begun
        if (left-- > 0) out += input(JSON.parse(line).session_id);
      }
      if (out) child.stdin.write(out);
      if (done === turns + SESSIONS) {
        resolve((turns / (performance.now() - began)) * 1000);
        child.stdin.end();
      }
    });
    for (let id = 0; id < SESSIONS; id++) child.stdin.write(`{"type":"session.start","session_id":"s${id}"}\n` + input(`s${id}`));
  });
}

const ratios = [];
for (let round = 0; round < rounds; round++) {
  const [baseline, sdk] = [await measure("echo.mjs"), await measure("sdk.mjs")];
  ratios.push(sdk / baseline);
  console.log(`baseline ${Math.round(baseline)}/s, package ${Math.round(sdk)}/s: ${(sdk / baseline).toFixed(2)}`);
}
console.log(`median ${ratios.sort((a, b) => a - b)[Math.floor(rounds / 2)].toFixed(2)}`);
