/** The one stream of an open session: reads it, and goes on behind the last entry after each loss. */

import { SseParser } from "./sse.ts";
import { list, num, obj } from "./types.ts";
import type { Entry } from "./types.ts";

export type Phase = "connecting" | "live" | "waiting" | "ended" | "failed" | "asleep";

export interface Connection {
  /** The HTTP status; 200 has a body. */
  status: number;
  body?: ReadableStreamDefaultReader<Uint8Array>;
  detail?: string;
}

/** An entry, and its text as it came. */
export interface Line {
  entry: Entry;
  raw: string;
  /** The id of the event. */
  id?: string;
}

export interface StreamOptions {
  /** Opens the stream behind an entry. Rejects where the daemon is not there. */
  open(after: number, signal: AbortSignal): Promise<Connection>;
  /** Takes entries in their order. The next bytes are read when it has resolved, so that a page that folds slowly
   * reads slowly. */
  entries(found: Line[]): Promise<void> | void;
  /** The last entry that the page has. */
  last(): number;
  phase(phase: Phase, detail: string, retryMs: number): void;
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  random(): number;
  /** The stream cannot go on behind `after`: the page begins anew. */
  reset(): void;
}

const FIRST_WAIT = 250;
const LONGEST_WAIT = 5000;

/** The wait before a try: doubles to 5 s, with jitter of a half so that pages do not come back all at once. */
export function backoff(tries: number, random: number): number {
  const whole = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** Math.min(tries, 10));
  return Math.round(whole / 2 + (whole / 2) * random);
}

/** Waits, or rejects when the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(new DOMException("aborted", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}

/** Bytes that are read in one go. */
const PIECE = 64 * 1024;

/** A silence after which the connection counts as lost: heartbeats come every 15 s. */
export const SILENCE = 45_000;

/** Runs until the session has ended, the token is refused or `signal` aborts. */
export async function follow(options: StreamOptions, signal: AbortSignal): Promise<void> {
  let tries = 0;
  while (!signal.aborted) {
    options.phase("connecting", "", 0);
    let detail = "";
    // One controller a connection, so that a silent one can be given up.
    const attempt = new AbortController();
    const abort = (): void => attempt.abort();
    signal.addEventListener("abort", abort);
    try {
      const answer = await options.open(options.last(), attempt.signal);
      if (signal.aborted) return;
      if (answer.status === 200 && answer.body) {
        tries = 0;
        options.phase("live", "", 0);
        detail = await read(answer.body, options, attempt);
      } else if (answer.status === 204) {
        options.phase("ended", "", 0);
        return;
      } else if (answer.status === 409 || answer.status === 410 || answer.status === 416) {
        // The daemon has another journal than the one that this page has read.
        if (options.last() === 0) return options.phase("failed", answer.detail ?? "", 0);
        options.reset();
        detail = answer.detail ?? "";
      } else if (answer.status >= 400 && answer.status < 500 && answer.status !== 408 && answer.status !== 429) {
        return options.phase("failed", answer.detail ?? `status ${answer.status}`, 0);
      } else detail = answer.detail ?? `status ${answer.status}`;
    } catch (error) {
      detail = error instanceof Error ? error.message : String(error);
    } finally {
      signal.removeEventListener("abort", abort);
      attempt.abort();
    }
    if (signal.aborted) return;
    const wait = backoff(tries, options.random());
    tries += 1;
    options.phase("waiting", detail, wait);
    await options.sleep(wait, signal).catch(() => undefined);
  }
}

async function read(
  body: ReadableStreamDefaultReader<Uint8Array>,
  options: StreamOptions,
  attempt: AbortController,
): Promise<string> {
  const parser = new SseParser();
  for (;;) {
    const silence = new AbortController();
    const quiet = options.sleep(SILENCE, silence.signal).then(
      () => "silent" as const,
      () => "heard" as const,
    );
    const next = body.read();
    // What loses the race may still fail, and no one waits for it any more.
    next.catch(() => undefined);
    const first = await Promise.race([next, quiet]);
    silence.abort();
    if (first === "silent") {
      attempt.abort();
      body.cancel().catch(() => undefined);
      return "the daemon was silent";
    }
    const chunk = await next;
    if (chunk.done) return "the stream ended";
    // A chunk can hold megabytes: the page may draw between its parts.
    for (let at = 0; at < chunk.value.length && !attempt.signal.aborted; at += PIECE) {
      const found = linesOf(parser, chunk.value.subarray(at, at + PIECE));
      if (found.length > 0) await options.entries(found);
    }
  }
}

function linesOf(parser: SseParser, bytes: Uint8Array): Line[] {
  const found: Line[] = [];
  const skipped = parser.skipped;
  for (const event of parser.push(bytes)) {
    const entry = entryOf(event.data);
    if (entry) found.push({ entry, raw: event.data, id: event.id });
  }
  if (parser.skipped > skipped) {
    const entry = { type: "console.skipped", count: parser.skipped - skipped };
    found.push({ entry, raw: JSON.stringify(entry) });
  }
  return found;
}

/** An entry, or nothing where the text is not one. */
export function entryOf(data: string): Entry | undefined {
  try {
    const value: unknown = JSON.parse(data);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    return typeof (value as Entry).type === "string" ? (value as Entry) : undefined;
  } catch {
    return undefined;
  }
}

/** A page of a session's entries, in their order. */
export interface HistoryPage {
  lines: Line[];
  /** The number before which the preceding page ends; 0 if there is none. */
  previous: number;
  /** The number with which the following page begins; 0 if there is none. */
  next: number;
  last: number;
}

/**
 * Reads a page of history. Each entry keeps its text as it came, which numbers and repeated members do not survive. Entries that the
 * journal has lost become a `lag` with the number of the first.
 */
export function splitPage(text: string): HistoryPage {
  const head = /^\s*\{\s*"entries"\s*:\s*\[/.exec(text)?.[0];
  const pieces = head === undefined ? undefined : elementsOf(text, head.length);
  const rest = obj(JSON.parse(pieces ? `{"entries":[]${text.slice(pieces.end + 1)}` : text));
  const raws = pieces ? pieces.found : list(rest.entries).map((entry) => JSON.stringify(entry));
  const lines = raws.flatMap((raw) => {
    const entry = entryOf(raw);
    return entry ? [{ entry, raw }] : [];
  });
  const place = (line: Line): number => num(line.entry.seq) ?? 0;
  for (const gap of list(rest.lost).map(obj)) {
    const entry = { type: "lag", seq: num(gap.from) ?? 0, from: gap.from, to: gap.to };
    const at = lines.findIndex((line) => place(line) > entry.seq);
    lines.splice(at < 0 ? lines.length : at, 0, { entry, raw: JSON.stringify(entry) });
  }
  return { lines, previous: num(rest.previous) ?? 0, next: num(rest.next) ?? 0, last: num(rest.last) ?? 0 };
}

const MARKS = /["[\]{},]/g;

/** The texts of an array's elements; `at` is behind its bracket, and `end` at the closing one. */
function elementsOf(text: string, at: number): { found: string[]; end: number } | undefined {
  const found: string[] = [];
  let [start, depth] = [at, 0];
  MARKS.lastIndex = at;
  for (let mark = MARKS.exec(text); mark; mark = MARKS.exec(text)) {
    const place = mark.index;
    if (mark[0] === '"') {
      let end = text.indexOf('"', place + 1);
      while (end > 0 && escaped(text, end)) end = text.indexOf('"', end + 1);
      if (end < 0) return undefined;
      MARKS.lastIndex = end + 1;
    } else if (mark[0] === "{" || mark[0] === "[") depth += 1;
    else if (depth > 0) {
      if (mark[0] !== ",") depth -= 1;
    } else {
      const piece = text.slice(start, place).trim();
      if (piece !== "") found.push(piece);
      start = place + 1;
      if (mark[0] !== ",") return { found, end: place };
    }
  }
  return undefined;
}

function escaped(text: string, at: number): boolean {
  let count = 0;
  while (text.charCodeAt(at - 1 - count) === 92) count += 1;
  return count % 2 === 1;
}
