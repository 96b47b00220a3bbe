import assert from "node:assert/strict";
import { test } from "node:test";
import { ansi, plain } from "../src/core/ansi.ts";
import { axis, perAgent, perDay } from "../src/core/days.ts";
import { compare, diffView } from "../src/core/diff.ts";
import { ago, bytes, clock, count, duration, money, sessionTitle, who } from "../src/core/format.ts";
import { Problem } from "../src/core/api.ts";
import { Outbox } from "../src/core/outbox.ts";
import { doctorCommand, fileName, linkTarget, rasterType, safeLink, visible } from "../src/core/safe.ts";
import { Samples, points } from "../src/core/samples.ts";
import { Fold } from "../src/core/fold.ts";
import { Seen } from "../src/core/seen.ts";
import { matcher, trouble, way } from "../src/core/wire.ts";
import { seeded } from "./seeded.ts";

test("colours become pieces, all else goes", () => {
  assert.deepEqual(ansi("a\u001b[1;31mb\u001b[0mc"), [
    { text: "a", style: "" }, { text: "b", style: "t-bold t-fg-1" }, { text: "c", style: "" },
  ]);
  assert.equal(plain("\u001b]0;title\u0007x\u001b]8;;javascript:1\u001b\\y\u001b[2J\u001b[10;10Hz\u001b(B\u009b31mq\u0008"), "xyzq");
  assert.equal(plain("10%\r50%\r100%\nnext\r\nlast"), "100%\nnext\nlast");
  assert.equal(plain("\u001b]0;never ends\nbut the next line stays"), "\nbut the next line stays");
  assert.equal(ansi("\u001b[38;2;255;0;0mr")[0]?.style, "t-fg-9");
  assert.equal(ansi("\u001b[38;5;21mb")[0]?.style, "t-fg-12");
  assert.equal(ansi("\u001b[31mx\u001b[32my".repeat(5000)).length, 1001);
  assert.equal(ansi("\u001b[31;7mx")[0]?.style, "t-bg-1");
});

test("a style is one of those that there are, whatever the numbers", () => {
  const random = seeded(3);
  for (let round = 0; round < 3000; round += 1) {
    const numbers = Array.from({ length: 1 + Math.floor(random() * 6) }, () => Math.floor(random() * 300));
    for (const piece of ansi(`\u001b[${numbers.join(random() < 0.2 ? ":" : ";")}mx`)) {
      assert.match(piece.style, /^((t-(bold|dim|italic|under|inverse)|t-[fb]g-(\d|1[0-5]))( |$))*$/, numbers.join(";"));
    }
  }
});

test("a diff makes the new text out of the old one", () => {
  const random = seeded(4);
  const text = (): string => Array.from({ length: Math.floor(random() * 12) }, () => `${"abc"[Math.floor(random() * 3)]}\n`).join("");
  for (let round = 0; round < 2000; round += 1) {
    const [before, after] = [text(), text()];
    const lines = compare(before, after);
    const join = (kind: string): string => lines.filter((line) => line.kind === "same" || line.kind === kind).map((line) => `${line.text}\n`).join("");
    assert.equal(join("del"), before);
    assert.equal(join("add"), after);
  }
});

test("a diff is short, numbered, and bounded in its work", () => {
  const before = Array.from({ length: 100 }, (_, at) => `line ${at}`).join("\n");
  const view = diffView({ path: "x", oldText: before, newText: before.replace("line 50", "changed") });
  assert.deepEqual([view.added, view.removed, view.lines.length], [1, 1, 10]);
  assert.deepEqual(view.lines.find((line) => line.kind === "add"), { kind: "add", text: "changed", before: 0, after: 51 });
  const patch = diffView({ path: "x", patch: "--- a/x\n+++ b/x\n@@ -3,2 +3,2 @@\n same\n-old\n+new\n\\ No newline at end of file\n" });
  assert.deepEqual(patch.lines.map((line) => [line.kind, line.before, line.after]), [
    ["hunk", 0, 0], ["hunk", 0, 0], ["hunk", 0, 0], ["same", 3, 3], ["del", 4, 0], ["add", 0, 4], ["hunk", 0, 0],
  ]);
  const [old, fresh] = ["a", "b"].map((name) => Array.from({ length: 20_000 }, (_, at) => `${name}${at}`).join("\n"));
  const begun = process.cpuUsage();
  const wide = diffView({ path: "x", oldText: old ?? "", newText: fresh ?? "" });
  assert.deepEqual([wide.added, wide.removed], [20_000, 20_000]);
  assert.ok(process.cpuUsage(begun).user < 1_000_000);
});

test("only http, https and mailto are links", () => {
  assert.equal(safeLink("https://example.org/a?b#c"), "https://example.org/a?b#c");
  assert.equal(safeLink("mailto:x@y.example"), "mailto:x@y.example");
  for (const bad of ["javascript:1", " javascript:1", "//x", "/v1", "x", "http:x", "https://u:p@x", "https://u@x", "data:x", "", "https://", `https://${"x".repeat(3000)}`]) {
    assert.equal(safeLink(bad), "", bad);
  }
  assert.equal(linkTarget("https://ex\u0430mple.org/"), "xn--exmple-4nf.org");
});

test("names and types of files are not believed", () => {
  assert.equal(fileName("../../etc/passwd"), "_.._etc_passwd");
  assert.equal(fileName("a\u202egpj.exe"), "agpj.exe");
  assert.equal(fileName("..."), "file");
  assert.equal(visible("a\u202eb\u200bc\n"), "a⟨U+202E⟩b⟨U+200B⟩c\n");
  assert.equal(rasterType(new TextEncoder().encode("<svg onload=1>")), "");
  assert.equal(rasterType(Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10)), "image/png");
  assert.equal(rasterType(new TextEncoder().encode("GIF89a…")), "image/gif");
  assert.equal(rasterType(new TextEncoder().encode("RIFF0000WEBP")), "image/webp");
});

test("the filter of the wire view", () => {
  const line = { seq: 1, end: 1, type: "tool.start", time: "", raw: '{"type":"tool.start","tool":"Bash"}' };
  for (const [query, fits] of [["bash", true], ["type:tool bash", true], ["type:output", false], ["-bash", false], ["-", true], ["-type:output", true], ["from:agent", true], ["to:agent", false], ["is:trouble", false], ["-to:agent bash", true]] as const) {
    assert.equal(matcher(query)(line), fits, query);
  }
});

test("an input that got no answer goes again under its id, one at a time", async () => {
  const store = new Map<string, string>();
  const kept = { getItem: (key: string) => store.get(key) ?? null, setItem: (key: string, value: string) => void store.set(key, value), removeItem: (key: string) => void store.delete(key) };
  const said: [string, string][] = [];
  let answer: Error | undefined = new Problem(0, "the daemon is not reachable");
  const api = { input: (_: string, message: string, body: { content: string }) => {
    said.push([message, body.content]);
    return answer ? Promise.reject(answer) : Promise.resolve({});
  } };
  const outbox = new Outbox(api, "s", () => undefined, kept);
  outbox.add("one", [], "");
  outbox.add("two", [], "");
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(said.map(([, content]) => content), ["one"], "the second waits for the first");
  // The page is loaded again.
  answer = undefined;
  const again = new Outbox(api, "s", () => undefined, kept);
  again.again();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(said.map(([, content]) => content), ["one", "one", "two"]);
  assert.equal(said[0]?.[0], said[1]?.[0]);
  again.taken(new Set(said.map(([id]) => id)), 0);
  assert.deepEqual([again.sent.length, store.size], [0, 0]);
  answer = new Problem(422, "too long");
  again.add("three", [], "");
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([again.sent[0]?.state, again.sent[0]?.detail], ["failed", "too long"]);
  outbox.dispose();
});

test("an input without an answer is tried again with growing pauses", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const said: string[] = [];
  let answer: Error | undefined = new Problem(503, "busy");
  const api = { input: (_: string, message: string) => {
    said.push(message);
    return answer ? Promise.reject(answer) : Promise.resolve({});
  } };
  const outbox = new Outbox(api, "s", () => undefined, undefined);
  const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const wait = async (ms: number): Promise<number> => {
    t.mock.timers.tick(ms);
    await settled();
    return said.length;
  };
  outbox.add("one", [], "");
  outbox.add("two", [], "");
  await settled();
  const [one, two] = outbox.sent;
  assert.deepEqual([said.length, outbox.stalled, one?.detail, two?.detail], [1, true, "waits for the daemon: busy", ""]);
  assert.deepEqual([await wait(124), await wait(126)], [1, 2], "within 250 ms");
  for (let at = 0; at < 12; at += 1) await wait(5000);
  assert.equal(said.length, 14, "at least each 5 s, for ever");
  assert.deepEqual([await wait(2000), new Set(said).size], [14, 1], "the pause is long, and the id the same");
  // A person sends it now; then the next one goes.
  answer = undefined;
  outbox.again();
  await settled();
  assert.deepEqual([said.length, said.at(-1), outbox.stalled, one?.detail], [16, two?.id, false, ""]);
  // One that is withdrawn holds up no other, and a page that is closed sends nothing.
  answer = new Problem(0, "not there");
  outbox.add("three", [], "");
  outbox.add("four", [], "");
  await settled();
  answer = undefined;
  outbox.drop(outbox.sent.find((each) => each.content === "three")?.id ?? "");
  await settled();
  assert.equal(outbox.sent.find((each) => each.content === "four")?.state, "sent");
  answer = new Problem(0, "not there");
  outbox.add("five", [], "");
  await settled();
  outbox.dispose();
  const count = said.length;
  assert.equal(await wait(60_000), count);
});

test("numbers and times read well", () => {
  assert.deepEqual([bytes(0), bytes(999), bytes(1200), bytes(12_000_000)], ["0 B", "999 B", "1.2 kB", "12 MB"]);
  assert.deepEqual([count(9999), count(12_400), count(2_500_000)], ["9999", "12.4k", "2.5M"]);
  assert.deepEqual([duration(18), duration(3120), duration(61_000), duration(7_200_000), duration(299_700), duration(59_700), duration(999.7)], ["18 ms", "3.1 s", "1 min 1 s", "2 h 0 min", "5 min 0 s", "1 min 0 s", "1.0 s"]);
  assert.deepEqual([money(0.0213), money(3.5), money(0)], ["$0.0213", "$3.50", "$0.00"]);
  assert.deepEqual([who("t-1/l-2", "t-1"), who("t-12/l-2", "t-1"), who("l-3", ""), who("", "t-1"), who("bot", "")], ["you", "token 12", "a local program", "you", "bot"]);
  assert.deepEqual([who("ann/t-1/l-2", "ann/t-1"), who("ann/t-12/l-2", "ann/t-1"), who("ann/t-1/l-2", "t-1")], ["you", "ann", "ann"]);
  assert.equal(clock("nonsense"), "");
  assert.equal(ago(new Date(0).toISOString(), 3_600_000 * 5), "5 h");
});

test("a session without a title is named by the beginning of its id", () => {
  assert.deepEqual(
    [["Mend it", "acp-99006fde48634a8d99006fde48634a8d"], ["", "acp-99006fde48634a8d99006fde48634a8d"], ["", "key-0123456789abcdef0123456789abcdef"], ["", "0f8fad5b-d9cb-469f-a165-70867728950e"], ["", "nightly"], ["", "feedface"]].map(([title = "", id = ""]) => sessionTitle(title, id)),
    ["Mend it", "Editor session 99006f", "Session 012345", "Session 0f8fad", "nightly", "feedface"],
  );
});

test("usage is summed by day and agent", () => {
  const days = perDay([
    { date: "2026-01-01", agent: "a", cost_usd: 1, turns: 1 }, { date: "2026-01-01", agent: "a", cost_usd: 2, tokens_in: 5 },
    { date: "2026-01-02", agent: "b", cost_usd: 9 }, { agent: "none" }, { date: "2026-01-02", agent: "a", cost_usd: "x" },
  ]);
  assert.equal(days.length, 3);
  assert.deepEqual(perAgent(days, (day) => day.cost).map((each) => [each.agent, each.cost]), [["b", 9], ["a", 3]]);
});

test("a figure that no turn reported is unknown, and a day without turns has its place", () => {
  const days = perDay([{ date: "2026-01-02", agent: "a", turns: 2, tokens_in: null, tokens_out: null, cost_usd: null }, { date: "2026-01-02", agent: "b", turns: 1, tokens_in: 0, cost_usd: 0, is_estimated: true }, { date: "<b>", agent: "c", turns: 1 }]);
  assert.deepEqual(days.map((day) => [day.tokensIn, day.tokensOut, day.cost, day.isEstimated]), [[undefined, undefined, undefined, false], [0, undefined, 0, true]]);
  assert.equal(perAgent(days, (day) => day.cost).find((each) => each.agent === "a")?.cost, undefined);
  const dates = axis(days, 30, "2026-01-10");
  assert.deepEqual([dates.length, dates[0], dates[29]], [30, "2025-12-12", "2026-01-10"]);
  assert.equal(axis(days, 7, "2026-01-01")[6], "2026-01-02", "a day that is ahead of this clock");
  assert.deepEqual([money(0), money(0.00004), money(0.021), money(3)], ["$0.00", "below $0.0001", "$0.0210", "$3.00"]);
});

test("samples are bounded and drawn over time", () => {
  const samples = new Samples();
  for (let at = 0; at < 2500; at += 1) samples.add([{ id: "a", health: { lines_rate: at % 7 } }], at);
  assert.equal(samples.of("a").length, 1800);
  samples.add([], 3000);
  assert.equal(samples.of("a").length, 0);
  for (const [at, turns] of [[0, 10], [2000, 14], [4000, 3], [6000, 4]]) samples.add([{ id: "b", health: { counters: { turns: turns ?? 0 } } }], at ?? 0);
  assert.deepEqual(samples.of("b").map((each) => each.turnRate), [0, 2, 0, 0.5], "a process that was started again counts anew");
  for (let at = 400; at > 0; at -= 1) samples.turn("b", `s ${at}`, at, at);
  samples.turn("b", "s 1", 1, 7);
  assert.equal(samples.latencies("b").length, 300);
  assert.deepEqual(samples.latencies("b")[0], { at: 1, ms: 7 });
  const sample = { lines: 0, bytesIn: 0, bytesOut: 0, turns: 0, counted: 0, turnRate: 0 };
  assert.equal(points([{ ...sample, at: 0 }, { ...sample, at: 10, lines: 4 }], (each) => each.lines, 100, 50, 4), "0.0,50.0 100.0,0.0");
});

test("an entry says which way it went, and why it failed", () => {
  assert.deepEqual(["turn.begin", "request.decided", "output", "host.fact", "made up"].map(way), ["to", "to", "from", "host", "from"]);
  assert.equal(trouble({ type: "error", category: "protocol", message: "no such turn" }), "protocol: no such turn");
  assert.equal(trouble({ type: "turn.complete", status: "completed" }), "");
  assert.equal(trouble({ type: "turn.complete", status: "failed", error: { category: "crash", message: "gone" } }), "crash: gone");
  assert.equal(trouble({ type: "steer.result", delivered: false, reason: "too late" }), "not delivered: too late");
  assert.equal(trouble({ type: "request.decided", approved: true }), "");
  assert.equal(trouble({ type: "request.decided", approved: false }), "denied");
  const line = (raw: object) => ({ seq: 1, end: 1, type: "tool.end", time: "", raw: JSON.stringify({ type: "tool.end", ...raw }) });
  assert.deepEqual([line({ is_error: true }), line({ is_error: false })].map(matcher("is:trouble")), [true, false]);
});

test("what came since a session was seen is unread, also on the next day", () => {
  const store = new Map<string, string>();
  const kept = { getItem: (key: string) => store.get(key) ?? null, setItem: (key: string, value: string) => void store.set(key, value), removeItem: (key: string) => void store.delete(key) };
  const session = (id: string, entries: number, created: string) => ({ id, entries, created, agent: "", title: "", state: "", cwd: "", active: "", bytes: 0, openTurns: 0, openRequests: 0, host: "", archived: false });
  const seen = new Seen(kept, () => "2026-06-01");
  seen.learn([session("old", 5, "2026-01-01"), session("new", 2, "2026-07-01")]);
  assert.deepEqual([seen.unread(session("old", 5, "2026-01-01")), seen.unread(session("old", 6, "2026-01-01")), seen.unread(session("new", 2, "2026-07-01"))], [false, true, true]);
  seen.mark("new", 2);
  seen.mark("new", 1);
  seen.flush();
  const later = new Seen(kept, () => "2026-09-09");
  assert.deepEqual([later.unread(session("new", 2, "2026-07-01")), later.unread(session("new", 3, "2026-07-01")), later.unread(session("third", 1, "2026-08-01"))], [false, true, true]);
  for (let at = 0; at < 2000; at += 1) later.mark(`s-${at}`, 1);
  later.flush();
  assert.ok((store.get("trunkline.seen") ?? "").length < 40_000, "bounded");
});

test("a turn knows how long its agent was silent, from when it ran", () => {
  const fold = new Fold();
  const at = (second: number) => new Date(second * 1000).toISOString();
  fold.apply({ type: "turn.begin", turn_id: "a", time: at(1) });
  fold.apply({ type: "turn.begin", turn_id: "b", queued: true, time: at(2) });
  fold.apply({ type: "output", turn_id: "a", content: "x", time: at(3) });
  fold.apply({ type: "turn.complete", turn_id: "a", time: at(9), duration_ms: 2 });
  fold.apply({ type: "thinking", turn_id: "b", content: "x", time: at(10) });
  fold.apply({ type: "turn.complete", turn_id: "b", time: at(12), duration_ms: 1500 });
  fold.apply({ type: "turn.begin", turn_id: "c", time: at(20) });
  fold.apply({ type: "turn.complete", turn_id: "c", time: at(21) });
  assert.deepEqual(fold.rows.map((row) => (row.kind === "end" ? row.firstMs : null)).filter((ms) => ms !== null), [2000, 1000, undefined]);
  // No turn takes less time than it takes to its first words.
  assert.deepEqual(fold.rows.flatMap((row) => (row.kind === "end" ? [row.durationMs] : [])), [8000, 1500, undefined]);
});

test("a command for a terminal has only an id that no shell reads", () => {
  assert.equal(doctorCommand("claude-code.2"), "trunkline doctor claude-code.2");
  for (const id of ["", "-x", "a b", "a;ls", "$(ls)", "a\nb", "a'"]) assert.equal(doctorCommand(id), "trunkline doctor");
});
