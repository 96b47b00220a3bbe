/** Every entry of a session as it came, for the wire view. Bounded: the oldest go first, and are counted. */

import { num, str } from "./types.ts";
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

/** Whether a line is asked for: each word stands in it, `type:NAME` in its type, `-word` nowhere. */
export function matcher(query: string): (line: WireLine) => boolean {
  const tests = query.toLowerCase().split(/\s+/).filter((word) => word !== "" && word !== "-").slice(0, 16).map((word) => {
    const not = word.startsWith("-");
    const bare = not ? word.slice(1) : word;
    const test = bare.startsWith("type:")
      ? (line: WireLine) => line.type.toLowerCase().includes(bare.slice(5))
      : (line: WireLine) => line.raw.toLowerCase().includes(bare);
    return not ? (line: WireLine) => !test(line) : test;
  });
  return (line) => tests.every((test) => test(line));
}
