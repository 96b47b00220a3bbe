// The one way out: every message of every session passes here, whole and in its session's order.
//
// A session that writes more than the host reads waits for room and keeps no other session from the pipe. Ends, requests
// and answers are put without asking for room.

const AHEAD = 64 * 1024; // written ahead of the pipe: short, so that a `stop` passes soon through a flood
const QUANTUM = 16 * 1024; // what a session may add when its turn comes
const BUDGET = 1024 * 1024; // what all sessions together hold, softly
const MOST = 256 * 1024; // the share of one session, and the least of it
const LEAST = 16 * 1024;
const PAUSED = 64 * 1024; // what a paused session holds before its turns wait ([flow.3])
const URGENT = 64 * 1024; // kept answers to `ping`
/** What a session holds when it is given up, since its host does not read. All sizes are in UTF-16 units, at most as many as bytes. */
export const OVERRUN = 64 * 1024 * 1024;

/** Where bytes go. `done` is called once they are written, with an error where the pipe is gone. */
export type Sink = (data: string, done: (error?: Error | null) => void) => void;

// What waits of one session.
class Held {
  lines: string[] = [];
  next = 0; // the first line that waits
  size = 0;
  paused = false;
  wakers: (() => void)[] = [];

  wake(): void {
    for (const wake of this.wakers.splice(0)) wake();
  }
}

export class Wire {
  readonly #sink: Sink;
  readonly #held = new Map<number, Held>();
  #batch = "";
  #urgent = "";
  #writing = false;
  #scheduled = false;
  #finishing: (() => void) | undefined;
  broken = false;
  onBroken: () => void = () => {};

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  /** Adds a whole line of a session, with its LF. Never waits. */
  put(key: number, line: string): void {
    if (this.broken) return;
    if (this.#batch.length < AHEAD && !this.#heldOf(key)) this.#batch += line;
    else {
      const held = this.#hold(key);
      held.lines.push(line);
      held.size += line.length;
    }
    this.#schedule();
  }

  /** Adds a line that overtakes everything: an answer of the pipe itself. */
  putUrgent(line: string): void {
    if (this.broken || this.#urgent.length + line.length > URGENT) return;
    this.#urgent += line;
    this.#schedule();
  }

  /** Does what may put many lines, and writes them before it returns where nothing is under way that may put more. */
  gather(work: () => void, isIdle: () => boolean): void {
    const scheduled = this.#scheduled;
    this.#scheduled = true;
    try {
      work();
    } finally {
      this.#scheduled = scheduled;
      if (isIdle()) this.#flush();
      else this.#schedule();
    }
  }

  /** Whether a session may add more; one that holds nothing always may. */
  hasRoom(key: number, over = 0): boolean {
    const held = this.#heldOf(key);
    if (!held || held.size === 0) return true;
    const share = held.paused ? PAUSED : Math.min(Math.max(BUDGET / this.#held.size, LEAST), MOST);
    return held.size < share + over;
  }

  /** Calls `wake` once, when what the session holds has changed. */
  whenRoom(key: number, wake: () => void): void {
    this.#hold(key).wakers.push(wake);
  }

  held(key: number): number {
    return this.#heldOf(key)?.size ?? 0;
  }

  isPaused(key: number): boolean {
    return this.#held.get(key)?.paused ?? false;
  }

  /** Holds a session's messages back, or lets them go ([flow.1]). */
  flow(key: number, paused: boolean): void {
    if (paused && !this.#finishing) this.#hold(key).paused = true;
    const held = this.#held.get(key);
    if (paused || !held) return;
    held.paused = false;
    held.wake();
    this.#schedule();
  }

  /** Drops what a session still holds: it has fallen silent ([session.4]). */
  purge(key: number): void {
    const held = this.#held.get(key);
    this.#held.delete(key);
    held?.wake();
  }

  /** Resolves when all is written, or the pipe is gone. Nothing more is paused. */
  finish(): Promise<void> {
    return new Promise((resolve) => {
      this.#finishing = resolve;
      for (const held of this.#held.values()) held.paused = false;
      this.#flush();
    });
  }

  /** Drops everything: the pipe is gone. */
  fail(): void {
    if (this.broken) return;
    this.broken = true;
    this.#batch = this.#urgent = "";
    for (const key of [...this.#held.keys()]) this.purge(key);
    this.#finishing?.();
    this.onBroken();
  }

  // Asked several times a turn, and mostly nothing is held: not to look is sooner done.
  #heldOf(key: number): Held | undefined {
    return this.#held.size === 0 ? undefined : this.#held.get(key);
  }

  #hold(key: number): Held {
    let held = this.#held.get(key);
    if (!held) this.#held.set(key, (held = new Held()));
    return held;
  }

  // One write for all that comes of one wake of the event loop, of handlers that wait for something.
  #schedule(): void {
    if (this.#scheduled || this.#writing) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#writing || this.broken) return;
    const data = this.#take();
    if (data === "") return this.#finishing?.();
    this.#writing = true;
    this.#sink(data, (error) => {
      this.#writing = false;
      if (error) this.fail();
      else this.#flush();
    });
  }

  #take(): string {
    if (this.#held.size > 0) {
      for (const [key, held] of [...this.#held]) {
        if (this.#batch.length >= AHEAD) break;
        this.#takeOf(key, held);
      }
    }
    const data = this.#urgent + this.#batch;
    this.#urgent = this.#batch = "";
    return data;
  }

  #takeOf(key: number, held: Held): void {
    let given = 0;
    while (held.next < held.lines.length && !held.paused && given < QUANTUM && this.#batch.length < AHEAD) {
      const line = held.lines[held.next]!;
      held.lines[held.next++] = "";
      given += line.length;
      this.#batch += line;
    }
    held.size -= given;
    if (held.next > 1024 || held.next === held.lines.length) {
      held.lines.splice(0, held.next);
      held.next = 0;
    }
    const isEmpty = held.lines.length === 0 && !held.paused;
    if (given > 0 || isEmpty) {
      this.#held.delete(key);
      if (!isEmpty) this.#held.set(key, held); // the next time it is the last one's turn
      held.wake();
    }
  }
}
