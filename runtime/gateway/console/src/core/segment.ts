/** A stretch of a session's entries without a gap, and its rows. */

import { Fold } from "./fold.ts";
import type { Line } from "./stream.ts";
import { entryOf } from "./stream.ts";
import type { Entry } from "./types.ts";
import { num } from "./types.ts";
import { Wire } from "./wire.ts";

/** How long entries are folded before the page may draw, in milliseconds. */
export const SLICE = 10;

export class Segment {
  wire = new Wire();
  fold = new Fold();
  /** The first entry of the rows: entries before it may be loaded and not yet folded. */
  folded = 0;
  /** Choices that an entry before the first one offers. */
  offers: Entry | undefined;
  /** The open turns behind the entry `at`, as the daemon reported them. */
  open: { at: number; turns: string[] } | undefined;
  private round = 0;

  constructor(private pause: () => Promise<void>) {}

  get first(): number {
    return this.wire.first;
  }

  get last(): number {
    return this.wire.last;
  }

  /** Adds an entry behind the others; false if it is known already. */
  push(line: Line): boolean {
    if (this.wire.lines.length === 0) {
      this.folded = num(line.entry.seq) ?? 0;
      this.fold = this.fresh(this.folded);
    }
    if (!this.apply(this.fold, line.entry)) return false;
    this.wire.push(line);
    return true;
  }

  /** Adds entries before the others. Their rows come with the next `refold`. */
  unshift(lines: Line[]): void {
    const { first } = this;
    this.wire.unshift(lines.filter((line) => (num(line.entry.seq) ?? 0) < first));
  }

  /** Adds a later stretch. Its rows come with the next `refold`. */
  append(later: Segment): void {
    const { last } = this;
    this.wire.lines = [...this.wire.lines, ...later.wire.lines.filter((line) => line.seq === 0 || line.seq > last)];
    this.wire.keep(0, this.wire.lines.length);
  }

  /** A stretch of the same entries between two places. */
  part(from: number, to: number): Segment {
    const part = new Segment(this.pause);
    Object.assign(part, { offers: this.offers, open: this.open, fold: this.fold, folded: this.folded });
    part.wire.lines = this.wire.lines;
    part.wire.keep(from, to);
    return part;
  }

  /** Folds all entries again, in slices. Until it has ended the rows are those of before. */
  async refold(): Promise<void> {
    const round = ++this.round;
    const { lines } = this.wire;
    const { first } = this;
    const fold = this.fresh(first);
    let begun = performance.now();
    // Entries that come meanwhile are added to the same array.
    for (let at = 0; at < lines.length; at += 1) {
      const entry = entryOf(lines[at]?.raw ?? "");
      if (entry) this.apply(fold, entry);
      if (performance.now() - begun <= SLICE) continue;
      await this.pause();
      // A later change of the entries folds them itself.
      if (round !== this.round) return;
      begun = performance.now();
    }
    this.fold = fold;
    this.folded = first;
    this.know();
  }

  /** Sets the open turns if the fold is at the entry behind which the daemon reported them. */
  know(): void {
    if (this.open && this.fold.partial && this.fold.last === this.open.at) this.fold.know(this.open.turns);
  }

  private fresh(first: number): Fold {
    const fold = new Fold(first > 1);
    if (fold.partial && this.offers) fold.learn(this.offers);
    return fold;
  }

  private apply(fold: Fold, entry: Entry): boolean {
    const { open } = this;
    if (open && fold.partial && fold.last <= open.at && (num(entry.seq) ?? 0) > open.at) fold.know(open.turns);
    return fold.apply(entry);
  }
}
