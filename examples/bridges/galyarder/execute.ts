// One run: a session of an agent that trunkline runs, with one turn.
import { resolve } from "node:path";
import { Client, spawned, type Conversation, type Entry } from "@trunkline/sdk/client";
import { type } from "./index.js";
import { Output } from "./output.js";
import { isTrunklineUnknownSessionError, resultOf, savedOf } from "./parse.js";
import { ensureAbsoluteDirectory, redactEnvForLogs, renderTemplate } from "./server-utils.js";
import { environmentOf, settingsOf, startOf, templateData } from "./settings.js";
import type { AdapterExecutionContext, AdapterExecutionResult, Ran, Saved, Settings } from "./types.js";

const LONGEST = 2 ** 31 - 1; // milliseconds of a timer

/** Runs the agent once. Never rejects for what a run may meet: `errorMessage` says it. */
export async function execute(ctx: AdapterExecutionContext): Promise<AdapterExecutionResult> {
  let settings: Settings;
  try {
    settings = settingsOf(ctx.config);
    await ensureAbsoluteDirectory(settings.cwd);
  } catch (error) {
    return { exitCode: null, signal: null, timedOut: false, errorMessage: (error as Error).message };
  }
  const { unknown } = settings;
  if (unknown.length > 0) await ctx.onLog("stderr", `trunkline: not carried from the configuration: ${unknown.join(", ")}\n`);
  const saved = await resumable(ctx, settings);
  const first = await attempt(ctx, settings, saved);
  if (!saved || first.timedOut || !isTrunklineUnknownSessionError(first.end?.error ?? first.error))
    return resultOf(first, settings);
  await ctx.onLog("stderr", `trunkline: the agent does not know session ${saved.sessionId}; a new one begins\n`);
  return { ...resultOf(await attempt(ctx, settings, null), settings), clearSession: true };
}

// The conversation of the last run, where this one may go on with it.
async function resumable({ runtime, onLog }: AdapterExecutionContext, { cwd, agent }: Settings): Promise<Saved | null> {
  const saved = savedOf(runtime.sessionParams) ?? savedOf({ sessionId: runtime.sessionId });
  if (!saved) return null;
  const isHere = saved.cwd === "" || resolve(saved.cwd) === resolve(cwd);
  if (isHere && (saved.agent === "" || saved.agent === agent)) return saved;
  const where = isHere ? `is one of agent "${saved.agent}"` : `was saved for "${saved.cwd}"`;
  await onLog("stderr", `trunkline: session ${saved.sessionId} ${where}; it is not resumed in "${cwd}"\n`);
  return null;
}

async function attempt(ctx: AdapterExecutionContext, settings: Settings, saved: Saved | null): Promise<Ran> {
  const { command, args, cwd, timeoutSec, graceSec } = settings;
  const env = environmentOf(ctx, settings.env);
  const prompt = renderTemplate(settings.promptTemplate, templateData(ctx));
  const { context } = ctx;
  await ctx.onMeta?.({ adapterType: type, command, cwd, commandArgs: args, env: redactEnvForLogs(env), prompt, context });
  const output = new Output(ctx.onLog);
  const run = new Run(startOf(settings, ctx, env, saved), output);
  const relay = spawned(command, args, { cwd, onStderr: (line) => output.error(line) });
  let stopping: NodeJS.Timeout | undefined;
  const limit = () => {
    run.ran.timedOut = true;
    run.session?.stop();
    stopping = setTimeout(() => void run.client?.close(), Math.min(graceSec * 1000, LONGEST));
  };
  const timer = timeoutSec > 0 ? setTimeout(limit, Math.min(timeoutSec * 1000, LONGEST)) : undefined;
  try {
    await run.go(relay, prompt);
  } catch (error) {
    const { message, cause } = error as Error;
    run.ran.error = { ...(cause as Ran["error"]), message };
  }
  clearTimeout(timer);
  clearTimeout(stopping);
  run.session?.close();
  await run.client?.close(); // nothing of it works on in the folder
  await output.flush().catch((error: unknown) => (run.ran.error ??= { message: String(error) }));
  return { ...run.ran, stdout: output.stdout, stderr: output.stderr };
}

class Run {
  readonly ran: Omit<Ran, "stdout" | "stderr"> = {
    end: undefined,
    error: undefined,
    text: "",
    timedOut: false,
    sessionId: "",
    displayId: "",
    model: "",
    isLost: false,
  };
  client: Client | undefined;
  session: Conversation | undefined;
  readonly #start: Record<string, unknown>;
  readonly #output: Output;
  #asked: string[]; // options of which the agent has not said whether it takes them

  constructor(start: Record<string, unknown>, output: Output) {
    [this.#start, this.#output] = [start, output];
    this.#asked = Object.keys(start).filter((name) => name !== "agent_id");
  }

  async go(relay: ReturnType<typeof spawned>, prompt: string): Promise<void> {
    // There is no one to ask: what the operator's policy has not decided is denied.
    const onPermission = ({ tool, resource }: { tool: string; resource: string }) => (
      this.#output.error(`trunkline: denied: ${tool} ${resource}`),
      false
    );
    this.client = await Client.connect(relay, { onPermission });
    this.session = await this.client.open(this.#start, { listen: true });
    if (this.ran.timedOut) return;
    const done = this.session.turn(prompt);
    done.catch(() => {}); // it is awaited below
    for await (const entry of this.session.events()) {
      this.#note(entry);
      await this.#output.entry(entry);
      if (entry.type === "turn.complete" && (this.ran.end = entry)) break;
    }
    const { text, truncated } = await done;
    this.ran.text = text;
    if (truncated) this.#output.error("trunkline: the answer is too long, and was cut in the summary");
    this.#notTaken([]); // an agent that has not said a word of them takes none
  }

  #note(entry: Entry): void {
    const { ran } = this;
    if ("native_session_id" in entry && entry.native_session_id) ran.sessionId = entry.native_session_id;
    if (entry.type === "session.ready" || entry.type === "session.info") {
      ran.displayId = entry.display_id ?? ran.displayId;
      ran.model = entry.model ?? ran.model;
      ran.isLost ||= entry.context === "lost" && this.#start["resume"] !== undefined;
      if (entry.type === "session.info" && entry.options_applied) this.#notTaken(entry.options_applied);
    } else if (entry.type === "input.request") {
      this.#output.error(`trunkline: no one is there to answer: ${entry.prompt}`);
    }
  }

  #notTaken(applied: readonly string[]): void {
    const options = this.#asked.filter((name) => !applied.includes(name));
    this.#asked = [];
    if (options.length > 0) this.#output.error(`trunkline: the agent takes no ${options.join(", ")}`);
  }
}
