import type { JSX } from "preact";
import { Component, createRef } from "preact";
import type { ComponentChildren } from "preact";
import { Heights } from "../core/heights.ts";
import type { Row } from "../core/rows.ts";
import type { ReaderPlace } from "../core/session.ts";
import { Icon } from "./bits.tsx";
import { RowView } from "./rows.tsx";

/** Drawn above and below what is seen, in pixels. */
const AROUND = 900;
/** So near to the end the transcript goes along with it. */
const NEAR = 32;

function estimate(row: Row): number {
  if (row.kind === "text") return 24 + Math.ceil(row.text.length / 90) * 22;
  if (row.kind === "input") return 60 + Math.min(12, Math.ceil(row.text.length / 90)) * 20;
  if (row.kind === "tool" && row.diffs.length > 0) return 240;
  if (row.kind === "permission" || row.kind === "question") return 110;
  return 36;
}

interface Props {
  rows: Row[];
  generation: number;
  /** How often a fold of a row was turned, by its key. */
  turned: Map<number, number>;
  /** Grows when the reader wants to be at the row whose key is `goal`, or without one at the end. */
  jumps: number;
  goal: number | undefined;
  /** How far the view begins below the top of that row; without it the row is marked. */
  offset: number | undefined;
  busy: boolean;
  /** Whether the rows are not the last ones. */
  detached: boolean;
  /** The number of the last entry. */
  last: number;
  /** What stands above the first row. */
  head: ComponentChildren;
  /** The reader comes near the first or the last row. */
  near(edge: "first" | "last"): void;
  /** The entry at which the reader is, and the row that holds the place; nothing if that is the end. */
  place(seq: number | undefined, reader: ReaderPlace | undefined): void;
  toEnd(): void;
}

/** Draws the rows that are seen, and a room of the right height for the others. */
export class Transcript extends Component<Props, { pinned: boolean }> {
  override state = { pinned: true };
  private heights = new Heights();
  private scroller = createRef<HTMLDivElement>();
  private inner = createRef<HTMLDivElement>();
  private observer: ResizeObserver | undefined;
  /** The rows whose heights are known, and their keys. */
  private rows: Row[] = [];
  private keys: number[] = [];
  /** The row by which the reader's place is kept, and how far its top is above that of the view. */
  private anchor = { index: 0, key: 0, seq: 0, delta: 0 };
  private lastTop = 0;
  private height = 0;
  private seen = 0;
  private generation = 0;
  /** The rows that are drawn. */
  private drawn = { from: 0, to: 0, rows: [] as Row[] };
  /** Draws in a row that only set right what the one before has measured. */
  private rounds = 0;

  override componentDidMount(): void {
    this.observer = new ResizeObserver(() => {
      this.rounds = 0;
      this.settle();
    });
    if (this.inner.current) this.observer.observe(this.inner.current);
    if (this.scroller.current) this.observer.observe(this.scroller.current);
    this.settle();
  }

  override componentWillUnmount(): void {
    this.observer?.disconnect();
  }

  override componentDidUpdate(before: Props): void {
    if (before.generation !== this.props.generation) this.setState({ pinned: true });
    if (before.jumps !== this.props.jumps) this.jump();
    if (before !== this.props) this.rounds = 0;
    this.settle();
  }

  private get pinned(): boolean {
    return this.state.pinned && !this.props.detached;
  }

  private sync(): void {
    const { rows, generation } = this.props;
    if (rows !== this.rows || generation !== this.generation) {
      // What was measured of a row holds wherever it is now.
      const known = new Map(generation === this.generation ? this.keys.map((key, at) => [key, this.heights.get(at)]) : []);
      this.heights.clear();
      this.keys = [];
      for (const row of rows) {
        this.heights.push(known.get(row.key) ?? estimate(row));
        this.keys.push(row.key);
      }
      this.hold();
    }
    this.rows = rows;
    this.generation = generation;
    for (let at = this.heights.length; at < rows.length; at += 1) {
      this.heights.push(estimate(rows[at] as Row));
      this.keys.push((rows[at] as Row).key);
    }
  }

  /** Finds the row of the anchor among other rows: itself, or the last one that is not behind it. */
  private hold(): void {
    const { rows } = this.props;
    const { anchor } = this;
    anchor.index = this.keys.indexOf(anchor.key);
    if (anchor.index >= 0) return;
    anchor.index = 0;
    for (const [at, row] of rows.entries()) if (row.seq <= anchor.seq) anchor.index = at;
  }

  /** Where the first row begins. */
  private get base(): number {
    return this.inner.current?.offsetTop ?? 0;
  }

  /** Takes the heights of what is drawn, keeps the place of the reader, and draws others where they are seen now. */
  private settle(): void {
    const [scroller, inner] = [this.scroller.current, this.inner.current];
    if (!scroller || !inner) return;
    this.sync();
    const { from, rows } = this.drawn;
    this.height = scroller.clientHeight;
    for (let at = 0; at < inner.children.length && rows === this.rows; at += 1) {
      const height = inner.children[at]?.getBoundingClientRect().height ?? 0;
      if (height > 0) this.heights.set(from + at, height);
    }
    this.pad();
    const { pinned } = this;
    const top = pinned ? scroller.scrollHeight : this.base + this.heights.offset(this.anchor.index) + this.anchor.delta;
    if (pinned ? scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight > 1 : Math.abs(scroller.scrollTop - top) > 1) {
      scroller.scrollTop = top;
    }
    this.lastTop = scroller.scrollTop;
    if (pinned) this.seen = this.props.rows.length;
    this.again();
    this.edges();
  }

  /** Asks for more rows before the reader comes to the first or the last one. */
  private edges(): void {
    const scroller = this.scroller.current;
    if (!scroller || this.rows.length === 0 || this.height === 0) return;
    if (scroller.scrollTop < 1.5 * this.height) this.props.near("first");
    if (this.props.detached && scroller.scrollHeight - scroller.scrollTop - this.height < this.height) this.props.near("last");
  }

  /** Draws again where other rows are seen than those that are drawn. */
  private again(): void {
    const { from, to } = this.range();
    if ((from === this.drawn.from && to === this.drawn.to) || this.rounds > 8) return;
    this.rounds += 1;
    this.forceUpdate();
  }

  private pad(): void {
    const inner = this.inner.current;
    if (!inner) return;
    inner.style.paddingTop = `${this.heights.offset(this.drawn.from)}px`;
    inner.style.paddingBottom = `${Math.max(0, this.heights.total - this.heights.offset(this.drawn.to))}px`;
  }

  /** The rows to draw. Never more than a screen and what is around it, however many came since the last time. */
  private range(): { from: number; to: number } {
    const length = this.heights.length;
    const height = this.height || 800;
    const top = this.pinned ? Math.max(0, this.heights.total - height) : this.lastTop - this.base;
    const from = length === 0 ? 0 : this.heights.find(Math.max(0, top - AROUND));
    const to = this.pinned ? length : Math.min(length, this.heights.find(top + height + AROUND) + 1);
    return { from, to };
  }

  private scrolled = (): void => {
    const scroller = this.scroller.current;
    if (!scroller) return;
    const top = scroller.scrollTop;
    const below = scroller.scrollHeight - top - scroller.clientHeight;
    let { pinned } = this.state;
    // The end of a part is not the end of the session: what is loaded behind it moves no reader.
    if (below <= NEAR) pinned = !this.props.detached;
    else if (top < this.lastTop - 1) pinned = false;
    this.lastTop = top;
    const y = top - this.base;
    let index = this.heights.find(y);
    const place = this.rows[index]?.seq;
    // A row that earlier entries change holds no place.
    while (this.rows[index]?.early && index + 1 < this.rows.length) index += 1;
    const row = this.rows[index];
    this.anchor = { index, key: row?.key ?? 0, seq: row?.seq ?? 0, delta: y - this.heights.offset(index) };
    this.rounds = 0;
    const isEnd = pinned && !this.props.detached;
    this.props.place(isEnd ? undefined : place, isEnd || !row ? undefined : { seq: row.seq, offset: this.anchor.delta });
    if (pinned !== this.state.pinned) this.setState({ pinned });
    else this.again();
    this.edges();
  };

  private jump(): void {
    const { goal, rows, offset = -8 } = this.props;
    const index = goal === undefined ? -1 : this.keys.indexOf(goal);
    if (index >= 0) {
      this.anchor = { index, key: rows[index]?.key ?? 0, seq: rows[index]?.seq ?? 0, delta: offset };
      this.lastTop = Math.max(0, this.base + this.heights.offset(index) + offset);
      this.seen = rows.length;
    }
    const row = rows[index];
    this.props.place(row?.seq, row && { seq: row.seq, offset });
    this.setState({ pinned: index < 0 });
  }

  override render(): JSX.Element {
    const { rows, turned, busy, goal, offset, last, head, toEnd, detached } = this.props;
    this.sync();
    const { pinned } = this;
    const { from, to } = this.range();
    this.drawn = { from, to, rows };
    const fresh = pinned || detached ? 0 : rows.length - this.seen;
    return (
      <div class="transcript">
        <div class="scroller" ref={this.scroller} onScroll={this.scrolled} tabIndex={0} aria-label="Transcript" role="region">
          {head}
          <div class="rows" ref={this.inner} {...(to > from ? { role: "feed", "aria-busy": busy, "aria-label": "Entries" } : {})}>
            {rows.slice(from, to).map((row) => (
              <article key={row.key} class={row.key === goal && offset === undefined ? "goal" : ""} aria-posinset={row.seq || last} aria-setsize={last} aria-label={row.kind} tabIndex={-1}>
                <RowView row={row} version={row.version} turned={turned.get(row.key) ?? 0} />
              </article>
            ))}
          </div>
        </div>
        {!pinned && (
          <button type="button" class="to-end" onClick={toEnd}>
            <Icon name="down" /> {fresh > 0 ? `${fresh} new` : "to the end"}
          </button>
        )}
      </div>
    );
  }
}
