// One run: a session of an agent behind trunkline, with one turn.
import type { ChildProcess } from "node:child_process";
import { resolve } from "node:path";
import { spawned } from "@trunkline/sdk/client";
import { type } from "./index.js";
import { Output } from "./output.js";
import { failedResult, isTrunklineUnknownSessionError, readSession, resultOf } from "./parse.js";
import { readInstructions, renderPrompt } from "./prompt.js";
import { asString, ensureAbsoluteDirectory, redactEnvForLogs, runningProcesses } from "./server-utils.js";
import { readSettings } from "./settings.js";
import { desiredSkills } from "./skills.js";
import { RunStopper } from "./stop.js";
import { AgentTurn } from "./turn.js";
import type { AdapterExecutionContext, AdapterExecutionResult, RunOutcome, SavedSession, Settings } from "./types.js";
import { runEnvironment, workingDirectory } from "./workspace.js";

/** What does not change between the attempts of a run. */
export interface PreparedRun {
  ctx: AdapterExecutionContext;
  settings: Settings;
  cwd: string;
  env: Record<string, string>;
  skills: unknown[];
  instructions: string;
}

/** Runs the agent once. Never rejects for what a run may meet: `errorMessage` and `errorCode` have it. */
export async function execute(ctx: AdapterExecutionContext): Promise<AdapterExecutionResult> {
  try {
    const run = await prepare(ctx);
    const saved = await findSession(run);
    const first = await attempt(run, saved);
    if (!saved || first.stopped || !isTrunklineUnknownSessionError(first.end?.error ?? first.error))
      return resultOf(first, run, saved);
    await ctx.onLog("stderr", `trunkline: the agent does not know session ${saved.sessionId}; a new one begins\n`);
    return resultOf(await attempt(run, null), run, null, { isStale: true });
  } catch (error) {
    return failedResult(error as Error);
  }
}

async function prepare(ctx: AdapterExecutionContext): Promise<PreparedRun> {
  const settings = readSettings(ctx.config);
  const cwd = workingDirectory(ctx.context, settings);
  await ensureAbsoluteDirectory(cwd, { createIfMissing: true });
  const { unknown } = settings;
  const notes = unknown.length > 0 ? [`trunkline: not carried from the configuration: ${unknown.join(", ")}`] : [];
  const instructions = await readInstructions(settings, cwd, (text) => notes.push(text));
  const skills = [...settings.skills, ...(await desiredSkills(ctx.config))];
  for (const note of notes) await ctx.onLog("stderr", `${note}\n`);
  return { ctx, settings, cwd, env: runEnvironment(ctx, settings), skills, instructions };
}

// The conversation of the last run, if this one may resume it.
async function findSession({ ctx: { runtime, onLog }, settings, cwd }: PreparedRun): Promise<SavedSession | null> {
  const saved = readSession(runtime.sessionParams) ?? readSession({ sessionId: runtime.sessionId });
  if (!saved) return null;
  const isHere = saved.cwd === "" || resolve(saved.cwd) === resolve(cwd);
  if (isHere && (saved.agent === "" || saved.agent === settings.agent)) return saved;
  const where = isHere ? `is one of agent "${saved.agent}"` : `was saved for "${saved.cwd}"`;
  await onLog("stderr", `trunkline: session ${saved.sessionId} ${where}; it is not resumed in "${cwd}"\n`);
  return null;
}

async function attempt(run: PreparedRun, saved: SavedSession | null): Promise<RunOutcome> {
  const { ctx, settings, cwd, env, instructions } = run;
  const { command, args, timeoutSec, graceSec } = settings;
  const { prompt, metrics } = renderPrompt(ctx, settings, { isResumed: saved !== null, instructions });
  const meta = { adapterType: type, command, cwd, commandArgs: args, env: redactEnvForLogs(env) };
  await ctx.onMeta?.({ ...meta, prompt, promptMetrics: metrics, context: ctx.context });

  const output = new Output(ctx.onLog);
  const stopper = new RunStopper(graceSec);
  const turn = new AgentTurn(startOptions(run, saved), output, stopper);
  const onSpawn = (child: ChildProcess) => {
    stopper.child = child;
    const spawned = ctx.onSpawn?.({ pid: child.pid ?? 0, startedAt: new Date().toISOString() });
    spawned?.catch((error: unknown) => output.error(`trunkline: the process was not recorded: ${String(error)}`));
  };
  // A signal of the server's cancel, pause or budget stop comes by this entry.
  const entry = { child: stopper as unknown as ChildProcess, graceSec };
  runningProcesses.set(ctx.runId, entry);
  if (timeoutSec > 0) stopper.after(timeoutSec, () => stopper.stop("timeout"));
  try {
    await turn.run(spawned(command, args, { cwd, onSpawn, onStderr: (line) => output.error(line) }), prompt);
  } catch (error) {
    const { message, cause } = error as Error;
    turn.outcome.error = { ...(cause as RunOutcome["error"]), message };
  }
  await stopper.finish(); // nothing of the run works on in the folder
  if (runningProcesses.get(ctx.runId) === entry) runningProcesses.delete(ctx.runId);
  await output.flush().catch((error: unknown) => (turn.outcome.error ??= { message: String(error) }));
  return { ...turn.outcome, stopped: stopper.reason, stdout: output.stdout, stderr: output.stderr };
}

/** The options of a run's session. */
function startOptions({ ctx, settings, cwd, env, skills, instructions }: PreparedRun, saved: SavedSession | null) {
  const { agent, folder, model, systemPromptIn, reasoningEffort, mode, permissionMode, maxTurnsPerRun, extraArgs } = settings;
  const task = asString(env["GALYARDER_TASK_ID"], "");
  const resume = saved && {
    ...(saved.sessionId ? { native_session_id: saved.sessionId } : {}),
    ...(saved.params === undefined ? {} : { params: saved.params }),
  };
  return {
    env,
    run_id: ctx.runId,
    ...(task ? { task_id: task } : {}),
    ...(agent ? { agent_id: agent } : {}),
    ...(folder === "process" ? {} : { cwd }),
    ...(model ? { model } : {}),
    ...(instructions && systemPromptIn !== "prompt" ? { system_prompt: instructions } : {}),
    ...(reasoningEffort ? { reasoning_effort: reasoningEffort } : {}),
    ...(mode ? { mode } : {}),
    ...(permissionMode ? { permission_mode: permissionMode } : {}),
    ...(maxTurnsPerRun > 0 ? { max_turns: maxTurnsPerRun } : {}),
    ...(extraArgs.length > 0 ? { extra_args: extraArgs } : {}),
    ...(skills.length > 0 ? { skills } : {}),
    ...(resume ? { resume } : {}),
  };
}
