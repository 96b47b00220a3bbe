import assert from "node:assert/strict";
import { test } from "node:test";
import { Fold } from "../src/core/fold.ts";
import { Heights } from "../src/core/heights.ts";
import type { TextRow } from "../src/core/rows.ts";
import { PART, cut, fenceAfter } from "../src/core/split.ts";
import { seeded } from "./seeded.ts";

test("parts joined are the whole text, however it comes", () => {
  const random = seeded(1);
  const pieces = ["word ", "\n", "\n\n", "```rust\n", "```\n", "~~~\n", "- item\n", "# head\n", "é😀", "`x` ", "x".repeat(900)];
  for (let round = 0; round < 60; round += 1) {
    const fold = new Fold();
    let whole = "";
    for (let seq = 1; seq < 200; seq += 1) {
      const content = pieces[Math.floor(random() * pieces.length)] ?? "";
      whole += content;
      fold.apply({ type: "output", content, seq });
    }
    const rows = fold.rows as TextRow[];
    assert.equal(rows.map((row) => row.text).join(""), whole);
    for (const row of rows) assert.ok(row.text.length <= 8 * PART + 1000, `a part of ${row.text.length}`);
    // Each part knows the code block that it begins in.
    let fence = "";
    for (const row of rows) {
      assert.equal(row.fence, fence);
      for (const line of row.text.split("\n").slice(0, -1)) fence = fenceAfter(fence, line);
    }
  }
});

test("a paragraph is not cut, a list is not either while it is short", () => {
  const text = `${"a".repeat(PART)}\n\nnext paragraph with words`;
  assert.equal(cut(text, "")?.tail, "next paragraph with words");
  assert.equal(cut(`${"a".repeat(PART)}\n\n- item goes on`, ""), undefined);
  assert.equal(cut(`${"a".repeat(PART)}\n\n`, ""), undefined, "what comes is not known yet");
});

test("a line without an end is cut between characters", () => {
  const part = cut("😀".repeat(5 * PART), "");
  assert.ok(part);
  assert.equal(part.head.length % 2, 0);
  assert.doesNotMatch(part.head, /\ud83d$/);
});

test("heights agree with plain sums", () => {
  const random = seeded(2);
  const heights = new Heights();
  const plain: number[] = [];
  for (let step = 0; step < 3000; step += 1) {
    if (plain.length === 0 || random() < 0.6) {
      const height = Math.floor(random() * 90) + 1;
      heights.push(height);
      plain.push(height);
    } else {
      const at = Math.floor(random() * plain.length);
      plain[at] = Math.floor(random() * 90) + 1;
      heights.set(at, plain[at] ?? 0);
    }
    if (step % 50 > 0) continue;
    const at = Math.floor(random() * (plain.length + 1));
    assert.equal(heights.offset(at), plain.slice(0, at).reduce((sum, height) => sum + height, 0));
    const y = random() * heights.total;
    const row = heights.find(y);
    assert.ok(heights.offset(row) <= y && y < heights.offset(row + 1), `row ${row} at ${y}`);
  }
  assert.equal(heights.find(1e9), plain.length - 1);
});
