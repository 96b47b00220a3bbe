/** Groups of the session list: pinned sessions, then days, agents or folders. */

import type { KnownSession } from "./overview.ts";

export type Grouping = "day" | "agent" | "folder" | "none";
export const GROUPINGS: readonly Grouping[] = ["day", "agent", "folder", "none"];

export interface SessionGroup {
  /** Names the group within the list. */
  key: string;
  /** The heading; empty if the list has only this group. */
  title: string;
  sessions: KnownSession[];
  /** Number of sessions; `undefined` while pages that are not loaded may add some. */
  count: number | undefined;
}

/** Days, weeks and months of the browser's time zone. */
interface Period {
  title: string;
  /** The first moment that belongs to it, as `active` of a session has it. */
  from: string;
}

const midnight = (year: number, month: number, day: number): string => {
  const date = new Date(2000, month, day);
  // Two digits of a year would mean the last century.
  date.setFullYear(year, month, day);
  return date.toISOString();
};

/** The periods of a time: the days up to yesterday, the week from Monday on, then months. */
function periodOf(active: string, now: Date): Period {
  const [year, month, day] = [now.getFullYear(), now.getMonth(), now.getDate()];
  const sinceMonday = (now.getDay() + 6) % 7;
  const days: Period[] = [
    { title: "Today", from: midnight(year, month, day) },
    { title: "Yesterday", from: midnight(year, month, day - 1) },
    { title: "This week", from: midnight(year, month, day - sinceMonday) },
  ];
  const near = days.find((period) => active >= period.from);
  if (near) return near;
  const at = new Date(active);
  if (Number.isNaN(at.getTime())) return { title: "Unknown day", from: "" };
  const name = at.toLocaleString("en", { month: "long" });
  const from = midnight(at.getFullYear(), at.getMonth(), 1);
  return { title: at.getFullYear() === year ? name : `${name} ${at.getFullYear()}`, from };
}

/** Assigns a session to its period. Sessions come in the order of their times, so few dates are computed. */
function periods(now: Date): (session: KnownSession) => string {
  let current: Period | undefined;
  let until = "";
  return ({ active }) => {
    if (current === undefined || active < current.from || active >= until) {
      current = periodOf(active, now);
      // A later one, which came out of order, is computed again.
      until = current.title === "Today" ? "~" : `${active}~`;
    }
    return current.title;
  };
}

export interface GroupOptions {
  by: Grouping;
  /** Pinned sessions that fit the filter, in their own order. */
  pinned: KnownSession[];
  /** Whether the daemon has no further page. */
  isComplete: boolean;
  now: Date;
  /** The folder of a session that names none. */
  folderOf?: (session: KnownSession) => string;
}

const tidy = (folder: string): string => (folder.length > 1 ? folder.replace(/\/$/, "") : folder);

/** Names by their letters; sessions without one come last. */
const byName = (a: SessionGroup, b: SessionGroup): number => Number(a.title === "") - Number(b.title === "") || (a.title < b.title ? -1 : 1);

/**
 * Groups sessions that come in the order of their last activity, which stays within a group. A later page so adds to the
 * end of each group. Days follow each other; agents and folders have an order of their own, as otherwise each turn
 * would move whole groups.
 */
export function groupSessions(sessions: KnownSession[], { by, pinned, isComplete, now, folderOf = () => "" }: GroupOptions): SessionGroup[] {
  const isPinned = new Set(pinned.map((session) => session.id));
  const period = periods(now);
  const nameOf = (session: KnownSession): string => (by === "day" ? period(session) : by === "agent" ? session.agent : by === "folder" ? tidy(session.cwd || folderOf(session)) : "");
  const groups = new Map<string, SessionGroup>();
  for (const session of sessions) {
    if (isPinned.has(session.id)) continue;
    const name = nameOf(session);
    const group = groups.get(name);
    if (group) group.sessions.push(session);
    else groups.set(name, { key: `${by} ${name}`, title: name, sessions: [session], count: undefined });
  }
  const found = [...groups.values()];
  if (by === "agent" || by === "folder") found.sort(byName);
  for (const [at, group] of found.entries()) {
    if (by === "none") group.title = pinned.length > 0 ? "Other sessions" : "";
    else if (group.title === "") group.title = by === "agent" ? "No agent" : "No folder";
    // Pages that follow have only older sessions.
    if (isComplete || (by === "day" && at < found.length - 1)) group.count = group.sessions.length;
  }
  if (pinned.length > 0) found.unshift({ key: "pinned", title: "Pinned", sessions: pinned, count: pinned.length });
  return found;
}
