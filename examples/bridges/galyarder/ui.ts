// The page's part of an adapter that is built in: for `ui/src/adapters/registry.ts`. For a plugin the page makes its own, of
// `getConfigSchema` and the parser.
import { label, type } from "./index.js";
import type { CreateConfigValues, UIAdapterModule } from "./types.js";
import { parseStdoutLine } from "./ui-parser.js";

const WORDS = /[,\n]/;

/** The form of a new agent, as its configuration. */
export function buildConfig(values: CreateConfigValues): Record<string, unknown> {
  const words = (text: string) =>
    text
      .split(WORDS)
      .map((word) => word.trim())
      .filter((word) => word !== "");
  const pairs = values.envVars.split("\n").map((line) => /^\s*([A-Za-z_]\w*)=(.*)$/.exec(line));
  const plain = Object.fromEntries(pairs.filter((pair) => pair !== null).map(([, name, value]) => [name, value]));
  const env = { ...plain, ...values.envBindings };
  const set: Record<string, unknown> = {
    cwd: values.cwd,
    instructionsFilePath: values.instructionsFilePath,
    promptTemplate: values.promptTemplate,
    bootstrapPromptTemplate: values.bootstrapPrompt,
    model: values.model,
    reasoningEffort: values.thinkingEffort,
    command: values.command,
    args: words(values.args),
    extraArgs: words(values.extraArgs),
    env,
    maxTurnsPerRun: values.maxTurnsPerRun,
    dangerouslySkipPermissions: values.dangerouslySkipPermissions, // a run then reports that it cannot
    ...values.adapterSchemaValues,
  };
  const given = Object.entries(set).filter(([, value]) => isGiven(value));
  return { timeoutSec: 0, graceSec: 15, ...Object.fromEntries(given) };
}

function isGiven(value: unknown): boolean {
  if (typeof value === "object" && value !== null) return Object.keys(value).length > 0;
  return Boolean(value);
}

/** The module of the page. `ConfigFields` is its own `SchemaConfigFields`, which shows the fields of `getConfigSchema`. */
export function createUIAdapter<ConfigFields>(ConfigFields: ConfigFields): UIAdapterModule<ConfigFields> {
  return { type, label, parseStdoutLine, ConfigFields, buildAdapterConfig: buildConfig };
}
