import assert from "node:assert/strict";
import { test } from "node:test";
import { RowFinder, countMatches, findPattern, markdownText, rowTexts } from "../src/core/find.ts";
import { Fold } from "../src/core/fold.ts";
import type { Row } from "../src/core/rows.ts";
import type { Entry } from "../src/core/types.ts";

const foldOf = (entries: Entry[]): Fold => {
  const fold = new Fold();
  entries.forEach((entry, at) => fold.apply({ seq: at + 1, ...entry }));
  return fold;
};
const pattern = (query: string): RegExp => findPattern(query) ?? assert.fail("no pattern");
const scanned = (query: string, rows: Row[]): RowFinder => {
  const finder = new RowFinder(pattern(query));
  finder.scan(rows, () => false);
  return finder;
};

test("a query is text: case and kind of white space do not count, and no character is special", () => {
  assert.equal(findPattern("  \n"), undefined);
  for (const [query, text, found] of [
    ["a.c", "abc A.C a.c", 2], ["two  words", "Two\nwords, two\twords", 2], ["(x|y)*[z]", "(X|Y)*[Z]", 1], ["a-b/c\\d", "A-b/c\\d", 1], ["ÄRGER", "ärger", 1], ["aa", "aaaa", 2],
  ] as const) assert.equal(countMatches(text, pattern(query)), found, query);
});

test("markdown is found as it is drawn", () => {
  assert.equal(markdownText("A **bold** [link](https://x.example/y) `code`\n\n- one\n- two\n\n| a | b |\n|---|---|\n| c | d |\n\n```rust\nlet x;\n```"),
    "A bold link x.example code\none\ntwo\na\nb\nc\nd\nlet x;");
});

test("every kind of row has its text", () => {
  const { rows } = foldOf([
    { type: "turn.begin", turn_id: "t", content: "needle input" },
    { type: "thinking", content: "needle thought" },
    { type: "output", content: "a **nee**dle text" },
    { type: "tool.start", tool_call_id: "c", tool: "needle tool", title: "needle title", input: { path: "needle input" }, locations: ["needle place"] },
    { type: "tool.update", tool_call_id: "c", content: "\u001b[31mnee\u001b[0mdle printed" },
    { type: "tool.end", tool_call_id: "c", content: "needle result", data: { x: "needle data" }, diffs: [{ path: "needle path", old_text: "a", new_text: "needle new" }] },
    { type: "plan", entries: [{ content: "needle plan", status: "pending" }] },
    { type: "permission.request", request_id: "r", tool: "T", title: "needle title", description: "needle why", resource: "needle what", input: "needle input" },
    { type: "request.decided", request_id: "r", approved: true },
    { type: "input.request", request_id: "q", prompt: "needle question" },
    { type: "file.output", file_name: "needle.txt", sha256: "a".repeat(64) },
    { type: "error", message: "needle error" }, { type: "custom", name: "n", data: "needle custom" },
    { type: "turn.complete", turn_id: "t", status: "failed", error: { message: "needle end" }, summary: "needle summary", result: "needle details" },
  ]);
  const counts = rows.map((row) => `${row.kind} ${rowTexts(row).reduce((sum, each) => sum + countMatches(each.text, pattern("needle")), 0)}`);
  assert.deepEqual(counts, ["input 1", "thought 1", "text 1", "tool 9", "plan 1", "permission 4", "question 1", "file 1", "note 1", "note 1", "end 3"]);
});

test("next and previous go through all matches, around the ends, and survive new rows", () => {
  const fold = foldOf([{ type: "message", role: "user", content: "x x" }, { type: "message", role: "user", content: "none" }, { type: "message", role: "user", content: "x" }]);
  const finder = scanned("x", fold.rows);
  assert.equal(finder.total, 3);
  let match = finder.from(fold.rows[1]) ?? assert.fail();
  const numbers: number[] = [];
  for (let at = 0; at < 4; at += 1) {
    numbers.push(finder.numberOf(match));
    match = finder.step(match, 1) ?? assert.fail();
  }
  assert.deepEqual(numbers, [3, 1, 2, 3]);
  assert.equal(finder.numberOf(finder.step(match, -1) ?? assert.fail()), 3);
  fold.apply({ type: "message", role: "user", content: "x x x", seq: 4 });
  assert.equal(finder.scan(fold.rows, () => false), true);
  assert.equal(finder.total, 6);
  assert.equal(finder.numberOf(match), 1);
});

test("a count that is cut goes on, and a changed row is counted again", () => {
  const fold = foldOf([...Array(100)].map(() => ({ type: "message", role: "user", content: "x" })));
  const finder = new RowFinder(pattern("x"));
  let left = 3;
  finder.scan(fold.rows, () => left-- <= 0);
  assert.equal(finder.complete, false);
  assert.equal(finder.total, 48);
  finder.scan(fold.rows, () => false);
  assert.deepEqual([finder.total, finder.complete], [100, true]);
  const row = fold.rows[7];
  assert.ok(row?.kind === "input");
  row.text = "x x x";
  row.version += 1;
  assert.equal(finder.scan(fold.rows, () => false), true);
  assert.equal(finder.total, 102);
});

test("a match knows its fold, and its number among what is drawn", () => {
  const { rows } = foldOf([
    { type: "tool.start", tool_call_id: "c", tool: "x", title: "y", input: "x x" },
    { type: "tool.end", tool_call_id: "c", content: "x", diffs: [...Array(5)].map((_, at) => ({ path: `p${at}`, new_text: "x" })) },
  ]);
  const finder = scanned("x", rows);
  const row = rows[0] ?? assert.fail();
  assert.equal(finder.total, 9);
  const place = (at: number, open: boolean): string => {
    const { fold, drawn } = finder.place({ row, at }, (text) => open || text.open);
    return `${fold}:${drawn}`;
  };
  assert.deepEqual([0, 1, 2, 3, 4].map((at) => place(at, false)), [":0", "4096:1", "4096:2", "4096:3", "4096 diff 0:1"]);
  assert.equal(place(8, false), "4096 diff 4:5", "the call stays folded, and four changes are open");
  assert.equal(place(8, true), "4096 diff 4:8");
});
