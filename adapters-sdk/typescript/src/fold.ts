// The fold-down: a message as a host with fewer extensions may receive it ([ext.2], [ext.3]).
//
// One function of the message and of what was agreed on. What the user needs becomes `output`; what only enriches is left
// out.
import { encode, type Message } from "./json.js";

/** The names of the extensions. */
export const EXTENSIONS = ["turns", "events", "usage", "resume", "options", "questions", "flow", "control", "large"] as const;
/** An extension: messages and members that a session agrees on or does without. */
export type Extension = (typeof EXTENSIONS)[number];
export type Extensions = ReadonlySet<string>;

const of = (extension: Extension, types: string): [string, Extension][] => types.split(" ").map((type) => [type, extension]);
/** The extension that each type belongs to; `session.ready` and `session.info` belong to any. */
export const TYPE_OF = new Map<string, Extension>([
  ...of("turns", "steer.result"),
  ...of("events", "thinking message tool.start tool.update tool.end plan progress log error custom"),
  ...of("usage", "usage context.usage compaction rate_limit"),
  ...of("questions", "input.request"),
  ...of("control", "working session.closed permission.cancel"),
]);
/** The types of the core. */
export const CORE = new Set(["output", "turn.complete", "file.output", "permission.request"]);
const OF_EVENTS = ["message_id", "parent_tool_call_id", "history"];
const OF_CONTROL = ["input", "title", "tool_call_id", "diffs", "expires_at", "truncated", "options"];
const OF_RESUME = ["native_session_id", "display_id", "context"];
const OF_OPTIONS =
  "options_applied model reasoning_effort mode permission_mode allowed_tools denied_tools models modes commands options".split(" ");
const END_OF_RESUME = ["native_session_id", "session_params", "clear_session"];
const LOST = "the agent started afresh: it does not remember the earlier turns";
const STATUS_TEXT = new Map([
  ["failed", "the turn failed"],
  ["refused", "the agent declined"],
  ["limit", "a limit is reached"],
]);
const CLOSED_TEXT = new Map([
  ["finished", "the session has ended"],
  ["refused", "the session was refused"],
  ["unknown_agent", "there is no such agent"],
  ["limit", "the session has reached a limit"],
  ["protocol", "the session cannot be served in this version of the protocol"],
  ["shutdown", "the session has ended: shutting down"],
]);

/** The messages to write for one of the author's: none, one, or two in this order. `message` is not changed. */
export function fold(original: Message, agreed: Extensions, toolsAsOutput = false): Message[] {
  const type = original["type"] as string;
  const extension = TYPE_OF.get(type);
  const isFolded = extension === undefined ? !CORE.has(type) && agreed.size === 0 : !agreed.has(extension);
  if (isFolded) return instead(original, toolsAsOutput, agreed);
  const message: Message = { ...original };
  if (!agreed.has("turns")) delete message["turn_id"];
  if (agreed.size === 0) delete message["_meta"];
  if (!agreed.has("large")) delete message["large"];
  if (!agreed.has("events") && CORE.has(type)) without(message, OF_EVENTS);
  if (type === "turn.complete") return end(message, agreed);
  if (type === "permission.request" && !agreed.has("control")) without(message, OF_CONTROL);
  if (type === "file.output" && !agreed.has("large")) without(message, ["size", "sha256"]);
  return type === "session.ready" || type === "session.info" ? info(message, agreed) : [message];
}

function without(message: Message, names: readonly string[]): void {
  for (const name of names) delete message[name];
}

function said(message: Message, channel: string, content: string, agreed: Extensions): Message {
  const { session_id, turn_id } = message;
  const turn = agreed.has("turns") && turn_id !== undefined ? { turn_id } : {};
  return { type: "output", session_id, ...turn, content, channel };
}

function instead(message: Message, toolsAsOutput: boolean, agreed: Extensions): Message[] {
  const tell = (channel: string, text: string) => [said(message, channel, text, agreed)];
  switch (message["type"]) {
    case "error":
      return tell("system", message["message"]);
    case "input.request":
      return tell("question", questionText(message));
    case "session.closed":
      return tell("system", closedText(message));
    case "session.info":
    case "session.ready":
      return message["context"] === "lost" ? tell("system", LOST) : [];
    case "tool.start": {
      if (!toolsAsOutput) return [];
      return tell("tool", encode({ type: "tool_use", id: message["tool_call_id"], name: message["tool"], input: message["input"] ?? {} }));
    }
    case "tool.end": {
      if (!toolsAsOutput) return [];
      const { tool_call_id: tool_use_id, content = "", is_error } = message;
      return tell("tool", encode({ type: "tool_result", tool_use_id, content, is_error: is_error === true }));
    }
    default:
      return [];
  }
}

// A question as text, for a host that cannot ask.
function questionText(message: Message): string {
  const lines = [message["prompt"] as string];
  for (const field of (message["fields"] ?? []) as Message[]) {
    lines.push(`- ${field["label"] ?? field["id"]}`);
    for (const choice of (field["choices"] ?? []) as Message[]) lines.push(`  - ${choice["label"] ?? choice["id"]}`);
  }
  return lines.join("\n");
}

function closedText({ reason, error }: Message): string {
  const text = CLOSED_TEXT.get(reason) ?? "the session cannot continue";
  return error?.message ? `${text}: ${error.message}` : text;
}

function end(message: Message, agreed: Extensions): Message[] {
  if (!agreed.has("usage")) delete message["usage"];
  if (!agreed.has("resume")) without(message, END_OF_RESUME);
  if (agreed.has("turns")) return [message];
  const error: Message = message["error"] ?? {};
  const text: string | undefined = error["message"] || STATUS_TEXT.get(message["status"]);
  const kept = new Set(["type", "session_id", "usage", "_meta", ...END_OF_RESUME]);
  const plain = Object.fromEntries(Object.entries(message).filter(([name]) => kept.has(name)));
  if (!text) return [plain];
  const again = error["retry_at"] ? ` (try again at ${error["retry_at"]})` : "";
  return [said(message, "system", text + again, agreed), plain];
}

function info(message: Message, agreed: Extensions): Message[] {
  const told = message["context"] === "lost" && !agreed.has("resume") ? [said(message, "system", LOST, agreed)] : [];
  const before = Object.keys(message).length;
  if (!agreed.has("resume")) without(message, OF_RESUME);
  if (!agreed.has("turns")) delete message["input_modes"];
  if (!agreed.has("options")) without(message, OF_OPTIONS);
  // The first message of a session stays the first ([ext.2]).
  if (message["type"] === "session.ready") return [message, ...told];
  const left = Object.keys(message).length;
  return left === 2 && before > 2 ? told : [...told, message];
}
