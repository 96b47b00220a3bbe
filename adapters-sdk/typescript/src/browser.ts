/**
 * Drive agents from a browser: sessions over the daemon's WebSocket, or a session's entries over Server-Sent Events. The daemon
 * takes the WebSocket of a page of another site where `trunkline up --allow-origin` names it; events it gives to pages of its
 * own origin.
 *
 * @module
 */
import type { Connect, Pipe, PipeEvents } from "./hub.js";
import type { Entry } from "./conversation.js";

export { Client } from "./hub.js";
export type { ClientOptions, Connect, Listening, OpenOptions, PermissionAnswer, Pipe, PipeEvents } from "./hub.js";
export type { Conversation, Done, Entry } from "./conversation.js";

const DIALS = 10_000; // milliseconds in which an address answers; then the next one is tried
const SILENT = 60_000; // milliseconds: a stream says something each 15 seconds

/**
 * The WebSocket of a daemon at `http://…`, by a token, which is the first message and in no address. A list has several daemons
 * of one cluster, which are tried in turn; the token is good at each of them. Needs Node 22 in Node.
 */
export function webSocket(url: string | readonly string[], token: string): Connect {
  const urls = listOf(url);
  let next = 0;
  const connect: Connect = async (events) => {
    for (let left = urls.length; ; ) {
      try {
        return await dial(urls[next++ % urls.length]!, token, events);
      } catch (error) {
        if (--left === 0) throw error;
      }
    }
  };
  connect.others = urls.length > 1;
  return connect;
}

function listOf(url: string | readonly string[]): readonly string[] {
  const urls = typeof url === "string" ? [url] : [...url];
  if (urls.length === 0) throw new Error("there is no address in the list");
  return urls;
}

function dial(url: string, token: string, events: PipeEvents): Promise<Pipe> {
  return new Promise((resolve, reject) => {
    const address = new URL("/v1/pipe", url);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = new WebSocket(address);
    let isOpen = false;
    const fail = (why: string) => (clearTimeout(late), reject(new Error(why)));
    const late = setTimeout(() => (fail(`${address.host} does not answer`), socket.close()), DIALS);
    socket.onerror = () => isOpen || fail(`no connection to ${address.host}`);
    socket.onclose = ({ reason }) => (isOpen ? events.closed(reason || "the WebSocket was closed") : fail(reason));
    socket.onmessage = ({ data }) => {
      for (const line of String(data).split("\n")) if (line) events.line(line);
    };
    socket.onopen = () => {
      isOpen = true;
      clearTimeout(late);
      socket.send(JSON.stringify({ type: "auth", token }));
      resolve({ send: (line) => socket.readyState === WebSocket.OPEN && socket.send(line), close: () => socket.close() });
    };
  });
}

const MOST_ENTRY = 32 * 1024 * 1024; // UTF-16 units: an entry is a line of up to 16 MiB, and what the relay adds to it

export interface EventsOptions {
  token: string;
  /** The last entry that the reader has: 0. */
  after?: number;
  /** Ends it. */
  signal?: AbortSignal;
  /** How long a stream that was cut is tried again, in milliseconds: 60 000. */
  retryFor?: number;
}

/**
 * The entries of a session over Server-Sent Events, each once, from `after` on and until the session is closed. A stream that
 * was cut, or is silent for a minute, is opened again behind the last entry, at the next address where `url` has several. Rejects
 * where the daemon refuses (401, 403, 404), or stays away, and for an entry over 32 Mi UTF-16 units.
 */
export async function* eventsOf(
  url: string | readonly string[],
  session: string,
  options: EventsOptions,
): AsyncGenerator<Entry, void, void> {
  const { token, signal, retryFor = 60_000 } = options;
  const urls = listOf(url);
  let after = options.after ?? 0;
  for (let since = Date.now(), wait = 50, at = 0; ; wait = Math.min(wait * 2, 2000), at++) {
    const cut = new AbortController();
    const stop = () => cut.abort(signal?.reason);
    signal?.addEventListener("abort", stop);
    if (signal?.aborted) stop();
    let late: ReturnType<typeof setTimeout> | undefined;
    let isOpen = false; // then it has just been lost
    const within = (time: number) => {
      clearTimeout(late);
      late = setTimeout(() => cut.abort(new Error("the daemon says nothing")), time);
    };
    within(DIALS);
    try {
      const address = new URL(`/v1/sessions/${encodeURIComponent(session)}/events?after=${after}`, urls[at % urls.length]);
      const answer = await fetch(address, { headers: { Authorization: `Bearer ${token}` }, signal: cut.signal });
      if (answer.status === 204) return; // it is closed, and has no more entries
      if (!answer.ok) {
        const said = `the daemon answers ${answer.status}: ${await answer.text()}`;
        throw answer.status < 500 && answer.status !== 429 ? final(said) : new Error(said);
      }
      isOpen = true;
      for await (const entry of entriesOf(answer.body!, () => within(SILENT))) {
        wait = 50;
        if (entry.seq === undefined || entry.seq <= after) continue;
        after = entry.seq;
        yield entry;
      }
      since = Date.now();
    } catch (error) {
      if (isOpen) since = Date.now();
      if (signal?.aborted || (error as { isFinal?: true }).isFinal || Date.now() - since > retryFor) throw error;
    } finally {
      clearTimeout(late);
      signal?.removeEventListener("abort", stop);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

// What to try again would not mend.
const final = (message: string) => Object.assign(new Error(message), { isFinal: true });

async function* entriesOf(body: ReadableStream<Uint8Array>, heard: () => void): AsyncGenerator<Entry, void, void> {
  const reader = body.pipeThrough(new TextDecoderStream() as any).getReader() as ReadableStreamDefaultReader<string>;
  let [rest, data, size] = ["", [] as string[], 0]; // the line and the entry whose ends have not come
  try {
    for (let read; !(read = await reader.read()).done; ) {
      heard();
      const lines = read.value.split("\n");
      lines[0] = rest + lines[0];
      rest = lines.pop()!;
      for (const line of lines) {
        if (line.startsWith("data:")) {
          data.push(line.slice(5).trimStart());
          size += line.length;
        }
        if (line !== "" || data.length === 0) continue;
        yield JSON.parse(data.join("\n")) as Entry;
        [data, size] = [[], 0];
      }
      if (size + rest.length > MOST_ENTRY) throw final(`an entry is over ${MOST_ENTRY} UTF-16 units`);
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}
