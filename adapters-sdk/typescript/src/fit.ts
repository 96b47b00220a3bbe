// Cuts messages to the longest line that their reader accepts ([frame.11]). The largest member gives way first. Ids never do,
// so that the end of a turn, a session or a tool call always fits.
import { encode, type Message } from "./json.js";
import type { Extensions } from "./fold.js";

// How members give way: in pieces, cut at their end, or left out. Of a failure the category stays and the message is cut.
type Way = "pieces" | "end" | "out" | "failure";
const out = (...names: string[]): { [member: string]: Way } => Object.fromEntries(names.map((name) => [name, "out"]));
const INFO = out(
  ...["adapter", "capabilities", "input_modes", "native_session_id", "display_id", "options_applied", "model", "models"],
  ...["reasoning_effort", "mode", "modes", "permission_mode", "allowed_tools", "denied_tools", "commands", "options"],
);
const GIVES = new Map<string, { [member: string]: Way }>([
  ["output", { content: "pieces" }],
  ["thinking", { content: "pieces" }],
  ["tool.update", { content: "pieces", ...out("input", "locations", "data", "stream"), title: "end" }],
  ["tool.start", { ...out("input", "locations", "kind"), title: "end", tool: "end" }],
  ["tool.end", { content: "end", diffs: "out", data: "out" }],
  ["message", { content: "end" }],
  ["log", { content: "end" }],
  ["error", { message: "end" }],
  ["progress", { message: "end" }],
  ["custom", { data: "out" }],
  [
    "turn.complete",
    {
      ...out("result", "artifacts", "session_params", "usage", "native_session_id", "model", "provider"),
      error: "failure",
      summary: "end",
      stop_reason: "end",
    },
  ],
  ["permission.request", { ...out("input", "diffs", "expires_at"), title: "end" }],
  ["input.request", out("expires_at")],
  ["file.output", out("file_name", "file_mime_type")],
  ["usage", out("model", "provider", "models")],
  ["compaction", { summary: "end" }],
  ["rate_limit", out("window", "status", "resets_at")],
  ["steer.result", { reason: "end" }],
  ["session.ready", INFO],
  ["session.info", INFO],
  ["session.closed", { error: "failure" }],
]);
// The members that may lie in files ([large.2]).
const BY_FILE = new Map([
  ["message", ["content"]],
  ["log", ["content"]],
  ["tool.start", ["input", "locations"]],
  ["tool.update", ["input", "locations", "data"]],
  ["tool.end", ["content", "diffs", "data"]],
  ["custom", ["data"]],
  ["turn.complete", ["result", "artifacts", "summary"]],
]);
// The extension that has `truncated` on a type.
const MARKED = new Map([
  ...["message", "tool.start", "tool.update", "tool.end", "log", "custom"].map((type): [string, string] => [type, "events"]),
  ["turn.complete", "turns"],
  ["permission.request", "control"],
]);

/** The longest line that every reader accepts, in bytes without its LF ([frame.5]). */
export const MIN_MAX_LINE = 1024 * 1024;
export const ANSWER_TOO_LONG = "the answer is longer than a line may be; ask for less";
// The least room for a piece of a delta, in bytes: more than a character or an escape needs.
const MIN_PIECE = 16;

/** A message of which nothing may be left out is longer than a line. */
export class TooLong extends Error {
  constructor(readonly bytes: number) {
    super(`${bytes} bytes`);
  }
}

const sizeOf = (message: unknown) => Buffer.byteLength(encode(message));

/** Puts members into files by `keep`, the largest first, until the rest is short enough. Most messages stay as they are. */
export function byFile(message: Message, agreed: Extensions, max: number, keep: (text: string) => Message): Message {
  const names = BY_FILE.get(message["type"]);
  if (!names || !agreed.has("large") || !agreed.has("options") || !agreed.has(MARKED.get(message["type"]) ?? "")) return message;
  if (sizeOf(message) <= max) return message;
  const placed: Message = { ...message };
  const large: Message = {};
  const left = names.filter((name) => placed[name] !== undefined).sort((a, b) => sizeOf(placed[a]) - sizeOf(placed[b]));
  while (left.length > 0 && sizeOf({ ...placed, large }) > max) {
    const name = left.pop()!;
    try {
      large[name] = keep(encode(placed[name]));
    } catch {
      continue; // it is cut instead
    }
    if (placed["type"] === "message" || placed["type"] === "log") placed[name] = ""; // it must be there
    else delete placed[name];
  }
  return Object.keys(large).length > 0 ? { ...placed, large } : message;
}

/**
 * The lines, without their LF, that carry a message to a reader of lines of up to `max` bytes. Throws `TooLong`, before
 * any line, when what must stay is longer.
 */
export function* fit(message: Message, agreed: Extensions, max: number): Generator<string> {
  const whole = encode(message);
  if (whole.length * 3 <= max || Buffer.byteLength(whole) <= max) {
    yield whole;
    return;
  }
  const gives = GIVES.get(message["type"]) ?? {};
  const short: Message = { ...message };
  const delta = Object.keys(gives).find((name) => gives[name] === "pieces" && typeof short[name] === "string");
  let rest = "";
  if (delta) [rest, short[delta]] = [short[delta], ""];
  shorten(short, gives, agreed, delta ? max - MIN_PIECE : max);
  if (!delta) yield encode(short);
  while (delta && rest) {
    const size = sizeOf(short);
    const piece = cut(rest, max - size);
    if (!piece) throw new TooLong(size);
    yield encode({ ...short, [delta]: piece });
    rest = rest.slice(piece.length);
    for (const name of [...Object.keys(gives), "truncated", "_meta", "large"]) {
      if (name !== delta && name !== "stream") delete short[name];
    }
  }
}

function shorten(message: Message, gives: { [member: string]: Way }, agreed: Extensions, max: number): void {
  if (sizeOf(message) <= max) return;
  const marked = agreed.has(MARKED.get(message["type"]) ?? "");
  if (marked) message["truncated"] = true;
  const left = Object.keys(gives).filter((name) => gives[name] !== "pieces" && message[name] !== undefined);
  left.sort((a, b) => sizeOf(message[a]) - sizeOf(message[b]));
  for (let size; (size = sizeOf(message)) > max; ) {
    const name = left.pop();
    if (name === undefined) throw new TooLong(size);
    if (gives[name] === "out") {
      delete message[name];
      continue;
    }
    const mark = marked ? "" : "…";
    const most = sizeOf(message[name]) - (size - max);
    message[name] = gives[name] === "failure" ? cutFailure(message[name], most, mark) : cutText(message[name], most, mark);
  }
}

// A failure of at most so many bytes: its category, and as much of its message as fits.
function cutFailure({ category, message }: Message, most: number, mark: string): Message {
  const short: Message = { category, message };
  const over = sizeOf(short) - most;
  if (over > 0 && typeof message === "string") short["message"] = cutText(message, sizeOf(message) - over, mark);
  return short;
}

const cutText = (text: string, most: number, mark: string) => cut(text, most - 2 - Buffer.byteLength(mark)) + mark;

// The longest beginning of a text of which the JSON, without quotes, has at most so many bytes.
function cut(text: string, most: number): string {
  const cost = (end: number) => sizeOf(text.slice(0, end)) - 2;
  if (most <= 0) return "";
  let [low, high] = [0, Math.min(text.length, most)];
  if (cost(high) > most) {
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (cost(middle) <= most) low = middle;
      else high = middle;
    }
  } else low = high;
  const isHalf = low < text.length && (text.charCodeAt(low - 1) & 0xfc00) === 0xd800;
  return text.slice(0, isHalf ? low - 1 : low);
}
