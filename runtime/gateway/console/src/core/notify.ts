/** Notifications of the browser: of requests, failed turns and ended turns in sessions that no page shows. */

import { sessionTitle } from "./format.ts";
import { itemKey } from "./inbox.ts";
import type { Notice } from "./overview.ts";
import type { KnownSession } from "./overview.ts";
import { visible } from "./safe.ts";
import type { Store } from "./outbox.ts";
import { obj } from "./types.ts";
import { categoryText } from "./words.ts";

/** Number of notifications that are open at a time. Further ones are counted in one. */
export const MAX_OPEN = 8;
/** How long a notification waits for the content of what it is about, in milliseconds. */
const PATIENCE = 800;
const MAX_TITLE = 100;
const MAX_BODY = 200;
const SETTING = "trunkline.notify";

/** What a person wants to be notified of. */
export interface NotifySwitches {
  requests: boolean;
  failed: boolean;
  ended: boolean;
}

export function readSwitches(store: Store | undefined): NotifySwitches {
  try {
    const it = obj(JSON.parse(store?.getItem(SETTING) ?? "{}"));
    return { requests: it.requests !== false, failed: it.failed !== false, ended: it.ended === true };
  } catch {
    return { requests: true, failed: true, ended: false };
  }
}

export function saveSwitches(store: Store | undefined, switches: NotifySwitches): void {
  try {
    store?.setItem(SETTING, JSON.stringify(switches));
  } catch {
    // The store is full: they hold until the page is closed.
  }
}

/** The browser, as far as notifications need it. */
export interface NotifyPort {
  switches(): NotifySwitches;
  /** Whether a page in sight shows the session, or the requests of all sessions. */
  isShown(session: string, isRequest: boolean): Promise<boolean>;
  /** The content of a request or of a failure, in few words. */
  describe(notice: Notice): Promise<string>;
  isOpen(session: string, request: string): boolean;
  /** Shows a notification; a click leads to `hash`. Nothing if the browser refuses it. */
  show(title: string, body: string, tag: string, hash: string): { close(): void } | undefined;
}

const line = (text: string, most: number): string => {
  const shown = visible(text.replace(/\s+/g, " ").trim());
  return shown.length > most ? `${shown.slice(0, most - 1)}…` : shown;
};

export class Notifier {
  private shown = new Map<string, { close(): void }>();
  /** Requests that no notification has room for. */
  private more = new Set<string>();

  constructor(private port: NotifyPort) {}

  async take(notice: Notice): Promise<void> {
    if (notice.kind === "answered" || notice.kind === "gone") return this.close(itemKey(notice.session.id, notice.request.id));
    const switches = this.port.switches();
    if (notice.kind === "opened") {
      if (switches.requests) await this.request(notice);
      return;
    }
    const { status, category } = notice.outcome;
    // A person who stopped a turn knows that.
    if (status === "stopped" || !(status === "failed" ? switches.failed : switches.ended)) return;
    const { session } = notice;
    if (await this.port.isShown(session.id, false)) return;
    const why = status === "failed" ? (await this.describe(notice)) || categoryText(category) : "";
    const what = status === "failed" ? "failed" : status === "completed" ? "has ended" : `has ended (${status})`;
    this.show(`turn ${encodeURIComponent(session.id)}`, session, why === "" ? what : `${what}: ${why}`, `#/sessions/${encodeURIComponent(session.id)}`);
  }

  private async request(notice: Notice & { kind: "opened" }): Promise<void> {
    const { session, request } = notice;
    if (await this.port.isShown(session.id, true)) return;
    const what = await this.describe(notice);
    // It was decided while its content was read.
    if (!this.port.isOpen(session.id, request.id)) return;
    const key = itemKey(session.id, request.id);
    this.show(key, session, what === "" ? "needs an answer" : `needs an answer: ${what}`, `#/inbox/${key}`);
  }

  private describe(notice: Notice): Promise<string> {
    const late = new Promise<string>((resolve) => setTimeout(() => resolve(""), PATIENCE));
    return Promise.race([this.port.describe(notice).catch(() => ""), late]);
  }

  private show(key: string, session: KnownSession, body: string, hash: string): void {
    if (this.shown.size >= MAX_OPEN && !this.shown.has(key)) {
      this.more.add(key);
      return this.count();
    }
    this.put(key, this.port.show(line(sessionTitle(session.title, session.id), MAX_TITLE), line(body, MAX_BODY), key, hash));
  }

  /** One notification counts those that have no room. */
  private count(): void {
    const before = this.shown.get("more");
    if (this.more.size === 0) {
      before?.close();
      this.shown.delete("more");
    } else this.put("more", this.port.show("trunkline", `${this.more.size} more in the inbox`, "more", "#/inbox"));
  }

  private put(key: string, shown: { close(): void } | undefined): void {
    if (shown) this.shown.set(key, shown);
  }

  private close(key: string): void {
    this.shown.get(key)?.close();
    this.shown.delete(key);
    if (this.more.delete(key)) this.count();
  }

  /** Forgets a notification that the person closed. */
  forget(key: string): void {
    this.shown.delete(key);
  }
}
