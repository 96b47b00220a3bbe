// All sessions of a daemon: the events of `GET /v1/events`, and the table that they describe. Nothing here needs Node.
import type { Category, ClosedReason, SessionState, Status } from "./types.js";

/** A request that waits for an answer. */
export interface WaitingRequest {
  id: string;
  request: "permission" | "question";
  turn_id?: string;
  /** When it was opened; nothing if the daemon has not loaded the session. */
  since?: string;
}

/** A session in a snapshot. */
export interface OverviewSession {
  id: string;
  agent: string;
  state: SessionState;
  last_seq: number;
  title?: string;
  archived?: boolean;
  /** The running turn. */
  turn_id?: string;
  requests?: WaitingRequest[];
}

/** A change of one session. */
export interface SessionChange {
  type: "session" | "turn" | "request";
  change: "opened" | "state" | "title" | "archived" | "closed" | "failed" | "removed" | "started" | "ended" | "answered";
  session_id: string;
  agent: string;
  time: string;
  /** The entry of the change, or the last one before it. */
  seq: number;
  title?: string;
  state?: SessionState;
  archived?: boolean;
  turn_id?: string;
  request_id?: string;
  request?: "permission" | "question";
  by?: string;
  approved?: boolean;
  cancelled?: boolean;
  status?: Status;
  category?: Category;
  reason?: ClosedReason;
}

/** An event over all sessions. `position` is where `watch({ after })` continues behind it. */
export type OverviewEvent = { position?: string } & (
  | { type: "snapshot"; sessions: OverviewSession[]; complete: boolean }
  | { type: "reset"; reason: string }
  | SessionChange
);

/** The sessions of a daemon, as the events that it gets describe them. */
export class SessionTable {
  /** By id. */
  readonly sessions = new Map<string, OverviewSession>();
  /** Whether the whole snapshot has come. */
  isComplete = false;

  /** The requests that wait for an answer, of all sessions. */
  get waiting(): { session: OverviewSession; request: WaitingRequest }[] {
    return [...this.sessions.values()].flatMap((session) => (session.requests ?? []).map((request) => ({ session, request })));
  }

  /** Applies an event of `client.watch()`. */
  apply(event: OverviewEvent): void {
    if (event.type === "reset") {
      this.sessions.clear();
      this.isComplete = false;
    } else if (event.type === "snapshot") {
      // A change that came between two pages is newer than the page.
      for (const session of event.sessions) if (!((this.sessions.get(session.id)?.last_seq ?? -1) > session.last_seq)) this.sessions.set(session.id, session);
      this.isComplete = event.complete;
    } else this.#change(event);
  }

  #change(event: SessionChange): void {
    const { type, change, session_id: id, agent, seq, time, turn_id, request_id } = event;
    if (change === "removed") return void this.sessions.delete(id);
    const old = this.sessions.get(id) ?? { id, agent, state: "idle", last_seq: seq };
    const session: OverviewSession = { ...old, last_seq: Math.max(old.last_seq, seq) };
    let requests = old.requests ?? [];
    if (type === "session") {
      const { title, state = old.state, archived } = event;
      Object.assign(session, { title, state, archived, turn_id });
    }
    if (change === "closed" || change === "failed") requests = [];
    if (type === "turn" && change === "ended") requests = requests.filter((request) => request.turn_id !== turn_id);
    if (type === "request") {
      requests = requests.filter((request) => request.id !== request_id);
      if (change === "opened") requests.push({ id: request_id!, request: event.request!, since: time, ...(turn_id === undefined ? {} : { turn_id }) });
    }
    this.sessions.set(id, { ...session, requests });
  }
}
