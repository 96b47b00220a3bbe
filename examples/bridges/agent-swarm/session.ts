// One task of agent-swarm as one session of trunkline.
import type { PermissionRequestMessage, TurnCompleteMessage } from "@trunkline/sdk";
import { Client, type Conversation, type Entry, type PermissionAnswer } from "@trunkline/sdk/client";
import { Translation } from "./events.js";
import { costOf, outcomeOf } from "./outcome.js";
import { Sink } from "./sink.js";
import { relayOf, startOf } from "./trunkline-adapter.js";
import type {
  Failure,
  ProviderEvent,
  ProviderResult,
  ProviderSession,
  ProviderSessionConfig,
  TrunklineOptions,
} from "./types.js";

const STOP_GRACE = 15_000; // milliseconds that a stop has, before the relay is let go
const COMMANDS = 1000; // that are remembered

export class TrunklineSession implements ProviderSession {
  sessionId: string | undefined;
  readonly #began = Date.now();
  readonly #config: ProviderSessionConfig;
  readonly #options: TrunklineOptions;
  readonly #commands: Map<string, string>;
  readonly #sink: Sink;
  readonly #events: Translation;
  readonly #completion: Promise<ProviderResult>;
  #asked: string[] = []; // options of which the agent has not said whether it takes them
  #client: Client | undefined;
  #session: Conversation | undefined;
  #abort: Promise<void> | undefined;

  constructor(config: ProviderSessionConfig, options: TrunklineOptions, commands: Map<string, string>) {
    [this.#config, this.#options, this.#commands] = [config, options, commands];
    this.#sink = new Sink(config);
    this.#events = new Translation(this.#sink);
    this.#completion = this.#run();
  }

  onEvent(listener: (event: ProviderEvent) => void): void {
    this.#sink.listen(listener);
  }

  waitForCompletion(): Promise<ProviderResult> {
    return this.#completion;
  }

  /** Resolves when the session has ended. */
  abort(): Promise<void> {
    return (this.#abort ??= this.#stop());
  }

  async #stop(): Promise<void> {
    this.#session?.stop();
    const late = setTimeout(() => this.#client?.close(), STOP_GRACE);
    await this.#completion.finally(() => clearTimeout(late));
  }

  async #run(): Promise<ProviderResult> {
    let [text, end, failure]: [string, TurnCompleteMessage | undefined, Failure | undefined] = ["", undefined, undefined];
    try {
      const session = await this.#open();
      const { systemPrompt, prompt } = this.#config;
      const done = session.turn(
        this.#options.systemPromptIn === "prompt" && systemPrompt ? `${systemPrompt}\n\n${prompt}` : prompt,
      );
      done.catch(() => {}); // it is awaited below
      for await (const entry of session.events()) {
        this.#take(entry, session);
        if (entry.type === "turn.complete" && (end = entry)) break;
      }
      const { truncated } = ({ text } = await done);
      if (truncated) this.#sink.warn("the output is too long, and was cut; its messages are whole");
    } catch (error) {
      const { message, cause } = error as Error;
      failure = { category: "other", ...(cause as Failure | undefined), message };
    }
    this.#events.flush();
    this.#session?.close();
    await this.#client?.close(); // nothing of it works on in the folder
    return this.#finish(text, end, failure);
  }

  async #open(): Promise<Conversation> {
    const { logFile, cwd } = this.#config;
    this.#sink.open(logFile);
    const servers = this.#options.mcpServers?.(this.#config);
    const installed = await servers?.catch((error: unknown) =>
      this.#sink.warn(`the run goes on without installed MCP servers: ${String(error)}`),
    );
    const start = startOf(this.#config, this.#options, installed ?? {});
    const connect = relayOf(this.#options, cwd, (content) => this.#sink.emit({ type: "raw_stderr", content }));
    this.#client = await Client.connect(connect, { onPermission: (request) => this.#permit(request) });
    const agent = this.#options.agent === undefined ? {} : { agent_id: this.#options.agent };
    const session = await this.#client.open({ ...start, ...agent }, { listen: true });
    if (this.#abort) throw new Error("aborted before the agent was asked", { cause: { category: "cancelled" } });
    this.#asked = Object.keys(start);
    return (this.#session = session);
  }

  #take(entry: Entry, session: Conversation): void {
    if ("native_session_id" in entry && entry.native_session_id) this.#identify(entry.native_session_id);
    if (entry.type === "session.info") {
      if (entry.options_applied) this.#notTaken(entry.options_applied);
      if (entry.capabilities && !entry.capabilities.native_session_ids && !this.sessionId) this.#identify(session.id);
      for (const { name, text } of entry.commands ?? [])
        if (text && this.#commands.size < COMMANDS) this.#commands.set(name, text);
    } else if (entry.type === "input.request") {
      // No one is there who could answer: the client cancels it.
      this.#sink.emit({ type: "custom", name: "trunkline.question", data: { prompt: entry.prompt, cancelled: true } });
    }
    this.#events.take(entry);
  }

  // The id under which the agent goes on with the session; trunkline's own where it has none.
  #identify(sessionId: string): void {
    if (sessionId === this.sessionId) return;
    this.sessionId = sessionId;
    this.#sink.emit({ type: "session_init", sessionId });
  }

  async #permit(request: PermissionRequestMessage): Promise<PermissionAnswer> {
    const answer = (await this.#options.onPermission?.(request, this.#config)) ?? false;
    const { tool, description, resource } = request;
    this.#sink.emit({ type: "custom", name: "trunkline.permission", data: { tool, description, resource, answer } });
    return answer;
  }

  #notTaken(applied: readonly string[]): void {
    const options = this.#asked.filter((name) => !applied.includes(name));
    this.#asked = [];
    if (options.length === 0) return;
    this.#sink.emit({ type: "custom", name: "trunkline.not_taken", data: { options } });
    this.#sink.warn(`the agent takes no ${options.join(", ")}`);
  }

  #finish(text: string, end: TurnCompleteMessage | undefined, failure: Failure | undefined): ProviderResult {
    if (end) this.#notTaken([]); // an agent that has not said a word of them takes none
    if (this.#session && !this.sessionId) this.#identify(this.#session.id);
    const cost = costOf(this.#config, this.sessionId ?? "", this.#events, end, Date.now() - this.#began);
    const result = this.#sink.clean(outcomeOf(text, end, failure, cost));
    const { output, isError, errorCategory, failureReason } = result;
    if (failureReason) this.#sink.emit({ type: "error", message: failureReason, category: errorCategory });
    this.#sink.emit({ type: "result", cost: result.cost, output, isError, errorCategory });
    this.#sink.close();
    return result;
  }
}
