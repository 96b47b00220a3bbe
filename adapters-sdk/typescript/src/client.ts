/**
 * Drive agents from Node: sessions over a spawned `trunkline serve`, the daemon's socket, its WebSocket, or HTTP.
 *
 * @module
 */
import { spawn, type ChildProcess } from "node:child_process";
import { statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { connect as dial } from "node:net";
import { basename, resolve as absolute } from "node:path";
import type { Readable } from "node:stream";
import * as network from "./browser.js";
import { LARGEST } from "./daemon.js";
import { fileTypeOf, regular } from "./files.js";
import type { Connect, GivenFile, Pipe, PipeEvents } from "./hub.js";
import { Lines } from "./lines.js";
import type { FileOutputMessage } from "./types.js";

export { Client, eventsOf, Refused } from "./browser.js";
export type { AttachOptions, ClientOptions, Connect, Conversation, Done, Entry, EventsOptions, GivenFile, Listening } from "./browser.js";
export type { OpenOptions, PermissionAnswer, Pipe, PipeEvents, QuestionAnswer, TurnOptions } from "./browser.js";

const KILL_AFTER = 6000; // milliseconds; a relay ends by itself within four seconds
const NOISE = { tooLong: () => {} };

function read(stream: Readable, events: Pick<PipeEvents, "line">): void {
  const lines = new Lines({ line: (text) => events.line(text), ...NOISE });
  stream.on("data", (chunk: Buffer) => lines.feed(chunk));
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
export function webSocket(url: string | readonly string[], token: string): Connect {
  return network.webSocket(url, token, fileAt);
}

/** A daemon over HTTP, as in `@trunkline/sdk/browser`; files by their paths, too. */
export function overHttp(url: string | readonly string[], token: string): Connect {
  return network.overHttp(url, token, fileAt);
}

async function fileAt(path: string): Promise<File> {
  if ((await regular(path)) > LARGEST) throw new Error(`it is over ${LARGEST} bytes`);
  return new File([await readFile(path)], basename(path), { type: fileTypeOf(path) });
}

export interface SpawnOptions {
  /** Where it is started: here. */
  cwd?: string;
  /** Its environment: that of this process. */
  env?: NodeJS.ProcessEnv;
  /** Gets each line of its stderr, which else is this process's. */
  onStderr?: (line: string) => void;
  /** Gets the process once it runs: its id, and a way to end it from outside. */
  onSpawn?: (child: ChildProcess) => void;
}

/** A relay as a child, such as `spawned("trunkline", ["serve"])`. Its end is that of the sessions; one that does not end is killed. */
export function spawned(command: string, args: readonly string[] = [], options: SpawnOptions = {}): Connect {
  const { onStderr, onSpawn, ...where } = options;
  const connect: Connect = (events) =>
    new Promise((resolve, reject) => {
      const child = spawn(command, args, { ...where, stdio: ["pipe", "pipe", onStderr ? "pipe" : "inherit"] });
      child.on("error", (error) => (reject(error), events.closed(error.message)));
      child.on("close", (status, signal) => events.closed(`${command} ended with ${signal ?? `status ${status}`}`));
      child.stdin!.on("error", () => {}); // a child that is gone says so by `close`
      read(child.stdout!, events);
      if (onStderr) read(child.stderr!, { line: onStderr });
      const ended = new Promise<void>((resolve) => child.on("exit", () => resolve()));
      const close = () => {
        child.stdin!.end();
        const late = setTimeout(() => child.kill("SIGKILL"), KILL_AFTER);
        return ended.finally(() => clearTimeout(late));
      };
      const send = sender((line) => void child.stdin!.write(line + "\n"), events);
      child.on("spawn", () => (onSpawn?.(child), resolve({ send, close })));
    });
  connect.once = true;
  connect.file = readHere;
  return connect;
}

/** The socket of a daemon, or of `trunkline serve --listen unix:PATH`. */
export function unixSocket(path: string): Connect {
  const connect: Connect = (events) =>
    new Promise((resolve, reject) => {
      const socket = dial(path);
      socket.on("error", reject);
      socket.on("close", () => events.closed("the socket was closed"));
      read(socket, events);
      const send = sender((line) => void socket.write(line + "\n"), events);
      socket.on("connect", () => resolve({ send, close: () => void socket.destroy() }));
    });
  connect.file = readHere;
  return connect;
}
