// Stands for the swarm's own `src/providers/types.ts` (1.135.0), by its names and shapes: there, this file is left out. What the
// bridge reads and writes is here; `test/agent-swarm-1.70.ts` has the same of 1.70.0.

export type SteerMode = "steer" | "queue";
export type ReasoningEffort = "off" | "low" | "medium" | "high" | "xhigh" | "max";

export interface RateLimitWindowInfo {
  status: string;
  utilization?: number;
  resetsAt?: number;
  isUsingOverage?: boolean;
  surpassedThreshold?: number;
  lastSeenAt: string;
}

export interface CostModelUsage {
  model: string;
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  webSearchRequests?: number;
  harnessCostUsd?: number;
}

export interface CostData {
  sessionId: string;
  taskId?: string;
  agentId: string;
  totalCostUsd: number;
  inputTokens?: number;
  outputTokens?: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
  cacheWrite5mTokens?: number;
  cacheWrite1hTokens?: number;
  reasoningOutputTokens?: number;
  thinkingTokens?: number;
  models?: CostModelUsage[];
  durationMs: number;
  numTurns: number | null;
  model: string;
  isError: boolean;
  provider?: "claude" | "claude-managed" | "codex" | "pi" | "opencode" | "devin";
}

export type ProviderEvent =
  | {
      type: "session_init";
      sessionId: string;
      providerMeta?: Record<string, unknown>;
      harnessVariant?: string;
      harnessVariantMeta?: Record<string, unknown>;
    }
  | { type: "message"; role: "assistant" | "user"; content: string }
  | { type: "tool_start"; toolCallId: string; toolName: string; args: unknown }
  | { type: "tool_end"; toolCallId: string; toolName: string; result: unknown }
  | { type: "result"; cost: CostData; output?: string; isError: boolean; errorCategory?: string }
  | { type: "error"; message: string; category?: string }
  | { type: "raw_log"; content: string }
  | { type: "raw_stderr"; content: string }
  | { type: "progress"; message: string }
  | { type: "custom"; name: string; data: unknown }
  | {
      type: "context_usage";
      contextUsedTokens: number;
      contextTotalTokens: number | null;
      contextPercent: number | null;
      outputTokens: number | null;
      contextFormula?: string;
    }
  | {
      type: "compaction";
      preCompactTokens: number;
      compactTrigger: "auto" | "manual" | "auto-inferred";
      contextTotalTokens: number;
    };

export interface ProviderSessionConfig {
  prompt: string;
  systemPrompt: string;
  model: string;
  role: string;
  agentId: string;
  taskId: string;
  apiUrl: string;
  apiKey: string;
  cwd: string;
  vcsRepo?: string;
  contextKey?: string;
  resumeSessionId?: string;
  iteration?: number;
  logFile: string;
  additionalArgs?: string[];
  env?: Record<string, string>;
  codexSlot?: number;
  reasoningEffort?: ReasoningEffort;
}

export type SteerDelivery = { mode: SteerMode; text: string };
export type SteerDeliveryResult = { delivered: true; mode: SteerMode } | { delivered: false; reason: string };

export interface ProviderSession {
  readonly sessionId: string | undefined;
  onEvent(listener: (event: ProviderEvent) => void): void;
  waitForCompletion(): Promise<ProviderResult>;
  abort(reason?: string): Promise<void>;
  deliverSteering?(delivery: SteerDelivery): Promise<SteerDeliveryResult>;
  readonly steeringDeliveredExternally?: boolean;
}

export interface ProviderResult {
  exitCode: number;
  sessionId?: string;
  cost?: CostData;
  output?: string;
  isError: boolean;
  errorCategory?: string;
  failureReason?: string;
  rateLimitResetAt?: string;
  rateLimitWindows?: Record<string, RateLimitWindowInfo>;
  appliedReasoningEffort?: ReasoningEffort | null;
}

export interface ProviderTraits {
  hasMcp: boolean;
  nativeSkillDiscovery?: boolean;
  hasLocalEnvironment: boolean;
  steerModes?: SteerMode[];
}

export interface ProviderAdapter {
  readonly name: string;
  readonly traits: ProviderTraits;
  createSession(config: ProviderSessionConfig): Promise<ProviderSession>;
  canResume(sessionId: string): Promise<boolean>;
  formatCommand(commandName: string): string;
}

export interface CredStatus {
  ready: boolean;
  missing: string[];
  satisfiedBy?: "env" | "file" | "side-effect-pending" | "sdk-delegated";
  hint?: string;
  bedrockModels?: Array<{ id: string; name: string }>;
  bedrockRegion?: string;
}
