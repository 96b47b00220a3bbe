// A turn, as its handler holds it.
import { setImmediate as others } from "node:timers/promises";
import type { FileInput } from "./adapter.js";
import type { Core } from "./core.js";
import { announced, make } from "./files.js";
import type { Message } from "./json.js";
import type { Answer, Decision } from "./requests.js";
import type { Running } from "./running.js";
import { kindOf, placed, put, Steer, type Event, type Session } from "./session.js";
import type { Category, CompactionMessage, ContextUsageMessage, LogStream, PermissionRequestMessage, PlanEntry } from "./types.js";
import type { QuestionField, RateLimitMessage, ToolEndMessage, ToolStartMessage, ToolUpdateMessage } from "./types.js";
import type { TurnCompleteMessage, UsageMessage } from "./types.js";

const LAST_WORDS = 256 * 1024; // what a stopped turn may hold over its share, so that its handler comes to its end
const YIELD = 32; // a loop of outputs that nothing holds back would else never let a stop in

type Members<M> = Omit<M, "type" | "session_id" | "turn_id">;
type More<M, Named extends string> = Partial<Omit<Members<M>, Named>>;

/** What the user says, and the files that came since the input before. */
export interface Input {
  readonly content: string;
  readonly files: readonly FileInput[];
  /** The input's own id, where it has one. */
  readonly messageId: string | undefined;
  /** `_meta` of the input. */
  readonly meta: { readonly [name: string]: unknown } | undefined;
}

/** What a permission is asked for. What a host without `control` cannot show is left out for it. */
export type Permission = Omit<Members<PermissionRequestMessage>, "request_id" | "truncated" | "description" | "resource"> & {
  /** What a person reads. */
  description: string;
  /** What the tool acts on: a command, a path, an address. */
  resource: string;
};

/** What the user is asked. Without fields it is one text, under `answer`. */
export interface Question {
  prompt: string;
  fields?: QuestionField[];
  /** When the agent gives up, in RFC 3339. */
  expires_at?: string;
}

/**
 * One turn: an input, and all that follows until its one end ([turn.1]).
 *
 * The end is what the handler does: a return completes the turn, an exception fails it, `Failure` says how. After a stop
 * `signal` is aborted; a handler that has not returned 2 s later has its turn ended. A handler that goes on for 2 s after the
 * end of its turn, whatever ended it, is given up: the session goes on without it. What is called after the end sends
 * nothing. Methods that send have sent when they return; await them, so that a host that reads slowly slows the handler: what
 * waits beyond 16 MiB is refused by an exception.
 */
export class Turn<State = unknown> {
  readonly #core: Core;
  readonly #running: Running;
  readonly session: Session<State>;
  #controller: AbortController | undefined;
  #sent = 0;

  /** @internal */
  constructor(core: Core, running: Running) {
    this.#core = core;
    this.#running = running;
    this.session = core.handle;
  }

  /** The host's id of the turn, where it gives ids. */
  get id(): string | undefined {
    return this.#running.id;
  }

  /** What the author keeps of the session. */
  get state(): State {
    return this.session.state;
  }

  set state(state: State) {
    this.session.state = state;
  }

  /** Aborted when the turn must end: it was stopped, or has ended. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      const controller = (this.#controller = new AbortController());
      this.#running.onStop(() => controller.abort());
    }
    return this.#controller.signal;
  }

  /** Whether the turn must end. */
  get stopped(): boolean {
    return this.#running.stopping || this.#running.over;
  }

  /**
   * Sends a piece of the answer, or the pieces of an iterable until it or the turn ends: joined in order, they are the
   * whole. Rejects with what the iterable throws. Throws TypeError for anything else.
   */
  output(text: string | AsyncIterable<string>, channel = "stdout"): Promise<void> {
    if (typeof text !== "string") {
      if (!isStream(text)) throw new TypeError(`output() takes a string or an async iterable of strings, not ${kindOf(text)}`);
      return this.#stream(text, channel);
    }
    if (channel !== "stdout") return this.emit({ type: "output", content: text, channel });
    if (this.#core.link.wire.held(this.#core.key) > 0) return this.emit({ type: "output", content: text, channel });
    this.#core.output(this.#running, text);
    return this.#sentOne();
  }

  async #stream(pieces: AsyncIterable<string>, channel: string): Promise<void> {
    const iterator = pieces[Symbol.asyncIterator]();
    const stop = new Promise<undefined>((resolve) => this.#running.onStop(() => resolve(undefined)));
    while (!this.stopped) {
      const piece = await Promise.race([iterator.next(), stop]);
      if (piece === undefined) break;
      if (piece.done) return;
      await this.output(piece.value, channel);
    }
    void iterator.return?.()?.catch(() => {}); // it may never come to its end
  }

  /** Sends any event of the turn, folded down to what the host offered. Throws TypeError for what JSON does not have. */
  emit(event: Event): Promise<void> {
    put(this.#core, this.#running, event);
    return this.#sentOne();
  }

  #sentOne(): Promise<void> {
    if (!this.#hasRoom()) return this.#room();
    return ++this.#sent % YIELD === 0 ? others() : DONE;
  }

  #hasRoom(): boolean {
    const { stopping, over } = this.#running;
    return over || this.#core.link.wire.hasRoom(this.#core.key, stopping ? LAST_WORDS : 0);
  }

  async #room(): Promise<void> {
    while (!this.#hasRoom()) {
      await new Promise<void>((resolve) => {
        this.#core.link.wire.whenRoom(this.#core.key, resolve);
        if (!this.#running.stopping) this.#running.onStop(resolve);
      });
    }
  }

  /** Sends a piece of what the model thinks. */
  thinking(text: string): Promise<void> {
    return this.emit({ type: "thinking", content: text });
  }

  /** Reports that a tool call begins. A call that the turn leaves open is ended for it, as failed. */
  toolStart(call: string, tool: string, more: More<ToolStartMessage, "tool_call_id" | "tool"> = {}): Promise<void> {
    return this.emit({ ...more, type: "tool.start", tool_call_id: call, tool });
  }

  /** Sends what a tool call printed since the last update, or what else is known of it. */
  toolUpdate(call: string, text?: string, more: More<ToolUpdateMessage, "tool_call_id" | "content"> = {}): Promise<void> {
    return this.emit({ ...more, type: "tool.update", tool_call_id: call, ...(text === undefined ? {} : { content: text }) });
  }

  /** Reports that a tool call has ended; `is_error` among `more` says that it failed. */
  toolEnd(call: string, text?: string, more: More<ToolEndMessage, "tool_call_id" | "content"> = {}): Promise<void> {
    return this.emit({ is_error: false, ...more, type: "tool.end", tool_call_id: call, ...(text === undefined ? {} : { content: text }) });
  }

  /** Sends the plan, whole each time. */
  plan(entries: PlanEntry[]): Promise<void> {
    return this.emit({ type: "plan", entries });
  }

  /** Reports in a line how the work goes. */
  progress(text: string): Promise<void> {
    return this.emit({ type: "progress", message: text });
  }

  /** Sends a line for the log. */
  log(text: string, stream: LogStream = "raw"): Promise<void> {
    return this.emit({ type: "log", stream, content: text });
  }

  /** Reports an error that ends nothing. Every host gets it, as text where need be. */
  error(text: string, category: Category = "other"): Promise<void> {
    return this.emit({ type: "error", category, message: text, fatal: false });
  }

  /** Sends an event of the agent's own. */
  custom(name: string, data?: unknown): Promise<void> {
    return this.emit({ type: "custom", name, ...(data === undefined ? {} : { data }) });
  }

  /** Reports tokens and cost so far. */
  usage(usage: Members<UsageMessage>): Promise<void> {
    return this.emit({ ...usage, type: "usage" });
  }

  /** Reports how full the context is, in tokens. */
  contextUsage(usage: Members<ContextUsageMessage>): Promise<void> {
    return this.emit({ ...usage, type: "context.usage" });
  }

  /** Reports that the agent shortened its context. */
  compaction(compaction: Members<CompactionMessage>): Promise<void> {
    return this.emit({ ...compaction, type: "compaction" });
  }

  /** Reports how much of a provider's limit is used. */
  rateLimit(limit: Members<RateLimitMessage>): Promise<void> {
    return this.emit({ ...limit, type: "rate_limit" });
  }

  /** Reports that quiet work goes on, so that no host takes it for a stall. */
  working(): Promise<void> {
    return this.emit({ type: "working" });
  }

  /**
   * Asks whether an action may happen, and waits for the answer: only `approved: true` allows it. A stop and the end of the
   * turn or the session settle it as denied; there is no other deadline. An aborted signal withdraws it. It never rejects.
   */
  permission(permission: Permission, { signal }: { signal?: AbortSignal } = {}): Promise<Decision> {
    return this.#core.requests.ask(this.#running, { ...permission, type: "permission.request" }, signal);
  }

  /**
   * Asks the user for values, and waits for them. Where the host cannot ask, it is shown as text and cancelled at once. A
   * stop and the end of the turn or the session cancel it; an aborted signal withdraws it.
   */
  question(question: Question, { signal }: { signal?: AbortSignal } = {}): Promise<Answer> {
    return this.#core.requests.ask(this.#running, { ...question, type: "input.request" }, signal);
  }

  /**
   * The inputs that the user adds to this turn, until the turn must end. Needs `steerable`. Those that the turn does not take
   * are answered as not delivered; leaving the loop loses none.
   */
  async *steers(): AsyncGenerator<Steer, void, void> {
    const running = this.#running;
    while (!this.stopped) {
      const steer = running.steers.shift();
      if (steer) yield new Steer(this.#core, running, steer.messageId, steer.content);
      else await new Promise<void>((resolve) => (running.onSteer = resolve));
    }
  }

  /**
   * Sends a file that is complete and stays where it is until the session closes; its size and SHA-256 go with it where both
   * sides use `large`. Rejects where there is no such regular file.
   */
  async file(path: string, { name, mime }: { name?: string; mime?: string } = {}): Promise<void> {
    const told = await announced(path, name, mime, this.#core.agreed.has("large"));
    return this.emit(told as Event);
  }

  /** Writes a file into the session's folder, sends it, and resolves to its path. It goes with the session. */
  async newFile(name: string, data: string | Uint8Array, { mime }: { mime?: string } = {}): Promise<string> {
    const { own, path } = await make(this.#core.scratchDir(), name, data);
    this.#core.made.push(own);
    await this.file(path, { name, ...(mime === undefined ? {} : { mime }) });
    return path;
  }

  /** Ends the turn now. What the handler does afterwards changes nothing. */
  end(end: Partial<Members<TurnCompleteMessage>> = {}): void {
    const message: Message = placed(this.#core, { ...end, type: "turn.complete" });
    this.#core.endTurn(this.#running, message, true);
  }
}

const isStream = (value: unknown) => typeof value === "object" && value !== null && Symbol.asyncIterator in value;

/** What a call that has sent returns: always the same promise, by which a turn that waits for nothing is known. */
export const DONE = Promise.resolve();
