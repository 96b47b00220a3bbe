// A daemon over HTTP: requests, and the events of a session as a stream. Nothing here needs Node.
type Message = { [name: string]: any };

export const DIALS = 10_000; // milliseconds in which an address answers; then the next one is tried
const ANSWERS = 60_000; // milliseconds in which a request is answered
export const TRANSFERS = 600_000; // the same where a file goes along
export const LARGEST = 64 * 1024 * 1024; // bytes of a file
const SILENT = 60_000; // milliseconds: a stream says something each 15 seconds
const MOST_ENTRY = 32 * 1024 * 1024; // UTF-16 units: an entry is a line of up to 16 MiB, and what the relay adds to it

/** What is refused: `status` is that of HTTP, `category` one of the protocol's. */
export class Refused extends Error {
  /** Whether to try again would not mend it. */
  readonly isFinal: boolean;

  constructor(readonly status: number, readonly detail: string, readonly category = "other", message = `the daemon answers ${status}: ${detail}`) {
    super(message);
    this.isFinal = status < 500 && status !== 429;
  }
}

/** The path of a session. */
export const pathOf = (session: string): string => `/v1/sessions/${encodeURIComponent(session)}`;

/** Where a daemon is, and who asks. */
export class Daemon {
  constructor(readonly url: string, readonly token: string) {}

  /** Its answer in JSON, nothing for an empty one. Rejects with `Refused`, and where it is not reached, or does not answer in time. */
  async ask(method: string, path: string, body?: unknown, time = ANSWERS, signal?: AbortSignal): Promise<any> {
    const watch = new Watch(signal, time);
    try {
      const said = await (await this.#fetch(method, path, watch, body)).text();
      return said === "" ? undefined : JSON.parse(said);
    } finally {
      watch.end();
    }
  }

  /** The contents of a file that the agent gave. Rejects as `ask`. */
  async file(session: string, { sha256 }: Message): Promise<Uint8Array> {
    const watch = new Watch(undefined, TRANSFERS);
    try {
      const answer = await this.#fetch("GET", `${pathOf(session)}/files/${encodeURIComponent(sha256)}`, watch);
      if (Number(answer.headers.get("content-length")) > LARGEST) throw new Error(`the file is over ${LARGEST} bytes`);
      return new Uint8Array(await answer.arrayBuffer());
    } finally {
      watch.end();
    }
  }

  /**
   * The entries of a session behind one, as text and as they come, up to where the stream ends. `opened` is called when it has
   * begun, and never where the session is closed and has no more. Rejects as `ask`, and where it is silent.
   */
  async *entries(session: string, after: number, opened: () => void, signal?: AbortSignal, epoch?: number): AsyncGenerator<string, void, void> {
    const watch = new Watch(signal, DIALS);
    try {
      const path = `${pathOf(session)}/events?after=${after}${epoch === undefined ? "" : `&epoch=${epoch}`}`;
      const answer = await this.#fetch("GET", path, watch);
      if (answer.status === 204) return;
      opened();
      yield* dataOf(answer.body!, watch);
    } finally {
      watch.end();
    }
  }

  // One daemon, whatever it answers: the token goes nowhere else.
  async #fetch(method: string, path: string, { signal }: Watch, body?: unknown): Promise<Response> {
    const headers: { [name: string]: string } = { Authorization: `Bearer ${this.token}` };
    if (body instanceof Blob) headers["Content-Type"] = "application/octet-stream";
    const data = body === undefined ? {} : { body: body instanceof Blob ? body : JSON.stringify(body) };
    const answer = await fetch(new URL(path, this.url), { method, headers, redirect: "error", signal, ...data });
    if (answer.ok) return answer;
    const said = await answer.text();
    let problem: Message = {};
    try {
      problem = JSON.parse(said) ?? {};
    } catch {
      // what is between says so in its own words
    }
    throw new Refused(answer.status, String(problem["detail"] ?? said), problem["category"] ?? undefined);
  }
}

// Ends a request from outside, and where it says nothing in time.
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
    this.#late = setTimeout(() => this.#cut.abort(new Error("the daemon says nothing")), time);
  }

  end(): void {
    clearTimeout(this.#late);
    this.#outside?.removeEventListener("abort", this.#stop);
  }
}

async function* dataOf(body: ReadableStream<Uint8Array>, watch: Watch): AsyncGenerator<string, void, void> {
  const reader = body.pipeThrough(new TextDecoderStream() as any).getReader() as ReadableStreamDefaultReader<string>;
  let [rest, data, size] = ["", [] as string[], 0]; // the line and the entry whose ends have not come
  const cancel = () => void reader.cancel().catch(() => {});
  // A body that ends just then is not ended by the signal of its request.
  watch.signal.addEventListener("abort", cancel);
  watch.within(SILENT);
  try {
    for (let read; !(read = await reader.read()).done; ) {
      watch.within(SILENT);
      const lines = read.value.split("\n");
      lines[0] = rest + lines[0];
      rest = lines.pop()!;
      for (const line of lines) {
        if (line.startsWith("data:")) {
          data.push(line.slice(5).trimStart());
          size += line.length;
        }
        if (line !== "" || data.length === 0) continue;
        yield data.join("\n");
        [data, size] = [[], 0];
      }
      const tooLong = `an entry is over ${MOST_ENTRY} UTF-16 units`;
      if (size + rest.length > MOST_ENTRY) throw new Refused(413, tooLong, "oversize", tooLong);
    }
    watch.signal.throwIfAborted();
  } finally {
    cancel();
  }
}
