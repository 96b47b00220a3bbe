// Bytes from a pipe to lines, in bounded memory ([frame.1] to [frame.7]).
import { isAscii, isUtf8 } from "node:buffer";

/** The longest line that is read, in bytes without its LF. */
export const MAX_LINE = 16 * 1024 * 1024;
const FIRST = 4096;
const LF = 10;

/** Where lines go. */
export interface LineReader {
  /** Gets a line that is UTF-8, without its LF. Others are noise. */
  line(text: string): void;
  /** Gets the first bytes of a line over the limit, which may name its session, and its length in bytes. */
  tooLong(first: Buffer, bytes: number): void;
  /** Gets a line of one character, which is no message. */
  short?(text: string): void;
  /** Called once for such a line, before its end has come. */
  exceeds?(): void;
}

/** Splits at LF and nowhere else, on the bytes; what is cut anywhere gives the same lines. */
export class Lines {
  readonly #reader: LineReader;
  readonly #max: number;
  #parts: Buffer[] = []; // of the line whose end has not come
  #size = 0;
  #first: Buffer | undefined; // of a line that is skipped
  #begun = false;

  constructor(reader: LineReader, max = MAX_LINE) {
    this.#reader = reader;
    this.#max = Math.max(max, 1024 * 1024);
  }

  feed(chunk: Buffer): void {
    let begin = 0;
    if (this.#size > 0) {
      const lf = chunk.indexOf(LF);
      this.#keep(lf < 0 ? chunk : chunk.subarray(0, lf));
      if (lf < 0) return;
      this.#end();
      begin = lf + 1;
    }
    const last = chunk.lastIndexOf(LF);
    if (last >= begin) {
      this.#whole(chunk.subarray(begin, last));
      begin = last + 1;
    }
    if (begin < chunk.length) this.#keep(chunk.subarray(begin));
  }

  /** What stands after the last LF counts if it parses ([frame.7]). */
  finish(): void {
    if (this.#size > 0) this.#end();
  }

  // Lines that are whole, in one piece: decoded at once, since LF is no part of any other character.
  #whole(block: Buffer): void {
    if (block.length <= this.#max) {
      const encoding = isAscii(block) ? "latin1" : isUtf8(block) ? "utf8" : undefined; // the same for ASCII, and sooner done
      if (encoding) {
        for (const text of block.toString(encoding).split("\n")) this.#text(text);
        return;
      }
    }
    for (let begin = 0; begin <= block.length; ) {
      const lf = block.indexOf(LF, begin);
      const end = lf < 0 ? block.length : lf;
      this.#line(block.subarray(begin, end));
      begin = end + 1;
    }
  }

  #keep(piece: Buffer): void {
    this.#size += piece.length;
    if (this.#first === undefined) {
      // A chunk is its stream's to use again: what stays is copied.
      this.#parts.push(Buffer.from(piece));
      if (this.#size > this.#max) {
        this.#first = Buffer.concat(this.#parts, Math.min(FIRST, this.#size));
        this.#parts = [];
        this.#reader.exceeds?.();
      }
    }
  }

  #end(): void {
    const [first, bytes, parts] = [this.#first, this.#size, this.#parts];
    [this.#first, this.#size, this.#parts] = [undefined, 0, []];
    if (first !== undefined) this.#reader.tooLong(first, bytes);
    else this.#line(Buffer.concat(parts));
  }

  #line(line: Buffer): void {
    if (line.length > this.#max) this.#reader.tooLong(line.subarray(0, FIRST), line.length);
    else if (isUtf8(line)) this.#text(line.toString());
    else this.#begun = true;
  }

  #text(text: string): void {
    if (!this.#begun) {
      this.#begun = true;
      if (text.startsWith("\ufeff")) text = text.slice(1);
    }
    if (text.length > 1) this.#reader.line(text);
    else if (text.length > 0) this.#reader.short?.(text);
  }
}
