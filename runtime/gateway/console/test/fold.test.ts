import assert from "node:assert/strict";
import { test } from "node:test";
import { Fold, MAX_PRINTED } from "../src/core/fold.ts";
import type { EndRow, InputRow, NoteRow, PermissionRow, Row, TextRow, ToolRow } from "../src/core/rows.ts";
import type { Entry } from "../src/core/types.ts";

function folded(entries: Entry[]): Fold {
  const fold = new Fold();
  entries.forEach((entry, at) => fold.apply({ seq: at + 1, epoch: 1, ...entry }));
  return fold;
}
const kinds = (fold: Fold): string[] => fold.rows.map((row) => row.kind);
const texts = (fold: Fold): string[] => fold.rows.filter((row): row is TextRow => row.kind === "text").map((row) => row.text);
const row = <K extends Row["kind"]>(fold: Fold, kind: K): Extract<Row, { kind: K }> =>
  fold.rows.find((each) => each.kind === kind) as Extract<Row, { kind: K }>;

test("an entry counts once, whatever comes again", () => {
  const fold = new Fold();
  const entry = { type: "output", content: "a", seq: 1 };
  assert.equal(fold.apply(entry), true);
  assert.equal(fold.apply(entry), false);
  fold.apply({ type: "output", content: "b", seq: 2 });
  assert.equal(fold.apply({ type: "output", content: "x", seq: 1 }), false);
  assert.deepEqual(texts(fold), ["ab"]);
});

test("a gap is shown", () => {
  const fold = new Fold();
  fold.apply({ type: "output", content: "a", seq: 7 });
  assert.deepEqual(kinds(fold), ["text"], "what is before the first one is no gap");
  fold.apply({ type: "output", content: "b", seq: 10 });
  assert.match((row(fold, "note") as NoteRow).text, /8 to 9/);
  fold.apply({ type: "lag", from: 11, to: 12 });
  assert.match((fold.rows[fold.rows.length - 1] as NoteRow).text, /11 to 12/);
});

test("deltas join by message, turn and sub-agent", () => {
  const fold = folded([
    { type: "output", content: "a", message_id: "1" },
    { type: "output", content: "b", message_id: "1" },
    { type: "output", content: "c", message_id: "2" },
    { type: "thinking", content: "hm" },
    { type: "thinking", content: "m" },
    { type: "output", content: "d", message_id: "2" },
    { type: "tool.start", tool_call_id: "t", tool: "Agent" },
    { type: "output", content: "sub", parent_tool_call_id: "t" },
    { type: "output", content: "main" },
    { type: "output", content: "way", parent_tool_call_id: "t" },
    { type: "output", content: " on" },
    { type: "output", content: "old", history: true },
  ]);
  assert.deepEqual(texts(fold), ["ab", "c", "d", "subway", "main on", "old"]);
  assert.deepEqual(fold.rows.map((each) => each.depth), [0, 0, 0, 0, 0, 1, 0, 0]);
});

test("turns queue, run and end", () => {
  const fold = folded([
    { type: "turn.begin", turn_id: "t1", message_id: "m1", content: "one" },
    { type: "turn.begin", turn_id: "t2", message_id: "m2", content: "two", queued: true },
  ]);
  const inputs = [...fold.rows, ...fold.queue] as InputRow[];
  assert.deepEqual(inputs.map((each) => each.state), ["running", "queued"]);
  assert.deepEqual(kinds(fold), ["input"], "what waits is no row");
  assert.equal(fold.running, "t1");
  fold.apply({ type: "progress", message: "half", seq: 3 });
  assert.equal(fold.progress, "half");
  fold.apply({ type: "turn.complete", turn_id: "t1", seq: 4, status: "failed", error: { category: "rate_limit", message: "slow" } });
  assert.deepEqual(inputs.map((each) => each.state), ["ended", "running"]);
  assert.equal(fold.running, "t2");
  assert.equal(fold.progress, "");
  assert.equal((row(fold, "end") as EndRow).category, "rate_limit");
  fold.apply({ type: "turn.complete", turn_id: "t2", seq: 5 });
  assert.equal(fold.running, "");
  assert.deepEqual([...fold.taken], ["m1", "m2"]);
  assert.equal(fold.headline, "one");
});

test("the rows of a turn stay together under its input", () => {
  const fold = folded([
    { type: "turn.begin", turn_id: "t1", content: "one" },
    { type: "output", turn_id: "t1", content: "first " },
    { type: "turn.begin", turn_id: "t2", content: "two", queued: true, files: ["a".repeat(64)] },
    { type: "file.delivered", file_name: "x.txt", sha256: "a".repeat(64) },
    { type: "output", turn_id: "t1", content: "answer " },
    { type: "turn.begin", turn_id: "t3", content: "three", queued: true, by: "ann/t-1/l-1" },
    { type: "stop.requested", turn_id: "t3", by: "ann/t-1/l-1" },
    { type: "turn.complete", turn_id: "t3", status: "stopped", cause: "stopped_unsent" },
    { type: "turn.begin", turn_id: "t4", content: "four", queued: true },
    { type: "turn.complete", turn_id: "t4", status: "failed", error: { category: "other", message: "no room" } },
    { type: "output", turn_id: "t1", content: "goes on" },
  ]);
  assert.deepEqual(texts(fold), ["first answer goes on"]);
  assert.deepEqual(fold.queue.map((each) => each.turn), ["t2"]);
  assert.deepEqual(fold.filesFor("t2").map((each) => each.name), ["x.txt"]);
  assert.deepEqual([...fold.withdrawn], ["t3"]);
  fold.apply({ type: "turn.complete", turn_id: "t1", seq: 12 });
  assert.deepEqual(fold.rows.slice(2).map((each) => [each.kind, each.turn]), [["note", ""], ["end", "t1"], ["input", "t4"], ["end", "t4"], ["input", "t2"], ["file", ""]]);
  const trace = fold.rows[2] as NoteRow;
  assert.deepEqual([trace.text, trace.by, trace.tone], ["a queued input was withdrawn: “three”", "ann/t-1/l-1", "mark"]);
  // What comes late of the first turn stands with it.
  fold.apply({ type: "output", turn_id: "t2", content: "second", seq: 13 });
  fold.apply({ type: "file.output", turn_id: "t1", file_name: "late", seq: 14 });
  assert.deepEqual(fold.rows.map((each) => each.turn).filter((turn, at, all) => turn !== "" && turn !== all[at - 1]), ["t1", "t1", "t4", "t2", "t2"]);
});

test("a queued input that speaks runs", () => {
  const fold = folded([
    { type: "turn.begin", turn_id: "t1", content: "one" },
    { type: "turn.begin", turn_id: "t2", content: "two", queued: true },
    { type: "output", turn_id: "t2", content: "already" },
    { type: "turn.complete", turn_id: "t2", status: "stopped" },
  ]);
  assert.deepEqual([kinds(fold), fold.withdrawn.size], [["input", "input", "text", "end"], 0]);
});

test("an end that was not stored gives way to the stored one", () => {
  const fold = folded([{ type: "turn.begin", turn_id: "t1", content: "one" }]);
  fold.apply({ type: "turn.complete", turn_id: "t1", status: "failed", provisional: true });
  assert.equal((row(fold, "end") as EndRow).provisional, true);
  fold.apply({ type: "turn.complete", turn_id: "t1", status: "failed", seq: 2 });
  assert.deepEqual(kinds(fold), ["input", "end"]);
  assert.equal((row(fold, "end") as EndRow).provisional, false);
});

test("a tool call is one row", () => {
  const fold = folded([
    { type: "tool.start", tool_call_id: "c", tool: "Bash", input: { command: "ls" } },
    { type: "tool.update", tool_call_id: "c", content: "a\n", title: "List" },
    { type: "output", content: "meanwhile" },
    { type: "tool.update", tool_call_id: "c", content: "b\n" },
    { type: "tool.end", tool_call_id: "c", content: "done", is_error: true, duration_ms: 5, diffs: [{ path: "x", patch: "@@ -1 +1 @@\n-a\n+b\n" }, 7, {}] },
    { type: "tool.start", tool_call_id: "c", tool: "Bash" },
  ]);
  const [call, , again] = fold.rows as ToolRow[];
  assert.deepEqual([call?.title, call?.printed, call?.result, call?.state, call?.diffs.length], ["List", "a\nb\n", "done", "failed", 1]);
  assert.equal(again?.state, "running", "an id that comes again after its end is another call");
});

test("what a tool prints is kept within a bound", () => {
  const fold = folded([{ type: "tool.start", tool_call_id: "c", tool: "Bash" }]);
  for (let at = 2; at < 40; at += 1) fold.apply({ type: "tool.update", tool_call_id: "c", content: `${at}`.padEnd(64_000, "."), seq: at });
  const call = row(fold, "tool") as ToolRow;
  assert.ok(call.printed.length <= 2 * MAX_PRINTED);
  assert.ok(call.printed.includes("39."), "its end is kept");
  assert.equal(call.dropped + call.printed.length, 38 * 64_000, "what went is counted");
});

test("requests wait until they are decided, and the last decision stands", () => {
  const fold = folded([
    { type: "permission.request", request_id: "r", tool: "Bash", description: "d", resource: "rm" },
    { type: "input.request", request_id: "q", prompt: "Where?" },
    { type: "permission.request", request_id: "old", tool: "Bash", description: "d", resource: "x", history: true },
  ]);
  assert.deepEqual([...fold.pending.keys()], ["r", "q"]);
  fold.apply({ type: "request.decided", request_id: "r", approved: true, by: "l-1", time: "2026-01-01T00:00:00Z", seq: 4 });
  assert.deepEqual([...fold.pending.keys()], ["q"]);
  const request = row(fold, "permission") as PermissionRow;
  assert.deepEqual([request.decision?.approved, request.decision?.by], [true, "l-1"]);
  fold.apply({ type: "request.decided", request_id: "r", approved: false, cancelled: true, reason: "stopped", seq: 5 });
  assert.deepEqual([request.decision?.approved, request.decision?.reason], [false, "stopped"]);
  fold.apply({ type: "permission.cancel", request_id: "q", seq: 6 });
  assert.equal(fold.pending.size, 0);
});

test("a type that is not known is shown, not lost", () => {
  const fold = folded([{ type: "brand.new", what: 1 }, { type: "custom", name: "tab", data: { url: "x" } }]);
  assert.deepEqual((fold.rows as NoteRow[]).map((note) => note.label), ["brand.new", "tab"]);
  assert.deepEqual((fold.rows[0] as NoteRow).data, { what: 1, seq: 1, epoch: 1 });
});

test("settings are those that were told last", () => {
  const fold = folded([
    { type: "session.info", models: [{ id: "a", label: "A" }, { id: "b" }, {}], model: "a", input_modes: ["steer"] },
    { type: "session.info", model: "b" },
  ]);
  assert.deepEqual(fold.settings.models, [{ id: "a", label: "A" }, { id: "b", label: "b" }]);
  assert.deepEqual([fold.settings.model, fold.settings.inputModes], ["b", ["steer"]]);
});

test("a steer shows whether it arrived", () => {
  const fold = folded([
    { type: "input.steered", message_id: "s", content: "also" },
    { type: "steer.result", message_id: "s", delivered: false, reason: "no turn is running" },
  ]);
  const steer = fold.rows[0] as InputRow;
  assert.deepEqual([steer.steer, steer.delivered, steer.reason], [true, false, "no turn is running"]);
});

test("members of the wrong type do no harm", () => {
  for (const type of ["turn.begin", "output", "thinking", "message", "tool.start", "tool.update", "tool.end", "plan", "progress", "permission.request", "input.request", "request.decided", "file.output", "turn.complete", "session.info", "context.usage", "lag", "error", "log", "host.fact", "session.closed", "rate_limit", "compaction", "custom", "steer.result", "usage"]) {
    for (const bad of [7, true, null, [], [[]], {}, "x", [{ id: {} }]]) {
      const names = ["content", "tool", "title", "input", "diffs", "entries", "options", "fields", "error", "usage", "models", "turn_id", "message_id", "tool_call_id", "request_id", "parent_tool_call_id", "data", "file_name", "sha256", "status", "time", "by", "role", "message", "from", "to"];
      folded([{ type, ...Object.fromEntries(names.map((name) => [name, bad])) }]);
    }
  }
});

test("a summary that was said is not said again", () => {
  const fold = new Fold();
  let seq = 0;
  const turn = (id: string, text: string, summary: string) => {
    fold.apply({ type: "turn.begin", turn_id: id, seq: ++seq });
    fold.apply({ type: "output", turn_id: id, content: text, seq: ++seq });
    fold.apply({ type: "turn.complete", turn_id: id, summary, delivered: "yes", seq: ++seq });
  };
  turn("a", "First.\n\nAll is done.\n", "All is done.");
  turn("b", "First.", "All is done.");
  const ends = fold.rows.filter((row) => row.kind === "end");
  assert.deepEqual(ends.map((row) => [row.summary, row.data]), [["", undefined], ["All is done.", undefined]]);
});

test("a process that ends in trouble is a warning, one that is not needed any more is not", () => {
  const tones = (...entries: Entry[]) => {
    const fold = new Fold();
    for (const [at, entry] of entries.entries()) fold.apply({ ...entry, seq: at + 1 });
    return [fold.asleep, ...fold.rows.map((row) => (row.kind === "note" ? row.tone : ""))];
  };
  const ended = { type: "host.fact", fact: "process_ended", message: "it ended" };
  assert.deepEqual(tones({ type: "host.fact", fact: "opened" }), [undefined, "mark"]);
  assert.deepEqual(tones(ended), [true, "mark"]);
  assert.deepEqual(tones({ ...ended, exit_code: 0 }, { type: "session.info" }), [false, "mark"]);
  assert.deepEqual(tones({ ...ended, exit_code: 3 }), [true, "warning"]);
  assert.deepEqual(tones({ type: "turn.complete", turn_id: "a", status: "failed" }, ended), [true, "", "warning"]);
});
