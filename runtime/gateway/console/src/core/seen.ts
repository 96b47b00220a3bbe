/** How much of each session this browser has seen; what came since is unread. It keeps ids and counts, and is bounded. */

import { list, num, obj, str } from "./types.ts";
import type { ListedSession } from "./types.ts";
import type { Store } from "./outbox.ts";

const KEY = "trunkline.seen";
const MOST = 1000;

export class Seen {
  private known = new Map<string, number>();
  /** When this browser first looked: what is older and not known counts as seen. */
  private since = "";
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private store: Store | undefined, private now: () => string) {
    this.load();
  }

  /** Other pages of this browser write, too. */
  private load(): void {
    try {
      const it = obj(JSON.parse(this.store?.getItem(KEY) ?? "{}"));
      this.since = str(it.since) || this.since;
      for (const [id, count] of list(it.seen).map(list)) {
        const before = this.known.get(str(id)) ?? 0;
        if (str(id) !== "") this.known.set(str(id), Math.max(before, num(count) ?? 0));
      }
    } catch {
      // What cannot be read is not known.
    }
    this.since ||= this.now();
  }

  /** Takes what was listed: sessions that are older than this browser's first look count as seen. */
  learn(sessions: ListedSession[]): void {
    this.load();
    let fresh = false;
    for (const each of sessions) {
      if (this.known.has(each.id) || each.created >= this.since) continue;
      this.known.set(each.id, each.entries);
      fresh = true;
    }
    if (fresh) this.save();
  }

  /** Keeps what a session had when this page first knew it, as soon as it has news: a reload must not forget them. */
  keep(session: ListedSession & { first: number }): void {
    if (!this.known.has(session.id) && session.created < this.since) this.mark(session.id, session.first);
  }

  mark(id: string, entries: number): void {
    if ((this.known.get(id) ?? -1) >= entries) return;
    this.known.delete(id);
    this.known.set(id, entries);
    this.save();
  }

  unread(session: ListedSession & { first?: number }): boolean {
    return session.entries > (this.known.get(session.id) ?? (session.created >= this.since ? 0 : (session.first ?? session.entries)));
  }

  private save(): void {
    // While an answer streams each entry is a mark.
    this.timer ??= setTimeout(() => this.flush(), 500);
  }

  /** Writes what waits to be written. */
  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    for (const id of this.known.keys()) {
      if (this.known.size <= MOST) break;
      this.known.delete(id);
    }
    try {
      this.store?.setItem(KEY, JSON.stringify({ since: this.since, seen: [...this.known] }));
    } catch {
      // The store is full: it holds while the page is open.
    }
  }
}

export const seen = new Seen(globalThis.localStorage, () => new Date().toISOString());
globalThis.addEventListener?.("pagehide", () => seen.flush());
