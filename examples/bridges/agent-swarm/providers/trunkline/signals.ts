// The signals between a task and the swarm's API that are the adapter's affair: that the session lives, and that it is cancelled.
import type { ProviderSessionConfig } from "../types.js";

const HEARTBEAT = 30_000; // milliseconds; the swarm gives up a session that has had none for 15 minutes
const ACTIVITY = 5_000; // milliseconds between two reports of activity
const CANCEL_CHECK = 500; // milliseconds between two questions
const TIMEOUT = 10_000; // milliseconds of a request

export class Signals {
  readonly #config: ProviderSessionConfig;
  readonly #cancel: () => void;
  readonly #last = { activity: 0, cancel: 0 };
  #beating: ReturnType<typeof setInterval> | undefined;

  constructor(config: ProviderSessionConfig, cancel: () => void) {
    this.#config = config;
    this.#cancel = cancel;
  }

  /** Reports the session as alive from now on, whether its agent is silent or not: the host has timeouts for that. */
  start(): void {
    this.#beat();
    this.#beating = setInterval(() => this.#beat(), HEARTBEAT);
    this.#beating.unref();
  }

  /** An entry came: the agent is active. At a tool call the swarm is asked whether the task is cancelled. */
  note(type: string): void {
    if (this.#isDue("activity", ACTIVITY)) void this.#request("PUT", `/api/agents/${this.#agent}/activity`);
    if (type === "tool.start" && this.#isDue("cancel", CANCEL_CHECK)) void this.#checkCancelled();
  }

  stop(): void {
    clearInterval(this.#beating);
  }

  get #agent(): string {
    return encodeURIComponent(this.#config.agentId);
  }

  get #task(): string {
    return encodeURIComponent(this.#config.taskId);
  }

  #beat(): void {
    void this.#request("PUT", `/api/active-sessions/heartbeat/${this.#task}`);
  }

  #isDue(name: "activity" | "cancel", every: number): boolean {
    const now = Date.now();
    if (now - this.#last[name] < every) return false;
    this.#last[name] = now;
    return true;
  }

  async #checkCancelled(): Promise<void> {
    const answer = await this.#request("GET", `/cancelled-tasks?taskId=${this.#task}`);
    const { cancelled } = ((await answer?.json().catch(() => undefined)) ?? {}) as { cancelled?: { id?: string }[] };
    if (Array.isArray(cancelled) && cancelled.some(({ id }) => id === this.#config.taskId)) this.#cancel();
  }

  // A signal that is not delivered is no failure of the task: the next one is sent all the same.
  #request(method: string, path: string): Promise<Response | undefined> {
    const { apiUrl, apiKey, agentId } = this.#config;
    const headers = { Authorization: `Bearer ${apiKey}`, "X-Agent-ID": agentId };
    const request = fetch(`${apiUrl.replace(/\/+$/, "")}${path}`, { method, headers, signal: AbortSignal.timeout(TIMEOUT) });
    return request.then((answer) => (answer.ok ? answer : undefined)).catch(() => undefined);
  }
}
