// Where a run works and what its environment holds, by its context.
import { buildGalyarderEnv, asString, asStringArray, parseObject, stringifyGalyarderWakePayload } from "./server-utils.js";
import type { AdapterExecutionContext, Settings } from "./types.js";

/**
 * The folder of a run: the workspace or worktree that the server has prepared. A configured folder takes the place of the
 * agent's home only.
 */
export function workingDirectory(context: Record<string, unknown>, { cwd }: Settings): string {
  return prepared(context, cwd) || cwd || process.cwd();
}

function prepared(context: Record<string, unknown>, configured: string): string {
  const { cwd, source } = parseObject(context["galyarderWorkspace"]);
  return source === "agent_home" && configured !== "" ? "" : asString(cwd, "");
}

/** The environment of a run: the agent, the wake, the workspace, the configured variables, and the token of this run. */
export function runEnvironment(
  { agent, runId, context, authToken }: AdapterExecutionContext,
  { cwd, env: configured }: Settings,
): Record<string, string> {
  const text = (...names: string[]) => names.map((name) => asString(context[name], "").trim()).find((value) => value !== "");
  const list = (name: string) => {
    const value = context[name];
    const entries = Array.isArray(value) ? value.filter((entry) => typeof entry === "object" && entry !== null) : [];
    return entries.length > 0 ? JSON.stringify(entries) : "";
  };
  const workspace = parseObject(context["galyarderWorkspace"]);
  const place = (name: string) => asString(workspace[name], "");
  const found = {
    GALYARDER_RUN_ID: runId,
    GALYARDER_TASK_ID: text("taskId", "issueId"),
    GALYARDER_WAKE_REASON: text("wakeReason"),
    GALYARDER_WAKE_COMMENT_ID: text("wakeCommentId", "commentId"),
    GALYARDER_APPROVAL_ID: text("approvalId"),
    GALYARDER_APPROVAL_STATUS: text("approvalStatus"),
    GALYARDER_LINKED_ISSUE_IDS: asStringArray(context["issueIds"])
      .filter((id) => id.trim() !== "")
      .join(","),
    GALYARDER_WAKE_PAYLOAD_JSON: stringifyGalyarderWakePayload(context["galyarderWake"]),
    GALYARDER_WORKSPACE_CWD: prepared(context, cwd),
    GALYARDER_WORKSPACE_SOURCE: place("source"),
    GALYARDER_WORKSPACE_STRATEGY: place("strategy"),
    GALYARDER_WORKSPACE_ID: place("workspaceId"),
    GALYARDER_WORKSPACE_REPO_URL: place("repoUrl"),
    GALYARDER_WORKSPACE_REPO_REF: place("repoRef"),
    GALYARDER_WORKSPACE_BRANCH: place("branchName"),
    GALYARDER_WORKSPACE_WORKTREE_PATH: place("worktreePath"),
    GALYARDER_WORKSPACES_JSON: list("galyarderWorkspaces"),
    GALYARDER_RUNTIME_SERVICE_INTENTS_JSON: list("galyarderRuntimeServiceIntents"),
    GALYARDER_RUNTIME_SERVICES_JSON: list("galyarderRuntimeServices"),
    GALYARDER_RUNTIME_PRIMARY_URL: text("galyarderRuntimePrimaryUrl"),
    AGENT_HOME: place("agentHome"),
  };
  const set = Object.entries(found).filter((entry): entry is [string, string] => !!entry[1]);
  const env = { ...buildGalyarderEnv(agent), ...Object.fromEntries(set), ...configured };
  return authToken && !configured["GALYARDER_API_KEY"]?.trim() ? { ...env, GALYARDER_API_KEY: authToken } : env;
}
