/**
 * Drive agents from a browser: sessions over the daemon's WebSocket, or over requests and Server-Sent Events. A page of another
 * site may if `trunkline up --allow-origin` names it.
 *
 * @module
 */
import type { Entry } from "./conversation.js";
import { Daemon, DIALS, MAX_ENTRY, pathOf, type NetworkOptions } from "./daemon.js";
import { AnswerTooLarge, backoff, clientError, isPermanent, sleep, Unreachable } from "./errors.js";
import type { Connect, Pipe, PipeEvents } from "./hub.js";
import { InOrder, Requests, upload, type FileAt } from "./http.js";

export type { AgentRequest, Conversation, Decision, Done, Entry, SentInput, TurnOptions } from "./conversation.js";
export { AnswerTooLarge, ClientClosed, ClientError, CommandEnded, ProtocolMismatch, Refused, RequestSettled } from "./errors.js";
export { SessionEnded, Unreachable, UnsupportedAbility } from "./errors.js";
export { Client } from "./hub.js";
export type { Answer, AttachOptions, CallbackContext, ClientOptions, Connect, ConnectionState, GivenFile, HistoryOptions } from "./hub.js";
export type { HistoryPage, Identity, Listening, OpenOptions, PermissionAnswer, PermissionDecision, Pipe, PipeEvents } from "./hub.js";
export type { QuestionAnswer, QuestionDecision, SearchHit, SearchPage, SessionFilter, SessionListing, UploadedFile, WatchOptions } from "./hub.js";
export type { NetworkOptions } from "./daemon.js";
export { SessionTable } from "./overview.js";
export type { OverviewEvent, OverviewSession, SessionChange, WaitingRequest } from "./overview.js";

/**
 * The WebSocket of a daemon at `http://…`, by a token, which is the first message and in no address. A list has several daemons
 * of one cluster, which are tried in turn; the token is good at each of them.
 */
export function webSocket(url: string | readonly string[], token: string, times: NetworkOptions = {}): Connect {
  return webSocketBy(openSocket, url, token, times);
}

/** The same by another implementation of WebSockets. @internal */
export function webSocketBy(open: OpenSocket, url: string | readonly string[], token: string, times: NetworkOptions, fileAt?: FileAt): Connect {
  return inTurn(url, token, times, fileAt, (daemon, events) => dial(daemon, events, fileAt, open));
}

/**
 * A daemon at `http://…` over requests and Server-Sent Events, by a token. Addresses as for `webSocket`. A browser has six
 * connections to a daemon without TLS, and each session takes one.
 */
export function overHttp(url: string | readonly string[], token: string, times: NetworkOptions = {}, /** @internal */ fileAt?: FileAt): Connect {
  return inTurn(url, token, times, fileAt, async (daemon, events) => new Requests(daemon, events, fileAt));
}

// Opens a pipe to the first address that answers, from the one behind the last on.
function inTurn(
  url: string | readonly string[],
  token: string,
  times: NetworkOptions,
  fileAt: FileAt | undefined,
  dial: (daemon: Daemon, events: PipeEvents) => Promise<Pipe>,
): Connect {
  const daemons = daemonsOf(url, token, times);
  let next = 0;
  const daemon = () => daemons[(next + daemons.length - 1) % daemons.length]!;
  const connect: Connect = async (events) => {
    for (let left = daemons.length; ; ) {
      next++;
      try {
        // A WebSocket does not report why it is refused; a request does.
        await daemon().ask("GET", "/v1/me", { time: DIALS });
        return await dial(daemon(), events);
      } catch (error) {
        if (--left === 0) throw error;
      }
    }
  };
  connect.others = daemons.length > 1;
  connect.creates = true;
  connect.daemon = daemon;
  if (times.silentFor !== undefined) connect.silentFor = times.silentFor;
  connect.upload = (session, file) => upload(daemon(), session, file, fileAt);
  connect.file = (session, entry) => daemon().file(session, entry.sha256 ?? "");
  return connect;
}

function daemonsOf(url: string | readonly string[], token: string, times: NetworkOptions = {}): readonly Daemon[] {
  const urls = typeof url === "string" ? [url] : url;
  if (urls.length === 0) throw new Error("there is no address in the list");
  return urls.map((each) => new Daemon(each, token, undefined, undefined, times));
}

/** Receives what a WebSocket reads. @internal */
export interface SocketEvents {
  opened(): void;
  failed(error: Error): void;
  line(text: string): void;
  closed(error: Error): void;
}

/** Opens a WebSocket. @internal */
export type OpenSocket = (address: URL, events: SocketEvents) => { send(text: string): void; close(): void };

const openSocket: OpenSocket = (address, events) => {
  const socket = new WebSocket(address);
  let isOpen = false;
  const failed = (why: string) => events.failed(new Unreachable(why || `no connection to ${address.host}`));
  socket.onopen = () => ((isOpen = true), events.opened());
  socket.onerror = () => isOpen || failed("");
  socket.onclose = ({ reason }) => (isOpen ? events.closed(new Unreachable(reason || "the WebSocket was closed")) : failed(reason));
  socket.onmessage = ({ data }) => {
    // The browser keeps a message until it is whole: this bounds what is kept of it.
    const text = String(data);
    for (let begin = 0, end; begin < text.length; begin = end + 1) {
      end = text.indexOf("\n", begin);
      if (end < 0) end = text.length;
      if (end - begin > MAX_ENTRY) {
        events.closed(new AnswerTooLarge("a line", MAX_ENTRY, "UTF-16 units"));
        return socket.close();
      }
      if (end > begin) events.line(text.slice(begin, end));
    }
  };
  return { send: (text) => void (socket.readyState === WebSocket.OPEN && socket.send(text)), close: () => socket.close() };
};

function dial(daemon: Daemon, events: PipeEvents, fileAt: FileAt | undefined, open: OpenSocket): Promise<Pipe> {
  return new Promise((resolve, reject) => {
    const address = new URL("/v1/pipe", daemon.url);
    address.protocol = address.protocol.replace("http", "ws");
    const fences = new Map<string, () => void>(); // by the nonce of their pong
    const fail = (error: Error) => (clearTimeout(late), reject(error));
    const late = setTimeout(() => (fail(new Unreachable(`${address.host} does not answer`)), socket.close()), DIALS);
    const line = (text: string) => {
      const nonce = fences.size === 0 ? undefined : [...fences.keys()].find((nonce) => text.includes(nonce));
      if (nonce === undefined) events.line(text);
      else fences.get(nonce)!();
    };
    const opened = () => {
      clearTimeout(late);
      write(JSON.stringify({ type: "auth", token: daemon.token }));
      resolve({ send, close: () => socket.close() });
    };
    const socket = open(address, { opened, failed: fail, line, closed: events.closed });
    const write = (line: string) => socket.send(line);
    // Files go by requests, and so does their input: after earlier messages, and before later ones.
    const requests = new Requests(daemon, { ...events, closed: () => socket.close() }, fileAt);
    const withFiles = new InOrder();
    const passed = async () => {
      const nonce = crypto.randomUUID();
      await new Promise<void>((passed) => {
        fences.set(nonce, passed);
        write(JSON.stringify({ type: "ping", session_id: "", nonce }));
      });
      fences.delete(nonce);
    };
    const send: Pipe["send"] = (line, files = []) => {
      if (files.length === 0 && withFiles.isEmpty) return write(line);
      const message = JSON.parse(line);
      const id = message.session_id;
      if (files.length > 0) withFiles.add(id, async () => (await passed(), await requests.request(message, files)));
      else if (withFiles.has(id)) withFiles.add(id, () => write(line));
      else write(line);
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
 * was cut, or is silent for a minute, is opened again behind the last entry, at the next address if `url` has several. Rejects
 * if the daemon refuses (401, 403, 404) or stays away, and for an entry over 32 Mi UTF-16 units.
 */
export async function* eventsOf(
  url: string | readonly string[],
  session: string,
  options: EventsOptions,
): AsyncGenerator<Entry, void, void> {
  const { token, signal, retryFor = 60_000 } = options;
  const daemons = daemonsOf(url, token);
  let after = options.after ?? 0;
  for (let since = Date.now(), tries = 0, at = 0; ; at++) {
    let isOpen = false; // then it has just been lost
    let failure;
    try {
      const path = `${pathOf(session)}/events?after=${after}`;
      for await (const { data } of daemons[at % daemons.length]!.events(path, () => (isOpen = true), signal)) {
        tries = 0;
        const entry = JSON.parse(data) as Entry;
        if (entry.seq === undefined || entry.seq <= after) continue;
        after = entry.seq;
        yield entry;
      }
      if (!isOpen) return; // it is closed, and has no more entries
      since = Date.now();
    } catch (error) {
      if (isOpen) since = Date.now();
      if (signal?.aborted || isPermanent(error) || Date.now() - since > retryFor) throw error;
      failure = clientError(error);
    }
    await sleep(backoff(tries++, failure), signal);
  }
}
