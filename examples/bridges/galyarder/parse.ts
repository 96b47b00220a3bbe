// What a run has come to, and what the next one needs to go on.
import { constants } from "node:os";
import { asString, parseObject } from "./server-utils.js";
import type { AdapterExecutionResult, AdapterSessionCodec, Ran, Saved, Settings } from "./types.js";

export const sessionCodec: AdapterSessionCodec = {
  deserialize: (raw) => savedOf(raw) as Record<string, unknown> | null,
  serialize: (params) => savedOf(params) as Record<string, unknown> | null,
  getDisplayId: (params) => asString(params?.["sessionId"], "") || null,
};

/** A conversation as it was stored; null where an agent could not go on with it. */
export function savedOf(raw: unknown): Saved | null {
  const { sessionId, cwd, agent, params } = parseObject(raw);
  const saved = {
    sessionId: asString(sessionId, ""),
    cwd: asString(cwd, ""),
    agent: asString(agent, ""),
    params: params ?? undefined,
  };
  return saved.sessionId === "" && saved.params === undefined ? null : (JSON.parse(JSON.stringify(saved)) as Saved);
}

/** Whether a run failed because the agent does not know the session that it was to go on with. */
export const isTrunklineUnknownSessionError = (error: { category?: string } | undefined): boolean =>
  error?.category === "session_not_found";

export function resultOf(ran: Ran, settings: Settings): AdapterExecutionResult {
  const { end, text } = ran;
  const isDone = end !== undefined && (end.status ?? "completed") === "completed";
  const timedOut = ran.timedOut && !isDone;
  const saved = savedOf({ sessionId: ran.sessionId, cwd: settings.cwd, agent: settings.agent, params: end?.session_params });
  const { usage = {} } = end ?? {};
  const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = usage;
  const cached = (cache_read_tokens ?? 0) + (cache_write_tokens ?? 0); // trunkline counts these among the input
  return {
    exitCode: timedOut || end?.signal !== undefined ? null : isDone ? (end.exit_code ?? 0) : end?.exit_code || 1,
    signal: nameOf(end?.signal),
    timedOut,
    ...(isDone ? {} : { errorMessage: timedOut ? `Timed out after ${settings.timeoutSec}s` : whyOf(ran) }),
    ...(input_tokens === undefined || output_tokens === undefined
      ? {}
      : {
          usage: {
            inputTokens: Math.max(0, input_tokens - cached),
            outputTokens: output_tokens,
            ...(cache_read_tokens === undefined ? {} : { cachedInputTokens: cache_read_tokens }),
          },
        }),
    sessionId: ran.sessionId || null,
    sessionParams: saved as Record<string, unknown> | null,
    sessionDisplayId: ran.displayId || ran.sessionId || null,
    provider: end?.provider ?? usage.provider ?? null,
    model: end?.model ?? usage.model ?? (ran.model || settings.model || null),
    costUsd: usage.cost_usd ?? null,
    resultJson: { ...end, ...(isDone ? {} : { stdout: ran.stdout, stderr: ran.stderr }) },
    summary: end?.summary ?? (text || null),
    clearSession: ran.isLost || end?.clear_session === true,
  };
}

function whyOf({ end, error }: Ran): string {
  const { category, message } = end?.error ?? error ?? {};
  const why = message || end?.stop_reason || end?.status || "the run has no end";
  return category && category !== "other" ? `${why} (${category})` : why;
}

function nameOf(signal: number | undefined): string | null {
  if (signal === undefined) return null;
  return Object.entries(constants.signals).find(([, number]) => number === signal)?.[0] ?? `signal ${signal}`;
}
