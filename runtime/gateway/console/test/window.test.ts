import assert from "node:assert/strict";
import { test } from "node:test";
import { Fold } from "../src/core/fold.ts";
import type { Row } from "../src/core/rows.ts";
import { Segment } from "../src/core/segment.ts";
import { splitPage } from "../src/core/stream.ts";
import type { Entry } from "../src/core/types.ts";
import { seeded } from "./seeded.ts";

/** A session of several turns, with texts, calls, plans and requests that lie across each other. */
function session(seed: number): Entry[] {
  const random = seeded(seed);
  const entries: Entry[] = [];
  const pick = <T>(of: T[]): T => of[Math.floor(random() * of.length)] as T;
  const open: string[] = [];
  const calls: string[] = [];
  const requests: string[] = [];
  let count = 0;
  const add = (entry: Entry): void => void entries.push({ seq: entries.length + 1, epoch: 1, time: "2026-01-01T00:00:00Z", ...entry });
  while (entries.length < 1500) {
    const turn = open[0];
    const what = random();
    count += 1;
    if (turn === undefined || (what < 0.01 && open.length < 3)) {
      add({ type: "turn.begin", turn_id: `t${count}`, message_id: `m${count}`, content: `Question ${count}`, by: "l-1", queued: open.length > 0 });
      open.push(`t${count}`);
    } else if (what < 0.02) {
      add({ type: "turn.complete", turn_id: turn, status: pick(["completed", "failed", "stopped"]) });
      open.shift();
    } else if (what < 0.025 && open.length > 1) {
      const gone = open.pop();
      add({ type: "stop.requested", turn_id: gone, reason: "user", by: "l-1" });
      add({ type: "turn.complete", turn_id: gone, status: "stopped" });
    } else if (what < 0.06) {
      calls.push(`c${count}`);
      add({ type: "tool.start", turn_id: turn, tool_call_id: `c${count}`, tool: "Bash", ...(calls.length > 1 && random() < 0.3 ? { parent_tool_call_id: calls[0] } : {}) });
    } else if (what < 0.12 && calls.length > 0) add({ type: "tool.update", turn_id: turn, tool_call_id: pick(calls), content: `line ${count}\n` });
    else if (what < 0.15 && calls.length > 0) add({ type: "tool.end", turn_id: turn, tool_call_id: calls.pop(), content: "done", is_error: random() < 0.3 });
    else if (what < 0.17) add({ type: "plan", turn_id: turn, entries: [{ content: `step ${count}`, status: "pending" }] });
    else if (what < 0.18) {
      requests.push(`r${count}`);
      add({ type: "permission.request", turn_id: turn, request_id: `r${count}`, tool: "Bash", description: "d", resource: "x" });
    } else if (what < 0.2 && requests.length > 0) add({ type: "request.decided", request_id: requests.pop(), approved: true, by: "l-1" });
    else if (what < 0.21) add({ type: "log", stream: "stderr", content: `log ${count}` });
    else if (what < 0.23) add({ type: "thinking", turn_id: turn, content: "hm. " });
    else if (what < 0.24) add({ type: "host.fact", fact: "resumed" });
    else add({ type: "output", turn_id: turn, content: pick(["some words ", "a longer piece of text with **bold** ", "\n\nA paragraph. ", "\n\n```js\ncode\n\nmore\n```\n\nBehind. ", "\n- item\n"]).repeat(1 + Math.floor(random() * 8)) });
  }
  return entries;
}

/** How many turns are open before each entry. */
function openCounts(entries: Entry[]): number[] {
  let count = 0;
  return entries.map((entry) => {
    const before = count;
    count += entry.type === "turn.begin" ? 1 : entry.type === "turn.complete" ? -1 : 0;
    return before;
  });
}

/** What a row shows, without what only the view needs. */
const shown = (row: Row): string => JSON.stringify({ ...row, version: 0, due: 0, early: 0 });

test("a fold that begins anywhere has the rows of the whole one", () => {
  for (let seed = 1; seed <= 6; seed += 1) {
    const entries = session(seed);
    const whole = new Fold();
    for (const entry of entries) whole.apply(entry);
    const known = new Map(whole.rows.map((row) => [row.key, row]));
    const open = openCounts(entries);
    for (let start = 2; start < entries.length; start += 7) {
      // An input that waits, and was sent before the first entry, is read before what follows is sure.
      if ((open[start - 1] ?? 0) > 1) continue;
      const fold = new Fold(true);
      for (const entry of entries.slice(start - 1)) fold.apply(entry);
      fold.know(whole.openTurns);
      const sure = fold.rows.filter((row) => !row.early);
      for (const row of sure) {
        const other = known.get(row.key);
        assert.ok(other, `seed ${seed}, from ${start}: ${shown(row)}`);
        if (shown(row) !== shown(other)) assert.fail(`seed ${seed}, from ${start}: ${row.kind} ${row.seq}: …${shown(row).slice(-400)} / …${shown(other).slice(-400)}`);
      }
      const keys = new Set(sure.map((row) => row.key));
      assert.deepEqual(sure.map((row) => row.key), whole.rows.filter((row) => keys.has(row.key)).map((row) => row.key), `order, seed ${seed}, from ${start}`);
      // Whatever begins behind the first entry is there, but for the parts of texts that began before.
      const texts = new Set(fold.rows.filter((row) => row.early).map((row) => row.turn));
      const lost = whole.rows.filter((row) => row.seq > start && !keys.has(row.key) && !(row.kind === "text" && row.continues && texts.has(row.turn)) && !fold.rows.some((each) => each.early && each.key === row.key));
      assert.deepEqual(lost.map((row) => `${row.kind} ${row.seq}`), [], `seed ${seed}, from ${start}`);
    }
  }
});

test("an answer of many parts has the same rows soon behind any begin", () => {
  const random = seeded(9);
  const entries: Entry[] = [{ type: "turn.begin", turn_id: "t", content: "all", seq: 1 }];
  for (let seq = 2; seq <= 6000; seq += 1) entries.push({ type: "output", turn_id: "t", seq, content: random() < 0.1 ? ". \n\nAnother paragraph " : "with words " });
  const whole = new Fold();
  for (const entry of entries) whole.apply(entry);
  for (const start of [2, 700, 2999, 4321]) {
    const fold = new Fold(true);
    for (const entry of entries.slice(start - 1)) fold.apply(entry);
    const known = new Set(whole.rows.map((row) => row.key));
    const from = fold.rows.findIndex((row) => !row.early);
    assert.ok(from > 0 && (fold.rows[from]?.seq ?? 0) < start + 400, `from ${start}: ${fold.rows[from]?.seq}`);
    assert.ok(fold.rows.slice(from).every((row) => known.has(row.key)), `from ${start}`);
    const text = (rows: Row[]): string => rows.map((row) => (row.kind === "text" ? row.text : "")).join("");
    assert.ok(text(whole.rows).endsWith(text(fold.rows)), "no word is lost");
  }
});

test("a page of history keeps each entry as it came", () => {
  const raws = ['{"type":"output","content":"a \\"quoted\\" ] } , \\\\","n":1.0}', '{"type":"x","big":12345678901234567890,"list":[[1],{"a":[]}]}'];
  const page = splitPage(`{"entries":[${raws.join(",")}],"previous":7,"next":null,"last":9}`);
  assert.deepEqual(page.lines.map((line) => line.raw), raws);
  assert.deepEqual([page.previous, page.next, page.last, page.lines[0]?.entry.content], [7, 0, 9, 'a "quoted" ] } , \\']);
  assert.deepEqual(splitPage('{"entries":[],"previous":null,"next":null,"last":0}').lines, []);
  // Members in another order are read, too.
  assert.deepEqual(splitPage('{"last":3,"entries":[{"type":"a"}]}').lines.map((line) => line.raw), ['{"type":"a"}']);
  assert.throws(() => splitPage('{"entries":[{"type":"a"}'));
});

test("entries that the journal has lost are one row, and the pages go on beyond them", async () => {
  const page = splitPage('{"entries":[{"type":"x","seq":1},{"type":"x","seq":9}],"lost":[{"from":2,"to":8},{"from":10,"to":12}],"last":12}');
  assert.deepEqual(page.lines.map((line) => [line.entry.type, line.entry.seq]), [["x", 1], ["lag", 2], ["x", 9], ["lag", 10]]);
  const segment = new Segment(() => Promise.resolve());
  for (const seq of [13, 14]) segment.push({ raw: `{"type":"x","seq":${seq}}`, entry: { type: "x", seq } });
  segment.unshift(splitPage('{"entries":[],"lost":[{"from":10,"to":12}],"last":14}').lines);
  assert.deepEqual([segment.first, segment.last], [10, 14], "the page before 10 is next");
  segment.unshift(page.lines.filter((line) => Number(line.entry.seq) < 10));
  await segment.refold();
  const notes = segment.fold.rows.filter((row) => row.kind === "note" && row.label === "gap");
  assert.deepEqual(notes.map((row) => row.kind === "note" && row.text), ["the journal has lost entries 2 to 8", "the journal has lost entries 10 to 12"]);
  const raw = '{"type":"output","seq":15,"lost":true,"to":99}';
  segment.push({ raw, entry: JSON.parse(raw) });
  assert.deepEqual([segment.last, segment.fold.last], [15, 15], "an agent's entry covers itself only");
  const end = new Segment(() => Promise.resolve());
  for (const line of page.lines) end.push(line);
  assert.deepEqual([end.first, end.last], [1, 12], "the page from 13 is next");
});

test("entries that are loaded and not yet folded are before the first row", async () => {
  const segment = new Segment(() => Promise.resolve());
  const lines = session(1).slice(0, 100).map((entry) => ({ raw: JSON.stringify(entry), entry }));
  for (const line of lines.slice(50)) segment.push(line);
  assert.deepEqual([segment.first, segment.folded], [51, 51]);
  segment.unshift(lines.slice(0, 50));
  assert.deepEqual([segment.first, segment.folded, segment.part(0, 100).folded], [1, 51, 51]);
  await segment.refold();
  assert.deepEqual([segment.first, segment.folded], [1, 1]);
});
