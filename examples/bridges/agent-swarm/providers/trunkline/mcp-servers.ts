// The MCP servers that are installed for an agent of the swarm, from its API.
import type { ProviderSessionConfig } from "../types.js";

const TIMEOUT = 10_000; // milliseconds

interface InstalledServer {
  name: string;
  transport: string;
  isActive: boolean;
  isEnabled: boolean;
  command?: string;
  /** A list, as JSON. */
  args?: string;
  url?: string;
  /** An object, as JSON. */
  headers?: string;
  resolvedEnv?: Record<string, string>;
  resolvedHeaders?: Record<string, string>;
}

/** The servers by name, in the form of `mcp_servers`. Rejects when the API does not list them. */
export async function installedServers(config: ProviderSessionConfig): Promise<Record<string, unknown>> {
  const { apiUrl, apiKey, agentId } = config;
  const url = `${apiUrl.replace(/\/+$/, "")}/api/agents/${encodeURIComponent(agentId)}/mcp-servers?resolveSecrets=true`;
  const headers = { Authorization: `Bearer ${apiKey}`, "X-Agent-ID": agentId };
  const answer = await fetch(url, { headers, signal: AbortSignal.timeout(TIMEOUT) });
  if (!answer.ok) throw new Error(`${new URL(url).pathname} answered ${answer.status}`);
  const { servers = [] } = (await answer.json()) as { servers?: InstalledServer[] };
  const known = servers.filter(({ isActive, isEnabled }) => isActive && isEnabled).flatMap(entryOf);
  return Object.fromEntries(known);
}

function entryOf(server: InstalledServer): [string, unknown][] {
  const { name, transport, command, url } = server;
  if (transport === "stdio" && command)
    return [[name, { command, args: parsed(server.args, []), env: server.resolvedEnv ?? {} }]];
  if ((transport === "http" || transport === "sse") && url)
    return [[name, { type: transport, url, headers: { ...parsed(server.headers, {}), ...server.resolvedHeaders } }]];
  return [];
}

function parsed<T>(text: string | undefined, otherwise: T): T {
  try {
    return text ? (JSON.parse(text) as T) : otherwise;
  } catch {
    return otherwise; // as the swarm's own adapters do
  }
}

/** The texts below `value`, with the names of their members: environments and headers of servers are secret, whatever their names. */
export function textsOf(value: unknown, name = "mcp_servers"): [string, string][] {
  if (typeof value === "string") return [[name, value]];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([member, inner]) => textsOf(inner, member));
}
