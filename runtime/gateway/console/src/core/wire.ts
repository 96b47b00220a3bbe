/** Every entry of a session as it came, for the wire view. Bounded: the oldest go first, and are counted. */

import { num, obj, str } from "./types.ts";
import type { Obj } from "./types.ts";
import type { Line } from "./stream.ts";

export interface WireLine {
  seq: number;
  type: string;
  time: string;
  raw: string;
}

export const MAX_LINES = 150_000;
export const MAX_CHARACTERS = 48 * 1024 * 1024;

export class Wire {
  lines: WireLine[] = [];
  /** Lines that are no longer kept. */
  dropped = 0;
  private size = 0;

  push(line: Line): void {
    const { entry, raw } = line;
    this.lines.push({ seq: num(entry.seq) ?? 0, type: entry.type, time: str(entry.time), raw });
    this.size += raw.length;
    if (this.lines.length <= MAX_LINES && this.size <= MAX_CHARACTERS) return;
    // A tenth at a time, so that this is rare.
    const gone = this.lines.splice(0, Math.max(1, Math.ceil(this.lines.length / 10)));
    this.dropped += gone.length;
    for (const each of gone) this.size -= each.raw.length;
  }

  clear(): void {
    this.lines = [];
    this.dropped = 0;
    this.size = 0;
  }
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
