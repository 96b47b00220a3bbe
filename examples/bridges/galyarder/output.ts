// Where the output of a run goes: to `onLog`, in order, and its last part into the result of a run that failed.
import type { Entry } from "@trunkline/sdk/client";
import type { AdapterExecutionContext } from "./types.js";

const TAIL = 16 * 1024; // characters
const WAITING = 1000; // lines of stderr that wait for `onLog`

export class Output {
  stdout = "";
  stderr = "";
  readonly #onLog: AdapterExecutionContext["onLog"];
  #waiting: string[] = [];
  #leftOut = 0;

  constructor(onLog: AdapterExecutionContext["onLog"]) {
    this.#onLog = onLog;
  }

  /** A line of stderr. It goes out with the next entry, or at the end. */
  error(line: string): void {
    if (this.#waiting.length < WAITING) this.#waiting.push(line);
    else this.#leftOut++;
  }

  /** An entry, as a line of stdout; what the agent printed on stderr goes there. Resolves when `onLog` has it. */
  async entry(entry: Entry): Promise<void> {
    if (entry.type === "log" && entry.stream === "stderr") this.error(entry.content.replace(/\n$/, ""));
    await this.flush();
    if (entry.type === "log" && entry.stream === "stderr") return;
    const line = JSON.stringify(entry) + "\n";
    this.stdout = (this.stdout + line).slice(-TAIL);
    await this.#onLog("stdout", line);
  }

  async flush(): Promise<void> {
    const [lines, leftOut] = [this.#waiting, this.#leftOut];
    [this.#waiting, this.#leftOut] = [[], 0];
    if (leftOut > 0) lines.push(`trunkline: ${leftOut} lines of stderr were left out`);
    if (lines.length === 0) return;
    const text = lines.join("\n") + "\n";
    this.stderr = (this.stderr + text).slice(-TAIL);
    await this.#onLog("stderr", text);
  }
}
