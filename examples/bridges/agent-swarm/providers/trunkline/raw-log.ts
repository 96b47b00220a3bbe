// The lines of a session's log, in the form in which the swarm's page draws a transcript: Claude's stream.
import type { Entry } from "@trunkline/sdk/client";

/** Text, thinking, tool calls and their results as messages; every other entry as it is. */
export function rawLogOf(entry: Entry): unknown {
  switch (entry.type) {
    case "output": {
      if ((entry.channel ?? "stdout") !== "stdout") return entry;
      return message("assistant", { type: "text", text: entry.content }, entry);
    }
    case "message": {
      if (entry.role !== "user" && entry.role !== "assistant") return entry;
      return message(entry.role, { type: "text", text: entry.content }, entry);
    }
    case "thinking":
      return message("assistant", { type: "thinking", thinking: entry.content }, entry);
    case "tool.start":
      return message(
        "assistant",
        { type: "tool_use", id: entry.tool_call_id, name: entry.tool, input: entry.input ?? {} },
        entry,
      );
    case "tool.end": {
      const { tool_call_id, content = "", is_error = false, diffs, data } = entry;
      const details = diffs || data ? { details: { diffs, data } } : {};
      return message("user", { type: "tool_result", tool_use_id: tool_call_id, content, is_error, ...details }, entry);
    }
    default:
      return entry;
  }
}

function message(role: "user" | "assistant", block: object, { history, ...entry }: Entry & { history?: boolean }): object {
  const parent = "parent_tool_call_id" in entry ? { parent_tool_use_id: entry.parent_tool_call_id } : {};
  return { type: role, message: { role, content: [block] }, ...parent, ...(history ? { history } : {}) };
}
