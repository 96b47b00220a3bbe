/** What was measured of each agent while the page is open. Bounded: the oldest go. */

import { num, obj, str } from "./types.ts";
import type { Obj } from "./types.ts";

export interface Sample {
  at: number;
  lines: number;
  bytesIn: number;
  bytesOut: number;
  turns: number;
}

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
      samples.push({
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

  of(id: string): Sample[] {
    return this.kept.get(id) ?? [];
  }
}

/** The points of a line over time, for an SVG of this size. A value is at its time, the highest one at the top. */
export function points(samples: Sample[], value: (sample: Sample) => number, width: number, height: number, most: number): string {
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
