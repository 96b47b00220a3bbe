/** A search over the sessions of the daemon: one request after the other, until all is searched or it is cancelled. */

import { Problem } from "./api.ts";
import { findPattern } from "./find.ts";
import { list, num, obj, str } from "./types.ts";
import type { Obj } from "./types.ts";

/** Matches after which a search waits until more are wanted. */
export const MAX_HITS = 200;
/** Pause before a request that came too early is sent again, in milliseconds, and how often that is done. */
const BUSY_PAUSE = 1000;
const MAX_BUSY = 20;

/** An entry or a title that contains the text. */
export interface SearchHit {
  session: string;
  agent: string;
  title: string;
  archived: boolean;
  /** The entry in which the text begins; a title has none. */
  seq: number | undefined;
  time: string;
  kind: string;
  snippet: string;
}

export interface SearchPage {
  hits: SearchHit[];
  /** The position at which the search goes on; empty at its end. */
  next: string;
  searched: number;
  /** Number of all sessions; not every token gets it. */
  total: number | undefined;
  /** The host that was searched, if there are several. */
  host: string;
}

export function readSearchPage(answer: Obj): SearchPage {
  const hits = list(answer.hits).map(obj).filter((hit) => str(hit.id) !== "").map((hit) => ({
    session: str(hit.id),
    agent: str(hit.agent),
    title: str(hit.title),
    archived: hit.archived === true,
    seq: num(hit.seq),
    time: str(hit.time),
    kind: str(hit.kind),
    snippet: str(hit.snippet),
  }));
  return {
    hits,
    next: answer.complete === true ? "" : str(answer.next),
    searched: num(answer.sessions_searched) ?? 0,
    total: num(answer.sessions_total),
    host: str(answer.host),
  };
}

/** The text of a search without `agent:NAME`, and that agent. */
export function searchWords(text: string): { words: string; agent: string } {
  const agent = /(?:^|\s)agent:(\S*)/.exec(text)?.[1] ?? "";
  return { words: text.replace(/(^|\s)agent:\S*/, " ").trim(), agent };
}

/** A text in parts that match the query and parts that do not. */
export function splitMatches(text: string, query: string): { text: string; hit: boolean }[] {
  const pattern = findPattern(query);
  const parts: { text: string; hit: boolean }[] = [];
  let end = 0;
  for (const match of pattern ? text.matchAll(pattern) : []) {
    if (match.index > end) parts.push({ text: text.slice(end, match.index), hit: false });
    parts.push({ text: match[0], hit: true });
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push({ text: text.slice(end), hit: false });
  return parts;
}

type Request = (query: { text: string; agent: string; after: string }, signal: AbortSignal) => Promise<SearchPage>;

export class SessionSearch {
  hits: SearchHit[] = [];
  searched = 0;
  total: number | undefined;
  host = "";
  fault = "";
  /** `paused` waits for `more`; `stopped` was cancelled. */
  state: "empty" | "running" | "paused" | "stopped" | "ended" | "failed" = "empty";
  /** The text that is searched for. */
  text = "";
  private agent = "";
  private after = "";
  private enough = MAX_HITS;
  private life = new AbortController();

  constructor(
    private request: Request,
    private changed: () => void,
    private pause: (ms: number) => Promise<void> = (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  ) {}

  /** Begins a search anew; the one before is cancelled. */
  start(text: string): void {
    this.life.abort();
    const { words, agent } = searchWords(text);
    Object.assign(this, { hits: [], searched: 0, total: undefined, host: "", fault: "", text: words, agent, after: "", enough: MAX_HITS });
    if (words === "") {
      this.state = "empty";
      return this.changed();
    }
    void this.run();
  }

  /** Goes on with a search that waits, was cancelled or has failed. */
  more(): void {
    if (!["paused", "stopped", "failed"].includes(this.state)) return;
    this.enough = this.hits.length + MAX_HITS;
    void this.run();
  }

  stop(): void {
    this.life.abort();
    if (this.state !== "running") return;
    this.state = "stopped";
    this.changed();
  }

  private async run(): Promise<void> {
    const life = new AbortController();
    const { signal } = life;
    this.life = life;
    this.state = "running";
    this.fault = "";
    this.changed();
    let busy = 0;
    while (!signal.aborted) {
      try {
        const page = await this.request({ text: this.text, agent: this.agent, after: this.after }, signal);
        if (signal.aborted) return;
        busy = 0;
        this.hits.push(...page.hits);
        Object.assign(this, { searched: page.searched, total: page.total, host: page.host, after: page.next });
        if (page.next === "") this.state = "ended";
        else if (this.hits.length >= this.enough) this.state = "paused";
        this.changed();
        if (this.state !== "running") return;
      } catch (error) {
        if (signal.aborted) return;
        // The daemon runs a few searches at a time.
        if (error instanceof Problem && error.status === 429 && busy < MAX_BUSY) {
          busy += 1;
          await this.pause(BUSY_PAUSE);
          continue;
        }
        this.state = "failed";
        this.fault = error instanceof Error ? error.message : "not searched";
        return this.changed();
      }
    }
  }
}

/** How far a search has come, in words. */
export function searchProgress(search: SessionSearch): string {
  const count = (number: number, what: string): string => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
  const far = `${count(search.searched, "session")}${search.total === undefined ? "" : ` of ${search.total.toLocaleString("en")}`}`;
  const found = search.hits.length === 0 ? "" : `, ${search.hits.length.toLocaleString("en")} ${search.hits.length === 1 ? "match" : "matches"}`;
  switch (search.state) {
    case "empty":
    case "failed":
      return "";
    case "running":
      return search.searched === 0 ? "Searching …" : `Searched ${far}${found} …`;
    case "paused":
    case "stopped":
      return `Searched ${far}${found}. Not all was searched.`;
    case "ended":
      return search.hits.length === 0 ? "Nothing fits." : `${found.slice(2)} in ${count(new Set(search.hits.map((hit) => hit.session)).size, "session")}.`;
  }
}
