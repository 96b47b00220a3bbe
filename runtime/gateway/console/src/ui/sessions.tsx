import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ago, sessionTitle } from "../core/format.ts";
import { visible } from "../core/safe.ts";
import { Seen } from "../core/seen.ts";
import { titlePage } from "../core/title.ts";
import type { ListedSession } from "../core/types.ts";
import { Fault, Icon, State } from "./bits.tsx";
import { sessionHref, usePoll, useShell } from "./hooks.ts";

const STATES = ["", "running", "idle", "detached", "closed"];
const LABELS = ["any state", "running", "idle", "asleep", "closed"];

export const seen = new Seen(globalThis.localStorage, () => new Date().toISOString());
globalThis.addEventListener?.("pagehide", () => seen.flush());

/** The list at the side: searched by the daemon, read again every few seconds. */
export function Sessions({ current, create }: { current: string; create: () => void }): JSX.Element {
  const { api, me } = useShell();
  const [text, search] = useState("");
  const [state, only] = useState("");
  const [sessions, list] = useState<ListedSession[]>([]);
  const [next, setNext] = useState("");
  const [pages, setPages] = useState(1);
  const [missing, miss] = useState<string[]>([]);
  const [fault, fail] = useState("");
  const [loaded, load] = useState(false);
  const asked = useRef(0);

  // `agent:NAME` in the search is the agent's id.
  const agent = /(?:^|\s)agent:(\S*)/.exec(text)?.[1] ?? "";
  const words = text.replace(/(^|\s)agent:\S*/, " ").trim();
  usePoll(async () => {
    const mine = ++asked.current;
    try {
      const found = new Map<string, ListedSession>();
      const silent = new Set<string>();
      let cursor = "";
      for (let page = 0; page < pages; page += 1) {
        const answer = await api.sessions({ text: words, state, agent, ...(cursor !== "" ? { cursor } : {}) });
        for (const each of answer.sessions) if (!found.has(each.id)) found.set(each.id, each);
        for (const host of answer.missing) silent.add(host);
        cursor = answer.next;
        if (cursor === "") break;
      }
      // A later question has been asked since: its answer counts.
      if (mine !== asked.current) return;
      seen.learn([...found.values()]);
      list([...found.values()]);
      setNext(cursor);
      miss([...silent]);
      fail("");
      load(true);
    } catch (error) {
      if (mine === asked.current) fail(error instanceof Error ? error.message : "not loaded");
    }
  }, 3000, [text, state, pages]);

  const now = Date.now();
  const filtered = text !== "" || state !== "";
  return (
    <nav class="list" aria-label="Sessions">
      <div class="tools">
        <input
          id="search"
          type="search"
          value={text}
          placeholder="Search sessions  /"
          aria-label="Search sessions"
          onInput={(event) => {
            search(event.currentTarget.value);
            setPages(1);
          }}
        />
        <select aria-label="State" value={state} onChange={(event) => {
          only(event.currentTarget.value);
          setPages(1);
        }}>
          {STATES.map((each, at) => <option value={each}>{LABELS[at]}</option>)}
        </select>
        {me?.scope !== "observe" && (
          <button type="button" class="primary" onClick={create} title="New session (n)" aria-label="New session"><Icon name="plus" /></button>
        )}
      </div>
      <Fault text={fault} />
      <ul>
        {!loaded && fault === "" && [1, 2, 3, 4, 5].map((row) => <li key={row} class="bone" aria-hidden="true" />)}
        {sessions.map((each) => (
          <li key={each.id}>
            <a href={sessionHref(each.id)} aria-current={each.id === current ? "page" : undefined} class={each.state === "closed" ? "closed" : ""}>
              <span class="title">{visible(sessionTitle(each.title, each.id))}</span>
              <time title={each.active}>
                {each.id !== current && seen.unread(each) && <i class="unread" role="img" aria-label="unread" title="unread" />}
                {ago(each.active, now)}
              </time>
              <span class="under">
                <State state={each.openRequests > 0 ? "asks" : each.state} quiet={each.state === "idle"} />
                <span class="agent">{visible(each.agent)}</span>
                {each.host !== "" && <span class="agent" title="its host">{visible(each.host)}</span>}
                {each.cwd !== "" && <span class="path">{visible(tail(each.cwd))}</span>}
              </span>
            </a>
          </li>
        ))}
      </ul>
      {missing.length > 0 && <p class="empty" role="status">No answer of {missing.map(visible).join(", ")}: sessions there are not listed.</p>}
      {next !== "" && <button type="button" class="quiet more" onClick={() => setPages(pages + 1)}>More sessions</button>}
      {loaded && sessions.length === 0 && (
        <p class="empty">
          {filtered ? "No session fits." : "No session yet."}{" "}
          {filtered
            ? <button type="button" class="quiet" onClick={() => [search(""), only("")]}>Show all</button>
            : me?.scope !== "observe" && <button type="button" class="quiet" onClick={create}>Make the first one</button>}
        </p>
      )}
    </nav>
  );
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

/** What stands beside the list when no session is chosen. */
export function Welcome({ create }: { create: () => void }): JSX.Element {
  const { me } = useShell();
  useEffect(() => {
    titlePage("");
  }, []);
  return (
    <section class="welcome" aria-label="Welcome">
      <h1>Choose a session</h1>
      <p class="dim">
        <kbd>Ctrl+K</kbd> finds sessions and commands, <kbd>j</kbd> <kbd>k</kbd> go through the list, <kbd>?</kbd> shows all keys.
      </p>
      {me?.scope !== "observe" && <p><button type="button" class="primary" onClick={create}>New session</button></p>}
    </section>
  );
}
