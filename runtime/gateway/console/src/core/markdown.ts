/**
 * The blocks of a Markdown text, as data: nothing here makes HTML. It reads what agents write (GitHub's flavour without
 * raw HTML, reference links and footnotes), and takes time in proportion to the text, whatever that is.
 */

import { inline } from "./inline.ts";
import { MAX_FORMULA } from "./math.ts";
import type { Inline } from "./inline.ts";
import { fenceLanguage, syntaxAfter } from "./syntax.ts";
import type { SyntaxState } from "./syntax.ts";

export type Align = "" | "left" | "center" | "right";

export type Block =
  | { t: "p"; c: Inline[] }
  | { t: "h"; level: number; c: Inline[] }
  | { t: "code"; lang: string; text: string; before?: SyntaxState }
  | { t: "quote"; c: Block[] }
  | { t: "list"; ordered: boolean; start: number; tight: boolean; items: Item[] }
  | { t: "table"; align: Align[]; head: Inline[][]; rows: Inline[][][] }
  | { t: "math"; text: string }
  | { t: "hr" };

export interface Item {
  task?: boolean;
  c: Block[];
}

const DEEPEST = 12;
const MOST_CELLS = 64;
/** Lines of a formula, which are searched for its end. */
const MAX_LINES = 64;

const FENCE = /^( {0,3})(`{3,}|~{3,})([^\n]*)$/;
const FORMULA = /^ {0,3}(\$\$|\\\[)/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+|$)/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|\t|$)/;
const DELIMITER = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

/**
 * The blocks of a text. `fence` is the opening line of a code block in whose middle the text begins, or nothing, and
 * `before` is the syntax state there.
 */
export function markdown(text: string, fence = "", before?: SyntaxState): Block[] {
  const lines = text.replace(/\r\n?/g, "\n").replace(/\0/g, "\ufffd").split("\n");
  if (fence !== "") lines.unshift(fence);
  const found = blocks(lines, 0);
  if (before && fence !== "" && found[0]?.t === "code") found[0].before = before;
  return found;
}

/** Returns the syntax state at the end of a text that ends within a code block. */
export function codeAfter(text: string, fence: string, before?: SyntaxState): SyntaxState | undefined {
  const last = markdown(text, fence, before).at(-1);
  const language = last?.t === "code" ? fenceLanguage(last.lang) : undefined;
  return last?.t === "code" && language ? syntaxAfter(language, last.text, last.before) : undefined;
}

function blocks(lines: string[], depth: number): Block[] {
  const out: Block[] = [];
  let paragraph: string[] = [];
  const flush = (): void => {
    if (paragraph.length > 0) out.push({ t: "p", c: inline(paragraph.map((line) => line.replace(/^[ \t]+/, "")).join("\n")) });
    paragraph = [];
  };
  for (let at = 0; at < lines.length; ) {
    const line = lines[at] ?? "";
    if (line.trim() === "") {
      flush();
      at += 1;
      continue;
    }
    const fence = FENCE.exec(line);
    if (fence && !(fence[2]?.startsWith("`") && fence[3]?.includes("`"))) {
      flush();
      at = code(lines, at, fence, out);
      continue;
    }
    const formula = FORMULA.exec(line);
    if (formula) {
      const end = formulaLines(lines, at, formula, out, flush);
      if (end > at) {
        at = end;
        continue;
      }
    }
    if (line.startsWith("    ") && paragraph.length === 0) {
      const text: string[] = [];
      while (at < lines.length && ((lines[at] ?? "").startsWith("    ") || (lines[at] ?? "").trim() === "")) {
        text.push((lines[at] ?? "").slice(4));
        at += 1;
      }
      while (text.length > 0 && text[text.length - 1]?.trim() === "") text.pop();
      out.push({ t: "code", lang: "", text: text.join("\n") });
      continue;
    }
    const heading = HEADING.exec(line);
    if (heading) {
      flush();
      const text = line.slice(heading[0].length).trim().replace(/(^|[ \t])#+$/, "");
      out.push({ t: "h", level: heading[1]?.length ?? 1, c: inline(text) });
      at += 1;
      continue;
    }
    if (paragraph.length > 0 && /^ {0,3}(=+|-+)[ \t]*$/.test(line)) {
      const level = line.includes("=") ? 1 : 2;
      out.push({ t: "h", level, c: inline(paragraph.join("\n").trim()) });
      paragraph = [];
      at += 1;
      continue;
    }
    if (RULE.test(line)) {
      flush();
      out.push({ t: "hr" });
      at += 1;
      continue;
    }
    if (depth < DEEPEST && QUOTE.test(line)) {
      flush();
      const inner: string[] = [];
      while (at < lines.length && (QUOTE.test(lines[at] ?? "") || goesOn(lines[at] ?? "", inner))) {
        inner.push((lines[at] ?? "").replace(QUOTE, ""));
        at += 1;
      }
      out.push({ t: "quote", c: blocks(inner, depth + 1) });
      continue;
    }
    const item = ITEM.exec(line);
    if (depth < DEEPEST && item && (paragraph.length === 0 || startsList(item))) {
      flush();
      at = listAt(lines, at, out, depth);
      continue;
    }
    if (paragraph.length === 0 && line.includes("|") && isTable(line, lines[at + 1])) {
      at = table(lines, at, out);
      continue;
    }
    paragraph.push(line);
    at += 1;
  }
  flush();
  return out;
}

/** A list interrupts a paragraph only where it begins at 1 and its item is not empty. */
function startsList(item: RegExpExecArray): boolean {
  return (item[3] ?? "") !== "" && (!/\d/.test(item[2] ?? "") || /^1[.)]$/.test(item[2] ?? ""));
}

/** Whether a line without the mark goes on with the paragraph at the end of a quote. */
function goesOn(line: string, inner: string[]): boolean {
  const before = inner[inner.length - 1] ?? "";
  return (
    line.trim() !== "" && before.trim() !== "" && !FENCE.test(line) && !FENCE.test(before) && !HEADING.test(line) &&
    !HEADING.test(before) && !RULE.test(line) && !ITEM.test(line)
  );
}

function code(lines: string[], from: number, fence: RegExpExecArray, out: Block[]): number {
  const [, indent = "", marks = "```", info = ""] = fence;
  const close = new RegExp(`^ {0,3}\\${marks[0]}{${marks.length},}[ \\t]*$`);
  const strip = new RegExp(`^ {0,${indent.length}}`);
  const text: string[] = [];
  let at = from + 1;
  while (at < lines.length && !close.test(lines[at] ?? "")) text.push((lines[at++] ?? "").replace(strip, ""));
  out.push({ t: "code", lang: (info.trim().split(/\s/)[0] ?? "").slice(0, 40), text: text.join("\n") });
  return at + 1;
}

/** A formula that begins with a line and ends before a blank one. Returns the line behind it, or `from` if it is none. */
function formulaLines(lines: string[], from: number, found: RegExpExecArray, out: Block[], flush: () => void): number {
  const close = found[1] === "$$" ? "$$" : "\\]";
  const parts = [(lines[from] ?? "").slice(found[0].length)];
  let length = 0;
  for (let last = parts[0] ?? ""; !last.includes(close); ) {
    length += last.length;
    last = lines[from + parts.length] ?? "";
    if (last.trim() === "" || parts.length >= MAX_LINES || length > MAX_FORMULA) return from;
    parts.push(last);
  }
  const last = parts.pop() ?? "";
  const end = last.indexOf(close);
  const rest = last.slice(end + close.length).trim();
  const isPoint = /^[.,;:]$/.test(rest);
  // A formula of one line with words behind it is part of a paragraph.
  if (parts.length === 0 && rest !== "" && !isPoint) return from;
  const text = [...parts, last.slice(0, end)].join("\n").trim();
  if (text === "" || text.length > MAX_FORMULA) return from;
  flush();
  out.push({ t: "math", text: text + (isPoint ? rest : "") });
  const at = from + parts.length;
  if (rest === "" || isPoint) return at + 1;
  lines[at] = rest;
  return at;
}

function listAt(lines: string[], from: number, out: Block[], depth: number): number {
  const first = ITEM.exec(lines[from] ?? "");
  const mark = first?.[2] ?? "-";
  const kind = mark.slice(-1);
  const ordered = /\d/.test(mark);
  const items: Item[] = [];
  let tight = true;
  let at = from;
  while (at < lines.length) {
    const found = ITEM.exec(lines[at] ?? "");
    if (!found || (found[2] ?? "").slice(-1) !== kind || /\d/.test(found[2] ?? "") !== ordered) break;
    if (RULE.test(lines[at] ?? "")) break;
    const marked = (found[1] ?? "").length + (found[2] ?? "").length;
    const space = (found[3] ?? "").replace("\t", " ").length;
    const width = marked + (space >= 1 && space <= 4 ? space : 1);
    const inner = [(lines[at] ?? "").replace("\t", " ").slice(width)];
    at += 1;
    let blank = 0;
    while (at < lines.length) {
      const line = lines[at] ?? "";
      if (line.trim() === "") {
        blank += 1;
        inner.push("");
        at += 1;
        continue;
      }
      const indent = line.length - line.trimStart().length;
      if (indent >= width || (line.startsWith("\t") && width <= 4)) {
        if (blank > 0) tight = false;
        inner.push(line.startsWith("\t") ? line.slice(1) : line.slice(width));
      } else if (blank > 0 || ITEM.test(line) || FENCE.test(line) || HEADING.test(line) || QUOTE.test(line)) break;
      else inner.push(line.trimStart());
      blank = 0;
      at += 1;
    }
    if (blank > 0 && ITEM.test(lines[at] ?? "") && (ITEM.exec(lines[at] ?? "")?.[2] ?? "").slice(-1) === kind) tight = false;
    const task = /^\[([ xX])\][ \t]+/.exec(inner[0] ?? "");
    if (task) inner[0] = (inner[0] ?? "").slice(task[0].length);
    const c = blocks(inner, depth + 1);
    items.push(task ? { task: task[1] !== " ", c } : { c });
  }
  out.push({ t: "list", ordered, start: ordered ? parseInt(mark, 10) : 1, tight, items });
  return at;
}

function isTable(line: string, next: string | undefined): boolean {
  return next !== undefined && next.includes("-") && next.length < 2000 && DELIMITER.test(next) &&
    cells(line).length === cells(next).length;
}

function table(lines: string[], from: number, out: Block[]): number {
  const head = cells(lines[from] ?? "");
  const align = cells(lines[from + 1] ?? "").map((cell): Align => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return left && right ? "center" : right ? "right" : left ? "left" : "";
  });
  const rows: Inline[][][] = [];
  let at = from + 2;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (line.trim() === "" || FENCE.test(line) || HEADING.test(line) || QUOTE.test(line)) break;
    const row = cells(line);
    rows.push(head.map((_, column) => inline(row[column] ?? "")));
    at += 1;
  }
  out.push({ t: "table", align, head: head.map((cell) => inline(cell)), rows });
  return at;
}

/** The cells of a row: a bar that is escaped or in a code span divides nothing. */
function cells(line: string): string[] {
  const text = line.trim().replace(/^\|/, "");
  const found: string[] = [];
  let cell = "";
  let ticked = false;
  for (let at = 0; at < text.length; at += 1) {
    const c = text[at] ?? "";
    if (c === "\\" && text[at + 1] === "|") {
      cell += "|";
      at += 1;
      continue;
    }
    if (c === "`") ticked = !ticked && text.indexOf("`", at + 1) > 0;
    if (c === "|" && !ticked) {
      found.push(cell.trim());
      cell = "";
      if (found.length >= MOST_CELLS) return found;
    } else cell += c;
  }
  if (cell.trim() !== "") found.push(cell.trim());
  return found;
}
