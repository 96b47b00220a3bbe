import assert from "node:assert/strict";
import { test } from "node:test";
import type { HistoryPage } from "../src/core/stream.ts";
import type { Api } from "../src/core/api.ts";
import { RequestCards, inboxItems, requestSummary } from "../src/core/inbox.ts";
import { MAX_OPEN, Notifier, readSwitches, saveSwitches } from "../src/core/notify.ts";
import type { NotifyPort } from "../src/core/notify.ts";
import { SessionOverview } from "../src/core/overview.ts";
import { Seen } from "../src/core/seen.ts";
import type { Entry, Json, Obj } from "../src/core/types.ts";

const event = (type: string, change: string, id: string, more: Obj = {}): Obj => ({ type, change, session_id: id, agent: "coder", time: "2026-06-02T00:00:00Z", seq: 9, ...more });
const snapshot = (...sessions: Obj[]): Obj => ({ type: "snapshot", sessions: sessions as Json[], complete: true });
const idle = (id: string): Obj => ({ id, agent: "coder", title: `title ${id}`, state: "idle", last_seq: 5 });
const settled = (): Promise<void> => new Promise((done) => setTimeout(done, 5));

/** Notifications that are open, by their tag, and all that were shown. */
function notifier(overview: SessionOverview, given: Partial<NotifyPort> = {}): { open: Map<string, string>; all: string[]; closed: string[] } {
  const found = { open: new Map<string, string>(), all: [] as string[], closed: [] as string[] };
  const port: NotifyPort = {
    switches: () => ({ requests: true, failed: true, ended: true }),
    isShown: () => Promise.resolve(false),
    describe: () => Promise.resolve("Write src/main.rs"),
    isOpen: (session, request) => overview.get(session)?.requests.has(request) === true,
    show: (title, body, tag, hash) => {
      found.open.set(tag, body);
      found.all.push(`${title} | ${body} | ${hash}`);
      return { close: () => found.open.delete(tag) && found.closed.push(tag) };
    },
    ...given,
  };
  const it = new Notifier(port);
  overview.watch((notice) => void it.take(notice));
  return found;
}

function overviewOf(...ids: string[]): SessionOverview {
  const overview = new SessionOverview();
  overview.apply(snapshot(...ids.map(idle)));
  return overview;
}

test("a request is notified with what it asks for, and closes when anyone decides it", async () => {
  const overview = overviewOf("s");
  const { open, all, closed } = notifier(overview);
  overview.apply(event("request", "opened", "s", { request_id: "r", request: "permission" }));
  await settled();
  assert.deepEqual(all, ["title s | needs an answer: Write src/main.rs | #/inbox/s/r"]);
  overview.apply(event("request", "answered", "s", { request_id: "r", approved: true, by: "ann" }));
  assert.deepEqual([open.size, closed], [0, ["s/r"]]);
});

test("nothing is notified that a page shows, that was decided meanwhile, or that nobody wants", async () => {
  const overview = overviewOf("shown", "fast", "s");
  const { all } = notifier(overview, { isShown: (session) => Promise.resolve(session === "shown"), switches: () => ({ requests: true, failed: false, ended: false }) });
  for (const id of ["shown", "fast"]) overview.apply(event("request", "opened", id, { request_id: "r", request: "question" }));
  overview.apply(event("request", "answered", "fast", { request_id: "r", cancelled: true }));
  overview.apply(event("turn", "ended", "s", { turn_id: "t", status: "failed", category: "auth" }));
  overview.apply(event("turn", "ended", "s", { turn_id: "t", status: "completed" }));
  await settled();
  assert.deepEqual(all, []);
});

test("a turn that fails or ends is notified, one that a person stopped is not", async () => {
  const overview = overviewOf("s");
  const { all } = notifier(overview, { describe: () => Promise.reject(new Error("gone")) });
  for (const [status, category] of [["failed", "auth"], ["completed", ""], ["limit", ""], ["stopped", ""]]) overview.apply(event("turn", "ended", "s", { turn_id: "t", status: status ?? "", category: category ?? "" }));
  await settled();
  assert.deepEqual(all.map((each) => each.split(" | ")[1]).sort(), ["failed: not signed in", "has ended", "has ended (limit)"]);
});

test("an agent's text is bounded and visible, and so is the number of notifications", async () => {
  const overview = new SessionOverview();
  overview.apply(snapshot({ ...idle("s"), title: `\u202e${"t".repeat(5000)}` }));
  const { open, all } = notifier(overview, { describe: () => Promise.resolve(`a\nb\u0007\u202e${"x".repeat(5000)}`) });
  for (let at = 0; at < 50; at += 1) overview.apply(event("request", "opened", "s", { request_id: `r${at}`, request: "permission" }));
  await settled();
  const [title = "", body = ""] = all[0]?.split(" | ") ?? [];
  assert.ok(title.startsWith("\u27e8U+202E\u27e9t") && title.length <= 100, title);
  assert.ok(body.startsWith("needs an answer: a b\u27e8U+0007\u27e9\u27e8U+202E\u27e9x") && body.length <= 200, body);
  assert.ok(open.size <= MAX_OPEN + 1, `${open.size}`);
  assert.match(open.get("more") ?? "", /^4\d more in the inbox$/);
  for (let at = 0; at < 50; at += 1) overview.apply(event("request", "answered", "s", { request_id: `r${at}` }));
  assert.equal(open.size, 0, "all close");
});

test("the switches are kept, and begin with what needs a person", () => {
  const kept = new Map<string, string>();
  const store = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value), removeItem: (key: string) => void kept.delete(key) };
  assert.deepEqual(readSwitches(store), { requests: true, failed: true, ended: false });
  saveSwitches(store, { requests: false, failed: true, ended: true });
  assert.deepEqual(readSwitches(store), { requests: false, failed: true, ended: true });
  kept.set("trunkline.notify", "{");
  assert.deepEqual(readSwitches(store), { requests: true, failed: true, ended: false });
});

test("the inbox has requests by their age, then sessions with news by how they ended", () => {
  const overview = overviewOf("a", "b", "c", "d", "e");
  const seen = new Seen(undefined, () => "2026-06-01T00:00:00Z");
  const items = (): string[][] => {
    const { waiting, failed, ended, unknown } = inboxItems(overview, (session) => seen.unread(session));
    return [waiting.map((each) => each.key), ...[failed, ended, unknown].map((list) => list.map((each) => each.id))];
  };
  assert.deepEqual(items(), [[], [], [], []], "what was there at first is no news");
  overview.apply(event("request", "opened", "b", { request_id: "new", request: "permission" }));
  overview.apply(event("request", "opened", "a", { request_id: "old/1", request: "permission", time: "2026-06-01T00:00:00Z" }));
  overview.apply(event("turn", "ended", "c", { turn_id: "t", status: "failed" }));
  overview.apply(event("turn", "ended", "d", { turn_id: "t", status: "completed" }));
  overview.apply(event("session", "title", "e", { state: "idle", title: "named" }));
  assert.deepEqual(items(), [["a/old%2F1", "b/new"], ["c"], ["d"], ["e"]]);
  overview.apply(event("session", "state", "c", { state: "running", turn_id: "u" }));
  seen.mark("d", 9);
  assert.deepEqual(items().slice(1), [[], [], ["e"]]);
});

test("news outlive a reload, also of a session that was never opened", () => {
  const kept = new Map<string, string>();
  const store = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value), removeItem: () => undefined };
  const seen = new Seen(store, () => "2026-06-01T00:00:00Z");
  const overview = overviewOf("s");
  overview.watch((notice) => seen.keep(notice.session));
  overview.apply(event("turn", "ended", "s", { turn_id: "t", status: "completed" }));
  seen.flush();
  const later = overviewOf();
  later.apply(snapshot({ ...idle("s"), last_seq: 9 }));
  const session = later.get("s");
  assert.ok(session && new Seen(store, () => "2026-07-01T00:00:00Z").unread(session));
});

test("a card reads its request once, and its decision stays with its author", async () => {
  const entry: Entry = { type: "permission.request", seq: 9, request_id: "r", tool: "Write", resource: "src/main.rs", description: "d" };
  let reads = 0;
  const history = (): Promise<HistoryPage> => {
    reads += 1;
    return reads === 1 ? Promise.reject(new Error("not now")) : Promise.resolve({ lines: [{ entry, raw: "" }], previous: 0, next: 0, last: 1 });
  };
  const overview = overviewOf("s");
  const cards = new RequestCards({ history } as unknown as Api, overview);
  overview.apply(event("request", "opened", "s", { request_id: "r", request: "permission" }));
  const session = overview.get("s");
  const request = session?.requests.get("r");
  assert.ok(session && request);
  const card = cards.get(session, request);
  await settled();
  assert.equal(card.fault, "not now");
  card.again();
  await settled();
  assert.equal(cards.get(session, request), card);
  assert.equal(card.row && requestSummary(card.row), "Write src/main.rs");
  overview.apply(event("request", "answered", "s", { request_id: "r", approved: false, by: "ann/l-1" }));
  assert.deepEqual([cards.decided[0]?.decision.by, cards.decided[0]?.decision.approved, reads], ["ann/l-1", false, 2]);
});
