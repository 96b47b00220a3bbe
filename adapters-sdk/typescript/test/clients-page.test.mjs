// The program of docs/clients.md that watches all sessions, as the page has it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { test } from "node:test";
import { Client, unixSocket } from "@trunkline/sdk/client";
import { Daemon, skip as without } from "./daemon.mjs";

const examples = process.env.TRUNKLINE_EXAMPLES ?? fileURLToPath(new URL("../../../examples/typescript", import.meta.url));
const page = join(examples, "../../docs/clients.md");
const skip = without || (existsSync(page) ? false : "no pages beside the package");

test("the program of the page shows what waits and what comes, and answers both", { skip, timeout: 60_000 }, async () => {
  const daemon = await Daemon.start();
  const client = await Client.connect(unixSocket(daemon.socket), { onPermission: "leave" });
  // Beside this test, so that it finds the package.
  const program = fileURLToPath(new URL(`watch-${process.pid}.mjs`, import.meta.url));
  const [, text] = /```js\n([^]*?)```/.exec(readFileSync(page, "utf8"));
  writeFileSync(program, text.replace("http://127.0.0.1:7457", daemon.http));
  writeFileSync(join(daemon.scratch, "token"), await daemon.token("--scope", "control", "--approve", "--all-sessions"));
  let watch;
  try {
    const session = await client.open({}, { listen: true });
    const first = session.turn("ask");
    for await (const { type } of session.events()) if (type === "permission.request") break;
    watch = spawn(process.execPath, [program], { cwd: daemon.scratch, stdio: ["pipe", "pipe", "inherit"] });
    let shown = "";
    const answers = ["y\n", "n\n"];
    watch.stdout.on("data", (data) => {
      const before = shown.split("(y/n)").length;
      shown += data;
      for (let more = shown.split("(y/n)").length - before; more > 0; more--) watch.stdin.write(answers.shift());
    });
    assert.equal((await first).text, "true");
    assert.equal((await (await client.open()).turn("ask")).text, "false");
    assert.equal(shown, "Bash: r (y/n) ".repeat(2));
    const { entries } = await session.history();
    assert.equal(entries.find(({ type }) => type === "request.decided").name, "Anna");
  } finally {
    watch?.kill();
    rmSync(program);
    await client.close();
    await daemon.end();
  }
});
