// How a task has ended, in the swarm's words.
import type { TurnCompleteMessage } from "@trunkline/sdk";
import type { Translation } from "./events.js";
import type { CostData, Failure, ProviderResult, ProviderSessionConfig } from "./types.js";

const STOPPED = 130;
const CATEGORIES: Readonly<Record<string, string>> = {
  auth: "authentication_failed",
  billing: "billing_error",
  context_exhausted: "context_overflow",
  overloaded: "server_error",
};

/** A category of trunkline, in the swarm's word where it has one. */
export const categoryOf = (category: string | undefined): string | undefined => category && (CATEGORIES[category] ?? category);

/** The result of a task. `failure` counts where its turn has no end. */
export function outcomeOf(
  output: string,
  end: TurnCompleteMessage | undefined,
  failure: Failure | undefined,
  cost: CostData,
): ProviderResult {
  const status = end ? (end.status ?? "completed") : "failed";
  const error = end ? end.error : failure;
  const sessionId = cost.sessionId || undefined;
  if (status === "completed") {
    return { exitCode: 0, sessionId, cost, output, isError: false, errorCategory: undefined, failureReason: undefined };
  }
  const errorCategory = categoryOf(error?.category ?? (status === "stopped" ? "cancelled" : "other"));
  const exitCode = errorCategory === "cancelled" ? STOPPED : end?.exit_code || 1;
  const failureReason = error?.message || end?.stop_reason || status;
  return { exitCode, sessionId, cost: { ...cost, isError: true }, output, isError: true, errorCategory, failureReason };
}

/** What a task has cost. */
export function costOf(
  config: ProviderSessionConfig,
  sessionId: string,
  told: Translation,
  end: TurnCompleteMessage | undefined,
  took: number,
): CostData {
  const { cost_usd, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = told.usage;
  const cached = (cache_read_tokens ?? 0) + (cache_write_tokens ?? 0); // trunkline counts these among the input
  return {
    sessionId,
    taskId: config.taskId,
    agentId: config.agentId,
    totalCostUsd: cost_usd,
    inputTokens: input_tokens === undefined ? undefined : Math.max(0, input_tokens - cached),
    outputTokens: output_tokens,
    cacheReadTokens: cache_read_tokens,
    cacheWriteTokens: cache_write_tokens,
    durationMs: end?.duration_ms ?? took,
    numTurns: end?.num_turns,
    model: told.model ?? config.model,
    isError: false,
  };
}
