// How a run ends before its time: the turn is stopped, then the host is closed. One that does not end is killed.
import type { ChildProcess } from "node:child_process";
import type { Client, Conversation } from "@trunkline/sdk/client";

const CLOSING = 5; // seconds, in which a host ends itself and its agents once its input has ended
const LONGEST = 2 ** 31 - 1; // milliseconds of a timer

export type StopReason = "timeout" | "cancelled";

/**
 * Ends a run within its grace. Stands for the host in the server's `runningProcesses`: a signal from there reaches the turn by
 * the protocol, and so ends it even when the command is only a client of a daemon.
 */
export class RunStopper {
  reason: StopReason | undefined;
  child: ChildProcess | undefined;
  client: Client | undefined;
  session: Conversation | undefined;
  readonly #graceSec: number;
  #timers: NodeJS.Timeout[] = [];

  constructor(graceSec: number) {
    this.#graceSec = graceSec;
  }

  // The server reads these two of a child process.
  get killed(): boolean {
    return this.reason !== undefined;
  }

  kill(): boolean {
    this.stop("cancelled");
    return true;
  }

  stop(reason: StopReason): void {
    if (this.reason) return;
    this.reason = reason;
    this.session?.stop();
    if (this.session) this.after(Math.max(this.#graceSec - CLOSING, this.#graceSec / 2), () => void this.close());
    else void this.close();
  }

  /** Calls back after some seconds, unless the run has ended. */
  after(seconds: number, callback: () => void): void {
    this.#timers.push(setTimeout(callback, Math.min(seconds * 1000, LONGEST)));
  }

  /** Closes the session and the host. Resolves when the host has ended, with all that it started. */
  async close(): Promise<void> {
    this.session?.close();
    if (this.client) return this.client.close();
    this.child?.kill();
    this.after(CLOSING, () => this.child?.kill("SIGKILL"));
  }

  /** Ends the run's timers and its host. */
  async finish(): Promise<void> {
    await this.close().finally(() => this.#timers.forEach(clearTimeout));
  }
}
