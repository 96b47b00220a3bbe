// A session, as its adapter holds it.
import { byFile } from "./fit.js";
import { errorOf, type Core } from "./core.js";
import { encode, type Message } from "./json.js";
import { keep } from "./files.js";
import type { SessionInfo, SessionOptions } from "./adapter.js";
import { CORE, TYPE_OF, type Extensions } from "./fold.js";
import type { Running } from "./running.js";
import type { AdapterMessage, Category, ClosedReason, Resume } from "./types.js";

// The types that the package alone sends.
const OURS = new Set(
  "turn.complete permission.request permission.cancel input.request session.ready session.closed steer.result sessions.list.result agents.list.result pong".split(" "),
);
// The types that an author may send.
const TYPES = new Set([...CORE, ...TYPE_OF.keys(), "session.info"].filter((type) => !OURS.has(type)));
type Ours =
  | "turn.complete" | "permission.request" | "permission.cancel" | "input.request" | "session.ready" | "session.closed"
  | "steer.result" | "sessions.list.result" | "agents.list.result" | "pong";
type Sendable<M> = M extends { type: Ours } ? never : M extends { type: string } ? Omit<M, "session_id" | "turn_id"> : never;

/** A message that an author may send, without its session and turn: `{ type: "progress", message: "…" }`. */
export type Event = Sendable<AdapterMessage>;

const UNAWAITED = 16 * 1024 * 1024;

/** Sends an event; what of it is too long for a line may go by file before ([large.2]). */
export function put(core: Core, turn: Running | undefined, event: Message): void {
  const { type } = event;
  if (OURS.has(type)) throw new TypeError(`${type} is sent by the package itself`);
  if (!TYPES.has(type)) {
    const near = nearest(String(type));
    const advice = near === undefined ? "use custom() for an event of your own" : `did you mean '${near}'?`;
    throw new TypeError(`no message of an adapter has the type '${type}': ${advice}`);
  }
  if (core.link.wire.held(core.key) > UNAWAITED) throw new Error("the host reads too little: await what you send");
  core.put(turn, placed(core, event));
}

// The type that a name was meant to be: at most a third of it, and two characters, differ.
function nearest(name: string): string | undefined {
  const isNear = (type: string) => distance(name.slice(0, 64), type) <= Math.min(2, type.length / 3);
  return [...TYPES].find((type) => isNear(type) && !name.endsWith(`.${type}`));
}

// Number of characters that are added, left out or changed.
function distance(name: string, type: string): number {
  let row = Array.from({ length: type.length + 1 }, (_, at) => at);
  for (let y = 0; y < name.length; y++) {
    const above = row;
    row = [y + 1];
    for (let x = 0; x < type.length; x++) {
      row.push(Math.min(row[x]! + 1, above[x + 1]! + 1, above[x]! + (type[x] === name[y] ? 0 : 1)));
    }
  }
  return row.at(-1)!;
}

/** The kind of a value, for the text of an error. */
export const kindOf = (value: unknown) => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value);

/** The same, where members of it lie in files. Throws TypeError for what JSON does not have. */
export function placed(core: Core, event: Message): Message {
  const folder = core.exchangeDir;
  if (folder !== undefined) return byFile(event, core.agreed, core.maxLine - 1024, (text) => keep(folder, text));
  encode(event);
  return event;
}

/** One conversation. After its end it is silent. */
export class Session<State = unknown> {
  readonly #core: Core;
  /** What `session.start` says, of the extensions that were agreed on. */
  readonly options: SessionOptions;
  /** What the author keeps of the session: what `start` returned. It outlives turns. */
  state!: State;

  /** @internal */
  constructor(core: Core, options: Message) {
    this.#core = core;
    this.options = options;
  }

  /** The host's id of the session: opaque, so use it as a key of a `Map` and not of an object. */
  get id(): string {
    return this.#core.id;
  }

  /** The extensions that both sides use. What the host did not offer is folded down or left out. */
  get agreed(): Extensions {
    return this.#core.agreed;
  }

  /** What to go on with, where the host says so. */
  get resume(): Resume | undefined {
    return this.options.resume;
  }

  /** The folder for files of this session ([file.6]). */
  get scratchDir(): string {
    return this.#core.scratchDir();
  }

  /** Whether the session has ended, by either side. */
  get isClosed(): boolean {
    return this.#core.isOver;
  }

  /** Sends text outside any turn. Never waits; throws where the host reads too little, beyond 16 MiB. */
  output(text: string, channel = "stdout"): void {
    if (typeof text !== "string") throw new TypeError(`output() takes a string, not ${kindOf(text)}`);
    this.emit({ type: "output", content: text, channel });
  }

  /** Reports what became known of the session: `model`, `native_session_id`, `context` and their kin. */
  info(info: SessionInfo): void {
    this.emit({ ...info, type: "session.info" });
  }

  /** Sends any event outside any turn, as `Turn.emit` does. Never waits; throws likewise. */
  emit(event: Event): void {
    put(this.#core, undefined, event);
  }

  /** Ends the session by the adapter's own will, after ending its turns. A second call does nothing. */
  end(reason: ClosedReason = "finished", message?: string, category: Category = "other"): void {
    const error = message === undefined ? undefined : errorOf(category, message);
    this.#core.finish(reason, error && { category: error["category"], message: error["message"] });
  }
}

/** A text that the user adds to a turn that runs. The turn's end refuses it where the handler did neither. */
export class Steer {
  readonly #answer: (delivered: boolean, reason?: string) => void;

  /** @internal */
  constructor(
    core: Core,
    turn: Running,
    messageId: string | undefined,
    /** The text. */
    readonly content: string,
  ) {
    turn.taken.set(this, messageId);
    this.#answer = (delivered, reason) => {
      if (!turn.taken.delete(this) || !core.speaksFor(turn)) return;
      core.send(turn.id, { type: "steer.result", message_id: messageId, delivered, reason });
    };
  }

  /** Reports to the host that the agent has it, and returns the text. */
  accept(): string {
    this.#answer(true);
    return this.content;
  }

  /** Reports to the host that the agent did not take it, and why. */
  refuse(reason: string): void {
    this.#answer(false, reason);
  }
}
