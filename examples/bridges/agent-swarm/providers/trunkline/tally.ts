// The numbers of a task: its usage by turn, its context window, the limits of its provider.
import type { Usage } from "@trunkline/sdk";
import type { Entry } from "@trunkline/sdk/client";
import { known, type RateLimitWindow } from "./contract.js";

export class Tally {
  model: string | undefined;
  provider: string | undefined;
  numTurns: number | undefined; // requests to the model
  durationMs: number | undefined;
  running: Usage = {}; // of the turn that runs
  context: { used?: number; total?: number } = {};
  readonly rateLimits: Record<string, RateLimitWindow> = {}; // by window
  rejectedUntil: string | undefined; // when the window begins anew that rejected a request
  readonly #ended: Usage[] = []; // by turn

  /** The usage of each turn. */
  get usages(): readonly Usage[] {
    return [...this.#ended, this.running];
  }

  add(entry: Entry): void {
    switch (entry.type) {
      case "session.ready":
      case "session.info":
        this.model = entry.model ?? this.model;
        break;
      case "usage":
        if (entry.scope !== "session") this.running = entry;
        break;
      case "context.usage":
        this.context = known({
          used: entry.used_tokens ?? this.context.used,
          total: entry.total_tokens ?? this.context.total,
        });
        break;
      case "rate_limit": {
        const { window = "unknown", status = "unknown", utilization, resets_at } = entry;
        const at = Date.parse(resets_at ?? "");
        const resetsAt = Number.isNaN(at) ? undefined : Math.round(at / 1000);
        this.rateLimits[window] = { status, lastSeenAt: new Date().toISOString(), ...known({ utilization, resetsAt }) };
        if (status === "rejected") this.rejectedUntil = resets_at;
        break;
      }
      case "turn.complete": {
        const usage = entry.usage ?? this.running;
        this.#ended.push(usage);
        this.running = {};
        this.model = entry.model ?? usage.model ?? this.model;
        this.provider = entry.provider ?? usage.provider ?? this.provider;
        this.numTurns = sum(this.numTurns, entry.num_turns);
        this.durationMs = sum(this.durationMs, entry.duration_ms);
      }
    }
  }
}

/** The sum of what is known; undefined when neither is. */
export const sum = (one: number | undefined, other: number | undefined): number | undefined =>
  one === undefined ? other : one + (other ?? 0);
