/** The lines of a change: of two texts, or of a unified diff. */

import type { Diff } from "./rows.ts";
import { MAX_COLOURED, MAX_TOKENS, SyntaxLines, fileLanguage, syntaxLine } from "./syntax.ts";
import type { SyntaxLanguage, SyntaxLine, SyntaxState } from "./syntax.ts";

export interface DiffLine {
  kind: "same" | "add" | "del" | "hunk";
  text: string;
  /** Line numbers before and after; 0 where it has none. */
  before: number;
  after: number;
}

export interface DiffView {
  lines: DiffLine[];
  added: number;
  removed: number;
}

const CONTEXT = 3;
/** The work of one comparison; beyond it a change is drawn as all old, then all new lines. */
const MOST_STEPS = 2_000_000;

export function diffView(diff: Diff): DiffView {
  const lines = diff.patch !== undefined ? patchLines(diff.patch) : hunks(compare(diff.oldText ?? "", diff.newText ?? ""));
  let [added, removed] = [0, 0];
  for (const line of lines) {
    if (line.kind === "add") added += 1;
    if (line.kind === "del") removed += 1;
  }
  return { lines, added, removed };
}

function patchLines(patch: string): DiffLine[] {
  const out: DiffLine[] = [];
  let [before, after] = [0, 0];
  let inHunk = false;
  for (const line of patch.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@/.exec(line);
    if (hunk) {
      [before, after] = [parseInt(hunk[1] ?? "1", 10), parseInt(hunk[2] ?? "1", 10)];
      inHunk = true;
      out.push({ kind: "hunk", text: line, before: 0, after: 0 });
    } else if (!inHunk || line.startsWith("\\") || /^(diff |index )/.test(line)) {
      if (/^(diff |index )/.test(line)) inHunk = false;
      out.push({ kind: "hunk", text: line, before: 0, after: 0 });
    } else if (line.startsWith("+")) out.push({ kind: "add", text: line.slice(1), before: 0, after: after++ });
    else if (line.startsWith("-")) out.push({ kind: "del", text: line.slice(1), before: before++, after: 0 });
    else out.push({ kind: "same", text: line.slice(1), before: before++, after: after++ });
  }
  return out;
}

const linesOf = (text: string): string[] => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

/** All lines of both texts in order. */
export function compare(oldText: string, newText: string): DiffLine[] {
  const [a, b] = [linesOf(oldText), linesOf(newText)];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const script = myers(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const kinds = [...Array<"same">(start).fill("same"), ...script, ...Array<"same">(end).fill("same")];
  const out: DiffLine[] = [];
  let [x, y] = [0, 0];
  for (const kind of kinds) {
    if (kind === "same") out.push({ kind, text: a[x++] ?? "", before: x, after: ++y });
    else if (kind === "del") out.push({ kind, text: a[x++] ?? "", before: x, after: 0 });
    else out.push({ kind, text: b[y++] ?? "", before: 0, after: y });
  }
  return out;
}

/** Myers' shortest script, within a bound on its work. */
function myers(a: string[], b: string[]): ("same" | "add" | "del")[] {
  const all = (): ("add" | "del")[] => [...Array<"del">(a.length).fill("del"), ...Array<"add">(b.length).fill("add")];
  const most = a.length + b.length;
  if (a.length === 0 || b.length === 0) return all();
  const v = new Map<number, number>([[1, 0]]);
  const trace: Map<number, number>[] = [];
  let steps = 0;
  for (let d = 0; d <= most; d += 1) {
    trace.push(new Map(v));
    steps += 2 * d;
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (v.get(k - 1) ?? 0) < (v.get(k + 1) ?? 0));
      let x = down ? (v.get(k + 1) ?? 0) : (v.get(k - 1) ?? 0) + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x += 1;
        y += 1;
        steps += 1;
      }
      v.set(k, x);
      if (x >= a.length && y >= b.length) return backtrack(trace, d, a.length, b.length);
    }
    if (steps > MOST_STEPS / 8) return all();
  }
  return all();
}

function backtrack(trace: Map<number, number>[], from: number, n: number, m: number): ("same" | "add" | "del")[] {
  const out: ("same" | "add" | "del")[] = [];
  let [x, y] = [n, m];
  for (let d = from; d > 0; d -= 1) {
    const v = trace[d] ?? new Map<number, number>();
    const k = x - y;
    const down = k === -d || (k !== d && (v.get(k - 1) ?? 0) < (v.get(k + 1) ?? 0));
    const before = down ? k + 1 : k - 1;
    const startX = v.get(before) ?? 0;
    const startY = startX - before;
    while (x > startX && y > startY && x > (down ? startX : startX + 1) && y > (down ? startY + 1 : startY)) {
      out.push("same");
      x -= 1;
      y -= 1;
    }
    out.push(down ? "add" : "del");
    [x, y] = [startX, startY];
  }
  while (x > 0 && y > 0) {
    out.push("same");
    x -= 1;
    y -= 1;
  }
  return out.reverse();
}

/**
 * The syntax of lines of a change, by the name of its file. Texts that are known are read from their beginning; in a patch
 * each hunk begins anew.
 */
export function diffSyntax(diff: Diff, lines: DiffLine[]): (SyntaxLine | undefined)[] {
  const language = fileLanguage(diff.path);
  if (!language) return [];
  if (diff.patch !== undefined) return patchSyntax(language, lines);
  const [before, after] = [diff.oldText, diff.newText].map((text) => {
    const syntax = new SyntaxLines(language);
    syntax.update(text ?? "");
    return syntax.lines;
  });
  return lines.map((line) => (line.kind === "hunk" ? undefined : line.kind === "del" ? before?.[line.before - 1] : after?.[line.after - 1]));
}

function patchSyntax(language: SyntaxLanguage, lines: DiffLine[]): (SyntaxLine | undefined)[] {
  let before: SyntaxState | undefined;
  let after: SyntaxState | undefined;
  let length = 0;
  let tokens = 0;
  return lines.map(({ kind, text }) => {
    length += text.length;
    if (kind === "hunk") before = after = undefined;
    if (kind === "hunk" || length > MAX_COLOURED || tokens > MAX_TOKENS) return undefined;
    const line = syntaxLine(language, text, kind === "del" ? before : after);
    tokens += line.coloured;
    if (kind !== "add") before = line.after;
    if (kind !== "del") after = line.after;
    return line;
  });
}

/** Leaves out what did not change but a few lines around each change. */
function hunks(lines: DiffLine[]): DiffLine[] {
  const keep = new Uint8Array(lines.length);
  let far = CONTEXT + 1;
  for (let at = 0; at < lines.length; at += 1) {
    far = lines[at]?.kind === "same" ? far + 1 : 0;
    if (far <= CONTEXT) keep[at] = 1;
  }
  far = CONTEXT + 1;
  for (let at = lines.length - 1; at >= 0; at -= 1) {
    far = lines[at]?.kind === "same" ? far + 1 : 0;
    if (far <= CONTEXT) keep[at] = 1;
  }
  const out: DiffLine[] = [];
  let skipped = 0;
  const skip = (): void => {
    if (skipped > 0) out.push({ kind: "hunk", text: `${skipped} unchanged line${skipped === 1 ? "" : "s"}`, before: 0, after: 0 });
    skipped = 0;
  };
  lines.forEach((line, at) => {
    if (keep[at] === 1) {
      skip();
      out.push(line);
    } else skipped += 1;
  });
  if (out.length > 0) skip();
  return out;
}
