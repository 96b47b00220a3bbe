// What happens in a session of trunkline, as agent-swarm's events.
import type { Usage } from "@trunkline/sdk";
import type { Entry } from "@trunkline/sdk/client";
import { categoryOf } from "./outcome.js";
import type { Sink } from "./sink.js";
import type { ProviderEvent } from "./types.js";

type Delta = Extract<Entry, { type: "output" | "thinking" | "tool.update" }> & { content: string };

const LONGEST = 1 << 20; // characters of a message that are joined

/**
 * Translates entries, in order. Deltas of one message are joined before they go out: a secret may stand in two of them. Each
 * entry is a `raw_log`, too, so that what has no event of its own is not lost.
 */
export class Translation {
  usage: Usage = {};
  model: string | undefined;
  readonly #sink: Sink;
  readonly #tools = new Map<string, string>(); // names of calls that run
  #joined: Delta | undefined;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  take(entry: Entry): void {
    if (!isDelta(entry)) {
      this.flush();
      return this.#tell(entry);
    }
    if (this.#joined && keyOf(this.#joined) === keyOf(entry)) this.#joined.content += entry.content;
    else {
      this.flush();
      this.#joined = { ...entry };
    }
    if (this.#joined.content.length > LONGEST) this.flush(this.#joined.content.lastIndexOf("\n") + 1);
  }

  /** Tells what has been joined, up to an end, or all of it. */
  flush(end = 0): void {
    const joined = this.#joined;
    if (!joined) return;
    this.#joined = end > 0 ? { ...joined, content: joined.content.slice(end) } : undefined;
    this.#tell(end > 0 ? { ...joined, content: joined.content.slice(0, end) } : joined);
  }

  #tell(entry: Entry): void {
    this.#sink.emit({ type: "raw_log", content: JSON.stringify(this.#sink.clean(entry)) });
    if ("history" in entry && entry.history) return;
    for (const event of this.#eventsOf(entry)) this.#sink.emit(event);
  }

  *#eventsOf(entry: Entry): Generator<ProviderEvent> {
    switch (entry.type) {
      case "session.ready":
      case "session.info":
        this.model = entry.model ?? this.model;
        if (entry.context) yield custom("context", { context: entry.context });
        break;
      case "output":
        if (entry.channel === "stderr") yield { type: "raw_stderr", content: entry.content };
        else if (entry.parent_tool_call_id)
          yield custom("sub_agent", { toolCallId: entry.parent_tool_call_id, content: entry.content });
        else if ((entry.channel ?? "stdout") === "stdout") yield { type: "message", role: "assistant", content: entry.content };
        else yield custom("output", { channel: entry.channel, content: entry.content });
        break;
      case "thinking":
        yield custom("thinking", { content: entry.content });
        break;
      case "message":
        if (entry.role === "user" || entry.role === "assistant")
          yield { type: "message", role: entry.role, content: entry.content };
        else yield custom("message", { role: entry.role, content: entry.content });
        break;
      case "tool.start":
        this.#tools.set(entry.tool_call_id, entry.tool);
        yield { type: "tool_start", toolCallId: entry.tool_call_id, toolName: entry.tool, args: entry.input ?? {} };
        break;
      case "tool.update":
        yield custom("tool_update", {
          toolCallId: entry.tool_call_id,
          content: entry.content,
          title: entry.title,
          data: entry.data,
        });
        break;
      case "tool.end": {
        const { tool_call_id: toolCallId, content, is_error: isError = false, diffs, data, truncated } = entry;
        const toolName = this.#tools.get(toolCallId) ?? "";
        this.#tools.delete(toolCallId);
        yield { type: "tool_end", toolCallId, toolName, result: { content, isError, diffs, data, truncated } };
        break;
      }
      case "error":
        yield { type: "error", message: entry.message, category: categoryOf(entry.category) };
        break;
      case "log":
        if (entry.stream === "stderr") yield { type: "raw_stderr", content: entry.content };
        break;
      case "custom":
        yield { type: "custom", name: entry.name, data: entry.data };
        break;
      case "usage":
        if (entry.scope !== "session") this.usage = entry;
        break;
      case "context.usage": {
        const { used_tokens: used, total_tokens: total } = entry;
        if (used === undefined) break;
        const contextPercent = total ? Math.min(100, (used / total) * 100) : null;
        const outputTokens = this.usage.output_tokens ?? null;
        yield { type: "context_usage", contextUsedTokens: used, contextTotalTokens: total ?? null, contextPercent, outputTokens };
        break;
      }
      case "compaction": {
        const { pre_tokens = null, total_tokens = null, trigger = "auto" } = entry;
        yield { type: "compaction", preCompactTokens: pre_tokens, compactTrigger: trigger, contextTotalTokens: total_tokens };
        break;
      }
      case "turn.complete":
        this.usage = entry.usage ?? this.usage;
        this.model = entry.model ?? this.usage.model ?? this.model;
        break;
      case "plan":
      case "progress":
      case "rate_limit":
      case "file.output": {
        const { type, session_id: _, turn_id: __, seq: _seq, epoch: _epoch, time: _time, ...data } = entry;
        yield custom(type, data);
      }
    }
  }
}

const custom = (name: string, data: unknown): ProviderEvent => ({ type: "custom", name: `trunkline.${name}`, data });

function isDelta(entry: Entry): entry is Delta {
  const isText = entry.type === "output" || entry.type === "thinking" || entry.type === "tool.update";
  return isText && entry.content !== undefined && !entry.history;
}

function keyOf(delta: Delta): string {
  const members: { [name: string]: unknown } = { ...delta };
  return JSON.stringify(
    ["type", "channel", "stream", "message_id", "parent_tool_call_id", "tool_call_id"].map((name) => members[name]),
  );
}
