// Stands for `@galyarder/adapter-utils/server-utils`: there, import that.
import { stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { parseObject } from "./values.js";

export * from "./values.js";

/** Who the agent is, and where the server is, as environment. */
export function buildGalyarderEnv(agent: { id: string; companyId: string }): Record<string, string> {
  const { GALYARDER_API_URL, HOST = "localhost", PORT = "3100" } = process.env;
  return {
    GALYARDER_AGENT_ID: agent.id,
    GALYARDER_COMPANY_ID: agent.companyId,
    GALYARDER_API_URL: GALYARDER_API_URL ?? `http://${HOST}:${PORT}`,
  };
}

/** Fills in `{{path.to.value}}`; what is not there is empty. */
export function renderTemplate(template: string, data: Record<string, unknown>): string {
  return template.replace(/{{\s*([\w.-]+)\s*}}/g, (_, path: string) => {
    let value: unknown = data;
    for (const name of path.split(".")) value = Object.hasOwn(parseObject(value), name) ? parseObject(value)[name] : undefined;
    if (value === undefined || value === null) return "";
    return typeof value === "object" ? JSON.stringify(value) : String(value);
  });
}

export function redactEnvForLogs(env: Record<string, string>): Record<string, string> {
  const isSecret = (name: string) => /(key|token|secret|password|authorization|cookie)/i.test(name);
  return Object.fromEntries(Object.entries(env).map(([name, value]) => [name, isSecret(name) ? "***REDACTED***" : value]));
}

/** Throws where it is not an absolute path of a folder that is there. */
export async function ensureAbsoluteDirectory(cwd: string): Promise<void> {
  if (!isAbsolute(cwd)) throw new Error(`the working directory must be an absolute path: "${cwd}"`);
  const found = await stat(cwd).catch(() => undefined);
  if (!found?.isDirectory()) throw new Error(`the working directory is not there: "${cwd}"`);
}
