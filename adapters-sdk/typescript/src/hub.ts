// A client: sessions over one connection to a relay, wherever it runs. Nothing here needs Node.
import { Conversation, type AgentRequest, type Decision, type Entry } from "./conversation.js";
import { pathOf, type AskOptions, type Daemon } from "./daemon.js";
import { AnswerTooLarge, backoff, ClientClosed, clientError, isPermanent, ProtocolMismatch, Refused, sleep, Unreachable, UnsupportedAbility } from "./errors.js";
import type { ClientError } from "./errors.js";
import type { OverviewEvent } from "./overview.js";
import type { AgentEntry, FileOutputMessage, InputRequestMessage, Json, ListedSession, LostEntries, PermissionRequestMessage } from "./types.js";

type Message = { [name: string]: any };

/** Receives what a pipe reads. */
export interface PipeEvents {
  /** One line, without its LF. */
  line(text: string): void;
  /** The pipe has ended. Called once. */
  closed(why: string | Error): void;
  /** One session has ended with an error, and the pipe has not. */
  lost?(session: string, error: ClientError): void;
}

/** A pipe that is open. */
export interface Pipe {
  /** Writes one line, without its LF; the `files` of an input before it. */
  send(line: string, files?: readonly GivenFile[]): void;
  /** Ends it. The promise resolves when what was started for the pipe has ended. */
  close(): void | Promise<void>;
}

/** Opens a pipe, and another one when that has ended. */
export interface Connect {
  (events: PipeEvents): Promise<Pipe>;
  /** Set if the other side is a child, whose end is noticed without a ping. */
  isChild?: boolean;
  /** Set if the next pipe may be opened at another address. */
  others?: boolean;
  /** The daemon of the current address, for requests; nothing if it takes none. */
  daemon?: () => Daemon | Promise<Daemon | undefined>;
  /** Set if requests open sessions, too. */
  creates?: boolean;
  /** How long the other side may be silent, in milliseconds. */
  silentFor?: number;
  /** Uploads a file for inputs of a session. */
  upload?: (session: string, file: GivenFile) => Promise<UploadedFile>;
  /** Reads a file that an agent gave. */
  file?: (session: string, entry: FileOutputMessage) => Promise<Uint8Array>;
}

/** A file for an input: its path, in Node; or, over a network, a `File`, or one that was uploaded. */
export type GivenFile = string | File | UploadedFile;

/** A file that the daemon has. */
export interface UploadedFile {
  sha256: string;
  name: string;
  mime_type: string;
}

/** An answer to a permission. Only `true` approves. */
export interface PermissionDecision {
  approved: boolean;
  option_id?: string;
  /** A message for the agent. */
  message?: string;
  /** Ends the turn with the denial. */
  end_turn?: boolean;
  /** The tool's input as the person changed it. */
  updated_input?: Json;
  /** A pattern that approves such requests from now on. Needs a daemon. */
  always?: string;
  /** The name of the person who answers. It gives no rights. Needs a daemon. */
  name?: string;
}

/** An answer to a question, by the ids of its fields; or that there is none. */
export type QuestionDecision = ({ values: { [field: string]: unknown } } | { cancelled: true }) & { name?: string };

/** An answer to a permission or a question. */
export type Answer = PermissionDecision | QuestionDecision;

/** What `onPermission` returns; `leave`: other clients answer. */
export type PermissionAnswer = boolean | PermissionDecision | "leave";

/** What `onQuestion` returns: values by the ids of the fields; nothing cancels it; `leave`: other clients answer. */
export type QuestionAnswer = { [field: string]: unknown } | "leave" | null | undefined;

/** What a callback gets beside its request. */
export interface CallbackContext {
  /** Fires when nobody waits for the answer any longer; its `reason` is a `RequestSettled`. */
  readonly signal: AbortSignal;
}

/** The connection of a client. */
export type ConnectionState =
  | { readonly state: "open" }
  | { readonly state: "reconnecting"; readonly error: ClientError; readonly tries: number; readonly since: Date; readonly retryIn: number }
  | { readonly state: "closed"; readonly error: ClientError };

type Callback<Request, Value> = (request: Request, session: Conversation, context: CallbackContext) => Value | Promise<Value>;

export interface ClientOptions {
  /** Answers permissions. Without it, and if it throws, each is denied. `leave`: other clients answer, or `answer` does. */
  onPermission?: Callback<PermissionRequestMessage, PermissionAnswer> | "leave";
  /** Answers questions. Without it, and if it throws, each is cancelled. `leave`: other clients answer, or `answer` does. */
  onQuestion?: Callback<InputRequestMessage, QuestionAnswer> | "leave";
  /** Gets the error of an answer of a callback: 403 if this client may not answer, 409 if another one was first. */
  onAnswerRefused?: (error: ClientError, request: AgentRequest, session: Conversation) => void;
  /** Gets each change of the connection. */
  onState?: (state: ConnectionState) => void;
  /** How long a lost connection, and a session that is not served for the moment, is retried, in milliseconds: 60 000. */
  retryFor?: number;
}

/** Options of a session: `agent`, and members of `session.start` such as `model` and `cwd`. */
export type OpenOptions = { agent?: string; [name: string]: unknown };

/** What is kept of a session for `events()`. */
export interface Listening {
  /** True: all from its first message on, or that behind `after`, waits for the reader. Otherwise what comes while there is one. */
  listen?: boolean;
}

export interface AttachOptions extends Listening {
  /** The last entry that the reader has: 0. */
  after?: number;
  /** The `epoch` of that entry: a journal that has another entry there refuses (409). */
  epoch?: number;
  /** `observe`: it receives, and sends nothing. */
  role?: "control" | "observe";
}

/** Filters of a session list. */
export interface SessionFilter {
  agent?: string;
  cwd?: string;
  state?: "idle" | "running" | "detached" | "closed";
  /** Text in the title or the id. */
  text?: string;
  /** True: only archived ones. */
  archived?: boolean;
  limit?: number;
  /** The `next` of the page before. */
  cursor?: string;
}

/** A session in a list. */
export type SessionListing = ListedSession & { id: string; agent: string };

/** The page of a history: forward from an entry, or the last ones before an entry. */
export interface HistoryOptions {
  /** The first entry: 1. */
  from?: number;
  /** The entry behind the last one; `end` for the end of the session. */
  before?: number | "end";
  limit?: number;
}

/** A page of entries, in their order. */
export interface HistoryPage {
  entries: Entry[];
  /** Entries of the page that the journal has lost, if there are any: the first and the last of consecutive ones. */
  lost?: LostEntries[];
  /** The `from` of the following page, if there is one. */
  next?: number;
  /** The `before` of the preceding page, if there is one. */
  previous?: number;
}

/** A hit of a search. */
export interface SearchHit {
  id: string;
  agent: string;
  title: string | null;
  archived: boolean;
  seq: number | null;
  turn: string | null;
  time: string;
  kind: "title" | "input" | "output";
  snippet: string;
}

/** What a search has found so far. If `complete` is false, search again `after` its `next`. */
export interface SearchPage {
  hits: SearchHit[];
  complete: boolean;
  next: string | null;
}

/** Rights of a client, as the daemon has them. */
export interface Identity {
  name: string;
  scope: "observe" | "control" | "admin";
  may_approve: boolean;
  sees_all: boolean;
  agents: string[] | null;
  version: string;
}

export interface WatchOptions {
  /** The `position` of the last event that the reader has. */
  after?: string;
  signal?: AbortSignal;
}

const EXTENSIONS = ["turns", "events", "usage", "options", "questions", "control", "resume", "journal"];
const RETRY_FOR = 60_000;
const STEADY = 10_000; // milliseconds after which a lost pipe begins a new row of losses
const SILENT = 60_000; // milliseconds without a line; then the pipe is lost
const PINGS = 3; // within that time
const MOST_ASKED = 1024;
const MOST_NOISE = 1000; // lines that are no messages, before the first one that is
const MOST_OVERSIZE = 2; // lines over the bound after which the pipe is opened again
const PAGE = 100; // entries of a page of history over a pipe

/** Sessions over one connection. A lost one is opened again, and each session continues behind the last entry that it has. */
export class Client {
  readonly #connect: Connect;
  readonly #options: ClientOptions;
  readonly #sessions = new Map<string, Conversation>();
  readonly #asked = new Map<string, { question: Message; resolve(answer: Message): void; reject(error: Error): void }>();
  readonly #closing = new AbortController();
  #state: ConnectionState = { state: "open" };
  #pipe: Pipe | undefined;
  #ended: void | Promise<void> = undefined; // of a client that is closed
  #generation = 0;
  #over: ClientError | undefined; // why nothing more is sent
  #opened = 0; // when the pipe was
  #troubled: number | undefined; // since when pipes are lost that bring no entry
  #tries = 0;
  #unanswered = 0;
  #noise = 0; // lines before the first message
  #oversize = 0; // lines over the bound
  #pinging: ReturnType<typeof setInterval> | undefined;

  private constructor(connect: Connect, options: ClientOptions) {
    this.#connect = connect;
    this.#options = options;
  }

  /** Opens the connection. Rejects at once if that fails. */
  static async connect(connect: Connect, options: ClientOptions = {}): Promise<Client> {
    const client = new Client(connect, options);
    await client.#open();
    return client;
  }

  /** The connection as it is now; `onState` gets the changes. */
  get state(): ConnectionState {
    return this.#state;
  }

  /** Opens a session. Resolves when the relay has it; rejects with `Refused` if it does not take the options. */
  async open({ agent, ...options }: OpenOptions = {}, { listen = false }: Listening = {}): Promise<Conversation> {
    const { agent_id = agent, native_session_id, ...rest } = options;
    const daemon = this.#connect.creates ? await this.#daemon() : undefined;
    if (!daemon) return this.#add(new Conversation(this, crypto.randomUUID(), { ...options, agent_id, type: "session.start" }, undefined, listen));
    const { id } = await this.#request("POST", "/v1/sessions", { body: { agent: agent_id, native_session_id, options: rest }, key: crypto.randomUUID() });
    return this.attach(id, { listen });
  }

  /** Continues a session of the journal, behind the entry `after` (0: from the beginning). */
  attach(id: string, { after = 0, epoch, role = "control", listen = false }: AttachOptions = {}): Promise<Conversation> {
    return this.#add(new Conversation(this, id, undefined, { after, role }, listen, epoch));
  }

  /** Opens a copy of a session, up to the entry `seq`. */
  async fork(id: string, { seq, listen = false }: { seq?: number; listen?: boolean } = {}): Promise<Conversation> {
    if (await this.#daemon()) {
      const copy = await this.#request("POST", `${pathOf(id)}/fork`, { body: { seq }, key: crypto.randomUUID() });
      return this.attach(copy.id, { listen });
    }
    const opening = { type: "session.fork", source: id, ...(seq === undefined ? {} : { seq }) };
    return this.#add(new Conversation(this, crypto.randomUUID(), opening, undefined, listen));
  }

  /** The agents of the relay, and what they can do. `health`: and how they are. */
  async agents({ health = false }: { health?: boolean } = {}): Promise<AgentEntry[]> {
    if (await this.#daemon()) return (await this.#request("GET", "/v1/agents"))?.agents ?? [];
    return (await this.#ask({ type: "agents.list", session_id: "", health }))["agents"] ?? [];
  }

  /** A page of the sessions of the journal, the last active first. `next` is the `cursor` of the following page. */
  async sessions(filter: SessionFilter = {}): Promise<{ sessions: SessionListing[]; next?: string }> {
    const { agent, ...rest } = filter;
    const answer = (await this.#daemon())
      ? await this.#request("GET", `/v1/sessions${query({ ...rest, agent })}`)
      : await this.#ask({ ...rest, ...(agent !== undefined && { agent_id: agent }), type: "sessions.list", session_id: "", extensions: EXTENSIONS });
    const sessions = ((answer?.sessions ?? []) as ListedSession[]).map((listed) => {
      const { id = listed.session_id, agent = listed.agent_id } = listed as SessionListing;
      return { ...listed, id, agent, session_id: id, agent_id: agent };
    });
    return answer?.next ? { sessions, next: answer.next } : { sessions };
  }

  /** A page of the entries of a session, which need not be attached. */
  async history(id: string, options: HistoryOptions = {}): Promise<HistoryPage> {
    const { from, before, limit } = options;
    if (from !== undefined && before !== undefined) throw new TypeError("a page has either `from` or `before`");
    if (!(await this.#daemon())) return this.#historyByPipe(id, options);
    const { entries = [], lost, next, previous } = (await this.#request("GET", `${pathOf(id)}/history${query({ from, before, limit })}`)) ?? {};
    return { entries, ...(lost?.length ? { lost } : {}), ...(next ? { next } : {}), ...(previous ? { previous } : {}) };
  }

  /**
   * Answers a permission or a question of a session. With a daemon the session need not be attached. Resolves to the decision, and
   * rejects as `Conversation.answer`.
   */
  async answer(id: string, requestId: string, answer: Answer): Promise<Decision> {
    if (await this.#daemon()) {
      const body = await this.#request("POST", `${pathOf(id)}/requests/${encodeURIComponent(requestId)}`, { body: answer, key: crypto.randomUUID() });
      return { ...body, request_id: requestId };
    }
    for (const member of ["name", "always"]) if (member in answer) throw new UnsupportedAbility(`\`${member}\` of an answer`);
    const session = this.#sessions.get(id);
    if (!session) throw new UnsupportedAbility("an answer in a session that is not attached");
    return session.answerByPipe(requestId, answer);
  }

  /** Changes options of a session, such as the model. */
  async settings(id: string, options: { [name: string]: unknown }): Promise<void> {
    if (await this.#daemon()) return this.#request("POST", `${pathOf(id)}/settings`, { body: { options }, key: crypto.randomUUID() });
    const session = this.#sessions.get(id);
    if (!session) throw new UnsupportedAbility("a change of a session that is not attached");
    return session.settingsByPipe(options);
  }

  /** Changes the title of a session, or archives it. The session need not be attached. */
  async edit(id: string, changes: { title?: string; archived?: boolean }): Promise<void> {
    if (await this.#daemon()) return this.#request("PATCH", pathOf(id), { body: changes });
    await this.#ask({ ...changes, type: "session.edit", session_id: id });
  }

  /** Removes a session and all that is kept of it. */
  async remove(id: string): Promise<void> {
    await this.#needsDaemon("the removal of a session");
    const session = this.#sessions.get(id);
    // The daemon removes no session that is in use, as one is that this client has closed.
    if (session) session.detach();
    else this.send({ type: "session.detach", session_id: id });
    let tries = 0;
    await this.#retried(async () => {
      const daemon = (await this.#connect.daemon!())!;
      try {
        await daemon.ask("DELETE", `${pathOf(id)}?remove=true`, { signal: this.closing });
      } catch (error) {
        // The answer of an earlier try was lost.
        if (!(tries++ > 0 && error instanceof Refused && error.status === 404)) throw error;
      }
    }).catch((error: unknown) => {
      session?.begin();
      throw error;
    });
    session?.lost(new Refused(404, "the session was removed"));
  }

  /** Searches titles, inputs and outputs of all sessions. */
  async search(text: string, options: { agent?: string; limit?: number; after?: string } = {}): Promise<SearchPage> {
    await this.#needsDaemon("a search");
    return this.#request("GET", `/v1/search${query({ ...options, q: text })}`);
  }

  /** The rights of this client. */
  async identity(): Promise<Identity> {
    await this.#needsDaemon("the identity of a client");
    return this.#request("GET", "/v1/me");
  }

  /**
   * Changes of all sessions: a snapshot, then each change once. After a `reset` the reader drops what it has; a new snapshot
   * follows. A `SessionTable` does that. It rejects if the daemon refuses, or stays away for `retryFor`.
   */
  async *watch({ after, signal }: WatchOptions = {}): AsyncGenerator<OverviewEvent, void, void> {
    await this.#needsDaemon("the stream of all sessions");
    const stop = anySignal(this.closing, signal);
    let position = after;
    let since: number | undefined;
    for (let tries = 0; ; ) {
      try {
        const daemon = (await this.#connect.daemon!())!;
        for await (const { id, data } of daemon.events(`/v1/events${query({ after: position })}`, () => {}, stop)) {
          [tries, since] = [0, undefined];
          const event = parsedEvent(data);
          if (id !== undefined) position = id;
          yield position === undefined ? event : { ...event, position };
        }
        throw new Unreachable("the events have ended");
      } catch (error) {
        if (this.#over) throw this.#over;
        if (signal?.aborted) throw signal.reason;
        since ??= Date.now();
        if (isPermanent(error) || Date.now() - since > this.retryFor) throw error;
        this.#suspect(error);
        await sleep(backoff(tries++, clientError(error)), stop);
      }
    }
  }

  /** Any other request to the daemon, by its path: `client.request("GET", "/v1/usage?days=7")`. A POST is sent with a key, so that it counts once. */
  async request(method: "GET" | "POST" | "PATCH" | "DELETE", path: string, body?: unknown): Promise<any> {
    await this.#needsDaemon(`${method} ${path}`);
    return this.#request(method, path, { body, ...(method === "POST" && { key: crypto.randomUUID() }) });
  }

  /**
   * Ends the connection. Sessions of a journal go on without this client; what waits for one of their turns rejects. Resolves
   * when a relay that was started has ended; nobody has to wait for that.
   */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#over ??= new ClientClosed();
    this.#ended ??= this.#pipe?.close();
    this.#allLost(this.#over);
    await this.#ended;
  }

  #daemon(): Promise<Daemon | undefined> {
    return this.#retried(async () => this.#connect.daemon?.());
  }

  async #needsDaemon(ability: string): Promise<Daemon> {
    const daemon = await this.#daemon();
    if (!daemon) throw new UnsupportedAbility(ability);
    return daemon;
  }

  #request(method: string, path: string, options: AskOptions = {}): Promise<any> {
    return this.#retried(async () => (await this.#connect.daemon!())!.ask(method, path, { ...options, signal: this.closing }));
  }

  // Tries until it is answered, within the time for retries.
  async #retried<T>(ask: () => Promise<T>): Promise<T> {
    for (let tries = 0, since = Date.now(); ; ) {
      if (this.#over) throw this.#over;
      try {
        return await ask();
      } catch (error) {
        if (this.#over) throw this.#over;
        const failure = clientError(error);
        const wait = backoff(tries++, failure);
        if (failure.isPermanent || Date.now() + wait - since > this.retryFor) throw failure;
        this.#suspect(failure);
        await sleep(wait, this.closing);
      }
    }
  }

  async #historyByPipe(id: string, { from = 1, before, limit = PAGE }: HistoryOptions): Promise<HistoryPage> {
    const session = this.#sessions.get(id);
    if (session?.isJournaled === false) throw new Refused(404, "this relay keeps no journal");
    const end = await this.#lastEntry(id, session);
    let [first, last] = [from, Math.min(from + limit - 1, end)];
    if (before !== undefined) {
      last = before === "end" ? end : Math.min(before - 1, end);
      first = Math.max(1, last - limit + 1);
    }
    const entries: Entry[] = [];
    const lost: LostEntries[] = [];
    // One answer has 1 MiB at most.
    let next = first;
    while (next <= last) {
      const answer: Message = await this.#ask({ type: "session.history", session_id: id, from: next, to: last });
      entries.push(...(answer["entries"] ?? []));
      lost.push(...(answer["lost"] ?? []));
      next = answer["next"] > next ? answer["next"] : last + 1;
      if (before === undefined) break;
    }
    return { entries, ...(lost.length > 0 ? { lost } : {}), ...(next <= end ? { next } : {}), ...(first > 1 && first <= end ? { previous: first } : {}) };
  }

  async #lastEntry(id: string, session: Conversation | undefined): Promise<number> {
    const { sessions = [] } = await this.#ask({ type: "sessions.list", session_id: "", extensions: EXTENSIONS, id });
    if (sessions.length === 0) throw new Refused(404, "the journal has no session with this id");
    return Math.max(sessions[0].entries ?? 0, session?.lastKnown ?? 0);
  }

  /** Uploads a file for inputs of a session, which name it in `files` within an hour. */
  async upload(id: string, file: GivenFile): Promise<UploadedFile> {
    const { upload } = this.#connect;
    if (!upload) throw new UnsupportedAbility("an upload", "overHttp or webSocket; here give the path of a file with its input");
    return this.#retried(() => upload(id, file));
  }

  /** @internal */
  async file(session: string, entry: FileOutputMessage): Promise<Uint8Array> {
    if (!this.#connect.file) throw new UnsupportedAbility("a file of the agent");
    return this.#connect.file(session, entry);
  }

  // Asks the relay itself; again if the pipe is lost before the answer.
  #ask(what: Message): Promise<Message> {
    if (this.#over) return Promise.reject(this.#over);
    if (this.#asked.size >= MOST_ASKED) return Promise.reject(new Error("too many questions wait for the relay"));
    const question: Message = { ...what, request_id: crypto.randomUUID() };
    return new Promise((resolve, reject) => {
      this.#asked.set(question["request_id"], { question, resolve, reject });
      this.send(question);
    });
  }

  async #add(session: Conversation): Promise<Conversation> {
    if (this.#over) throw this.#over;
    this.#sessions.set(session.id, session);
    session.begin();
    await session.ready;
    return session;
  }

  /** @internal */
  forget(session: Conversation): void {
    if (this.#sessions.get(session.id) === session) this.#sessions.delete(session.id);
  }

  /** Sends a message; if the pipe is lost, its session sends it again. @internal */
  send(message: Message, files?: readonly GivenFile[]): void {
    const line = JSON.stringify(message, (_, value) => (typeof value === "string" ? wellFormed(value) : value));
    this.#pipe?.send(line.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029"), files);
  }

  /** @internal */
  get extensions(): string[] {
    return EXTENSIONS;
  }

  /** Aborted when the client is closed. @internal */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  async #open(): Promise<void> {
    const generation = ++this.#generation;
    let isOpen = false;
    let ended: ClientError | undefined;
    const pipe = await this.#connect({
      line: (text) => generation === this.#generation && this.#line(text),
      lost: (id, error) => generation === this.#generation && this.#sessions.get(id)?.lost(error),
      closed: (why) => {
        if (!isOpen) ended ??= clientError(why); // a pipe that does not open may report it twice: the opener handles it
        else if (generation === this.#generation) void this.#reconnect(clientError(why));
      },
    }).catch((error: unknown) => {
      throw clientError(error);
    });
    if (this.#over) this.#ended = pipe.close();
    if (this.#over || ended) throw this.#over ?? ended!;
    isOpen = true;
    this.#pipe = pipe;
    this.#opened = Date.now();
    this.#unanswered = 0;
    this.#report({ state: "open" });
    if (this.#connect.isChild) return;
    clearInterval(this.#pinging);
    this.#pinging = setInterval(() => generation === this.#generation && this.#ping(), (this.#connect.silentFor ?? SILENT) / PINGS);
    (this.#pinging as { unref?: () => void }).unref?.();
  }

  #report(state: ConnectionState): void {
    if (state.state === "open" && this.#state.state === "open") return;
    this.#state = state;
    try {
      this.#options.onState?.(state);
    } catch (error) {
      reportError(error);
    }
  }

  // A machine that is gone reports nothing.
  #ping(): void {
    if (++this.#unanswered < PINGS) return this.send({ type: "ping", session_id: "", nonce: String(this.#generation) });
    this.#leave(new Unreachable("the other side does not answer"));
  }

  // A request has not reached the daemon: the pipe is tried at once, or left for another address.
  #suspect(error: unknown): void {
    if (error instanceof Unreachable && !this.changeAddress(error)) this.send({ type: "ping", session_id: "", nonce: String(this.#generation) });
  }

  #leave(error: ClientError): void {
    void this.#pipe?.close();
    void this.#reconnect(error);
  }

  /** Leaves the pipe for one to another address. Returns whether there is one. @internal */
  changeAddress(error: ClientError): boolean {
    if (!this.#connect.others || !this.#pipe) return false;
    this.#troubled = undefined; // it was not lost
    this.#leave(error);
    return true;
  }

  /** @internal */
  get retryFor(): number {
    return this.#options.retryFor ?? RETRY_FOR;
  }

  /** Something has happened in a session: losses of the pipe so far do not count. @internal */
  madeProgress(): void {
    [this.#troubled, this.#tries] = [undefined, 0];
  }

  async #reconnect(error: ClientError): Promise<void> {
    this.#generation++;
    this.#pipe = undefined;
    clearInterval(this.#pinging);
    for (const session of [...this.#sessions.values()]) session.disconnected(error);
    if (Date.now() - this.#opened > STEADY) this.madeProgress();
    this.#troubled ??= Date.now();
    const since = new Date(this.#troubled);
    let isOver = error instanceof AnswerTooLarge ? ++this.#oversize > MOST_OVERSIZE : error.isPermanent;
    while (!this.#over && !isOver && Date.now() < since.getTime() + this.retryFor) {
      const retryIn = backoff(this.#tries++, error);
      this.#report({ state: "reconnecting", error, tries: this.#tries, since, retryIn });
      await sleep(retryIn, this.closing);
      if (this.#over) return;
      try {
        await this.#open();
      } catch (failure) {
        error = clientError(failure);
        isOver = error.isPermanent;
        continue;
      }
      for (const session of [...this.#sessions.values()]) session.begin();
      for (const { question } of this.#asked.values()) this.send(question);
      return;
    }
    this.#allLost(error);
  }

  #allLost(error: ClientError): void {
    this.#over ??= error;
    this.#pipe = undefined;
    clearInterval(this.#pinging);
    for (const session of [...this.#sessions.values()]) session.lost(this.#over);
    this.#sessions.clear();
    for (const { reject } of this.#asked.values()) reject(this.#over);
    this.#asked.clear();
    if (this.#state.state !== "closed") this.#report({ state: "closed", error: this.#over });
  }

  #line(text: string): void {
    let message: Message | undefined;
    try {
      message = JSON.parse(text);
    } catch {
      // noise
    }
    if (typeof message !== "object" || message === null || typeof message["type"] !== "string") return this.#countNoise(text);
    this.#unanswered = 0;
    this.#noise = -1; // it speaks the protocol
    const { session_id, request_id, error, type } = message;
    const asked = type.endsWith(".result") ? this.#asked.get(request_id) : undefined;
    if (asked) {
      this.#asked.delete(request_id);
      if (error === undefined || error === null) asked.resolve(message);
      else asked.reject(new Refused(statusOf(asked.question, error), String(error)));
    } else if (session_id !== "") {
      const session = this.#sessions.get(session_id);
      if (session) session.take(message, text.length);
      else if (type === "session.refused") this.#historyRefused(message);
    }
  }

  // A relay refuses a question about a session that is not attached without the question's id.
  #historyRefused({ session_id, message }: Message): void {
    for (const [id, { question, reject }] of this.#asked) {
      if (question["session_id"] !== session_id) continue;
      this.#asked.delete(id);
      reject(new Refused(404, message ?? "there is no session with this id"));
    }
  }

  #countNoise(text: string): void {
    if (this.#noise < 0 || ++this.#noise <= MOST_NOISE || !this.#pipe) return;
    const first = JSON.stringify(text.slice(0, 80));
    this.#leave(new ProtocolMismatch(`the other side does not speak the protocol: it has sent ${MOST_NOISE} lines that are no messages, such as ${first}`));
  }

  /** Whether a callback, or the lack of one, answers a request. @internal */
  decides(request: AgentRequest): boolean {
    return (request.type === "permission.request" ? this.#options.onPermission : this.#options.onQuestion) !== "leave";
  }

  /** Calls back for a request, and answers it. @internal */
  async decide(session: Conversation, request: AgentRequest, signal: AbortSignal): Promise<void> {
    const isPermission = request.type === "permission.request";
    const callback: any = isPermission ? this.#options.onPermission : this.#options.onQuestion;
    let value: any;
    try {
      value = await callback?.(request, session, { signal });
      JSON.stringify(value);
    } catch {
      value = undefined; // what cannot decide does not approve
    }
    if (signal.aborted || value === "leave") return; // nobody waits for it, or others answer
    const more = typeof value === "object" && value !== null ? value : undefined;
    const permission = { ...more, approved: (more ? more.approved : value) === true };
    try {
      await session.answer(request.request_id, isPermission ? permission : more ? { values: more } : { cancelled: true });
    } catch (error) {
      this.#answerRefused(clientError(error), request, session);
    }
  }

  #answerRefused(error: ClientError, request: AgentRequest, session: Conversation): void {
    if (this.#over) return;
    if (error instanceof Refused && error.status !== 409) session.noteError({ category: error.category, message: error.message });
    try {
      this.#options.onAnswerRefused?.(error, request, session);
    } catch (failure) {
      reportError(failure);
    }
  }
}

// An error of a callback of the user, which may not stop the client: reported as if nobody had caught it.
function reportError(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}

// A relay names the reason of a refusal in words only.
function statusOf({ type }: Message, error: unknown): number {
  if (/^not supported|does not list|keeps no journal/.test(String(error))) return 501;
  return type === "session.edit" && !/no session/.test(String(error)) ? 422 : 404;
}

function parsedEvent(data: string): OverviewEvent {
  try {
    return JSON.parse(data);
  } catch {
    throw new ProtocolMismatch("an event is not JSON");
  }
}

function query(members: { [name: string]: unknown }): string {
  const given = Object.entries(members).filter(([, value]) => value !== undefined) as [string, string][];
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
}

function anySignal(first: AbortSignal, second: AbortSignal | undefined): AbortSignal {
  if (!second) return first;
  const any = new AbortController();
  for (const signal of [first, second]) {
    if (signal.aborted) any.abort(signal.reason);
    signal.addEventListener("abort", () => any.abort(signal.reason), { once: true });
  }
  return any.signal;
}

/** Without halves of surrogate pairs: browsers that lack `toWellFormed` get it by the round trip through UTF-8. @internal */
export const wellFormed = (text: string): string => new TextDecoder().decode(new TextEncoder().encode(text));
