// An agent's configuration: how it is read, and the form of the page that writes it.
import type { AdapterConfigSchema, Settings } from "./types.js";
import { asBoolean, asNumber, asString, asStringArray, parseObject } from "./server-utils.js";

const PROMPT = "You are agent {{agent.id}} ({{agent.name}}). Continue your Galyarder Framework work.";
const SERVE = ["serve", "--session-may", "cwd,env,extra_args,skills,mode,permission_mode"];
const DANGEROUS = ["dangerouslySkipPermissions", "dangerouslyBypassApprovalsAndSandbox", "dangerouslyBypassSandbox"];
// Keys that the server keeps in a configuration, or adds to it for a run.
const OF_THE_SERVER = [
  "galyarderRuntimeSkills",
  "galyarderSkillSync",
  "instructionsBundleMode",
  "instructionsEntryFile",
  "instructionsRootPath",
  "workspaceRuntime",
  "workspaceStrategy",
];
// Other keys of Galyarder's forms for the reasoning effort.
const EFFORTS = ["reasoningEffort", "thinkingEffort", "effort", "modelReasoningEffort"];
const GRACE = 15; // seconds

/** Reads a configuration; a value of another type counts as absent. Throws for what must not be left out. */
export function readSettings(config: Record<string, unknown>): Settings {
  const dangerous = DANGEROUS.filter((name) => asBoolean(config[name], false));
  if (dangerous.length > 0)
    throw new Error(`${dangerous.join(", ")} cannot be carried: allow tools in the agent's policy of trunkline instead`);
  const args = readList(config["args"]);
  const model = asString(config["model"], "");
  const settings = {
    agent: asString(config["agent"], ""),
    command: asString(config["command"], "trunkline"),
    args: args.length > 0 ? args : SERVE,
    cwd: asString(config["cwd"], ""),
    folder: asString(config["folder"], "session"),
    promptTemplate: asString(config["promptTemplate"], PROMPT),
    bootstrapPromptTemplate: asString(config["bootstrapPromptTemplate"], ""),
    instructionsFilePath: asString(config["instructionsFilePath"], "").trim(),
    systemPrompt: asString(config["systemPrompt"], ""),
    systemPromptIn: asString(config["systemPromptIn"], "session"),
    model: model === "default" ? "" : model,
    reasoningEffort: EFFORTS.map((name) => asString(config[name], "")).find((effort) => effort !== "") ?? "",
    mode: asString(config["mode"], ""),
    permissionMode: asString(config["permissionMode"], ""),
    maxTurnsPerRun: asNumber(config["maxTurnsPerRun"], 0),
    extraArgs: readList(config["extraArgs"]),
    skills: readList(config["skills"]),
    env: readEnvironment(config["env"]),
    timeoutSec: Math.max(0, asNumber(config["timeoutSec"], 0)),
    graceSec: Math.max(0, asNumber(config["graceSec"], GRACE)),
    provider: asString(config["provider"], ""),
    biller: asString(config["biller"], ""),
    billingType: asString(config["billingType"], ""),
  };
  const known = new Set([...Object.keys(settings), ...DANGEROUS, ...OF_THE_SERVER, ...EFFORTS]);
  return { ...settings, unknown: Object.keys(config).filter((name) => !known.has(name)) };
}

/** A list, or the text of a form with commas or line ends between its elements. */
export function readList(value: unknown): string[] {
  if (typeof value !== "string") return asStringArray(value);
  const words = value.split(/[,\n]/).map((word) => word.trim());
  return words.filter((word) => word !== "");
}

// A value is a text, or `{ "type": "plain", "value": … }`. The server has replaced references to secrets.
function readEnvironment(value: unknown): Record<string, string> {
  const read = (binding: unknown) => (typeof binding === "string" ? binding : parseObject(binding)["value"]);
  const entries = Object.entries(parseObject(value)).map(([name, binding]) => [name, read(binding)] as const);
  const lacking = entries.filter(([, text]) => typeof text !== "string").map(([name]) => name);
  if (lacking.length > 0) throw new Error(`variables without a text: ${lacking.join(", ")}`);
  return Object.fromEntries(entries as [string, string][]);
}

const choice = (value: string, label: string) => ({ value, label });

/** The fields that the page shows for an agent; what it shows for every adapter, such as the model, is not among them. */
export function getConfigSchema(): AdapterConfigSchema {
  return {
    fields: [
      { key: "agent", label: "Agent", type: "text", hint: "Its id in trunkline's configuration. Empty: trunkline's default" },
      { key: "args", label: "Arguments of trunkline", type: "text", hint: "With commas between. Empty: serve" },
      {
        key: "folder",
        label: "Working directory",
        type: "select",
        options: [choice("session", "Set for the session"), choice("process", "The folder in which trunkline starts")],
        default: "session",
        hint: "The second is for an agent that knows no working directories",
      },
      { key: "systemPrompt", label: "System prompt", type: "textarea" },
      {
        key: "systemPromptIn",
        label: "Instructions go",
        type: "select",
        options: [choice("session", "Into the system prompt"), choice("prompt", "Into the first prompt")],
        default: "session",
        hint: "The second is for an agent that takes no system prompt",
      },
      { key: "mode", label: "Mode", type: "text", hint: "A mode of the agent, such as plan" },
      { key: "permissionMode", label: "Permission mode", type: "text" },
      { key: "maxTurnsPerRun", label: "Most turns of the model", type: "number", default: 0, hint: "0: the agent's own limit" },
      { key: "timeoutSec", label: "Timeout in seconds", type: "number", default: 0, hint: "0: none" },
      { key: "graceSec", label: "Grace in seconds", type: "number", default: GRACE, hint: "To end in, after a timeout or a cancel" },
    ],
  };
}
