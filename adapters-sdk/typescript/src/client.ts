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
export type { ClientOptions, Connect, OpenOptions, PermissionAnswer, Pipe, PipeEvents } from "./hub.js";
export type { Conversation, Done, Entry } from "./conversation.js";
export { eventsOf, webSocket } from "./browser.js";
export type { EventsOptions } from "./browser.js";

const NOISE = { tooLong: () => {} };

function read(stream: Readable, events: PipeEvents): void {
  const lines = new Lines({ line: (text) => events.line(text), ...NOISE });
  stream.on("data", (chunk: Buffer) => lines.feed(chunk));
  stream.on("end", () => lines.finish());
}

/** A relay as a child, such as `spawned("trunkline", ["serve"])`. Its end is that of the sessions; its stderr is this process's. */
export function spawned(command: string, args: readonly string[] = []): Connect {
  const connect: Connect = (events) =>
    new Promise((resolve, reject) => {
      const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
      child.on("error", (error) => (reject(error), events.closed(error.message)));
      child.on("close", (status, signal) => events.closed(`${command} ended with ${signal ?? `status ${status}`}`));
      child.stdin.on("error", () => {}); // a child that is gone says so by `close`
      read(child.stdout, events);
      child.on("spawn", () => resolve({ send: (line) => void child.stdin.write(line + "\n"), close: () => void child.stdin.end() }));
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
