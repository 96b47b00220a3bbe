// The pipe to a daemon over HTTP: messages become requests, entries come by Server-Sent Events. Nothing here needs Node.
import { DIALS, LARGEST, pathOf, TRANSFERS, type AskOptions, type Daemon } from "./daemon.js";
import { AnswerTooLarge, clientError, Refused, Unreachable, type ClientError } from "./errors.js";
import type { GivenFile, Pipe, PipeEvents, UploadedFile } from "./hub.js";

type Message = { [name: string]: any };

/** Reads a file of this machine. Rejects if it cannot be read. */
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

/** Sessions over requests, and one stream of events for each session. */
export class Requests implements Pipe {
  readonly #streams = new Map<string, AbortController>();
  readonly #sending = new InOrder();
  readonly #cut = new AbortController();
  #isLeft = false;

  constructor(
    readonly daemon: Daemon,
    readonly events: PipeEvents,
    readonly fileAt?: FileAt,
  ) {}

  send(line: string, files: readonly GivenFile[] = []): void {
    const message: Message = JSON.parse(line);
    this.#sending.add(message["session_id"], () => this.request(message, files));
  }

  /** Makes the request of a message. An answer or a refusal becomes the line that a pipe has for it. */
  async request(message: Message, files: readonly GivenFile[]): Promise<void> {
    if (this.#cut.signal.aborted) return;
    try {
      this.#report(message, await this.#ask(message, files));
    } catch (error) {
      if (error instanceof Refused && error.status !== 401) this.#report(message, refusal(message, error));
      else this.#break(error);
    }
  }

  /** Sends what waits, and ends the streams. */
  async close(): Promise<void> {
    this.#isLeft = true;
    for (const stream of this.#streams.values()) stream.abort();
    const late = setTimeout(() => this.#cut.abort(), DIALS);
    await this.#sending.ended();
    clearTimeout(late);
  }

  #break(error: unknown): void {
    if (this.#isLeft || this.#cut.signal.aborted) return;
    this.#cut.abort();
    for (const stream of this.#streams.values()) stream.abort();
    this.events.closed(clientError(error));
  }

  #report({ session_id }: Message, line: Message | void): void {
    if (line) this.events.line(JSON.stringify({ session_id, ...line }));
  }

  async #ask(message: Message, files: readonly GivenFile[]): Promise<Message | void> {
    const { type, session_id, ...rest } = message;
    const path = pathOf(session_id);
    const ask = (method: string, path: string, more: AskOptions = {}) => this.daemon.ask(method, path, { ...more, signal: this.#cut.signal });
    switch (type) {
      case "session.attach": {
        this.#streams.get(session_id)?.abort();
        const state = await ask("GET", path, { time: DIALS });
        if (rest["after"] > state.last_seq) throw new Refused(409, `the session has ${state.last_seq} entries, and ${rest["after"]} were claimed`);
        this.#report(message, { ...state, type: "session.attached" });
        return void this.#listen(message);
      }
      case "session.detach":
        return this.#streams.get(session_id)?.abort();
      case "user.input": {
        const body: Message = { content: rest["content"], message_id: rest["message_id"], files: [], limits: rest["limits"] };
        if (rest["mode"] === "steer") body["steer"] = rest["turn_id"];
        for (const file of files) body["files"].push(await upload(this.daemon, session_id, file, this.fileAt, this.#cut.signal));
        return void (await ask("POST", `${path}/inputs`, { body }));
      }
      case "stop":
        return void (await ask("POST", `${path}/stop`, { body: { turn_id: rest["turn_id"] } }));
      case "session.close":
        return void (await ask("DELETE", path));
      case "ping":
        await ask("GET", "/v1/me", { time: DIALS });
        return { type: "pong" };
    }
  }

  async #listen(attach: Message): Promise<void> {
    if (this.#isLeft) return;
    const { session_id, after, epoch } = attach;
    const cut = new AbortController();
    this.#streams.set(session_id, cut);
    let opened: number | undefined;
    let why: ClientError = new Refused(503, "its events have ended");
    const path = `${pathOf(session_id)}/events?after=${after}${epoch === undefined ? "" : `&epoch=${epoch}`}`;
    try {
      for await (const { data } of this.daemon.events(path, () => (opened = Date.now()), cut.signal)) this.events.line(data);
      if (opened === undefined) return; // closed, and without further entries
    } catch (error) {
      why = clientError(error);
    }
    if (cut.signal.aborted) return; // another stream took its place
    this.#streams.delete(session_id);
    const served = opened !== undefined && Date.now() - opened > STEADY;
    if (why instanceof Refused && why.status !== 401) this.#report(attach, { ...refusal(attach, why), was_served: served });
    else if (why instanceof Unreachable) this.#report(attach, { ...refusal(attach, new Refused(503, why.message)), was_served: served });
    else if (why instanceof AnswerTooLarge) this.events.lost?.(session_id, why);
    else this.#break(why);
  }
}

/** Uploads a file for inputs of a session. One that was uploaded before stays as it is. */
export async function upload(daemon: Daemon, session: string, given: GivenFile, fileAt?: FileAt, signal?: AbortSignal): Promise<UploadedFile> {
  if (typeof given === "object" && "sha256" in given) return given;
  const file = typeof given === "string" ? await fileOf(given, fileAt) : given;
  if (file.size > LARGEST) throw unread(`${file.name} is over ${LARGEST} bytes`);
  const to = `${pathOf(session)}/files?name=${encodeURIComponent(file.name)}`;
  const { sha256 } = await daemon.ask("PUT", to, { body: file, time: TRANSFERS, signal });
  return { sha256, name: file.name, mime_type: file.type || "application/octet-stream" };
}

async function fileOf(path: string, fileAt: FileAt | undefined): Promise<File> {
  if (!fileAt) throw unread(`a page has no file ${path}: give a File`);
  try {
    return await fileAt(path);
  } catch (error) {
    throw unread(`${path} could not be read: ${String(error)}`);
  }
}

/** The error of a file that is not sent. */
const unread = (message: string): Refused => new Refused(400, message, "file_refused");

/** A refusal in the form that a pipe has for it. */
function refusal({ type, mode, ...message }: Message, { status, detail, category, isPermanent, retryAfter }: Refused): Message | undefined {
  const error = { category, message: detail };
  // Not served for the moment: the session attaches again, and sends again what has no answer.
  if (!isPermanent) return { type: "session.refused", reason: "unavailable", message: detail, retry_after: retryAfter };
  switch (type) {
    case "session.attach":
      return { type: "session.refused", reason: { 404: "unknown", 409: "ahead", 410: "gone" }[status] ?? "forbidden", status, category, message: detail };
    case "user.input":
      if (mode === "steer") return { type: "steer.result", message_id: message["message_id"], delivered: false, reason: detail };
      return { type: "turn.complete", turn_id: message["turn_id"], status: "failed", error };
    default: // of a stop or a close: there may be nothing to end
      return status === 404 || status === 409 ? undefined : { type: "error", ...error };
  }
}
