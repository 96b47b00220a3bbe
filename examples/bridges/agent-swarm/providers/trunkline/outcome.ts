// How a task has ended, in the swarm's terms.
import type { TurnCompleteMessage, Usage } from "@trunkline/sdk";
import { asCostData, known } from "./contract.js";
import type { ModelCost, PricedProvider, TaskConfig, TaskCost, TaskResult } from "./contract.js";
import type { TrunklineOptions } from "./options.js";
import { sum, type Tally } from "./tally.js";

/** Why a turn failed. */
export type Failure = NonNullable<TurnCompleteMessage["error"]>;

const STOPPED = 130;
const SOONEST_RESET = 60_000; // milliseconds; the swarm's bounds of a cool-down
const LATEST_RESET = 7 * 24 * 3_600_000;
const RATE_LIMIT = /rate.?limit|usage[ _-]?limit|too many requests|\b429\b/i; // by which the swarm finds one in a text
const CATEGORIES: Readonly<Record<string, string>> = {
  auth: "authentication_failed",
  billing: "billing_error",
  context_exhausted: "context_overflow",
  overloaded: "server_error",
};
const PRICED_AS: Readonly<Record<string, PricedProvider>> = { anthropic: "claude", openai: "codex" };

/** A category of trunkline, in the swarm's word when it has one. */
export const categoryOf = (category: string | undefined): string | undefined => category && (CATEGORIES[category] ?? category);

/** The end of a task: its last turn's, or the failure of its session; and the reason of its abort. */
export interface Ending {
  end?: TurnCompleteMessage | undefined;
  failure?: Failure | undefined;
  aborted?: string | undefined;
}

/** The result of a task. */
export function resultOf(output: string, ending: Ending, seen: Tally, cost: TaskCost): TaskResult {
  const { end, failure, aborted } = ending;
  const status = end ? (end.status ?? "completed") : "failed";
  const error = end ? end.error : failure;
  const rest = known({
    sessionId: cost.sessionId || undefined,
    rateLimitWindows: Object.keys(seen.rateLimits).length > 0 ? seen.rateLimits : undefined,
  });
  if (status === "completed") return { exitCode: 0, cost: asCostData(cost), output, isError: false, ...rest };
  const category = error?.category ?? (status === "stopped" ? "cancelled" : "other");
  const exitCode = category === "cancelled" ? STOPPED : end?.exit_code || 1;
  const why = aborted === undefined ? error?.message || end?.stop_reason || status : `aborted: ${aborted}`;
  const isLimited = category === "rate_limit";
  return {
    exitCode,
    cost: asCostData({ ...cost, isError: true }),
    output,
    isError: true,
    failureReason: isLimited && !RATE_LIMIT.test(why) ? `[rate-limit] ${why}` : why,
    ...rest,
    ...known({
      errorCategory: categoryOf(category),
      rateLimitResetAt: isLimited ? boundedReset(error?.retry_at ?? seen.rejectedUntil) : undefined,
    }),
  };
}

function boundedReset(at: string | undefined): string | undefined {
  const time = Date.parse(at ?? "");
  if (Number.isNaN(time)) return undefined;
  const now = Date.now();
  return new Date(Math.min(Math.max(time, now + SOONEST_RESET), now + LATEST_RESET)).toISOString();
}

/** The cost of a task: the sum of its turns. A price that no agent reported is 0, since the swarm's column cannot be null. */
export function costOf(config: TaskConfig, options: TrunklineOptions, sessionId: string, seen: Tally, took: number): TaskCost {
  const total = (name: TokenCount): number | undefined =>
    seen.usages.reduce<number | undefined>((all, usage) => sum(all, usage[name]), undefined);
  const provider = options.pricedAs ?? PRICED_AS[seen.provider ?? ""];
  const models = modelsOf(seen.usages, provider);
  return {
    sessionId,
    taskId: config.taskId,
    agentId: config.agentId,
    totalCostUsd: total("cost_usd") ?? 0,
    durationMs: Math.round(seen.durationMs ?? took),
    model: seen.model || config.model || "unknown",
    isError: false,
    ...known({
      inputTokens: uncached(total("input_tokens"), total("cache_read_tokens"), total("cache_write_tokens"), provider),
      outputTokens: total("output_tokens"),
      cacheReadTokens: total("cache_read_tokens"),
      cacheWriteTokens: total("cache_write_tokens"),
      reasoningOutputTokens: total("reasoning_tokens"),
      models: models.length > 0 ? models : undefined,
      numTurns: seen.numTurns,
      provider,
    }),
  };
}

type TokenCount = "cost_usd" | "input_tokens" | "output_tokens" | "cache_read_tokens" | "cache_write_tokens" | "reasoning_tokens";

// trunkline counts cached tokens among the input. So does the swarm for `codex`; for all others it adds them.
function uncached(
  input: number | undefined,
  read: number | undefined,
  written: number | undefined,
  provider: PricedProvider | undefined,
): number | undefined {
  if (input === undefined || provider === "codex") return input;
  return Math.max(0, input - (read ?? 0) - (written ?? 0));
}

// The swarm takes a row's tokens from its models when there are any: a turn without them would be lost, and so there are none.
function modelsOf(usages: readonly Usage[], provider: PricedProvider | undefined): ModelCost[] {
  const models = new Map<string, ModelCost>();
  for (const { input_tokens, output_tokens, models: used } of usages) {
    if (!used && (input_tokens || output_tokens)) return [];
    for (const [model, usage] of Object.entries(used ?? {})) {
      const { cache_read_tokens: read = 0, cache_write_tokens: written = 0 } = usage;
      const all = models.get(model) ?? { model, inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 };
      all.inputTokens += uncached(usage.input_tokens, read, written, provider) ?? 0;
      all.outputTokens += usage.output_tokens ?? 0;
      all.cacheReadTokens += read;
      all.cacheWriteTokens += written;
      const cost = sum(all.harnessCostUsd, usage.cost_usd);
      models.set(model, cost === undefined ? all : { ...all, harnessCostUsd: cost });
    }
  }
  return [...models.values()];
}
