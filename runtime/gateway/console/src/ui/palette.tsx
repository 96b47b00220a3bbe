import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { sessionTitle } from "../core/format.ts";
import { findSessions } from "../core/pages.ts";
import { visible } from "../core/safe.ts";
import { searchProgress, searchWords } from "../core/search.ts";
import type { ListedSession } from "../core/types.ts";
import { Dialog } from "./bits.tsx";
import { sessionHref, useShell } from "./hooks.ts";
import { Excerpt, hitHref, searchHref, useSessionSearch } from "./search.tsx";
import { sessionActions } from "./settings.tsx";

export interface Command {
  label: string;
  key: string;
  run: () => void;
}

interface Option {
  id: string;
  label: ComponentChildren;
  about: string;
  run: () => void;
}

/** Sessions by name, and places in conversations, that the palette shows. */
const MAX_SESSIONS = 8;
const MAX_PLACES = 6;

interface Found {
  text: string;
  sessions: ListedSession[];
  isComplete: boolean;
}

/** Sessions whose title fits. The daemon looks at some thousands a request. */
function useSessionsByName(text: string): Found {
  const { api } = useShell();
  const [found, take] = useState<Found>({ text: "", sessions: [], isComplete: false });
  useEffect(() => {
    const life = new AbortController();
    const { words, agent } = searchWords(text);
    findSessions(api, { text: words, state: "", agent }, MAX_SESSIONS, life.signal).then(
      (sessions) => !life.signal.aborted && take({ text, sessions, isComplete: true }),
      () => !life.signal.aborted && take({ text, sessions: [], isComplete: true }),
    );
    return () => life.abort();
  }, [text]);
  return found;
}

/** Commands, sessions by name and places in conversations by a few letters: Ctrl+K. */
export function Palette({ commands, close }: { commands: Command[]; close: () => void }): JSX.Element {
  const [text, ask] = useState("");
  const [at, move] = useState("");
  const named = useSessionsByName(text);
  const search = useSessionSearch(text.trim().length > 1 ? text : "");

  const goTo = (hash: string) => (): void => {
    location.hash = hash;
  };
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (label: string): boolean => words.every((word) => label.toLowerCase().includes(word));
  const actions = sessionActions.list().map(({ label, key = "", run }) => ({ label, key, run: () => void run() }));
  const known = new Set(commands.map((each) => each.label));
  // Until the answer to these words is here, what is known of them: Enter chooses nothing that does not fit.
  const sessions = named.sessions.filter((each) => named.text === text || fits(each.title));
  const isCurrent = search.text === searchWords(text).words;
  const places = isCurrent ? search.hits.filter((hit) => hit.seq !== undefined) : [];
  const isSearched = words.length === 0 || (named.text === text && named.isComplete && (text.trim().length < 2 || (isCurrent && search.state !== "running")));
  const options: Option[] = [
    ...[...commands, ...actions.filter((each) => !known.has(each.label))].filter((each) => fits(each.label)).map((each) => ({ id: `command ${each.label}`, label: each.label, about: each.key, run: each.run })),
    ...sessions.slice(0, MAX_SESSIONS).map((each) => ({
      id: `session ${each.id}`, label: visible(sessionTitle(each.title, each.id)), about: visible(each.agent), run: goTo(sessionHref(each.id)),
    })),
    ...places.slice(0, MAX_PLACES).map((hit) => ({
      id: `place ${hit.session} ${hit.seq}`, label: <Excerpt text={hit.snippet} query={search.text} short />, about: visible(sessionTitle(hit.title, hit.session)), run: goTo(hitHref(hit)),
    })),
    ...(text.trim() !== "" && (!isSearched || places.length > 0) ? [{ id: "search", label: `Search all sessions for “${visible(text.trim())}”`, about: isCurrent ? searchProgress(search) : "", run: goTo(searchHref(text.trim())) }] : []),
  ];
  const chosen = Math.max(0, options.findIndex((each) => each.id === at));
  const run = (option: Option | undefined): void => {
    if (!option) return;
    close();
    option.run();
  };
  return (
    <Dialog title="Commands" close={close}>
      <form class="palette" onSubmit={(event) => {
        event.preventDefault();
        run(options[chosen]);
      }}>
        <input
          type="text"
          value={text}
          maxLength={256}
          role="combobox"
          aria-label="Command, session or words of a conversation"
          aria-expanded="true"
          aria-controls="palette"
          aria-activedescendant={options.length > 0 ? `palette-${chosen}` : undefined}
          placeholder="A command, a session, or words of a conversation"
          autocomplete="off"
          onInput={(event) => {
            ask(event.currentTarget.value);
            move("");
          }}
          onKeyDown={(event) => {
            const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
            if (by === 0) return;
            event.preventDefault();
            move(options[(chosen + by + options.length) % Math.max(1, options.length)]?.id ?? "");
          }}
        />
        <ul id="palette" role="listbox" aria-label="Found">
          {options.map((each, index) => (
            <li key={each.id} id={`palette-${index}`} role="option" aria-selected={index === chosen} onClick={() => run(each)} onMouseMove={() => move(each.id)}>
              <span class="title">{each.label}</span>
              <span class="dim">{each.about}</span>
            </li>
          ))}
        </ul>
        {options.length === 0 && isSearched && <p class="empty" role="status">Nothing fits.</p>}
      </form>
    </Dialog>
  );
}
