// Stands for `@galyarder-framework/adapter-utils/server-utils`: the functions that the bridge calls, by their shapes.
import { mkdir, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";

export const runningProcesses = new Map();

export const asString = (value, fallback) => (typeof value === "string" && value.length > 0 ? value : fallback);
export const asNumber = (value, fallback) => (Number.isFinite(value) ? value : fallback);
export const asBoolean = (value, fallback) => (typeof value === "boolean" ? value : fallback);
export const asStringArray = (value) => (Array.isArray(value) ? value.filter((one) => typeof one === "string") : []);
export const parseObject = (value) => (typeof value === "object" && value !== null && !Array.isArray(value) ? value : {});

/** `null` for text that is no JSON; any other value passes, an object or not. */
export function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export function buildGalyarderEnv({ id, companyId }) {
  return { GALYARDER_AGENT_ID: id, GALYARDER_COMPANY_ID: companyId, GALYARDER_API_URL: process.env.GALYARDER_API_URL };
}

export function redactEnvForLogs(env) {
  const isSecret = (name) => /(key|token|secret|password|passwd|authorization|cookie)/i.test(name);
  return Object.fromEntries(Object.entries(env).map(([name, value]) => [name, isSecret(name) ? "***REDACTED***" : value]));
}

export async function ensureAbsoluteDirectory(cwd, { createIfMissing = false } = {}) {
  if (!isAbsolute(cwd)) throw new Error(`Working directory must be an absolute path: "${cwd}"`);
  if (createIfMissing) await mkdir(cwd, { recursive: true });
  const found = await stat(cwd).catch(() => undefined);
  if (!found) throw new Error(`Working directory does not exist: "${cwd}"`);
  if (!found.isDirectory()) throw new Error(`Working directory is not a directory: "${cwd}"`);
}

export function renderTemplate(template, data) {
  return template.replace(/{{\s*([\w.-]+)\s*}}/g, (_, path) => {
    const value = path.split(".").reduce((object, name) => parseObject(object)[name], data) ?? "";
    return typeof value === "object" ? JSON.stringify(value) : String(value);
  });
}

export const joinPromptSections = (sections, separator = "\n\n") =>
  sections
    .map((section) => (typeof section === "string" ? section.trim() : ""))
    .filter((section) => section !== "")
    .join(separator);

const isWake = (wake) => [parseObject(wake).comments, parseObject(wake).commentIds].some((list) => list?.length > 0);

/** Empty without comments. */
export function renderGalyarderWakePrompt(wake, { resumedSession = false } = {}) {
  if (!isWake(wake)) return "";
  const { reason, issue, comments = [] } = wake;
  const head = `${resumedSession ? "Resumed" : "Woken"}: ${reason}, ${issue?.identifier} ${issue?.title}`;
  return [head, ...comments.map(({ author, body }) => `${author.type}: ${body}`)].join("\n");
}

export const stringifyGalyarderWakePayload = (wake) => (isWake(wake) ? JSON.stringify(wake) : null);

/** The server puts the company's skills into the configuration. */
export const readGalyarderRuntimeSkillEntries = async ({ galyarderRuntimeSkills = [] }) => galyarderRuntimeSkills;

export function resolveGalyarderDesiredSkillNames({ galyarderSkillSync }, available) {
  const required = available.filter((skill) => skill.required).map(({ key }) => key);
  return [...new Set([...required, ...asStringArray(parseObject(galyarderSkillSync).desiredSkills)])];
}
