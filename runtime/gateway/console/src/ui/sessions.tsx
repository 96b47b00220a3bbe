import type { ComponentChildren, JSX } from "preact";
import { Component } from "preact";
import { useContext, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { Filter } from "../core/api.ts";
import { ago, sessionTitle } from "../core/format.ts";
import { GROUPINGS, groupSessions } from "../core/groups.ts";
import type { Grouping, SessionGroup } from "../core/groups.ts";
import { agentHealth } from "../core/health.ts";
import { failureText, shownState } from "../core/overview.ts";
import type { KnownSession } from "../core/overview.ts";
import { SessionPages, fits } from "../core/pages.ts";
import { pins } from "../core/pins.ts";
import { visible } from "../core/safe.ts";
import { searchWords } from "../core/search.ts";
import { seen } from "../core/seen.ts";
import { titlePage } from "../core/title.ts";
import { list, listed, num, str } from "../core/types.ts";
import type { Obj } from "../core/types.ts";
import { Fault, Icon, State } from "./bits.tsx";
import { focusWhenDrawn } from "./focus.ts";
import { sessionHref, useChanges, useShell } from "./hooks.ts";
import { LiveContext, useLive } from "./live.ts";

const STATES = ["", "running", "idle", "detached", "closed", "archived"];
const LABELS = ["any state", "running", "idle", "asleep", "closed", "archived"];
const GROUPING = "trunkline.grouping";
const GROUPING_LABELS: { [by in Grouping]: string } = { day: "by day", agent: "by agent", folder: "by folder", none: "no groups" };
/** Sessions up to which groups of agents and folders fill by themselves. A person loads the others. */
const MIN_GROUPED = 100;

/** Reads the filter of the list: `agent:NAME` in the search is the agent's id. */
export function filterOf(text: string, state: string): Filter {
  const { words, agent } = searchWords(text);
  const isArchived = state === "archived";
  return { text: words, agent, state: isArchived ? "" : state, archived: isArchived };
}

/** The pages of a filter. Those of another filter end. */
export function usePages(filter: Filter): SessionPages {
  const { api } = useShell();
  const { overview } = useContext(LiveContext);
  const [, again] = useReducer((count: number) => count + 1, 0);
  const key = JSON.stringify(filter);
  const kept = useRef<{ key: string; overview: unknown; pages: SessionPages }>(undefined);
  if (kept.current?.key !== key || kept.current.overview !== overview) {
    kept.current?.pages.dispose();
    kept.current = { key, overview, pages: new SessionPages(api, overview, filter, () => again(undefined as never)) };
  }
  useEffect(() => () => kept.current?.pages.dispose(), []);
  return kept.current.pages;
}

/** The grouping that this browser remembers. */
function useGrouping(): [Grouping, (by: string) => void] {
  const [by, set] = useState<Grouping>(() => GROUPINGS.find((each) => each === localStorage.getItem(GROUPING)) ?? "day");
  return [by, (name) => {
    set(GROUPINGS.find((each) => each === name) ?? "day");
    localStorage.setItem(GROUPING, name);
  }];
}

/** Number of sessions that are read one by one. */
const MAX_READ = 50;

/** Reads sessions of which the list lacks something, each once for a connection to the stream. */
function useMissing(ids: string[]): void {
  const { api } = useShell();
  const { overview } = useContext(LiveContext);
  const asked = useRef(new Set<string>());
  useEffect(() => asked.current.clear(), [overview, overview.snapshots, overview.isLive]);
  useEffect(() => {
    if (!overview.isSettled || overview.isReading) return;
    for (const id of ids.slice(0, MAX_READ)) {
      if (asked.current.has(id)) continue;
      asked.current.add(id);
      api.show(id).then((found) => {
        const { created, active, entries } = { created: "", active: "", entries: num(found.last_seq) ?? 0, ...overview.get(id) };
        overview.list([{ ...listed(found), id, created, active, entries }]);
      }, () => undefined);
    }
  });
}

/** Pins the session whose row has the focus, or else the one that is shown, or unpins it. */
export function togglePin(current: string): void {
  const row = document.activeElement?.closest<HTMLElement>(".list [data-row] a");
  const id = row ? decodeURIComponent(row.getAttribute("href")?.split("/")[2] ?? "") : current;
  if (id === "") return;
  dispatchEvent(new CustomEvent("console:pinned", { detail: [pins.toggle(id), id] }));
  // Its row is drawn in another group.
  if (row) focusWhenDrawn(`.list li a[href="${sessionHref(id)}"]`);
}

/** The list at the side: pages of the daemon's list, kept current by the stream of changes. */
export function Sessions({ current, query, folders, create }: { current: string; query: string; folders: Obj; create: () => void }): JSX.Element {
  const { me } = useShell();
  const { overview, outcomes, feed } = useLive();
  const [text, search] = useState(query);
  const [state, only] = useState("");
  const [by, groupBy] = useGrouping();
  const filter = filterOf(text, state);
  const pages = usePages(filter);
  const rows = pages.rows();
  useChanges(pins);
  const pinned = pins.all().map((id) => overview.get(id)).filter((session) => session !== undefined && fits(session, filter)) as KnownSession[];
  // The first folder of an agent is the one of its sessions that name none; another host may have another one.
  const folderOf = ({ agent, host }: KnownSession): string => (host === "" && Object.hasOwn(folders, agent) ? str(list(folders[agent])[0]) : "");
  const groups = groupSessions(rows, { by, pinned, isComplete: pages.next === "" && pages.missing.size === 0, now: new Date(), folderOf });
  // No page had a pinned session that is old, and no event has the folder of a new one.
  useMissing([...pins.all().filter((id) => overview.get(id) === undefined), ...(by === "folder" ? rows.filter((row) => row.cwd === "" && row.bytes === 0).map((row) => row.id) : [])]);
  // A link to a search, such as those of the agents.
  useEffect(() => {
    if (query === "") return;
    search(query);
    only("");
  }, [query]);
  useMemo(() => seen.learn(rows), [pages, pages.requests]);

  // The first page, and a further one while the end of the list is in sight.
  const end = useRef<HTMLDivElement>(null);
  const isInSight = useRef(false);
  // Rows of a later page may belong to any agent or folder, so the end of the list stays in sight: a person loads them.
  const waits = (by === "agent" || by === "folder") && rows.length >= MIN_GROUPED;
  const goOn = (): void => {
    if (pages.next === undefined || (isInSight.current && !waits)) void pages.more();
  };
  useEffect(() => {
    const timer = setTimeout(goOn, pages.next === undefined && text !== "" ? 120 : 0);
    return () => clearTimeout(timer);
  }, [pages, pages.requests]);
  useEffect(() => {
    // What was in sight before these rows came says nothing of where the end is now.
    isInSight.current = false;
    const observer = new IntersectionObserver((found) => {
      isInSight.current = found[found.length - 1]?.isIntersecting === true;
      goOn();
    });
    if (end.current) observer.observe(end.current);
    return () => observer.disconnect();
  }, [pages, pages.requests, pages.next === "", waits]);
  // A page that did not come is tried again when something has changed, or with the next look.
  const { snapshots } = overview;
  useEffect(() => {
    if (snapshots > 1) void pages.refresh();
  }, [snapshots]);
  useEffect(() => {
    if (pages.fault === "") return undefined;
    const timer = setTimeout(goOn, 3000);
    return () => clearTimeout(timer);
  }, [pages.fault, pages.isLoading]);

  // The outcome of a row that is in sight is read when it is not known.
  const sight = useRef<IntersectionObserver>(undefined);
  const ids = useRef(new WeakMap<Element, string>());
  const inSight = useRef(new Set<string>());
  useLayoutEffect(() => () => sight.current?.disconnect(), []);
  const observe = (row: Element | null, id: string): void => {
    sight.current ??= new IntersectionObserver((found) => {
      for (const each of found) {
        const shown = ids.current.get(each.target) ?? "";
        if (each.isIntersecting) inSight.current.add(shown);
        else inSight.current.delete(shown);
      }
      look.current();
    });
    if (!row) return;
    ids.current.set(row, id);
    sight.current.observe(row);
  };
  const look = useRef((): void => undefined);
  look.current = () => {
    for (const id of inSight.current) {
      const session = overview.get(id);
      if (session) outcomes?.want(session);
    }
  };
  useEffect(() => look.current());

  // Ages and days change without an event, too.
  const [now, tick] = useReducer(() => Date.now(), Date.now());
  useEffect(() => {
    const timer = setInterval(() => tick(undefined as never), 60_000);
    return () => clearInterval(timer);
  }, []);
  const [told, announce] = useState("");
  useEffect(() => {
    const toggled = (event: Event): void => {
      const [what, id] = (event as CustomEvent<[string, string]>).detail;
      announce(`${what}: ${visible(sessionTitle(overview.get(id)?.title ?? "", id))}`);
    };
    addEventListener("console:pinned", toggled);
    return () => removeEventListener("console:pinned", toggled);
  }, [overview]);
  const isFiltered = text !== "" || state !== "";
  const isFirst = pages.next === undefined;
  const isSearching = pages.next !== "" && !pages.isStopped && isFiltered && pages.fault === "" && (pages.isLoading || rows.length === 0);
  const missing = [...new Set([...pages.missing, ...(feed?.missing ?? [])])];
  const fault = pages.fault || feed?.fault || "";
  return (
    <nav class="list" aria-label="Sessions">
      <h1 class="hidden if-narrow">Sessions</h1>
      <div class="tools">
        <input
          id="search"
          type="search"
          value={text}
          placeholder="Search sessions  /"
          aria-label="Search sessions"
          onInput={(event) => search(event.currentTarget.value)}
        />
        {me?.scope !== "observe" && (
          <button type="button" class="primary" onClick={create} title="New session (n)" aria-label="New session"><Icon name="plus" /></button>
        )}
        <div class="filters">
          <select aria-label="State" value={state} onChange={(event) => only(event.currentTarget.value)}>
            {STATES.map((each, at) => <option value={each}>{LABELS[at]}</option>)}
          </select>
          <select aria-label="Groups" value={by} onChange={(event) => groupBy(event.currentTarget.value)}>
            {GROUPINGS.map((each) => <option value={each}>{GROUPING_LABELS[each]}</option>)}
          </select>
        </div>
      </div>
      <Fault text={fault} />
      <p class="hidden" role="status">{told}</p>
      <div class="groups">
        {isFirst && groups.length === 0 && fault === "" && [1, 2, 3, 4, 5].map((row) => <div key={row} class="bone" aria-hidden="true" />)}
        {groups.map((group, at) => (
          <Group key={group.key} group={group} id={`group-${at}`}>
            {group.sessions.map((each) => (
              <Row
                key={each.id}
                session={each}
                isCurrent={each.id === current}
                isUnread={each.id !== current && seen.unread(each)}
                age={ago(each.active, now)}
                observe={observe}
              />
            ))}
          </Group>
        ))}
        {pages.next !== "" && !pages.isStopped && !waits && <div key="end" class="end" ref={end} aria-hidden="true" />}
        {pages.next !== "" && !pages.isStopped && waits && (
          <p class="empty">
            The groups have the {rows.length} sessions that were active last.{" "}
            <button type="button" disabled={pages.isLoading} onClick={() => void pages.more()}>Load more</button>
          </p>
        )}
      </div>
      {isSearching && (
        <p class="empty searching" role="status">
          Searching older sessions, {rows.length} found …{" "}
          <button type="button" class="quiet" onClick={() => pages.stop()}>Cancel</button>
        </p>
      )}
      {pages.isStopped && <p class="empty" role="status">Older sessions were not searched.</p>}
      {missing.length > 0 && <p class="empty" role="status">No answer of {missing.map(visible).join(", ")}: sessions there are not listed.</p>}
      {pages.next === "" && rows.length === 0 && (
        <p class="empty">
          {isFiltered ? "No session fits." : "No session yet."}{" "}
          {isFiltered && <button type="button" class="quiet" onClick={() => [search(""), only("")]}>Show all</button>}
        </p>
      )}
    </nav>
  );
}

function Group({ group, id, children }: { group: SessionGroup; id: string; children: ComponentChildren }): JSX.Element {
  const { title, count } = group;
  if (title === "") return <ul>{children}</ul>;
  return (
    <section>
      <h2 id={id}>
        <span class="name" title={visible(title)}>{visible(title)}</span>
        {count !== undefined && <span class="dim">{count}<span class="hidden"> {count === 1 ? "session" : "sessions"}</span></span>}
      </h2>
      <ul aria-labelledby={id}>{children}</ul>
    </section>
  );
}

interface RowProps {
  session: KnownSession;
  isCurrent: boolean;
  isUnread: boolean;
  age: string;
  observe: (row: Element | null, id: string) => void;
}

/** A row of the list, drawn again only when its session has changed. */
class Row extends Component<RowProps> {
  private element: Element | null = null;

  override componentDidMount(): void {
    this.props.observe(this.element, this.props.session.id);
  }

  override shouldComponentUpdate(next: RowProps): boolean {
    const { session, isCurrent, isUnread, age } = this.props;
    return next.session !== session || next.isCurrent !== isCurrent || next.isUnread !== isUnread || next.age !== age;
  }

  override render(): JSX.Element {
    const { session, isCurrent, isUnread, age } = this.props;
    const state = shownState(session);
    return (
      <li data-row ref={(element) => { this.element = element; }}>
        <a href={sessionHref(session.id)} aria-current={isCurrent ? "page" : undefined} class={session.state === "closed" ? "closed" : ""}>
          <span class="title">{visible(sessionTitle(session.title, session.id))}</span>
          <time title={session.active}>
            {isUnread && <i class="unread" role="img" aria-label="unread" title="unread" />}
            {age}
          </time>
          <span class="under">
            <State state={state} quiet={state === "idle"} why={state === "failed" ? visible(failureText(session.outcome)) : ""} />
            <span class="agent">{visible(session.agent)}</span>
            {session.host !== "" && <span class="agent" title="its host">{visible(session.host)}</span>}
            {session.cwd !== "" && <span class="path">{visible(tail(session.cwd))}</span>}
          </span>
        </a>
      </li>
    );
  }
}

const tail = (path: string): string => (path.length > 28 ? `…${path.slice(-27)}` : path);

/** `j` and `k`: to the next or the session before, in the order of the list. */
export function step(by: number): void {
  const links = [...document.querySelectorAll<HTMLAnchorElement>(".list li a")];
  if (links.length === 0) return;
  const at = links.findIndex((link) => link.getAttribute("aria-current") === "page");
  const to = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.max(0, Math.min(links.length - 1, at + by))];
  to?.click();
  to?.scrollIntoView({ block: "nearest" });
}

/** What is beside the list when no session is chosen: at first the agents to begin with. */
export function Welcome({ create, agents }: { create: (agent: string) => void; agents: Obj[] }): JSX.Element {
  const { me } = useShell();
  const { overview } = useLive();
  useEffect(() => titlePage(""), []);
  if (overview.isLive && overview.size === 0) return <FirstRun create={create} agents={agents} mayCreate={me !== undefined && me.scope !== "observe"} />;
  return (
    <section class="welcome" aria-label="Welcome">
      <h1>Choose a session</h1>
      <p class="dim">
        <kbd>Ctrl+K</kbd> finds sessions and commands, <kbd>j</kbd> <kbd>k</kbd> go through the list, <kbd>?</kbd> shows all keys.
      </p>
      {me?.scope !== "observe" && <p><button type="button" class="primary" onClick={() => create("")}>New session</button></p>}
    </section>
  );
}

/** The agents that are there, what is wrong with them, and the next step. */
export function FirstRun({ create, agents, mayCreate }: { create: (agent: string) => void; agents: Obj[]; mayCreate: boolean }): JSX.Element {
  const found = agents.filter((agent) => str(agent.profile) !== "echo");
  return (
    <section class="welcome first-run" aria-label="Welcome">
      <h1>{found.length > 0 ? "Start your first session" : "No agent is installed yet"}</h1>
      {agents.length > 0 && (
        <ul>
          {agents.slice(0, 30).map((agent) => {
            const id = str(agent.id);
            const { severity, verdict, lastWords } = agentHealth(agent, "");
            const isIll = severity === "warning" || severity === "error";
            return (
              <li key={id}>
                <span class="name">
                  <strong>{visible(str(agent.name) || id)}</strong>{" "}
                  <span class="dim">{visible(str(agent.description) || (str(agent.profile) === "echo" ? "Repeats what you write, to try the page" : ""))}</span>
                  {isIll && <span class="warning">{visible(verdict)}{lastWords !== "" && <>: <code>{visible(lastWords)}</code></>}</span>}
                </span>
                {mayCreate && <button type="button" class={found.length > 0 && !isIll && str(agent.profile) !== "echo" ? "primary" : ""} onClick={() => create(id)}>Start<span class="hidden"> a session with {visible(str(agent.name) || id)}</span></button>}
              </li>
            );
          })}
        </ul>
      )}
      {found.length === 0 && <p>Install one, such as <code>npm install -g @openai/codex</code>, then run <code>trunkline daemon reload</code>.</p>}
      <p class="dim"><code>trunkline doctor</code> checks each agent, and names what is missing: its program, its login, its version.</p>
    </section>
  );
}
