import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { visible } from "../core/safe.ts";
import type { WireLine } from "../core/wire.ts";
import { matcher, trouble, way } from "../core/wire.ts";
import { obj } from "../core/types.ts";
import { Copy } from "./bits.tsx";
import { isCoarse, useSession } from "./hooks.ts";
import { FIRST } from "./text.tsx";

const HEIGHT = isCoarse() ? 44 : 24;
const WAYS = { to: ["→", "to the agent"], from: ["←", "from the agent"], host: ["·", "of the host"] } as const;
const FILTERS = [["", "all"], ["to:agent", "to the agent"], ["from:agent", "from the agent"], ["is:trouble", "trouble"]] as const;
/** Lines that a filter looks at before the page may draw. */
const SLICE = 5000;

/** Lines that fit a filter, found in slices and kept up as lines come. */
function useMatches(query: string): WireLine[] {
  const { wire } = useSession();
  const [, again] = useState(0);
  const state = useRef({ query: "", looked: 0, first: undefined as WireLine | undefined, found: [] as WireLine[] });
  const { lines } = wire;
  const all = query.trim() === "";
  const it = state.current;
  if (it.query !== query || it.first !== lines[0]) state.current = { query, looked: 0, first: lines[0], found: [] };
  useEffect(() => {
    const now = state.current;
    if (all || now.looked >= lines.length) return;
    const fits = matcher(query);
    const to = Math.min(lines.length, now.looked + SLICE);
    const more = lines.slice(now.looked, to).filter(fits);
    now.looked = to;
    if (more.length > 0) now.found = now.found.concat(more);
    const timer = setTimeout(() => again((count) => count + 1));
    return () => clearTimeout(timer);
  });
  return all ? lines : state.current.found;
}

export function WireView(): JSX.Element {
  const store = useSession();
  const [query, ask] = useState("");
  const [top, scroll] = useState(0);
  const [height, resize] = useState(600);
  const [chosen, choose] = useState<WireLine | undefined>(undefined);
  const box = useRef<HTMLDivElement>(null);
  const pinned = useRef(true);
  const lines = useMatches(query);
  const from = Math.max(0, Math.floor(top / HEIGHT) - 10);
  const to = Math.min(lines.length, Math.ceil((top + height) / HEIGHT) + 10);

  useEffect(() => {
    const it = box.current;
    if (!it) return;
    if (it.clientHeight !== height) resize(it.clientHeight);
    if (pinned.current && it.scrollHeight - it.scrollTop - it.clientHeight > 1) it.scrollTop = it.scrollHeight;
  });
  useEffect(() => choose(undefined), [store.generation]);

  const move = (step: number): void => {
    const at = chosen ? lines.indexOf(chosen) + step : step > 0 ? 0 : lines.length - 1;
    const line = lines[Math.max(0, Math.min(lines.length - 1, at))];
    if (!line || !box.current) return;
    choose(line);
    const y = lines.indexOf(line) * HEIGHT;
    if (y < box.current.scrollTop) box.current.scrollTop = y;
    else if (y + HEIGHT > box.current.scrollTop + box.current.clientHeight) box.current.scrollTop = y + HEIGHT - box.current.clientHeight;
  };

  return (
    <aside class="wire" aria-label="Wire view">
      <header>
        <input type="search" value={query} placeholder="word  -word  type:tool" aria-label="Filter entries" onInput={(event) => {
          ask(event.currentTarget.value);
          pinned.current = true;
        }} />
        <select aria-label="Which entries" value={FILTERS.find(([word]) => word !== "" && query.includes(word))?.[0] ?? ""} onChange={(event) => {
          const rest = FILTERS.reduce((text, [word]) => (word === "" ? text : text.replace(word, "")), query).trim();
          ask([event.currentTarget.value, rest].filter(Boolean).join(" "));
          pinned.current = true;
        }}>
          {FILTERS.map(([word, label]) => <option value={word}>{label}</option>)}
        </select>
        <span class="dim" aria-live="off">
          {query.trim() === "" ? `${lines.length} entries` : `${lines.length} of ${store.wire.lines.length}`}
        </span>
        {store.wire.first > store.beginning && (
          <button type="button" class="quiet small" title="Load all entries before these" disabled={store.loading !== ""} onClick={() => store.whole()}>
            {(store.wire.first - store.beginning).toLocaleString("en")} before
          </button>
        )}
        <Copy label="Copy what the filter shows" text={() => lines.map((line) => line.raw).join("\n")} />
      </header>
      <div
        class="lines"
        ref={box}
        tabIndex={0}
        role="group"
        aria-label="Entries as they came"
        onScroll={(event) => {
          const it = event.currentTarget;
          pinned.current = it.scrollHeight - it.scrollTop - it.clientHeight < HEIGHT;
          scroll(it.scrollTop);
        }}
        onKeyDown={(event) => {
          if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
          event.preventDefault();
          event.stopPropagation();
          move(event.key === "ArrowDown" ? 1 : -1);
        }}
      >
        <div style={{ height: `${lines.length * HEIGHT}px` }}>
          <div style={{ transform: `translateY(${from * HEIGHT}px)` }}>
            {lines.slice(from, to).map((line, at) => (
              <button
                type="button"
                tabIndex={-1}
                key={from + at}
                class={`quiet entry ${line === chosen ? "on" : ""} ${family(line.type)}`}
                aria-pressed={line === chosen}
                onClick={() => choose(line === chosen ? undefined : line)}
              >
                <span class="seq">{line.seq || "–"}</span>
                <span class="way" title={WAYS[way(line.type)][1]}>{WAYS[way(line.type)][0]}</span>
                <span class="type">{visible(line.type.slice(0, 60))}</span>
                <span class="raw">{visible(gist(line.raw))}</span>
              </button>
            ))}
          </div>
        </div>
      </div>
      {lines.length === 0 && <p class="empty">{query.trim() === "" ? "No entry yet." : "No entry fits."}</p>}
      {chosen && <Detail line={chosen} close={() => choose(undefined)} />}
    </aside>
  );
}

/** What differs from line to line: type and session stand elsewhere. */
function gist(raw: string): string {
  return raw.slice(0, 600).replace(/"(?:type|session_id|turn_id|time)":"[^"]{0,200}",?|"(?:seq|epoch)":\d+,?/g, "")
    .replace(/^\{|,?\}$/g, "").slice(0, 260);
}

function family(type: string): string {
  if (/^(permission|input|request|stop)/.test(type)) return "ask";
  if (/^tool/.test(type)) return "tool";
  if (/^(turn|session|host|steer)/.test(type)) return "life";
  if (/^(error|lag|console)/.test(type)) return "bad";
  return "";
}

function Detail({ line, close }: { line: WireLine; close: () => void }): JSX.Element {
  const store = useSession();
  const [shown, show] = useState(FIRST);
  useEffect(() => show(FIRST), [line]);
  let [text, why] = [line.raw, ""];
  try {
    if (line.raw.length < 4_000_000) {
      const entry: unknown = JSON.parse(line.raw);
      text = JSON.stringify(entry, null, 2);
      why = trouble(obj(entry));
    }
  } catch {
    // It is shown as it came.
  }
  return (
    <section class="detail" aria-label={`Entry ${line.seq}`}>
      <header>
        <strong>{line.seq || "no number"}</strong> <span class="dim">{WAYS[way(line.type)][1]}, {line.time}</span>
        <Copy text={() => line.raw} label="Copy this entry" />
        {line.seq > 0 && <button type="button" class="quiet small" onClick={() => {
          store.show(line.seq);
          // In a narrow page the wire stands in the transcript's place.
          if (innerWidth < 1100) dispatchEvent(new Event("console:wire"));
        }}>Show</button>}
        <button type="button" class="quiet small" onClick={close}>Close</button>
      </header>
      {why !== "" && <p class="why"><strong>Why:</strong> {visible(why.slice(0, 1000))}</p>}
      <pre tabIndex={0} role="group" aria-label="The entry"><code>{visible(text.slice(0, shown))}</code></pre>
      {text.length > shown && <button type="button" class="quiet more" onClick={() => show(shown * 4)}>{text.length - shown} more characters</button>}
    </section>
  );
}
