// One turn, as the package holds it.
import type { Core } from "./core.js";
import type { Message } from "./json.js";

const NO_FILES: readonly Message[] = Object.freeze([]);

// What most turns do without: made when it is asked for, so that a short turn is cheap.
class Parts {
  readonly onStop: (() => void)[] = [];
  readonly tools = new Map<string, boolean>(); // by the id of each call: whether it is open
  readonly steers: { messageId: string | undefined; content: string }[] = [];
  readonly taken = new Map<object, string | undefined>();
}

/** A turn from its input to its one end, as the package holds it. */
export class Running {
  files: readonly Message[] = NO_FILES;
  large: Message | undefined;
  stopping = false;
  stopReason: string | undefined;
  over = false;
  /** Its handler is done with it, or was given up. */
  returned = false;
  #parts: Parts | undefined;
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

  get kind(): "turn" {
    return "turn";
  }

  #own(): Parts {
    return (this.#parts ??= new Parts());
  }

  /** Takes note that its handler has returned, or has failed. */
  return(): void {
    this.returned = true;
    if (this.late) clearTimeout(this.late);
  }

  /** Calls it once, at a stop or at the end. */
  onStop(call: () => void): void {
    if (this.stopping || this.over) call();
    else this.#own().onStop.push(call);
  }

  ring(): void {
    if (this.#parts) for (const call of this.#parts.onStop.splice(0)) call();
    this.onSteer?.();
  }

  /** The tool calls by their ids: whether each is open. */
  get tools(): Map<string, boolean> {
    return this.#own().tools;
  }

  get steers(): { messageId: string | undefined; content: string }[] {
    return this.#own().steers;
  }

  /** Steers that the handler holds and has not answered. */
  get taken(): Map<object, string | undefined> {
    return this.#own().taken;
  }

  /** Whether the end of it has something to end. */
  get leavesOpen(): boolean {
    return this.#parts !== undefined;
  }
}
