/** All sessions that the token sees, as the stream of changes and the pages of the list report them. */

import type { ListedSession } from "./types.ts";
import { list, num, obj, str } from "./types.ts";
import { categoryText } from "./words.ts";
import type { Obj } from "./types.ts";

/** Number of sessions that are kept: of more, idle ones are dropped, and the list finds them at the daemon. */
export const MAX_SESSIONS = 20_000;
/** Number of requests that are kept of one session. */
const MAX_REQUESTS = 500;
const MAX_TITLE = 400;

/** A request that waits for an answer. The stream has no content of it. */
export interface OpenRequest {
  id: string;
  kind: "permission" | "question" | "";
  turn: string;
  /** When it was opened, if that is known. */
  since: string;
  /** The number of its entry, if that is known. */
  seq: number | undefined;
}

/** The end of the last turn of a session. */
export interface TurnOutcome {
  status: string;
  category: string;
  /** The reason of a failure; empty until the entry was read. */
  message: string;
  time: string;
  /** The last entry that this covers: a session with later ones may have another outcome. */
  seq: number;
}

export interface KnownSession extends ListedSession {
  /** The running turn. */
  turn: string;
  requests: ReadonlyMap<string, OpenRequest>;
  outcome: TurnOutcome | undefined;
  /** The number of entries when this page first knew it; 0 for one that was opened since. */
  first: number;
}

/** A change that a person may have to know at once. */
export type Notice =
  | { kind: "opened"; session: KnownSession; request: OpenRequest }
  | { kind: "answered"; session: KnownSession; request: OpenRequest; by: string; approved: boolean | undefined; cancelled: boolean; time: string }
  /** The request is not open any more, for a reason that is not known. */
  | { kind: "gone"; session: KnownSession; request: OpenRequest }
  | { kind: "ended"; session: KnownSession; turn: string; outcome: TurnOutcome };

/** The state as the page shows it: in the list, in the head of a session, in the inbox. */
export function shownState(session: Pick<KnownSession, "state" | "requests" | "outcome">): string {
  if (session.requests.size > 0) return "asks";
  const rests = session.state === "idle" || session.state === "detached";
  return rests && session.outcome?.status === "failed" ? "failed" : session.state;
}

/** Why the last turn failed, for a person. */
export function failureText(outcome: TurnOutcome | undefined): string {
  if (outcome?.status !== "failed") return "";
  return ["The last turn failed", outcome.category === "" ? "" : categoryText(outcome.category), outcome.message].filter((part) => part !== "").join(": ");
}

function blank(id: string): KnownSession {
  return {
    id, agent: "", title: "", state: "", cwd: "", created: "", active: "", entries: 0, bytes: 0, openTurns: 0, openRequests: 0, host: "",
    archived: false, turn: "", requests: new Map(), outcome: undefined, first: 0,
  };
}

const kindOf = (value: unknown): OpenRequest["kind"] => (value === "permission" || value === "question" ? value : "");

export class SessionOverview {
  /** Grows with each change. */
  version = 0;
  /** Whether the stream keeps it current. */
  isLive = false;
  /** Grows with each complete snapshot: what the list was told before may be out of date. */
  snapshots = 0;
  private sessions = new Map<string, KnownSession>();
  /** Whether what waited at first is known: a further request is a notice. */
  isSettled = false;
  /** Ids of the sessions with requests. */
  private asking = new Set<string>();
  /** Ids that the current snapshot has, until it is complete. */
  private fresh: Set<string> | undefined;
  private listeners = new Set<() => void>();
  private watchers = new Set<(notice: Notice) => void>();

  get(id: string): KnownSession | undefined {
    return this.sessions.get(id);
  }

  all(): IterableIterator<KnownSession> {
    return this.sessions.values();
  }

  /** The sessions of an agent of this daemon in which a turn runs. */
  running(agent: string): KnownSession[] {
    return [...this.all()].filter((each) => each.agent === agent && each.turn !== "");
  }

  get size(): number {
    return this.sessions.size;
  }

  /** The sessions with requests. */
  waiting(): KnownSession[] {
    return [...this.asking].map((id) => this.sessions.get(id)).filter((each) => each !== undefined);
  }

  /** How many requests wait in all sessions. */
  get waitingCount(): number {
    let count = 0;
    for (const id of this.asking) count += this.sessions.get(id)?.requests.size ?? 0;
    return count;
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Calls at once for each notice, also in a page whose timers the browser slows down. */
  watch(watcher: (notice: Notice) => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  /** Applies an event of the stream. */
  apply(event: Obj): void {
    if (event.type === "reset") this.fresh = undefined;
    else if (event.type === "snapshot") this.snapshot(event);
    else if (event.type === "session") this.session(event);
    else if (event.type === "request") this.request(event);
    else if (event.type === "turn") this.turn(event);
    else return;
    this.changed();
  }

  /** Takes a page of the list, which has members that no event has. While the stream is read, it prevails. */
  list(sessions: ListedSession[]): void {
    for (const each of sessions) {
      const before = this.sessions.get(each.id) ?? { ...blank(each.id), first: each.entries };
      const active = before.active > each.active ? before.active : each.active;
      const { cwd, created, host, bytes } = each;
      if (this.isLive && host === "" && before.state !== "") {
        this.put({ ...before, cwd, created, host, bytes, active });
        continue;
      }
      const outcome = each.entries > before.entries ? undefined : before.outcome;
      this.put({ ...before, ...each, active, title: each.title.slice(0, MAX_TITLE), outcome });
      const now = this.sessions.get(each.id);
      if (now && each.openRequests === 0 && now.requests.size > 0) this.replaceRequests(now, []);
    }
    this.changed();
  }

  /** Takes the ids of a session's open requests, if there is no stream to report them. */
  requests(id: string, open: string[]): void {
    const session = this.sessions.get(id);
    if (!session || (open.length === session.requests.size && open.every((each) => session.requests.has(each)))) return;
    const known = (request: string): OpenRequest => session.requests.get(request) ?? { id: request, kind: "", turn: session.turn, since: "", seq: undefined };
    this.replaceRequests(session, open.map(known));
    this.changed();
  }

  /** Takes the outcome of a session's last turn, as its entries have it. */
  outcome(id: string, outcome: TurnOutcome): void {
    const session = this.sessions.get(id);
    if (!session || (session.outcome?.seq ?? 0) > outcome.seq) return;
    this.put({ ...session, outcome });
    this.changed();
  }

  /** Everything that is known, for another page of this browser. */
  copy(): KnownSession[] {
    return [...this.sessions.values()];
  }

  /** Takes what another page of this browser knows. */
  adopt(sessions: KnownSession[]): void {
    this.begin();
    for (const each of sessions.slice(0, MAX_SESSIONS)) {
      this.fresh?.add(each.id);
      const before = this.sessions.get(each.id);
      const gone = [...(before?.requests.values() ?? [])].filter((request) => !each.requests.has(request.id));
      this.put({ ...each, active: each.active || before?.active || "" });
      for (const request of gone) this.tell({ kind: "gone", session: each, request });
    }
    this.complete();
    this.changed();
  }

  /** Whether a snapshot has begun and is not complete. */
  get isReading(): boolean {
    return this.fresh !== undefined;
  }

  /** Ends the first reading: what comes now is news. */
  settle(): void {
    this.isSettled = true;
  }

  private begin(): void {
    this.fresh ??= new Set();
  }

  private snapshot(event: Obj): void {
    this.begin();
    for (const value of list(event.sessions)) {
      const it = obj(value);
      const id = str(it.id);
      if (id === "") continue;
      this.fresh?.add(id);
      const entries = num(it.last_seq) ?? 0;
      const before = this.sessions.get(id) ?? { ...blank(id), first: entries };
      const session: KnownSession = {
        ...before,
        agent: str(it.agent),
        title: str(it.title).slice(0, MAX_TITLE),
        state: str(it.state),
        archived: it.archived === true,
        turn: str(it.turn_id),
        entries: Math.max(before.entries, entries),
        // A turn may have ended that no event reported to this page.
        outcome: entries > before.entries ? undefined : before.outcome,
      };
      this.put(session);
      const open = list(it.requests).map(obj).map((each): OpenRequest => {
        const id = str(each.id);
        const known = before.requests.get(id);
        return { id, kind: kindOf(each.request), turn: str(each.turn_id), since: str(each.since) || known?.since || "", seq: known?.seq };
      });
      this.replaceRequests(session, open);
    }
    if (event.complete === true) this.complete();
  }

  private complete(): void {
    const fresh = this.fresh ?? new Set();
    this.fresh = undefined;
    // A session of another host is in no snapshot of this one.
    for (const [id, session] of this.sessions) if (!fresh.has(id) && session.host === "") this.remove(session);
    this.snapshots += 1;
    this.settle();
    this.bound();
  }

  private session(event: Obj): void {
    const id = str(event.session_id);
    const before = this.sessions.get(id) ?? blank(id);
    if (event.change === "removed") return this.remove(before);
    const time = str(event.time);
    const session: KnownSession = {
      ...this.moved(before, event),
      title: str(event.title).slice(0, MAX_TITLE),
      state: str(event.state),
      archived: event.archived === true,
      turn: str(event.turn_id),
      created: before.created || (event.change === "opened" ? time : ""),
    };
    this.put(session);
    if (event.change === "closed" || event.change === "failed") this.replaceRequests(session, []);
  }

  private request(event: Obj): void {
    const session = this.moved(this.sessions.get(str(event.session_id)) ?? blank(str(event.session_id)), event);
    const id = str(event.request_id);
    if (event.change === "opened") {
      if (session.requests.size >= MAX_REQUESTS) return;
      const request: OpenRequest = { id, kind: kindOf(event.request), turn: str(event.turn_id), since: str(event.time), seq: num(event.seq) };
      const known = session.requests.has(id);
      const now = { ...session, requests: new Map(session.requests).set(id, request) };
      this.put(now);
      if (!known) this.tell({ kind: "opened", session: now, request });
      return;
    }
    const requests = new Map(session.requests);
    const request = requests.get(id);
    requests.delete(id);
    const now = { ...session, requests };
    this.put(now);
    if (!request) return;
    const approved = typeof event.approved === "boolean" ? event.approved : undefined;
    this.tell({ kind: "answered", session: now, request, by: str(event.by), approved, cancelled: event.cancelled === true, time: str(event.time) });
  }

  private turn(event: Obj): void {
    const before = this.sessions.get(str(event.session_id)) ?? blank(str(event.session_id));
    const session = this.moved(before, event);
    if (event.change !== "ended") return this.put(session);
    const outcome: TurnOutcome = { status: str(event.status), category: str(event.category), message: "", time: str(event.time), seq: num(event.seq) ?? 0 };
    const turn = str(event.turn_id);
    const now = { ...session, outcome };
    this.put(now);
    this.replaceRequests(now, [...now.requests.values()].filter((request) => request.turn !== turn));
    this.tell({ kind: "ended", session: this.sessions.get(now.id) ?? now, turn, outcome });
  }

  /** The session after an event of it. */
  private moved(before: KnownSession, event: Obj): KnownSession {
    // A session that was dropped, and changes again.
    const isOld = before.state === "" && event.change !== "opened";
    const first = isOld ? num(event.seq) ?? 0 : before.first;
    return { ...before, first, agent: str(event.agent) || before.agent, entries: Math.max(before.entries, num(event.seq) ?? 0), active: str(event.time) || before.active };
  }

  private replaceRequests(session: KnownSession, open: OpenRequest[]): void {
    const requests = new Map(open.slice(0, MAX_REQUESTS).map((request) => [request.id, request]));
    const now = { ...session, requests };
    this.put(now);
    for (const request of session.requests.values()) if (!requests.has(request.id)) this.tell({ kind: "gone", session: now, request });
    if (!this.isSettled) return;
    for (const request of requests.values()) if (!session.requests.has(request.id)) this.tell({ kind: "opened", session: now, request });
  }

  private put(session: KnownSession): void {
    if (session.id === "") return;
    this.sessions.set(session.id, session);
    if (session.requests.size > 0) this.asking.add(session.id);
    else this.asking.delete(session.id);
    this.fresh?.add(session.id);
    if (this.sessions.size > MAX_SESSIONS * 1.1) this.bound();
  }

  private remove(session: KnownSession): void {
    this.sessions.delete(session.id);
    this.asking.delete(session.id);
    this.fresh?.delete(session.id);
    for (const request of session.requests.values()) this.tell({ kind: "gone", session, request });
  }

  /** Drops the sessions that came first, if there are too many, and no request waits in them. */
  private bound(): void {
    for (const session of this.sessions.values()) {
      if (this.sessions.size <= MAX_SESSIONS) return;
      if (session.requests.size === 0 && session.state !== "running") this.sessions.delete(session.id);
    }
  }

  private tell(notice: Notice): void {
    for (const watcher of this.watchers) watcher(notice);
  }

  /** Reports a change to the views. */
  changed(): void {
    this.version += 1;
    for (const listener of this.listeners) listener();
  }
}
