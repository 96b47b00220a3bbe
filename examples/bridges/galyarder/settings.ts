// What an agent's configuration and a run's context say.
import type { AdapterExecutionContext, Saved, Settings } from "./types.js";
import { asBoolean, asNumber, asString, asStringArray, buildGalyarderEnv, parseObject } from "./server-utils.js";

const PROMPT = "You are agent {{agent.id}} ({{agent.name}}). Continue your Galyarder Framework work.";
const SERVE = ["serve", "--session-may", "cwd,env,extra_args,skills,mode,permission_mode"];
const DANGEROUS = ["dangerouslySkipPermissions", "dangerouslyBypassApprovalsAndSandbox", "dangerouslyBypassSandbox"];

/** Reads a configuration; what has another type counts as absent. Throws for what must not be left out. */
export function settingsOf(config: Record<string, unknown>): Settings {
  const dangerous = DANGEROUS.filter((name) => asBoolean(config[name], false));
  if (dangerous.length > 0)
    throw new Error(`${dangerous.join(", ")} cannot be carried: allow tools in the agent's policy of trunkline instead`);
  const args = asStringArray(config["args"]);
  const model = asString(config["model"], "");
  const settings = {
    agent: asString(config["agent"], ""),
    command: asString(config["command"], "trunkline"),
    args: args.length > 0 ? args : SERVE,
    cwd: asString(config["cwd"], ""),
    folder: asString(config["folder"], "session"),
    promptTemplate: asString(config["promptTemplate"], PROMPT),
    systemPrompt: asString(config["systemPrompt"], ""),
    model: model === "default" ? "" : model,
    reasoningEffort: asString(config["reasoningEffort"], ""),
    mode: asString(config["mode"], ""),
    permissionMode: asString(config["permissionMode"], ""),
    maxTurnsPerRun: asNumber(config["maxTurnsPerRun"], 0),
    extraArgs: asStringArray(config["extraArgs"]),
    skills: asStringArray(config["skills"]),
    env: envOf(config["env"]),
    timeoutSec: Math.max(0, asNumber(config["timeoutSec"], 0)),
    graceSec: Math.max(0, asNumber(config["graceSec"], 15)),
  };
  const known = new Set([...Object.keys(settings), ...DANGEROUS]);
  return { ...settings, unknown: Object.keys(config).filter((name) => !known.has(name)) };
}

// A value is a text, or `{ "type": "plain", "value": … }`.
function envOf(value: unknown): Record<string, string> {
  const read = (of: unknown) => (typeof of === "string" ? of : parseObject(of)["value"]);
  const entries = Object.entries(parseObject(value)).map(([name, of]) => [name, read(of)] as const);
  const lacking = entries.filter(([, of]) => typeof of !== "string").map(([name]) => name);
  if (lacking.length > 0) throw new Error(`variables without a text: ${lacking.join(", ")}`);
  return Object.fromEntries(entries as [string, string][]);
}

/** The environment of a run: who it is for, why it woke, what the configuration sets, and the token to call back with. */
export function environmentOf(
  { agent, runId, context, authToken }: AdapterExecutionContext,
  own: Record<string, string>,
): Record<string, string> {
  const text = (...names: string[]) => names.map((name) => asString(context[name], "")).find((value) => value !== "") ?? "";
  const woken = {
    GALYARDER_TASK_ID: text("taskId", "issueId"),
    GALYARDER_WAKE_REASON: text("wakeReason"),
    GALYARDER_WAKE_COMMENT_ID: text("wakeCommentId", "commentId"),
    GALYARDER_APPROVAL_ID: text("approvalId"),
    GALYARDER_APPROVAL_STATUS: text("approvalStatus"),
    GALYARDER_LINKED_ISSUE_IDS: asStringArray(context["issueIds"]).join(","),
  };
  const said = Object.fromEntries(Object.entries(woken).filter(([, value]) => value !== ""));
  const env = { ...buildGalyarderEnv(agent), GALYARDER_RUN_ID: runId, ...said, ...own };
  return authToken && !own["GALYARDER_API_KEY"] ? { ...env, GALYARDER_API_KEY: authToken } : env;
}

/** The variables of a prompt template. */
export function templateData({ agent, runId, context }: AdapterExecutionContext): Record<string, unknown> {
  const { id, companyId } = agent;
  return { agentId: id, companyId, runId, company: { id: companyId }, agent, run: { id: runId }, context };
}

/** What a run says of its session. */
export function startOf(
  settings: Settings,
  run: AdapterExecutionContext,
  env: Record<string, string>,
  saved: Saved | null,
): Record<string, unknown> {
  const { agent, cwd, folder, model, systemPrompt, reasoningEffort, mode, permissionMode, maxTurnsPerRun, extraArgs, skills } =
    settings;
  const task = env["GALYARDER_TASK_ID"];
  const resume = saved && {
    ...(saved.sessionId ? { native_session_id: saved.sessionId } : {}),
    ...(saved.params === undefined ? {} : { params: saved.params }),
  };
  return {
    env,
    run_id: run.runId,
    ...(task ? { task_id: task } : {}),
    ...(agent ? { agent_id: agent } : {}),
    ...(folder === "process" ? {} : { cwd }),
    ...(model ? { model } : {}),
    ...(systemPrompt ? { system_prompt: systemPrompt } : {}),
    ...(reasoningEffort ? { reasoning_effort: reasoningEffort } : {}),
    ...(mode ? { mode } : {}),
    ...(permissionMode ? { permission_mode: permissionMode } : {}),
    ...(maxTurnsPerRun > 0 ? { max_turns: maxTurnsPerRun } : {}),
    ...(extraArgs.length > 0 ? { extra_args: extraArgs } : {}),
    ...(skills.length > 0 ? { skills } : {}),
    ...(resume ? { resume } : {}),
  };
}
