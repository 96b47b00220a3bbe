import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../src/core/api.ts";
import { answerBatch, batchOf, batchText, onceAnswer } from "../src/core/batch.ts";
import type { PermissionRow, RequestRow } from "../src/core/rows.ts";
import type { Json } from "../src/core/types.ts";
import { beyondHeadline } from "../src/core/words.ts";

const row = (request: string, kinds: string[] = [], more: Partial<PermissionRow> = {}): PermissionRow =>
  ({ kind: "permission", request, tool: "Bash", toolKind: "", title: "", description: "", resource: "ls", diffs: [], options: kinds.map((kind, at) => ({ id: `${kind} ${at}`, label: kind, kind })), history: false, ...more }) as PermissionRow;

test("an answer of a batch holds for this time only", () => {
  const all = row("r", ["allow_always", "allow_once", "reject_always", "reject_once"]);
  assert.deepEqual([onceAnswer(all, true), onceAnswer(all, false)], [{ approved: true, option_id: "allow_once 1" }, { approved: false, option_id: "reject_once 3" }]);
  assert.deepEqual([onceAnswer(row("r"), true), onceAnswer(row("r"), false)], [{ approved: true }, { approved: false }]);
  const always = row("r", ["allow_always", "reject_once"]);
  assert.deepEqual([onceAnswer(always, true), onceAnswer(always, false)], [undefined, { approved: false, option_id: "reject_once 1" }]);
  assert.deepEqual([onceAnswer(row("r", ["reject_once"]), true), onceAnswer(row("r", ["allow_once"]), false)], [{ approved: true }, { approved: false }]);
  assert.equal(onceAnswer(row("r", ["yes to everything"]), true), undefined, "only its label says what it means");
});

test("a batch has the open permissions, and never a question", () => {
  const question = { kind: "question", request: "q", history: false } as RequestRow;
  const decided = row("d", [], { decision: { cancelled: false, option: "", reason: "", by: "", time: "", values: {} } });
  const rows = [row("a"), question, decided, row("old", [], { history: true }), row("always", ["allow_always"]), row("b")];
  assert.deepEqual(batchOf("s", rows, true)?.rows.map((each) => each.request), ["a", "b"]);
  assert.deepEqual(batchOf("s", rows, false)?.rows.map((each) => each.request), ["a", "always", "b"]);
  assert.equal(batchOf("s", rows.slice(0, 5), true), undefined, "one alone is no batch");
});

test("each request is answered once, and those that were decided elsewhere are counted", async () => {
  const sent: string[] = [];
  const api = {
    answer: async (session: string, request: string, answer: { [member: string]: Json }): Promise<void> => {
      sent.push(`${session} ${request} ${JSON.stringify(answer)}`);
      if (request === "late") throw new Problem(409, "decided");
      if (request === "ended") throw new Problem(404, "no such request");
    },
  };
  const open = [row("a", ["allow_once"]), row("late"), row("here"), row("ended"), row("b")];
  const batch = batchOf("s", open, true);
  assert.ok(batch);
  // One comes later, and one is decided while the dialog is open.
  open.push(row("later"));
  (open[2] as PermissionRow).decision = { cancelled: false, option: "", reason: "", by: "", time: "", values: {} };
  const steps: number[] = [];
  const outcome = await answerBatch(api, batch, (done) => steps.push(done));
  assert.deepEqual(sent, ['s a {"approved":true,"option_id":"allow_once 0"}', 's late {"approved":true}', 's ended {"approved":true}', 's b {"approved":true}']);
  assert.deepEqual(steps, [1, 2, 3, 4, 5]);
  assert.equal(batchText(batch, outcome), "You allowed 2 of 5 requests. 3 were decided elsewhere before.");
});

test("a failure ends a batch, and what is left is said", async () => {
  let sent = 0;
  const batch = batchOf("s", [row("a"), row("b"), row("c")], false);
  assert.ok(batch);
  const outcome = await answerBatch({ answer: () => (++sent === 2 ? Promise.reject(new Problem(0, "the daemon is not reachable")) : Promise.resolve()) }, batch, () => undefined);
  assert.equal(sent, 2);
  assert.equal(batchText(batch, outcome), "You denied 1 of 3 requests. 2 still wait: the daemon is not reachable");
  assert.equal(batchText(batch, { answered: 3, elsewhere: 0, unsent: 0, fault: "" }), "You denied 3 requests.");
});

test("what a headline leaves out is shown beside it", () => {
  assert.equal(beyondHeadline(row("r")), "");
  assert.equal(beyondHeadline(row("r", [], { resource: "ls\nrm -r /" })), "ls\nrm -r /");
  assert.equal(beyondHeadline(row("r", [], { resource: "", input: { command: "ls\nrm -r /" } })), "ls\nrm -r /");
  assert.equal(beyondHeadline(row("r", [], { tool: "deploy_it", resource: "", input: { where: "all" } })), '{"where":"all"}');
  assert.match(beyondHeadline(row("r", [], { resource: "x".repeat(9000) })), /… and 1000 more characters$/);
});
