// One session of a client: its position in the journal, its turns, its requests, its events.
import { AnswerTooLarge, backoff, ProtocolMismatch, RequestSettled, Refused, SessionEnded, sleep } from "./errors.js";
import { wellFormed, type Answer, type Client, type GivenFile, type HistoryOptions, type HistoryPage } from "./hub.js";
import type { AdapterMessage, FileOutputMessage, InputLimits, InputRequestMessage, PermissionRequestMessage, RelayMessage } from "./types.js";
import type { RequestDecidedMessage, TurnCompleteMessage } from "./types.js";

type Message = { [name: string]: any };

/** What happens in a session: a message, with `seq`, `epoch` and `time` if the relay keeps a journal. */
export type Entry = (AdapterMessage | RelayMessage) & { seq?: number; epoch?: number; time?: string; by?: string };

/** A permission or a question of an agent. */
export type AgentRequest = PermissionRequestMessage | InputRequestMessage;

/** How a request was settled, and by whom: `by` is the client, `name` the person, if that client named one. */
export type Decision = Omit<RequestDecidedMessage, "session_id" | "type">;

/** A turn that has ended. */
export interface Done {
  /** The answer: `output` on stdout, joined; an empty line separates messages. */
  text: string;
  /** Whether `text` is cut at 16 Mi UTF-16 units: `events()` has all of it. */
  truncated: boolean;
  end: TurnCompleteMessage;
}

export interface TurnOptions {
  /** Files that go with the input, of up to 64 MiB each over a network. One that cannot be read fails the turn. */
  files?: readonly GivenFile[];
  /** Limits of this turn; the stricter one of these and the session's counts. */
  limits?: InputLimits;
}

/** An input that was sent. */
export interface SentInput {
  /** The id of the input. The same input keeps it, however often it is sent. */
  readonly messageId: string;
  /** The end of its turn. */
  readonly done: Promise<Done>;
  /**
   * Removes the input from the queue. Resolves to whether it was removed: `done` then has the status `stopped`. A turn that runs
   * goes on, but one that begins at that very moment is stopped.
   */
  withdraw(): Promise<boolean>;
}

/** A turn whose end has not come. */
interface PendingTurn {
  readonly input: Message;
  readonly files: readonly GivenFile[];
  id: string; // of the turn: the relay may choose another one
  isStored: boolean;
  isWithdrawn: boolean;
  text: string;
  message?: string; // the id of the text's last message
  truncated: boolean;
  resolve(done: Done): void;
  reject(error: Error): void;
}

/** An addition to a turn that has no answer. */
interface PendingSteer {
  readonly input: Message;
  isStored: boolean;
  resolve(delivered: boolean): void;
  reject(error: Error): void;
}

/** An answer over the pipe that no entry has confirmed. */
interface PendingAnswer {
  readonly message: Message;
  resolve(decision: Decision): void;
  reject(error: Error): void;
}

const KEPT = 10_000; // entries that wait for their reader
const KEPT_SIZE = 64 * 1024 * 1024; // of all of them; all sizes are in UTF-16 units
const MOST_TEXT = 16 * 1024 * 1024; // of a turn
const MOST_PENDING = 1024; // turns, steers and answers, each
const MOST_INPUT = 64 * 1024 * 1024; // of all inputs that wait, kept to be sent again
const SAME = 4; // refusals in a row after which another address is tried
const FORGOTTEN = 60_000; // milliseconds without a refusal, after which earlier ones do not count
const UPDATES = 60_000; // milliseconds in which the relay answers a change of settings
const STATUSES: { [reason: string]: number } = { unknown: 404, gone: 404, forbidden: 403, ahead: 409, forked: 409, exists: 409, unsupported: 501 };

/** A session. Entries come once each and in order, however often the connection is lost. */
export class Conversation {
  /** Settled when the relay has the session, or has refused it. @internal */
  readonly ready: Promise<void>;
  readonly #client: Client;
  readonly #opening: Message | undefined;
  readonly #turns = new Map<string, PendingTurn>(); // by turn id
  #waiting = 0; // size of their inputs
  #running = new Set<string>(); // turns that have begun, of others too: the first of them runs
  readonly #steers = new Map<string, PendingSteer>(); // by message id
  readonly #requests = new Map<string, AgentRequest>(); // that wait for an answer
  readonly #callbacks = new Map<string, AbortController>(); // that wait for a person, by request
  readonly #answers = new Map<string, PendingAnswer>(); // by request
  readonly #updates: { resolve(): void; reject(error: Error): void }[] = [];
  #isLive = false; // the relay has the session: messages are sent at once
  #isJournaled: boolean | undefined;
  #stops = false; // a stop waits for the relay
  #retry: object | undefined; // the retry that waits
  #refusals = 0; // in a row
  #unserved = { since: 0, last: 0 }; // when
  #attach: { after: number; role: string } | undefined;
  #isReady!: () => void;
  #isRefused!: (error: Error) => void;
  #position: number;
  #epoch: number | undefined;
  #openAtAttach = new Set<string>(); // requests that waited at the attach
  #caughtUp = 0; // the last entry at the attach
  #entries: { entry: Entry; size: number }[] = [];
  #entriesSize = 0;
  #listening = false;
  #behind = false; // its reader is slow: what is new is read again from the journal
  #wake: (() => void) | undefined;
  #over: Error | undefined; // what later turns reject with
  #closed = false; // by one of its sides: events end, and do not reject

  /** @internal */
  constructor(client: Client, readonly id: string, opening: Message | undefined, attach: { after: number; role: string } | undefined, listen = false, epoch?: number) {
    this.#client = client;
    this.#opening = opening;
    this.#attach = attach;
    this.#listening = listen;
    this.#position = attach?.after ?? 0;
    this.#epoch = epoch;
    this.ready = new Promise((resolve, reject) => ([this.#isReady, this.#isRefused] = [resolve, reject]));
    this.ready.catch(() => {}); // the caller of `open` gets it
  }

  /** The last entry that it has, at which another client may continue. 0 without a journal, and before the first entry. */
  get position(): number {
    return this.#position;
  }

  /** The turn that runs. */
  get running(): string | undefined {
    return this.#running.values().next().value;
  }

  /** The turns whose inputs wait, in their order. */
  get queued(): string[] {
    return [...this.#running].slice(1);
  }

  /** The permissions and questions that wait for an answer. */
  get requests(): AgentRequest[] {
    return [...this.#requests.values()];
  }

  /**
   * Sends an input, and resolves at the end of its turn, whatever that is. Rejects if the session is lost; and sends nothing and
   * rejects while 1024 inputs, or 64 Mi UTF-16 units of them, wait for their ends. It stays one input however often the
   * connection is lost; a file of it may come twice.
   */
  turn(content: string, options: TurnOptions = {}): Promise<Done> {
    return this.send(content, options).done;
  }

  /** The same, with the input at hand: to withdraw it, for example. An input waits in the queue while another turn runs. */
  send(content: string, { files = [], limits }: TurnOptions = {}): SentInput {
    const turn_id = crypto.randomUUID();
    // The same `message_id` is the same input, however often it is sent.
    const message_id = crypto.randomUUID();
    const input = { type: "user.input", session_id: this.id, turn_id, message_id, content, ...(limits && { limits }) };
    let turn: PendingTurn | undefined;
    const done = new Promise<Done>((resolve, reject) => {
      if (this.#over) return reject(this.#over);
      const hasRoom = this.#turns.size < MOST_PENDING && (this.#turns.size === 0 || this.#waiting + content.length <= MOST_INPUT);
      if (!hasRoom) return reject(new Error("too many inputs of the session wait for their ends"));
      this.#waiting += content.length;
      turn = { input, files, id: turn_id, isStored: false, isWithdrawn: false, text: "", truncated: false, resolve, reject };
      this.#turns.set(turn_id, turn);
      if (this.#isLive) this.#client.send(input, files);
    });
    const withdraw = async () => {
      done.catch(() => {}); // the caller of `send` gets it
      if (turn) this.#withdraw(turn);
      const { end } = await done;
      return turn!.isWithdrawn && end.status === "stopped";
    };
    return { messageId: message_id, done, withdraw };
  }

  #withdraw(turn: PendingTurn): void {
    if (this.running === turn.id || !this.#turns.has(turn.id)) return;
    turn.isWithdrawn = true;
    // The relay may have another id for the turn, which is known once the input is stored.
    if (this.#isLive && (turn.isStored || this.#isJournaled === false)) this.#sendStop(turn.id);
  }

  #sendStop(turn_id?: string): void {
    this.#client.send({ type: "stop", session_id: this.id, reason: "user", ...(turn_id === undefined ? {} : { turn_id }) });
  }

  /**
   * Adds to the turn that runs. Resolves to whether the agent took it: false if no turn runs. It is added once, however often the
   * connection is lost. Rejects if the session is lost, and while 1024 wait for their answer.
   */
  steer(content: string): Promise<boolean> {
    if (this.#over) return Promise.reject(this.#over);
    const turn_id = this.running;
    if (turn_id === undefined) return Promise.resolve(false);
    if (this.#steers.size >= MOST_PENDING) return Promise.reject(new Error("too many steers of the session wait for their answer"));
    const message_id = crypto.randomUUID();
    const input = { type: "user.input", mode: "steer", session_id: this.id, turn_id, message_id, content };
    return new Promise((resolve, reject) => {
      this.#steers.set(message_id, { input, isStored: false, resolve, reject });
      if (this.#isLive) this.#client.send(input);
    });
  }

  /** The contents of a file that the agent gave. Rejects if they differ from the announcement, cannot be read, or are over 64 MiB. */
  async file(entry: FileOutputMessage): Promise<Uint8Array> {
    const data = await this.#client.file(this.id, entry);
    if (entry.sha256 === undefined || !crypto.subtle) return data; // a page of an origin without TLS cannot check
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data as BufferSource));
    const sha256 = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
    if (sha256 !== entry.sha256) throw new Error("the file is not the one that was announced");
    return data;
  }

  /** Stops the turn that runs; or the turn of this id, also one that waits in the queue. */
  stop(turnId?: string): void {
    if (this.#isLive) this.#sendStop(turnId);
    else this.#stops ||= turnId === undefined;
  }

  /**
   * Answers a permission or a question, and resolves to the decision. Rejects with `Refused`: 403 if this client may not, or a
   * rule denies the edited input, and the request stays open; 409 if another client was first, or it is not open; 422 if an
   * `always` pattern does not fit.
   */
  answer(requestId: string, answer: Answer): Promise<Decision> {
    return this.#client.answer(this.id, requestId, answer);
  }

  /** A page of its entries. */
  history(options: HistoryOptions = {}): Promise<HistoryPage> {
    return this.#client.history(this.id, options);
  }

  /** Changes options such as the model. Rejects with `Refused` if one may not be set. */
  settings(options: { [name: string]: unknown }): Promise<void> {
    return this.#client.settings(this.id, options);
  }

  /** Changes the title, for all clients. The empty text removes it. */
  setTitle(title: string): Promise<void> {
    return this.#client.edit(this.id, { title });
  }

  /** Archives the session, or with `false` undoes that. It closes nothing. */
  archive(archived = true): Promise<void> {
    return this.#client.edit(this.id, { archived });
  }

  /** Opens a copy, up to the entry `seq`. */
  fork(options: { seq?: number; listen?: boolean } = {}): Promise<Conversation> {
    return this.#client.fork(this.id, options);
  }

  /** Ends the session, for all clients. */
  close(): void {
    this.#client.send({ type: "session.close", session_id: this.id });
    this.#ended(undefined);
  }

  /** Leaves the session, which goes on without this client. Its events end, and turns that wait reject. */
  leave(): void {
    if (!this.#over) this.detach();
    this.#closed = true;
    this.#end(new SessionEnded("left", undefined, "this client has left it"));
  }

  /** An error that concerns this client only, as an event. @internal */
  noteError({ category, message }: { category: string; message: string }): void {
    this.#keep({ type: "error", session_id: this.id, category, message, fatal: false } as Entry, message.length);
  }

  /**
   * Events from now on, each entry once; one reader at a time. Ends with the session, and rejects if the session is lost. A slow
   * reader misses nothing if there is a journal; otherwise it is given up beyond 10 000 entries or 64 Mi UTF-16 units.
   */
  async *events(): AsyncGenerator<Entry, void, void> {
    this.#listening = true;
    try {
      for (;;) {
        const kept = this.#entries.shift();
        if (kept) {
          this.#entriesSize -= kept.size;
          yield kept.entry;
        } else if (this.#behind && !this.#over) {
          this.#behind = false;
          this.begin();
        } else if (this.#over) break;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
      if (!this.#closed) throw this.#over;
    } finally {
      this.#listening = false;
      this.#entries = [];
      this.#entriesSize = 0;
    }
  }

  /** Answers over the pipe. @internal */
  answerByPipe(requestId: string, answer: Message): Promise<Decision> {
    const request = this.#requests.get(requestId);
    if (!request) return Promise.reject(new Refused(409, "the request was decided before, or is not open"));
    const type = request.type === "permission.request" ? "permission.response" : "input.response";
    const message = { ...answer, type, session_id: this.id, request_id: requestId };
    if (this.#isJournaled === false) {
      this.#client.send(message); // nothing confirms it
      this.#settle(requestId, undefined, new RequestSettled("answered", answer["approved"]));
      return Promise.resolve({ ...answer, request_id: requestId });
    }
    if (this.#answers.size >= MOST_PENDING) return Promise.reject(new Error("too many answers of the session wait"));
    return new Promise((resolve, reject) => {
      this.#answers.set(requestId, { message, resolve, reject });
      if (this.#isLive) this.#client.send(message);
    });
  }

  /** Changes options over the pipe. @internal */
  settingsByPipe(options: Message): Promise<void> {
    if (this.#over) return Promise.reject(this.#over);
    return new Promise((resolve, reject) => {
      const late = () => {
        this.#updates.splice(this.#updates.indexOf(update), 1);
        reject(new Refused(503, "the change was not answered"));
      };
      const timer = setTimeout(late, UPDATES);
      const update = { resolve: () => (clearTimeout(timer), resolve()), reject: (error: Error) => (clearTimeout(timer), reject(error)) };
      this.#updates.push(update);
      this.#client.send({ ...options, type: "session.update", session_id: this.id });
    });
  }

  /** Whether the relay keeps a journal of it, once that is known. @internal */
  get isJournaled(): boolean | undefined {
    return this.#isJournaled;
  }

  /** The last entry that is known. @internal */
  get lastKnown(): number {
    return Math.max(this.#position, this.#caughtUp);
  }

  /** Receives nothing until it begins again. @internal */
  detach(): void {
    this.#isLive = false;
    this.#client.send({ type: "session.detach", session_id: this.id });
  }

  /** Attaches on a new pipe, or opens the session there. @internal */
  begin(): void {
    [this.#isLive, this.#retry] = [false, undefined];
    const common = { session_id: this.id, protocol: 1, extensions: this.#client.extensions };
    if (this.#position > 0) this.#attach = { after: this.#position, role: this.#attach?.role ?? "control" };
    if (!this.#attach) return this.#client.send({ ...this.#opening, ...common });
    const epoch = this.#epoch === undefined ? {} : { epoch: this.#epoch };
    this.#client.send({ type: "session.attach", ...common, ...this.#attach, ...epoch });
  }

  /** The pipe is lost. Without a journal the session is, too: an input that is sent again might run twice. @internal */
  disconnected(error: Error): void {
    this.#isLive = false;
    if (this.#isJournaled === false) this.lost(error);
  }

  // The relay has the session: what has no answer is sent again.
  #enter(): void {
    this.#isReady();
    if (this.#isLive) return;
    this.#isLive = true;
    for (const { input, files } of this.#turns.values()) this.#client.send(input, files);
    for (const { input, isStored } of this.#steers.values()) if (!isStored) this.#client.send(input);
    for (const { message } of this.#answers.values()) this.#client.send(message);
    for (const turn of this.#turns.values()) if (turn.isWithdrawn && turn.isStored) this.#sendStop(turn.id);
    if (this.#stops) this.stop();
    this.#stops = false;
  }

  // The session is not served for the moment: its host is gone, for example, and another one will have it.
  async #retryLater(error: Refused): Promise<void> {
    if (this.#retry) return;
    const now = Date.now();
    if (this.#refusals === 0 || now - this.#unserved.last > FORGOTTEN) [this.#refusals, this.#unserved.since] = [0, now];
    this.#unserved.last = now;
    if (now - this.#unserved.since > this.#client.retryFor) return this.lost(error);
    const retry = (this.#retry = {});
    this.#isLive = false;
    await sleep(backoff(this.#refusals++, error), this.#client.closing);
    if (this.#over || this.#retry !== retry) return; // it continues on another pipe
    if (this.#refusals % SAME !== 0 || !this.#client.changeAddress(error)) this.begin();
  }

  /** Ends it with an error: turns and events reject. @internal */
  lost(error: Error): void {
    this.#end(error);
  }

  // The relay or this side has closed it. The error's `cause` is the relay's.
  #ended(closed: Message | undefined): void {
    this.#closed ||= !this.#over;
    const { reason, error } = closed ?? {};
    // An opening that the relay refuses has no entry.
    const isRefused = closed && closed["seq"] === undefined && this.#position === 0 && this.#isJournaled === true;
    if (isRefused) this.#isRefused(new Refused(reason === "unknown_agent" ? 422 : 403, error?.message ?? reason, error?.category));
    this.#end(new SessionEnded(reason, error?.category, error?.message, { cause: error }));
  }

  #end(error: Error): void {
    if (this.#over) return;
    this.#over = error;
    this.#isRefused(error);
    for (const turn of this.#turns.values()) turn.reject(error);
    for (const steer of this.#steers.values()) steer.reject(error);
    for (const answer of this.#answers.values()) answer.reject(error);
    for (const update of this.#updates.splice(0)) update.reject(error);
    const how = this.#client.closing.aborted ? "client_ended" : "session_ended";
    for (const callback of this.#callbacks.values()) callback.abort(new RequestSettled(how));
    for (const map of [this.#turns, this.#steers, this.#answers, this.#callbacks, this.#requests]) map.clear();
    this.#waiting = 0;
    this.#client.forget(this);
    this.#wake?.();
  }

  /** Takes a message of the relay; `size` is that of its line. @internal */
  take(message: Message, size: number): void {
    const { type, seq } = message;
    if (type === "session.refused") return this.#refused(message);
    if (type === "session.attached") return this.#attached(message);
    if (type === "input.result") return this.#renamed(message);
    if (type === "request.decided" && seq === undefined) return this.#wasTooLate(message);
    if (message["provisional"] === true) return; // it comes again, once it is stored
    if (seq !== undefined && !this.#counts(message, size)) return;
    if (type === "session.ready") {
      const { protocol, extensions = [] } = message;
      if (protocol !== undefined && protocol !== 1) return this.lost(new ProtocolMismatch(`the other side speaks version ${protocol} of the protocol, and this client 1`));
      this.#isJournaled = extensions.includes("journal");
      // With a journal the first entry follows, or a refusal.
      if (!this.#isJournaled) this.#enter();
    } else if (seq !== undefined) this.#enter();
    if (type === "lag") this.#position = Math.max(this.#position, message["to"]);
    this.#note(message);
    this.#keep(message as Entry, size);
    if (type === "session.closed") this.#ended(message);
  }

  #attached(message: Message): void {
    this.#isJournaled = true;
    [this.#openAtAttach, this.#caughtUp] = [new Set(message["requests"] ?? []), message["last_seq"]];
    this.#running = new Set([message["turn_id"] ?? [], message["queued"] ?? []].flat());
    this.#enter();
    if (message["state"] === "closed" && this.#position >= this.#caughtUp) this.#ended(undefined);
  }

  // Whether an entry is the next one. What comes behind a gap is read again.
  #counts({ seq, epoch }: Message, size: number): boolean {
    if (seq <= this.#position || this.#behind) return false;
    if (this.#listening && this.#isFull(size)) {
      this.#behind = true;
      this.detach();
      return false;
    }
    if (seq !== this.#position + 1) {
      this.begin();
      return false;
    }
    [this.#position, this.#epoch, this.#refusals] = [seq, epoch, 0];
    this.#client.madeProgress();
    return true;
  }

  #isFull(size: number): boolean {
    return this.#entries.length >= KEPT || (this.#entries.length > 0 && this.#entriesSize + size > KEPT_SIZE);
  }

  #keep(entry: Entry, size: number): void {
    if (!this.#listening) return;
    if (this.#isFull(size)) {
      const [bound, unit] = this.#entries.length >= KEPT ? ([KEPT, "entries"] as const) : ([KEPT_SIZE, "UTF-16 units"] as const);
      return this.lost(new AnswerTooLarge("the backlog of a slow reader", bound, unit));
    }
    this.#entries.push({ entry, size });
    this.#entriesSize += size;
    this.#wake?.();
  }

  #note(message: Message): void {
    const { type, turn_id, message_id, seq, request_id } = message;
    if (type === "turn.begin") this.#renamed(message);
    // Without a journal no entry marks the start of a turn: its first message does.
    const hasBegun = type === "turn.begin" || (seq === undefined && this.#turns.has(turn_id));
    if (hasBegun) this.#running.add(turn_id);
    if (type === "input.steered" || type === "steer.result") this.#noteSteer(message);
    const turn = this.#turns.get(turn_id);
    if (type === "output" && turn && (message["channel"] ?? "stdout") === "stdout") {
      const isNext = turn.message !== undefined && message_id !== undefined && message_id !== turn.message;
      if (message_id !== undefined) turn.message = message_id;
      add(turn, (isNext ? "\n\n" : "") + message["content"]);
    }
    if (type === "request.decided") this.#settle(request_id, message as Decision);
    if (type === "permission.cancel") this.#settle(request_id, undefined, new RequestSettled("withdrawn"));
    if (type === "turn.complete") this.#noteEnd(message as TurnCompleteMessage, turn);
    // `error` and `session.info` answer one client only, and have no `seq` there.
    const isRefusal = type === "error" && seq === undefined && (message["category"] === "permission_denied" || message["category"] === "busy");
    if (isRefusal) this.#noteRefusal(message);
    if (type === "session.info") this.#updates.shift()?.resolve();
    if (type === "permission.request" || type === "input.request") this.#noteRequest(message as AgentRequest & { seq?: number });
  }

  #noteSteer({ type, message_id, delivered }: Message): void {
    const steer = this.#steers.get(message_id);
    if (!steer) return;
    if (type === "input.steered") return void (steer.isStored = true);
    this.#steers.delete(message_id);
    steer.resolve(delivered === true);
  }

  #noteEnd(end: TurnCompleteMessage, turn: PendingTurn | undefined): void {
    this.#running.delete(end.turn_id!);
    for (const [id, request] of this.#requests) if (request.turn_id === end.turn_id) this.#settle(id, undefined, new RequestSettled("turn_ended"));
    if (!turn) return;
    this.#turns.delete(turn.id);
    this.#waiting -= turn.input["content"].length;
    turn.resolve({ text: turn.text, truncated: turn.truncated, end });
  }

  #noteRequest(request: AgentRequest & { seq?: number }): void {
    const { request_id, seq } = request;
    if (seq !== undefined && seq <= this.#caughtUp && !this.#openAtAttach.has(request_id)) return;
    this.#requests.set(request_id, request);
    if (this.#attach?.role === "observe" || !this.#client.decides(request)) return;
    const waits = new AbortController();
    this.#callbacks.set(request_id, waits);
    void this.#client.decide(this, request, waits.signal).finally(() => this.#callbacks.get(request_id) === waits && this.#callbacks.delete(request_id));
  }

  // A request has been settled: what waits for its answer ends.
  #settle(id: string, decision?: Decision, settled = settledBy(decision!)): void {
    this.#requests.delete(id);
    this.#callbacks.get(id)?.abort(settled);
    this.#callbacks.delete(id);
    const answer = this.#answers.get(id);
    this.#answers.delete(id);
    if (!answer) return;
    const { approved } = answer.message;
    const isOurs = decision && decision.reason === undefined && (approved === undefined || approved === decision.approved);
    if (isOurs) answer.resolve(decision);
    else answer.reject(new Refused(409, `the request was settled before: ${settled.message}`));
  }

  #wasTooLate(decision: Message): void {
    const { request_id: id } = decision;
    this.#answers.get(id)?.reject(new Refused(409, `the request was decided by ${decision["name"] ?? decision["by"] ?? "another client"} before, or is not open`));
    this.#answers.delete(id);
  }

  // The relay names no request: it refuses the oldest change or answer.
  #noteRefusal({ category, message }: Message): void {
    const refused = new Refused(category === "busy" ? 429 : 403, message, category);
    if (this.#updates.length > 0) return this.#updates.shift()!.reject(refused);
    const [oldest] = this.#answers;
    if (!oldest) return;
    this.#answers.delete(oldest[0]);
    oldest[1].reject(refused);
  }

  // The relay has the input, perhaps under another turn id.
  #renamed({ message_id, turn_id }: Message): void {
    if (turn_id === undefined) return;
    for (const [id, turn] of this.#turns) {
      if (turn.input["message_id"] !== message_id) continue;
      const isNew = !turn.isStored;
      turn.isStored = true;
      if (id !== turn_id) {
        turn.id = turn_id;
        this.#turns.delete(id);
        this.#turns.set(turn_id, turn);
      }
      if (isNew && turn.isWithdrawn && this.#isLive) this.#sendStop(turn_id);
      return;
    }
  }

  #refused({ reason, message, was_served, status, category, retry_after }: Message): void {
    if (was_served) this.#refusals = 0;
    const detail = [reason, message].filter((part) => part).join(": ");
    if (reason === "exists" && !this.#attach) {
      this.#attach = { after: 0, role: "control" }; // the relay has stored the start before the pipe was lost
      this.begin();
    } else if (reason === "read_only" || reason === "unavailable") void this.#retryLater(new Refused(503, detail, category, retry_after));
    else this.lost(new Refused(status ?? STATUSES[reason] ?? 403, detail, category));
  }
}

function settledBy({ approved, by, name, reason }: Decision): RequestSettled {
  return reason === undefined ? new RequestSettled("answered", approved, by, name) : new RequestSettled("withdrawn");
}

function add(turn: PendingTurn, text: string): void {
  const room = MOST_TEXT - turn.text.length;
  turn.truncated ||= text.length > room;
  if (room > 0) turn.text += text.length > room ? wellFormed(text.slice(0, room)) : text;
}
