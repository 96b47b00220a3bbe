// JSON as the protocol reads and writes it ([frame.2], [frame.10], [msg.3] to [msg.7]).
import { isUtf8 } from "node:buffer";

/** A message, or any object of one, that was not checked yet. */
export type Message = { [name: string]: any };

/** Stands for a value that is nested too deep to be read. */
export const DEEP: unique symbol = Symbol("nested too deep");

const DEPTH = 128;
const ID_BYTES = 256;
const META_BYTES = 64 * 1024;
const OPEN = /[[{]/g;
const HALF = /\\ud[89a-f]/; // how a half of a surrogate pair is written, and rarely something else
const SEPARATORS = /[\u2028\u2029]/;
const UNLIKE_ITSELF = /["\\\u0000-\u001f\ud800-\udfff\u2028\u2029]/; // what a JSON string does not hold as it is

/** The object on a line; nothing for noise, which no one answers. */
export function parse(line: Buffer): Message | undefined {
  return isUtf8(line) ? parseText(line.toString()) : undefined;
}

/** The object in a text that was UTF-8. */
export function parseText(text: string): Message | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(value)) return undefined;
  if (text.length > 2 * DEPTH && (text.match(OPEN)?.length ?? 0) > DEPTH) {
    for (const name of Object.keys(value)) if (isDeep(value[name])) define(value, name, DEEP);
  }
  return text.includes("\\u") ? mended(value) : value;
}

export function isObject(value: unknown): value is Message {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// Any name may come, also `__proto__`.
function define(object: Message, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

// It does not recurse, so that any depth does no harm.
function isDeep(value: unknown): boolean {
  const inner = (items: unknown[]) => items.filter((item) => typeof item === "object" && item !== null) as object[];
  let layer = inner([value]);
  for (let depth = 1; layer.length > 0; depth++) {
    if (depth > DEPTH) return true;
    layer = layer.flatMap((item) => inner(Object.values(item)));
  }
  return false;
}

// Without halves of surrogate pairs; nothing where the type or an id has one.
function mended(message: Message): Message | undefined {
  for (const [name, value] of Object.entries(message)) {
    if (typeof value === "string" && !value.isWellFormed() && (name === "type" || name.endsWith("_id"))) return undefined;
  }
  return mend(message) as Message;
}

function mend(value: unknown): unknown {
  if (typeof value === "string") return value.toWellFormed();
  if (Array.isArray(value)) return value.map(mend);
  if (!isObject(value)) return value;
  const whole = {};
  for (const [name, inner] of Object.entries(value)) define(whole, name.toWellFormed(), mend(inner));
  return whole;
}

/** The JSON text of a member of an object that parses, as it was written: a number of any length stays the same. */
export function rawMember(text: string, name: string): string | undefined {
  let depth = 0;
  let key: string | undefined;
  let begin = -1;
  let last = -1;
  let found: string | undefined;
  const end = (at: number) => {
    if (key === name && begin >= 0) found = text.slice(begin, at).trim();
    key = undefined;
    begin = -1;
  };
  for (const token of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]/g)) {
    const [mark] = token;
    if (mark === "}" || mark === "]") {
      if (--depth === 0) end(token.index);
    } else if (depth === 1 && mark === ":" && begin < 0) begin = token.index + 1;
    else if (depth === 1 && mark === ",") end(token.index);
    else if (depth === 1 && mark[0] === '"' && begin < 0 && last !== token.index) key = JSON.parse(mark) as string;
    if (mark === "{" || mark === "[") depth++;
    last = token.index;
  }
  return found;
}

/** A value as JSON text. Throws TypeError for what JSON does not have: a cycle, a bigint. */
export function encode(value: unknown): string {
  let text = JSON.stringify(value);
  if (HALF.test(text)) text = JSON.stringify(value, wellFormed);
  return SEPARATORS.test(text) ? escaped(text) : text;
}

const wellFormed = (_: string, value: unknown) =>
  typeof value === "string" && !value.isWellFormed() ? value.toWellFormed() : value;

/** A string as JSON, with U+2028 and U+2029 as escapes and no half of a surrogate pair. */
export function textJson(text: string): string {
  return `"${unquotedJson(text)}"`;
}

/** The same without its quotes: most texts are what they were. */
export function unquotedJson(text: string): string {
  if (!UNLIKE_ITSELF.test(text)) return text;
  const json = JSON.stringify(text.isWellFormed() ? text : text.toWellFormed());
  return (SEPARATORS.test(json) ? escaped(json) : json).slice(1, -1);
}

const escaped = (json: string) => json.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");

/** Whether a value is an id: a string of 1 to 256 bytes. */
export function isId(value: unknown): value is string {
  return typeof value === "string" && value.length > 0 && (value.length <= 64 || Buffer.byteLength(value) <= ID_BYTES);
}

/** An id that may be absent; one of another type or that is empty counts as absent. */
export function optionalId(message: Message, name: string): string | undefined {
  const value: unknown = message[name];
  return isId(value) ? value : undefined;
}

const isLong = (id: unknown) => typeof id === "string" && id.length > 64 && Buffer.byteLength(id) > ID_BYTES;

/** Whether an id is too long: the message is bad ([msg.6]). */
export function hasBadId({ session_id, request_id, turn_id, message_id }: Message): boolean {
  return isLong(session_id) || isLong(request_id) || isLong(turn_id) || isLong(message_id);
}

/** A member that is a string; nothing where it is absent or of another type ([msg.5]). */
export function optionalText(message: Message, name: string): string | undefined {
  const value: unknown = message[name];
  return typeof value === "string" ? value : undefined;
}

/** An unsigned integer of up to 64 bits, else nothing. */
export function uint(message: Message, name: string): number | undefined {
  const value: unknown = message[name];
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 2 ** 64 ? value : undefined;
}

/** `_meta`, where it is an object of up to 64 KiB ([msg.7]). */
export function meta(message: Message): Message | undefined {
  const value: unknown = message["_meta"];
  return isObject(value) && Buffer.byteLength(encode(value)) <= META_BYTES ? value : undefined;
}
