// What agent-swarm says of a harness provider, by its own names. In the swarm these stand in `src/providers/types.ts`.
import type { Connect, PermissionAnswer } from "@trunkline/sdk/client";
import type { PermissionRequestMessage, TurnCompleteMessage } from "@trunkline/sdk";

export interface ProviderAdapter {
  readonly name: string;
  createSession(config: ProviderSessionConfig): Promise<ProviderSession>;
  canResume(sessionId: string): Promise<boolean>;
  formatCommand(commandName: string): string;
}

export interface ProviderSession {
  readonly sessionId: string | undefined;
  onEvent(listener: (event: ProviderEvent) => void): void;
  waitForCompletion(): Promise<ProviderResult>;
  abort(): Promise<void>;
}

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
  resumeSessionId?: string;
  iteration?: number;
  logFile: string;
  additionalArgs?: string[];
  env?: Record<string, string>;
}

export interface ProviderResult {
  exitCode: number;
  sessionId: string | undefined;
  cost: CostData;
  output: string;
  isError: boolean;
  errorCategory: string | undefined;
  failureReason: string | undefined;
}

/** What is not known is undefined: 0 means none. `inputTokens` are those that came from no cache. */
export interface CostData {
  sessionId: string;
  taskId: string;
  agentId: string;
  totalCostUsd: number | undefined;
  inputTokens: number | undefined;
  outputTokens: number | undefined;
  cacheReadTokens: number | undefined;
  cacheWriteTokens: number | undefined;
  durationMs: number;
  numTurns: number | undefined;
  model: string;
  isError: boolean;
}

/** null: not known. */
export type ProviderEvent =
  | { type: "session_init"; sessionId: string }
  | { type: "message"; role: "assistant" | "user"; content: string }
  | { type: "tool_start"; toolCallId: string; toolName: string; args: unknown }
  | { type: "tool_end"; toolCallId: string; toolName: string; result: unknown }
  | { type: "result"; cost: CostData; output: string; isError: boolean; errorCategory: string | undefined }
  | { type: "error"; message: string; category: string | undefined }
  | { type: "raw_log"; content: string }
  | { type: "raw_stderr"; content: string }
  | { type: "custom"; name: string; data: unknown }
  | {
      type: "context_usage";
      contextUsedTokens: number;
      contextTotalTokens: number | null;
      contextPercent: number | null;
      outputTokens: number | null;
    }
  | { type: "compaction"; preCompactTokens: number | null; compactTrigger: "auto" | "manual"; contextTotalTokens: number | null };

/** How the bridge is set up. */
export interface TrunklineOptions {
  /** What `HARNESS_PROVIDER` says: `trunkline`. */
  name?: string;
  /** The agent, by its id in trunkline's configuration. Absent: the default one. */
  agent?: string;
  /** The program that is started for each session: `trunkline`. */
  command?: string;
  /** Its arguments: `serve`, with what a task sets of its session allowed. */
  args?: string[];
  /** Another relay, as `unixSocket(path)` of a daemon. Then `command` and `args` do not count. */
  connect?: Connect;
  /**
   * Who goes into the task's folder: the agent's `session`, the default, or the relay's `process`, for an adapter that knows no
   * folders. With `connect` it is always the session.
   */
  folder?: "session" | "process";
  /** Where the system prompt goes: `option`, the default, or before the `prompt`, for an agent that takes none. */
  systemPromptIn?: "option" | "prompt";
  /** How a command is written where the agent has not told: `/{name}`. */
  commandForm?: string;
  /** The MCP servers that are installed for this agent of the swarm, by name. Without them a run goes on. */
  mcpServers?: (config: ProviderSessionConfig) => Promise<Record<string, unknown>>;
  /** Answers permissions. Absent: each is denied. */
  onPermission?: (
    request: PermissionRequestMessage,
    config: ProviderSessionConfig,
  ) => PermissionAnswer | Promise<PermissionAnswer>;
}

/** Why a turn failed, as trunkline says it. */
export type Failure = NonNullable<TurnCompleteMessage["error"]>;
