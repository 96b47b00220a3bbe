/** Cuts a long text of Markdown into parts that can be drawn one by one. */

/** A part is cut at the first good place behind this length. */
export const PART = 4096;

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;

export interface Cut {
  head: string;
  tail: string;
  /** The opening line of the code block that is open at the cut, or nothing. */
  fence: string;
}

/** The fence that is open behind a line. */
export function fenceAfter(fence: string, line: string): string {
  const found = FENCE.exec(line);
  if (!found) return fence;
  const [, marks = "", rest = ""] = found;
  if (fence === "") return marks.startsWith("`") && rest.includes("`") ? "" : line;
  const open = FENCE.exec(fence)?.[1] ?? "```";
  return marks[0] === open[0] && marks.length >= open.length && rest.trim() === "" ? "" : fence;
}

/**
 * Cuts behind `PART` characters where a paragraph ends; in a code block, or where no paragraph ends for long, behind a
 * line; else in a line. Gives nothing where the text is short. `fence` is what is open at its begin. With `from`, also where the
 * first paragraph ends behind that place.
 */
export function cut(text: string, fence: string, from = PART): Cut | undefined {
  if (text.length <= Math.min(from, PART)) return undefined;
  let open = fence;
  let line = 0;
  for (let start = 0; start < text.length; ) {
    const newline = text.indexOf("\n", start);
    // The last line may go on, so it decides nothing.
    if (newline < 0) break;
    const content = text.slice(start, newline);
    open = fenceAfter(open, content);
    const next = newline + 1;
    if (next >= PART || next >= from) {
      if (next >= PART) line = next;
      const paragraph = open === "" && content.trim() === "" && startsBlock(text, next);
      const code = open !== "" && next >= 2 * PART;
      if (paragraph || code || next >= 4 * PART) {
        return { head: text.slice(0, next), tail: text.slice(next), fence: open };
      }
    }
    start = next;
  }
  if (text.length < 8 * PART) return undefined;
  // A line without end: cut it where it is, not within a pair of surrogates.
  let at = 4 * PART;
  if (line > 0 && line <= at) at = line;
  const code = text.charCodeAt(at - 1);
  if (code >= 0xd800 && code < 0xdc00) at -= 1;
  let within = fence;
  for (const each of text.slice(0, at).split("\n").slice(0, -1)) within = fenceAfter(within, each);
  return { head: text.slice(0, at), tail: text.slice(at), fence: within };
}

/** Whether what begins here goes on with nothing before it: no indented line, no item of a list, and it is known. */
function startsBlock(text: string, at: number): boolean {
  const head = text.slice(at, at + 12);
  return head !== "" && !/^(\s|[-*+>|]|\d{1,9}[.)])/.test(head);
}
