/** The one stream of changes of a browser. The pages of one token share it: the page that holds a lock reads the
 * stream and passes it on, so that many pages take one of the six connections that a browser has for a daemon. */

import type { Api } from "./api.ts";
import { Problem } from "./api.ts";
import type { KnownSession, SessionOverview } from "./overview.ts";
import { follow, pause } from "./stream.ts";
import type { Obj } from "./types.ts";
import { list as listOf, str } from "./types.ts";

/** Time without a stream after which the list is read, and the interval of reading it. */
const PATIENCE = 1500;
const LOOK_INTERVAL = 3000;
const HIDDEN_LOOK_INTERVAL = 15_000;
/** Interval of reading the list beside a stream, in a cluster: the stream has one host. */
const CLUSTER_INTERVAL = 10_000;
/** Number of sessions whose requests are read at a time without a stream. */
const MAX_SHOWN = 20;

type FeedMessage =
  | { type: "hello" }
  | { type: "leader" }
  | { type: "state"; sessions: KnownSession[]; position: string; isLive: boolean }
  | { type: "changes"; changes: [Obj, string][]; isLive: boolean }
  | { type: "phase"; isLive: boolean };

export class ChangeFeed {
  /** Whether this page reads the stream. */
  isLeader = false;
  /** Why the list was not read; empty if it was, or need not be. */
  fault = "";
  /** Hosts that did not answer the last time that the list was read. */
  missing: string[] = [];
  private position = "";
  private hasState = false;
  /** Whether a page waits for the state. */
  private isAsked = false;
  private life = new AbortController();
  private channel: BroadcastChannel | undefined;
  private wake: (() => void) | undefined;

  /** `scope` differs for each token: pages of different tokens see different sessions. */
  constructor(private api: Api, readonly overview: SessionOverview, scope: string) {
    const name = `trunkline.events.${scope}`;
    const { signal } = this.life;
    // A page that came by plain HTTP from another machine has no locks, and reads a stream of its own.
    if (navigator.locks) {
      this.channel = new BroadcastChannel(name);
      this.channel.onmessage = (event: MessageEvent<FeedMessage>) => this.take(event.data);
      this.send({ type: "hello" });
      navigator.locks.request(name, { signal }, () => this.lead(signal)).catch(() => undefined);
    } else void this.lead(signal);
    document.addEventListener("visibilitychange", this.seen);
    addEventListener("console:refresh", this.seen);
    void this.look(signal);
  }

  dispose(): void {
    document.removeEventListener("visibilitychange", this.seen);
    removeEventListener("console:refresh", this.seen);
    this.life.abort();
    this.channel?.close();
    this.wake?.();
  }

  private seen = (): void => {
    if (!document.hidden) this.wake?.();
  };

  private send(message: FeedMessage): void {
    this.channel?.postMessage(message);
  }

  private take(message: FeedMessage): void {
    if (this.life.signal.aborted) return;
    switch (message.type) {
      case "hello":
        this.isAsked = true;
        return this.answer();
      case "leader":
        if (!this.isLeader && !this.hasState) this.send({ type: "hello" });
        return;
      case "state":
        if (this.isLeader || this.hasState) return;
        this.hasState = true;
        this.position = message.position;
        this.overview.adopt(message.sessions);
        return this.phase(message.isLive);
      case "changes":
        if (this.isLeader || !this.hasState) return;
        for (const [change, position] of message.changes) this.apply(change, position);
        return this.phase(message.isLive);
      case "phase":
        if (!this.isLeader) this.phase(message.isLive && this.hasState);
    }
  }

  /** Sends what is known to the pages that have asked, when the snapshot is complete. */
  private answer(): void {
    if (!this.isAsked || !this.isLeader || !this.hasState || this.overview.isReading) return;
    this.isAsked = false;
    this.send({ type: "state", sessions: this.overview.copy(), position: this.position, isLive: this.overview.isLive });
  }

  private apply(change: Obj, position: string): void {
    this.position = position;
    this.overview.apply(change);
  }

  private phase(isLive: boolean): void {
    if (isLive === this.overview.isLive) return;
    this.overview.isLive = isLive;
    if (isLive) this.fault = "";
    this.overview.changed();
    if (!isLive) this.wake?.();
  }

  /** Reads the stream until the page is closed. */
  private async lead(signal: AbortSignal): Promise<void> {
    this.isLeader = true;
    this.send({ type: "leader" });
    await follow(
      {
        open: (_, attempt) => {
          // Without a position the stream begins with a snapshot.
          if (this.position === "") this.overview.apply({ type: "reset" });
          return this.connect(attempt);
        },
        entries: (lines) => {
          if (signal.aborted) return;
          const changes = lines.map((line): [Obj, string] => [line.entry, line.id ?? ""]);
          for (const [change, position] of changes) this.apply(change, position);
          this.hasState ||= changes.some(([change]) => change.type === "snapshot" && change.complete === true);
          this.phase(this.hasState);
          this.send({ type: "changes", changes, isLive: this.overview.isLive });
          this.answer();
        },
        last: () => 0,
        phase: (phase) => {
          if (signal.aborted) return;
          // A stream that continues has nothing to report until something changes.
          if (phase !== "live") this.phase(false);
          else if (this.position !== "") this.phase(this.hasState);
          this.send({ type: "phase", isLive: this.overview.isLive });
        },
        sleep: pause,
        random: Math.random,
        reset: () => undefined,
      },
      signal,
    );
    // A daemon without the stream, or a token that may not read it: the lock is kept, so that one page finds out.
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  }

  private async connect(signal: AbortSignal): ReturnType<Api["changes"]> {
    try {
      return await this.api.changes(this.position, signal);
    } catch (error) {
      if (error instanceof Problem && error.status > 0) return { status: error.status, detail: error.detail };
      throw error;
    }
  }

  /** Reads the list while there is no stream, and in a cluster beside it. */
  private async look(signal: AbortSignal): Promise<void> {
    await this.wait(PATIENCE);
    while (!signal.aborted) {
      const isCluster = this.isCluster();
      if (!this.overview.isLive || isCluster) {
        try {
          await this.read();
          this.fault = "";
        } catch (error) {
          this.fault = error instanceof Error ? error.message : "not loaded";
        }
        if (signal.aborted) return;
        this.overview.changed();
      }
      const interval = this.overview.isLive ? CLUSTER_INTERVAL : LOOK_INTERVAL;
      await this.wait(document.hidden ? HIDDEN_LOOK_INTERVAL : interval);
    }
  }

  private isCluster(): boolean {
    for (const session of this.overview.all()) if (session.host !== "") return true;
    return false;
  }

  private async read(): Promise<void> {
    const page = await this.api.sessions({ text: "", state: "", agent: "" });
    this.missing = page.missing;
    this.overview.list(page.sessions);
    const asking = page.sessions.filter((each) => each.openRequests > 0 && (!this.overview.isLive || each.host !== ""));
    for (const each of asking.slice(0, MAX_SHOWN)) {
      const shown = await this.api.show(each.id);
      this.overview.requests(each.id, listOf(shown.requests).map(str));
    }
    this.overview.settle();
  }

  private wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
