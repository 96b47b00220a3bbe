import assert from "node:assert/strict";
import { test } from "node:test";
import { groupSessions } from "../src/core/groups.ts";
import type { Grouping } from "../src/core/groups.ts";
import type { KnownSession } from "../src/core/overview.ts";
import { MAX_PINS, PinnedSessions } from "../src/core/pins.ts";

// Far from the time of the daemon.
process.env.TZ = "Pacific/Auckland";

/** A Wednesday, at noon of the time zone of the test. */
const NOW = new Date(2026, 6, 15, 12);
const daysAgo = (days: number, hour = 10): string => new Date(2026, 6, 15 - days, hour).toISOString();
const session = (id: string, active: string, more: Partial<KnownSession> = {}): KnownSession => ({ id, active, agent: "coder", cwd: "/srv", ...more }) as KnownSession;
const grouped = (sessions: KnownSession[], by: Grouping, more: { pinned?: KnownSession[]; isComplete?: boolean } = {}): string[] =>
  groupSessions(sessions, { by, pinned: [], isComplete: true, now: NOW, ...more }).map((group) => `${group.title}${group.count === undefined ? "" : ` ${group.count}`}: ${group.sessions.map((each) => each.id).join(" ")}`);

test("days become today, yesterday, the week from Monday on, and months", () => {
  const ages: [string, number][] = [["a", 0], ["b", 1], ["c", 2], ["d", 3], ["e", 14], ["f", 20], ["g", 200], ["h", 400]];
  const sessions = [session("later", daysAgo(-1)), ...ages.map(([id, days]) => session(id, daysAgo(days)))];
  assert.deepEqual(grouped(sessions, "day"), ["Today 2: later a", "Yesterday 1: b", "This week 1: c", "July 2: d e", "June 1: f", "December 2025 1: g", "June 2025 1: h"]);
});

test("a day begins at midnight of the browser", () => {
  const sessions = [session("first", daysAgo(0, 0)), session("last", new Date(new Date(2026, 6, 15).getTime() - 1000).toISOString())];
  assert.deepEqual(grouped(sessions, "day"), ["Today 1: first", "Yesterday 1: last"]);
});

test("a later page only adds behind what is there, whatever the groups are", () => {
  const all = Array.from({ length: 300 }, (_, at) => session(`s${at}`, daysAgo(at / 4), { agent: `agent-${(at * 7) % 5}`, cwd: at % 3 ? `/srv/${at % 4}` : "" }));
  for (const by of ["day", "agent", "folder", "none"] as const) {
    const known = groupSessions(all.slice(0, 120), { by, pinned: [], isComplete: false, now: NOW });
    const more = groupSessions(all, { by, pinned: [], isComplete: true, now: NOW });
    for (const [at, group] of known.entries()) {
      const now = more.find((each) => each.key === group.key);
      assert.deepEqual(now?.sessions.slice(0, group.sessions.length), group.sessions, by);
      if (by === "day") assert.equal(more[at], now, "days that are there stay where they are");
    }
    assert.equal(more.flatMap((group) => group.sessions).length, 300);
  }
});

test("a count is shown only if no later page can change it", () => {
  const sessions = [session("a", daysAgo(0)), session("b", daysAgo(1), { agent: "reviewer" }), session("c", daysAgo(1))];
  assert.deepEqual(grouped(sessions, "day", { isComplete: false }), ["Today 1: a", "Yesterday: b c"]);
  assert.deepEqual(grouped(sessions, "agent", { isComplete: false }), ["coder: a c", "reviewer: b"]);
  assert.deepEqual(grouped(sessions, "agent"), ["coder 2: a c", "reviewer 1: b"]);
});

test("a turn moves no group of an agent or a folder", () => {
  const sessions = [session("b", daysAgo(1), { agent: "zed" }), session("a", daysAgo(2), { agent: "ada" })];
  assert.deepEqual(grouped(sessions, "agent"), ["ada 1: a", "zed 1: b"]);
  assert.deepEqual(grouped([session("a", daysAgo(0), { agent: "ada" }), sessions[0] as KnownSession], "agent"), ["ada 1: a", "zed 1: b"]);
});

test("pinned sessions come first, once, and the others keep their groups", () => {
  const [a, b, c] = [session("a", daysAgo(0)), session("b", daysAgo(1)), session("c", "", { cwd: "" })];
  assert.deepEqual(grouped([a, b], "day", { pinned: [c, b] }), ["Pinned 2: c b", "Today 1: a"]);
  assert.deepEqual(grouped([a, b], "none", { pinned: [b] }), ["Pinned 1: b", "Other sessions 1: a"]);
  assert.deepEqual(grouped([a, b], "none"), [" 2: a b"]);
  assert.deepEqual(grouped([a], "none", { pinned: [a] }), ["Pinned 1: a"]);
});

test("names of agents and folders are only names", () => {
  const odd = ["constructor", "__proto__", "", "pinned"];
  assert.deepEqual(grouped(odd.map((agent, at) => session(`s${at}`, daysAgo(at), { agent })), "agent"), ["__proto__ 1: s1", "constructor 1: s0", "pinned 1: s3", "No agent 1: s2"]);
  const groups = groupSessions([session("s", daysAgo(0), { agent: "" })], { by: "agent", pinned: [session("p", "")], isComplete: true, now: NOW });
  assert.equal(new Set(groups.map((group) => group.key)).size, 2);
});

class Shelf {
  kept = new Map<string, string>();
  getItem = (key: string): string | null => this.kept.get(key) ?? null;
  setItem = (key: string, value: string): void => void this.kept.set(key, value);
  removeItem = (key: string): void => void this.kept.delete(key);
}

test("pins survive, are bounded, and keep those of other pages", () => {
  const shelf = new Shelf();
  const [one, other] = [new PinnedSessions(shelf), new PinnedSessions(shelf)];
  assert.equal(one.toggle("a"), "Pinned");
  assert.equal(other.toggle("b"), "Pinned");
  assert.deepEqual(new PinnedSessions(shelf).all(), ["a", "b"]);
  assert.equal(one.toggle("a"), "Unpinned");
  assert.deepEqual(new PinnedSessions(shelf).all(), ["b"]);
  for (let at = 1; at < MAX_PINS; at += 1) one.toggle(`s${at}`);
  assert.equal(one.toggle("one more"), `Not pinned: ${MAX_PINS} sessions are pinned`);
  assert.equal(one.has("one more"), false);
  assert.equal(one.toggle("b"), "Unpinned");
});

test("a store with other things in it pins nothing", () => {
  for (const text of ["{", "{}", '[1, null, ["a"], "", "ok", "ok"]', JSON.stringify(["x".repeat(400), "ok"])]) {
    const shelf = new Shelf();
    shelf.setItem("trunkline.pins", text);
    assert.deepEqual(new PinnedSessions(shelf).all(), text.includes("ok") ? ["ok"] : []);
  }
});

test("a session that names no folder is in the one of its agent", () => {
  const sessions = [session("a", daysAgo(0), { cwd: "" }), session("b", daysAgo(1), { cwd: "/srv/app" }), session("c", daysAgo(2), { cwd: "", agent: "other" })];
  const folderOf = ({ agent }: KnownSession): string => (agent === "coder" ? "/srv/app/" : "");
  const groups = groupSessions(sessions, { by: "folder", pinned: [], isComplete: true, now: NOW, folderOf });
  assert.deepEqual(groups.map((group) => `${group.title}: ${group.sessions.map((each) => each.id).join(" ")}`), ["/srv/app: a b", "No folder: c"]);
});
