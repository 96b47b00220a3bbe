/**
 * Drive agents from Node: sessions over a spawned `trunkline serve`, the daemon's socket, or its WebSocket.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { connect as dial } from "node:net";
import type { Readable } from "node:stream";
import type { Connect, PipeEvents } from "./hub.js";
import { Lines } from "./lines.js";

export { Client } from "./hub.js";
export type { ClientOptions, Connect, Listening, OpenOptions, PermissionAnswer, Pipe, PipeEvents } from "./hub.js";
export type { Conversation, Done, Entry } from "./conversation.js";
export { eventsOf, webSocket } from "./browser.js";
export type { EventsOptions } from "./browser.js";

const KILL_AFTER = 6000; // milliseconds; a relay ends by itself within four seconds
const NOISE = { tooLong: () => {} };

function read(stream: Readable, events: Pick<PipeEvents, "line">): void {
  const lines = new Lines({ line: (text) => events.line(text), ...NOISE });
  stream.on("data", (chunk: Buffer) => lines.feed(chunk));
  stream.on("end", () => lines.finish());
}

export interface SpawnOptions {
  /** Where it is started: here. */
  cwd?: string;
  /** Its environment: that of this process. */
  env?: NodeJS.ProcessEnv;
  /** Gets each line of its stderr, which else is this process's. */
  onStderr?: (line: string) => void;
}

/** A relay as a child, such as `spawned("trunkline", ["serve"])`. Its end is that of the sessions; one that does not end is killed. */
export function spawned(command: string, args: readonly string[] = [], options: SpawnOptions = {}): Connect {
  const { onStderr, ...where } = options;
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
      child.on("spawn", () => resolve({ send: (line) => void child.stdin!.write(line + "\n"), close }));
    });
  connect.once = true;
  return connect;
}

/** The socket of a daemon, or of `trunkline serve --listen unix:PATH`. */
export function unixSocket(path: string): Connect {
  return (events) =>
    new Promise((resolve, reject) => {
      const socket = dial(path);
      socket.on("error", reject);
      socket.on("close", () => events.closed("the socket was closed"));
      read(socket, events);
      socket.on("connect", () => resolve({ send: (line) => void socket.write(line + "\n"), close: () => void socket.destroy() }));
    });
}
