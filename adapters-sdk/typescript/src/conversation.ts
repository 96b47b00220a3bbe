// One session of a client: its position in the journal, its turns, its events.
import { pause, wellFormed, type Client, type GivenFile } from "./hub.js";
import type { AdapterMessage, FileOutputMessage, RelayMessage, TurnCompleteMessage } from "./types.js";

type Message = { [name: string]: any };

/** What happens in a session: a message, which has `seq`, `epoch` and `time` where the relay keeps a journal. */
export type Entry = (AdapterMessage | RelayMessage) & { seq?: number; epoch?: number; time?: string; by?: string };

/** A turn that has ended. */
export interface Done {
  /** Its answer: `output` on stdout, joined. */
  text: string;
  /** Whether `text` is cut at 16 Mi UTF-16 units: `events()` has all of it. */
  truncated: boolean;
  end: TurnCompleteMessage;
}

export interface TurnOptions {
  /** Files that go with the input, of up to 64 MiB each over a network. One that cannot be read fails the turn. */
  files?: readonly GivenFile[];
}

/** A turn whose end has not come. */
export interface Pending {
  readonly input: Message;
  readonly files: readonly GivenFile[];
  text: string;
  message?: string; // the id of the text's last message
  truncated: boolean;
  resolve(done: Done): void;
  reject(error: Error): void;
}

/** What was added to a turn, and is not answered. */
interface Steer {
  readonly input: Message;
  isStored: boolean;
  resolve(delivered: boolean): void;
  reject(error: Error): void;
}

const KEPT = 10_000; // entries that wait for their reader
const MOST_TEXT = 16 * 1024 * 1024; // of a turn; all sizes are in UTF-16 units
const MOST_TURNS = 1024; // whose ends have not come: their inputs are kept, to be sent again
const SAME = 4; // refusals in a row after which another address is tried
const FORGOTTEN = 60_000; // milliseconds without a refusal, after which those before do not count
const MOST_INPUT = 64 * 1024 * 1024; // of all of them

/** A session. Entries come once each and in order, however often the pipe is lost. */
export class Conversation {
  /** Settled when the relay has the session, or has refused it. @internal */
  readonly ready: Promise<void>;
  readonly #client: Client;
  readonly #options: Message;
  readonly #turns = new Map<string, Pending>(); // by turn id
  #waiting = 0; // size of their inputs
  #running = new Set<string>(); // turns that have begun, of others too: the first of them runs
  readonly #steers = new Map<string, Steer>(); // by message id
  readonly #answers = new Map<string, Message>(); // of requests that no entry has settled
  #live = false; // the relay hears what is said; else it is said when it does
  #stops = false; // it is to be told to stop
  #later: object | undefined; // what has it come again
  #refusals = 0; // how often in a row it was not served
  #unserved = { since: 0, last: 0 }; // when
  #attach: { after: number; role: string } | undefined;
  #isReady!: () => void;
  #isRefused!: (error: Error) => void;
  #position: number;
  #epoch: number | undefined;
  #open = new Set<string>(); // requests that wait, as an attach has told
  #caughtUp = 0; // the last entry that was there at the attach
  #entries: Entry[] = [];
  #listening = false;
  #behind = false; // its reader is slow: what is new is read again from the journal
  #wake: (() => void) | undefined;
  #over: Error | undefined; // what later turns reject with
  #closed = false; // by one of its sides: events end, and do not reject

  /** @internal */
  constructor(client: Client, readonly id: string, options: Message, attach: { after: number; role: string } | undefined, listen = false) {
    this.#client = client;
    this.#options = options;
    this.#attach = attach;
    this.#listening = listen;
    this.#position = attach?.after ?? 0;
    this.ready = new Promise((resolve, reject) => ([this.#isReady, this.#isRefused] = [resolve, reject]));
    this.ready.catch(() => {}); // who opened it hears of it
  }

  /** The last entry that it has: where another client may go on. 0 where there is no journal, or no entry yet. */
  get position(): number {
    return this.#position;
  }

  /**
   * Sends an input, and resolves at the end of its turn, whatever that is. Rejects where the session is lost; and sends nothing
   * and rejects where 1024 inputs, or 64 Mi UTF-16 units of them, wait for their ends. However often the pipe is lost, it is one
   * input; a file of it may come twice.
   */
  turn(content: string, { files = [] }: TurnOptions = {}): Promise<Done> {
    if (this.#over) return Promise.reject(this.#over);
    const hasRoom = this.#turns.size < MOST_TURNS && (this.#turns.size === 0 || this.#waiting + content.length <= MOST_INPUT);
    if (!hasRoom) return Promise.reject(new Error("too many inputs of the session wait for their ends"));
    this.#waiting += content.length;
    const turn_id = crypto.randomUUID();
    // The same `message_id` is the same input, however often it is sent.
    const input = { type: "user.input", session_id: this.id, turn_id, message_id: crypto.randomUUID(), content };
    return new Promise((resolve, reject) => {
      this.#turns.set(turn_id, { input, files, text: "", truncated: false, resolve, reject });
      if (this.#live) this.#client.send(input, files);
    });
  }

  /**
   * Adds to the turn that runs. Resolves to whether the agent took it: false where no turn runs. However often the pipe is lost,
   * it is added once. Rejects where the session is lost, and where 1024 wait for their answer.
   */
  steer(content: string): Promise<boolean> {
    if (this.#over) return Promise.reject(this.#over);
    const [turn_id] = this.#running;
    if (turn_id === undefined) return Promise.resolve(false);
    if (this.#steers.size >= MOST_TURNS) return Promise.reject(new Error("too many steers of the session wait for their answer"));
    const message_id = crypto.randomUUID();
    const input = { type: "user.input", mode: "steer", session_id: this.id, turn_id, message_id, content };
    return new Promise((resolve, reject) => {
      this.#steers.set(message_id, { input, isStored: false, resolve, reject });
      if (this.#live) this.#client.send(input);
    });
  }

  /**
   * The contents of a file that the agent gave, wherever the daemon is. Rejects where they are not what was announced, cannot be
   * read, or are over 64 MiB.
   */
  async file(entry: FileOutputMessage): Promise<Uint8Array> {
    const data = await this.#client.file(this.id, entry);
    if (entry.sha256 === undefined || !crypto.subtle) return data; // a page of an origin without TLS cannot look
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data as BufferSource));
    const sha256 = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
    if (sha256 !== entry.sha256) throw new Error("the file is not the one that was announced");
    return data;
  }

  /** Stops the turn that runs. */
  stop(): void {
    if (this.#live) this.#client.send({ type: "stop", session_id: this.id, reason: "user" });
    this.#stops = !this.#live;
  }

  /** Answers a question that `onQuestion` leaves, by the ids of its fields; nothing cancels it. */
  answer(requestId: string, values?: { [field: string]: unknown }): void {
    const answer = values ? { values } : { cancelled: true };
    this.decide({ type: "input.response", session_id: this.id, request_id: requestId, ...answer });
  }

  /** Ends the session, for all who are attached. */
  close(): void {
    this.#client.send({ type: "session.close", session_id: this.id });
    this.#ended(undefined);
  }

  /**
   * What happens from now on, each entry once; one reader at a time. It ends with the session, and rejects where the session is
   * lost. A slow reader misses nothing where there is a journal, else it is given up beyond 10 000 entries.
   */
  async *events(): AsyncGenerator<Entry, void, void> {
    this.#listening = true;
    try {
      for (;;) {
        const entry = this.#entries.shift();
        if (entry) yield entry;
        else if (this.#behind && !this.#over) {
          this.#behind = false;
          this.begin();
        } else if (this.#over) break;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
      if (!this.#closed) throw this.#over;
    } finally {
      this.#listening = false;
      this.#entries = [];
    }
  }

  /** Answers a request; again where the pipe is lost before that is stored. @internal */
  decide(answer: Message): void {
    this.#answers.set(answer["request_id"], answer);
    if (this.#answers.size > MOST_TURNS) this.#answers.delete(this.#answers.keys().next().value!);
    if (this.#live) this.#client.send(answer);
  }

  /** Says on a new pipe what the session is. @internal */
  begin(): void {
    [this.#live, this.#later] = [false, undefined];
    const said = { session_id: this.id, protocol: 1, extensions: this.#client.extensions };
    if (this.#position > 0) this.#attach = { after: this.#position, role: this.#attach?.role ?? "control" };
    if (!this.#attach) this.#client.send({ ...this.#options, type: "session.start", ...said });
    else {
      const epoch = this.#epoch === undefined ? {} : { epoch: this.#epoch };
      this.#client.send({ type: "session.attach", ...said, ...this.#attach, ...epoch });
    }
  }

  // The relay has the session: what was not answered is said again.
  #enter(): void {
    this.#isReady();
    if (this.#live) return;
    this.#live = true;
    for (const { input, files } of this.#turns.values()) this.#client.send(input, files);
    for (const { input, isStored } of this.#steers.values()) if (!isStored) this.#client.send(input);
    for (const answer of this.#answers.values()) this.#client.send(answer);
    if (this.#stops) this.stop();
  }

  // Its host is gone, say, and another will have it: it comes again in a while.
  async #comeAgain(why: string): Promise<void> {
    if (this.#later) return;
    const now = Date.now();
    if (this.#refusals === 0 || now - this.#unserved.last > FORGOTTEN) [this.#refusals, this.#unserved.since] = [0, now];
    this.#unserved.last = now;
    if (now - this.#unserved.since > this.#client.retryFor) return this.lost(why);
    const later = (this.#later = {});
    this.#live = false;
    await pause(this.#refusals++);
    if (this.#over || this.#later !== later) return; // it has come on another pipe
    if (this.#refusals % SAME !== 0 || !this.#client.elsewhere()) this.begin();
  }

  /** @internal */
  lost(why: string): void {
    this.#end(new Error(`the session is lost: ${why}`));
  }

  // The relay or this side has closed it. The error's `cause` is the relay's.
  #ended(closed: Message | undefined): void {
    this.#closed ||= !this.#over;
    const { reason, error } = closed ?? {};
    const why = [reason, error?.message].filter((word) => word !== undefined);
    this.#end(new Error(["the session has ended", ...why].join(": "), { cause: error }));
  }

  #end(error: Error): void {
    if (this.#over) return;
    this.#over = error;
    this.#isRefused(error);
    for (const turn of this.#turns.values()) turn.reject(error);
    for (const steer of this.#steers.values()) steer.reject(error);
    this.#turns.clear();
    this.#steers.clear();
    this.#waiting = 0;
    this.#client.forget(this);
    this.#wake?.();
  }

  /** @internal */
  take(message: Message): void {
    const { type, seq } = message;
    if (type === "session.refused") return this.#refused(message);
    if (type === "session.attached") {
      [this.#open, this.#caughtUp] = [new Set(message["requests"] ?? []), message["last_seq"]];
      this.#running = new Set([message["turn_id"] ?? [], message["queued"] ?? []].flat());
      this.#enter();
      if (message["state"] === "closed" && this.#position >= this.#caughtUp) this.#ended(undefined);
      return;
    }
    if (type === "input.result") return this.#renamed(message);
    if (type === "request.decided" && seq === undefined) return void this.#answers.delete(message["request_id"]); // its entry says so, too
    if (message["provisional"] === true) return; // it comes again, once it is stored
    if (seq !== undefined && !this.#counts(message)) return;
    if (type === "session.ready" || seq !== undefined) this.#enter();
    if (type === "lag") this.#position = Math.max(this.#position, message["to"]);
    this.#note(message);
    this.#tell(message as Entry);
    if (type === "session.closed") this.#ended(message);
  }

  // Whether an entry is the next one. What comes behind a gap is read again.
  #counts({ seq, epoch }: Message): boolean {
    if (seq <= this.#position || this.#behind) return false;
    if (this.#listening && this.#entries.length >= KEPT) {
      [this.#behind, this.#live] = [true, false];
      this.#client.send({ type: "session.detach", session_id: this.id });
      return false;
    }
    if (seq !== this.#position + 1) {
      this.begin();
      return false;
    }
    [this.#position, this.#epoch, this.#refusals] = [seq, epoch, 0];
    this.#client.news();
    return true;
  }

  #tell(entry: Entry): void {
    if (!this.#listening) return;
    if (this.#entries.length >= KEPT) return this.lost(`more than ${KEPT} events wait for their reader`);
    this.#entries.push(entry);
    this.#wake?.();
  }

  #note(message: Message): void {
    const { type, turn_id, message_id } = message;
    if (type === "turn.begin") this.#renamed(message);
    // Without a journal no entry marks the start of a turn: its first message does.
    const hasBegun = type === "turn.begin" || (message["seq"] === undefined && this.#turns.has(turn_id));
    if (hasBegun) this.#running.add(turn_id);
    if (type === "turn.complete") this.#running.delete(turn_id);
    const steer = this.#steers.get(message_id);
    if (type === "input.steered" && steer) steer.isStored = true;
    if (type === "steer.result" && steer) {
      this.#steers.delete(message_id);
      steer.resolve(message["delivered"] === true);
    }
    const turn = this.#turns.get(turn_id);
    if (type === "output" && turn && (message["channel"] ?? "stdout") === "stdout") {
      const isNext = turn.message !== undefined && message_id !== undefined && message_id !== turn.message;
      if (message_id !== undefined) turn.message = message_id;
      add(turn, (isNext ? "\n\n" : "") + message["content"]);
    }
    if (type === "request.decided") this.#answers.delete(message["request_id"]);
    if (type === "turn.complete" && turn) {
      this.#turns.delete(turn_id);
      this.#waiting -= turn.input["content"].length;
      turn.resolve({ text: turn.text, truncated: turn.truncated, end: message as TurnCompleteMessage });
    }
    const isObserver = this.#attach?.role === "observe";
    const isOpen = message["seq"] === undefined || message["seq"] > this.#caughtUp || this.#open.has(message["request_id"]);
    const isAsked = type === "permission.request" || type === "input.request";
    if (isAsked && isOpen && !isObserver) void this.#client.answer(this, message);
  }

  // The relay has the input under another turn id.
  #renamed({ message_id, turn_id }: Message): void {
    for (const [id, turn] of this.#turns) {
      if (turn.input["message_id"] !== message_id || id === turn_id || turn_id === undefined) continue;
      this.#turns.delete(id);
      this.#turns.set(turn_id, turn);
    }
  }

  #refused({ reason, message, was_served }: Message): void {
    if (was_served) this.#refusals = 0;
    if (reason === "exists" && !this.#attach) {
      this.#attach = { after: 0, role: "control" }; // the relay has stored the start before the pipe was lost
      this.begin();
    } else if (reason === "read_only" || reason === "unavailable") void this.#comeAgain(`${reason}: ${message ?? ""}`);
    else this.lost(`${reason}: ${message ?? ""}`);
  }
}

function add(turn: Pending, text: string): void {
  const room = MOST_TEXT - turn.text.length;
  turn.truncated ||= text.length > room;
  if (room > 0) turn.text += text.length > room ? wellFormed(text.slice(0, room)) : text;
}
