// Serving an adapter: over a pipe, and as a process.
import { readFileSync } from "node:fs";
import { adapterOf, type Adapter, type Check, type Description, type Handler } from "./adapter.js";
import { Described } from "./adapter.js";
import type { Message } from "./json.js";
import { Link, STOP_GRACE } from "./link.js";
import type { Sink } from "./wire.js";
import { uncaught } from "./work.js";

// In milliseconds. Turns go on for a moment after the end of input, so that `printf … | adapter` is answered.
const LAST_ANSWERS = 100;
const TURNS = { "end of input": 1000, told: 500, "broken pipe": 0 };
const CLOSES = 400;
const WRITES = 300;
const AFTER = 300; // that the process has to end by itself

/** Why serving has ended. */
export type Ended = keyof typeof TURNS;

/** Serves an adapter over one pipe: bytes come by `feed`, and go by the sink. */
export class Server {
  readonly link: Link;
  #end!: (why: Ended) => void;
  readonly #ended = new Promise<Ended>((resolve) => (this.#end = resolve));

  constructor(adapter: Adapter<any>, sink: Sink, grace = STOP_GRACE) {
    this.link = new Link(adapter, sink, grace);
    this.link.wire.onBroken = () => this.end("broken pipe");
  }

  feed(chunk: Buffer): void {
    this.link.wire.gather(() => this.link.lines.feed(chunk), () => this.link.isIdle);
  }

  /** Ends it, soon. Only the first reason counts. */
  end(why: Ended): void {
    if (why === "end of input") this.link.lines.finish();
    this.#end(why);
  }

  /** Resolves within two seconds of the end of input, of a pipe that broke, or of `end`. */
  async run(): Promise<Ended> {
    const why = await this.#ended;
    if (why === "end of input") await this.#idle(LAST_ANSWERS);
    this.link.shut();
    await this.#idle(TURNS[why]);
    this.link.shutNow();
    await this.#idle(CLOSES);
    await within(WRITES, this.link.wire.finish());
    this.link.wire.fail();
    return why;
  }

  #idle(ms: number): Promise<void> {
    if (this.link.isIdle) return Promise.resolve();
    return within(ms, new Promise((resolve) => (this.link.onIdle = resolve)));
  }
}

function within(ms: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** How `serve` serves. */
export interface ServeOptions extends Description {
  /** How long a handler may go on after a stop, in milliseconds: 2000. */
  stopGrace?: number;
}

/**
 * Serves a handler, or an `Adapter`, over stdin and stdout, and resolves when the host is done; the process then ends
 * by itself, with status 0. With a handler the options are those of `Description`.
 *
 * It answers `--describe` and `--diagnose`. It takes stdout for itself: what `console.log` and `process.stdout.write` of
 * anyone print lands on stderr. A promise that no one awaits and that rejects, or an error in a callback, fails the turn that
 * it came from, and not the process. The process ends within two and a half seconds of the end of input, of a broken stdout,
 * of SIGTERM and of SIGINT. All runs on one thread: code that blocks it delays every session, and `pong`, too.
 */
export async function serve<State = unknown>(handler: Handler<State> | Adapter<State>, options: ServeOptions = {}): Promise<void> {
  const { stopGrace, ...description } = options;
  const isHandler = typeof handler === "function";
  if (!isHandler && Object.keys(description).length > 0) throw new TypeError("an adapter describes itself, by describe()");
  const adapter = adapterOf(handler, isHandler ? description : undefined);
  if (await flags(adapter)) return;
  const server = new Server(adapter, takeStdout(() => server.end("broken pipe")), stopGrace);
  process.on("unhandledRejection", uncaught);
  process.on("uncaughtException", uncaught);
  process.stdin.on("data", (chunk: Buffer) => server.feed(chunk));
  process.stdin.on("end", () => server.end("end of input"));
  process.stdin.on("error", () => server.end("end of input"));
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => server.end("told"));
  await server.run();
  process.stdin.destroy();
  setTimeout(() => process.exit(0), AFTER).unref();
}

// What is printed from now on lands on stderr.
function takeStdout(onError: () => void): Sink {
  const { stdout, stderr } = process;
  const write = stdout.write.bind(stdout) as (data: string, encoding: BufferEncoding, done: (error?: Error | null) => void) => boolean;
  stdout.write = stderr.write.bind(stderr);
  stdout.on("error", onError);
  stderr.on("error", () => {}); // no one reads what is printed
  return (data, done) => void write(data, "utf8", done);
}

// Answers `--describe` and `--diagnose` ([ext.8]).
async function flags(adapter: Adapter<any>): Promise<boolean> {
  const flag = process.argv.slice(2).find((argument) => argument === "--describe" || argument === "--diagnose");
  if (flag === undefined) return false;
  const print = (report: Message) => process.stdout.write(JSON.stringify(report, null, 2) + "\n");
  if (flag === "--describe") return print(new Described(adapter.describe?.() ?? {}).printed()), true;
  const checks = await diagnosed(adapter);
  const levels = new Set(checks.map((check) => check.level));
  const status = levels.has("error") ? "fail" : levels.has("warn") ? "warn" : "pass";
  print({ status, checks, tested_at: new Date().toISOString() });
  process.exitCode = status === "fail" ? 1 : 0;
  return true;
}

async function diagnosed(adapter: Adapter<any>): Promise<readonly Check[]> {
  try {
    return (await adapter.diagnose?.()) ?? [{ code: "start", level: "info", message: "the adapter starts" }];
  } catch (error) {
    return [{ code: "diagnose", level: "error", message: String(error) }];
  }
}

/**
 * The agent's configuration, from the file that `ADAPTER_CONFIG` names; nothing where there is none ([process.7]). The
 * variable is removed, so that children do not see it. Ends the process with status 2 where the file cannot be read.
 */
export function config(): unknown {
  const path = process.env["ADAPTER_CONFIG"];
  delete process.env["ADAPTER_CONFIG"];
  if (path === undefined) return undefined;
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    console.error(`the configuration cannot be read: ${String(error)}`);
    return process.exit(2);
  }
}
