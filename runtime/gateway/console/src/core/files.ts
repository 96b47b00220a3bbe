/** How the content of a file can be shown. Its bytes decide, its name and type only choose between texts. */

import { rasterType } from "./safe.ts";

/** Part of a file that is read to be shown, in bytes, and the longest text that is drawn as Markdown. */
export const MAX_SHOWN = 2 * 1024 * 1024;
export const MAX_MARKDOWN = 256 * 1024;
export const MAX_SVG = 1024 * 1024;

export type ShownFile =
  | { kind: "picture"; type: string }
  | { kind: "svg" | "markdown" | "text"; text: string }
  | { kind: "binary" };

/** Backspace, tab, the ends of lines and pages, and escape. */
const TEXT_CONTROLS = new Set([8, 9, 10, 11, 12, 13, 27]);
/** Begins of archives and documents, which can be ASCII otherwise. */
const CONTAINERS = ["PK\u0003\u0004", "PK\u0005\u0006", "%PDF-"];

const isContainer = (head: Uint8Array): boolean => CONTAINERS.some((begin) => [...begin].every((character, at) => head[at] === character.charCodeAt(0)));

/** Whether a file is no text or picture by its name or type, so that it can only be saved. */
export const looksBinary = (name: string, mime: string): boolean =>
  /^(audio|video|font)\/|^application\/(zip|gzip|pdf|x-tar)\b/.test(mime) || /\.(zip|t?gz|bz2|xz|zst|7z|rar|tar|jar|exe|dll|dylib|class|wasm|pdf|docx|xlsx|pptx|mp[34]|wav|ogg|mov|avi|mkv|ttf|otf|woff2?|sqlite|iso|dmg)$/i.test(name);

/** Returns the text that bytes are in UTF-8, or nothing. Bytes that were cut may end in a character. */
export function readText(bytes: Uint8Array, isWhole: boolean): string | undefined {
  const head = bytes.subarray(0, 65_536);
  if (head.includes(0) || isContainer(head)) return undefined;
  // A text has few control characters beside white space and those of terminals.
  const controls = head.reduce((sum, byte) => sum + (byte < 32 && !TEXT_CONTROLS.has(byte) ? 1 : 0), 0);
  if (controls * 100 > head.length) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: !isWhole });
  } catch {
    return undefined;
  }
}

/** Whether a text is a picture in SVG that may be drawn. One with entities of its own may grow without bound. */
export function isSvg(text: string): boolean {
  const head = text.slice(0, 4096).replace(/^\ufeff/, "").replace(/<\?xml[^>]*>/, "").replace(/<!--[^]*?-->/g, "").replace(/<!DOCTYPE[^>[]*>/i, "").trimStart();
  return /^<svg[\s>]/.test(head) && !/<!ENTITY/i.test(text);
}

export function shownFile(bytes: Uint8Array, name: string, mime: string, isWhole: boolean): ShownFile {
  const type = rasterType(bytes);
  if (type !== "") return isWhole ? { kind: "picture", type } : { kind: "binary" };
  const text = readText(bytes, isWhole);
  if (text === undefined) return { kind: "binary" };
  const isNamed = (ending: RegExp, types: string): boolean => ending.test(name) || mime.split(";")[0]?.trim() === types;
  if (isNamed(/\.svg$/i, "image/svg+xml") && isWhole && bytes.length <= MAX_SVG && isSvg(text)) return { kind: "svg", text };
  if (isNamed(/\.(md|markdown)$/i, "text/markdown") && text.length <= MAX_MARKDOWN) return { kind: "markdown", text };
  return { kind: "text", text };
}

/** Whether a file is a picture by its name or type, so that it is worth to be read at once. */
export const looksRaster = (name: string, mime: string): boolean => /^image\/(png|jpeg|gif|webp)$/.test(mime) || /\.(png|jpe?g|gif|webp)$/i.test(name);
