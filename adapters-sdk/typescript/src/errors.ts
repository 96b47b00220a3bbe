// Errors of a client, the same classes on every transport. Nothing here needs Node.

/**
 * An error of a client. A permanent one rejects at once; any other one was retried for `retryFor` before it rejects.
 *
 * | permanent | retried |
 * |---|---|
 * | status 400 to 499, such as 401, 403, 404, 409, 410, 422; 501 | 408, 425, 429 (after its `Retry-After`), 500, 502, 503, 504 |
 * | an address that refuses the first connection | an address that refuses after it worked; a connection that is lost |
 * | a command that is not found (127), or exits with 2 | a command that a signal ended, or that exits with another status |
 * | another protocol; an answer over its bound; an ability that the transport lacks | two lines over the bound, by a new connection |
 */
export abstract class ClientError extends Error {
  /** Whether a retry would not help. */
  abstract readonly isPermanent: boolean;
  /** Milliseconds to wait before the next attempt, if the other side named a time. */
  readonly retryAfter: number | undefined = undefined;

  /** @internal */
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

const RETRIED = new Set([408, 425, 429, 500, 502, 503, 504]);

/** The other side refused a request. `status` is that of HTTP on every transport, `category` one of the protocol's. */
export class Refused extends ClientError {
  readonly isPermanent: boolean;
  override readonly retryAfter: number | undefined;

  constructor(
    readonly status: number,
    /** The reason, for a person. */
    readonly detail: string,
    readonly category = "other",
    retryAfter?: number,
  ) {
    super(`refused (${status}): ${detail}`);
    this.isPermanent = !RETRIED.has(status);
    this.retryAfter = retryAfter;
  }
}

/** No connection, or one that was lost. `cause` is the system's error. */
export class Unreachable extends ClientError {
  readonly isPermanent = false;
}

/** A command has exited, or could not be started (127). */
export class CommandEnded extends ClientError {
  readonly isPermanent: boolean;

  constructor(
    readonly command: string,
    readonly status: number | undefined,
    readonly signal: string | undefined,
    options?: ErrorOptions,
  ) {
    super(status === 127 && options ? `failed to start ${command}: it was not found` : `${command} ended with ${signal ?? `status ${status}`}`, options);
    this.isPermanent = status === 2 || status === 126 || status === 127;
  }
}

/** The other side does not speak the protocol, or another version of it. */
export class ProtocolMismatch extends ClientError {
  readonly isPermanent = true;
}

/** An answer is larger than the client reads. */
export class AnswerTooLarge extends ClientError {
  readonly isPermanent = true;

  constructor(
    /** The thing that is bounded, such as `an entry`. */
    readonly what: string,
    /** The bound. */
    readonly bound: number,
    readonly unit: "bytes" | "UTF-16 units" | "entries" = "bytes",
  ) {
    super(`${what} is over ${bound} ${unit}`);
  }
}

/** The transport lacks an ability. */
export class UnsupportedAbility extends ClientError {
  readonly isPermanent = true;

  constructor(readonly ability: string, transports = "overHttp, webSocket, or unixSocket of a daemon") {
    super(`${ability} needs another transport: connect by ${transports}`);
  }
}

/** A session was closed. `cause` is the relay's error, if there is one. */
export class SessionEnded extends ClientError {
  readonly isPermanent = true;

  constructor(
    /** The relay's reason, such as `finished`; nothing if a client closed it. */
    readonly reason: string | undefined,
    /** Category of a failure. */
    readonly category: string | undefined,
    message: string | undefined,
    options?: ErrorOptions,
  ) {
    super(["the session has ended", reason, message].filter((part) => part !== undefined).join(": "), options);
  }
}

/** This client was closed. */
export class ClientClosed extends ClientError {
  readonly isPermanent = true;

  constructor() {
    super("the client is closed");
  }
}

/** Reason of the `AbortSignal` that a callback for a permission or a question gets: nobody waits for its answer. */
export class RequestSettled extends Error {
  constructor(
    /** `answered`: by another client. `withdrawn`: by the agent or a stop. The rest: the turn, the session or the client ended. */
    readonly how: "answered" | "withdrawn" | "turn_ended" | "session_ended" | "client_ended",
    /** Whether a permission was given. */
    readonly approved?: boolean,
    /** The client that answered, as in an entry. */
    readonly by?: string,
    /** The person who answered, if that client named one. */
    readonly person?: string,
  ) {
    const who = person ?? by ?? "another client";
    const answer = approved === undefined ? "answered" : approved ? "approved" : "denied";
    super(how === "answered" ? `${who} ${answer} it` : HOW[how]);
    this.name = "RequestSettled";
  }
}

const HOW = {
  withdrawn: "it was withdrawn",
  turn_ended: "its turn has ended",
  session_ended: "its session has ended",
  client_ended: "the client is closed",
};

/** Whether a retry of what failed would not help. An unknown error is no promise of a recovery, but may have been one of the way. */
export const isPermanent = (error: unknown): boolean => error instanceof ClientError && error.isPermanent;

/** An error as one of a client. @internal */
export function clientError(error: unknown): ClientError {
  if (error instanceof ClientError) return error;
  return new Unreachable(error instanceof Error ? error.message : String(error), { cause: error });
}

const FIRST_WAIT = 50;
const LONGEST_WAIT = 2000;
const LONGEST_RETRY_AFTER = 60_000;

/** The wait before a retry, in milliseconds: doubled each time and varied by half, and never less than the other side asked for. */
export function backoff(tries: number, error?: ClientError): number {
  const wait = Math.min(FIRST_WAIT * 2 ** tries, LONGEST_WAIT) * (0.5 + Math.random() / 2);
  return Math.max(wait, Math.min(error?.retryAfter ?? 0, LONGEST_RETRY_AFTER));
}

/** Waits; a signal ends that early. @internal */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
    signal?.addEventListener("abort", done);
  });
}
