/** What was measured of each agent while the page is open. Bounded: the oldest go. */

import { num, obj, str } from "./types.ts";
import type { Obj } from "./types.ts";

export interface Sample {
  at: number;
  lines: number;
  bytesIn: number;
  bytesOut: number;
  turns: number;
  /** Turns that were counted, and how many of them came a second since the sample before. */
  counted: number;
  turnRate: number;
}

/** How long the agent was silent at the begin of a turn. */
export interface Latency {
  at: number;
  ms: number;
}

/** Latencies that are kept of an agent. */
const MOST_TURNS = 300;
const MOST = 1800;

export class Samples {
  private kept = new Map<string, Sample[]>();

  add(agents: Obj[], at: number): void {
    const seen = new Set<string>();
    for (const agent of agents.slice(0, 200)) {
      const id = str(agent.id);
      const health = obj(agent.health);
      seen.add(id);
      const samples = this.kept.get(id) ?? [];
      const before = samples[samples.length - 1];
      const counted = num(obj(health.counters).turns) ?? 0;
      // A process that was started again counts from nothing.
      const more = before ? Math.max(0, counted - before.counted) : 0;
      samples.push({
        counted,
        turnRate: before && at > before.at ? (more * 1000) / (at - before.at) : 0,
        at,
        lines: num(health.lines_rate) ?? 0,
        bytesIn: num(health.bytes_in_rate) ?? 0,
        bytesOut: num(health.bytes_out_rate) ?? 0,
        turns: num(health.turns) ?? 0,
      });
      if (samples.length > MOST) samples.splice(0, samples.length - MOST);
      this.kept.set(id, samples);
    }
    for (const id of this.kept.keys()) if (!seen.has(id)) this.kept.delete(id);
  }

  private turns = new Map<string, Map<string, Latency>>();

  /** A turn of a session that this page has read; the same turn counts once. */
  turn(agent: string, key: string, at: number, ms: number): void {
    const known = this.turns.get(agent) ?? new Map<string, Latency>();
    known.set(key, { at, ms });
    for (const old of known.keys()) {
      if (known.size <= MOST_TURNS) break;
      known.delete(old);
    }
    this.turns.set(agent, known);
  }

  /** What was read of an agent, in the order of time. */
  latencies(agent: string): Latency[] {
    return [...(this.turns.get(agent)?.values() ?? [])].sort((a, b) => a.at - b.at);
  }

  of(id: string): Sample[] {
    return this.kept.get(id) ?? [];
  }
}

/** The points of a line over time, for an SVG of this size. A value is at its time, the highest one at the top. */
export function points<T extends { at: number }>(samples: T[], value: (sample: T) => number, width: number, height: number, most: number): string {
  const first = samples[0];
  const last = samples[samples.length - 1];
  if (!first || !last || samples.length < 2) return "";
  const span = Math.max(1, last.at - first.at);
  return samples.map((sample) => {
    const x = ((sample.at - first.at) / span) * width;
    const y = height - (most > 0 ? Math.min(1, value(sample) / most) : 0) * height;
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  }).join(" ");
}
