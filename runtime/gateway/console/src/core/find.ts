/** Finds a text in the rows of a transcript: in all that a row can draw, whether or not it is drawn now. */

import { ansi } from "./ansi.ts";
import { diffView } from "./diff.ts";
import type { Inline } from "./inline.ts";
import { markdown } from "./markdown.ts";
import { formula, formulaText } from "./math.ts";
import type { Block } from "./markdown.ts";
import type { Diff, PermissionRow, QuestionRow, Row, ToolRow } from "./rows.ts";
import { linkTarget } from "./safe.ts";
import { obj, str } from "./types.ts";
import { permissionWords } from "./words.ts";
import type { Json } from "./types.ts";

/** The longest text that is looked for. */
export const MAX_QUERY = 256;

/** A text that a row draws, in the order in which it draws them. */
export interface RowText {
  text: string;
  /** The fold in which it is drawn, or nothing. */
  fold: string;
  /** Whether that fold is open if nobody turned it. */
  open: boolean;
}

/** Returns the pattern of a query: no character is special, case is ignored, any white space matches any other. */
export function findPattern(query: string): RegExp | undefined {
  const words = query.slice(0, MAX_QUERY).split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) return undefined;
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&"));
  return new RegExp(escaped.join("\\s+"), "gi");
}

/** Counts the matches of a pattern in a text. */
export function countMatches(text: string, pattern: RegExp): number {
  let found = 0;
  pattern.lastIndex = 0;
  while (pattern.exec(text) !== null) found += 1;
  return found;
}

export function jsonText(value: Json | undefined): string {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}

/** What a tool call is about, in one line. */
export function toolHint(row: ToolRow): string {
  const input = obj(row.input);
  return row.title || str(input.command) || str(input.path) || str(input.file_path) || str(input.pattern) || str(input.url);
}

const plain = (text: string): string => (text.includes("\u001b") ? ansi(text).map((piece) => piece.text).join("") : text);

function mathText(text: string): string {
  const tree = formula(text);
  return tree ? formulaText(tree) : text;
}

function inlineText(nodes: Inline[]): string {
  return nodes.map((node) => {
    if (typeof node === "string") return node;
    if (node.t === "br") return "\n";
    if (node.t === "code") return node.text;
    if (node.t === "math") return mathText(node.text);
    const inner = inlineText(node.c);
    return node.t === "link" && inner !== node.href ? `${inner} ${linkTarget(node.href)}` : inner;
  }).join("");
}

function blockTexts(blocks: Block[]): string[] {
  return blocks.flatMap((block) => {
    switch (block.t) {
      case "p":
      case "h":
        return [inlineText(block.c)];
      case "code":
        return [block.lang === "ansi" ? plain(block.text) : block.text];
      case "math":
        return [mathText(block.text)];
      case "quote":
        return blockTexts(block.c);
      case "hr":
        return [];
      case "list":
        return block.items.flatMap((item) => blockTexts(item.c));
      case "table":
        return [block.head, ...block.rows].flatMap((row) => row.map(inlineText));
    }
  });
}

/** The words of a Markdown text as the page draws them, a block a line. */
export const markdownText = (text: string, fence = ""): string => blockTexts(markdown(text, fence)).join("\n");

function diffTexts(diff: Diff, fold: string, open: boolean): RowText[] {
  return [
    { text: diff.path, fold: "", open: true },
    { text: diffView(diff).lines.map((line) => line.text).join("\n"), fold, open },
  ];
}

function requestTexts(row: PermissionRow | QuestionRow): RowText[] {
  const drawn = (text: string): RowText => ({ text, fold: "", open: true });
  if (row.kind === "question") {
    const values = Object.values(row.decision?.values ?? {}).map((value) => (obj(value).redacted === true ? "" : jsonText(value)));
    return [drawn(row.prompt), ...values.map(drawn)];
  }
  const words = permissionWords(row);
  const texts = [`${words.verb} ${words.object}`, words.title, words.description].filter((text) => text !== "").map(drawn);
  // One that waits is drawn whole above the input.
  if (row.decision === undefined && !row.history) return texts;
  return [
    ...texts,
    drawn(words.whole ? "" : row.resource),
    ...row.diffs.flatMap((diff, at) => diffTexts(diff, `${row.key} diff ${at} false`, false)),
    { text: jsonText(row.input ?? ""), fold: `${row.key} input false`, open: false },
    { text: jsonText(row.decision?.input ?? ""), fold: `${row.key} edited`, open: false },
  ];
}

/** The texts of a row, in the order in which it draws them. */
export function rowTexts(row: Row): RowText[] {
  const drawn = (text: string): RowText => ({ text, fold: "", open: true });
  const folded = (text: string, open = false): RowText => ({ text, fold: `${row.key}`, open });
  switch (row.kind) {
    case "input":
      return [drawn(plain(row.text))];
    case "text":
      return [drawn(markdownText(row.text, row.fence))];
    case "thought":
      return [folded(plain(row.text))];
    case "tool":
      return [
        drawn(row.tool),
        drawn(toolHint(row).slice(0, 300)),
        ...[row.input, row.locations].filter((value) => value !== undefined).map((value) => folded(jsonText(value))),
        folded(plain(row.printed)),
        folded(plain(row.result)),
        ...(row.data === undefined ? [] : [folded(jsonText(row.data))]),
        ...row.diffs.flatMap((diff, at) => diffTexts(diff, `${row.key} diff ${at}`, at < 4)),
      ];
    case "plan":
      return row.entries.slice(0, 200).map((entry) => folded(entry.content, true));
    case "permission":
    case "question":
      return requestTexts(row);
    case "file":
      return [drawn(row.name)];
    case "end":
      return [drawn(plain(row.message)), drawn(row.summary), ...(row.data === undefined ? [] : [folded(jsonText(row.data))])];
    case "note": {
      const isFolded = row.tone !== "mark" && (row.data !== undefined || row.text.length > 400 || row.text.split("\n", 8).length > 6 || row.label.startsWith("log"));
      const text = plain(row.text);
      return isFolded ? [folded(text), ...(row.data === undefined ? [] : [folded(jsonText(row.data))])] : [drawn(text)];
    }
  }
}

/** A match: the row and the number of the match in it. */
export interface RowMatch {
  row: Row;
  at: number;
}

/** The matches of one query in the rows of a session. Counts again only rows that have changed. */
export class RowFinder {
  total = 0;
  /** True once all rows are counted. */
  complete = false;
  private counted = new WeakMap<Row, { version: number; count: number }>();
  private rows: Row[] = [];
  private counts: number[] = [];

  constructor(readonly pattern: RegExp) {}

  /** Counts in the rows until the time is up. Returns whether anything has changed. */
  scan(rows: Row[], isOver: () => boolean): boolean {
    const [total, complete] = [this.total, this.complete];
    const counts: number[] = [];
    let [sum, left] = [0, false];
    for (const row of rows) {
      const known = this.counted.get(row);
      let count = known?.count ?? 0;
      if (known?.version !== row.version) {
        if (left || (counts.length % 16 === 0 && isOver())) left = true;
        else {
          count = rowTexts(row).reduce((found, each) => found + countMatches(each.text, this.pattern), 0);
          this.counted.set(row, { version: row.version, count });
        }
      }
      counts.push(count);
      sum += count;
    }
    Object.assign(this, { rows: rows.slice(), counts, total: sum, complete: !left });
    return sum !== total || this.complete !== complete;
  }

  /** The place of a row: another object is the same row after entries were loaded. */
  private indexOf(row: Row): number {
    return this.rows.findIndex((each) => each.key === row.key);
  }

  /** The number of a match, from 1; 0 for one that is not there any more. */
  numberOf(match: RowMatch): number {
    const index = this.indexOf(match.row);
    if (index < 0 || match.at >= (this.counts[index] ?? 0)) return 0;
    let before = 0;
    for (let at = 0; at < index; at += 1) before += this.counts[at] ?? 0;
    return before + match.at + 1;
  }

  /** The first match at a row or behind it, or around the end the first of all. */
  from(row: Row | undefined): RowMatch | undefined {
    const start = row === undefined ? 0 : Math.max(0, this.indexOf(row));
    return this.search(start, 1, (index) => (this.counts[index] ?? 0) > 0, () => 0);
  }

  /** The next match, or the previous one; around the end. */
  step(match: RowMatch, by: 1 | -1): RowMatch | undefined {
    const index = this.indexOf(match.row);
    const at = match.at + by;
    if (index >= 0 && at >= 0 && at < (this.counts[index] ?? 0)) return { row: match.row, at };
    return this.search(index + by, by, (each) => (this.counts[each] ?? 0) > 0, (count) => (by > 0 ? 0 : count - 1));
  }

  private search(start: number, by: 1 | -1, fits: (index: number) => boolean, place: (count: number) => number): RowMatch | undefined {
    const { length } = this.rows;
    for (let tried = 0; tried < length; tried += 1) {
      const index = (((start + by * tried) % length) + length) % length;
      const row = this.rows[index];
      if (row && fits(index)) return { row, at: place(this.counts[index] ?? 0) };
    }
    return undefined;
  }

  /** Where a match is drawn: its fold, and its number among the matches that are drawn once that fold is open. */
  place(match: RowMatch, isOpen: (text: RowText) => boolean): { fold: string; drawn: number } {
    const counted = rowTexts(match.row).map((text) => ({ text, count: countMatches(text.text, this.pattern) }));
    let left = match.at;
    const index = counted.findIndex(({ count }) => {
      left -= count;
      return left < 0;
    });
    const found = counted[index];
    if (!found) return { fold: "", drawn: 0 };
    const { fold } = found.text;
    const before = counted.slice(0, index).filter(({ text }) => text.fold === "" || text.fold === fold || isOpen(text));
    return { fold, drawn: before.reduce((sum, { count }) => sum + count, 0) + left + found.count };
  }
}
