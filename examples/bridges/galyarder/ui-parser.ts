// The page's part of the adapter: for `ui/src/adapters/registry.ts`. What an agent says is shown, and nothing of it is run.
import { label, type } from "./index.js";
import type { CreateConfigValues, TranscriptEntry, UIAdapterModule } from "./types.js";
import { asNumber, asString, parseJson, parseObject } from "./values.js";

/** A line of a run's stdout, which is an entry of trunkline, as entries of its transcript. */
export function parseStdoutLine(line: string, ts: string): TranscriptEntry[] {
  const entry = parseJson(line);
  const text = (name: string) => asString(entry?.[name], "");
  const system = (said: string): TranscriptEntry[] => [{ kind: "system", ts, text: said }];
  switch (entry?.["type"]) {
    case "session.ready":
    case "session.info": {
      const [model, sessionId, context] = [text("model"), text("native_session_id"), text("context")];
      const init: TranscriptEntry[] = model || sessionId ? [{ kind: "init", ts, model, sessionId }] : [];
      return context ? [...init, ...system(`context ${context}`)] : init;
    }
    case "output": {
      const channel = text("channel") || "stdout";
      if (channel === "stderr") return [{ kind: "stderr", ts, text: text("content") }];
      if (channel !== "stdout" || text("parent_tool_call_id")) return system(text("content"));
      return [{ kind: "assistant", ts, text: text("content"), delta: true }];
    }
    case "thinking":
      return [{ kind: "thinking", ts, text: text("content"), delta: true }];
    case "message":
      if (text("role") === "user") return [{ kind: "user", ts, text: text("content") }];
      return text("role") === "assistant" ? [{ kind: "assistant", ts, text: text("content") }] : system(text("content"));
    case "turn.begin":
    case "input.steered":
      return [{ kind: "user", ts, text: text("content") }];
    case "tool.start":
      return [{ kind: "tool_call", ts, name: text("tool"), input: entry["input"] ?? {}, toolUseId: text("tool_call_id") }];
    case "tool.update":
      return text("content") ? [{ kind: "stdout", ts, text: text("content") }] : [];
    case "tool.end":
      return [
        {
          kind: "tool_result",
          ts,
          toolUseId: text("tool_call_id"),
          content: text("content"),
          isError: entry["is_error"] === true,
        },
      ];
    case "error":
      return [{ kind: "stderr", ts, text: text("message") }];
    case "progress":
      return system(text("message"));
    case "plan":
      return system(planOf(entry["entries"]));
    case "log":
      return [{ kind: text("stream") === "stderr" ? "stderr" : "stdout", ts, text: text("content") }];
    case "permission.request":
      return system(`denied: ${text("tool")} ${text("resource")}`);
    case "input.request":
      return system(`not answered: ${text("prompt")}`);
    case "file.output":
      return system(`file: ${text("file_name") || text("file_path")}`);
    case "compaction":
      return system(`the context was shortened, from ${asNumber(entry["pre_tokens"], 0)} tokens`);
    case "session.closed":
      return system(`closed: ${text("reason")}`);
    case "turn.complete":
      return [resultOf(entry, ts)];
    case "usage":
    case "context.usage":
    case "working":
      return []; // the result has the sum
    default:
      return [{ kind: "stdout", ts, text: line }];
  }
}

const planOf = (entries: unknown): string =>
  (Array.isArray(entries) ? entries : [])
    .map(parseObject)
    .map(({ status, content }) => `[${asString(status, "pending")}] ${asString(content, "")}`)
    .join("\n");

// What is not known is 0 here: the transcript knows no other word for it.
function resultOf(end: Record<string, unknown>, ts: string): TranscriptEntry {
  const [usage, error] = [parseObject(end["usage"]), parseObject(end["error"])];
  const [subtype, message] = [asString(end["status"], "completed"), asString(error["message"], "")];
  return {
    kind: "result",
    ts,
    text: asString(end["summary"], ""),
    inputTokens: asNumber(usage["input_tokens"], 0),
    outputTokens: asNumber(usage["output_tokens"], 0),
    cachedTokens: asNumber(usage["cache_read_tokens"], 0),
    costUsd: asNumber(usage["cost_usd"], 0),
    subtype,
    isError: subtype !== "completed",
    errors: message ? [message] : [],
  };
}

/** The form of a new agent, as its configuration. */
export function buildConfig(values: CreateConfigValues): Record<string, unknown> {
  const words = (text: string) =>
    text
      .split(",")
      .map((word) => word.trim())
      .filter((word) => word !== "");
  const pairs = values.envVars.split("\n").map((line) => /^\s*([A-Za-z_]\w*)=(.*)$/.exec(line));
  const env = Object.fromEntries(pairs.filter((pair) => pair !== null).map(([, name, value]) => [name, value]));
  return {
    timeoutSec: 0,
    graceSec: 15,
    ...(values.cwd ? { cwd: values.cwd } : {}),
    ...(values.promptTemplate ? { promptTemplate: values.promptTemplate } : {}),
    ...(values.model ? { model: values.model } : {}),
    ...(values.thinkingEffort ? { reasoningEffort: values.thinkingEffort } : {}),
    ...(values.command ? { command: values.command } : {}),
    ...(words(values.args).length > 0 ? { args: words(values.args) } : {}),
    ...(words(values.extraArgs).length > 0 ? { extraArgs: words(values.extraArgs) } : {}),
    ...(Object.keys(env).length > 0 ? { env } : {}),
    ...(values.maxTurnsPerRun > 0 ? { maxTurnsPerRun: values.maxTurnsPerRun } : {}),
    ...(values.dangerouslySkipPermissions ? { dangerouslySkipPermissions: true } : {}), // a run then says that it cannot
  };
}

export const trunklineUIAdapter: UIAdapterModule = { type, label, parseStdoutLine, buildAdapterConfig: buildConfig };
