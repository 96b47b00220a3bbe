// Where the events of a task go: its log file, then its listeners. Nothing passes here with a secret in it.
import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { scrubSecrets, secretsOf } from "./secret-scrubber.js";
import type { ProviderEvent, ProviderSessionConfig } from "./types.js";

type Listener = (event: ProviderEvent) => void;

const EARLY = 10_000; // events that wait for the first listener; the log file has those beyond it

export class Sink {
  readonly #secrets: [string, string][];
  readonly #listeners: Listener[] = [];
  #early: ProviderEvent[] | undefined = [];
  #log: number | undefined;

  constructor({ env, apiKey }: ProviderSessionConfig) {
    this.#secrets = secretsOf({ ...env, API_KEY: apiKey });
  }

  /** Opens the log file, to add to it. Throws where that fails. */
  open(path: string): void {
    mkdirSync(dirname(path), { recursive: true });
    this.#log = openSync(path, "a");
  }

  listen(listener: Listener): void {
    this.#listeners.push(listener);
    const early = this.#early ?? [];
    this.#early = undefined;
    for (const event of early) listener(event);
  }

  emit(event: ProviderEvent): void {
    const clean = this.clean(event);
    this.#write(JSON.stringify({ ...clean, timestamp: new Date().toISOString() }) + "\n");
    if (this.#early && this.#early.length < EARLY) this.#early.push(clean);
    for (const listener of this.#listeners) {
      try {
        listener(clean);
      } catch (error) {
        console.error(error); // one that fails takes nothing from the others
      }
    }
  }

  warn(what: string): void {
    this.emit({ type: "raw_stderr", content: `trunkline: ${what}` });
  }

  /** The same with secrets hidden, in each of its texts. */
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
      this.close(); // the task goes on, and says that its log does not
      this.warn(`the log file ends here: ${String(error)}`);
    }
  }
}
