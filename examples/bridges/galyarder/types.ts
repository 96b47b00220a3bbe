// What Galyarder says of an adapter, by its own names. In the framework these stand in `@galyarder/adapter-utils`.

export interface AdapterModel {
  id: string;
  label: string;
}

export interface AdapterExecutionContext {
  runId: string;
  agent: { id: string; companyId: string; name: string; adapterType: string | null; adapterConfig: unknown };
  runtime: {
    sessionId: string | null;
    sessionParams: Record<string, unknown> | null;
    sessionDisplayId: string | null;
    taskKey: string | null;
  };
  config: Record<string, unknown>;
  context: Record<string, unknown>;
  onLog: (stream: "stdout" | "stderr", chunk: string) => Promise<void>;
  onMeta?: (meta: AdapterInvocationMeta) => Promise<void>;
  authToken?: string;
}

export interface AdapterInvocationMeta {
  adapterType: string;
  command: string;
  cwd?: string;
  commandArgs?: string[];
  env?: Record<string, string>;
  prompt?: string;
  context?: Record<string, unknown>;
}

export interface UsageSummary {
  inputTokens: number;
  outputTokens: number;
  cachedInputTokens?: number;
}

export interface AdapterExecutionResult {
  exitCode: number | null;
  signal: string | null;
  timedOut: boolean;
  errorMessage?: string | null;
  usage?: UsageSummary;
  sessionId?: string | null;
  sessionParams?: Record<string, unknown> | null;
  sessionDisplayId?: string | null;
  provider?: string | null;
  model?: string | null;
  costUsd?: number | null;
  resultJson?: Record<string, unknown> | null;
  summary?: string | null;
  clearSession?: boolean;
}

export interface AdapterSessionCodec {
  deserialize(raw: unknown): Record<string, unknown> | null;
  serialize(params: Record<string, unknown> | null): Record<string, unknown> | null;
  getDisplayId?: (params: Record<string, unknown> | null) => string | null;
}

export interface AdapterEnvironmentCheck {
  code: string;
  level: "info" | "warn" | "error";
  message: string;
  detail?: string | null;
  hint?: string | null;
}

export interface AdapterEnvironmentTestResult {
  adapterType: string;
  status: "pass" | "warn" | "fail";
  checks: AdapterEnvironmentCheck[];
  testedAt: string;
}

export interface AdapterEnvironmentTestContext {
  companyId: string;
  adapterType: string;
  config: Record<string, unknown>;
}

export interface ServerAdapterModule {
  type: string;
  execute(ctx: AdapterExecutionContext): Promise<AdapterExecutionResult>;
  testEnvironment(ctx: AdapterEnvironmentTestContext): Promise<AdapterEnvironmentTestResult>;
  sessionCodec?: AdapterSessionCodec;
  supportsLocalAgentJwt?: boolean;
  models?: AdapterModel[];
  listModels?: () => Promise<AdapterModel[]>;
  agentConfigurationDoc?: string;
}

/** What the form of a new agent has. */
export interface CreateConfigValues {
  adapterType: string;
  cwd: string;
  promptTemplate: string;
  model: string;
  thinkingEffort: string;
  dangerouslySkipPermissions: boolean;
  command: string;
  args: string;
  extraArgs: string;
  envVars: string;
  maxTurnsPerRun: number;
}

export type TranscriptEntry =
  | { kind: "init"; ts: string; model: string; sessionId: string }
  | { kind: "assistant"; ts: string; text: string; delta?: boolean }
  | { kind: "thinking"; ts: string; text: string; delta?: boolean }
  | { kind: "user"; ts: string; text: string }
  | { kind: "tool_call"; ts: string; name: string; input: unknown; toolUseId?: string }
  | { kind: "tool_result"; ts: string; toolUseId: string; content: string; isError: boolean }
  | {
      kind: "result";
      ts: string;
      text: string;
      inputTokens: number;
      outputTokens: number;
      cachedTokens: number;
      costUsd: number;
      subtype: string;
      isError: boolean;
      errors: string[];
    }
  | { kind: "stderr" | "system" | "stdout"; ts: string; text: string };

export interface UIAdapterModule {
  type: string;
  label: string;
  parseStdoutLine: (line: string, ts: string) => TranscriptEntry[];
  buildAdapterConfig: (values: CreateConfigValues) => Record<string, unknown>;
}

export interface CLIAdapterModule {
  type: string;
  formatStdoutEvent: (line: string, debug: boolean) => void;
}

/** A conversation that an agent can go on with, as the framework stores it. */
export interface Saved {
  sessionId: string;
  cwd: string;
  agent: string;
  params: unknown;
}

/** The settings of an agent, from its `adapterConfig`. */
export interface Settings {
  agent: string;
  command: string;
  args: string[];
  cwd: string;
  folder: string;
  promptTemplate: string;
  systemPrompt: string;
  model: string;
  reasoningEffort: string;
  mode: string;
  permissionMode: string;
  maxTurnsPerRun: number;
  extraArgs: string[];
  skills: string[];
  env: Record<string, string>;
  timeoutSec: number;
  graceSec: number;
  /** Keys that mean nothing here. */
  unknown: string[];
}

/** What is known of a run when it has ended. */
export interface Ran {
  end: import("@trunkline/sdk").TurnCompleteMessage | undefined;
  error: { category?: string; message?: string } | undefined;
  text: string;
  timedOut: boolean;
  sessionId: string;
  displayId: string;
  model: string;
  isLost: boolean;
  stdout: string;
  stderr: string;
}
