/** The sessions that a person keeps at the top of the list. This browser keeps them, for all of its pages. */

import { list, str } from "./types.ts";
import type { Store } from "./outbox.ts";

const KEY = "trunkline.pins";
export const MAX_PINS = 50;
const MAX_ID = 300;

export class PinnedSessions {
  private ids: string[] = [];
  private listeners = new Set<() => void>();

  constructor(private store: Store | undefined) {
    this.load();
  }

  /** Reads what another page of this browser may have written. */
  load(): void {
    try {
      const found = list(JSON.parse(this.store?.getItem(KEY) ?? "[]")).map(str);
      this.ids = [...new Set(found)].filter((id) => id !== "" && id.length <= MAX_ID).slice(0, MAX_PINS);
    } catch {
      // What cannot be read pins nothing.
    }
    for (const listener of this.listeners) listener();
  }

  /** The ids, the first pinned one first. */
  all(): readonly string[] {
    return this.ids;
  }

  has(id: string): boolean {
    return this.ids.includes(id);
  }

  /** Pins a session, or unpins it. Returns a text of what was done. */
  toggle(id: string): string {
    this.load();
    const isPinned = this.has(id);
    if (!isPinned && this.ids.length >= MAX_PINS) return `Not pinned: ${MAX_PINS} sessions are pinned`;
    this.ids = isPinned ? this.ids.filter((each) => each !== id) : [...this.ids, id];
    try {
      this.store?.setItem(KEY, JSON.stringify(this.ids));
    } catch {
      // The store is full: the pin holds while the page is open.
    }
    for (const listener of this.listeners) listener();
    return isPinned ? "Unpinned" : "Pinned";
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export const pins = new PinnedSessions(globalThis.localStorage);
globalThis.addEventListener?.("storage", (event) => {
  if (event.key === KEY || event.key === null) pins.load();
});
