// The conformance suite's script: what lets it judge an adapter without its model.
//
// Every adapter on this package carries it. It is off unless the environment says `CONFORM_PROBE=1` at the start; then an
// input whose content is an object with `$probe` is not given to the handler but done. The operations are those of the
// package in Rust; data goes out as one object with `"$probe":1`.
import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "./adapter.js";
import type { Core } from "./core.js";
import { digest } from "./files.js";
import { encode, isObject, type Message } from "./json.js";
import type { Event } from "./session.js";
import type { Permission, Question, Turn } from "./turn.js";
import { FIELDS, type ClosedReason, type Status } from "./types.js";

const OPERATIONS =
  "hello say echo burst sleep until_stop report set get ask question file event info ready complete fail close_session exit abort".split(" ");
const KEPT = 4096;
const TICK = 50;
const MOST = 64 * 1024 * 1024;

/** What one session has seen and was asked to keep. */
export class Ledger {
  readonly #inputs: Message[] = [];
  readonly #files: Message[] = [];
  readonly #answers: Message[] = [];
  readonly values = new Map<string, unknown>();

  input(text: string): void {
    const sha256 = createHash("sha256").update(text).digest("hex");
    note(this.#inputs, { bytes: Buffer.byteLength(text), sha256 });
  }

  file(file: Message): void {
    note(this.#files, file);
  }

  answer({ request_id, approved }: Message): void {
    note(this.#answers, { request_id, approved: approved === true });
  }

  async report(): Promise<Message> {
    const files = await Promise.all(this.#files.map(judged));
    return { count: this.#inputs.length, inputs: this.#inputs, files, permissions: this.#answers };
  }
}

function note(list: Message[], item: Message): void {
  if (list.push(item) > KEPT) list.shift();
}

// What a file holds, which may be anything or nothing.
async function judged({ file_name: name, file_mime_type: mime, file_path: path }: Message): Promise<Message> {
  try {
    const { size: bytes, sha256 } = await digest(path);
    return { name, mime, path, bytes, sha256 };
  } catch (error) {
    return { name, mime, path, error: String(error) };
  }
}

/** The script in an input; nothing where it is an ordinary one. */
export function scriptIn(text: string): Message | undefined {
  if (!text.trimStart().startsWith("{")) return undefined;
  try {
    const script: unknown = JSON.parse(text);
    const steps: unknown = isObject(script) && "$probe" in script ? (script["do"] ?? []) : undefined;
    return Array.isArray(steps) && steps.every(Array.isArray) ? (script as Message) : undefined;
  } catch {
    return undefined;
  }
}

const asText = (value: unknown): string => (typeof value === "string" ? value : value === undefined || value === null ? "" : encode(value));
const asNumber = (value: unknown): number => (typeof value === "number" && value >= 0 ? Math.min(value, Number.MAX_SAFE_INTEGER) : 0);

/** A message with the members that its type has. */
function shaped(message: Message): Message {
  const names = FIELDS.get(message["type"]) ?? [];
  const found: Message = {};
  for (const name of names) {
    if (name !== "session_id" && name !== "turn_id" && message[name] !== undefined) found[name] = message[name];
  }
  return found;
}

/** Does what a script says: the whole turn. */
export async function runScript(turn: Turn<any>, core: Core, script: Message): Promise<void> {
  for (const [name, ...given] of (script["do"] ?? []) as unknown[][]) {
    if (turn.stopped) return;
    if (await run(turn, core, script, asText(name), given)) return;
  }
}

// One step; true ends the script.
async function run(turn: Turn<any>, core: Core, script: Message, name: string, given: unknown[]): Promise<boolean> {
  const say = (data: Message) => turn.output(encode({ $probe: 1, ...data }));
  const ledger = core.ledger!;
  const [first, second, third] = given;
  switch (name) {
    case "hello":
      await say({ ops: OPERATIONS, adapter: core.link.described.name, version: core.link.described.own.version });
      break;
    case "say":
      await turn.output(asText(first), asText(second) || "stdout");
      break;
    case "echo":
      await turn.output(asText(first ?? script["text"]));
      break;
    case "burst": {
      const letter = typeof third === "string" && third.length === 1 ? third : "x";
      const fill = letter.repeat(Math.max(0, Math.min(asNumber(second), MOST) - "00000001 ".length));
      for (let number = 1; number <= asNumber(first) && !turn.stopped; number++) {
        await turn.output(`${String(number).padStart(8, "0")} ${fill}`);
      }
      break;
    }
    case "sleep":
      await busy(turn, performance.now() + asNumber(first));
      break;
    case "until_stop":
      await busy(turn, Infinity);
      break;
    case "report":
      await say(await ledger.report());
      break;
    case "set":
      ledger.values.set(asText(first), second);
      break;
    case "get":
      await say({ key: asText(first), value: ledger.values.get(asText(first)) ?? null });
      break;
    case "ask": // at once: they may be answered in any order
      await Promise.all(given.filter(isObject).map((asked) => ask(turn, asked, say)));
      break;
    case "question": {
      const { prompt, fields } = first as Message;
      const { values, cancelled } = await turn.question({ prompt: asText(prompt), ...(fields ? { fields } : {}) } as Question);
      await say({ values, cancelled });
      break;
    }
    case "file": {
      const data = Buffer.alloc(Math.min(asNumber(third), MOST), "x");
      await turn.newFile(asText(first) || "probe.bin", data, second === undefined ? {} : { mime: asText(second) });
      break;
    }
    case "event":
    case "info": {
      const event = shaped(name === "info" ? { ...(first as Message), type: "session.info" } : (first as Message));
      if (event["type"]) await turn.emit(event as Event);
      break;
    }
    case "ready":
      await say({ extensions: [...core.agreed].sort() });
      break;
    case "complete":
      if (isObject(first)) turn.end(shaped({ ...first, type: "turn.complete" }));
      else if (typeof first === "string") turn.end({ status: first as Status });
      return true;
    case "fail":
      throw new Failure(asText(first) || "the script fails");
    case "close_session":
      turn.session.end((asText(first) || "finished") as ClosedReason);
      return true;
    case "exit":
      return process.exit(asNumber(first));
    case "abort":
      return process.abort();
    default:
      await say({ unsupported: name });
      return true;
  }
  return false;
}

async function busy(turn: Turn<any>, until: number): Promise<void> {
  void take(turn);
  for (let left; !turn.stopped && (left = until - performance.now()) > 0; ) {
    await sleep(Math.min(left, TICK), undefined, { signal: turn.signal }).catch(() => {});
    if (left >= TICK && !turn.stopped) await turn.output("tick");
  }
}

// What adds to the turn has reached it, where the adapter takes such inputs at all.
async function take(turn: Turn<any>): Promise<void> {
  for await (const steer of turn.steers()) steer.accept();
}

async function ask(turn: Turn<any>, asked: Message, say: (data: Message) => Promise<void>): Promise<void> {
  const { tool, description, resource, title, options, effect } = asked;
  const kinds = Array.isArray(options) ? options.filter((option) => isObject(option) && option["kind"]) : [];
  const request = {
    tool: asText(tool),
    description: asText(description),
    resource: asText(resource),
    ...(title ? { title: asText(title) } : {}),
    ...(kinds.length > 0 ? { options: kinds } : {}),
  };
  const { approved, optionId = null } = await turn.permission(request as Permission);
  if (approved && effect) await writeFile(asText(effect), "");
  await say({ asked: { resource: resource ?? "", approved, option_id: optionId } });
}
