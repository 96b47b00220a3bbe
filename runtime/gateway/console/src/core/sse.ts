/** Server-Sent Events out of bytes, however they are split. */

export interface SseEvent {
  id: string;
  event: string;
  data: string;
}

/** What one event may take. One that is longer is skipped and counted, so that memory stays bounded. */
export const MAX_EVENT = 64 * 1024 * 1024;

export class SseParser {
  /** Events that were longer than the limit. */
  skipped = 0;
  private decoder = new TextDecoder("utf-8");
  private pieces: string[] = [];
  private size = 0;
  private tooLong = false;
  private afterCr = false;
  private id = "";
  private event = "";
  private data: string[] = [];
  private dataSize = 0;

  constructor(private limit = MAX_EVENT) {}

  /** Takes bytes, and gives the events that they complete. */
  push(bytes: Uint8Array): SseEvent[] {
    const found: SseEvent[] = [];
    const text = this.decoder.decode(bytes, { stream: true });
    let start = 0;
    for (let at = 0; at < text.length; ) {
      // A line ends with LF, CR, or both; the LF of a pair may come in the next chunk.
      if (this.afterCr && text.charCodeAt(at) === 10) {
        this.afterCr = false;
        start = ++at;
        continue;
      }
      this.afterCr = false;
      const end = lineEnd(text, at);
      if (end < 0) break;
      this.keep(text.slice(start, end));
      this.line(found);
      this.afterCr = text.charCodeAt(end) === 13;
      start = at = end + 1;
    }
    if (start < text.length) this.keep(text.slice(start));
    return found;
  }

  private keep(piece: string): void {
    this.size += piece.length;
    if (this.size + this.dataSize > this.limit) {
      this.tooLong = true;
      this.pieces = [];
      this.data = [];
    } else if (piece !== "") {
      this.pieces.push(piece);
    }
  }

  private line(found: SseEvent[]): void {
    const empty = this.size === 0;
    const line = this.pieces.join("");
    this.pieces = [];
    this.size = 0;
    if (empty) {
      if (this.tooLong) this.skipped += 1;
      else if (this.data.length > 0) {
        found.push({ id: this.id, event: this.event || "message", data: this.data.join("\n") });
      }
      this.tooLong = false;
      this.event = "";
      this.data = [];
      this.dataSize = 0;
      return;
    }
    if (this.tooLong || line.startsWith(":")) return;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "data") {
      this.data.push(value);
      this.dataSize += value.length;
    } else if (field === "event") this.event = value;
    else if (field === "id" && !value.includes("\0")) this.id = value;
  }
}

const ENDS = /[\r\n]/g;

function lineEnd(text: string, from: number): number {
  ENDS.lastIndex = from;
  return ENDS.exec(text)?.index ?? -1;
}
