// The shapes of `@galyarder-framework/adapter-utils` that an adapter meets, by its own names, and the bridge's own behind them.
// `../real/galyarder` compares the former with a checkout.
import type { ChildProcess } from "node:child_process";
import type { TurnCompleteMessage } from "@trunkline/sdk";

export interface AdapterModel {
  id: string;
  label: string;
}

export interface AdapterAgent {
  id: string;
  companyId: string;
  name: string;
  adapterType: string | null;
  adapterConfig: unknown;
}

export interface AdapterRuntime {
  sessionId: string | null;
  sessionParams: Record<string, unknown> | null;
  sessionDisplayId: string | null;
  taskKey: string | null;
}

export interface AdapterExecutionContext {
  runId: string;
  agent: AdapterAgent;
  runtime: AdapterRuntime;
  config: Record<string, unknown>;
  context: Record<string, unknown>;
  onLog: (stream: "stdout" | "stderr", chunk: string) => Promise<void>;
  onMeta?: (meta: AdapterInvocationMeta) => Promise<void>;
  onSpawn?: (meta: { pid: number; startedAt: string }) => Promise<void>;
  authToken?: string;
}

export interface AdapterInvocationMeta {
  adapterType: string;
  command: string;
  cwd?: string;
  commandArgs?: string[];
  commandNotes?: string[];
  env?: Record<string, string>;
  prompt?: string;
  promptMetrics?: Record<string, number>;
  context?: Record<string, unknown>;
}

export interface UsageSummary {
  inputTokens: number;
  outputTokens: number;
  cachedInputTokens?: number;
}

export type AdapterBillingType =
  | "api"
  | "subscription"
  | "metered_api"
  | "subscription_included"
  | "subscription_overage"
  | "credits"
  | "fixed"
  | "unknown";

export interface AdapterQuestion {
  prompt: string;
  choices: Array<{ key: string; label: string; description?: string }>;
}

export interface AdapterExecutionResult {
  exitCode: number | null;
  signal: string | null;
  timedOut: boolean;
  errorMessage?: string | null;
  errorCode?: string | null;
  errorMeta?: Record<string, unknown>;
  usage?: UsageSummary;
  sessionId?: string | null;
  sessionParams?: Record<string, unknown> | null;
  sessionDisplayId?: string | null;
  provider?: string | null;
  biller?: string | null;
  model?: string | null;
  billingType?: AdapterBillingType | null;
  costUsd?: number | null;
  resultJson?: Record<string, unknown> | null;
  summary?: string | null;
  clearSession?: boolean;
  question?: AdapterQuestion | null;
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

export interface AdapterSkillContext {
  agentId: string;
  companyId: string;
  adapterType: string;
  config: Record<string, unknown>;
}

export interface AdapterSkillEntry {
  key: string;
  runtimeName: string | null;
  desired: boolean;
  managed: boolean;
  required?: boolean;
  requiredReason?: string | null;
  state: "available" | "configured" | "installed" | "missing" | "stale" | "external";
  origin?: "company_managed" | "galyarder_required" | "user_installed" | "external_unknown";
  originLabel?: string | null;
  readOnly?: boolean;
  sourcePath?: string | null;
  targetPath?: string | null;
  detail?: string | null;
}

export interface AdapterSkillSnapshot {
  adapterType: string;
  supported: boolean;
  mode: "unsupported" | "persistent" | "ephemeral";
  desiredSkills: string[];
  entries: AdapterSkillEntry[];
  warnings: string[];
}

export interface ConfigFieldSchema {
  key: string;
  label: string;
  type: "text" | "select" | "toggle" | "number" | "textarea" | "combobox";
  options?: Array<{ label: string; value: string; group?: string }>;
  default?: unknown;
  hint?: string;
  required?: boolean;
  group?: string;
}

export interface AdapterConfigSchema {
  fields: ConfigFieldSchema[];
}

export interface ServerAdapterModule {
  type: string;
  execute(ctx: AdapterExecutionContext): Promise<AdapterExecutionResult>;
  testEnvironment(ctx: AdapterEnvironmentTestContext): Promise<AdapterEnvironmentTestResult>;
  listSkills?: (ctx: AdapterSkillContext) => Promise<AdapterSkillSnapshot>;
  syncSkills?: (ctx: AdapterSkillContext, desiredSkills: string[]) => Promise<AdapterSkillSnapshot>;
  sessionCodec?: AdapterSessionCodec;
  supportsLocalAgentJwt?: boolean;
  models?: AdapterModel[];
  listModels?: () => Promise<AdapterModel[]>;
  agentConfigurationDoc?: string;
  getConfigSchema?: () => Promise<AdapterConfigSchema> | AdapterConfigSchema;
}

export interface GalyarderSkillEntry {
  key: string;
  runtimeName: string;
  source: string;
  required?: boolean;
  requiredReason?: string | null;
}

/** The part of `server-utils` that the bridge calls. */
export interface ServerUtils {
  runningProcesses: Map<string, { child: ChildProcess; graceSec: number }>;
  asString(value: unknown, fallback: string): string;
  asNumber(value: unknown, fallback: number): number;
  asBoolean(value: unknown, fallback: boolean): boolean;
  asStringArray(value: unknown): string[];
  parseObject(value: unknown): Record<string, unknown>;
  parseJson(value: string): Record<string, unknown> | null;
  buildGalyarderEnv(agent: { id: string; companyId: string }): Record<string, string>;
  redactEnvForLogs(env: Record<string, string>): Record<string, string>;
  ensureAbsoluteDirectory(cwd: string, opts?: { createIfMissing?: boolean }): Promise<void>;
  renderTemplate(template: string, data: Record<string, unknown>): string;
  joinPromptSections(sections: Array<string | null | undefined>, separator?: string): string;
  renderGalyarderWakePrompt(value: unknown, options?: { resumedSession?: boolean }): string;
  stringifyGalyarderWakePayload(value: unknown): string | null;
  readGalyarderRuntimeSkillEntries(config: Record<string, unknown>, moduleDir: string): Promise<GalyarderSkillEntry[]>;
  resolveGalyarderDesiredSkillNames(config: Record<string, unknown>, available: GalyarderSkillEntry[]): string[];
}

/** The form of a new agent, as far as the bridge reads it. */
export interface CreateConfigValues {
  adapterType: string;
  cwd: string;
  instructionsFilePath?: string;
  promptTemplate: string;
  model: string;
  thinkingEffort: string;
  dangerouslySkipPermissions: boolean;
  command: string;
  args: string;
  extraArgs: string;
  envVars: string;
  envBindings: Record<string, unknown>;
  bootstrapPrompt: string;
  maxTurnsPerRun: number;
  adapterSchemaValues?: Record<string, unknown>;
}

export type TranscriptEntry =
  | { kind: "init"; ts: string; model: string; sessionId: string }
  | { kind: "assistant"; ts: string; text: string; delta?: boolean }
  | { kind: "thinking"; ts: string; text: string; delta?: boolean }
  | { kind: "user"; ts: string; text: string }
  | { kind: "tool_call"; ts: string; name: string; input: unknown; toolUseId?: string }
  | { kind: "tool_result"; ts: string; toolUseId: string; toolName?: string; content: string; isError: boolean }
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
  | { kind: "stderr"; ts: string; text: string }
  | { kind: "system"; ts: string; text: string }
  | { kind: "stdout"; ts: string; text: string };

/** `ConfigFields` is a React component of the page, such as its `SchemaConfigFields`. */
export interface UIAdapterModule<ConfigFields> {
  type: string;
  label: string;
  parseStdoutLine: (line: string, ts: string) => TranscriptEntry[];
  ConfigFields: ConfigFields;
  buildAdapterConfig: (values: CreateConfigValues) => Record<string, unknown>;
}

export interface CLIAdapterModule {
  type: string;
  formatStdoutEvent: (line: string, debug: boolean) => void;
}

/** A conversation that an agent can resume, as the server stores it. */
export interface SavedSession {
  sessionId: string;
  cwd: string;
  agent: string;
  params: unknown;
  /** Tokens of the session so far: the server subtracts the last run's. */
  usage: Required<UsageSummary>;
}

/** The settings of an agent, from its `adapterConfig`. */
export interface Settings {
  agent: string;
  command: string;
  args: string[];
  cwd: string;
  folder: string;
  promptTemplate: string;
  bootstrapPromptTemplate: string;
  instructionsFilePath: string;
  systemPrompt: string;
  systemPromptIn: string;
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
  provider: string;
  biller: string;
  billingType: string;
  /** Keys without a meaning here. */
  unknown: string[];
}

/** A turn that has ended, or was given up. */
export interface RunOutcome {
  end: TurnCompleteMessage | undefined;
  error: { category?: string; message?: string } | undefined;
  text: string;
  stopped: "timeout" | "cancelled" | undefined;
  sessionId: string;
  model: string;
  adapter: string;
  /** Whether the agent had lost the session, and has begun another one. */
  isReplaced: boolean;
  question: AdapterQuestion | undefined;
  stdout: string;
  stderr: string;
}
