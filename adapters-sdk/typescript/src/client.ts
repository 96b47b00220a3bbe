/**
 * Drive agents from Node: sessions over a spawned `trunkline serve`, the daemon's socket, its WebSocket, or HTTP.
 *
 * @module
 */
import { spawn, type ChildProcess } from "node:child_process";
import { statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { request } from "node:http";
import { connect as dial } from "node:net";
import { basename, resolve as absolute } from "node:path";
import { Readable } from "node:stream";
import * as network from "./browser.js";
import { Daemon, DIALS, LARGEST, MAX_ENTRY, type Fetch, type NetworkOptions } from "./daemon.js";
import { AnswerTooLarge, CommandEnded, Unreachable } from "./errors.js";
import { fileTypeOf, regular } from "./files.js";
import type { Connect, GivenFile, Pipe, PipeEvents } from "./hub.js";
import { Lines } from "./lines.js";
import type { FileOutputMessage } from "./types.js";
import { openSocket } from "./websocket.js";

export { AnswerTooLarge, Client, ClientClosed, ClientError, CommandEnded, eventsOf, ProtocolMismatch, Refused } from "./browser.js";
export { RequestSettled, SessionEnded, SessionTable, Unreachable, UnsupportedAbility } from "./browser.js";
export type * from "./browser.js";

const KILL_AFTER = 6000; // milliseconds; a relay ends by itself within four seconds

// Reads lines, up to the first one over the bound: `broken` gets its error.
function read(stream: Readable, line: (text: string) => void, broken: (error: Error) => void): void {
  let isBroken = false;
  const exceeds = () => {
    isBroken = true;
    broken(new AnswerTooLarge("a line", MAX_ENTRY));
  };
  const deliver = (text: string) => void (isBroken || line(text));
  const lines = new Lines({ line: deliver, short: deliver, tooLong: () => isBroken || exceeds(), exceeds }, MAX_ENTRY);
  stream.on("data", (chunk: Buffer) => isBroken || lines.feed(chunk));
  stream.on("end", () => lines.finish());
}

/** Writes lines, and before an input its files: the reader is on this machine, and gets their paths. */
function sender(write: (line: string) => void, events: PipeEvents): Pipe["send"] {
  return (line, files = []) => {
    try {
      const { session_id } = files.length > 0 ? JSON.parse(line) : {};
      for (const file of files.map(announced)) write(JSON.stringify({ type: "file.input", session_id, ...file }));
    } catch (error) {
      const { session_id, turn_id } = JSON.parse(line);
      const failure = { category: "file_refused", message: (error as Error).message };
      return events.line(JSON.stringify({ type: "turn.complete", session_id, turn_id, status: "failed", error: failure }));
    }
    write(line);
  };
}

function announced(file: GivenFile): object {
  if (typeof file !== "string") throw new Error(`${file.name}: a host of this machine reads files by their paths`);
  const found = statSync(file);
  if (!found.isFile()) throw new Error(`${file} is not a regular file`);
  return { file_name: basename(file), file_mime_type: fileTypeOf(file), file_path: absolute(file), size: found.size };
}

async function readHere(_: string, { file_path }: FileOutputMessage): Promise<Uint8Array> {
  await regular(file_path);
  return new Uint8Array(await readFile(file_path));
}

/** The WebSocket of a daemon, as in `@trunkline/sdk/browser`; files by their paths, too. */
export function webSocket(url: string | readonly string[], token: string, times: NetworkOptions = {}): Connect {
  return network.webSocketBy(openSocket, url, token, times, fileAt);
}

/** A daemon over HTTP, as in `@trunkline/sdk/browser`; files by their paths, too. */
export function overHttp(url: string | readonly string[], token: string, times: NetworkOptions = {}): Connect {
  return network.overHttp(url, token, times, fileAt);
}

async function fileAt(path: string): Promise<File> {
  if ((await regular(path)) > LARGEST) throw new Error(`it is over ${LARGEST} bytes`);
  return new File([await readFile(path)], basename(path), { type: fileTypeOf(path) });
}

export interface SpawnOptions {
  /** The folder in which it is started: the current one. */
  cwd?: string;
  /** Its environment: that of this process. */
  env?: NodeJS.ProcessEnv;
  /** Gets each line of its stderr, which otherwise goes to the stderr of this process. */
  onStderr?: (line: string) => void;
  /** Gets the process once it runs: its id, and a way to end it from outside. */
  onSpawn?: (child: ChildProcess) => void;
}

/**
 * A relay as a child, such as `spawned("trunkline", ["serve", "--journal", "sessions"])`. If it ends it is started again, and
 * sessions of its journal continue; without a journal they are lost. It is not started again after the status 2. When the client
 * is closed, one that does not end is killed.
 */
export function spawned(command: string, args: readonly string[] = [], options: SpawnOptions = {}): Connect {
  const { onStderr, onSpawn, ...where } = options;
  const connect: Connect = (events) =>
    new Promise((resolve, reject) => {
      const child = spawn(command, args, { ...where, stdio: ["pipe", "pipe", onStderr ? "pipe" : "inherit"] });
      child.on("error", (cause: NodeJS.ErrnoException) => {
        reject(new CommandEnded(command, cause.code === "ENOENT" ? 127 : 126, undefined, { cause }));
      });
      child.on("close", (status, signal) => events.closed(new CommandEnded(command, status ?? undefined, signal ?? undefined)));
      child.stdin!.on("error", () => {}); // `close` reports the end of a child
      read(child.stdout!, events.line, (error) => {
        events.closed(error);
        child.stdout!.destroy();
        child.kill("SIGKILL");
      });
      if (onStderr) read(child.stderr!, onStderr, () => {});
      const ended = new Promise<void>((resolve) => child.on("exit", () => resolve()));
      const close = () => {
        child.stdin!.end();
        const late = setTimeout(() => child.kill("SIGKILL"), KILL_AFTER);
        return ended.finally(() => clearTimeout(late));
      };
      const send = sender((line) => void child.stdin!.write(line + "\n"), events);
      child.on("spawn", () => (onSpawn?.(child), resolve({ send, close })));
    });
  connect.isChild = true;
  connect.file = readHere;
  return connect;
}

/** The socket of a daemon, or of `trunkline serve --listen unix:PATH`, which lacks what is no part of the protocol. */
export function unixSocket(path: string): Connect {
  const connect: Connect = (events) =>
    new Promise((resolve, reject) => {
      const socket = dial(path);
      socket.on("error", (cause: NodeJS.ErrnoException) => reject(new Unreachable(`no connection to ${path}: ${cause.code}`, { cause })));
      socket.on("close", () => events.closed(new Unreachable("the socket was closed")));
      read(socket, events.line, (error) => (events.closed(error), socket.destroy()));
      const send = sender((line) => void socket.write(line + "\n"), events);
      socket.on("connect", () => resolve({ send, close: () => void socket.destroy() }));
    });
  connect.file = readHere;
  const daemon = new Daemon("http://localhost", undefined, fetchOver(path), path);
  let isDaemon: boolean | undefined;
  connect.daemon = async () => ((isDaemon ??= await speaksHttp(path)) ? daemon : undefined);
  return connect;
}

// Whether a socket takes requests. A relay ignores the line of one, and answers the ping behind it.
function speaksHttp(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = dial(path);
    const end = (isHttp: boolean) => (socket.destroy(), resolve(isHttp));
    socket.setTimeout(DIALS, () => end(false));
    socket.on("error", (cause: NodeJS.ErrnoException) => reject(new Unreachable(`no connection to ${path}: ${cause.code}`, { cause })));
    socket.on("close", () => reject(new Unreachable(`${path} was closed`)));
    socket.on("connect", () => socket.write('GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n{"type":"ping","session_id":""}\n'));
    socket.on("data", (data: Buffer) => end(data.toString("latin1").startsWith("HTTP/")));
  });
}

// `fetch` over a Unix socket.
function fetchOver(socketPath: string): Fetch {
  return async (url, { method = "GET", headers, signal, body }) => {
    const data = body instanceof Blob ? Buffer.from(await body.arrayBuffer()) : (body as string | undefined);
    const size = data === undefined ? {} : { "Content-Length": Buffer.byteLength(data) };
    return new Promise((resolve, reject) => {
      const asked = { socketPath, path: url.pathname + url.search, method, headers: { ...(headers as object), ...size }, signal: signal ?? undefined };
      const sent = request(asked as object, (answer) => {
        const status = answer.statusCode ?? 502;
        const text = status === 204 || status === 304 ? null : (Readable.toWeb(answer) as ReadableStream<Uint8Array>);
        if (text === null) answer.resume();
        const given = Object.entries(answer.headers).flatMap(([name, value]) => [value ?? []].flat().map((each) => [name, each] as [string, string]));
        resolve(new Response(text, { status, headers: given }));
      });
      sent.on("error", reject);
      sent.end(data);
    });
  };
}
