/** The sessions of the list that fit its filters: pages of the daemon, kept current by the overview. */

import type { Api, Filter } from "./api.ts";
import type { KnownSession, SessionOverview } from "./overview.ts";
import { sessionTitle } from "./format.ts";
import type { ListedSession } from "./types.ts";

/** Reads pages until `enough` sessions are found or none follow: a page may be empty, and yet have a next one. */
export async function findSessions(api: Api, filter: Filter, enough: number, signal: AbortSignal): Promise<ListedSession[]> {
  const found: ListedSession[] = [];
  let cursor = "";
  do {
    const page = await api.sessions(cursor === "" ? filter : { ...filter, cursor }, signal);
    found.push(...page.sessions);
    cursor = page.next;
  } while (found.length < enough && cursor !== "" && !signal.aborted);
  return found;
}

/** Whether a session fits, as the daemon's list decides it. */
export function fits(session: KnownSession, filter: Filter): boolean {
  const text = filter.text.toLowerCase();
  return (
    session.archived === (filter.archived ?? false) &&
    (filter.agent === "" || session.agent === filter.agent) &&
    (filter.state === "" || session.state === filter.state) &&
    (text === "" || session.title.toLowerCase().includes(text) || session.id.toLowerCase().includes(text) || sessionTitle(session.title, session.id).toLowerCase().includes(text))
  );
}

export class SessionPages {
  /** Cursor of the next page; empty if none follows, `undefined` before the first one. */
  next: string | undefined;
  isLoading = false;
  /** Whether the search was cancelled before its end. */
  isStopped = false;
  fault = "";
  /** Number of requests for pages so far. */
  requests = 0;
  /** Hosts that did not answer: their sessions are not among these. */
  missing = new Set<string>();
  /** When the last session of the last page was active: older ones come with the next page. */
  private horizon = "";
  private life = new AbortController();

  constructor(private api: Api, private overview: SessionOverview, readonly filter: Filter, private changed: () => void) {}

  /** Reads the next page. */
  async more(): Promise<void> {
    if (this.isLoading || this.next === "" || this.isStopped) return;
    this.isLoading = true;
    this.changed();
    const { signal } = this.life;
    try {
      const page = await this.api.sessions(this.next === undefined ? this.filter : { ...this.filter, cursor: this.next }, signal);
      if (signal.aborted) return;
      this.requests += 1;
      this.next = page.next;
      this.horizon = page.sessions[page.sessions.length - 1]?.active ?? this.horizon;
      for (const host of page.missing) this.missing.add(host);
      this.fault = "";
      this.overview.list(page.sessions);
    } catch (error) {
      if (signal.aborted) return;
      this.fault = error instanceof Error ? error.message : "not loaded";
    } finally {
      this.isLoading = false;
    }
    this.changed();
  }

  /** Reads the first page again: the order of sessions may have changed without an event. */
  async refresh(): Promise<void> {
    try {
      const page = await this.api.sessions(this.filter, this.life.signal);
      this.missing = new Set(page.missing);
      if (!this.life.signal.aborted) this.overview.list(page.sessions);
    } catch {
      // The stream or the next page reports what is wrong.
    }
  }

  /** Ends the search; what was found stays. */
  stop(): void {
    this.life.abort();
    this.isStopped = true;
    this.isLoading = false;
    this.changed();
  }

  dispose(): void {
    this.life.abort();
  }

  /** The sessions that fit, the last active first. */
  rows(): KnownSession[] {
    const rows: KnownSession[] = [];
    for (const session of this.overview.all()) {
      // What is known of a session before a page had it is not enough to give it a place.
      if (session.active === "" || !fits(session, this.filter)) continue;
      if (this.next !== "" && session.active < this.horizon) continue;
      rows.push(session);
    }
    return rows.sort((a, b) => (a.active === b.active ? (a.id < b.id ? -1 : 1) : a.active < b.active ? 1 : -1));
  }
}
