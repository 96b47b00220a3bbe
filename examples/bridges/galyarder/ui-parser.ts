// The parser of a run's stdout. The server sends this file to the browser as it is, so it imports nothing. Text of an agent is
// shown, and nothing of it is run.
import type { TranscriptEntry } from "./types.js";

const asString = (value: unknown, fallback: string): string => (typeof value === "string" && value !== "" ? value : fallback);
const asNumber = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const parseObject = (value: unknown): Record<string, unknown> => (isObject(value) ? value : {});

function parseJson(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** A line of a run's stdout, which is an entry of trunkline, as entries of its transcript. */
export function parseStdoutLine(line: string, ts: string): TranscriptEntry[] {
  const entry = parseJson(line);
  const text = (name: string) => asString(entry?.[name], "");
  const system = (content: string): TranscriptEntry[] => [{ kind: "system", ts, text: content }];
  switch (entry?.["type"]) {
    case "session.ready":
    case "session.info": {
      const model = text("model");
      const sessionId = text("native_session_id");
      const context = text("context");
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
      return system(`the context was shortened, from ${asNumber(entry["pre_tokens"])} tokens`);
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

// Input is without cached tokens, as in the ledger. An unknown count is 0: the transcript has no other word for it.
function resultOf(end: Record<string, unknown>, ts: string): TranscriptEntry {
  const usage = parseObject(end["usage"]);
  const cachedTokens = asNumber(usage["cache_read_tokens"]);
  const subtype = asString(end["status"], "completed");
  const message = asString(parseObject(end["error"])["message"], "");
  return {
    kind: "result",
    ts,
    text: asString(end["summary"], ""),
    inputTokens: Math.max(0, asNumber(usage["input_tokens"]) - cachedTokens - asNumber(usage["cache_write_tokens"])),
    outputTokens: asNumber(usage["output_tokens"]),
    cachedTokens,
    costUsd: asNumber(usage["cost_usd"]),
    subtype,
    isError: subtype !== "completed",
    errors: message ? [message] : [],
  };
}
