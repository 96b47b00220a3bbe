// What an author writes: a handler, or an object with hooks.
import { basename, isAbsolute, parse } from "node:path";
import { EXTENSIONS, type Extension, type Extensions } from "./fold.js";
import type { Message } from "./json.js";
import type { Session } from "./session.js";
import type { Input, Turn } from "./turn.js";
import type { Capabilities, Category, ClosedReason, Command, Failure as ErrorMember, Mode, Model } from "./types.js";
import type { FileInputMessage, SessionEntry, SessionInfoMessage, SessionStartMessage, SessionUpdateMessage, Status } from "./types.js";

/** What `session.start` says, of the extensions that were agreed on: members of another type are left out. */
export type SessionOptions = Partial<Omit<SessionStartMessage, "type" | "session_id" | "turn_id">>;
/** What `session.ready` and `session.info` may say of a session. */
export type SessionInfo = Partial<Omit<SessionInfoMessage, "type" | "session_id" | "turn_id">>;
/** What `session.update` changes; what is absent stays. */
export type SessionChanges = Partial<Omit<SessionUpdateMessage, "type" | "session_id" | "turn_id">>;
/** A file that the user gives: it is the host's, so read it and leave it. */
export type FileInput = Omit<FileInputMessage, "type" | "session_id" | "turn_id"> & { file_name: string; file_mime_type: string };

/** One result of `--diagnose`. */
export interface Check {
  /** Names the check: a word. */
  code: string;
  level: "info" | "warn" | "error";
  /** What a person reads. */
  message: string;
  detail?: string;
  /** What a person can do. */
  hint?: string;
}

/** What the author's `Failure` may say besides its message. */
export interface FailureOptions {
  /** What kind of failure it is; absent: `other`. */
  category?: Category;
  /** Absent: `failed`. */
  status?: Status;
  /** The agent's own code. */
  code?: string;
  /** When to try again, in RFC 3339. */
  retryAt?: string;
  /** Ends the session, too, with this reason, behind the turn. */
  closes?: ClosedReason;
}

/**
 * Ends a turn as failed, refused or limited; thrown in `start`, it ends the session. The user reads `message`, so it must
 * hold no secret. Everything else that is thrown fails the turn with category `other`.
 */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly status: Status;
  readonly closes: ClosedReason | undefined;
  /** The member `error` of the turn's end. */
  readonly error: ErrorMember;

  constructor(message: string, { category = "other", status = "failed", code, retryAt, closes }: FailureOptions = {}) {
    super(message);
    this.status = status;
    this.closes = closes;
    this.error = { category, message, ...(code === undefined ? {} : { code }), ...(retryAt === undefined ? {} : { retry_at: retryAt }) };
  }
}

/** What an adapter says of itself, in `session.ready` and for `--describe`. */
export interface Description {
  /** Absent: the program's name. */
  name?: string;
  version?: string;
  /** When to use it, and when not, for people and models that choose. */
  useWhen?: string;
  avoidWhen?: string;
  /** Extensions that are not used. */
  without?: readonly Extension[];
  /** It goes on with an earlier session: `session.resume` says which. */
  resumes?: boolean;
  /** It takes inputs during a turn, by `turn.steers()`. */
  steerable?: boolean;
  /** The options of `session.start` that it honours ([ext.7]). Name what restricts only if it holds. */
  honours?: readonly string[];
  /** It runs a tool with the input that an approval changed. */
  takesUpdatedInput?: boolean;
  /** Tool calls go as JSON on channel `tool` to hosts without `events`. */
  toolsAsOutput?: boolean;
  /** The most sessions at a time. */
  maxSessions?: number;
  capabilities?: Capabilities;
  models?: readonly Model[];
  modes?: readonly Mode[];
  commands?: readonly Command[];
  /** The JSON Schema of the configuration. */
  configSchema?: unknown;
  /** What a person can set or run to log in; it is added to failures of category `auth`. */
  loginHint?: string;
}

type Awaitable<T> = T | Promise<T>;

/**
 * An adapter: how a turn is served, and what else differs from the defaults.
 *
 * One value serves every session of the process. Sessions run at the same time; within one session everything runs one
 * after the other in the host's order, so `session.state` needs no lock. What a hook throws ends what it was for (the turn,
 * the start) as failed and nothing else.
 */
export interface Adapter<State = unknown> {
  /** Serves one turn: its return is the turn's end ([turn.1]). Watch `turn.signal`: return soon after a stop. */
  turn(turn: Turn<State>, input: Input): Awaitable<void>;
  /** Says what the adapter is and can. Called once. */
  describe?(): Description;
  /** Members of `session.ready` that depend on the session's options. It must not block. */
  greet?(options: SessionOptions): SessionInfo;
  /** Makes the session's state when it is opened. Inputs wait for it; the host does not. */
  start?(session: Session<State>, options: SessionOptions): Awaitable<State>;
  /** Changes options between turns; returns the values now in force. */
  update?(session: Session<State>, changes: SessionChanges): Awaitable<SessionInfo | void>;
  /** Takes note of a file as soon as it is announced. It comes with the next `Input`, too. */
  file?(session: Session<State>, file: FileInput): Awaitable<void>;
  /** Frees what the session holds, after its last turn. Called once for each start that returned. */
  close?(session: Session<State>): Awaitable<void>;
  /** Lists sessions that can be resumed, newest first. Needs `resumes`. */
  sessions?(list: { cwd?: string; limit?: number }): Awaitable<readonly SessionEntry[]>;
  /** Checks what the adapter needs (`--diagnose`). */
  diagnose?(): Awaitable<readonly Check[]>;
}

/** Serves one turn. */
export type Handler<State = unknown> = Adapter<State>["turn"];

/** A description as the package uses it. */
export class Described {
  readonly name: string;
  readonly agreeable: Extensions;

  constructor(readonly own: Description) {
    this.name = own.name ?? (parse(basename(process.argv[1] ?? "")).name || "adapter");
    const without = new Set<string>(own.without ?? []);
    if (!own.resumes) without.add("resume");
    this.agreeable = new Set(EXTENSIONS.filter((extension) => !without.has(extension)));
  }

  #capabilities(): Capabilities {
    const { resumes, takesUpdatedInput, maxSessions, capabilities } = this.own;
    return {
      turn_completion: true,
      ...(resumes ? { resume_attach: true } : {}),
      ...(takesUpdatedInput ? { updated_input: true } : {}),
      ...(maxSessions === undefined ? {} : { max_sessions: maxSessions }),
      ...capabilities,
    };
  }

  /** What `session.ready` says; `own` precedes. */
  greeting(options: Message, own: Message): Message {
    const { version, steerable, honours = [] } = this.own;
    const applied: string[] = [...(own["options_applied"] ?? honours.filter((name) => Object.hasOwn(options, name)))];
    const folder: unknown = options["exchange_dir"];
    if (typeof folder === "string" && isAbsolute(folder) && !applied.includes("exchange_dir")) {
      applied.push("exchange_dir"); // files go there where the host names one ([file.6])
    }
    const lists: Message = {};
    for (const name of ["models", "modes", "commands"] as const) if (this.own[name]?.length) lists[name] = this.own[name];
    return {
      adapter: { name: this.name, ...(version === undefined ? {} : { version }) },
      capabilities: this.#capabilities(),
      input_modes: steerable ? ["queue", "steer"] : ["queue"],
      ...lists,
      ...own,
      options_applied: applied,
    };
  }

  /** What `--describe` prints. */
  printed(): Message {
    const { version, models = [], honours = [], configSchema = null, useWhen = null, avoidWhen = null } = this.own;
    return {
      name: this.name,
      ...(version === undefined ? {} : { version }),
      protocol: 1,
      models,
      capabilities: this.#capabilities(),
      extensions: [...this.agreeable].sort(),
      options: honours,
      config_schema: configSchema,
      use_when: useWhen,
      dont_use_when: avoidWhen,
    };
  }
}

/** The adapter that a handler makes. Throws TypeError for a description beside an adapter, which describes itself. */
export function adapterOf<State>(handler: Handler<State> | Adapter<State>, description?: Description): Adapter<State> {
  if (typeof handler === "function") return { turn: handler, describe: () => description ?? {} };
  if (description) throw new TypeError("an adapter describes itself, by describe()");
  return handler;
}
