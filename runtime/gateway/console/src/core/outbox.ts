/** Inputs that were sent and that the journal does not show yet. They outlive a reload, and go again under their id. */

import { Problem } from "./api.ts";
import type { Given, GivenFile } from "./api.ts";
import { freshId } from "./id.ts";
import { backoff } from "./stream.ts";
import { list, num, obj, str } from "./types.ts";

export interface Sent {
  id: string;
  content: string;
  files: GivenFile[];
  steer: string;
  state: "sending" | "sent" | "failed";
  detail: string;
  /** The number of its entry, as the daemon answered. */
  seq?: number;
}

/** What an outbox needs of the daemon. */
export interface Sender {
  input(id: string, message: string, body: Given, signal: AbortSignal): Promise<unknown>;
}

export interface Store {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

const MOST = 32;
/** Timeout of one try, in milliseconds. */
const TRY_MS = 30_000;

export class Outbox {
  sent: Sent[] = [];
  /** The files that this page has sent, by their SHA-256. */
  names = new Map<string, GivenFile>();
  private key: string;
  private busy = false;
  /** Number of tries without an answer, one behind the other. */
  private tries = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private disposed = false;

  constructor(
    private api: Sender,
    private session: string,
    private changed: () => void,
    private store: Store | undefined = globalThis.sessionStorage,
  ) {
    this.key = `trunkline.outbox.${session}`;
    try {
      for (const each of list(JSON.parse(this.store?.getItem(this.key) ?? "[]")).map(obj)) {
        const state = each.state === "failed" ? "failed" : "sending";
        const files = list(each.files).map(obj).map((file): GivenFile => ({
          sha256: str(file.sha256),
          name: str(file.name),
          ...(str(file.mime_type) !== "" ? { mime_type: str(file.mime_type) } : {}),
        }));
        if (str(each.id) === "") continue;
        this.sent.push({
          id: str(each.id), content: str(each.content), files, steer: str(each.steer), state, detail: str(each.detail),
        });
      }
    } catch {
      // What cannot be read is not sent.
    }
  }

  get full(): boolean {
    return this.sent.length >= MOST;
  }

  add(content: string, files: GivenFile[], steer: string): void {
    if (this.full) return;
    this.sent.push({ id: freshId(), content, files, steer, state: "sending", detail: "" });
    for (const file of files) this.names.set(file.sha256, file);
    this.save();
    void this.flush();
  }

  /** Sends again what no answer came for, without waiting for the next try. */
  again(): void {
    this.tries = 0;
    void this.flush();
  }

  /** Whether inputs wait for an answer to the first one, which did not come. */
  get stalled(): boolean {
    return this.tries > 0;
  }

  dispose(): void {
    this.disposed = true;
    clearTimeout(this.timer);
  }

  retry(id: string): void {
    for (const each of this.sent) {
      if (each.id === id) Object.assign(each, { state: "sending", detail: "" });
    }
    this.save();
    void this.flush();
  }

  drop(id: string): void {
    this.sent = this.sent.filter((each) => each.id !== id);
    this.save();
    this.again();
  }

  /** Drops the inputs that the page has read from the journal: by their ids, and those of entries up to a number. */
  taken(ids: Set<string>, last: number): void {
    const left = this.sent.filter((each) => !ids.has(each.id) && !(each.seq !== undefined && each.seq <= last));
    if (left.length === this.sent.length) return;
    this.sent = left;
    this.save();
  }

  /** One at a time, so that the order stays. */
  private async flush(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    clearTimeout(this.timer);
    try {
      for (let next = this.next(); next; next = this.next()) {
        try {
          const answer = await this.api.input(this.session, next.id, {
            content: next.content,
            ...(next.files.length > 0 ? { files: next.files } : {}),
            ...(next.steer !== "" ? { steer: next.steer } : {}),
          }, AbortSignal.timeout(TRY_MS));
          this.tries = 0;
          next.detail = "";
          next.state = "sent";
          const seq = num(obj(answer).seq);
          if (seq !== undefined) next.seq = seq;
        } catch (error) {
          // Whether it arrived is not known: it goes again under the same id.
          if (!(error instanceof Problem) || error.status === 0 || error.status >= 500) {
            next.detail = `waits for the daemon${error instanceof Problem && error.status > 0 ? `: ${error.detail}` : ""}`;
            const wait = backoff(this.tries, Math.random());
            this.tries += 1;
            if (!this.disposed) this.timer = setTimeout(() => void this.flush(), wait);
            return;
          }
          this.tries = 0;
          next.state = "failed";
          next.detail = error.detail;
        }
        this.save();
      }
    } finally {
      this.busy = false;
      this.save();
    }
  }

  private next(): Sent | undefined {
    return this.sent.find((each) => each.state === "sending");
  }

  private save(): void {
    try {
      if (this.sent.length === 0) this.store?.removeItem(this.key);
      else this.store?.setItem(this.key, JSON.stringify(this.sent));
    } catch {
      // The store is full: what waits is kept in the page alone.
    }
    this.changed();
  }
}
