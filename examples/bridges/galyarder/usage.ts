// Tokens as the server counts them: for a session it takes those so far, and subtracts what its last run had.
import type { TurnCompleteMessage } from "@trunkline/sdk";
import { asNumber, parseObject } from "./server-utils.js";
import type { SavedSession, UsageSummary } from "./types.js";

type Usage = Required<UsageSummary>;
const COUNTS = ["inputTokens", "outputTokens", "cachedInputTokens"] as const;
const MAX_SESSIONS = 10_000;

// Sums by agent and session, oldest first. A wake without a task resumes a session by its id only.
const sums = new Map<string, Usage>();

export function readUsage(raw: unknown): Usage {
  const count = (name: string) => Math.max(0, asNumber(parseObject(raw)[name], 0));
  return mapUsage((name) => count(name));
}

/**
 * The tokens of a session after a turn, or of the turn only if the session has no id; nothing if none are known. A turn without
 * counts has the session's sum, too: without it the server would count all of the next one anew.
 */
export function sumUsage({ agentId, sessionId, kept, end }: {
  agentId: string;
  sessionId: string;
  kept: SavedSession | null;
  end: TurnCompleteMessage | undefined;
}): Usage | undefined {
  const turn = readTurn(end);
  if (sessionId === "") return turn;
  const key = `${agentId} ${sessionId}`;
  const known = sums.get(key);
  const before = kept ? mapUsage((name) => Math.max(kept.usage[name], known?.[name] ?? 0)) : readUsage(undefined);
  const sum = mapUsage((name) => before[name] + (turn?.[name] ?? 0));
  if (!turn && COUNTS.every((name) => sum[name] === 0)) return undefined;
  sums.delete(key);
  sums.set(key, sum);
  const [oldest] = sums.keys();
  if (sums.size > MAX_SESSIONS && oldest !== undefined) sums.delete(oldest);
  return sum;
}

// trunkline counts cached tokens among the input, Galyarder does not.
function readTurn(end: TurnCompleteMessage | undefined): Usage | undefined {
  const { input_tokens, output_tokens, cache_read_tokens = 0, cache_write_tokens = 0 } = end?.usage ?? {};
  if (input_tokens === undefined || output_tokens === undefined) return undefined;
  const inputTokens = Math.max(0, input_tokens - cache_read_tokens - cache_write_tokens);
  return { inputTokens, outputTokens: output_tokens, cachedInputTokens: cache_read_tokens };
}

const mapUsage = (count: (name: (typeof COUNTS)[number]) => number): Usage => ({
  inputTokens: count("inputTokens"),
  outputTokens: count("outputTokens"),
  cachedInputTokens: count("cachedInputTokens"),
});
