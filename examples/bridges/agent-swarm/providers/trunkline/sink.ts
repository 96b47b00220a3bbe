// The way of a task's events: to its log file, then to its listeners. No secret passes here.
import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { scrubSecrets } from "../../utils/secret-scrubber.js";
import type { ProviderEvent, ProviderSessionConfig } from "../types.js";
import type { TaskEvent } from "./contract.js";
import { longEnough, secretsOf } from "./secrets.js";

type Listener = (event: ProviderEvent) => void;

const MAX_EARLY_EVENTS = 10_000; // that wait for the first listener; the log file has those beyond it

export class Sink {
  readonly #secrets: [string, string][];
  readonly #listeners: Listener[] = [];
  #early: ProviderEvent[] | undefined = [];
  #log: number | undefined;

  constructor({ env, apiKey }: ProviderSessionConfig) {
    this.#secrets = secretsOf({ ...env, API_KEY: apiKey });
  }

  /** Opens the log file, to add to it. Throws when that fails. */
  open(path: string): void {
    mkdirSync(dirname(path), { recursive: true });
    this.#log = openSync(path, "a");
  }

  /** Hides these values, too, by their names. */
  hide(values: readonly [string, string][]): void {
    this.#secrets.push(...longEnough(values));
    this.#secrets.sort(([, one], [, other]) => other.length - one.length);
  }

  listen(listener: Listener): void {
    this.#listeners.push(listener);
    const early = this.#early ?? [];
    this.#early = undefined;
    for (const event of early) listener(event);
  }

  emit(event: TaskEvent): void {
    const clean = this.clean(event);
    this.#write(JSON.stringify({ ...clean, timestamp: new Date().toISOString() }) + "\n");
    const given = clean as ProviderEvent;
    if (this.#early && this.#early.length < MAX_EARLY_EVENTS) this.#early.push(given);
    for (const listener of this.#listeners) {
      try {
        listener(given);
      } catch (error) {
        console.error(error); // one that fails takes nothing from the others
      }
    }
  }

  warn(text: string): void {
    this.emit({ type: "raw_stderr", content: `trunkline: ${text}` });
  }

  /** The same value with secrets hidden in each of its texts. */
  clean<T>(value: T): T {
    if (typeof value === "string") return this.#scrub(value) as T;
    if (Array.isArray(value)) return value.map((element) => this.clean(element)) as T;
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, this.clean(member)])) as T;
  }

  close(): void {
    if (this.#log !== undefined) closeSync(this.#log);
    this.#log = undefined;
  }

  #scrub(text: string): string {
    for (const [name, value] of this.#secrets) text = text.replaceAll(value, `[REDACTED:${name}]`);
    return scrubSecrets(text);
  }

  #write(line: string): void {
    if (this.#log === undefined) return;
    try {
      writeSync(this.#log, line);
    } catch (error) {
      this.close(); // the task continues without its log, and the listeners learn it
      this.warn(`the log file ends here: ${String(error)}`);
    }
  }
}
