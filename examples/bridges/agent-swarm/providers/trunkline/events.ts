// Translates the entries of a session into the swarm's events.
import type { Entry } from "@trunkline/sdk/client";
import { known, type TaskEvent } from "./contract.js";
import { categoryOf } from "./outcome.js";
import { rawLogOf } from "./raw-log.js";
import type { Sink } from "./sink.js";
import { Tally } from "./tally.js";

type Delta = Extract<Entry, { type: "output" | "thinking" | "tool.update" }> & { content: string };

const LONGEST_MESSAGE = 1 << 20; // characters of a message that are joined

/**
 * Translates entries, in order. The deltas of one message are joined before they go out: a secret may be cut into two of them.
 * Each entry is a `raw_log`, too, so that nothing is lost that has no event of its own.
 */
export class Translation {
  readonly tally = new Tally();
  readonly #sink: Sink;
  readonly #tools = new Map<string, string>(); // names of the calls that run
  #joined: Delta | undefined;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  take(entry: Entry): void {
    if (!isDelta(entry)) {
      this.flush();
      return this.#emit(entry);
    }
    if (this.#joined && keyOf(this.#joined) === keyOf(entry)) this.#joined.content += entry.content;
    else {
      this.flush();
      this.#joined = { ...entry };
    }
    if (this.#joined.content.length > LONGEST_MESSAGE) this.flush(this.#joined.content.lastIndexOf("\n") + 1);
  }

  /** Emits the joined text, up to `end`, or all of it. */
  flush(end = 0): void {
    const joined = this.#joined;
    if (!joined) return;
    this.#joined = end > 0 ? { ...joined, content: joined.content.slice(end) } : undefined;
    this.#emit(end > 0 ? { ...joined, content: joined.content.slice(0, end) } : joined);
  }

  #emit(entry: Entry): void {
    this.#sink.emit({ type: "raw_log", content: JSON.stringify(rawLogOf(this.#sink.clean(entry))) });
    if ("history" in entry && entry.history) return;
    this.tally.add(entry);
    for (const event of this.#eventsOf(entry)) this.#sink.emit(event);
  }

  *#eventsOf(entry: Entry): Generator<TaskEvent> {
    switch (entry.type) {
      case "session.ready":
      case "session.info":
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
      case "tool.update": {
        const { tool_call_id: toolCallId, content, title, data } = entry;
        yield custom("tool_update", { toolCallId, content, title, data });
        break;
      }
      case "tool.end": {
        const { tool_call_id: toolCallId, content, is_error: isError = false, diffs, data, truncated } = entry;
        const toolName = this.#tools.get(toolCallId) ?? "";
        this.#tools.delete(toolCallId);
        yield { type: "tool_end", toolCallId, toolName, result: { content, isError, diffs, data, truncated } };
        break;
      }
      case "error":
        yield { type: "error", message: entry.message, ...known({ category: categoryOf(entry.category) }) };
        break;
      case "log":
        if (entry.stream === "stderr") yield { type: "raw_stderr", content: entry.content };
        break;
      case "custom":
        yield { type: "custom", name: entry.name, data: entry.data };
        break;
      case "progress":
        yield { type: "progress", message: entry.message };
        break;
      case "context.usage":
        if (entry.used_tokens !== undefined) yield this.#contextUsage(entry.used_tokens, entry.total_tokens);
        break;
      case "compaction":
        yield this.#compaction(entry);
        break;
      case "rate_limit":
      case "plan":
      case "file.output":
        yield custom(entry.type, withoutPosition(entry));
    }
  }

  // The swarm's API refuses null, although its types have it for what is not known: such a member is left out.
  #contextUsage(used: number, total: number | undefined): TaskEvent {
    const contextPercent = total ? Math.min(100, (used / total) * 100) : undefined;
    const unsure = known({ contextTotalTokens: total, contextPercent, outputTokens: this.tally.running.output_tokens });
    return { type: "context_usage", contextUsedTokens: used, ...unsure, contextFormula: "harness-reported" };
  }

  // Both numbers are required: those that the agent leaves out are the last known ones.
  #compaction(entry: Extract<Entry, { type: "compaction" }>): TaskEvent {
    const preCompactTokens = entry.pre_tokens ?? this.tally.context.used;
    const contextTotalTokens = entry.total_tokens ?? this.tally.context.total;
    const compactTrigger = entry.trigger ?? "auto";
    if (preCompactTokens === undefined || contextTotalTokens === undefined)
      return custom("compaction", known({ preCompactTokens, compactTrigger, contextTotalTokens }));
    return { type: "compaction", preCompactTokens, compactTrigger, contextTotalTokens };
  }
}

const custom = (name: string, data: unknown): TaskEvent => ({ type: "custom", name: `trunkline.${name}`, data });

function withoutPosition(entry: Entry): Record<string, unknown> {
  const { type: _type, session_id: _session, turn_id: _turn, seq: _seq, epoch: _epoch, time: _time, ...data } = entry;
  return data;
}

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
