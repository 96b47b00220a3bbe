/** An open session: its one stream, its fold, what was sent and is not yet in the journal. */

import { Problem } from "./api.ts";
import type { Api } from "./api.ts";
import { Fold } from "./fold.ts";
import { sessionTitle } from "./format.ts";
import { Outbox } from "./outbox.ts";
import type { Connection, Line, Phase } from "./stream.ts";
import { follow, pause } from "./stream.ts";
import { num, str } from "./types.ts";
import type { Obj } from "./types.ts";
import { Wire } from "./wire.ts";

/** Entries that a page reads at first: of a longer session the last ones. */
const WINDOW = 100_000;
/** Entries that a page folds before it begins anew with the last `WINDOW`. */
const MOST = 300_000;
/** How long a page is hidden before it gives its stream back: a browser has six connections for all of its pages. */
const HIDDEN = 10_000;
/** How long entries are folded before the page may draw, in milliseconds. */
const SLICE = 10;

export class SessionStore {
  fold = new Fold();
  wire = new Wire();
  phase: Phase = "connecting";
  detail = "";
  retryAt = 0;
  attached: Obj = {};
  /** The first entry that this page asked for. */
  start = 0;
  /** Which folds are open, by row; a row that is out of sight is not drawn, and keeps it here. */
  open = new Map<string, boolean>();
  /** How often a fold of a row was turned, so that the row is drawn again. */
  turned = new Map<number, number>();
  outbox: Outbox;
  /** Grows when the page begins anew. */
  generation = 0;
  /** Grows when the reader wants to be at the end, or at the row `goal`. */
  jumps = 0;
  goal: number | undefined;
  /** What the reader must know and no row says, such as that another answered first. */
  notice = "";

  private window = WINDOW;
  private target = 0;
  private life = new AbortController();
  private listeners = new Set<() => void>();
  private scheduled = false;
  private drawn = 0;
  private hiddenTimer = 0;

  /** `ended` hears how long each turn's agent was silent at its begin, in milliseconds. */
  constructor(readonly api: Api, readonly id: string, private ended?: (seq: number, at: number, firstMs: number) => void) {
    this.outbox = new Outbox(api, id, () => this.changed());
    document.addEventListener("visibilitychange", this.seen);
    this.seen();
    void this.run(this.life.signal);
  }

  private seen = (): void => {
    clearTimeout(this.hiddenTimer);
    if (document.hidden) this.hiddenTimer = window.setTimeout(this.sleep, HIDDEN);
    else if (this.phase === "asleep") {
      this.life = new AbortController();
      void this.run(this.life.signal);
    }
  };

  /** Leaves the stream until the page is seen again. */
  private sleep = (): void => {
    if (this.phase === "ended" || this.phase === "failed") return;
    this.life.abort();
    this.phase = "asleep";
    this.changed();
  };

  private run(signal: AbortSignal): Promise<void> {
    return follow(
      {
        open: (after, each) => this.connect(after, each),
        entries: (found) => this.take(found, signal),
        last: () => this.fold.last,
        phase: (phase, detail, retryMs) => {
          if (signal.aborted) return;
          this.phase = phase;
          this.detail = detail;
          this.retryAt = retryMs > 0 ? Date.now() + retryMs : 0;
          if (phase === "live") this.outbox.again();
          this.changed();
        },
        sleep: pause,
        random: Math.random,
        reset: () => this.reset(),
      },
      signal,
    );
  }

  private async connect(after: number, signal: AbortSignal): Promise<Connection> {
    try {
      return await this.connected(after, signal);
    } catch (error) {
      if (error instanceof Problem && error.status > 0) return { status: error.status, detail: error.detail };
      throw error;
    }
  }

  private async connected(after: number, signal: AbortSignal): Promise<Connection> {
    this.attached = await this.api.show(this.id);
    this.target = num(this.attached.last_seq) ?? 0;
    // A journal that has less than this page has read is another journal.
    if (after > this.target) {
      this.reset();
      after = 0;
    }
    if (after === 0) {
      after = Math.max((num(this.attached.first_seq) ?? 1) - 1, this.target - this.window, 0);
      this.start = after + 1;
    }
    this.changed();
    return this.api.events(this.id, after, this.fold.epoch, signal);
  }

  private async take(found: Line[], signal: AbortSignal): Promise<void> {
    let begun = performance.now();
    for (const line of found) {
      if (signal.aborted) return;
      if (this.fold.apply(line.entry)) this.wire.push(line);
      const row = line.entry.type === "turn.complete" ? this.fold.rows[this.fold.rows.length - 1] : undefined;
      if (row?.kind === "end" && row.firstMs !== undefined) this.ended?.(row.seq, Date.parse(row.time), row.firstMs);
      if (performance.now() - begun > SLICE) {
        this.changed();
        await turn();
        begun = performance.now();
      }
    }
    this.outbox.taken(this.fold.taken);
    if (this.fold.last - this.start > MOST && this.window < MOST) {
      this.restart();
      return;
    }
    this.changed();
    // The page draws and takes clicks between two chunks.
    if (this.catchingUp) await turn();
  }

  /** Whether entries come that were there when the page connected. */
  get catchingUp(): boolean {
    return this.fold.last < this.target;
  }

  get title(): string {
    return sessionTitle(str(this.attached.title) || this.fold.settings.display || (this.start <= 1 ? this.fold.headline : ""), this.id);
  }

  get agent(): string {
    return str(this.attached.agent_id);
  }

  get state(): string {
    if (this.fold.closed || this.phase === "ended") return "closed";
    if (this.fold.running !== "") return "running";
    const said = str(this.attached.state);
    if (said === "closed") return said;
    // What happened since the page connected says more than the daemon said then.
    const asleep = this.fold.last <= this.target ? said === "detached" : this.fold.asleep === true;
    return asleep ? "detached" : "idle";
  }

  /** Reads again what the daemon reports of the session, such as its title. */
  async refresh(): Promise<void> {
    this.attached = await this.api.show(this.id);
    this.changed();
  }

  say(notice: string): void {
    this.notice = notice;
    this.changed();
  }

  /** Reads four times as far back. */
  earlier(): void {
    this.window *= 4;
    this.restart();
  }

  private restart(): void {
    this.life.abort();
    this.life = new AbortController();
    this.reset();
    void this.run(this.life.signal);
  }

  private reset(): void {
    this.fold = new Fold();
    this.wire.clear();
    this.open.clear();
    this.turned.clear();
    this.generation += 1;
    this.changed();
  }

  /** Shows the row that has an entry, or the one before it. */
  show(seq: number): void {
    let [from, to] = [0, this.fold.rows.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((this.fold.rows[middle]?.seq ?? 0) <= seq) from = middle + 1;
      else to = middle;
    }
    this.goal = Math.max(0, from - 1);
    this.jumps += 1;
    this.changed();
  }

  /** Shows the end. */
  end(): void {
    this.goal = undefined;
    this.jumps += 1;
    this.changed();
  }

  /** Opens or closes a fold; its id begins with the key of its row. */
  turn(id: string, open: boolean): void {
    const key = parseInt(id, 10);
    this.open.set(id, open);
    this.turned.set(key, (this.turned.get(key) ?? 0) + 1);
    this.changed();
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Draws once a frame; seldom while much comes in, so that the fold has the time. */
  changed(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    const draw = (): void => {
      this.scheduled = false;
      this.drawn = performance.now();
      for (const listener of this.listeners) listener();
    };
    const wait = this.catchingUp ? 150 - (performance.now() - this.drawn) : 0;
    if (wait > 0 || document.hidden) setTimeout(draw, Math.max(wait, 0));
    else requestAnimationFrame(draw);
  }

  dispose(): void {
    document.removeEventListener("visibilitychange", this.seen);
    clearTimeout(this.hiddenTimer);
    this.phase = "ended";
    this.life.abort();
    this.listeners.clear();
  }
}

/** Lets the page do what waits: a message to itself is sooner than a timer. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve();
    };
    channel.port2.postMessage(null);
  });
}
