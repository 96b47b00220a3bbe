// The helpers of the server that runs this adapter, by `@galyarder-framework/adapter-utils/server-utils`. They come from the
// server's own copy: its cancel looks into `runningProcesses` of that module, so a second copy would stop nothing.
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { ServerUtils } from "./types.js";

const SERVER = "@galyarder-framework/server";
const UTILS = "@galyarder-framework/adapter-utils";

/** The folder of a package as the file `from` finds it. */
function findPackage(name: string, from: string): string | undefined {
  const folders = createRequire(from).resolve.paths(name) ?? [];
  const found = folders.map((folder) => join(folder, name)).find((folder) => existsSync(join(folder, "package.json")));
  return found && realpathSync(found);
}

function findUtils(): string {
  const { GALYARDER_ADAPTER_UTILS } = process.env;
  if (GALYARDER_ADAPTER_UTILS) return GALYARDER_ADAPTER_UTILS;
  const own = fileURLToPath(import.meta.url);
  const program = process.argv[1] && existsSync(process.argv[1]) ? realpathSync(process.argv[1]) : own;
  const server = findPackage(SERVER, program);
  const callers = [...(server ? [join(server, "package.json")] : []), program, own];
  const found = callers.map((from) => findPackage(UTILS, from)).find((folder) => folder !== undefined);
  if (found) return found;
  throw new Error(`${UTILS} of the Galyarder server not found from ${program}; set GALYARDER_ADAPTER_UTILS to its folder`);
}

function entryFile(folder: string): string {
  const { exports = {} } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const pattern = exports["./*"];
  const path: unknown = typeof pattern === "string" ? pattern : pattern?.import;
  if (typeof path !== "string") throw new Error(`${folder} does not export server-utils; is it ${UTILS}?`);
  return join(folder, path.replace("*", "server-utils"));
}

const utils = (await import(pathToFileURL(entryFile(findUtils())).href)) as ServerUtils;

export const { asBoolean, asNumber, asString, asStringArray, parseJson, parseObject } = utils;
export const { buildGalyarderEnv, ensureAbsoluteDirectory, redactEnvForLogs, runningProcesses } = utils;
export const { joinPromptSections, renderGalyarderWakePrompt, renderTemplate, stringifyGalyarderWakePayload } = utils;
export const { readGalyarderRuntimeSkillEntries, resolveGalyarderDesiredSkillNames } = utils;
