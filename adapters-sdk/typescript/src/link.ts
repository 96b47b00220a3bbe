// One pipe and its sessions: what a line from the host does. Nothing here waits.
import { basename } from "node:path";
import { Described, type Adapter } from "./adapter.js";
import { Core, errorOf } from "./core.js";
import type { Extensions } from "./fold.js";
import { ANSWER_TOO_LONG, MIN_MAX_LINE } from "./fit.js";
import { DEEP, encode, hasBadId, isId, isObject, meta, optionalId, optionalText, parseText, rawMember, uint } from "./json.js";
import type { Message } from "./json.js";
import { Lines, MAX_LINE } from "./lines.js";
import { Ledger } from "./probe.js";
import { Running } from "./running.js";
import { work } from "./work.js";
import { OVERRUN, Wire, type Sink } from "./wire.js";

const PROTOCOL = 1;
/** How long a handler may go on after a stop, in milliseconds. */
export const STOP_GRACE = 2000;
// The types beyond the core, and the extension that each needs.
const LATER = new Map([
  ["session.update", "options"],
  ["input.response", "questions"],
  ["flow.pause", "flow"],
  ["flow.resume", "flow"],
]);
const UPDATES = ["model", "reasoning_effort", "mode", "permission_mode", "allowed_tools", "denied_tools", "options"];

type Check = (value: unknown) => boolean;
const isText: Check = (value) => typeof value === "string";
const isNumber: Check = (value) => typeof value === "number";
const isUint: Check = (value) => uint({ value }, "value") !== undefined;
const isList: Check = (value) => Array.isArray(value) && value.every(isText);
const isMap: Check = (value) => isObject(value) && Object.values(value).every(isText);
const isKnown: Check = (value) => value !== undefined && value !== null && value !== DEEP;
const isResume: Check = (value) =>
  isObject(value) && (value["native_session_id"] ?? "") === String(value["native_session_id"] ?? "");
const checks = (check: Check, names: string): [string, Check][] => names.split(" ").map((name) => [name, check]);
const OPTIONS = new Map<string, Check>([
  ...checks(isText, "agent_id user_id task_id run_id role cwd exchange_dir model reasoning_effort system_prompt mode permission_mode"),
  ...checks((value) => value === "append" || value === "replace", "system_prompt_mode"),
  ...checks(isList, "add_dirs allowed_tools denied_tools allowed_domains extra_args"),
  ...checks(isMap, "variables env"),
  ...checks(isNumber, "temperature max_cost_usd"),
  ...checks(isUint, "iteration max_turns max_tokens turn_timeout_ms inactivity_timeout_ms"),
  ...checks(isKnown, "mcp_servers output_schema skills"),
]);

/** The adapter and the sessions of one pipe. */
export class Link {
  readonly described: Described;
  readonly wire: Wire;
  readonly lines: Lines;
  probing = process.env["CONFORM_PROBE"] === "1";
  onIdle: () => void = () => {};
  readonly #sessions = new Map<string, Core>();
  readonly #named = new Set<string>(); // extensions that some `session.ready` has named ([ext.9])
  #lastKey = 0;
  #active = 0; // sessions that have a worker

  constructor(
    readonly adapter: Adapter<any>,
    sink: Sink,
    readonly grace: number = STOP_GRACE,
  ) {
    this.described = new Described(adapter.describe?.() ?? {});
    this.wire = new Wire(sink);
    this.lines = new Lines({ line: (text) => this.#line(text), tooLong: (first, bytes) => this.#tooLong(first, bytes) });
  }

  get isIdle(): boolean {
    return this.#active === 0;
  }

  /** A line for the operator. */
  warn(text: string): void {
    console.error(text);
  }

  work(core: Core, worker: number): void {
    work(core, worker);
  }

  begun(): void {
    this.#active++;
  }

  rested(): void {
    if (--this.#active === 0) this.onIdle();
  }

  /** Gives the handler of a turn that was stopped, or has ended without it, the grace. */
  countDown(core: Core, turn: Running): void {
    turn.late ??= setTimeout(() => core.giveUp(turn), this.grace).unref();
  }

  /** A session that has ended by itself: its id is unknown from now on. */
  forget(core: Core): void {
    if (this.#sessions.get(core.id) === core) this.#sessions.delete(core.id);
  }

  shut(): void {
    for (const core of [...this.#sessions.values()]) core.shut();
  }

  shutNow(): void {
    for (const core of [...this.#sessions.values()]) core.shutNow();
  }

  // What is not a message is skipped and never answered ([frame.6], [msg.4]).
  #line(text: string): void {
    const message = parseText(text);
    if (!message) return;
    const { type, session_id: id } = message;
    if (typeof type !== "string" || typeof id !== "string") return;
    if (hasBadId(message)) {
      return this.warn(`a message of type ${JSON.stringify(type.slice(0, 64))} is dropped: one of its ids has more than 256 bytes`);
    }
    const core = this.#sessions.get(id);
    if (type === "user.input") {
      if (core) this.#ofSession(core, type, message);
    } else if (type === "session.start") {
      if (isId(id) && (!core || core.phase === "closed")) this.#open(id, message);
    } else if (type === "ping" || type === "sessions.list") {
      if (id === "") this.#ofPipe(type, message, text);
    } else if (!core) return;
    else if (type === "session.close") {
      this.#sessions.delete(id);
      core.close();
    } else {
      const extension = LATER.get(type);
      if (extension === undefined || core.agreed.has(extension)) this.#ofSession(core, type, message);
    }
  }

  #tooLong(first: Buffer, bytes: number): void {
    const named = /"session_id"\s*:\s*("(?:[^"\\]|\\.)*")/.exec(first.toString());
    if (!named) return;
    try {
      const core = this.#sessions.get(JSON.parse(named[1]!));
      if (core && !core.isOver) core.send(undefined, errorOf("oversize", `a line of ${bytes} bytes is over the limit and was skipped`));
    } catch {
      // it names none
    }
  }

  #ofSession(core: Core, type: string, message: Message): void {
    if (this.wire.held(core.key) > OVERRUN) {
      return core.finish("limit", { category: "busy", message: "the host reads less than it asks for" });
    }
    const withTurns = core.agreed.has("turns");
    const turnId = withTurns ? optionalId(message, "turn_id") : undefined;
    switch (type) {
      case "user.input":
        return this.#input(core, turnId, withTurns, message);
      case "file.input":
        return this.#file(core, message);
      case "permission.response":
      case "input.response":
        if (isId(message["request_id"])) core.requests.answer(message);
        return;
      case "stop":
        return core.stop(turnId, withTurns ? optionalText(message, "reason") : undefined);
      case "session.update":
        return core.take({ kind: "update", job: chosen(message, UPDATES) });
      case "flow.pause":
        return this.wire.flow(core.key, true);
      case "flow.resume":
        this.wire.flow(core.key, false);
        if (core.phase === "closed") this.forget(core);
    }
  }

  #input(core: Core, turnId: string | undefined, withTurns: boolean, message: Message): void {
    const content: unknown = message["content"] ?? "";
    if (typeof content !== "string") return;
    const messageId = withTurns ? optionalId(message, "message_id") : undefined;
    if (withTurns && message["mode"] === "steer") return core.steer(messageId, content);
    const turn = new Running(core, turnId, content, messageId, core.agreed.size > 0 ? meta(message) : undefined);
    const large: unknown = core.agreed.has("large") ? message["large"]?.["content"] : undefined;
    if (isObject(large)) turn.large = large;
    core.take(turn);
  }

  #file(core: Core, message: Message): void {
    const path = optionalText(message, "file_path");
    if (path === undefined) return;
    const file: Message = {
      file_name: optionalText(message, "file_name") || basename(path),
      file_mime_type: optionalText(message, "file_mime_type") || "application/octet-stream",
      file_path: path,
    };
    if (core.agreed.has("large")) {
      const [size, sha256] = [uint(message, "size"), optionalText(message, "sha256")];
      if (size !== undefined) file["size"] = size;
      if (sha256 !== undefined) file["sha256"] = sha256;
    }
    core.take({ kind: "file", job: file });
  }

  #ofPipe(type: string, message: Message, text: string): void {
    if (type === "ping" && this.#named.has("control")) {
      const nonce: unknown = message["nonce"] ?? undefined;
      if (nonce === DEEP) return;
      const raw = nonce === undefined ? "" : `,"nonce":${typeof nonce === "string" ? encode(nonce) : rawMember(text, "nonce")}`;
      this.wire.putUrgent(`{"type":"pong","session_id":""${raw}}\n`);
    } else if (type === "sessions.list" && this.#named.has("resume") && isId(message["request_id"])) {
      void this.#list(message["request_id"], message);
    }
  }

  async #list(request_id: string, message: Message): Promise<void> {
    const [cwd, limit] = [optionalText(message, "cwd"), uint(message, "limit")];
    let result: Message;
    try {
      const asked = { ...(cwd === undefined ? {} : { cwd }), ...(limit === undefined ? {} : { limit }) };
      result = { entries: (await this.adapter.sessions?.(asked)) ?? [] };
    } catch (error) {
      result = { entries: [], error: error instanceof Error ? error.message : String(error) };
    }
    const head = { type: "sessions.list.result", session_id: "", request_id };
    // The host reads its sessions and this answer from one pipe.
    const longest = Math.max(MIN_MAX_LINE, ...[...this.#sessions.values()].map((core) => core.maxLine));
    const line = encode({ ...head, ...result });
    this.wire.put(0, (Buffer.byteLength(line) > longest ? encode({ ...head, error: ANSWER_TOO_LONG }) : line) + "\n");
  }

  #open(id: string, message: Message): void {
    const offered: unknown = message["extensions"];
    const names: string[] = isList(offered) ? (offered as string[]) : [];
    const agreed: Extensions = new Set(names.filter((name) => this.described.agreeable.has(name)));
    const start = optionsOf(message, agreed);
    const core = new Core(this, id, ++this.#lastKey, agreed, start);
    if (this.probing) core.ledger = new Ledger();
    const open = this.#sessions.size;
    const before = this.#sessions.get(id);
    if (before) this.wire.purge(before.key);
    this.#sessions.set(id, core);
    const theirs: number = start["protocol"] ?? PROTOCOL;
    if (agreed.size > 0) this.#greet(core, start, Math.min(theirs, PROTOCOL));
    const most = this.described.own.maxSessions;
    if (theirs === 0) {
      const text = `the host speaks version 0 of the protocol, this adapter ${PROTOCOL}`;
      core.finish("protocol", { category: "protocol", message: text });
    } else if (most !== undefined && open >= most) {
      core.finish("limit", { category: "busy", message: `the adapter serves ${most} sessions at a time` });
    } else core.take({ kind: "start", job: start });
  }

  #greet(core: Core, start: Message, protocol: number): void {
    for (const name of core.agreed) this.#named.add(name);
    let own: Message = {};
    try {
      own = this.adapter.greet?.(start) ?? {};
    } catch (error) {
      this.warn(`greet failed: ${String(error)}`);
    }
    const ready = { type: "session.ready", protocol, extensions: [...core.agreed].sort(), max_line: MAX_LINE };
    core.send(undefined, { ...ready, ...this.described.greeting(start, own) });
  }
}

function chosen(message: Message, names: Iterable<string>): Message {
  const found: Message = {};
  for (const name of names) if (OPTIONS.get(name)?.(message[name])) found[name] = message[name];
  return found;
}

// The members of a `session.start` that count: of the agreed extensions, and of their type.
function optionsOf(message: Message, agreed: Extensions): Message {
  const start = agreed.has("options") ? chosen(message, OPTIONS.keys()) : {};
  for (const name of ["protocol", "max_line"]) if (isUint(message[name])) start[name] = message[name];
  if (isList(message["extensions"])) start["extensions"] = message["extensions"];
  if (agreed.has("resume") && isResume(message["resume"])) start["resume"] = message["resume"];
  return start;
}
