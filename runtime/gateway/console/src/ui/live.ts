/** The overview of all sessions for the views, which the shell keeps current. */

import { createContext } from "preact";
import { useContext, useEffect, useReducer, useRef, useState } from "preact/hooks";
import type { Api } from "../core/api.ts";
import { OutcomeReader } from "../core/entries.ts";
import { ChangeFeed } from "../core/feed.ts";
import { RequestCards } from "../core/inbox.ts";
import { Notifier } from "../core/notify.ts";
import { SessionOverview } from "../core/overview.ts";
import { titleWaiting } from "../core/title.ts";
import type { Me } from "../core/types.ts";
import { seen } from "../core/seen.ts";
import { browserPort } from "./notify.tsx";

export interface Live {
  overview: SessionOverview;
  outcomes: OutcomeReader | undefined;
  cards: RequestCards | undefined;
  feed: ChangeFeed | undefined;
}

export const LiveContext = createContext<Live>({ overview: new SessionOverview(), outcomes: undefined, cards: undefined, feed: undefined });

/** Keeps an overview while the page is open. */
export function useFeed(api: Api, me: Me | undefined): Live {
  const [live, set] = useState<Live>(() => fresh(api));
  const first = useRef(api);
  const name = me?.name;
  useEffect(() => {
    if (name === undefined) return undefined;
    // What was read before the token was known stays: the list is read once.
    const next = live.feed === undefined && first.current === api ? live : fresh(api);
    const feed = new ChangeFeed(api, next.overview, name);
    if (next.cards) next.cards.own = name;
    set({ ...next, feed });
    const notifier = new Notifier(browserPort(api, next.overview, name));
    // Of all pages of a browser, the one that reads the stream notifies.
    const unwatch = next.overview.watch((notice) => {
      seen.keep(notice.session);
      if (feed.isLeader) void notifier.take(notice);
    });
    // The title counts at once, also in a hidden page.
    const stop = next.overview.subscribe(() => titleWaiting(next.overview.waitingCount));
    return () => {
      stop();
      unwatch();
      next.cards?.dispose();
      feed.dispose();
      titleWaiting(0);
    };
  }, [api, name]);
  return live;
}

function fresh(api: Api): Live {
  const overview = new SessionOverview();
  return { overview, outcomes: new OutcomeReader(api, overview), cards: new RequestCards(api, overview), feed: undefined };
}

/** Draws again, once a frame, when the overview has changed. */
export function useLive(): Live {
  const live = useContext(LiveContext);
  const [, again] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    let isScheduled = false;
    const draw = (): void => {
      isScheduled = false;
      again(undefined as never);
    };
    const stop = live.overview.subscribe(() => {
      if (isScheduled) return;
      isScheduled = true;
      if (document.hidden) setTimeout(draw);
      else requestAnimationFrame(draw);
    });
    draw();
    return stop;
  }, [live]);
  return live;
}
