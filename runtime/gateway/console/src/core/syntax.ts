/**
 * Syntax colours: the tokens of a line of code, by a table of its language and the state in which the line before it ended.
 * A line takes time in proportion to its length, whatever it is: each search that fails is made once a line.
 */

import { languageNames } from "./languages.ts";

/** A piece of a line. `style` is a class of the page, or nothing. */
export interface SyntaxToken {
  style: string;
  text: string;
}

/** Text between two marks, such as a string or a comment. */
export interface SyntaxRegion {
  open: string;
  /** Empty for a region that ends with the line. */
  close: string;
  style: string;
  /** A backslash takes the next character. */
  escapes?: boolean;
  /** May continue on further lines. Otherwise it begins only if its line closes it. */
  spans?: boolean;
  nests?: boolean;
  /** Mark that begins code within it, up to the closing brace. */
  hole?: string;
  /** Characters that may precede it, besides the begin of the line. */
  behind?: string;
}

export interface SyntaxLanguage {
  regions?: SyntaxRegion[];
  /** Styles of words. */
  words?: Map<string, string>;
  ignoresCase?: boolean;
  word?: RegExp;
  number?: RegExp;
  /** Words with a capital are types. */
  capitals?: boolean;
  /** Takes what the table cannot describe. Returns whether it took anything. */
  special?: (line: LineScanner) => boolean;
  /** Scans a whole line in place of the table. */
  scan?: (line: LineScanner) => void;
}

/** State at the end of a line: a list of what is open, the innermost first. */
export interface SyntaxState {
  region?: SyntaxRegion;
  close: string;
  /** Nested regions of one kind, or braces within a hole. */
  depth: number;
  /** The name of a tag, in which attributes are. */
  tag?: string;
  /** Another language up to `close`, and its state. */
  embedded?: SyntaxLanguage;
  inner?: SyntaxState;
  outer?: SyntaxState;
}

/** Longer lines stay plain; the state goes over them. */
export const MAX_LINE = 2000;
/** Characters of a text that have colours; what is behind stays plain. */
export const MAX_COLOURED = 50_000;
/** Coloured tokens of a text; ordinary code has one in seven characters. */
export const MAX_TOKENS = 12_000;
const MAX_NESTED = 12;

const WORD = /[A-Za-z_$\u00aa-\uffff][\w$\u00aa-\uffff]*/y;
const NUMBER = /0[xXbBoO][\da-fA-F_]+\w*|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?\w*/y;

/** Reads one line from left to right. */
export class LineScanner {
  tokens: SyntaxToken[] = [];
  at = 0;
  /** The last character of code that is no white space, and the style of its token. */
  last = "";
  lastStyle = "";
  /** A region that begins behind this line. */
  next: SyntaxState | undefined;
  /** Searches that found nothing up to the end of the line. */
  private failed = new Set<string>();

  constructor(readonly language: SyntaxLanguage, readonly text: string, public state: SyntaxState | undefined) {}

  run(): void {
    if (this.language.scan) this.language.scan(this);
    else while (this.at < this.text.length) this.step();
    this.endLine();
  }

  endLine(): void {
    const region = this.state?.region;
    if (region && !region.spans && !this.text.endsWith("\\")) this.state = this.state?.outer;
    if (this.next) this.push(this.next);
  }

  step(): void {
    if (this.state?.region) this.inRegion(this.state.region, this.state);
    else this.code();
  }

  /** Takes characters with a style. */
  take(length: number, style = ""): void {
    if (length <= 0) return;
    const text = this.text.slice(this.at, this.at + length);
    const before = this.tokens[this.tokens.length - 1];
    if (before && before.style === style) before.text += text;
    else this.tokens.push({ style, text });
    this.at += length;
    const ended = text.trimEnd();
    if (ended !== "") [this.last, this.lastStyle] = [ended[ended.length - 1] ?? "", style];
  }

  /** Matches a sticky pattern here. */
  match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    return pattern.exec(this.text);
  }

  /** Searches, unless the search of that name has failed in this line. */
  once<T>(name: string, search: () => T | undefined): T | undefined {
    if (this.failed.has(name)) return undefined;
    const found = search();
    if (found === undefined) this.failed.add(name);
    return found;
  }

  push(state: SyntaxState): void {
    this.state = { ...state, outer: this.state };
  }

  pop(): void {
    this.state = this.state?.outer;
  }

  depth(): number {
    let depth = 0;
    for (let each = this.state; each; each = each.outer) depth += 1;
    return depth;
  }

  /** Scans a part of the line in another language. */
  embed(language: SyntaxLanguage, state: SyntaxState | undefined, end: number): SyntaxState | undefined {
    const inner = new LineScanner(language, this.text.slice(this.at, end), state);
    inner.run();
    for (const token of inner.tokens) this.take(token.text.length, token.style);
    return inner.state;
  }

  private inRegion(region: SyntaxRegion, state: SyntaxState): void {
    const { text } = this;
    let end = this.at;
    while (end < text.length) {
      if (region.escapes && text[end] === "\\") end += 2;
      else if (state.close !== "" && text.startsWith(state.close, end)) {
        end += state.close.length;
        if (state.depth === 0) {
          this.take(end - this.at, region.style);
          this.pop();
          return;
        }
        state = { ...state, depth: state.depth - 1 };
      } else if (region.nests && text.startsWith(region.open, end)) {
        end += region.open.length;
        state = { ...state, depth: state.depth + 1 };
      } else if (region.hole !== undefined && text.startsWith(region.hole, end) && this.depth() < MAX_NESTED) {
        this.take(end - this.at, region.style);
        this.take(region.hole.length);
        this.push({ close: "}", depth: 0 });
        return;
      } else end += 1;
    }
    this.take(text.length - this.at, region.style);
    this.state = state;
  }

  private code(): void {
    const { text, language } = this;
    const c = text[this.at] ?? "";
    if (c === " " || c === "\t") {
      let end = this.at + 1;
      while (text[end] === " " || text[end] === "\t") end += 1;
      return this.take(end - this.at);
    }
    if (this.state?.close === "}") {
      if (c === "}" && this.state.depth === 0) this.pop();
      else if (c === "{" || c === "}") this.state = { ...this.state, depth: this.state.depth + (c === "{" ? 1 : -1) };
    }
    if (language.special?.(this)) return;
    for (const region of language.regions ?? []) {
      if (text.startsWith(region.open, this.at) && this.begin(region)) return;
    }
    const word = this.match(language.word ?? WORD);
    if (word) return this.take(word[0].length, this.wordStyle(word[0]));
    const number = c >= "0" && c <= "9" ? this.match(language.number ?? NUMBER) : null;
    this.take(number ? number[0].length : 1, number ? "s-number" : "");
  }

  /** Begins a region here, if it is one. */
  private begin(region: SyntaxRegion): boolean {
    const before = this.text[this.at - 1] ?? "";
    if (region.behind !== undefined && before !== "" && !region.behind.includes(before)) return false;
    if (region.close !== "" && !region.spans && !this.text.endsWith("\\")) {
      const isClosed = this.once(region.open, () => this.closes(region) || undefined);
      if (!isClosed) return false;
    }
    const state: SyntaxState = { region, close: region.close, depth: 0 };
    this.take(region.open.length, region.style);
    this.push(state);
    return true;
  }

  private closes(region: SyntaxRegion): boolean {
    for (let at = this.at + region.open.length; at < this.text.length; at += 1) {
      if (region.escapes && this.text[at] === "\\") at += 1;
      else if (this.text.startsWith(region.close, at)) return true;
    }
    return false;
  }

  private wordStyle(word: string): string {
    const { language } = this;
    const known = this.last === "." && !language.ignoresCase ? undefined : language.words?.get(language.ignoresCase ? word.toLowerCase() : word);
    if (known !== undefined) return known;
    if (this.text[this.at + word.length] === "(") return "s-name";
    return language.capitals && /^[A-Z]/.test(word) ? "s-type" : "";
  }
}

export interface SyntaxLine {
  text: string;
  tokens: SyntaxToken[];
  /** The state at its end. */
  after: SyntaxState | undefined;
  /** Number of tokens with a colour. */
  coloured: number;
}

export function syntaxLine(language: SyntaxLanguage, text: string, state?: SyntaxState): SyntaxLine {
  if (text.length > MAX_LINE) return { text, tokens: [{ style: "", text }], after: state, coloured: 0 };
  const line = new LineScanner(language, text, state);
  line.run();
  return { text, tokens: line.tokens, after: line.state, coloured: line.tokens.filter((token) => token.style !== "").length };
}

/** The state at the end of a text that ends with a line. */
export function syntaxAfter(language: SyntaxLanguage, text: string, before?: SyntaxState): SyntaxState | undefined {
  return text.replace(/\n$/, "").split("\n").reduce((state, line) => syntaxLine(language, line, state).after, before);
}

/** The lines of a text that grows: a line is read again only if it, or a line before it, has changed. */
export class SyntaxLines {
  lines: SyntaxLine[] = [];
  /** The end of the text, without colours. */
  rest = "";

  constructor(readonly language: SyntaxLanguage, readonly before?: SyntaxState) {}

  update(text: string): void {
    const end = text.length <= MAX_COLOURED ? text.length : text.lastIndexOf("\n", MAX_COLOURED);
    const texts = end < 0 ? [] : text.slice(0, end).split("\n");
    const lines: SyntaxLine[] = [];
    let state = this.before;
    let isSame = true;
    let tokens = 0;
    let length = 0;
    for (const [at, each] of texts.entries()) {
      const known = this.lines[at];
      isSame &&= known?.text === each;
      const line = isSame && known ? known : syntaxLine(this.language, each, state);
      tokens += line.coloured;
      if (tokens > MAX_TOKENS) break;
      lines.push(line);
      state = line.after;
      length += each.length + (at > 0 ? 1 : 0);
    }
    this.lines = lines;
    this.rest = text.slice(length);
  }
}

/** The language of a code block, by what is behind its fence. */
export function fenceLanguage(info: string): SyntaxLanguage | undefined {
  return languageNames.get(/^[{.]{0,2}([\w+#-]{1,20})/.exec(info.toLowerCase())?.[1] ?? "");
}

/** The language of a file, by its name. */
export function fileLanguage(path: string): SyntaxLanguage | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase().slice(-100);
  return languageNames.get(name.slice(name.lastIndexOf(".") + 1)) ?? languageNames.get(/^(?:docker|container|make|gem|rake)file/.exec(name)?.[0] ?? "");
}
