import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { SessionStore } from "../core/session.ts";
import { answerDrafts, draftText } from "../core/drafts.ts";
import { count, sessionTitle, who } from "../core/format.ts";
import { failureText, shownState } from "../core/overview.ts";
import type { RequestBatch } from "../core/batch.ts";
import type { RequestRow } from "../core/rows.ts";
import { visible } from "../core/safe.ts";
import { seen } from "../core/seen.ts";
import { titlePage } from "../core/title.ts";
import { str } from "../core/types.ts";
import { permissionText } from "../core/words.ts";
import { samples } from "./agents.tsx";
import { BatchButtons, BatchDialog } from "./batch.tsx";
import { PlanLine } from "./beside.tsx";
import { Icon, Notice, State } from "./bits.tsx";
import { Composer } from "./composer.tsx";
import { Find } from "./find.tsx";
import { SessionContext, useChanges, useShell } from "./hooks.ts";
import { useLive } from "./live.ts";
import { Waiting, partyOf } from "./requests.tsx";
import { SessionMenu } from "./settings.tsx";
import { useSettling } from "./settle.ts";
import { Transcript } from "./transcript.tsx";
import { WireView } from "./wire.tsx";

/** The page of a session, at its end or at an entry. */
export function SessionPage({ id, at }: { id: string; at: number | undefined }): JSX.Element {
  const { api } = useShell();
  const [store, open] = useState<SessionStore | undefined>(undefined);
  useEffect(() => {
    const fresh: SessionStore = new SessionStore(api, id, (seq, at, ms) => samples.turn(fresh.agent, `${id} ${seq}`, at, ms));
    open(fresh);
    return () => fresh.dispose();
  }, [api, id]);
  if (!store || store.id !== id) return <section class="session" aria-label="Session" />;
  return <SessionContext.Provider value={store}><Session key={id} store={store} at={at} /></SessionContext.Provider>;
}

function Session({ store, at }: { store: SessionStore; at: number | undefined }): JSX.Element {
  useChanges(store);
  const [wire, showWire] = useState(() => sessionStorage.getItem("trunkline.wire") === "yes");
  const { fold } = store;
  const waiting = [...fold.pending.values()];
  const { overview } = useLive();
  const known = overview.get(store.id);
  // Until the daemon has answered, the list knows the session best.
  const isAttached = str(store.attached.id) !== "" || store.removed;
  const title = visible(isAttached || known === undefined ? store.title : sessionTitle(known.title, store.id));
  const isRemoved = store.removed;
  // The stream of a session that was removed may end as that of a closed one.
  const wasKnown = useRef(false);
  useEffect(() => {
    if (known === undefined && wasKnown.current) store.refresh().catch(() => undefined);
    wasKnown.current = known !== undefined;
  }, [known === undefined]);
  const stateNow = (): string => {
    if (!isAttached) return known ? shownState(known) : "";
    if (isRemoved) return store.state;
    if (waiting.length > 0) return "asks";
    return store.state !== "running" && known ? shownState({ ...known, state: store.state }) : store.state;
  };
  const state = stateNow();
  const agent = store.agent || known?.agent || "";

  const toggleWire = (): void => {
    sessionStorage.setItem("trunkline.wire", wire ? "no" : "yes");
    showWire(!wire);
  };
  const latest = useRef(toggleWire);
  latest.current = toggleWire;
  useEffect(() => {
    const toggle = (): void => latest.current();
    addEventListener("console:wire", toggle);
    return () => removeEventListener("console:wire", toggle);
  }, []);
  useEffect(() => {
    dispatchEvent(new Event("console:refresh"));
  }, [store.state, title]);
  const isLoaded = fold.last > 0 && !store.catchingUp;
  useEffect(() => {
    if (isLoaded) void (at === undefined ? store.comeBack() : store.show(at));
  }, [isLoaded, at]);
  useEffect(() => {
    if (isLoaded) store.refresh().catch(() => undefined);
  }, [fold.edits]);
  // What was shown is seen.
  const entries = fold.last;
  useEffect(() => {
    if (!document.hidden && !store.catchingUp && str(store.attached.id) !== "") seen.mark(store.id, entries);
  }, [entries, store.catchingUp, store.attached]);
  useEffect(() => {
    titlePage(title);
  }, [title]);

  return (
    <section class={`session ${wire ? "with-wire" : ""}`} aria-label={`Session ${title}`}>
      <header class="bar">
        <a class="back quiet button" href="#/sessions" aria-label="Sessions"><Icon name="back" /></a>
        <div class="name">
          <h1 title={title} tabIndex={-1}>{title}</h1>
          <p class="dim">
            {state !== "" && <State state={state} why={state === "failed" ? visible(failureText(known?.outcome)) : ""} />}
            {agent !== "" && <span>{visible(agent)}</span>}
            {str(store.attached.host) !== "" && <span title="its host">{visible(str(store.attached.host))}</span>}
            {fold.settings.model !== "" && <span>{visible(fold.settings.model)}</span>}
            {fold.settings.mode !== "" && <span>{visible(fold.settings.mode)}</span>}
            {fold.context && fold.context.total > 0 && (
              <span title="Tokens in the context">{count(fold.context.used)} of {count(fold.context.total)}</span>
            )}
            {str(store.attached.cwd) !== "" && <span class="path">{visible(str(store.attached.cwd))}</span>}
          </p>
        </div>
        {!isRemoved && <button type="button" class={`quiet ${wire ? "on" : ""}`} aria-pressed={wire} onClick={toggleWire} title="Wire view (w)" aria-label="Wire view"><Icon name="wire" /></button>}
        {!isRemoved && <SessionMenu store={store} />}
      </header>
      <Connection store={store} />
      <div class="panes">
        <div class="talk">
          <Find store={store} />
          {fold.rows.length === 0 && store.phase !== "failed" && !isRemoved && (
            <div class="bones" aria-hidden="true"><i /><i /><i /></div>
          )}
          {fold.last > 0 && fold.headline === "" && !fold.partial && !store.catchingUp && store.state !== "closed" && !isRemoved && (
            <p class="empty">Nothing was said yet. Write to {visible(store.agent) || "the agent"} below.</p>
          )}
          <Transcript
            rows={store.rows}
            generation={store.generation}
            turned={store.turned}
            jumps={store.jumps}
            goal={store.goal}
            offset={store.goalOffset}
            busy={store.catchingUp || store.loading !== ""}
            detached={store.detached}
            last={fold.last}
            head={<Head store={store} />}
            near={(edge) => (edge === "first" ? store.earlier() : store.later())}
            place={(seq, reader) => {
              store.place = seq;
              store.reader = reader;
            }}
            toEnd={() => store.end()}
          />
          {!isRemoved && <Dock store={store} waiting={waiting} />}
          {store.notice !== "" && (
            <Notice text={store.notice} leftover={store.leftover} close={() => store.say("")} />
          )}
          <p class="progress" aria-live="polite">
            {fold.running !== "" && !isRemoved && <><i class="pulse" aria-hidden="true" />{waiting.length > 0 ? "waits for you" : visible(fold.progress.slice(0, 200)) || "works"}</>}
            {fold.openTurns.length > 1 && <span class="dim"> · {fold.openTurns.length - 1} queued</span>}
          </p>
          {!isRemoved && <PlanLine />}
          <Composer />
        </div>
        {wire && !isRemoved && <WireView />}
      </div>
      <Announce waiting={waiting.length} running={fold.running !== ""} />
    </section>
  );
}

/** Buttons of the dock that lead to a request. */
const MAX_STEPS = 12;

/** The requests that wait for an answer. One that another party decides is closed with its name. */
function Dock({ store, waiting }: { store: SessionStore; waiting: RequestRow[] }): JSX.Element | null {
  const { me } = useShell();
  const box = useRef<HTMLDivElement>(null);
  const before = useRef<RequestRow[]>([]);
  useEffect(() => {
    for (const row of before.current) {
      const { decision } = row;
      if (!decision || waiting.includes(row)) continue;
      const leftover = draftText(answerDrafts.take(store.id, row.request), row);
      if (leftover === "" && (decision.by === "" || store.notice !== "")) continue;
      const own = me?.name ?? "";
      const isOwn = decision.by !== "" && who(decision.by, own) === "you";
      if (isOwn && leftover === "") continue;
      const party = decision.by === "" ? "Nobody" : isOwn ? "You, in another page," : visible(partyOf(decision, own));
      const verb = decision.by === "" || row.kind === "question" ? "answered" : decision.approved === true ? "allowed" : "denied";
      const what = visible(row.kind === "question" ? row.prompt.slice(0, 120) : permissionText(row));
      store.say(`${party} ${verb}: ${what}${leftover === "" ? "" : ". Your text was not used."}`, leftover);
    }
    before.current = waiting;
  });
  useSettling(box, waiting.length > 0);
  const [batch, answer] = useState<RequestBatch>();
  const dialog = batch && <BatchDialog batch={batch} report={(text) => store.say(text)} close={() => answer(undefined)} />;
  if (waiting.length === 0) return dialog ?? null;
  const go = (at: number): void => {
    const card = box.current?.querySelectorAll<HTMLElement>(".waiting")[at];
    card?.scrollIntoView({ block: "start" });
    card?.focus({ preventScroll: true });
  };
  return (
    <>
    <div class="dock" role="region" aria-label="Waiting for an answer" tabIndex={0} ref={box}>
      {waiting.length > 1 && (
        <p class="count">
          <strong>{waiting.length} requests wait</strong>
          {waiting.slice(0, MAX_STEPS).map((row, at) => (
            <button key={row.key} type="button" class="quiet small" aria-label={`Request ${at + 1} of ${waiting.length}`} title={visible(row.kind === "permission" ? permissionText(row) : row.prompt.slice(0, 120))} onClick={() => go(at)}>{at + 1}</button>
          ))}
        </p>
      )}
      <BatchButtons session={store.id} rows={waiting} open={answer} />
      {waiting.map((row) => <Waiting row={row} key={row.key} />)}
    </div>
    {dialog}
    </>
  );
}

/** What is before the first row: more entries, the session's begin, or entries that are no longer kept. */
function Head({ store }: { store: SessionStore }): JSX.Element | null {
  const before = store.first - store.beginning;
  if (store.rows.length === 0) return null;
  const { loading, unread } = store;
  return (
    <p class="earlier">
      {unread !== "" ? (
        <>
          <span role="alert">Entries were not loaded: {visible(unread)}</span>
          <button type="button" class="quiet small" onClick={() => (before > 0 ? store.earlier(true) : store.later(true))}>Try again</button>
        </>
      ) : before > 0 ? (
        <>
          <span role="status">{loading === "" ? `${before.toLocaleString("en")} earlier entries` : `Loading ${before.toLocaleString("en")} earlier entries…`}</span>
          <button type="button" class="quiet small" onClick={() => store.show(store.beginning)}>Beginning</button>
        </>
      ) : store.beginning > 1 ? `Entries before ${store.beginning.toLocaleString("en")} are no longer kept` : "Beginning of the session"}
    </p>
  );
}

function Connection({ store }: { store: SessionStore }): JSX.Element | null {
  const [now, tick] = useState(0);
  // The stream of a closed session ends by itself.
  const waits = store.phase === "waiting" && !store.fold.closed && !store.removed;
  useEffect(() => {
    if (!waits) return;
    const timer = setInterval(() => tick(Date.now()), 250);
    return () => clearInterval(timer);
  }, [waits]);
  if (store.removed) return null;
  if (store.phase === "failed") return <p class="connection bad" role="alert">{visible(store.detail)}</p>;
  if (waits) {
    const seconds = Math.max(0, Math.ceil((store.retryAt - (now || Date.now())) / 1000));
    return <p class="connection" role="status">Connection lost ({visible(store.detail)}); next try in {seconds} s. This page keeps your text and the messages that were not sent; what happens in the session meanwhile is shown then.</p>;
  }
  if (store.catchingUp) return <p class="connection quiet-line" role="status">Reading entries: {store.fold.last.toLocaleString("en")}</p>;
  return null;
}

/** Says what changed to those who hear the page. */
function Announce({ waiting, running }: { waiting: number; running: boolean }): JSX.Element {
  const before = useRef({ waiting: 0, running: false });
  const text = useMemo(() => {
    const was = before.current;
    before.current = { waiting, running };
    if (waiting > was.waiting) return "An answer is needed";
    if (was.running && !running) return "The turn has ended";
    return "";
  }, [waiting, running]);
  return <p class="hidden" role="status">{text}</p>;
}
