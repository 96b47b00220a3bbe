/**
 * Drive agents from a browser: sessions over the daemon's WebSocket, or over requests and Server-Sent Events; or read a session's
 * entries. A page of another site may where `trunkline up --allow-origin` names it.
 *
 * @module
 */
import type { Entry } from "./conversation.js";
import { Daemon, DIALS, Refused } from "./daemon.js";
import type { Connect, Pipe, PipeEvents } from "./hub.js";
import { InOrder, Requests, type FileAt } from "./http.js";

export { Client } from "./hub.js";
export type { AttachOptions, ClientOptions, Connect, GivenFile, Listening, OpenOptions } from "./hub.js";
export type { PermissionAnswer, Pipe, PipeEvents, QuestionAnswer } from "./hub.js";
export type { Conversation, Done, Entry, TurnOptions } from "./conversation.js";
export { Refused } from "./daemon.js";

/**
 * The WebSocket of a daemon at `http://…`, by a token, which is the first message and in no address. A list has several daemons
 * of one cluster, which are tried in turn; the token is good at each of them. Needs Node 22 in Node.
 */
export function webSocket(url: string | readonly string[], token: string, /** @internal */ fileAt?: FileAt): Connect {
  return inTurn(url, token, (daemon, events) => dial(daemon, events, fileAt)).connect;
}

/**
 * A daemon at `http://…` over requests and Server-Sent Events, by a token. Addresses as for `webSocket`. To connect rejects with
 * `Refused` where the token is not good. A browser has six connections to a daemon without TLS, and each session takes one.
 */
export function overHttp(url: string | readonly string[], token: string, /** @internal */ fileAt?: FileAt): Connect {
  const { connect, daemon } = inTurn(url, token, async (daemon, events) => {
    await daemon.ask("GET", "/v1/me", undefined, DIALS);
    return new Requests(daemon, events, fileAt);
  });
  connect.create = async ({ agent_id: agent, ...options }) => (await daemon().ask("POST", "/v1/sessions", { agent, options })).id;
  return connect;
}

// The first of the addresses that answers, from the one behind the last on; and which that was.
function inTurn(url: string | readonly string[], token: string, dial: (daemon: Daemon, events: PipeEvents) => Promise<Pipe>) {
  const daemons = daemonsOf(url, token);
  let next = 0;
  const daemon = () => daemons[(next + daemons.length - 1) % daemons.length]!;
  const connect: Connect = async (events) => {
    for (let left = daemons.length; ; ) {
      next++;
      try {
        return await dial(daemon(), events);
      } catch (error) {
        if (--left === 0) throw error;
      }
    }
  };
  connect.others = daemons.length > 1;
  connect.file = (session, entry) => daemon().file(session, entry);
  return { connect, daemon };
}

function daemonsOf(url: string | readonly string[], token: string): readonly Daemon[] {
  const urls = typeof url === "string" ? [url] : url;
  if (urls.length === 0) throw new Error("there is no address in the list");
  return urls.map((each) => new Daemon(each, token));
}

function dial(daemon: Daemon, events: PipeEvents, fileAt: FileAt | undefined): Promise<Pipe> {
  return new Promise((resolve, reject) => {
    const address = new URL("/v1/pipe", daemon.url);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = new WebSocket(address);
    let isOpen = false;
    const fences = new Map<string, () => void>(); // by what their pong holds
    const fail = (why: string) => (clearTimeout(late), reject(new Error(why)));
    const late = setTimeout(() => (fail(`${address.host} does not answer`), socket.close()), DIALS);
    socket.onerror = () => isOpen || fail(`no connection to ${address.host}`);
    socket.onclose = ({ reason }) => (isOpen ? events.closed(reason || "the WebSocket was closed") : fail(reason));
    socket.onmessage = ({ data }) => {
      for (const line of String(data).split("\n")) {
        const nonce = [...fences.keys()].find((nonce) => line.includes(nonce));
        if (nonce === undefined) line && events.line(line);
        else fences.get(nonce)!();
      }
    };
    const say = (line: string) => void (socket.readyState === WebSocket.OPEN && socket.send(line));
    // Files go by requests, and so does their input: behind what was said before, and before what is said later.
    const requests = new Requests(daemon, { line: events.line, closed: () => socket.close() }, fileAt);
    const withFiles = new InOrder();
    const passed = async () => {
      const nonce = crypto.randomUUID();
      await new Promise<void>((passed) => {
        fences.set(nonce, passed);
        say(JSON.stringify({ type: "ping", session_id: "", nonce }));
      });
      fences.delete(nonce);
    };
    const send: Pipe["send"] = (line, files = []) => {
      if (files.length === 0 && withFiles.isEmpty) return say(line);
      const message = JSON.parse(line);
      const id = message.session_id;
      if (files.length > 0) withFiles.add(id, async () => (await passed(), await requests.say(message, files)));
      else if (withFiles.has(id)) withFiles.add(id, () => say(line));
      else say(line);
    };
    socket.onopen = () => {
      isOpen = true;
      clearTimeout(late);
      socket.send(JSON.stringify({ type: "auth", token: daemon.token }));
      resolve({ send, close: () => socket.close() });
    };
  });
}

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
  const daemons = daemonsOf(url, token);
  let after = options.after ?? 0;
  for (let since = Date.now(), wait = 50, at = 0; ; wait = Math.min(wait * 2, 2000), at++) {
    let isOpen = false; // then it has just been lost
    try {
      for await (const text of daemons[at % daemons.length]!.entries(session, after, () => (isOpen = true), signal)) {
        wait = 50;
        const entry = JSON.parse(text) as Entry;
        if (entry.seq === undefined || entry.seq <= after) continue;
        after = entry.seq;
        yield entry;
      }
      if (!isOpen) return; // it is closed, and has no more entries
      since = Date.now();
    } catch (error) {
      if (isOpen) since = Date.now();
      if (signal?.aborted || (error instanceof Refused && error.isFinal) || Date.now() - since > retryFor) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}
