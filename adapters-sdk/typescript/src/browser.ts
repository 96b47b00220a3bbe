/**
 * Drive agents from a browser: sessions over the daemon's WebSocket, or a session's entries over Server-Sent Events. The daemon
 * takes the WebSocket of a page of another site where `trunkline up --allow-origin` names it; events it gives to pages of its
 * own origin.
 *
 * @module
 */
import type { Connect } from "./hub.js";
import type { Entry } from "./conversation.js";

export { Client } from "./hub.js";
export type { ClientOptions, Connect, Listening, OpenOptions, PermissionAnswer, Pipe, PipeEvents } from "./hub.js";
export type { Conversation, Done, Entry } from "./conversation.js";

/** The WebSocket of a daemon at `http://…`, by a token, which is the first message and in no address. Needs Node 22 in Node. */
export function webSocket(url: string, token: string): Connect {
  return (events) =>
    new Promise((resolve, reject) => {
      const address = new URL("/v1/pipe", url);
      address.protocol = address.protocol.replace("http", "ws");
      const socket = new WebSocket(address);
      socket.onerror = () => reject(new Error(`no connection to ${address.host}`));
      socket.onclose = ({ reason }) => (reject(new Error(reason)), events.closed(reason || "the WebSocket was closed"));
      socket.onmessage = ({ data }) => {
        for (const line of String(data).split("\n")) if (line) events.line(line);
      };
      socket.onopen = () => {
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
  /** How long a stream that was cut is tried again, in milliseconds: 30 000. */
  retryFor?: number;
}

/**
 * The entries of a session over Server-Sent Events, each once, from `after` on and until the session is closed. A stream that
 * was cut is opened again behind the last entry. Rejects where the daemon refuses (401, 403, 404), or stays away, and for an
 * entry over 32 Mi UTF-16 units.
 */
export async function* eventsOf(url: string, session: string, options: EventsOptions): AsyncGenerator<Entry, void, void> {
  const { token, signal, retryFor = 30_000 } = options;
  let after = options.after ?? 0;
  for (let since = Date.now(), wait = 50; ; wait = Math.min(wait * 2, 2000)) {
    try {
      const address = new URL(`/v1/sessions/${encodeURIComponent(session)}/events?after=${after}`, url);
      const answer = await fetch(address, { headers: { Authorization: `Bearer ${token}` }, ...(signal ? { signal } : {}) });
      if (answer.status === 204) return; // it is closed, and has no more entries
      if (!answer.ok) {
        const said = `the daemon answers ${answer.status}: ${await answer.text()}`;
        throw answer.status < 500 ? final(said) : new Error(said);
      }
      for await (const entry of entriesOf(answer.body!)) {
        [since, wait] = [Date.now(), 50];
        if (entry.seq === undefined || entry.seq <= after) continue;
        after = entry.seq;
        yield entry;
      }
    } catch (error) {
      if (signal?.aborted || (error as { isFinal?: true }).isFinal || Date.now() - since > retryFor) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

// What to try again would not mend.
const final = (message: string) => Object.assign(new Error(message), { isFinal: true });

async function* entriesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Entry, void, void> {
  const reader = body.pipeThrough(new TextDecoderStream() as any).getReader() as ReadableStreamDefaultReader<string>;
  let [rest, data, size] = ["", [] as string[], 0]; // the line and the entry whose ends have not come
  try {
    for (let read; !(read = await reader.read()).done; ) {
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
