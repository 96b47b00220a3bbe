// How the bridge is set up.
import type { Connect, PermissionAnswer } from "@trunkline/sdk/client";
import type { PermissionRequestMessage } from "@trunkline/sdk";
import type { ProviderSessionConfig } from "../types.js";
import type { Effort, PricedProvider, Traits } from "./contract.js";

const SERVE = ["serve", "--session-may", "cwd,env,mcp_servers,extra_args"];

export interface TrunklineOptions {
  /** The value of `HARNESS_PROVIDER`: `trunkline`. */
  name?: string;
  /** The agent, by its id in trunkline's configuration. Absent: `$TRUNKLINE_AGENT`, else the default one. */
  agent?: string;
  /** The program that is started for each task: `trunkline`. */
  command?: string;
  /** Its arguments: `serve`, with what a task sets of its session allowed. */
  args?: string[];
  /** Another relay, such as `unixSocket(path)` of a daemon. `command` and `args` do not count then. */
  connect?: Connect;
  /**
   * Which one works in the task's folder: the agent's `session`, the default, or the relay's `process`, for an adapter that knows
   * no folders. With `connect` it is always the session.
   */
  folder?: "session" | "process";
  /** Where the system prompt goes: `option`, the default, or before the `prompt`, for an agent that takes none. */
  systemPromptIn?: "option" | "prompt";
  /** How a command is written when the agent has not reported it: `/{name}`. */
  commandForm?: string;
  /** Traits that differ from the default: an agent on this machine, with MCP, whose skills the system prompt lists. */
  traits?: Partial<Traits>;
  /** The agent's words for the swarm's levels of effort, such as `{ off: "none" }`: the same words. */
  efforts?: Partial<Record<Effort, string>>;
  /** The provider by whose prices the swarm counts. Absent: `claude` for Anthropic's models, `codex` for OpenAI's. */
  pricedAs?: PricedProvider;
  /** The MCP servers of a task by name, besides the swarm's own. Absent: the servers that the swarm's API lists as installed. */
  mcpServers?: (config: ProviderSessionConfig) => Promise<Record<string, unknown>>;
  /** Answers permissions. Absent: each is denied. */
  onPermission?: (
    request: PermissionRequestMessage,
    config: ProviderSessionConfig,
  ) => PermissionAnswer | Promise<PermissionAnswer>;
}

/** The command line of the host. */
export function hostOf({ command = "trunkline", args = SERVE }: TrunklineOptions): { command: string; args: readonly string[] } {
  return { command, args };
}
