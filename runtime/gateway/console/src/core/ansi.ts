/** Text of a terminal as pieces with styles. Every other sequence is left out: it moves nothing and links nowhere. */

export interface Piece {
  text: string;
  /** Names of styles, separated by spaces: `t-bold`, `t-dim`, `t-italic`, `t-under`, `t-inverse`, `t-fg-N`, `t-bg-N`. */
  style: string;
}

// CSI, OSC (and DCS, APC, PM, SOS) up to its end, and other escapes. What has no end is left out to the end of its line.
const SEQUENCE =
  /(?:\u001b\[|\u009b)([0-?]{0,256})[ -/]{0,16}([@-~])?|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u009c\n]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]{0,16}[0-~]?|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;

interface Style {
  bold: boolean;
  dim: boolean;
  italic: boolean;
  under: boolean;
  inverse: boolean;
  fg: number;
  bg: number;
}

const NONE: Style = { bold: false, dim: false, italic: false, under: false, inverse: false, fg: -1, bg: -1 };

/** Pieces of one text; behind the last one no style is kept, since each piece is an element of the page. */
const MOST_PIECES = 1000;

export function ansi(source: string): Piece[] {
  const text = rewritten(source);
  const pieces: Piece[] = [];
  let style = { ...NONE };
  let from = 0;
  const add = (part: string): void => {
    if (part === "") return;
    const named = pieces.length < MOST_PIECES ? names(style) : "";
    const last = pieces[pieces.length - 1];
    if (last && last.style === named) last.text += part;
    else pieces.push({ text: part, style: named });
  };
  for (const found of text.matchAll(SEQUENCE)) {
    add(text.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[2] === "m") style = sgr(style, found[1] ?? "");
  }
  add(text.slice(from));
  return pieces;
}

/** Text without any sequence. */
export const plain = (text: string): string => ansi(text).map((piece) => piece.text).join("");

/** A carriage return writes a line anew, as progress bars do: what stood before it goes. */
function rewritten(text: string): string {
  if (!text.includes("\r")) return text;
  return text.replace(/\r+\n/g, "\n").split("\n").map((line) => line.slice(line.replace(/\r+$/, "").lastIndexOf("\r") + 1)
    .replace(/\r/g, "")).join("\n");
}

function names(style: Style): string {
  const [fg, bg] = style.inverse ? [style.bg, style.fg] : [style.fg, style.bg];
  const found: string[] = [];
  if (style.bold) found.push("t-bold");
  if (style.dim) found.push("t-dim");
  if (style.italic) found.push("t-italic");
  if (style.under) found.push("t-under");
  if (style.inverse && fg < 0 && bg < 0) found.push("t-inverse");
  if (fg >= 0) found.push(`t-fg-${fg}`);
  if (bg >= 0) found.push(`t-bg-${bg}`);
  return found.join(" ");
}

function sgr(before: Style, parameters: string): Style {
  const style = { ...before };
  const codes = parameters.split(/[;:]/).map((code) => (code === "" ? 0 : parseInt(code, 10)));
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 0) Object.assign(style, NONE);
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.under = true;
    else if (code === 7) style.inverse = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.under = false;
    else if (code === 27) style.inverse = false;
    else if (code >= 30 && code <= 37) style.fg = code - 30;
    else if (code >= 90 && code <= 97) style.fg = code - 82;
    else if (code === 39) style.fg = -1;
    else if (code >= 40 && code <= 47) style.bg = code - 40;
    else if (code >= 100 && code <= 107) style.bg = code - 92;
    else if (code === 49) style.bg = -1;
    else if (code === 38 || code === 48) {
      const colour = codes[at + 1] === 5 ? palette(codes[at + 2] ?? 0) : nearest(codes.slice(at + 2, at + 5));
      at += codes[at + 1] === 5 ? 2 : 4;
      if (code === 38) style.fg = colour;
      else style.bg = colour;
    }
  }
  return style;
}

/** The nearest of the sixteen colours that the page knows, in both of its themes. */
function palette(index: number): number {
  if (index < 16) return Math.max(0, index);
  if (index >= 232) return index < 244 ? 8 : 7;
  const cube = index - 16;
  return nearest([Math.floor(cube / 36) * 51, (Math.floor(cube / 6) % 6) * 51, (cube % 6) * 51]);
}

function nearest([red = 0, green = 0, blue = 0]: number[]): number {
  const most = Math.max(red, green, blue);
  if (most < 64) return 0;
  const part = (value: number): number => (value > most * 0.6 ? 1 : 0);
  return part(red) + 2 * part(green) + 4 * part(blue) + (most > 200 ? 8 : 0);
}
