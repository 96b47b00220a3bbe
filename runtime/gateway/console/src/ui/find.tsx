import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { MAX_QUERY, RowFinder, findPattern } from "../core/find.ts";
import type { RowMatch } from "../core/find.ts";
import { keyAction } from "../core/keys.ts";
import type { Row } from "../core/rows.ts";
import type { SessionStore } from "../core/session.ts";
import { Icon } from "./bits.tsx";

/** Interval between two counts while entries come, in milliseconds. */
const RECOUNT = 250;
/** Time for one part of a count, after which the page may draw. */
const SLICE = 12;
/** Frames in which a match must be drawn. */
const MAX_FRAMES = 90;
/** Earlier entries that are loaded to be searched without being asked for. */
const MAX_LOADED = 20_000;
/** Marks of one screen; a page full of matches needs no more. */
const MAX_MARKS = 2000;

/** Drawn text in which nothing is found: labels, figures and buttons that are the page's own. */
const OWN_WORDS =
  ".teaser, .meta, figcaption, time, .hidden, .label, .mark, .badge, .summary > .dim, .facts .dim, .plan > .summary, .line:not(td), " +
  "button:not(.summary), .no, .sign, .added, .removed, .decision, .row-menu, .request .fold:not(.diff) > .summary, dt";
const INLINE = new Set(["A", "B", "CODE", "DEL", "EM", "I", "Q", "SPAN", "STRONG"]);

/** The places of a pattern in what an element draws; a match may go over several text nodes of one block. */
export function drawnRanges(root: Element, pattern: RegExp, most = MAX_MARKS): Range[] {
  const nodes: { node: Text; start: number }[] = [];
  let text = "";
  const visit = (element: Element): void => {
    const block = element instanceof HTMLElement && !INLINE.has(element.tagName);
    if (block && text !== "" && !text.endsWith("\n")) text += "\n";
    for (const child of element.childNodes) {
      if (child instanceof Text) {
        nodes.push({ node: child, start: text.length });
        text += child.data;
      } else if (child instanceof Element && !child.matches(OWN_WORDS)) visit(child);
    }
    if (block && !text.endsWith("\n")) text += "\n";
  };
  visit(root);
  const place = (offset: number, isEnd: boolean): [Text, number] | undefined => {
    let [low, high] = [0, nodes.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((nodes[middle]?.start ?? 0) < offset + (isEnd ? 0 : 1)) low = middle + 1;
      else high = middle;
    }
    const found = nodes[low - 1];
    return found && [found.node, Math.min(offset - found.start, found.node.length)];
  };
  const ranges: Range[] = [];
  pattern.lastIndex = 0;
  for (let match = pattern.exec(text); match && ranges.length < most; match = pattern.exec(text)) {
    const [start, end] = [place(match.index, false), place(match.index + match[0].length, true)];
    if (!start || !end) continue;
    const range = document.createRange();
    range.setStart(...start);
    range.setEnd(...end);
    ranges.push(range);
  }
  return ranges;
}

/** Scrolls all boxes around a place, up to one, so that the place can be seen. */
function reveal(range: Range, outer: Element): void {
  for (let box: Element | null = range.startContainer.parentElement; box; box = box.parentElement) {
    if (box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1) {
      const [inside, frame] = [range.getBoundingClientRect(), box.getBoundingClientRect()];
      const margin = Math.min(60, frame.height / 4);
      if (inside.top < frame.top + margin || inside.bottom > frame.bottom - margin) box.scrollTop += inside.top - frame.top - frame.height / 3;
      if (inside.left < frame.left || inside.right > frame.right) box.scrollLeft += inside.left - frame.left - frame.width / 3;
    }
    if (box === outer) return;
  }
}

const frame = (): Promise<void> => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));

/** Marks the matches that are drawn, and brings one into view. */
class Marker {
  private life = 0;
  private scheduled = false;
  private observer: MutationObserver;
  private current: { key: number; drawn: number } | undefined;

  constructor(private store: SessionStore, private rows: HTMLElement, private finder: RowFinder) {
    this.observer = new MutationObserver(this.schedule);
    this.observer.observe(rows, { childList: true, subtree: true, characterData: true });
    this.schedule();
  }

  private schedule = (): void => {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      if (this.life >= 0) this.mark();
    });
  };

  private rowElement(key: number): Element | null {
    return this.rows.querySelector(`:scope > article > [data-key="${key}"]`);
  }

  private mark(): void {
    if (!("highlights" in CSS)) return;
    const all: Range[] = [];
    for (const row of this.rows.querySelectorAll(":scope > article > .row")) {
      if (all.length < MAX_MARKS) all.push(...drawnRanges(row, this.finder.pattern, MAX_MARKS - all.length));
    }
    CSS.highlights.set("find", new Highlight(...all));
    const element = this.current && this.rowElement(this.current.key);
    const ranges = element && this.current ? drawnRanges(element, this.finder.pattern) : [];
    const one = ranges[Math.min(this.current?.drawn ?? 0, ranges.length - 1)];
    const mark = one ? new Highlight(one) : new Highlight();
    mark.priority = 1;
    CSS.highlights.set("find-current", mark);
  }

  /** Opens the fold of a match, draws its row and scrolls to it. */
  async show(match: RowMatch): Promise<void> {
    const mine = ++this.life;
    const { store } = this;
    const { fold, drawn } = this.finder.place(match, (text) => store.open.get(text.fold) ?? text.open);
    this.current = { key: match.row.key, drawn };
    if (fold !== "") store.turn(fold, true);
    if (!this.rowElement(match.row.key)) store.show(match.row.seq);
    for (let tries = 0; tries < MAX_FRAMES; tries += 1) {
      await frame();
      if (this.life !== mine) return;
      const element = this.rowElement(match.row.key);
      if (!element) {
        // Several rows may have the same entry: the one that was meant is close by.
        if (tries % 6 === 5) this.approach(match.row);
        continue;
      }
      const ranges = drawnRanges(element, this.finder.pattern, drawn + 1);
      const range = ranges[drawn];
      const more = element.querySelector<HTMLButtonElement>("button.more");
      if (!range && more && tries < MAX_FRAMES - 1) more.click();
      const place = range ?? (more ? undefined : ranges.at(-1));
      if (!place) {
        if (!more && tries > 10) break;
        continue;
      }
      const scroller = this.rows.closest(".scroller");
      if (scroller) reveal(place, scroller);
      break;
    }
    this.schedule();
  }

  private approach(row: Row): void {
    const first = this.rows.querySelector<HTMLElement>(":scope > article > .row");
    const scroller = this.rows.closest(".scroller");
    if (!first || !scroller) return;
    const rows = this.store.rows;
    const isAbove = rows.indexOf(row) < rows.findIndex((each) => each.key === Number(first.dataset.key));
    scroller.scrollTop += (isAbove ? -1 : 1) * scroller.clientHeight;
  }

  stop(): void {
    this.life = -1;
    this.observer.disconnect();
    if ("highlights" in CSS) for (const name of ["find", "find-current"]) CSS.highlights.delete(name);
  }
}

/** The row at the top of what is seen. */
function seenRow(talk: Element | null, rows: Row[]): Row | undefined {
  const top = talk?.querySelector(".scroller")?.getBoundingClientRect().top ?? 0;
  for (const element of talk?.querySelectorAll<HTMLElement>(".rows > article > .row") ?? []) {
    if (element.getBoundingClientRect().bottom > top) return rows.find((row) => row.key === Number(element.dataset.key));
  }
  return undefined;
}

/** The text that is selected, if it is a few words. */
function selectedWords(): string {
  const text = getSelection()?.toString().trim() ?? "";
  return text.length <= 100 && !text.includes("\n") ? text : "";
}

/** Opens and closes the find bar by Ctrl+F. A second Ctrl+F in the bar is the browser's own. */
export function Find({ store }: { store: SessionStore }): JSX.Element | null {
  const [open, show] = useState(false);
  const [initial, begin] = useState("");
  const [opened, count] = useState(0);
  const before = useRef<Element | null>(null);
  const latest = useRef({ open });
  latest.current = { open };
  useEffect(() => {
    const start = (): void => {
      if (!latest.current.open) before.current = document.activeElement;
      begin(selectedWords());
      count((times) => times + 1);
      show(true);
    };
    const pressed = (event: KeyboardEvent): void => {
      const inBar = event.target instanceof Element && event.target.closest(".find") !== null;
      if (keyAction(event, ["anywhere"], false) !== "find" || inBar) return;
      if (document.querySelector("dialog") || !document.querySelector(".talk")?.checkVisibility()) return;
      event.preventDefault();
      start();
    };
    addEventListener("keydown", pressed);
    addEventListener("console:find", start);
    return () => {
      removeEventListener("keydown", pressed);
      removeEventListener("console:find", start);
    };
  }, []);
  if (!open) return null;
  const close = (): void => {
    show(false);
    const to = before.current;
    if (to instanceof HTMLElement && to.isConnected && to !== document.body) to.focus();
    else document.querySelector<HTMLElement>(".scroller")?.focus();
  };
  return <FindBar store={store} initial={initial} opened={opened} close={close} />;
}

function FindBar(props: { store: SessionStore; initial: string; opened: number; close: () => void }): JSX.Element {
  const { store, initial, opened, close } = props;
  const [text, write] = useState(initial);
  const [, draw] = useState(0);
  const bar = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const state = useRef<{ finder: RowFinder; marker: Marker; match: RowMatch | undefined; from: Row | undefined } | undefined>(undefined);

  useLayoutEffect(() => {
    if (initial !== "") write(initial);
    // A dialog that closes at the same time gives the focus back first.
    const timer = setTimeout(() => {
      field.current?.focus();
      field.current?.select();
    });
    field.current?.focus();
    return () => clearTimeout(timer);
  }, [opened, initial]);

  useEffect(() => {
    const pattern = findPattern(text);
    const talk = bar.current?.closest(".talk") ?? null;
    const rows = talk?.querySelector<HTMLElement>(".rows");
    const from = state.current?.match?.row ?? seenRow(talk, store.rows);
    state.current = undefined;
    draw((times) => times + 1);
    if (!pattern || !rows) return undefined;
    const finder = new RowFinder(pattern);
    const it = { finder, marker: new Marker(store, rows, finder), match: undefined as RowMatch | undefined, from };
    state.current = it;
    let timer = 0;
    let due = false;
    const scan = (): void => {
      timer = 0;
      due = false;
      const begun = performance.now();
      const changed = finder.scan(store.rows, () => performance.now() - begun > SLICE);
      // What is seen decides where to begin, so all rows up to there must be counted.
      if (!it.match && finder.complete) {
        it.match = finder.from(from);
        if (it.match) void it.marker.show(it.match);
      }
      if (changed) draw((times) => times + 1);
      if (!finder.complete) timer = window.setTimeout(scan);
      else if (due) timer = window.setTimeout(scan, RECOUNT);
    };
    if (store.first - store.beginning <= MAX_LOADED) store.whole();
    const stop = store.subscribe(() => {
      due = true;
      if (timer === 0) timer = window.setTimeout(scan, RECOUNT);
    });
    scan();
    return () => {
      stop();
      clearTimeout(timer);
      it.marker.stop();
    };
  }, [text, store, store.generation]);

  const it = state.current;
  const step = (by: 1 | -1): void => {
    if (!it) return;
    const known = it.match && it.finder.numberOf(it.match) > 0 ? it.match : undefined;
    it.match = known ? it.finder.step(known, by) : it.finder.from(it.match?.row ?? it.from);
    if (it.match) void it.marker.show(it.match);
    draw((times) => times + 1);
  };
  const latest = useRef(step);
  latest.current = step;
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const again = event.key === "F3" || (event.key.toLowerCase() === "g" && (event.ctrlKey || event.metaKey) && !event.altKey);
      if (!again || document.querySelector("dialog")) return;
      event.preventDefault();
      latest.current(event.shiftKey ? -1 : 1);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);

  const number = it?.match ? it.finder.numberOf(it.match) : 0;
  const total = it ? it.finder.total.toLocaleString("en") : "";
  const status = !it
    ? ""
    : !it.finder.complete || store.loading === "before" ? `${total} so far`
    : it.finder.total === 0 ? "No match" : number > 0 ? `${number.toLocaleString("en")} of ${total}` : `${total} ${it.finder.total === 1 ? "match" : "matches"}`;
  return (
    <div class="find" role="search" aria-label="Find in the session" ref={bar} onKeyDown={(event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      close();
    }}>
      <div class="line">
        <input
          ref={field}
          type="text"
          value={text}
          maxLength={MAX_QUERY}
          aria-label="Find in the session"
          placeholder="Find in the session"
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => write(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter") return;
            event.preventDefault();
            step(event.shiftKey ? -1 : 1);
          }}
        />
        <span class={`found ${it?.finder.complete && it.finder.total === 0 ? "warning" : "dim"}`} role="status">{status}</span>
        <button type="button" class="quiet" aria-label="Previous match" title="Previous (Shift+Enter)" disabled={!it?.finder.total} onClick={() => step(-1)}><Icon name="up" /></button>
        <button type="button" class="quiet" aria-label="Next match" title="Next (Enter)" disabled={!it?.finder.total} onClick={() => step(1)}><Icon name="down" /></button>
        <button type="button" class="quiet" aria-label="Close" title="Close (Esc)" onClick={close}><Icon name="cross" /></button>
      </div>
      {text.trim() !== "" && store.first > store.beginning && (
        <p class="dim">
          Entries before {store.first.toLocaleString("en")} are {store.loading === "before" ? "being loaded." : "not loaded, and not searched."}{" "}
          {store.loading === "" && <button type="button" class="quiet small" onClick={() => store.whole()}>Load them</button>}
        </p>
      )}
    </div>
  );
}
