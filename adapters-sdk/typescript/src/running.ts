// One turn, as the package holds it.
import type { Core } from "./core.js";
import type { Message } from "./json.js";

const NO_FILES: readonly Message[] = Object.freeze([]);

/** A turn from its input to its one end, as the package holds it. */
export class Running {
  readonly kind = "turn";
  files: readonly Message[] = NO_FILES;
  large: Message | undefined;
  stopping = false;
  stopReason: string | undefined;
  over = false;
  /** Its handler is done with it, or was given up. */
  returned = false;
  // What most turns do without is made when it is asked for: so a short turn is cheap.
  #onStop: (() => void)[] | undefined;
  #openTools: Set<string> | undefined;
  #steers: { messageId: string | undefined; content: string }[] | undefined;
  #taken: Map<object, string | undefined> | undefined;
  onSteer: (() => void) | undefined;
  head: string | undefined;
  late: NodeJS.Timeout | undefined;

  constructor(
    readonly core: Core,
    readonly id: string | undefined,
    public text: string,
    readonly messageId: string | undefined,
    readonly meta: Message | undefined,
  ) {}

  /** Takes note that its handler has returned, or has failed. */
  return(): void {
    this.returned = true;
    if (this.late) clearTimeout(this.late);
  }

  /** Calls it once, at a stop or at the end. */
  onStop(call: () => void): void {
    if (this.stopping || this.over) call();
    else (this.#onStop ??= []).push(call);
  }

  ring(): void {
    const calls = this.#onStop;
    this.#onStop = undefined;
    if (calls) for (const call of calls) call();
    this.onSteer?.();
  }

  get openTools(): Set<string> {
    return (this.#openTools ??= new Set());
  }

  get steers(): { messageId: string | undefined; content: string }[] {
    return (this.#steers ??= []);
  }

  /** Steers that the handler holds and has not answered. */
  get taken(): Map<object, string | undefined> {
    return (this.#taken ??= new Map());
  }

  /** Whether the end of it has something to end. */
  get leavesOpen(): boolean {
    return this.#openTools !== undefined || this.#steers !== undefined || this.#taken !== undefined;
  }
}
