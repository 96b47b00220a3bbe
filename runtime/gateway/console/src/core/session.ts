/** An open session: its one stream, its fold, what was sent and is not yet in the journal. */

import { Problem } from "./api.ts";
import type { Api } from "./api.ts";
import type { Fold } from "./fold.ts";
import { sessionTitle } from "./format.ts";
import { Outbox } from "./outbox.ts";
import type { Row } from "./rows.ts";
import { SLICE, Segment } from "./segment.ts";
import type { Connection, HistoryPage, Line, Phase } from "./stream.ts";
import { follow, pause } from "./stream.ts";
import { list, num, str } from "./types.ts";
import type { Entry, Obj } from "./types.ts";
import type { Wire, WireLine } from "./wire.ts";

/** Entries of the first page, which is the end of the session, and of the largest one. The daemon ends a page at 1 MiB. */
const FIRST_PAGE = 100;
const LARGEST_PAGE = 8000;
/** Entries around one that is shown and is far from those that are loaded. */
const AROUND = 200;
/** So far from the loaded entries all of those between are loaded, too. */
const NEAR = 2000;
/** Entries of the session's begin, which offer models, modes and commands. */
const HEAD = 40;
/** What a page keeps: entries, and their characters. */
const MOST_ENTRIES = 150_000;
const MOST_CHARACTERS = 48 * 1024 * 1024;
/** Entries that stay of a stretch that is too long. */
const KEPT = 20_000;
/** How long a page is hidden before it gives its stream back: a browser has six connections for all of its pages. */
const HIDDEN = 10_000;

/** Sessions whose reading place is kept. */
const MAX_PLACES = 200;

export interface ReaderPlace {
  seq: number;
  offset: number;
}

/** Where the reader was in each session, while the tab lives. */
const places = new Map<string, ReaderPlace>();

export class SessionStore {
  phase: Phase = "connecting";
  detail = "";
  retryAt = 0;
  attached: Obj = {};
  /** Which earlier or later entries are being read. */
  loading: "" | "before" | "behind" | "place" = "";
  /** Why they could not be read. */
  unread = "";
  /** Which folds are open, by row; a row that is out of sight is not drawn, and keeps it here. */
  open = new Map<string, boolean>();
  /** How often a fold of a row was turned, so that the row is drawn again. */
  turned = new Map<number, number>();
  outbox: Outbox;
  /** Grows when the page begins anew. */
  generation = 0;
  /** Grows when the reader wants to be at the end, or at the row whose key is `goal`. */
  jumps = 0;
  goal: number | undefined;
  /** How far the view begins below the top of that row, for a reader who comes back; otherwise the row is marked. */
  goalOffset: number | undefined;
  /** The entry at which the reader is; nothing if that is the end. */
  place: number | undefined;
  /** The row at the top of the view, and how much of it is above; nothing if the reader is at the end. */
  reader: ReaderPlace | undefined;
  /** What the reader must know and no row says, such as that another answered first. */
  notice = "";
  /** A text of the reader that the notice offers for copying. */
  leftover = "";
  /** The daemon has no such session, or not for this token. */
  removed = false;

  /** The entries up to the last one. */
  private tail = new Segment(turn);
  /** The entries that are shown, if they are further back than the tail. */
  private view: Segment | undefined;
  private page = FIRST_PAGE;
  /** All earlier entries are to be read next. */
  private all = false;
  private target = 0;
  private life = new AbortController();
  private listeners = new Set<() => void>();
  private scheduled = false;
  private drawn = 0;
  private hiddenTimer = 0;

  /** `ended` hears how long each turn's agent was silent at its begin, in milliseconds. */
  constructor(readonly api: Api, readonly id: string, private ended?: (seq: number, at: number, firstMs: number) => void) {
    this.outbox = new Outbox(api, id, () => {
      this.outbox.taken(this.fold.taken, this.fold.last);
      this.changed();
    });
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
      if (error instanceof Problem && error.status === 404) this.removed = true;
      if (error instanceof Problem && error.status > 0) return { status: error.status, detail: error.detail };
      throw error;
    }
  }

  private async connected(after: number, signal: AbortSignal): Promise<Connection> {
    const shown = this.api.show(this.id);
    shown.catch(() => undefined);
    if (after === 0) await this.readEnd(signal);
    this.attached = await shown;
    if ((num(this.attached.last_seq) ?? 0) < this.fold.last) this.attached = await this.api.show(this.id);
    this.target = num(this.attached.last_seq) ?? 0;
    // A journal that has less than this page has read is another journal.
    if (this.fold.last > this.target) {
      this.reset();
      await this.readEnd(signal);
    } else if (this.target - this.fold.last > LARGEST_PAGE) {
      // What came while the page was away is read from its end, too.
      const { tail } = this;
      this.tail = new Segment(turn);
      await this.readEnd(signal);
      if (this.place !== undefined) this.view ??= tail;
    }
    const turns = [str(this.attached.turn_id), ...list(this.attached.queued).map(str)].filter((id) => id !== "");
    this.tail.open = { at: this.target, turns };
    this.tail.know();
    this.changed();
    void this.fill(signal);
    return this.api.events(this.id, this.fold.last, this.fold.epoch, signal);
  }

  /** Reads the last entries of the session, and draws them. */
  private async readEnd(signal: AbortSignal): Promise<void> {
    this.page = FIRST_PAGE;
    const { lines } = await this.api.history(this.id, { before: "end" }, FIRST_PAGE, signal);
    for (const line of lines) this.add(line);
    this.changed();
  }

  /** Reads what is before the first entry and is needed at the end: what the agent offers, and open requests. */
  private async fill(signal: AbortSignal): Promise<void> {
    const { tail } = this;
    if (tail.first <= 1) return;
    try {
      if (!tail.offers) {
        const { lines } = await this.api.history(this.id, { from: Math.max(1, num(this.attached.first_seq) ?? 1) }, HEAD, signal);
        const offers = lines.map((line) => line.entry).filter((entry) => entry.type === "session.info" || entry.type === "session.ready");
        tail.offers = Object.assign({ type: "session.info" }, ...offers) as Entry;
        tail.fold.learn(tail.offers);
        this.changed();
      }
      while (!signal.aborted && tail === this.tail && tail.first > this.beginning && this.missing()) {
        const { first } = tail;
        await this.readBefore(tail);
        this.changed();
        if (tail.first === first) break;
      }
    } catch {
      // It is read when the reader scrolls to it.
    }
  }

  /** Whether an open request or an input that waits is before the first entry. */
  private missing(): boolean {
    return this.lostInputs.length > 0 || list(this.attached.requests).some((id) => !this.fold.knows(str(id)));
  }

  /** Withdraws an input that waits. False if its turn had begun to run before. */
  async withdraw(turn: string): Promise<boolean> {
    const waits = (): boolean => this.fold.openTurns.indexOf(turn) > 0;
    if (!waits()) {
      this.say("It runs already. Stop ends it.");
      return false;
    }
    await this.api.stop(this.id, turn);
    await new Promise<void>((resolve) => {
      const look = (): void => {
        if (waits()) return;
        stop();
        resolve();
      };
      const stop = this.subscribe(look);
      look();
    });
    const done = this.fold.withdrawn.has(turn);
    if (!done) this.say("It ran already, so it was not withdrawn: the turn was asked to stop.");
    return done;
  }

  private add(line: Line): void {
    this.tail.push(line);
    const row = line.entry.type === "turn.complete" ? this.fold.rows[this.fold.rows.length - 1] : undefined;
    if (row?.kind === "end" && row.firstMs !== undefined) this.ended?.(row.seq, Date.parse(row.time), row.firstMs);
  }

  private async take(found: Line[], signal: AbortSignal): Promise<void> {
    let begun = performance.now();
    for (const line of found) {
      if (signal.aborted) return;
      this.add(line);
      if (performance.now() - begun > SLICE) {
        this.changed();
        await turn();
        begun = performance.now();
      }
    }
    this.outbox.taken(this.fold.taken, this.fold.last);
    await this.trim();
    this.changed();
    // The page draws and takes clicks between two chunks.
    if (this.catchingUp) await turn();
  }

  /** The state of the session, of its last entries. */
  get fold(): Fold {
    return this.tail.fold;
  }

  /** The entries that are shown. */
  get wire(): Wire {
    return (this.view ?? this.tail).wire;
  }

  get rows(): Row[] {
    return (this.view ?? this.tail).fold.rows;
  }

  /** Whether entries between those that are shown and the end are not loaded. */
  get detached(): boolean {
    return this.view !== undefined;
  }

  /** The first entry that the session still has. */
  get beginning(): number {
    return Math.max(1, num(this.attached.first_seq) ?? 1);
  }

  /** The first entry of the rows that are shown. */
  get first(): number {
    return (this.view ?? this.tail).folded;
  }

  /** Turns that wait, and whose inputs are before the first entry. */
  get lostInputs(): string[] {
    return this.fold.openTurns.slice(1).filter((turn) => turn !== "" && !this.fold.hasBegun(turn));
  }

  /** Whether entries come that were there when the page connected. */
  get catchingUp(): boolean {
    return this.fold.last < this.target;
  }

  get title(): string {
    return sessionTitle(str(this.attached.title) || this.fold.settings.display || (this.fold.partial ? "" : this.fold.headline), this.id);
  }

  get agent(): string {
    return str(this.attached.agent_id);
  }

  get state(): string {
    if (this.removed) return this.fold.last > 0 ? "removed" : "missing";
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
    try {
      this.attached = await this.api.show(this.id);
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 404) throw error;
      this.removed = true;
      this.life.abort();
      this.outbox.dispose();
    }
    this.changed();
  }

  say(notice: string, leftover = ""): void {
    this.notice = notice;
    this.leftover = leftover;
    this.changed();
  }

  /** Reads entries before those that are shown, for a reader who comes near them. */
  earlier(again = false): void {
    const segment = this.view ?? this.tail;
    if (this.loading !== "" || segment.first <= this.beginning || (this.unread !== "" && !again)) return;
    void this.load("before", () => this.readBefore(segment));
  }

  /** Reads entries behind those that are shown, if they are not the last ones. */
  later(again = false): void {
    if (this.loading !== "" || !this.view || (this.unread !== "" && !again)) return;
    void this.load("behind", () => this.readBehind());
  }

  /** Reads all entries before those that are shown, as many as a page keeps. */
  whole(): void {
    this.all = this.loading !== "";
    if (this.all) return;
    void this.load("before", async () => {
      const segment = this.view ?? this.tail;
      const size = (): number => segment.wire.lines.length;
      while (segment.first > this.beginning && size() < MOST_ENTRIES && segment.wire.size < MOST_CHARACTERS && !this.life.signal.aborted) {
        const before = size();
        this.put(segment, await this.history({ before: segment.first }, LARGEST_PAGE));
        this.changed();
        if (size() === before) break;
      }
      await segment.refold();
    });
  }

  private async load(which: "before" | "behind" | "place", read: () => Promise<void>): Promise<void> {
    this.loading = which;
    this.unread = "";
    this.changed();
    try {
      await read();
      await this.trim();
    } catch (error) {
      if (!this.life.signal.aborted) this.unread = error instanceof Error ? error.message : "not loaded";
    }
    this.loading = "";
    if (this.all) this.whole();
    this.changed();
  }

  private history(range: { before: number } | { from: number }, limit: number): Promise<HistoryPage> {
    return this.api.history(this.id, range, limit, this.life.signal);
  }

  /** Adds a page before a segment. A journal without such a page begins there. */
  private put(segment: Segment, page: HistoryPage): void {
    segment.unshift(page.lines);
    if (page.previous === 0 && page.last > 0) this.attached.first_seq = Math.max(this.beginning, segment.first);
  }

  private async readBefore(segment: Segment): Promise<void> {
    this.page = Math.min(this.page * 2, LARGEST_PAGE);
    this.put(segment, await this.history({ before: segment.first }, this.page));
    await segment.refold();
  }

  private async readBehind(): Promise<void> {
    const { view } = this;
    if (!view) return;
    this.page = Math.min(this.page * 2, LARGEST_PAGE);
    const page = await this.history({ from: view.last + 1 }, this.page);
    for (const line of page.lines) if ((num(line.entry.seq) ?? 0) < this.tail.first) view.push(line);
    await this.join();
  }

  /** Makes one stretch of the entries that are shown and the last ones, if there is none between them. */
  private async join(): Promise<void> {
    const { view, tail } = this;
    if (!view || view.last + 1 < tail.first) return;
    const early = view.wire.lines.filter((line) => line.seq < tail.first);
    tail.wire.lines = [...early, ...tail.wire.lines];
    tail.wire.keep(0, tail.wire.lines.length);
    await tail.refold();
    if (this.view === view) this.view = undefined;
  }

  /** Drops entries far from the reader if there are too many. */
  private async trim(): Promise<void> {
    const { tail, view } = this;
    if (tail.wire.lines.length + (view?.wire.lines.length ?? 0) <= MOST_ENTRIES && tail.wire.size + (view?.wire.size ?? 0) <= MOST_CHARACTERS) return;
    if (view || this.place !== undefined) {
      const { lines } = (view ?? tail).wire;
      const place = this.place ?? 0;
      const at = Math.max(0, lines.findIndex((line) => line.seq >= place));
      this.view = (view ?? tail).part(reach(lines, at, -1), reach(lines, at, 1));
      await this.view.refold();
    }
    this.tail = tail.part(reach(tail.wire.lines, tail.wire.lines.length, -1), tail.wire.lines.length);
    await this.tail.refold();
  }

  private reset(): void {
    this.tail = new Segment(turn);
    this.view = undefined;
    this.place = undefined;
    this.open.clear();
    this.turned.clear();
    this.generation += 1;
    this.changed();
  }

  /** Shows the place at which the reader left the session, if that was not the end. From now on the place is kept. */
  async comeBack(): Promise<void> {
    const place = places.get(this.id);
    if (place) await this.show(place.seq, place.offset);
    this.keepsPlace = true;
  }
  private keepsPlace = false;

  /** Shows the row that has an entry, or the one before it. Loads the entries around it if they are not there. */
  async show(seq: number, offset?: number): Promise<void> {
    const has = (segment: Segment | undefined): boolean => segment !== undefined && segment.first <= seq && seq <= segment.last;
    if (has(this.tail) || seq > this.tail.last) this.view = undefined;
    else if (!has(this.view)) await this.load("place", () => this.readAround(Math.max(seq, this.beginning)));
    let found: Row | undefined;
    for (const row of this.rows) if (row.seq <= seq && (!found || row.seq > found.seq)) found = row;
    this.goal = (found ?? this.rows[0])?.key;
    this.goalOffset = offset;
    this.keepsPlace = true;
    this.jumps += 1;
    this.changed();
  }

  private async readAround(seq: number): Promise<void> {
    const { tail } = this;
    if (tail.first - seq <= NEAR) {
      while (tail.first > Math.max(seq, this.beginning)) {
        const { first } = tail;
        this.put(tail, await this.history({ before: first }, first - seq + AROUND));
        if (tail.first === first) break;
      }
      this.view = undefined;
      return tail.refold();
    }
    const [before, behind] = await Promise.all([this.history({ before: seq }, AROUND), this.history({ from: seq }, AROUND)]);
    const view = new Segment(turn);
    view.offers = tail.offers;
    for (const line of [...before.lines, ...behind.lines]) if ((num(line.entry.seq) ?? 0) < tail.first) view.push(line);
    this.page = AROUND;
    this.view = view;
    await this.join();
  }

  /** Shows the end. */
  end(): void {
    this.view = undefined;
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
    if (this.keepsPlace) {
      places.delete(this.id);
      if (this.reader) places.set(this.id, this.reader);
      for (const old of places.keys()) {
        if (places.size <= MAX_PLACES) break;
        places.delete(old);
      }
    }
    document.removeEventListener("visibilitychange", this.seen);
    clearTimeout(this.hiddenTimer);
    this.phase = "ended";
    this.life.abort();
    this.outbox.dispose();
    this.listeners.clear();
  }
}

/** How far from a place lines are kept. */
function reach(lines: WireLine[], at: number, step: 1 | -1): number {
  let to = at;
  for (let size = 0; to + step >= 0 && to + step <= lines.length && Math.abs(to - at) < KEPT && size < MOST_CHARACTERS / 8; to += step) {
    size += lines[step > 0 ? to : to - 1]?.raw.length ?? 0;
  }
  return to;
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
