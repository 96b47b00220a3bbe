import assert from "node:assert/strict";
import { test } from "node:test";
import { agentHealth } from "../src/core/health.ts";

const health = (more: object): { [name: string]: never } => ({ id: "a", state: "idle", health: { severity: "ok", verdict: "fine", liveness: "down", ...more } }) as never;

test("an agent that failed is not idle, and its card has the reason", () => {
  const gone = agentHealth(health({ severity: "warning", verdict: "its process did not start; it may be started again now; read its stderr", restart_in_ms: 0 }), "The last turn failed: no such file");
  assert.deepEqual([gone.state, gone.severity, gone.failure, gone.restartMs], ["failed", "warning", "The last turn failed: no such file", undefined]);
  assert.equal(gone.verdict, "its process did not start; it may be started again now", "there is no stderr to be read");
  const dies = agentHealth(health({ severity: "error", verdict: "it ends; read its stderr", stderr: "a\n\u001b[31mconfig: missing\u001b[0m\n", restart_in_ms: 900 }), "");
  assert.deepEqual([dies.state, dies.verdict, dies.lastWords, dies.restartMs], ["failed", "it ends; read its stderr", "config: missing", 900]);
  // The daemon judges by several turns, a person by the last one.
  const once = agentHealth(health({}), "The last turn failed");
  assert.deepEqual([once.state, once.severity, once.verdict], ["failed", "warning", ""]);
  assert.deepEqual(agentHealth(health({ liveness: "down" }), "").state, "idle");
  assert.deepEqual(agentHealth(health({ severity: "warning", liveness: "alive" }), "").state, "idle");
});
