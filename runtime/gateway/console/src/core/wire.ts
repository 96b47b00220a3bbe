/** Entries of a session as they came, without a gap: for the wire view, and to fold them again. */

import { num, obj, str } from "./types.ts";
import type { Entry, Obj } from "./types.ts";
import type { Line } from "./stream.ts";

export interface WireLine {
  seq: number;
  /** The number of the last entry that the line replaces; its own number if it replaces none. */
  end: number;
  type: string;
  time: string;
  raw: string;
}

export class Wire {
  lines: WireLine[] = [];
  /** Characters of all lines. */
  size = 0;

  push(line: Line): void {
    this.lines.push(wireLine(line));
    this.size += line.raw.length;
  }

  /** Puts entries before those that are there. */
  unshift(lines: Line[]): void {
    this.lines = [...lines.map(wireLine), ...this.lines];
    for (const each of lines) this.size += each.raw.length;
  }

  /** Keeps only the lines between two places. */
  keep(from: number, to: number): void {
    this.lines = this.lines.slice(from, to);
    this.size = this.lines.reduce((sum, line) => sum + line.raw.length, 0);
  }

  /** The number of the first entry; 0 if there is none. */
  get first(): number {
    return this.lines.find((line) => line.seq > 0)?.seq ?? 0;
  }

  /** The number of the last entry; 0 if there is none. */
  get last(): number {
    for (let at = this.lines.length - 1; at >= 0; at -= 1) {
      const end = this.lines[at]?.end ?? 0;
      if (end > 0) return end;
    }
    return 0;
  }
}

/** Returns the number of the last entry that a line covers: several if a page of history names lost entries. */
export function lastOf(entry: Entry, seq: number): number {
  return entry.type === "lag" && seq > 0 ? Math.max(seq, num(entry.to) ?? 0) : seq;
}

function wireLine({ entry, raw }: Line): WireLine {
  const seq = num(entry.seq) ?? 0;
  return { seq, end: lastOf(entry, seq), type: entry.type, time: str(entry.time), raw };
}

const TO_AGENT = new Set(["turn.begin", "input.steered", "request.decided", "stop.requested", "file.delivered"]);
const OF_HOST = new Set(["host.fact", "session.closed", "lag", "console.skipped"]);

/** Which way an entry went: to the agent, from it, or it is of the host alone. */
export function way(type: string): "to" | "from" | "host" {
  return TO_AGENT.has(type) ? "to" : OF_HOST.has(type) ? "host" : "from";
}

/** Why something was refused or failed, in the words of the entry; nothing where all is well. */
export function trouble(entry: Obj): string {
  const error = obj(entry.error);
  const said = [str(error.category), str(error.message)].filter(Boolean).join(": ");
  switch (entry.type) {
    case "error":
      return [str(entry.category), str(entry.message)].filter(Boolean).join(": ");
    case "turn.complete":
      return str(entry.status) === "completed" ? "" : said || str(entry.stop_reason) || str(entry.status);
    case "steer.result":
      return entry.delivered === true ? "" : `not delivered${str(entry.reason) && `: ${str(entry.reason)}`}`;
    case "request.decided":
      return entry.approved === false || entry.cancelled === true ? str(entry.reason) || "denied" : "";
    case "session.closed":
      return said;
    case "tool.end":
      return entry.is_error === true ? "the tool failed" : "";
    case "console.skipped":
      return "too long for this page";
    default:
      return "";
  }
}

function troubled(line: WireLine): boolean {
  if (!/^(error|turn\.complete|steer\.result|request\.decided|session\.closed|tool\.end|console\.)/.test(line.type)) return false;
  try {
    return trouble(obj(JSON.parse(line.raw))) !== "";
  } catch {
    return true;
  }
}

/** Words of a filter that are no text: which way, and what went wrong. */
const WORDS = new Map<string, (line: WireLine) => boolean>([
  ["to:agent", (line) => way(line.type) === "to"],
  ["from:agent", (line) => way(line.type) === "from"],
  ["is:trouble", troubled],
]);

/** Whether a line is asked for: each word stands in it, `type:NAME` in its type, `-word` nowhere; `to:agent`, `from:agent`, `is:trouble`. */
export function matcher(query: string): (line: WireLine) => boolean {
  const tests = query.toLowerCase().split(/\s+/).filter((word) => word !== "" && word !== "-").slice(0, 16).map((word) => {
    const not = word.startsWith("-");
    const bare = not ? word.slice(1) : word;
    const test = WORDS.get(bare) ?? (bare.startsWith("type:")
      ? (line: WireLine) => line.type.toLowerCase().includes(bare.slice(5))
      : (line: WireLine) => line.raw.toLowerCase().includes(bare));
    return not ? (line: WireLine) => !test(line) : test;
  });
  return (line) => tests.every((test) => test(line));
}
