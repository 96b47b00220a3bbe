// One session's life: its queue, its turn, its requests. Nothing here waits.
import { isAbsolute } from "node:path";
import { tmpdir } from "node:os";
import { fit, MIN_MAX_LINE, TooLong } from "./fit.js";
import { fold, type Extensions } from "./fold.js";
import { textJson, unquotedJson, type Message } from "./json.js";
import type { Link } from "./link.js";
import type { Ledger } from "./probe.js";
import { Requests } from "./requests.js";
import type { Running } from "./running.js";
import type { Session } from "./session.js";

const QUEUED_TURNS = 1024;
const QUEUED_SIZE = 32 * 1024 * 1024;
const QUEUED_OTHERS = 4096;
const QUEUED_STEERS = 64;
const CONTENT = ',"content":"';
const OUTPUT_END = '","channel":"stdout"}\n';
const PLAIN = 100_000; // a text that fits any line, whatever its escapes are

type Phase = "open" | "shutting" | "told" | "closed"; // told: ended, and the host understands only a text

/** What a session's worker does next. */
export type Step =
  | { kind: "start" | "file" | "update"; job: Message }
  | Running
  | { kind: "close" };
type Job = Exclude<Step, { kind: "close" }> | { kind: "refused"; job: number };

export class Core {
  readonly exchangeDir: string | undefined;
  readonly maxLine: number;
  phase: Phase = "open";
  running: Running | undefined;
  readonly requests = new Requests(this);
  readonly refused = new Set<Message>(); // files that are not what was announced
  readonly made: string[] = [];
  ledger: Ledger | undefined;
  handle!: Session<any>;
  started = false;
  /** Cuts the hook that runs. */
  cut: (() => void) | undefined;
  #closed: Message = {};
  #queue: Job[] = [];
  #queuedTurns = 0;
  #queuedSize = 0;
  #files: Message[] | undefined;
  #worker = 0; // the one that runs; 0 without
  #workers = 0;
  #freed = false;
  #lost = false;
  readonly #id: string; // as JSON
  readonly #outputOf: string; // how an `output` begins
  readonly #output: string; // the same without a turn, up to its text
  readonly #endHead: string;
  readonly #completed: string; // the end of a turn without an id

  constructor(
    readonly link: Link,
    readonly id: string,
    readonly key: number,
    readonly agreed: Extensions,
    start: Message,
  ) {
    const folder: unknown = start["exchange_dir"];
    this.exchangeDir = typeof folder === "string" && isAbsolute(folder) ? folder : undefined;
    this.maxLine = Math.max(agreed.size > 0 ? (start["max_line"] ?? 0) : 0, MIN_MAX_LINE);
    this.#id = textJson(id);
    this.#outputOf = `{"type":"output","session_id":${this.#id}`;
    this.#output = this.#outputOf + CONTENT;
    this.#endHead = `{"type":"turn.complete","session_id":${this.#id}`;
    this.#completed = this.#endHead + (agreed.has("turns") ? ',"status":"completed"}\n' : "}\n");
  }

  get isOver(): boolean {
    return this.phase === "told" || this.phase === "closed";
  }

  /** Whether a message of this turn, or of none, may still go out. */
  speaksFor(turn: Running | undefined): boolean {
    return !this.isOver && (turn === undefined || turn === this.running);
  }

  scratchDir(): string {
    return this.exchangeDir ?? tmpdir();
  }

  // What goes out.

  /** The short way of an `output` on stdout. */
  output(turn: Running, text: string): void {
    if (!this.speaksFor(turn)) return;
    if (text.length > PLAIN) return this.put(turn, { type: "output", content: text, channel: "stdout" });
    turn.head ??= turn.id === undefined ? this.#output : `${this.#outputOf},"turn_id":${textJson(turn.id)}${CONTENT}`;
    this.link.wire.put(this.key, turn.head + unquotedJson(text) + OUTPUT_END);
  }

  /** Sends an author's event, of a turn or of none. Late ones are left out. */
  put(turn: Running | undefined, event: Message): void {
    if (!this.speaksFor(turn)) return;
    if (event["history"] === true) return void this.send(undefined, event);
    const call = event["tool_call_id"];
    if (turn && event["type"] === "tool.start") {
      if (turn.tools.get(call)) return;
      turn.tools.set(call, true);
    } else if (turn && event["type"] === "tool.end") {
      if (!turn.tools.has(call)) throw new TypeError(`no tool call '${call}' was started in this turn: call toolStart() first`);
      if (!turn.tools.get(call)) return;
      turn.tools.set(call, false);
    }
    this.send(turn?.id, event);
  }

  /** Folds, cuts and writes a message. False when it is too long however it is cut; the host learns of it. */
  send(turnId: string | undefined, event: Message): boolean {
    const { type, ...members } = event;
    const message: Message = { type, session_id: this.id, ...(turnId === undefined ? {} : { turn_id: turnId }) };
    for (const [name, value] of Object.entries(members)) if (value !== undefined && value !== null) message[name] = value;
    this.#hint(message);
    if (this.#lost && type === "turn.complete") {
      this.#lost = false;
      message["clear_session"] ??= true; // what was lost must not be resumed again
    } else if (message["context"] === "lost") this.#lost = true;
    for (const folded of fold(message, this.agreed, this.link.described.own.toolsAsOutput)) {
      try {
        for (const line of fit(folded, this.agreed, this.maxLine)) this.link.wire.put(this.key, line + "\n");
      } catch (error) {
        if (!(error instanceof TooLong)) throw error;
        this.send(turnId, errorOf("oversize", `a ${type} of ${error.bytes} bytes was not sent, since the host reads lines of ${this.maxLine}`));
        return false;
      }
    }
    return true;
  }

  // Adds how to log in to a failure of category `auth` that does not say it.
  #hint(message: Message): void {
    const { type, error } = message;
    const hint = this.link.described.own.loginHint;
    if (!hint || !error || (type !== "turn.complete" && type !== "session.closed") || error.category !== "auth") return;
    const said: string = error.message ?? "";
    if (!said.includes(hint)) message["error"] = { ...error, message: said ? `${said.trimEnd().replace(/\.$/, "")}; ${hint}` : hint };
  }

  // What comes in.

  /** Takes a job of the host's. Never waits. */
  take(step: Exclude<Step, { kind: "close" }>): void {
    if (this.phase !== "open") {
      if (step.kind === "turn" && this.phase === "told") {
        this.send(step.id, { type: "session.closed", ...this.#closed });
        this.send(step.id, { type: "turn.complete", status: "failed", error: this.agreed.has("turns") ? this.#closed["error"] : undefined });
      } else if (step.kind === "turn" && this.phase === "shutting") this.#endQueued(step, stopped("shutdown"));
      return;
    }
    if (step.kind === "turn") {
      if (this.#files) [step.files, this.#files] = [this.#files, undefined];
      if (!step.large) this.ledger?.input(step.text);
      if (this.#queuedTurns >= QUEUED_TURNS || this.#queuedSize + step.text.length > QUEUED_SIZE) return this.#refuse(step);
      this.#queuedTurns++;
      this.#queuedSize += step.text.length;
    } else if (step.kind === "file") {
      const files = (this.#files ??= []);
      if (files.length >= QUEUED_OTHERS || this.#queue.length >= QUEUED_OTHERS) {
        return void this.send(undefined, errorOf("busy", "too many files before an input; one was left out"));
      }
      files.push(step.job);
    } else if (step.kind === "update" && this.#queue.length >= QUEUED_OTHERS) {
      return void this.send(undefined, { type: "session.info" });
    }
    this.#queue.push(step);
    this.wake();
  }

  // Ends a turn that there is no room for: at once where turns have ids, else in its order.
  #refuse(turn: Running): void {
    const last = this.#queue.at(-1);
    if (this.agreed.has("turns") && turn.id !== undefined) this.#endQueued(turn, busy());
    else if (last?.kind === "refused") last.job++;
    else this.#queue.push({ kind: "refused", job: 1 });
  }

  #endQueued(turn: Running, end: Message): void {
    if (turn.leavesOpen) for (const { messageId } of turn.steers) this.send(turn.id, notDelivered(messageId, "the turn has ended"));
    this.send(turn.id, end);
  }

  /** Gives the session a worker where it has none. */
  wake(): void {
    if (this.#worker !== 0) return;
    this.#worker = ++this.#workers;
    this.link.begun();
    this.link.work(this, this.#worker);
  }

  #rest(): void {
    this.#worker = 0;
    this.link.rested();
  }

  /** The next step of a worker; nothing when the worker has ended. */
  next(worker: number): Step | undefined {
    while (worker === this.#worker) {
      if (this.isOver) {
        if (this.#freed) break;
        this.#freed = true;
        return { kind: "close" };
      }
      const shutting = this.phase === "shutting";
      const job = this.#queue.shift();
      if (job === undefined) {
        if (!shutting) break;
        this.phase = "closed";
      } else if (job.kind === "turn") {
        this.#forgetQueued(job);
        if (shutting) this.#endQueued(job, stopped("shutdown"));
        else return this.#begin(job);
      } else if (job.kind === "refused") {
        for (let left = job.job; left > 0; left--) this.send(undefined, busy());
      } else if (!shutting) return job;
    }
    if (worker === this.#worker) this.#rest();
    return undefined;
  }

  #begin(turn: Running): Step {
    if (this.refused.size > 0) turn.files = turn.files.filter((file) => !this.refused.delete(file));
    this.running = turn;
    return turn;
  }

  #forgetQueued(turn: Running): void {
    this.#queuedTurns--;
    this.#queuedSize -= turn.text.length;
  }

  // A turn's life.

  /** Ends the running turn, if it is this one or none is named ([turn.1]). `said`: it stands although it was stopped. */
  endTurn(turn: Running | undefined, end: Message, said = false): boolean {
    const running = this.running;
    if (!running || (turn && turn !== running)) return false;
    this.running = undefined;
    running.over = true;
    if (!running.returned) this.link.countDown(this, running);
    this.requests.deny(running, running.stopping ? "stopped" : undefined);
    running.ring();
    if (this.isOver) return true;
    if (running.leavesOpen) this.#endParts(running);
    if (running.stopping && !said) end = stopped(running.stopReason);
    else if (end["status"] === "stopped") end = { stop_reason: running.stopReason, ...end };
    if (end === COMPLETED && !this.#lost) this.#complete(running);
    else this.send(running.id, { status: "completed", ...end, type: "turn.complete" });
    return true;
  }

  #endParts(running: Running): void {
    for (const [call, isOpen] of running.tools) if (isOpen) this.send(running.id, { type: "tool.end", tool_call_id: call, is_error: true });
    for (const id of [...running.taken.values(), ...running.steers.map((steer) => steer.messageId)]) {
      this.send(running.id, notDelivered(id, "the turn has ended"));
    }
  }

  // The short way of an end that says nothing more.
  #complete({ id }: Running): void {
    const turn = id === undefined ? "" : `,"turn_id":${textJson(id)}`;
    this.link.wire.put(this.key, turn === "" ? this.#completed : `${this.#endHead}${turn},"status":"completed"}\n`);
  }

  /** Stops the running turn, or removes a queued one ([turn.4], [turn.9]). */
  stop(turnId: string | undefined, reason: string | undefined): void {
    if (this.isOver) return;
    if (this.running && (turnId === undefined || this.running.id === turnId)) return this.#stopRunning(reason);
    if (turnId === undefined && this.running) return;
    const at = this.#queue.findIndex((job) => job.kind === "turn" && (turnId === undefined || job.id === turnId));
    const job = this.#queue[at];
    if (job?.kind !== "turn") return;
    this.#queue.splice(at, 1);
    this.#forgetQueued(job);
    this.#endQueued(job, stopped(reason));
  }

  #stopRunning(reason: string | undefined): void {
    const running = this.running;
    if (!running || running.stopping) return;
    running.stopping = true;
    running.stopReason = reason;
    this.requests.deny(running, "stopped");
    running.ring();
    this.link.countDown(this, running);
  }

  /** Gives up a handler that has had its time: its turn ends, and what waits behind it gets another worker. */
  giveUp(turn: Running): void {
    if (turn.returned) return;
    turn.returned = true;
    this.endTurn(turn, {});
    this.link.warn(`session ${this.#id} goes on without a handler that did not return in time after the end of its turn`);
    this.#rest();
    this.wake();
  }

  /** Adds to the running turn, or says that there is none ([turn.10]). */
  steer(messageId: string | undefined, content: string): void {
    if (this.isOver) return;
    const turn = this.running ?? this.#queue.find((job) => job.kind === "turn");
    let why = "too many inputs wait for the turn";
    if (!this.link.described.own.steerable) why = "the agent takes no input during a turn";
    else if (!turn || turn.stopping) why = "no turn is running";
    else if (turn.steers.length < QUEUED_STEERS) {
      turn.steers.push({ messageId, content });
      return turn.onSteer?.();
    }
    this.send(undefined, notDelivered(messageId, why));
  }

  // The session's end.

  /** The host's last word: silence from now on ([session.4]). */
  close(): void {
    const wasOver = this.isOver;
    this.#stopRunning(undefined);
    this.phase = "closed";
    this.#queue = [];
    this.requests.deny(undefined, undefined);
    this.link.wire.purge(this.key);
    if (!wasOver) this.#over();
  }

  #over(): void {
    this.cut?.();
    this.wake();
  }

  /** Ends the session from this side ([session.8]). A second call does nothing. */
  finish(reason: string, error: Message | undefined): void {
    if (this.isOver) return;
    this.endTurn(undefined, { status: reason === "finished" ? "completed" : "failed", error });
    for (const job of this.#queue.splice(0)) {
      const why = { category: "cancelled", message: "the session has ended" };
      if (job.kind === "turn") this.#endQueued(job, { type: "turn.complete", status: "failed", error: why });
      else if (job.kind === "refused") for (let left = job.job; left > 0; left--) this.send(undefined, busy());
      else if (job.kind === "update") this.send(undefined, { type: "session.info" });
    }
    this.requests.deny(undefined, undefined);
    this.#closed = { reason, error };
    this.send(undefined, { type: "session.closed", ...this.#closed });
    this.phase = this.agreed.has("control") ? "closed" : "told";
    this.#over();
    if (this.phase === "closed" && !this.link.wire.isPaused(this.key)) this.link.forget(this);
  }

  /** The link shuts down: the running turn is stopped, those that wait are ended after it ([process.1]). */
  shut(): void {
    if (this.isOver) return;
    this.#stopRunning("shutdown");
    this.requests.deny(undefined, "shutdown");
    this.phase = "shutting";
    this.#over();
  }

  /** Ends every turn now and falls silent. */
  shutNow(): void {
    if (this.running) [this.running.stopping, this.running.stopReason] = [true, "shutdown"];
    this.endTurn(undefined, {});
    for (const job of this.#queue.splice(0)) if (job.kind === "turn" && !this.isOver) this.#endQueued(job, stopped("shutdown"));
    if (!this.isOver) this.phase = "closed";
  }
}

/** The end of a turn that completed, and of which nothing more is to be said. */
export const COMPLETED: Message = {};

const BUSY = { category: "busy", message: "too many inputs wait in this session" };
const busy = (): Message => ({ type: "turn.complete", status: "failed", error: BUSY });
const stopped = (reason: string | undefined): Message => ({ type: "turn.complete", status: "stopped", stop_reason: reason });

const notDelivered = (messageId: string | undefined, reason: string): Message => ({
  type: "steer.result",
  message_id: messageId,
  delivered: false,
  reason,
});

/** An error that ends nothing. */
export const errorOf = (category: string, message: string): Message => ({ type: "error", category, message, fatal: false });
