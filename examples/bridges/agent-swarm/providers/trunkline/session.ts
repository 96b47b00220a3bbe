// One task of agent-swarm as one session of trunkline.
import type { PermissionRequestMessage } from "@trunkline/sdk";
import { Client, type Conversation, type Entry, type PermissionAnswer } from "@trunkline/sdk/client";
import type { ProviderEvent, ProviderResult, ProviderSession } from "../types.js";
import { relayOf, startOf } from "./adapter.js";
import { AgentReport } from "./agent-report.js";
import { asCostData, known, type SteerDelivery, type SteerOutcome, type TaskConfig, type TaskResult } from "./contract.js";
import { Translation } from "./events.js";
import { installedServers, textsOf } from "./mcp-servers.js";
import type { TrunklineOptions } from "./options.js";
import { costOf, resultOf, type Ending, type Failure } from "./outcome.js";
import { Signals } from "./signals.js";
import { Sink } from "./sink.js";

const STOP_GRACE = 15_000; // milliseconds that a stop has, before the relay is let go

export class TrunklineSession implements ProviderSession {
  sessionId: string | undefined;
  readonly #began = Date.now();
  readonly #config: TaskConfig;
  readonly #options: TrunklineOptions;
  readonly #opened: Promise<Conversation>;
  readonly #sink: Sink;
  readonly #events: Translation;
  readonly #signals: Signals;
  readonly #completion: Promise<ProviderResult>;
  readonly #agent: AgentReport;
  readonly #turns: Promise<void>[] = [];
  readonly #texts: string[] = []; // answers, by turn
  #client: Client | undefined;
  #session: Conversation | undefined; // while it takes inputs
  #openTurns = 0;
  #abort: Promise<void> | undefined;
  #reason: string | undefined; // of the abort

  constructor(config: TaskConfig, options: TrunklineOptions, commands: Map<string, string>) {
    this.#config = config;
    this.#options = options;
    this.#sink = new Sink(config);
    this.#agent = new AgentReport(config, options, commands);
    this.#events = new Translation(this.#sink);
    this.#signals = new Signals(config, () => void this.abort("cancelled"));
    this.#opened = this.#open();
    this.#completion = this.#run();
  }

  onEvent(listener: (event: ProviderEvent) => void): void {
    this.#sink.listen(listener);
  }

  waitForCompletion(): Promise<ProviderResult> {
    return this.#completion;
  }

  /** Resolves when the session has ended. */
  abort(reason?: string): Promise<void> {
    this.#reason ??= reason;
    return (this.#abort ??= this.#stop());
  }

  /** Adds to the running turn; if the agent cannot take that, or the mode is `queue`, it is the task's next turn. */
  async deliverSteering({ mode, text }: SteerDelivery): Promise<SteerOutcome> {
    try {
      await this.#opened;
      if (mode === "steer" && (await this.#session?.steer(text))) return { delivered: true, mode };
      const session = this.#session;
      if (!session || this.#abort) return { delivered: false, reason: "the agent does not run" };
      this.#begin(session, text);
      return { delivered: true, mode: "queue" };
    } catch (error) {
      return { delivered: false, reason: this.#sink.clean((error as Error).message) };
    }
  }

  async #stop(): Promise<void> {
    this.#session?.stop();
    const late = setTimeout(() => this.#client?.close(), STOP_GRACE);
    await this.#completion.finally(() => clearTimeout(late));
  }

  async #run(): Promise<ProviderResult> {
    const ending: Ending = {};
    let session: Conversation | undefined;
    try {
      this.#session = session = await this.#opened;
      const { systemPrompt, prompt } = this.#config;
      this.#begin(session, this.#options.systemPromptIn === "prompt" && systemPrompt ? `${systemPrompt}\n\n${prompt}` : prompt);
      for await (const entry of session.events()) {
        this.#take(entry, session);
        if (entry.type !== "turn.complete") continue;
        ending.end = entry;
        // Inputs that were queued meanwhile are turns of the task, too.
        if (--this.#openTurns === 0 || this.#abort) break;
      }
      if (!ending.end) await this.#turns[0]; // it rejects with the reason
    } catch (error) {
      const { message, cause } = error as Error;
      ending.failure = { category: "other", ...(cause as Failure | undefined), message };
    }
    this.#session = undefined;
    this.#signals.stop();
    this.#events.flush();
    session?.close();
    await this.#client?.close(); // nothing of it works in the folder afterwards
    await Promise.allSettled(this.#turns);
    return this.#finish(session, ending);
  }

  async #open(): Promise<Conversation> {
    const { logFile, cwd } = this.#config;
    this.#sink.open(logFile);
    this.#signals.start();
    const servers = (this.#options.mcpServers ?? installedServers)(this.#config);
    const installed = await servers.catch((error: unknown) => {
      this.#sink.warn(`the run continues without installed MCP servers: ${String(error)}`);
      return {};
    });
    for (const { env, headers } of Object.values(installed) as { env?: unknown; headers?: unknown }[])
      this.#sink.hide(textsOf([env, headers]));
    const start = startOf(this.#config, this.#options, installed);
    const connect = relayOf(this.#options, cwd, (content) => this.#sink.emit({ type: "raw_stderr", content }));
    this.#client = await Client.connect(connect, { onPermission: (request) => this.#permit(request) });
    const agent = this.#options.agent === undefined ? {} : { agent_id: this.#options.agent };
    const session = await this.#client.open({ ...start, ...agent }, { listen: true });
    if (this.#abort) throw new Error("aborted before the agent had the prompt", { cause: { category: "cancelled" } });
    this.#agent.asked(Object.keys(start));
    return session;
  }

  #begin(session: Conversation, text: string): void {
    const at = this.#texts.push("") - 1;
    this.#openTurns++;
    const done = session.turn(text).then(({ text, truncated }) => {
      this.#texts[at] = text;
      if (truncated) this.#sink.warn("the output is too long, and was cut; its messages are whole");
    });
    done.catch(() => {}); // it is awaited at the end
    this.#turns.push(done);
  }

  #take(entry: Entry, session: Conversation): void {
    this.#signals.note(entry.type);
    if (entry.type === "session.ready" || entry.type === "session.info") this.#agent.take(entry);
    if ("native_session_id" in entry && entry.native_session_id) this.#identify(entry.native_session_id);
    if (entry.type === "session.info") {
      if (entry.options_applied) this.#warnOf(this.#agent.notTaken(entry.options_applied));
      if (entry.capabilities && !entry.capabilities.native_session_ids && !this.sessionId) this.#identify(session.id);
    } else if (entry.type === "input.request") {
      // No person could answer it here: the client cancels it.
      this.#sink.emit({ type: "custom", name: "trunkline.question", data: { prompt: entry.prompt, cancelled: true } });
    }
    this.#events.take(entry);
  }

  // The id by which the agent resumes the session; trunkline's own if it has none.
  #identify(sessionId: string): void {
    if (sessionId === this.sessionId) return;
    this.sessionId = sessionId;
    this.#sink.emit({ type: "session_init", sessionId, ...this.#agent.variant });
  }

  async #permit(request: PermissionRequestMessage): Promise<PermissionAnswer> {
    const answer = (await this.#options.onPermission?.(request, this.#config)) ?? false;
    const { tool, description, resource } = request;
    this.#sink.emit({ type: "custom", name: "trunkline.permission", data: { tool, description, resource, answer } });
    return answer;
  }

  #warnOf(options: readonly string[]): void {
    if (options.length === 0) return;
    this.#sink.emit({ type: "custom", name: "trunkline.not_taken", data: { options } });
    this.#sink.warn(`the agent takes no ${options.join(", ")}`);
  }

  #finish(session: Conversation | undefined, ending: Ending): ProviderResult {
    if (ending.end) this.#warnOf(this.#agent.notTaken([])); // an agent that reports none takes none
    if (session && !this.sessionId) this.#identify(session.id);
    const cost = costOf(this.#config, this.#options, this.sessionId ?? "", this.#events.tally, Date.now() - this.#began);
    const output = this.#texts.filter((text) => text !== "").join("\n\n");
    const aborted = this.#abort && this.#reason;
    const result: TaskResult = {
      ...resultOf(output, { ...ending, aborted }, this.#events.tally, cost),
      appliedReasoningEffort: this.#agent.appliedEffort,
    };
    const clean = this.#sink.clean(result);
    const { isError, errorCategory, failureReason } = clean;
    const end = { output: clean.output ?? "", isError, ...known({ errorCategory }) };
    if (failureReason) this.#sink.emit({ type: "error", message: failureReason, ...known({ category: errorCategory }) });
    this.#sink.emit({ type: "result", cost: clean.cost ?? asCostData(cost), ...end });
    this.#sink.close();
    return clean;
  }
}
