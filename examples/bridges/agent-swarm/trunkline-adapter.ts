// trunkline as a harness provider of agent-swarm: each task is one session of an agent that trunkline runs.
import { Client, spawned, type Connect, type OpenOptions } from "@trunkline/sdk/client";
import { TrunklineSession } from "./session.js";
import type { ProviderAdapter, ProviderSession, ProviderSessionConfig, TrunklineOptions } from "./types.js";

const SERVE = ["serve", "--session-may", "cwd,env,mcp_servers,extra_args"];

export class TrunklineAdapter implements ProviderAdapter {
  readonly name: string;
  readonly #options: TrunklineOptions;
  readonly #commands = new Map<string, string>(); // as the agent has told to write them

  constructor(options: TrunklineOptions = {}) {
    this.name = options.name ?? "trunkline";
    this.#options = options;
  }

  /** Returns at once. Events and the result say what goes wrong. */
  async createSession(config: ProviderSessionConfig): Promise<ProviderSession> {
    return new TrunklineSession(config, this.#options, this.#commands);
  }

  /** Whether the agent goes on with earlier sessions. One that has lost this one says so when it is resumed. */
  async canResume(sessionId: string): Promise<boolean> {
    if (sessionId === "") return false;
    const client = await Client.connect(relayOf(this.#options, undefined, console.error)).catch(() => undefined);
    const agents = (await client?.agents().catch(() => [])) ?? [];
    client?.close();
    const agent = agents.find(({ id }) => id === this.#options.agent) ?? (agents.length === 1 ? agents[0] : undefined);
    return agent?.capabilities?.resume_attach === true;
  }

  formatCommand(commandName: string): string {
    return this.#commands.get(commandName) ?? (this.#options.commandForm ?? "/{name}").replace("{name}", () => commandName);
  }
}

/** The relay of a session: a child of its own, in the task's folder where that is asked for, or the one that the options name. */
export function relayOf(options: TrunklineOptions, cwd: string | undefined, onStderr: (line: string) => void): Connect {
  const { connect, command = "trunkline", args = SERVE, folder } = options;
  return connect ?? spawned(command, args, { onStderr, ...(folder === "process" && cwd !== undefined ? { cwd } : {}) });
}

/** What a task says of its session. `installed` are MCP servers; the swarm's own is always there. */
export function startOf(
  config: ProviderSessionConfig,
  options: TrunklineOptions,
  installed: Record<string, unknown>,
): OpenOptions {
  const args = [...(config.additionalArgs ?? [])];
  const at = args.indexOf("--resume"); // so the swarm hands a parent's session to Claude
  const [, parent] = at < 0 ? [] : args.splice(at, 2);
  const resumed = config.resumeSessionId || parent;
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
    ...(config.systemPrompt && options.systemPromptIn !== "prompt" ? { system_prompt: config.systemPrompt } : {}),
    ...(config.iteration === undefined ? {} : { iteration: config.iteration }),
    ...(config.env ? { env: config.env } : {}),
    ...(args.length > 0 ? { extra_args: args } : {}),
    ...(resumed ? { resume: { native_session_id: resumed } } : {}),
  };
}
