// The client half: sessions over one pipe to a relay, wherever it runs. Nothing here needs Node.
import { Conversation } from "./conversation.js";
import type { AgentEntry, FileOutputMessage, InputRequestMessage, ListedSession, PermissionRequestMessage } from "./types.js";

type Message = { [name: string]: any };

/** What a pipe hands over. */
export interface PipeEvents {
  /** One line, without its LF. */
  line(text: string): void;
  /** The pipe has ended. Called once. */
  closed(why: string): void;
}

/** A pipe that is open. */
export interface Pipe {
  /** Writes one line, without its LF; of an input with `files` these before it. */
  send(line: string, files?: readonly GivenFile[]): void;
  /** Ends it. What it returns, if anything, resolves when what was started for the pipe has ended. */
  close(): void | Promise<void>;
}

/** Opens a pipe; again where one has ended, unless `once` is set: what was at its other end is gone with it. */
export interface Connect {
  (events: PipeEvents): Promise<Pipe>;
  once?: boolean;
  /** Whether it opens the next pipe at another address. */
  others?: boolean;
  /** Opens a session, where the other side chooses its id. */
  create?: (options: OpenOptions) => Promise<string>;
  /** Reads a file that an agent gave. */
  file?: (session: string, entry: FileOutputMessage) => Promise<Uint8Array>;
}

/** A file for an input: its path, in Node; or, over a network, a `File` that is at hand. */
export type GivenFile = string | File;

/** How a permission is answered: nothing but `true` approves. */
export type PermissionAnswer = boolean | { approved: boolean; option_id?: string; message?: string; end_turn?: boolean };

/** How a question is answered: by the ids of its fields; nothing cancels it. */
export type QuestionAnswer = { [field: string]: unknown } | null | undefined;

export interface ClientOptions {
  /**
   * Answers permissions. Without it each is denied; what it throws denies, too. `leave`: others who are attached to the
   * session answer.
   */
  onPermission?: ((request: PermissionRequestMessage, session: Conversation) => PermissionAnswer | Promise<PermissionAnswer>) | "leave";
  /** Answers questions. Without it each is cancelled; what it throws cancels, too. `leave`: others answer, or `answer` does. */
  onQuestion?: ((request: InputRequestMessage, session: Conversation) => QuestionAnswer | Promise<QuestionAnswer>) | "leave";
  /** How long a lost pipe is tried again, and a session that is not served for the moment, in milliseconds: 60 000. */
  retryFor?: number;
}

/** What `open` may say of a session: `agent_id`, `model`, `cwd` and their kin. */
export type OpenOptions = { [name: string]: unknown };

/** What is kept of a session for `events()`. */
export interface Listening {
  /** True: all from its first message on, or that behind `after`, in wait for the reader. Else what comes while there is one. */
  listen?: boolean;
}

export interface AttachOptions extends Listening {
  /** The last entry that the reader has: 0. */
  after?: number;
  /** `observe`: it hears, and says nothing. */
  role?: "control" | "observe";
}

const EXTENSIONS = ["turns", "events", "usage", "options", "questions", "control", "resume", "journal"];
const FIRST_WAIT = 50;
const LONGEST_WAIT = 2000;
const RETRY_FOR = 60_000;
const STEADY = 10_000; // milliseconds after which a pipe that is lost is not one of those in a row
const PING = 20_000; // milliseconds between two questions whether the other side is there
const UNANSWERED = 3; // of them; then the pipe is lost
const MOST_ASKED = 1024;

/** Sessions over one pipe. A pipe that is lost is opened again, and each session goes on behind the last entry that it has. */
export class Client {
  readonly #connect: Connect;
  readonly #options: ClientOptions;
  readonly #sessions = new Map<string, Conversation>();
  readonly #asked = new Map<string, { question: Message; resolve(answer: Message): void; reject(error: Error): void }>();
  #pipe: Pipe | undefined;
  #ended: void | Promise<void> = undefined; // of a client that is closed
  #generation = 0;
  #over: string | undefined; // why nothing more is sent
  #opened = 0; // when the pipe was
  #troubled: number | undefined; // since when pipes are lost that bring no entry
  #tries = 0;
  #unanswered = 0;
  #pinging: ReturnType<typeof setInterval> | undefined;

  private constructor(connect: Connect, options: ClientOptions) {
    this.#connect = connect;
    this.#options = options;
  }

  /** Opens the pipe. Rejects where that fails. */
  static async connect(connect: Connect, options: ClientOptions = {}): Promise<Client> {
    const client = new Client(connect, options);
    await client.#open();
    return client;
  }

  /**
   * Opens a session. Resolves when the relay has it; rejects where it refuses. One over HTTP that rejects for another reason may
   * have left an empty session.
   */
  async open(options: OpenOptions = {}, { listen = false }: Listening = {}): Promise<Conversation> {
    const { create } = this.#connect;
    if (!create) return this.#add(new Conversation(this, crypto.randomUUID(), options, undefined, listen));
    const id = await this.#again(() => create(options));
    return this.#add(new Conversation(this, id, {}, { after: 0, role: "control" }, listen));
  }

  /** Goes on with a session of the journal, behind the entry `after` (0: from the beginning). Rejects where it is refused. */
  attach(id: string, { after = 0, role = "control", listen = false }: AttachOptions = {}): Promise<Conversation> {
    return this.#add(new Conversation(this, id, {}, { after, role }, listen));
  }

  // Asks until it is answered, as long as a lost pipe is tried again.
  async #again<T>(ask: () => Promise<T>): Promise<T> {
    for (let tries = 0, since = Date.now(); ; ) {
      if (this.#over !== undefined) throw new Error(this.#over);
      try {
        return await ask();
      } catch (error) {
        if (isFinal(error) || Date.now() - since > this.retryFor) throw error;
      }
      await pause(tries++);
    }
  }

  /** @internal */
  async file(session: string, entry: FileOutputMessage): Promise<Uint8Array> {
    if (!this.#connect.file) throw new Error("no files can be read over this pipe");
    return this.#connect.file(session, entry);
  }

  /** The agents of the relay, and what they can. `health`: and how they are. */
  async agents({ health = false }: { health?: boolean } = {}): Promise<AgentEntry[]> {
    return (await this.#ask({ type: "agents.list", health }))["agents"] ?? [];
  }

  /** The sessions of the relay's journal, a page of them. `next` is the `cursor` of the next one. Rejects where there is no journal. */
  async sessions(filter: { [name: string]: unknown } = {}): Promise<{ sessions: ListedSession[]; next?: string }> {
    const { sessions = [], next } = await this.#ask({ ...filter, type: "sessions.list", extensions: EXTENSIONS });
    return next === undefined ? { sessions } : { sessions, next };
  }

  // Asks the relay itself; again where the pipe is lost before the answer.
  #ask(what: Message): Promise<Message> {
    if (this.#over !== undefined) return Promise.reject(new Error(this.#over));
    if (this.#asked.size >= MOST_ASKED) return Promise.reject(new Error("too many questions wait for the relay"));
    const question: Message = { ...what, session_id: "", request_id: crypto.randomUUID() };
    return new Promise((resolve, reject) => {
      this.#asked.set(question["request_id"], { question, resolve, reject });
      this.send(question);
    });
  }

  async #add(session: Conversation): Promise<Conversation> {
    if (this.#over !== undefined) throw new Error(this.#over);
    this.#sessions.set(session.id, session);
    session.begin();
    await session.ready;
    return session;
  }

  /**
   * Ends the pipe. Sessions of a journal go on without this client; what waits for one of their turns rejects. Resolves when a
   * relay that was spawned has ended; no one has to wait for that.
   */
  async close(): Promise<void> {
    this.#over ??= "the client is closed";
    this.#ended ??= this.#pipe?.close();
    this.#allLost(this.#over);
    await this.#ended;
  }

  /** @internal */
  forget(session: Conversation): void {
    if (this.#sessions.get(session.id) === session) this.#sessions.delete(session.id);
  }

  /** @internal Sends a message; a pipe that is lost has it sent again by its session. */
  send(message: Message, files?: readonly GivenFile[]): void {
    const line = JSON.stringify(message, (_, value) => (typeof value === "string" ? wellFormed(value) : value));
    this.#pipe?.send(line.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029"), files);
  }

  /** @internal */
  get extensions(): string[] {
    return EXTENSIONS;
  }

  async #open(): Promise<void> {
    const generation = ++this.#generation;
    let isOpen = false;
    let ended: string | undefined;
    const pipe = await this.#connect({
      line: (text) => generation === this.#generation && this.#line(text),
      closed: (why) => {
        if (!isOpen) ended ??= why; // a pipe that does not open may say so twice: what follows is the opener's to do
        else if (generation === this.#generation) void this.#lost(why);
      },
    });
    if (this.#over !== undefined) this.#ended = pipe.close();
    if (this.#over !== undefined || ended !== undefined) throw new Error(this.#over ?? ended);
    isOpen = true;
    this.#pipe = pipe;
    this.#opened = Date.now();
    this.#unanswered = 0;
    if (this.#connect.once) return;
    clearInterval(this.#pinging);
    this.#pinging = setInterval(() => this.#ping(), PING);
    (this.#pinging as { unref?: () => void }).unref?.();
  }

  // A machine that is gone says nothing, not even that.
  #ping(): void {
    if (this.#unanswered++ < UNANSWERED) return this.send({ type: "ping", session_id: "", nonce: String(this.#generation) });
    this.#leave("the other side says nothing");
  }

  #leave(why: string): void {
    void this.#pipe?.close();
    void this.#lost(why);
  }

  /** Leaves the pipe for one to another address. Whether there is one. @internal */
  elsewhere(): boolean {
    if (!this.#connect.others || !this.#pipe) return false;
    this.#troubled = undefined; // it was not lost
    this.#leave("a session is not served");
    return true;
  }

  /** @internal */
  get retryFor(): number {
    return this.#options.retryFor ?? RETRY_FOR;
  }

  /** Something has happened in a session. @internal */
  news(): void {
    [this.#troubled, this.#tries] = [undefined, 0];
  }

  async #lost(why: string): Promise<void> {
    this.#generation++;
    this.#pipe = undefined;
    clearInterval(this.#pinging);
    if (Date.now() - this.#opened > STEADY) this.news();
    this.#troubled ??= Date.now();
    const until = this.#troubled + this.retryFor;
    while (this.#over === undefined && !this.#connect.once && Date.now() < until) {
      await pause(this.#tries++);
      if (this.#over !== undefined) return;
      try {
        await this.#open();
      } catch (error) {
        why = String(error);
        if (isFinal(error)) break;
        continue;
      }
      for (const session of this.#sessions.values()) session.begin();
      for (const { question } of this.#asked.values()) this.send(question);
      return;
    }
    this.#allLost(why);
  }

  #allLost(why: string): void {
    this.#over ??= why;
    this.#pipe = undefined;
    clearInterval(this.#pinging);
    for (const session of [...this.#sessions.values()]) session.lost(why);
    this.#sessions.clear();
    for (const { reject } of this.#asked.values()) reject(new Error(why));
    this.#asked.clear();
  }

  #line(text: string): void {
    this.#unanswered = 0;
    let message: Message;
    try {
      message = JSON.parse(text);
    } catch {
      return; // noise
    }
    if (typeof message !== "object" || message === null) return;
    if (message["session_id"] !== "") return this.#sessions.get(message["session_id"])?.take(message);
    const { error, request_id } = message;
    if (error === undefined || error === null) this.#asked.get(request_id)?.resolve(message);
    else this.#asked.get(request_id)?.reject(new Error(error));
    this.#asked.delete(request_id);
  }

  /** @internal */
  async answer(session: Conversation, request: Message): Promise<void> {
    const isPermission = request["type"] === "permission.request";
    const decide: any = isPermission ? this.#options.onPermission : this.#options.onQuestion;
    if (decide === "leave") return;
    let said: any;
    try {
      said = await decide?.(request, session);
      JSON.stringify(said);
    } catch {
      said = undefined; // what cannot decide does not approve
    }
    const more = typeof said === "object" && said !== null ? said : undefined;
    const answer = isPermission ? { ...more, approved: (more ? more.approved : said) === true } : more ? { values: more } : { cancelled: true };
    const type = isPermission ? "permission.response" : "input.response";
    session.decide({ ...answer, type, session_id: session.id, request_id: request["request_id"] });
  }
}

// Whether to try again would not mend it.
const isFinal = (error: unknown): boolean => (error as { isFinal?: boolean } | null)?.isFinal === true;

/** Waits before the next of some tries. @internal */
export function pause(tries: number): Promise<void> {
  const wait = Math.min(FIRST_WAIT * 2 ** tries, LONGEST_WAIT);
  return new Promise((resolve) => setTimeout(resolve, wait * (0.5 + Math.random() / 2)));
}

/** Without halves of surrogate pairs: browsers that lack `toWellFormed` get it by the round trip through UTF-8. @internal */
export const wellFormed = (text: string): string => new TextDecoder().decode(new TextEncoder().encode(text));

