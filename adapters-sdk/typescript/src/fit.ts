// Lines that their reader takes: a message over its limit is cut ([frame.11]).
import { encode, type Message } from "./json.js";
import type { Extensions } from "./fold.js";

// How members give way: in pieces, cut at their end, or left out.
type Way = "pieces" | "end" | "out";
const GIVES = new Map<string, { [member: string]: Way }>([
  ["output", { content: "pieces" }],
  ["thinking", { content: "pieces" }],
  ["tool.update", { content: "pieces", input: "out", data: "out", title: "end" }],
  ["tool.start", { input: "out", locations: "out", title: "end" }],
  ["tool.end", { content: "end", diffs: "out", data: "out" }],
  ["message", { content: "end" }],
  ["log", { content: "end" }],
  ["error", { message: "end" }],
  ["progress", { message: "end" }],
  ["custom", { data: "out" }],
  [
    "turn.complete",
    { result: "out", artifacts: "out", session_params: "out", error: "out", usage: "out", summary: "end", stop_reason: "end" },
  ],
  ["permission.request", { input: "out", diffs: "out", title: "end" }],
  ["session.ready", { commands: "out", models: "out", modes: "out" }],
  ["session.info", { commands: "out", models: "out", modes: "out" }],
  ["session.closed", { error: "out" }],
]);
// The members that may lie in files ([large.2]).
const BY_FILE = new Map([
  ["message", ["content"]],
  ["log", ["content"]],
  ["tool.start", ["input", "locations"]],
  ["tool.update", ["input", "data"]],
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
  shorten(short, gives, agreed, max);
  if (!delta) yield encode(short);
  while (delta && rest) {
    const size = sizeOf(short);
    const piece = cut(rest, max - size);
    if (!piece) throw new TooLong(size);
    yield encode({ ...short, [delta]: piece });
    rest = rest.slice(piece.length);
    for (const name of [...Object.keys(gives), "truncated", "_meta", "large"]) if (name !== delta) delete short[name];
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
    message[name] = cut(message[name], sizeOf(message[name]) - 2 - (size - max) - Buffer.byteLength(mark)) + mark;
  }
}

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
