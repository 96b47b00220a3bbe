import assert from "node:assert/strict";
import { test } from "node:test";
import type { HistoryPage } from "../src/core/stream.ts";
import type { Api, Filter, Page } from "../src/core/api.ts";
import { OutcomeReader, readRequest } from "../src/core/entries.ts";
import { MAX_SESSIONS, SessionOverview, failureText, shownState } from "../src/core/overview.ts";
import type { Notice } from "../src/core/overview.ts";
import { SessionPages, findSessions } from "../src/core/pages.ts";
import { listed } from "../src/core/types.ts";
import type { Entry, Json, Obj } from "../src/core/types.ts";

const event = (type: string, change: string, seq: number, more: Obj = {}): Obj => ({ type, change, session_id: "s", agent: "coder", time: `2026-06-01T00:00:0${seq % 10}Z`, seq, ...more });
const snapshot = (sessions: Obj[], complete = true): Obj => ({ type: "snapshot", sessions: sessions as Json[], complete });
const session = (id: string, more: Obj = {}): Obj => ({ id, agent: "coder", title: `title ${id}`, state: "idle", last_seq: 5, ...more });
const asking = (id: string, ...requests: string[]): Obj => session(id, { state: "running", turn_id: "t", requests: requests.map((each) => ({ id: each, request: "permission", turn_id: "t", since: "2026-06-01T00:00:00Z" })) });

function watched(): { overview: SessionOverview; notices: string[] } {
  const overview = new SessionOverview();
  const notices: string[] = [];
  overview.watch((notice: Notice) => notices.push(notice.kind === "ended" ? `ended ${notice.outcome.status}` : `${notice.kind} ${notice.request.id}`));
  return { overview, notices };
}

test("a snapshot in parts and the changes between them are applied in their order", () => {
  const { overview, notices } = watched();
  overview.apply(snapshot([asking("s", "r1"), session("b")], false));
  overview.apply(event("request", "answered", 6, { request_id: "r1", turn_id: "t", by: "ann/l-1", approved: true }));
  overview.apply(event("session", "opened", 1, { session_id: "n", state: "idle", title: "new" }));
  overview.apply(snapshot([session("c")]));
  assert.deepEqual([...overview.all()].map((each) => each.id), ["s", "b", "n", "c"]);
  assert.equal(overview.waitingCount, 0);
  assert.deepEqual(notices, ["answered r1"]);
});

test("what waits at first is no news; what waits anew after a gap is", () => {
  const { overview, notices } = watched();
  overview.apply(snapshot([asking("s", "r1"), session("gone")]));
  assert.deepEqual([overview.waitingCount, notices.length], [1, 0]);
  overview.apply({ type: "reset", reason: "too_old" });
  overview.apply(snapshot([asking("s", "r2")]));
  assert.deepEqual(notices, ["gone r1", "opened r2"]);
  assert.equal(overview.get("gone"), undefined, "a session that no snapshot has is gone");
  assert.equal(overview.waitingCount, 1);
});

test("requests end with their answer, their turn or their session", () => {
  const { overview, notices } = watched();
  overview.apply(snapshot([session("s")]));
  for (const id of ["a", "b", "c"]) overview.apply(event("request", "opened", 6, { request_id: id, request: "question", turn_id: id === "c" ? "other" : "t" }));
  overview.apply(event("request", "opened", 6, { request_id: "a", request: "question", turn_id: "t" }));
  assert.equal(overview.waitingCount, 3);
  assert.equal(shownState(overview.get("s") as never), "asks");
  overview.apply(event("request", "answered", 7, { request_id: "a", turn_id: "t", cancelled: true }));
  overview.apply(event("turn", "ended", 8, { turn_id: "t", status: "failed", category: "auth" }));
  assert.equal(overview.waitingCount, 1, "the request of another turn waits on");
  overview.apply(event("session", "closed", 9, { state: "closed" }));
  assert.deepEqual(notices, ["opened a", "opened b", "opened c", "answered a", "gone b", "ended failed", "gone c"]);
  overview.apply(event("session", "removed", 9));
  assert.equal(overview.get("s"), undefined);
});

test("a failed turn is the state until a turn ends otherwise", () => {
  const { overview } = watched();
  overview.apply(snapshot([session("s")]));
  const state = (): string => shownState(overview.get("s") as never);
  overview.apply(event("turn", "ended", 6, { turn_id: "t", status: "failed", category: "auth" }));
  assert.deepEqual([state(), failureText(overview.get("s")?.outcome)], ["failed", "The last turn failed: not signed in"]);
  overview.apply(event("session", "state", 7, { state: "running", turn_id: "u" }));
  assert.equal(state(), "running");
  overview.apply(event("turn", "ended", 8, { turn_id: "u", status: "completed" }));
  overview.apply(event("session", "state", 8, { state: "idle" }));
  assert.equal(state(), "idle");
  overview.apply(event("turn", "ended", 9, { turn_id: "v", status: "failed" }));
  overview.apply({ type: "reset" });
  overview.apply(snapshot([session("s", { last_seq: 40 })]));
  assert.equal(state(), "idle", "turns that ended unseen have another outcome");
});

test("the stream prevails over an older answer of the list", () => {
  const { overview } = watched();
  const answer = listed({ id: "s", agent: "coder", title: "old", state: "running", entries: 5, active: "2026-06-01T00:00:00Z", created: "2026-05-01T00:00:00Z", cwd: "/srv", open_requests: 0 });
  overview.apply(snapshot([asking("s", "r")]));
  overview.isLive = true;
  overview.apply(event("session", "state", 6, { state: "idle", title: "new" }));
  overview.list([answer]);
  const known = overview.get("s");
  assert.deepEqual([known?.state, known?.title, known?.cwd, known?.active], ["idle", "new", "/srv", "2026-06-01T00:00:06Z"]);
  assert.equal(overview.waitingCount, 1, "the list's count is older, too");
  overview.isLive = false;
  overview.list([{ ...answer, entries: 9, state: "closed" }]);
  assert.deepEqual([overview.get("s")?.state, overview.waitingCount], ["closed", 0]);
});

test("the number of sessions is bounded, and one that asks is never dropped", () => {
  const { overview } = watched();
  overview.apply(snapshot([asking("first", "r")], false));
  for (let part = 0; part < 30; part += 1) overview.apply(snapshot([...Array(1000)].map((_, at) => session(`${part}-${at}`)), part === 29));
  assert.ok([...overview.all()].length <= MAX_SESSIONS);
  assert.equal(overview.waitingCount, 1);
  assert.ok(overview.get("29-999"), "the oldest go first");
});

/** A daemon with these pages of the list. */
function pager(pages: Page[]): { api: Api; asked: (string | undefined)[] } {
  const asked: (string | undefined)[] = [];
  const sessions = async (filter: Filter): Promise<Page> => {
    asked.push(filter.cursor);
    const page = pages[filter.cursor === undefined ? 0 : Number(filter.cursor)];
    if (!page) throw new Error("no such page");
    return page;
  };
  return { api: { sessions } as unknown as Api, asked };
}

const row = (id: string, active: string): Page["sessions"][number] => listed({ id, agent: "coder", title: id, state: "idle", active, created: active, entries: 1 });

test("a search goes on behind empty pages until something is found or none follow", async () => {
  const { api, asked } = pager([{ sessions: [], next: "1", missing: [] }, { sessions: [], next: "2", missing: [] }, { sessions: [row("4711", "1")], next: "3", missing: [] }, { sessions: [], next: "", missing: [] }]);
  const filter = { text: "4711", state: "", agent: "" };
  assert.deepEqual((await findSessions(api, filter, 1, new AbortController().signal)).map((each) => each.id), ["4711"]);
  assert.deepEqual(asked, [undefined, "1", "2"]);
  assert.equal((await findSessions(api, filter, 5, new AbortController().signal)).length, 1);
  const stopped = new AbortController();
  stopped.abort();
  await findSessions(api, filter, 5, stopped.signal);
  assert.equal(asked.length, 3 + 4 + 1, "a cancelled search asks for no further page");
});

test("the list shows what its pages reach, and what changed since", async () => {
  const overview = new SessionOverview();
  const { api } = pager([{ sessions: [row("b", "2026-06-02"), row("c", "2026-06-01")], next: "1", missing: ["h2"] }, { sessions: [row("d", "2026-05-01")], next: "", missing: [] }]);
  const pages = new SessionPages(api, overview, { text: "", state: "", agent: "" }, () => undefined);
  const ids = (): string[] => pages.rows().map((each) => each.id);
  await pages.more();
  overview.list([row("found by a search", "2026-04-01")]);
  assert.deepEqual(ids(), ["b", "c"], "older ones have their place behind the next page");
  overview.apply(event("turn", "started", 9, { session_id: "c", time: "2026-06-03" }));
  overview.apply(event("session", "opened", 1, { session_id: "n", time: "2026-06-04", state: "idle" }));
  overview.apply(event("session", "archived", 9, { session_id: "b", time: "2026-06-04", state: "idle", archived: true }));
  assert.deepEqual(ids(), ["n", "c"]);
  await pages.more();
  assert.deepEqual(ids(), ["n", "c", "d", "found by a search"]);
  assert.deepEqual([pages.next, [...pages.missing]], ["", ["h2"]]);
  pages.stop();
  assert.equal(pages.isStopped, true);
});

/** A daemon with these entries. */
function journal(entries: Entry[]): { api: Api; asked: string[] } {
  const asked: string[] = [];
  const history = async (_: string, range: { before: number | "end" } | { from: number }, limit: number): Promise<HistoryPage> => {
    asked.push(JSON.stringify(range));
    const before = "from" in range ? 0 : range.before === "end" ? entries.length + 1 : range.before;
    const from = "from" in range ? range.from : Math.max(1, before - limit);
    const end = "from" in range ? from + limit : before;
    const lines = entries.slice(from - 1, end - 1).map((entry) => ({ entry, raw: "" }));
    return { lines, previous: from > 1 ? from : 0, next: 0, last: entries.length };
  };
  return { api: { history } as unknown as Api, asked };
}

test("a request is read by its number, or else backwards, and the search is bounded", async () => {
  const entries: Entry[] = [...Array(10_000)].map((_, at) => ({ type: "output", seq: at + 1 }));
  entries[9500] = { type: "permission.request", request_id: "r", seq: 9501 };
  entries[9600] = { type: "request.decided", request_id: "r", by: "ann", seq: 9601 };
  const { api, asked } = journal(entries);
  assert.deepEqual((await readRequest(api, "s", "r", 9501)).map((each) => each.seq), [9501]);
  assert.equal(asked.length, 1);
  assert.deepEqual((await readRequest(api, "s", "r", undefined)).map((each) => each.seq), [9501, 9601]);
  assert.deepEqual((await readRequest(api, "s", "r", 3)).map((each) => each.seq), [9501, 9601], "a number that is another entry's");
  asked.length = 0;
  assert.deepEqual(await readRequest(api, "s", "not there", undefined), []);
  assert.equal(asked.length, 25);
});

test("the outcome of a session is read once, with the reason of a failure", async () => {
  const { api, asked } = journal([{ type: "turn.begin", seq: 1 }, { type: "turn.complete", status: "failed", error: { category: "auth", message: "log in\nwith more" }, seq: 2 }, { type: "host.fact", seq: 3 }]);
  const overview = new SessionOverview();
  overview.apply(snapshot([session("s", { last_seq: 3, state: "detached" }), session("r", { state: "running" })]));
  const outcomes = new OutcomeReader(api, overview);
  for (let at = 0; at < 3; at += 1) for (const each of overview.all()) outcomes.want(each);
  await new Promise((done) => setTimeout(done));
  assert.equal(shownState(overview.get("s") as never), "failed");
  assert.equal(failureText(overview.get("s")?.outcome), "The last turn failed: not signed in: log in");
  for (const each of overview.all()) outcomes.want(each);
  assert.equal(asked.length, 1);
});
