/** Reads single entries of sessions that no page shows: an open request, and the end of the last turn. */

import type { Api } from "./api.ts";
import type { HistoryPage } from "./stream.ts";
import type { KnownSession, SessionOverview, TurnOutcome } from "./overview.ts";
import { num, obj, str } from "./types.ts";
import type { Entry } from "./types.ts";

const PAGE = 200;
/** Number of pages that are searched backwards for a request. */
const MAX_PAGES = 25;
/** Number of last entries among which the end of a turn is looked for. */
const TAIL = 12;

const entriesOf = ({ lines, previous }: HistoryPage): { entries: Entry[]; previous: number } => ({ entries: lines.map((line) => line.entry), previous });

const isRequest = (entry: Entry, request: string): boolean =>
  (entry.type === "permission.request" || entry.type === "input.request") && str(entry.request_id) === request;

/** Returns the entry of a request, and its decision if it has one. */
export async function readRequest(api: Api, session: string, request: string, seq: number | undefined): Promise<Entry[]> {
  if (seq !== undefined) {
    const { entries } = entriesOf(await api.history(session, { from: seq }, 1));
    const entry = entries.find((each) => isRequest(each, request));
    if (entry) return [entry];
  }
  let before: number | "end" = "end";
  let decision: Entry[] = [];
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const { entries, previous }: { entries: Entry[]; previous: number } = entriesOf(await api.history(session, { before }, PAGE));
    const decided = entries.find((each) => (each.type === "request.decided" || each.type === "permission.cancel") && str(each.request_id) === request);
    if (decided) decision = [decided];
    const entry = entries.find((each) => isRequest(each, request));
    if (entry) return [entry, ...decision];
    if (previous === 0) break;
    before = previous;
  }
  return [];
}

/** Returns the end of the last turn, if it is among the last entries; its status is empty if there is none. */
export async function readOutcome(api: Api, session: string): Promise<TurnOutcome> {
  const { entries } = entriesOf(await api.history(session, { before: "end" }, TAIL));
  const last = num(entries[entries.length - 1]?.seq) ?? 0;
  const end = entries.reverse().find((entry) => entry.type === "turn.complete" && entry.history !== true);
  const error = obj(end?.error);
  // A line such as "its last words:" is nothing without the next one.
  const [first = "", second = ""] = str(error.message).split("\n");
  return {
    status: end ? str(end.status) || "completed" : "",
    category: str(error.category),
    message: (first.endsWith(":") ? `${first} ${second}` : first).slice(0, 300),
    time: str(end?.time),
    seq: last,
  };
}

/** Number of sessions whose outcome is read at a time, and of those that wait for it. */
const MAX_READS = 2;
const MAX_QUEUE = 200;

/** Reads the outcomes of sessions that are shown, each once for its number of entries. */
export class OutcomeReader {
  private queue = new Map<string, KnownSession>();
  private read = new Map<string, number>();
  private running = 0;

  constructor(private api: Api, private overview: SessionOverview) {}

  /** Reads the outcome of a session unless it is known, or a turn runs that will have another one. */
  want(session: KnownSession): void {
    const { outcome } = session;
    const isKnown = outcome !== undefined && (outcome.status !== "failed" || outcome.message !== "");
    if (isKnown || session.entries === 0 || session.state === "running" || session.state === "") return;
    if (this.read.get(session.id) === session.entries) return;
    this.queue.delete(session.id);
    this.queue.set(session.id, session);
    for (const id of this.queue.keys()) {
      if (this.queue.size <= MAX_QUEUE) break;
      this.queue.delete(id);
    }
    void this.work();
  }

  private async work(): Promise<void> {
    if (this.running >= MAX_READS) return;
    this.running += 1;
    // The one that was wanted last is most likely still in sight.
    for (let next = [...this.queue.values()].pop(); next; next = [...this.queue.values()].pop()) {
      this.queue.delete(next.id);
      this.remember(next);
      try {
        this.overview.outcome(next.id, await readOutcome(this.api, next.id));
      } catch {
        // It stays unknown until the session has another entry.
      }
    }
    this.running -= 1;
  }

  private remember(session: KnownSession): void {
    this.read.set(session.id, session.entries);
    for (const id of this.read.keys()) {
      if (this.read.size <= 2000) break;
      this.read.delete(id);
    }
  }
}
