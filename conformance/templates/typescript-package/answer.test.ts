// Tests of `answer` without a process: `npm test`.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Host } from "@trunkline/sdk/testing";
import { answer } from "./answer.js";

test("it answers", async () => {
  const host = new Host(answer);
  assert.equal((await host.turn(host.open(), "hello")).text, "You said: hello");
  await host.end();
});

test("it acts only where it may", async () => {
  const host = new Host(answer);
  const folder = mkdtempSync(join(tmpdir(), "adapter-"));
  const [file, session] = [join(folder, "made"), host.open()];
  await host.turn(session, `/touch ${file}`);
  assert.ok(!existsSync(file));
  await host.turn(session, `/touch ${file}`, { approve: (request) => request.type === "permission.request" && request.resource === file });
  assert.ok(existsSync(file));
  await host.end();
  rmSync(folder, { recursive: true });
});
