/** What stands within a line of Markdown: emphasis, code, links. Data, no HTML, in linear time. */

import { MAX_FORMULA } from "./math.ts";
import { safeLink } from "./safe.ts";

export type Inline =
  | string
  | { t: "em" | "strong" | "del"; c: Inline[] }
  | { t: "code"; text: string }
  | { t: "link"; href: string; c: Inline[] }
  | { t: "math"; text: string; display: boolean }
  | { t: "br" };

interface Mark {
  /** The run of delimiters that this place is, or nothing. */
  ch: string;
  count: number;
  opens: boolean;
  closes: boolean;
  whole: number;
}

interface Place {
  node?: Inline;
  mark?: Mark;
  /** An opening bracket. */
  bracket?: { image: boolean; at: number };
}

const SPACE = /\s/;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const ORDINARY = /[\\`*_~[\]!<&\nhH$]/g;
const LONGEST_URL = 2000;
/** Formulas of one paragraph that are drawn. */
const MAX_FORMULAS = 500;
/** Characters that all links of a text may look ahead at; what is behind that stays text. */
const LOOK_AHEAD = 400_000;
const BARE = /^https?:\/\/[^\s<>"'`\u0000-\u0020]+/i;
const ENTITIES: { [name: string]: string } = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

export function inline(text: string): Inline[] {
  return new Scanner(text).run();
}

class Scanner {
  private at = 0;
  private plain = "";
  private places: Place[] = [];
  /** Places of `places` that are open brackets. */
  private brackets: number[] = [];
  /** Lengths of runs of backticks that are known to have no end behind here. */
  private noTicks = new Set<number>();
  private budget = LOOK_AHEAD;
  /** The next place of each mark that ends a formula, once it was searched. */
  private ends = new Map<string, number>();
  private formulas = 0;

  constructor(private text: string) {}

  run(): Inline[] {
    const { text } = this;
    while (this.at < text.length) {
      const c = text[this.at] ?? "";
      if (c === "\\") this.escape();
      else if (c === "`") this.ticks();
      else if (c === "$") this.dollar();
      else if (c === "*" || c === "_" || c === "~") this.run_(c);
      else if (c === "[") this.open(false, 1);
      else if (c === "!" && text[this.at + 1] === "[") this.open(true, 2);
      else if (c === "]") this.close();
      else if (c === "<") this.angle();
      else if (c === "&") this.entity();
      else if (c === "\n") this.newline();
      else if ((c === "h" || c === "H") && this.bare()) continue;
      else this.ordinary();
    }
    this.flush();
    return this.finish(0);
  }

  /** All up to the next character that may mean something. */
  private ordinary(): void {
    ORDINARY.lastIndex = this.at + 1;
    const end = ORDINARY.exec(this.text)?.index ?? this.text.length;
    this.plain += this.text.slice(this.at, end);
    this.at = end;
  }

  private flush(): void {
    if (this.plain !== "") this.places.push({ node: this.plain });
    this.plain = "";
  }

  private push(node: Inline): void {
    this.flush();
    this.places.push({ node });
  }

  private escape(): void {
    const next = this.text[this.at + 1] ?? "";
    if ((next === "(" || next === "[") && this.delimited(2, next === "(" ? "\\)" : "\\]", next === "[")) return;
    if (next === "\n") this.push({ t: "br" });
    else if (/[!-/:-@[-`{-~]/.test(next)) this.plain += next;
    else {
      this.plain += "\\";
      this.at += 1;
      return;
    }
    this.at += 2;
  }

  /** Takes a formula up to an end, if there is one. */
  private delimited(length: number, end: string, display: boolean): boolean {
    const from = this.at + length;
    let found = this.ends.get(end) ?? -1;
    if (found < from) {
      const next = this.text.indexOf(end, from);
      found = next < 0 ? this.text.length : next;
      this.ends.set(end, found);
    }
    if (found === this.text.length || found - from > MAX_FORMULA) return false;
    return this.formula(this.text.slice(from, found), display, found + end.length);
  }

  private formula(text: string, display: boolean, end: number): boolean {
    if (text.trim() === "" || this.formulas >= MAX_FORMULAS) return false;
    this.formulas += 1;
    this.push({ t: "math", text: text.trim(), display });
    this.at = end;
    return true;
  }

  /** Takes a formula in dollars. Sums of money and variables of a shell stay text. */
  private dollar(): void {
    const { text, at } = this;
    const before = text[at - 1] ?? "";
    if (text[at + 1] === "$") {
      if (before !== "$" && this.delimited(2, "$$", true)) return;
      const run = this.count("$");
      this.plain += text.slice(at, at + run);
      this.at += run;
      return;
    }
    const end = /[\p{L}\p{N}$]/u.test(before) ? -1 : formulaEnd(text, at + 1);
    if (end > 0 && this.formula(text.slice(at + 1, end), false, end + 1)) return;
    this.plain += "$";
    this.at += 1;
  }

  private ticks(): void {
    const run = this.count("`");
    const start = this.at + run;
    if (!this.noTicks.has(run)) {
      for (let at = start; ; ) {
        const found = this.text.indexOf("`", at);
        if (found < 0) break;
        let end = found;
        while (this.text[end] === "`") end += 1;
        if (end - found === run) {
          let code = this.text.slice(start, found).replace(/\n/g, " ");
          if (code.startsWith(" ") && code.endsWith(" ") && code.trim() !== "") code = code.slice(1, -1);
          this.push({ t: "code", text: code });
          this.at = end;
          return;
        }
        at = end;
      }
      this.noTicks.add(run);
    }
    this.plain += this.text.slice(this.at, start);
    this.at = start;
  }

  private count(c: string): number {
    let end = this.at;
    while (this.text[end] === c) end += 1;
    return end - this.at;
  }

  private run_(ch: string): void {
    const count = this.count(ch);
    const before = this.at === 0 ? " " : (this.text[this.at - 1] ?? " ");
    const after = this.text[this.at + count] ?? " ";
    this.at += count;
    if (ch === "~" && count !== 2) {
      this.plain += ch.repeat(count);
      return;
    }
    const left = !SPACE.test(after) && (!PUNCTUATION.test(after) || SPACE.test(before) || PUNCTUATION.test(before));
    const right = !SPACE.test(before) && (!PUNCTUATION.test(before) || SPACE.test(after) || PUNCTUATION.test(after));
    const opens = ch === "_" ? left && (!right || PUNCTUATION.test(before)) : left;
    const closes = ch === "_" ? right && (!left || PUNCTUATION.test(after)) : right;
    this.flush();
    this.places.push({ mark: { ch, count, opens, closes, whole: count } });
  }

  private open(image: boolean, length: number): void {
    this.flush();
    this.places.push({ bracket: { image, at: this.at } });
    this.brackets.push(this.places.length - 1);
    this.at += length;
  }

  private close(): void {
    const place = this.brackets.pop();
    if (place === undefined) {
      this.plain += "]";
      this.at += 1;
      return;
    }
    const asks = this.text[this.at + 1] === "(" && this.budget > 0;
    const target = asks ? destination(this.text, this.at + 2) : undefined;
    if (asks) this.budget -= target ? target.end - this.at : LONGEST_URL;
    if (!target) {
      const bracket = this.places[place]?.bracket;
      this.places[place] = { node: bracket?.image ? "![" : "[" };
      this.plain += "]";
      this.at += 1;
      return;
    }
    this.flush();
    const image = this.places[place]?.bracket?.image === true;
    const c = this.finish(place + 1);
    this.places.length = place;
    const href = safeLink(target.url);
    // An image of the network is not fetched: it is a link like others.
    const shown: Inline[] = image ? ["image: ", ...(c.length > 0 ? c : [target.url.slice(0, 200)])] : c;
    if (href === "") this.places.push(...[...shown, ` (${target.url.slice(0, 200)})`].map((node) => ({ node })));
    else this.places.push({ node: { t: "link", href, c: shown.length > 0 ? shown : [href] } });
    // No link within a link: what is open before this one stays text.
    if (!image) {
      for (const each of this.brackets) {
        if (this.places[each]?.bracket?.image === false) this.places[each] = { node: "[" };
      }
      this.brackets = this.brackets.filter((each) => this.places[each]?.bracket);
    }
    this.at = target.end;
  }

  private angle(): void {
    const end = this.text.slice(this.at + 1, this.at + LONGEST_URL).search(/[\s<>]/);
    if (end > 0 && this.text[this.at + 1 + end] === ">") {
      const url = this.text.slice(this.at + 1, this.at + 1 + end);
      const href = /^(https?:|mailto:)/i.test(url) ? safeLink(url) : "";
      if (href !== "") {
        this.push({ t: "link", href, c: [url] });
        this.at += end + 2;
        return;
      }
    }
    this.plain += "<";
    this.at += 1;
  }

  private entity(): void {
    const found = /^&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,4}));/.exec(this.text.slice(this.at, this.at + 12));
    const number = found?.[1] !== undefined ? parseInt(found[1], 10) : found?.[2] !== undefined ? parseInt(found[2], 16) : -1;
    let said = found?.[3] === undefined ? undefined : ENTITIES[found[3]];
    if (number > 0 && number <= 0x10ffff && !(number >= 0xd800 && number < 0xe000)) said = String.fromCodePoint(number);
    this.plain += said ?? "&";
    this.at += said === undefined ? 1 : (found?.[0].length ?? 1);
  }

  private newline(): void {
    const hard = this.text[this.at - 1] === " " && this.text[this.at - 2] === " ";
    if (hard) this.push({ t: "br" });
    else this.plain += "\n";
    this.at += 1;
  }

  private bare(): boolean {
    const before = this.at === 0 ? " " : (this.text[this.at - 1] ?? " ");
    if (/[\p{L}\p{N}_]/u.test(before)) return false;
    let url = BARE.exec(this.text.slice(this.at, this.at + LONGEST_URL))?.[0];
    if (url === undefined) return false;
    // Marks at the end belong to the sentence, and a bracket that was not opened in the address does too.
    url = url.replace(/[*_~]{1,8}.*$/, (rest) => (/^[*_~]+[\p{L}\p{N}/]/u.test(rest) ? rest : ""));
    let over = url.split(")").length - url.split("(").length;
    let length = url.length;
    for (; length > 0; length -= 1) {
      const end = url[length - 1] ?? "";
      if (!/[.,:;!?'"\]|]/.test(end) && !(end === ")" && over-- > 0)) break;
    }
    url = url.slice(0, length);
    const href = safeLink(url);
    if (href === "" || url.length < 9) return false;
    this.push({ t: "link", href, c: [url] });
    this.at += url.length;
    return true;
  }

  /** Pairs the marks from a place on, and gives the nodes. */
  private finish(from: number): Inline[] {
    this.flush();
    const places = this.places.slice(from);
    const opened: { mark: Mark; out: Inline[] }[] = [];
    let out: Inline[] = [];
    // For each kind of closer, how deep `opened` was when none was found: the search is not made again below that.
    const floor = new Map<string, number>();
    const add = (node: Inline): void => {
      const last = out[out.length - 1];
      if (typeof node === "string" && typeof last === "string") out[out.length - 1] = last + node;
      else if (node !== "") out.push(node);
    };
    const unwind = (depth: number): void => {
      while (opened.length > depth) {
        const top = opened.pop();
        if (!top) break;
        const inner = out;
        out = top.out;
        add(top.mark.ch.repeat(top.mark.count));
        for (const node of inner) add(node);
      }
      for (const [key, at] of floor) if (at > depth) floor.set(key, depth);
    };
    for (const place of places) {
      if (place.node !== undefined) add(place.node);
      else if (place.bracket) add(place.bracket.image ? "![" : "[");
      else if (place.mark) {
        const mark = { ...place.mark };
        while (mark.closes && mark.count > 0) {
          const key = `${mark.ch}${mark.opens}${mark.whole % 3}`;
          let at = opened.length - 1;
          const stop = floor.get(key) ?? 0;
          while (at >= stop && !pairs(opened[at]?.mark, mark)) at -= 1;
          const opener = opened[at];
          if (at < stop || !opener) {
            floor.set(key, opened.length);
            break;
          }
          unwind(at + 1);
          const used = mark.ch === "~" || (mark.count >= 2 && opener.mark.count >= 2) ? 2 : 1;
          const c = out;
          opener.mark.count -= used;
          mark.count -= used;
          const node: Inline = { t: mark.ch === "~" ? "del" : used === 2 ? "strong" : "em", c };
          if (opener.mark.count > 0) out = [node];
          else {
            out = opener.out;
            opened.pop();
            for (const [kind, depth] of floor) if (depth > opened.length) floor.set(kind, opened.length);
            add(node);
          }
        }
        if (mark.count > 0 && mark.opens) {
          opened.push({ mark, out });
          out = [];
        } else if (mark.count > 0) add(mark.ch.repeat(mark.count));
      }
    }
    unwind(0);
    return out;
  }
}

/** Returns the place of the dollar that ends a formula, or -1. It follows no space, and no letter, digit or brace follows it. */
function formulaEnd(text: string, from: number): number {
  if (/^\s?$/.test(text[from] ?? "")) return -1;
  for (let at = from; at < text.length && at - from < MAX_FORMULA; at += 1) {
    const c = text[at];
    if (c === "\\") at += 1;
    else if (c === "`") return -1;
    else if (c === "$") {
      const content = text.slice(from, at);
      const isClosed = !/\s$/.test(content) && /^(?:(?:th|st|nd|rd|s)\b|[^\p{L}\p{N}_{($]|$)/u.test(text.slice(at + 1, at + 4));
      return isClosed && !isProse(content) ? at : -1;
    }
  }
  return -1;
}

/** Detects words between dollars, without any sign of a formula. */
const isProse = (text: string): boolean => !/[\\^_{}=+<>]/.test(text) && /[A-Za-z]{2}[,.;:]? +[A-Za-z]{2}/.test(text);

function pairs(opener: Mark | undefined, closer: Mark): boolean {
  if (!opener || opener.ch !== closer.ch) return false;
  // The rule of three: `**a*b**` is one strong text.
  const odd = (opener.closes || closer.opens) && (opener.whole + closer.whole) % 3 === 0;
  return !(odd && (opener.whole % 3 !== 0 || closer.whole % 3 !== 0));
}

/** The address behind `](`, and where the link ends. */
function destination(text: string, from: number): { url: string; end: number } | undefined {
  const part = text.slice(from, from + LONGEST_URL + 600);
  const angled = /^[ \t]*<([^<>\n]{0,2000})>/.exec(part);
  let url: string;
  let at: number;
  if (angled) {
    url = angled[1] ?? "";
    at = angled[0].length;
  } else {
    at = part.length - part.trimStart().length;
    const start = at;
    for (let deep = 0; at < part.length && at - start < LONGEST_URL; at += 1) {
      const c = part[at] ?? "";
      if (/\s/.test(c)) break;
      if (c === "\\" && at + 1 < part.length) at += 1;
      else if (c === "(") deep += 1;
      else if (c === ")" && deep-- === 0) break;
    }
    url = part.slice(start, at).replace(/\\([!-/:-@[-`{-~])/g, "$1");
  }
  const rest = /^(?:[ \t\n]+(?:"[^"]{0,500}"|'[^']{0,500}'|\([^()]{0,500}\)))?[ \t\n]*\)/.exec(part.slice(at));
  return rest ? { url, end: from + at + rest[0].length } : undefined;
}
