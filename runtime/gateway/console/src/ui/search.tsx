import type { ComponentChildren, JSX } from "preact";
import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import { ago, clock, sessionTitle } from "../core/format.ts";
import { visible } from "../core/safe.ts";
import { SessionSearch, searchProgress, searchWords, splitMatches } from "../core/search.ts";
import type { SearchHit } from "../core/search.ts";
import { titlePage } from "../core/title.ts";
import { Fault } from "./bits.tsx";
import { entryHref, sessionHref, useShell } from "./hooks.ts";

/** Pause after a key before a search begins, in milliseconds. */
const PAUSE = 200;
const KINDS: { [kind: string]: string } = { title: "title", input: "input", output: "answer" };

export const searchHref = (text: string): string => `#/search/${encodeURIComponent(text)}`;
export const hitHref = (hit: SearchHit): string => (hit.seq === undefined ? sessionHref(hit.session) : entryHref(hit.session, hit.seq));

/** A search that follows a text as it is typed, and ends with the view. */
export function useSessionSearch(text: string): SessionSearch {
  const { api } = useShell();
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const search = useRef<SessionSearch | undefined>(undefined);
  search.current ??= new SessionSearch((query, signal) => api.search(query, signal), () => draw(undefined as never));
  const it = search.current;
  useEffect(() => {
    it.stop();
    const timer = setTimeout(() => it.start(text), PAUSE);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => () => it.stop(), []);
  return it;
}

/** An excerpt, in which the words that were searched for are marked. A short one begins close to them. */
export function Excerpt({ text, query, short = false }: { text: string; query: string; short?: boolean }): JSX.Element {
  const found = splitMatches(text, query);
  const [first] = found;
  if (short && first && !first.hit && found.length > 1 && first.text.length > 24) first.text = `…${first.text.slice(-20)}`;
  const parts: ComponentChildren[] = found.map((part) => (part.hit ? <mark>{visible(part.text)}</mark> : visible(part.text)));
  return <span class="excerpt">{parts}</span>;
}

/** Searches titles, inputs and answers of all sessions. */
export function Search({ initial }: { initial: string }): JSX.Element {
  const [text, write] = useState(initial);
  const search = useSessionSearch(text);
  const list = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    titlePage("Search");
    field.current?.focus();
  }, []);
  useEffect(() => write(initial), [initial]);
  const typed = (value: string): void => {
    write(value);
    // A reload and the way back find the same search.
    history.replaceState(null, "", searchHref(value));
  };
  const move = (event: KeyboardEvent): void => {
    const links = [...(list.current?.querySelectorAll("a") ?? [])];
    const at = links.findIndex((link) => link === document.activeElement);
    if (event.key === "ArrowDown" && at + 1 < links.length) links[at + 1]?.focus();
    else if (event.key === "ArrowUp") (at > 0 ? links[at - 1] : field.current)?.focus();
    else if (event.key === "Enter" && at < 0 && event.target === field.current) links[0]?.click();
    else return;
    event.preventDefault();
  };
  const groups: SearchHit[][] = [];
  for (const hit of search.hits) {
    const group = groups[groups.length - 1];
    if (group?.[0]?.session === hit.session) group.push(hit);
    else groups.push([hit]);
  }
  const waits = searchWords(text).words !== search.text;
  return (
    <main class="page search" tabIndex={-1} onKeyDown={move}>
      <h1>Search</h1>
      <div class="tools" role="search">
        <input
          ref={field}
          type="search"
          value={text}
          maxLength={256}
          aria-label="Search all sessions"
          placeholder="Words of titles, inputs and answers; agent:NAME for one agent"
          onInput={(event) => typed(event.currentTarget.value)}
        />
        {search.state === "running" && <button type="button" onClick={() => search.stop()}>Stop</button>}
      </div>
      <div class="far">
        <p class="dim" role="status">{waits ? "Searching …" : searchProgress(search)}</p>
        {search.state === "running" && search.total !== undefined && <progress aria-label="Sessions searched" value={search.searched} max={Math.max(1, search.total)} />}
        {!waits && ["paused", "stopped", "failed"].includes(search.state) && <button type="button" class="small" onClick={() => search.more()}>Search on</button>}
      </div>
      <Fault text={search.fault} />
      {search.host !== "" && <p class="dim">These are sessions of the host {visible(search.host)}.</p>}
      {search.state === "empty" && !waits && <p class="empty">Finds words in the titles, inputs and answers of all sessions that you see, also archived ones.</p>}
      <div ref={list} class={`results ${waits ? "stale" : ""}`}>
        {groups.map((group) => <Group key={`${group[0]?.session} ${group[0]?.seq}`} hits={group} query={search.text} />)}
      </div>
    </main>
  );
}

function Group({ hits, query }: { hits: SearchHit[]; query: string }): JSX.Element | null {
  const [first] = hits;
  if (!first) return null;
  return (
    <section aria-label={visible(sessionTitle(first.title, first.session))}>
      <h2>
        {visible(sessionTitle(first.title, first.session))} <span class="dim">{visible(first.agent)}</span>
        {first.archived && <span class="badge">archived</span>}
      </h2>
      <ul>
        {hits.map((hit) => (
          <li key={`${hit.seq}`}>
            <a href={hitHref(hit)}>
              <span class="badge">{Object.hasOwn(KINDS, hit.kind) ? KINDS[hit.kind] : "text"}</span>
              <Excerpt text={hit.snippet} query={query} />
              <time class="dim" title={clock(hit.time)}>{ago(hit.time)}</time>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
