import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../src/core/api.ts";
import { MAX_HITS, SessionSearch, readSearchPage, searchProgress, searchWords, splitMatches } from "../src/core/search.ts";
import type { SearchPage } from "../src/core/search.ts";

const page = (hits: number, next: string, searched: number, total?: number): SearchPage => readSearchPage({
  hits: [...Array(hits)].map((_, at) => ({ id: `s-${searched}-${at % 3}`, agent: "a", title: null, seq: at, time: "", kind: "input", snippet: "x" })),
  next: next === "" ? null : next, complete: next === "", sessions_searched: searched, sessions_total: total ?? null,
});

interface Asked {
  text: string;
  after: string;
  agent: string;
  signal: AbortSignal;
  answer: (page: SearchPage) => void;
  fail: (error: Error) => void;
}

function searching(): { asked: Asked[]; search: SessionSearch; pauses: number[]; settled: () => Promise<void> } {
  const asked: Asked[] = [];
  const pauses: number[] = [];
  const search = new SessionSearch(
    (query, signal) => new Promise((answer, fail) => void asked.push({ ...query, signal, answer, fail })),
    () => undefined,
    async (ms) => void pauses.push(ms),
  );
  return { asked, search, pauses, settled: () => new Promise((resolve) => setTimeout(resolve)) };
}

test("a search goes on until all is searched, and only then nothing fits", async () => {
  const { asked, search, settled } = searching();
  search.start("needle agent:coder");
  assert.deepEqual([asked[0]?.text, asked[0]?.agent, asked[0]?.after], ["needle", "coder", ""]);
  asked[0]?.answer(page(0, "p1", 2000, 10_000));
  await settled();
  assert.equal(searchProgress(search), "Searched 2,000 sessions of 10,000 …");
  assert.equal(asked[1]?.after, "p1");
  asked[1]?.answer(page(0, "", 10_000, 10_000));
  await settled();
  assert.equal(searchProgress(search), "Nothing fits.");
  assert.equal(asked.length, 2);
});

test("another text cancels the search before it, and its late answer counts for nothing", async () => {
  const { asked, search, settled } = searching();
  search.start("one");
  search.start("two");
  assert.equal(asked[0]?.signal.aborted, true);
  asked[0]?.answer(page(3, "", 1));
  asked[1]?.answer(page(1, "", 1));
  await settled();
  assert.equal(search.hits.length, 1);
  assert.equal(searchProgress(search), "1 match in 1 session.");
  search.start("  ");
  assert.deepEqual([search.state, search.hits.length], ["empty", 0]);
});

test("a search that was stopped, or found enough, says so and goes on where it was", async () => {
  const { asked, search, settled } = searching();
  search.start("x");
  asked[0]?.answer(page(2, "p1", 5));
  await settled();
  search.stop();
  assert.equal(asked[1]?.signal.aborted, true);
  assert.equal(searchProgress(search), "Searched 5 sessions, 2 matches. Not all was searched.");
  search.more();
  assert.equal(asked[2]?.after, "p1");
  asked[2]?.answer(page(MAX_HITS, "p2", 9));
  await settled();
  assert.equal(search.state, "paused");
  assert.equal(asked.length, 3);
  search.more();
  assert.equal(asked[3]?.after, "p2");
});

test("a busy daemon is asked again; a failure is shown", async () => {
  const { asked, search, pauses, settled } = searching();
  search.start("x");
  asked[0]?.fail(new Problem(429, "too many searches"));
  await settled();
  assert.equal(pauses.length, 1);
  asked[1]?.fail(new Problem(503, "the daemon ends"));
  await settled();
  assert.deepEqual([search.state, search.fault, searchProgress(search)], ["failed", "the daemon ends", ""]);
});

test("an excerpt is cut at its matches, whatever it has", () => {
  assert.deepEqual(splitMatches("A<b>a", "a"), [{ text: "A", hit: true }, { text: "<b>", hit: false }, { text: "a", hit: true }]);
  assert.deepEqual(splitMatches("none", "x"), [{ text: "none", hit: false }]);
  assert.deepEqual(searchWords("agent:b one two"), { words: "one two", agent: "b" });
});
