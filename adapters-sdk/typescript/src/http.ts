// The pipe to a daemon over HTTP: what is said by requests, what happens by Server-Sent Events. Nothing here needs Node.
import { DIALS, LARGEST, pathOf, Refused, TRANSFERS, type Daemon } from "./daemon.js";
import type { GivenFile, Pipe, PipeEvents } from "./hub.js";

type Message = { [name: string]: any };

/** Reads a file of this machine. Rejects where it cannot be read. */
export type FileAt = (path: string) => Promise<File>;

const STEADY = 10_000; // milliseconds after which a stream that ends has served its session

/** Work in order, for each of some ids. None of it rejects. */
export class InOrder {
  readonly #last = new Map<string, Promise<void>>();

  get isEmpty(): boolean {
    return this.#last.size === 0;
  }

  has(id: string): boolean {
    return this.#last.has(id);
  }

  add(id: string, work: () => Promise<void> | void): void {
    const own = (this.#last.get(id) ?? Promise.resolve()).then(work);
    this.#last.set(id, own);
    void own.then(() => this.#last.get(id) === own && this.#last.delete(id));
  }

  async ended(): Promise<void> {
    await Promise.all(this.#last.values());
  }
}

/** Sessions over requests, and one stream of events a session. */
export class Requests implements Pipe {
  readonly #streams = new Map<string, AbortController>();
  readonly #saying = new InOrder();
  readonly #cut = new AbortController();
  #isLeft = false;

  constructor(
    readonly daemon: Daemon,
    readonly events: PipeEvents,
    readonly fileAt?: FileAt,
  ) {}

  send(line: string, files: readonly GivenFile[] = []): void {
    const message: Message = JSON.parse(line);
    this.#saying.add(message["session_id"], () => this.say(message, files));
  }

  /** Makes the request that a message is. What the daemon says to it alone is read as a pipe would have it. */
  async say(message: Message, files: readonly GivenFile[]): Promise<void> {
    if (this.#cut.signal.aborted) return;
    try {
      this.#tell(message, await this.#ask(message, files));
    } catch (error) {
      if (error instanceof Refused && error.status !== 401) this.#tell(message, refusal(message, error));
      else this.#break(error);
    }
  }

  /** What was said is still asked for. */
  async close(): Promise<void> {
    this.#isLeft = true;
    for (const stream of this.#streams.values()) stream.abort();
    const late = setTimeout(() => this.#cut.abort(), DIALS);
    await this.#saying.ended();
    clearTimeout(late);
  }

  #break(error: unknown): void {
    if (this.#isLeft || this.#cut.signal.aborted) return;
    this.#cut.abort();
    for (const stream of this.#streams.values()) stream.abort();
    this.events.closed(String(error));
  }

  #tell({ session_id }: Message, told: Message | void): void {
    if (told) this.events.line(JSON.stringify({ session_id, ...told }));
  }

  async #ask(message: Message, files: readonly GivenFile[]): Promise<Message | void> {
    const { type, session_id, request_id, ...rest } = message;
    const path = pathOf(session_id);
    const ask = (method: string, path: string, body?: unknown, time?: number) => this.daemon.ask(method, path, body, time, this.#cut.signal);
    switch (type) {
      case "session.attach": {
        this.#streams.get(session_id)?.abort();
        const told = await ask("GET", path, undefined, DIALS);
        if (rest["after"] > told.last_seq) throw new Refused(409, `the session has ${told.last_seq} entries, and ${rest["after"]} were claimed`);
        this.#tell(message, { ...told, type: "session.attached" });
        return void this.#listen(message);
      }
      case "session.detach":
        return this.#streams.get(session_id)?.abort();
      case "user.input": {
        const body: Message = { content: rest["content"], message_id: rest["message_id"], files: [] };
        if (rest["mode"] === "steer") body["steer"] = rest["turn_id"];
        for (const file of files) body["files"].push(await this.#give(path, file));
        return void (await ask("POST", `${path}/inputs`, body));
      }
      case "stop":
        return void (await ask("POST", `${path}/stop`, {}));
      case "permission.response":
      case "input.response":
        return void (await ask("POST", `${path}/requests/${encodeURIComponent(request_id)}`, rest));
      case "session.close":
        return void (await ask("DELETE", path));
      case "ping":
        await ask("GET", "/v1/me", undefined, DIALS);
        return { type: "pong" };
      case "agents.list":
        return { request_id, ...(await ask("GET", "/v1/agents")) };
      case "sessions.list": {
        const { extensions: _, ...filter } = rest;
        return { request_id, ...(await ask("GET", `/v1/sessions?${new URLSearchParams(filter)}`)) };
      }
    }
  }

  async #give(path: string, given: GivenFile): Promise<Message> {
    const file = typeof given === "string" ? await this.#read(given) : given;
    if (file.size > LARGEST) throw unread(`${file.name} is over ${LARGEST} bytes`);
    const to = `${path}/files?name=${encodeURIComponent(file.name)}`;
    const { sha256 } = await this.daemon.ask("PUT", to, file, TRANSFERS, this.#cut.signal);
    return { sha256, name: file.name, mime_type: file.type || "application/octet-stream" };
  }

  async #read(path: string): Promise<File> {
    if (!this.fileAt) throw unread(`a page has no file ${path}: give a File`);
    try {
      return await this.fileAt(path);
    } catch (error) {
      throw unread(`${path} could not be read: ${String(error)}`);
    }
  }

  async #listen(attach: Message): Promise<void> {
    if (this.#isLeft) return;
    const { session_id, after, epoch } = attach;
    const cut = new AbortController();
    this.#streams.set(session_id, cut);
    let opened: number | undefined;
    let why: unknown;
    try {
      for await (const text of this.daemon.entries(session_id, after, () => (opened = Date.now()), cut.signal, epoch)) {
        this.events.line(text);
      }
      if (opened === undefined) return; // it is closed, and has no more
    } catch (error) {
      why = error;
    }
    if (cut.signal.aborted) return; // another one has its place
    this.#streams.delete(session_id);
    if (why instanceof Refused && why.status === 401) return this.#break(why);
    const served = opened !== undefined && Date.now() - opened > STEADY;
    const refused = why instanceof Refused ? why : new Refused(503, "its events have ended");
    this.#tell(attach, { ...refusal(attach, refused), was_served: served });
  }
}

/** What the host says of a file that does not come. */
const unread = (message: string): Refused => new Refused(400, message, "file_refused", message);

/** A refusal in the words that a pipe has for it. */
function refusal({ type, mode, ...message }: Message, { status, detail, category, isFinal }: Refused): Message | undefined {
  const error = { category, message: detail };
  if ("request_id" in message && message["session_id"] === "") return { request_id: message["request_id"], error: detail };
  // It is not served for the moment: what was said is said again.
  if (status >= 500 || (type === "session.attach" && !isFinal)) return { type: "session.refused", reason: "unavailable", message: detail };
  switch (type) {
    case "session.attach":
      return { type: "session.refused", reason: { 404: "unknown", 409: "ahead" }[status] ?? "forbidden", message: detail };
    case "user.input":
      if (mode === "steer") return { type: "steer.result", message_id: message["message_id"], delivered: false, reason: detail };
      return { type: "turn.complete", turn_id: message["turn_id"], status: "failed", error };
    case "permission.response":
    case "input.response":
      return { type: "request.decided", request_id: message["request_id"] };
    default: // of a stop or a close: there may be nothing to end
      return status === 404 || status === 409 ? undefined : { type: "error", ...error };
  }
}
