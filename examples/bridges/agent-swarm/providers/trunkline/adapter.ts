// trunkline as a harness provider of agent-swarm: each task is one session of an agent that trunkline runs.
import { Client, spawned, type Connect, type OpenOptions } from "@trunkline/sdk/client";
import type { ProviderAdapter, ProviderSession, ProviderSessionConfig } from "../types.js";
import type { TaskConfig, Traits } from "./contract.js";
import { hostOf, type TrunklineOptions } from "./options.js";
import { TrunklineSession } from "./session.js";

export class TrunklineAdapter implements ProviderAdapter {
  readonly name: string;
  readonly traits: Traits;
  readonly #options: TrunklineOptions;
  readonly #commands = new Map<string, string>(); // in the agent's form

  constructor(options: TrunklineOptions = {}) {
    this.name = options.name ?? "trunkline";
    this.traits = {
      hasMcp: true,
      nativeSkillDiscovery: false,
      hasLocalEnvironment: true,
      steerModes: ["steer", "queue"],
      ...options.traits,
    };
    this.#options = options;
  }

  /** Returns at once. Failures are events, and the result. */
  async createSession(config: ProviderSessionConfig): Promise<ProviderSession> {
    return new TrunklineSession(config, this.#options, this.#commands);
  }

  /** Whether the agent resumes earlier sessions. Whether it still has this one shows when it is resumed. */
  async canResume(sessionId: string): Promise<boolean> {
    if (sessionId === "") return false;
    const client = await Client.connect(relayOf(this.#options, undefined, console.error)).catch(() => undefined);
    const agents = (await client?.agents().catch(() => [])) ?? [];
    client?.close();
    const wanted = this.#options.agent ?? process.env["TRUNKLINE_AGENT"];
    const agent = agents.find(({ id }) => id === wanted) ?? (agents.length === 1 ? agents[0] : undefined);
    return agent?.capabilities?.resume_attach === true;
  }

  formatCommand(commandName: string): string {
    return this.#commands.get(commandName) ?? (this.#options.commandForm ?? "/{name}").replace("{name}", () => commandName);
  }
}

/** The relay of a session: a child of its own, in the task's folder if the options ask for that, or the one that they name. */
export function relayOf(options: TrunklineOptions, cwd: string | undefined, onStderr: (line: string) => void): Connect {
  const { command, args } = hostOf(options);
  const inFolder = options.folder === "process" && cwd !== undefined ? { cwd } : {};
  return options.connect ?? spawned(command, args, { onStderr, ...inFolder });
}

/** The options of a task's session. `installed` are MCP servers; the swarm's own is always among them. */
export function startOf(config: TaskConfig, options: TrunklineOptions, installed: Record<string, unknown>): OpenOptions {
  const args = [...(config.additionalArgs ?? [])];
  const at = args.indexOf("--resume"); // the swarm of 1.70 hands a parent's session to Claude in this way
  const [, parent] = at < 0 ? [] : args.splice(at, 2);
  const resumed = config.resumeSessionId || parent;
  const effort = config.reasoningEffort && (options.efforts?.[config.reasoningEffort] ?? config.reasoningEffort);
  const headers = {
    Authorization: `Bearer ${config.apiKey}`,
    "X-Agent-ID": config.agentId,
    "X-Source-Task-Id": config.taskId,
  };
  const swarm = { type: "http", url: `${config.apiUrl.replace(/\/+$/, "")}/mcp`, headers };
  return {
    task_id: config.taskId,
    mcp_servers: { ...installed, "agent-swarm": swarm },
    ...(config.role ? { role: config.role } : {}),
    ...(options.folder === "process" && !options.connect ? {} : { cwd: config.cwd }),
    ...(config.model ? { model: config.model } : {}),
    ...(effort ? { reasoning_effort: effort } : {}),
    ...(config.systemPrompt && options.systemPromptIn !== "prompt" ? { system_prompt: config.systemPrompt } : {}),
    ...(config.iteration === undefined ? {} : { iteration: config.iteration }),
    ...(config.env ? { env: config.env } : {}),
    ...(args.length > 0 ? { extra_args: args } : {}),
    ...(resumed ? { resume: { native_session_id: resumed } } : {}),
  };
}
