// What a run has come to, and what the next one needs to resume its session.
import { constants } from "node:os";
import type { InputRequestMessage } from "@trunkline/sdk";
import { resolveBilling } from "./billing.js";
import type { PreparedRun } from "./execute.js";
import { asString, parseObject } from "./server-utils.js";
import type { AdapterExecutionResult, AdapterQuestion, AdapterSessionCodec } from "./types.js";
import type { RunOutcome, SavedSession, Settings } from "./types.js";
import { readUsage, sumUsage } from "./usage.js";

const WORKSPACE = ["workspaceId", "repoUrl", "repoRef"]; // the server compares them when an issue moves to a project
const LONGEST_SUMMARY = 64 * 1024; // characters: the server stores it, and comments with it on the issue

export const sessionCodec: AdapterSessionCodec = {
  deserialize: (raw) => readSession(raw) as Record<string, unknown> | null,
  serialize: (params) => readSession(params) as Record<string, unknown> | null,
  getDisplayId: (params) => asString(params?.["sessionId"], "") || null,
};

/** A conversation as it was stored; null if an agent could not resume it. */
export function readSession(raw: unknown): SavedSession | null {
  const stored = parseObject(raw);
  const { sessionId, cwd, agent, params, usage } = stored;
  const places = WORKSPACE.map((name) => [name, asString(stored[name], "")]).filter(([, value]) => value !== "");
  const saved = {
    sessionId: asString(sessionId, ""),
    cwd: asString(cwd, ""),
    agent: asString(agent, ""),
    params: params ?? undefined,
    usage: readUsage(usage),
    ...Object.fromEntries(places),
  };
  return saved.sessionId === "" && saved.params === undefined ? null : (JSON.parse(JSON.stringify(saved)) as SavedSession);
}

/** Whether a run failed because the agent does not know the session that it was to resume. */
export const isTrunklineUnknownSessionError = (error: { category?: string } | undefined): boolean =>
  error?.category === "session_not_found";

/** The result of a run that did not begin. */
export function failedResult({ message }: Error): AdapterExecutionResult {
  return { exitCode: null, signal: null, timedOut: false, errorMessage: message, errorCode: "configuration" };
}

export function resultOf(
  outcome: RunOutcome,
  { ctx, settings, cwd, env }: Pick<PreparedRun, "ctx" | "settings" | "cwd" | "env">,
  resumed: SavedSession | null,
  { isStale = false } = {},
): AdapterExecutionResult {
  const { end, text, question } = outcome;
  const isDone = end !== undefined && (end.status ?? "completed") === "completed";
  const stopped = isDone ? undefined : outcome.stopped;
  const kept = resumed && (outcome.sessionId === "" || outcome.sessionId === resumed.sessionId) ? resumed : null;
  const sessionId = outcome.sessionId || (kept?.sessionId ?? "");
  const usage = sumUsage({ agentId: ctx.agent.id, sessionId, kept, end });
  const params = end?.session_params ?? kept?.params;
  const workspace = parseObject(ctx.context["galyarderWorkspace"]);
  const saved = readSession({ ...workspace, sessionId, cwd, agent: settings.agent, params, usage });
  const model = end?.model ?? end?.usage?.model ?? (outcome.model || settings.model || null);
  const summary = summaryOf(end?.summary ?? text, question);
  return {
    exitCode: stopped || end?.signal !== undefined ? null : isDone ? (end.exit_code ?? 0) : end?.exit_code || 1,
    signal: stopped ? "SIGTERM" : signalName(end?.signal),
    timedOut: stopped === "timeout",
    ...(isDone ? {} : failureOf(outcome, settings)),
    ...(usage ? { usage } : {}),
    sessionId: sessionId || null,
    sessionParams: saved as Record<string, unknown> | null,
    sessionDisplayId: sessionId || null, // by it the server finds the last run, and resumes from a run that is chosen
    model,
    ...resolveBilling(outcome, settings, env),
    costUsd: end?.usage?.cost_usd ?? null,
    resultJson: {
      ...end,
      ...(summary ? { summary } : {}),
      ...(question ? { question } : {}),
      ...(isDone ? {} : { stdout: outcome.stdout, stderr: outcome.stderr }),
    },
    summary,
    question: question ?? null,
    // The server would forget a new session, too, which takes the place of the stale one by itself.
    clearSession: (end?.clear_session === true && !outcome.isReplaced) || (isStale && saved === null),
  };
}

function failureOf({ end, error, stopped }: RunOutcome, { timeoutSec }: Settings): Partial<AdapterExecutionResult> {
  if (stopped === "timeout") return { errorMessage: `Timed out after ${timeoutSec}s`, errorCode: "timeout" };
  if (stopped === "cancelled") return { errorMessage: "Cancelled by Galyarder", errorCode: "cancelled" };
  const { message, ...meta } = end?.error ?? error ?? {};
  const why = message || end?.stop_reason || end?.status || "the run has no end";
  const category = meta.category === "other" ? undefined : meta.category;
  return {
    errorMessage: category ? `${why} (${category})` : why,
    errorCode: category ?? null,
    ...(Object.keys(meta).length > 0 ? { errorMeta: meta } : {}),
  };
}

function signalName(signal: number | undefined): string | null {
  if (signal === undefined) return null;
  return Object.entries(constants.signals).find(([, number]) => number === signal)?.[0] ?? `signal ${signal}`;
}

/** A question of the agent, as the server takes it: its first field with choices has the choices. */
export function questionOf({ prompt, fields = [] }: InputRequestMessage): AdapterQuestion {
  const choices = fields.find((field) => (field.choices ?? []).length > 0)?.choices ?? [];
  return {
    prompt,
    choices: choices.map(({ id, label = id, description }) => ({ key: id, label, ...(description ? { description } : {}) })),
  };
}

// The server comments with it on the issue, so a question reaches a person there.
function summaryOf(text: string, question: AdapterQuestion | undefined): string | null {
  const choices = question?.choices.map(({ key, label }) => `- ${key}: ${label}`) ?? [];
  const asked = question ? [`Question: ${question.prompt}`, ...choices].join("\n") : "";
  return [text.slice(0, LONGEST_SUMMARY), asked].filter((part) => part !== "").join("\n\n") || null;
}
