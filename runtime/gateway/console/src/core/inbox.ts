/** What waits for a person over all sessions: requests, failures, and turns that ended since the person looked. */

import type { Api } from "./api.ts";
import { readRequest } from "./entries.ts";
import { Fold } from "./fold.ts";
import type { KnownSession, Notice, OpenRequest, SessionOverview } from "./overview.ts";
import { answerDrafts, draftText } from "./drafts.ts";
import { who } from "./format.ts";
import type { Decision, RequestRow } from "./rows.ts";

/** Number of entries of each kind that are shown at a time. */
export const MAX_SHOWN = 30;
/** Number of sessions with news that are looked at for how they ended. */
const MAX_NEWS = 100;
/** Number of requests whose content is kept, and of decisions. */
const MAX_CARDS = 200;
const MAX_DECIDED = 20;

export interface WaitingItem {
  key: string;
  session: KnownSession;
  request: OpenRequest;
}

export interface InboxItems {
  /** Requests, the one that has waited longest first. */
  waiting: WaitingItem[];
  /** Sessions with news whose last turn failed, the latest first. */
  failed: KnownSession[];
  ended: KnownSession[];
  /** Sessions with news whose outcome is not known yet. */
  unknown: KnownSession[];
}

export const itemKey = (session: string, request: string): string => `${encodeURIComponent(session)}/${encodeURIComponent(request)}`;

export function inboxItems(overview: SessionOverview, isUnread: (session: KnownSession) => boolean): InboxItems {
  const waiting = overview.waiting().flatMap((session) =>
    [...session.requests.values()].map((request) => ({ key: itemKey(session.id, request.id), session, request })),
  );
  waiting.sort((a, b) => (a.request.since === b.request.since ? (a.key < b.key ? -1 : 1) : a.request.since < b.request.since ? -1 : 1));
  const news: KnownSession[] = [];
  for (const session of overview.all()) {
    const rests = session.state !== "running" && session.requests.size === 0 && !session.archived;
    // A session without a place in the list is older than what the page has read.
    if (rests && session.active !== "" && isUnread(session)) news.push(session);
  }
  news.sort((a, b) => (a.active < b.active ? 1 : -1));
  const items: InboxItems = { waiting, failed: [], ended: [], unknown: [] };
  for (const session of news.slice(0, MAX_NEWS)) {
    const status = session.outcome?.status;
    if (status === undefined) items.unknown.push(session);
    else if (status === "failed") items.failed.push(session);
    else if (status !== "") items.ended.push(session);
  }
  return items;
}

/** The content of a request in few words, as the agent wrote it. */
export function requestSummary(row: RequestRow): string {
  const text = row.kind === "question" ? row.prompt : [row.tool, row.resource || row.title || row.description].join(" ");
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > 160 ? `${line.slice(0, 159)}…` : line;
}

let keys = 0;

/** An open request outside of the page of its session: its content, and what its card keeps. */
export class RequestCard {
  readonly id: string;
  row: RequestRow | undefined;
  fault = "";
  open = new Map<string, boolean>();

  constructor(readonly api: Api, readonly session: KnownSession, readonly request: OpenRequest, private cards: RequestCards) {
    this.id = session.id;
  }

  /** Reads the content; a second call waits for the first one. */
  load(): Promise<void> {
    this.loading ??= this.read();
    return this.loading;
  }
  private loading: Promise<void> | undefined;

  private async read(): Promise<void> {
    try {
      const fold = new Fold();
      for (const entry of await readRequest(this.api, this.id, this.request.id, this.request.seq)) fold.apply({ ...entry, history: false });
      this.row = fold.pending.get(this.request.id);
      if (this.row) this.row.key = ++keys;
      else this.fault = "Its content was not found. Open the session to answer it.";
    } catch (error) {
      this.fault = error instanceof Error ? error.message : "not loaded";
    }
    this.cards.changed();
  }

  /** Tries again to read what was not read. */
  again(): void {
    this.loading = undefined;
    this.fault = "";
    void this.load();
  }

  turn(id: string, open: boolean): void {
    this.open.set(id, open);
    this.cards.changed();
  }

  say(notice: string, leftover = ""): void {
    this.cards.say(notice, leftover);
  }
}

/** A request that was shown and is decided. */
export interface DecidedItem {
  key: string;
  session: KnownSession;
  row: RequestRow | undefined;
  decision: Decision;
}

/** The requests whose content was read, and how those that were shown were decided. */
export class RequestCards {
  decided: DecidedItem[] = [];
  /** What the person must know and no card says, such as that another answered first. */
  notice = "";
  /** A text of the person that the notice offers for copying. */
  leftover = "";
  /** The name of this page's token. */
  own = "";
  private cards = new Map<string, RequestCard>();
  private stop: () => void;

  constructor(private api: Api, private overview: SessionOverview) {
    this.stop = overview.watch((notice) => this.take(notice));
  }

  dispose(): void {
    this.stop();
  }

  /** The card of a request, whose content is read once. */
  get(session: KnownSession, request: OpenRequest): RequestCard {
    const key = itemKey(session.id, request.id);
    const known = this.cards.get(key);
    if (known) return known;
    const card = new RequestCard(this.api, session, request, this);
    this.cards.set(key, card);
    for (const old of this.cards.keys()) {
      if (this.cards.size <= MAX_CARDS) break;
      this.cards.delete(old);
    }
    void card.load();
    return card;
  }

  changed(): void {
    this.overview.changed();
  }

  say(notice: string, leftover = ""): void {
    this.notice = notice;
    this.leftover = leftover;
    this.changed();
  }

  private take(notice: Notice): void {
    if (notice.kind !== "answered" && notice.kind !== "gone") return;
    const key = itemKey(notice.session.id, notice.request.id);
    const card = this.cards.get(key);
    if (!card) return;
    this.cards.delete(key);
    const decision: Decision = notice.kind === "answered"
      ? { ...(notice.approved === undefined ? {} : { approved: notice.approved }), cancelled: notice.cancelled, option: "", reason: "", by: notice.by, time: notice.time, values: {} }
      : { cancelled: true, option: "", reason: "its turn has ended", by: "", time: "", values: {} };
    const leftover = draftText(answerDrafts.take(notice.session.id, notice.request.id), card.row);
    if (leftover !== "" && card.row) {
      const party = decision.by === "" ? "" : who(decision.by, this.own);
      const end = party === "" ? "its turn has ended" : `decided by ${party === "you" ? "you in another page" : party}`;
      this.say(`${requestSummary(card.row)}: ${end}. Your text was not used.`, leftover);
    }
    this.decided = [{ key, session: notice.session, row: card.row, decision }, ...this.decided].slice(0, MAX_DECIDED);
  }
}
