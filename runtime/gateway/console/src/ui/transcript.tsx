import type { JSX } from "preact";
import { Component, createRef } from "preact";
import { Heights } from "../core/heights.ts";
import type { Row } from "../core/rows.ts";
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
  /** Grows when the reader wants to be at the row `goal`, or without one at the end. */
  jumps: number;
  goal: number | undefined;
  busy: boolean;
}

/** Draws the rows that are seen, and a room of the right height for the others. */
export class Transcript extends Component<Props, { pinned: boolean }> {
  override state = { pinned: true };
  private heights = new Heights();
  private scroller = createRef<HTMLDivElement>();
  private inner = createRef<HTMLDivElement>();
  private observer: ResizeObserver | undefined;
  private anchor = { index: 0, delta: 0 };
  private lastTop = 0;
  private height = 0;
  private seen = 0;
  private generation = 0;
  /** The rows that are drawn. */
  private drawn = { from: 0, to: 0 };
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
    if (before.generation !== this.props.generation) {
      this.anchor = { index: 0, delta: 0 };
      this.setState({ pinned: true });
    }
    if (before.jumps !== this.props.jumps) this.jump();
    if (before !== this.props) this.rounds = 0;
    this.settle();
  }

  private sync(): void {
    const { rows } = this.props;
    if (this.generation !== this.props.generation) this.heights.clear();
    this.generation = this.props.generation;
    for (let at = this.heights.length; at < rows.length; at += 1) this.heights.push(estimate(rows[at] as Row));
  }

  /** Takes the heights of what is drawn, keeps the place of the reader, and draws others where they are seen now. */
  private settle(): void {
    const [scroller, inner] = [this.scroller.current, this.inner.current];
    if (!scroller || !inner) return;
    this.sync();
    const { from } = this.drawn;
    this.height = scroller.clientHeight;
    for (let at = 0; at < inner.children.length; at += 1) {
      const height = inner.children[at]?.getBoundingClientRect().height ?? 0;
      if (height > 0) this.heights.set(from + at, height);
    }
    this.pad();
    const top = this.state.pinned ? scroller.scrollHeight : this.heights.offset(this.anchor.index) + this.anchor.delta;
    if (this.state.pinned ? scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight > 1 : Math.abs(scroller.scrollTop - top) > 1) {
      scroller.scrollTop = top;
    }
    this.lastTop = scroller.scrollTop;
    if (this.state.pinned) this.seen = this.props.rows.length;
    this.again();
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
    const top = this.state.pinned ? Math.max(0, this.heights.total - height) : this.lastTop;
    const from = length === 0 ? 0 : this.heights.find(Math.max(0, top - AROUND));
    const to = this.state.pinned ? length : Math.min(length, this.heights.find(top + height + AROUND) + 1);
    return { from, to };
  }

  private scrolled = (): void => {
    const scroller = this.scroller.current;
    if (!scroller) return;
    const top = scroller.scrollTop;
    const below = scroller.scrollHeight - top - scroller.clientHeight;
    let { pinned } = this.state;
    if (below <= NEAR) pinned = true;
    else if (top < this.lastTop - 1) pinned = false;
    this.lastTop = top;
    const index = this.heights.find(top);
    this.anchor = { index, delta: top - this.heights.offset(index) };
    this.rounds = 0;
    if (pinned !== this.state.pinned) this.setState({ pinned });
    else this.again();
  };

  private jump(): void {
    const { goal } = this.props;
    if (goal !== undefined) {
      this.anchor = { index: goal, delta: -8 };
      this.lastTop = Math.max(0, this.heights.offset(goal) - 8);
      this.seen = this.props.rows.length;
    }
    this.setState({ pinned: goal === undefined });
  }

  private end = (): void => this.setState({ pinned: true });

  override render(): JSX.Element {
    const { rows, turned, busy, goal } = this.props;
    this.sync();
    const { pinned } = this.state;
    const { from, to } = this.range();
    this.drawn = { from, to };
    const fresh = pinned ? 0 : rows.length - this.seen;
    return (
      <div class="transcript">
        <div class="scroller" ref={this.scroller} onScroll={this.scrolled} tabIndex={0} aria-label="Transcript" role="region">
          <div class="rows" ref={this.inner} {...(to > from ? { role: "feed", "aria-busy": busy, "aria-label": "Entries" } : {})}>
            {rows.slice(from, to).map((row, at) => (
              <article key={row.key} class={from + at === goal ? "goal" : ""} aria-posinset={from + at + 1} aria-setsize={rows.length} aria-label={row.kind} tabIndex={-1}>
                <RowView row={row} version={row.version} turned={turned.get(row.key) ?? 0} />
              </article>
            ))}
          </div>
        </div>
        {!pinned && (
          <button type="button" class="to-end" onClick={this.end}>
            <Icon name="down" /> {fresh > 0 ? `${fresh} new` : "to the end"}
          </button>
        )}
      </div>
    );
  }
}
