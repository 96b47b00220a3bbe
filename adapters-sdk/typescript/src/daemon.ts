// Requests to a daemon over HTTP, with bounded answers. Nothing here needs Node.
import { AnswerTooLarge, ClientError, ProtocolMismatch, Refused, Unreachable } from "./errors.js";

type Message = { [name: string]: any };

export const DIALS = 10_000; // milliseconds in which an address answers; then the next one is tried
const ANSWERS = 60_000; // milliseconds in which a request is answered
export const TRANSFERS = 600_000; // the same for a file
export const LARGEST = 64 * 1024 * 1024; // bytes of a file
export const MAX_ANSWER = 32 * 1024 * 1024; // bytes of an answer in JSON: a page of 1 MiB, or one entry of up to 16 MiB and its escapes
const MAX_PROBLEM = 64 * 1024; // bytes of an error; the rest is cut
const SILENT = 60_000; // milliseconds: a daemon sends something each 15 seconds
export const MAX_ENTRY = 32 * 1024 * 1024; // UTF-16 units: a line of up to 16 MiB, and what the relay adds to it

/** The path of a session. */
export const pathOf = (session: string): string => `/v1/sessions/${encodeURIComponent(session)}`;

/** `fetch`, or one over another connection. */
export type Fetch = (url: URL, init: RequestInit) => Promise<Response>;

export interface AskOptions {
  body?: unknown;
  /** The same key: the same request, however often it is sent. */
  key?: string;
  /** Milliseconds in which it is answered. */
  time?: number;
  signal?: AbortSignal | undefined;
}

/** Times of a network. */
export interface NetworkOptions {
  /** How long an answer may take, in milliseconds: 60 000. */
  answersWithin?: number;
  /** How long a stream or a WebSocket may be silent before it is opened again, in milliseconds: 60 000. */
  silentFor?: number;
}

/** An event of a stream. */
export interface StreamedEvent {
  id: string | undefined;
  data: string;
}

/** The address of a daemon, and the token for it. */
export class Daemon {
  readonly #fetch: Fetch;
  readonly url: string;

  /** `ws:` and `wss:` mean `http:` and `https:`. */
  constructor(
    url: string,
    readonly token: string | undefined,
    fetcher: Fetch = (url, init) => fetch(url, init),
    /** Its name in errors. */
    readonly host = new URL(url).host,
    readonly times: NetworkOptions = {},
  ) {
    this.#fetch = fetcher;
    this.url = url.replace(/^ws/i, "http");
    if (!/^https?:/i.test(this.url)) throw new TypeError(`the address ${url} does not begin with http://, https://, ws:// or wss://`);
    if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) throw new TypeError("the token is empty, or has a space, a line break or a letter beyond ASCII");
  }

  /** The answer in JSON, nothing for an empty one. Rejects with `Refused`, `Unreachable`, `AnswerTooLarge` and `ProtocolMismatch`. */
  async ask(method: string, path: string, { body, key, time = this.times.answersWithin ?? ANSWERS, signal }: AskOptions = {}): Promise<any> {
    const watch = new Watch(signal, time);
    try {
      const answer = await this.#request(method, path, watch, body, key);
      const text = new TextDecoder().decode(await readAll(answer, `the answer to ${method} ${path}`, MAX_ANSWER, watch));
      return text === "" ? undefined : parsed(text, this.host);
    } finally {
      watch.end();
    }
  }

  /** The contents of a file. Rejects as `ask`. */
  async file(session: string, sha256: string): Promise<Uint8Array> {
    const watch = new Watch(undefined, TRANSFERS);
    try {
      const answer = await this.#request("GET", `${pathOf(session)}/files/${encodeURIComponent(sha256)}`, watch);
      return await readAll(answer, "the file", LARGEST, watch);
    } finally {
      watch.end();
    }
  }

  /**
   * The events of a stream, up to its end. `opened` is called when it has begun, and never for a 204. Rejects as `ask`, and for a
   * stream that is silent for a minute.
   */
  async *events(path: string, opened: () => void, signal?: AbortSignal): AsyncGenerator<StreamedEvent, void, void> {
    const watch = new Watch(signal, Math.min(DIALS, this.times.answersWithin ?? DIALS));
    try {
      const answer = await this.#request("GET", path, watch);
      if (answer.status === 204) return;
      const type = answer.headers.get("content-type");
      if (!answer.body || (type && !type.startsWith("text/event-stream"))) throw new ProtocolMismatch(`${this.host} answers ${path} by no stream of events`);
      opened();
      yield* eventsIn(answer.body, watch, this.times.silentFor ?? SILENT);
    } finally {
      watch.end();
    }
  }

  // No redirect is followed: the token goes to this daemon only.
  async #request(method: string, path: string, watch: Watch, body?: unknown, key?: string): Promise<Response> {
    const headers: { [name: string]: string } = {};
    if (this.token !== undefined) headers["Authorization"] = `Bearer ${this.token}`;
    if (key !== undefined) headers["Idempotency-Key"] = key;
    if (body instanceof Blob) headers["Content-Type"] = "application/octet-stream";
    const data = body === undefined ? {} : { body: body instanceof Blob ? body : JSON.stringify(body) };
    let answer: Response;
    try {
      answer = await this.#fetch(new URL(path, this.url), { method, headers, redirect: "manual", signal: watch.signal, ...data });
    } catch (error) {
      throw watch.wrap(error, `no connection to ${this.host}`);
    }
    if (answer.ok) return answer;
    if (answer.status === 0 || (answer.status >= 300 && answer.status < 400)) {
      void answer.body?.cancel().catch(() => {});
      throw new Refused(answer.status || 307, `${this.host} redirects to another address, and no redirect is followed`);
    }
    const text = new TextDecoder().decode(await readAll(answer, "an error", MAX_PROBLEM, watch, true));
    let problem: Message = {};
    try {
      problem = JSON.parse(text) ?? {};
    } catch {
      // not the daemon, but a proxy
    }
    const after = Number(answer.headers.get("retry-after") ?? NaN);
    throw new Refused(answer.status, String(problem["detail"] ?? text), problem["category"] ?? undefined, after >= 0 ? after * 1000 : undefined);
  }
}

function parsed(text: string, host: string): any {
  try {
    return JSON.parse(text);
  } catch {
    throw new ProtocolMismatch(`${host} does not answer in JSON: is it a daemon?`);
  }
}

async function readAll(answer: Response, what: string, max: number, watch: Watch, cuts = false): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = answer.body?.getReader();
  try {
    for (let read; reader && !(read = await reader.read()).done; ) {
      const room = max - size;
      const piece = read.value.length > room && cuts ? read.value.subarray(0, room) : read.value;
      size += piece.length;
      if (size > max) throw new AnswerTooLarge(what, max);
      parts.push(piece);
      if (cuts && size === max) break;
    }
  } catch (error) {
    throw watch.wrap(error, "the connection was lost");
  } finally {
    void reader?.cancel().catch(() => {});
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

// Ends a request by a signal from outside, or after a time without an answer.
class Watch {
  readonly #cut = new AbortController();
  readonly #outside: AbortSignal | undefined;
  readonly #stop = () => this.#cut.abort(this.#outside?.reason);
  #late: ReturnType<typeof setTimeout> | undefined;

  constructor(outside: AbortSignal | undefined, time: number) {
    this.#outside = outside;
    if (outside?.aborted) this.#stop();
    outside?.addEventListener("abort", this.#stop);
    this.within(time);
  }

  get signal(): AbortSignal {
    return this.#cut.signal;
  }

  within(time: number): void {
    clearTimeout(this.#late);
    this.#late = setTimeout(() => this.#cut.abort(new Unreachable("the daemon does not answer")), time);
  }

  // The reason of an abort as it is, an error of a client as it is, any other one as a lost connection.
  wrap(error: unknown, message: string): unknown {
    if (this.signal.aborted) return this.signal.reason;
    if (error instanceof ClientError) return error;
    const { cause, code, message: own } = error as { cause?: { code?: string; message?: string }; code?: string; message: string };
    return new Unreachable(`${message}: ${cause?.code ?? cause?.message ?? code ?? own}`, { cause: error });
  }

  end(): void {
    clearTimeout(this.#late);
    this.#outside?.removeEventListener("abort", this.#stop);
  }
}

async function* eventsIn(body: ReadableStream<Uint8Array>, watch: Watch, silentFor: number): AsyncGenerator<StreamedEvent, void, void> {
  const reader = body.pipeThrough(new TextDecoderStream() as any).getReader() as ReadableStreamDefaultReader<string>;
  // The line and the event whose ends have not come.
  let rest = "";
  let data: string[] = [];
  let id: string | undefined;
  let size = 0;
  let endsWithCr = false;
  const cancel = () => void reader.cancel().catch(() => {});
  // A body that ends at that moment is not ended by the signal of its request.
  watch.signal.addEventListener("abort", cancel);
  watch.within(silentFor);
  try {
    for (;;) {
      const read = await reader.read().catch((error: unknown) => {
        throw watch.wrap(error, "the stream of events was lost");
      });
      if (read.done) break;
      watch.within(silentFor);
      // A line ends with LF, CR or both, which two reads may cut apart.
      const text = endsWithCr && read.value.startsWith("\n") ? read.value.slice(1) : read.value;
      endsWithCr = read.value.endsWith("\r");
      const lines = text.split(/\r\n|\r|\n/);
      lines[0] = rest + lines[0];
      rest = lines.pop()!;
      for (const line of lines) {
        if (line.startsWith("data:")) {
          data.push(line.slice(5).trimStart());
          size += line.length;
        } else if (line.startsWith("id:")) id = line.slice(3).trim();
        if (line !== "" || data.length === 0) continue;
        yield { id, data: data.join("\n") };
        data = [];
        size = 0;
      }
      if (size + rest.length > MAX_ENTRY) throw new AnswerTooLarge("an entry", MAX_ENTRY, "UTF-16 units");
    }
    watch.signal.throwIfAborted();
  } finally {
    cancel();
  }
}
