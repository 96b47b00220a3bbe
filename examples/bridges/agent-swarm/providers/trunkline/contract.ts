// The parts of the swarm's contract that differ between its versions, so that the bridge compiles with the types of 1.70 and of
// 1.135. A worker of 1.70 ignores the members that it does not know.
import type { CostData, ProviderEvent, ProviderResult, ProviderSessionConfig } from "../types.js";

export type SteerMode = "steer" | "queue";
export type Effort = "off" | "low" | "medium" | "high" | "xhigh" | "max";
export type TaskConfig = ProviderSessionConfig & { reasoningEffort?: Effort };

export interface SteerDelivery {
  mode: SteerMode;
  text: string;
}

export type SteerOutcome = { delivered: true; mode: SteerMode } | { delivered: false; reason: string };

export interface Traits {
  hasMcp: boolean;
  nativeSkillDiscovery?: boolean;
  hasLocalEnvironment: boolean;
  steerModes?: SteerMode[];
}

export interface CredentialStatus {
  ready: boolean;
  missing: string[];
  satisfiedBy?: "env" | "file" | "side-effect-pending" | "sdk-delegated";
  hint?: string;
}

export interface RateLimitWindow {
  status: string;
  utilization?: number;
  /** Seconds since the epoch. */
  resetsAt?: number;
  lastSeenAt: string;
}

/** The providers for which the swarm has prices. */
export type PricedProvider = "claude" | "codex" | "pi" | "opencode";

export interface ModelCost {
  model: string;
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  harnessCostUsd?: number;
}

/** The cost of a task. A member that is absent is unknown; only `totalCostUsd` is 0 then, as its column cannot be null. */
export interface TaskCost {
  sessionId: string;
  taskId: string;
  agentId: string;
  totalCostUsd: number;
  inputTokens?: number;
  outputTokens?: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
  reasoningOutputTokens?: number;
  models?: ModelCost[];
  durationMs: number;
  numTurns?: number;
  model: string;
  provider?: PricedProvider;
  isError: boolean;
}

/** The result of a task. */
export interface TaskResult extends ProviderResult {
  rateLimitResetAt?: string;
  rateLimitWindows?: Record<string, RateLimitWindow>;
  appliedReasoningEffort?: Effort | null;
}

/** An event of a task, before it goes to listeners as a `ProviderEvent`. */
export type TaskEvent =
  | Exclude<ProviderEvent, { type: "session_init" | "context_usage" | "progress" }>
  | {
      type: "session_init";
      sessionId: string;
      harnessVariant?: string;
      harnessVariantMeta?: Record<string, unknown>;
    }
  | { type: "progress"; message: string }
  | {
      type: "context_usage";
      contextUsedTokens: number;
      contextTotalTokens?: number;
      contextPercent?: number;
      outputTokens?: number;
      contextFormula: string;
    };

/** The members of an object that are not undefined. */
export function known<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never;
}

/** A cost in the swarm's type, in which both versions require members that may be unknown. */
export const asCostData = (cost: TaskCost): CostData => cost as CostData;
