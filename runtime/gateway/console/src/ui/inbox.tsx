import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RequestBatch } from "../core/batch.ts";
import { ago, sessionTitle } from "../core/format.ts";
import { MAX_SHOWN, inboxItems, itemKey, requestSummary } from "../core/inbox.ts";
import type { DecidedItem, RequestCard, WaitingItem } from "../core/inbox.ts";
import { failureText } from "../core/overview.ts";
import type { KnownSession } from "../core/overview.ts";
import type { RequestRow } from "../core/rows.ts";
import { visible } from "../core/safe.ts";
import { seen } from "../core/seen.ts";
import { titlePage } from "../core/title.ts";
import { BatchButtons, BatchDialog } from "./batch.tsx";
import { Fault, Notice, State } from "./bits.tsx";
import { RequestContext, sessionHref, useShell } from "./hooks.ts";
import { press } from "./keys.tsx";
import { useLive } from "./live.ts";
import { NotifyChoice } from "./notify.tsx";
import { Waiting, decisionText } from "./requests.tsx";
import { filterOf, usePages } from "./sessions.tsx";
import { useSettling } from "./settle.ts";

/** The part of an item that takes the focus: a request's card, so that its keys answer this one, or else the item. */
const target = (item: Element): HTMLElement => item.querySelector<HTMLElement>("[data-request]") ?? (item as HTMLElement);

function focusItem(item: Element | undefined): void {
  if (!item) return;
  target(item).focus({ preventScroll: true });
  item.scrollIntoView({ block: "nearest" });
}

const itemsOf = (root: ParentNode | null): Element[] => [...(root?.querySelectorAll(".inbox [data-item]") ?? [])];
const itemAt = (): Element | undefined => document.activeElement?.closest("[data-item]") ?? undefined;

/** Moves the focus to the next item, or the previous one. */
export function stepInbox(by: number): void {
  const items = itemsOf(document);
  const at = items.indexOf(itemAt() as Element);
  focusItem(items[at < 0 ? 0 : Math.max(0, Math.min(items.length - 1, at + by))]);
}

/** Answers the request that has the focus by a key. Without one, the first item gets the focus. */
export function answerInbox(key: string): void {
  const item = itemAt();
  if (item) press(key, item);
  else stepInbox(1);
}

/** Marks the item that has the focus as done. */
export function markDone(): void {
  itemAt()?.querySelector<HTMLElement>("[data-done]")?.click();
}

/** Everything that waits for a person, over all sessions. `chosen` is the item to begin with, by its key. */
export function Inbox({ chosen }: { chosen: string }): JSX.Element {
  const { me } = useShell();
  const { overview, outcomes, cards, feed } = useLive();
  const root = useRef<HTMLElement>(null);
  const { waiting, failed, ended, unknown } = inboxItems(overview, (session) => seen.unread(session));
  useEffect(() => titlePage("Inbox"), []);
  // The sessions that were active last: only they can have news that no event reported.
  const pages = usePages(filterOf("", ""));
  useEffect(() => {
    if (pages.next === undefined) void pages.more().then(() => seen.learn(pages.rows()));
  }, [pages]);
  useEffect(() => {
    for (const session of [...unknown, ...failed.slice(0, MAX_SHOWN)]) outcomes?.want(session);
  });

  // The item that has the focus, and its place: when it is answered, the next one gets the focus.
  const focused = useRef<{ key: string; at: number } | undefined>(undefined);
  const goal = useRef(chosen);
  useEffect(() => {
    goal.current = chosen;
  }, [chosen]);
  useLayoutEffect(() => {
    const items = itemsOf(document);
    const wanted = items.find((item) => (item as HTMLElement).dataset.item === goal.current);
    if (goal.current !== "" && wanted?.querySelector("[data-request]")) {
      goal.current = "";
      return focusItem(wanted);
    }
    const { current } = focused;
    if (!current) return;
    const active = document.activeElement;
    const same = items.find((item) => (item as HTMLElement).dataset.item === current.key);
    if (same) {
      // The card of an item came after the item had the focus.
      if (active === same && target(same) !== same) focusItem(same);
    } else if (active === document.body || active === null) {
      if (items.length > 0) focusItem(items[Math.min(current.at, items.length - 1)]);
      else root.current?.focus();
    }
  });
  useSettling(root, true);
  const enter = (event: FocusEvent): void => {
    const item = (event.target as Element).closest<HTMLElement>("[data-item]");
    if (!item) return;
    const key = item.dataset.item ?? "";
    // A key answers no request that came into focus a moment ago: the one before it was meant.
    if (focused.current?.key !== key) item.querySelectorAll<HTMLElement>("[data-shown]").forEach((card) => (card.dataset.shown = String(Math.round(performance.now()))));
    focused.current = { key, at: itemsOf(document).indexOf(item) };
  };
  const pressed = (event: KeyboardEvent): void => {
    const item = itemAt();
    if (event.key !== "Enter" || !item || event.target !== target(item) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const link = item.querySelector<HTMLAnchorElement>("a.title");
    link?.click();
  };

  const done = (session: KnownSession): void => {
    seen.mark(session.id, session.entries);
    overview.changed();
  };
  const [batch, answer] = useState<RequestBatch>();
  const shown = waiting.slice(0, MAX_SHOWN);
  // The requests of a session that are shown, at the first one of them.
  const together = new Map<string, { first: string; rows: RequestRow[] }>();
  for (const { key, session, request } of shown) {
    const row = cards?.get(session, request).row;
    const found = together.get(session.id) ?? { first: key, rows: [] };
    together.set(session.id, { ...found, rows: row ? [...found.rows, row] : found.rows });
  }
  const now = Date.now();
  const isEmpty = waiting.length + failed.length + ended.length === 0;
  return (
    <main class="page inbox" aria-label="Inbox" tabIndex={-1} ref={root} onFocusIn={enter} onKeyDown={pressed}>
      <header>
        <h1>Inbox</h1>
        <NotifyChoice />
      </header>
      <Fault text={feed?.fault ?? ""} />
      {cards !== undefined && cards.notice !== "" && (
        <Notice text={visible(cards.notice)} leftover={cards.leftover} close={() => cards.say("")} />
      )}
      <p class="hidden" role="status">{waiting.length === 0 ? "Nothing waits for an answer" : `${waiting.length} ${waiting.length === 1 ? "request waits" : "requests wait"} for an answer`}</p>
      {isEmpty && unknown.length === 0 && (
        <p class="empty">{overview.snapshots > 0 || overview.isLive ? "Nothing waits for you." : "Reading …"}</p>
      )}
      <Group title="Needs an answer" count={waiting.length}>
        {shown.map((item) => (
          <Item key={item.key} item={item} card={cards?.get(item.session, item.request)} now={now}>
            {together.get(item.session.id)?.first === item.key && <BatchButtons session={item.session.id} rows={together.get(item.session.id)?.rows ?? []} open={answer} />}
          </Item>
        ))}
      </Group>
      <Group title="Failed" count={failed.length} all={() => failed.forEach(done)}>
        {failed.slice(0, MAX_SHOWN).map((session) => <News key={session.id} session={session} now={now} done={() => done(session)} />)}
      </Group>
      <Group title="Ended since you looked" count={ended.length} all={() => ended.forEach(done)}>
        {ended.slice(0, MAX_SHOWN).map((session) => <News key={session.id} session={session} now={now} done={() => done(session)} />)}
      </Group>
      {cards !== undefined && cards.decided.length > 0 && (
        <section class="decided" aria-label="Decided">
          <h2>Decided</h2>
          <ul>{cards.decided.map((item) => <Decided key={item.key} item={item} own={me?.name ?? ""} />)}</ul>
        </section>
      )}
      {batch && cards && <BatchDialog batch={batch} report={(text) => cards.say(text)} close={() => answer(undefined)} />}
    </main>
  );
}

function Group(props: { title: string; count: number; all?: () => void; children: ComponentChildren }): JSX.Element | null {
  const { title, count, all } = props;
  if (count === 0) return null;
  return (
    <section aria-label={title}>
      <h2>
        {title} <span class="dim">{count}</span>
        {all && count > 1 && <button type="button" class="quiet small" onClick={all}>Mark all as done</button>}
      </h2>
      <ul>{props.children}</ul>
      {count > MAX_SHOWN && <p class="dim">{count - MAX_SHOWN} more follow when these are done.</p>}
    </section>
  );
}

/** Title, agent and age of an item's session. */
function Head({ session, time, now, children }: { session: KnownSession; time: string; now: number; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="head">
      <a class="title" href={sessionHref(session.id)}>{visible(sessionTitle(session.title, session.id))}</a>
      <span class="dim">{visible(session.agent)}</span>
      {session.host !== "" && <span class="dim" title="its host">{visible(session.host)}</span>}
      <time class="dim" title={visible(time)}>{ago(time, now)}</time>
      {children}
    </div>
  );
}

export function Item({ item, card, now, children }: { item: WaitingItem; card: RequestCard | undefined; now: number; children?: ComponentChildren }): JSX.Element {
  const { session, request } = item;
  return (
    <li data-item={item.key} tabIndex={-1} aria-label={visible(sessionTitle(session.title, session.id))}>
      <Head session={session} time={request.since} now={now} />
      {children}
      {card?.row ? (
        <RequestContext.Provider value={card}><Waiting row={card.row} /></RequestContext.Provider>
      ) : card && card.fault !== "" ? (
        <p class="fault" role="alert">{visible(card.fault)} <button type="button" class="quiet small" onClick={() => card.again()}>Try again</button></p>
      ) : (
        <p class="dim">{request.kind === "question" ? "Reading the question …" : "Reading the request …"}</p>
      )}
    </li>
  );
}

export function News({ session, now, done }: { session: KnownSession; now: number; done: () => void }): JSX.Element {
  const status = session.outcome?.status ?? "";
  const why = failureText(session.outcome);
  return (
    <li data-item={itemKey(session.id, "")} tabIndex={-1} aria-label={visible(sessionTitle(session.title, session.id))}>
      <Head session={session} time={session.active} now={now}>
        {status === "failed" ? <State state="failed" /> : <span class="dim">{visible(status)}</span>}
        <button type="button" class="quiet small" data-done title="Mark as done (e)" onClick={done}>Done</button>
      </Head>
      {why !== "" && <p class="why">{visible(why)}</p>}
    </li>
  );
}

export function Decided({ item, own }: { item: DecidedItem; own: string }): JSX.Element {
  const { session, row, decision } = item;
  return (
    <li>
      <a class="title" href={sessionHref(session.id)}>{visible(sessionTitle(session.title, session.id))}</a>{" "}
      {row && <span class="what">{visible(requestSummary(row))}</span>}{" "}
      <span class="dim">{row ? decisionText(decision, row, own) : "decided"}</span>
    </li>
  );
}

/** How many requests wait, beside the name of the view. */
export function WaitingCount(): JSX.Element | null {
  const { waitingCount } = useLive().overview;
  return waitingCount === 0 ? null : <span class="count" aria-label={`${waitingCount} waiting`}>{waitingCount > 999 ? "999+" : waitingCount}</span>;
}

/** The page of an address that names no view. */
export function UnknownView(): JSX.Element {
  useEffect(() => titlePage("Not found"), []);
  return (
    <main class="page" aria-label="Not found" tabIndex={-1}>
      <h1>There is no such view</h1>
      <p class="dim">The address names none of this console's views. Go to <a href="#/sessions">the sessions</a> or <a href="#/inbox">the inbox</a>.</p>
    </main>
  );
}
