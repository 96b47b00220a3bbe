// What an agent reports of itself: its name, its commands, the options that it takes.
import type { Entry } from "@trunkline/sdk/client";
import { known, type Effort, type TaskConfig } from "./contract.js";
import type { TrunklineOptions } from "./options.js";

const MAX_COMMANDS = 1000; // that are remembered
const FACTS: ReadonlySet<string> = new Set(["task_id", "role", "iteration"]); // about the task: no agent has to take them

export class AgentReport {
  /** The members of `session_init` that name the agent. */
  variant: { harnessVariant?: string; harnessVariantMeta?: Record<string, unknown> } = {};
  readonly #config: TaskConfig;
  readonly #options: TrunklineOptions;
  readonly #commands: Map<string, string>;
  #asked: string[] = []; // options of which the agent has not reported whether it takes them
  #takesEffort = false;
  #effort: string | undefined; // in force

  constructor(config: TaskConfig, options: TrunklineOptions, commands: Map<string, string>) {
    this.#config = config;
    this.#options = options;
    this.#commands = commands;
  }

  /** Notes the options of the session's start. */
  asked(names: readonly string[]): void {
    this.#asked = names.filter((name) => !FACTS.has(name));
  }

  take(entry: Extract<Entry, { type: "session.ready" | "session.info" }>): void {
    const { adapter, commands = [], reasoning_effort, options_applied } = entry;
    this.#effort = reasoning_effort ?? this.#effort;
    this.#takesEffort ||= options_applied?.includes("reasoning_effort") ?? false;
    if (adapter?.name) this.variant = { harnessVariant: adapter.name, harnessVariantMeta: known({ version: adapter.version }) };
    for (const { name, text } of commands) if (text && this.#commands.size < MAX_COMMANDS) this.#commands.set(name, text);
  }

  /** The options that were asked for and are not among the applied ones. Each is reported once. */
  notTaken(applied: readonly string[]): string[] {
    const options = this.#asked.filter((name) => !applied.includes(name));
    this.#asked = [];
    return options;
  }

  /** The effort of the task, if the agent applies it; null if it does not, or if the task has none. */
  get appliedEffort(): Effort | null {
    const { reasoningEffort: asked } = this.#config;
    if (asked === undefined || !this.#takesEffort) return null;
    return this.#effort === undefined || this.#effort === (this.#options.efforts?.[asked] ?? asked) ? asked : null;
  }
}
