import type { JSX } from "preact";
import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Api, Problem } from "./core/api.ts";
import { itemKey } from "./core/inbox.ts";
import { str } from "./core/types.ts";
import type { Me } from "./core/types.ts";
import { Agents, useAgents } from "./ui/agents.tsx";
import { keyOf } from "./ui/bindings.ts";
import { Icon, Logo } from "./ui/bits.tsx";
import { Browsers, SignOutDialog } from "./ui/browsers.tsx";
import { CreateDialog } from "./ui/create.tsx";
import { DropTarget } from "./ui/drop.tsx";
import { keepFocus, openView } from "./ui/focus.ts";
import { LiveContext, useFeed } from "./ui/live.ts";
import { Hosts, useHosts } from "./ui/hosts.tsx";
import { ShellContext, useRoute } from "./ui/hooks.ts";
import { Inbox, UnknownView, WaitingCount, answerInbox, markDone, stepInbox } from "./ui/inbox.tsx";
import { KeysDialog, useKeys } from "./ui/keys.tsx";
import { shownName, useShown } from "./ui/notify.tsx";
import { Palette } from "./ui/palette.tsx";
import type { Command } from "./ui/palette.tsx";
import { Search, searchHref } from "./ui/search.tsx";
import { SessionPage } from "./ui/session.tsx";
import { Sessions, Welcome, step, togglePin } from "./ui/sessions.tsx";
import { useSignIn } from "./ui/signin.tsx";
import { Usage } from "./ui/usage.tsx";

function App(): JSX.Element | null {
  const { credential, form, browser, refused, leave } = useSignIn();
  const [leaving, setLeaving] = useState(false);
  const api = useMemo(() => credential && new Api(credential, refused), [credential]);
  if (!api) return form ?? null;
  return (
    <>
      <Shell api={api} isPaired={browser !== ""} out={() => (browser === "" ? void leave() : setLeaving(true))} leave={() => void leave()} />
      {leaving && <SignOutDialog api={api} id={browser} close={() => setLeaving(false)} leave={() => void leave()} />}
    </>
  );
}

function Shell({ api, isPaired, out, leave }: { api: Api; isPaired: boolean; out: () => void; leave: () => void }): JSX.Element {
  const [me, know] = useState<Me | undefined>(undefined);
  const [hasUsage, setUsage] = useState(false);
  // The agent to begin with; empty for the default, `undefined` without the dialog.
  const [creating, create] = useState<string>();
  const [help, showHelp] = useState(false);
  const [palette, showPalette] = useState(false);
  const [view = "", named = "", seq = ""] = useRoute();
  // The list may be searched by its address.
  const [id, query] = view === "list" ? ["", named] : [named, ""];
  useEffect(() => {
    let timer = 0;
    const ask = (): void => {
      api.me().then(know, () => {
        timer = window.setTimeout(ask, 3000);
      });
    };
    ask();
    // An older daemon has no usage: the page is hidden.
    api.usage(1).then(() => setUsage(true), (error: unknown) => setUsage(error instanceof Problem && error.status === 0));
    return () => clearTimeout(timer);
  }, [api]);

  const live = useFeed(api, me);
  useKeys({
    commands: () => showPalette(true),
    search: () => {
      const field = document.getElementById("search");
      if (field?.checkVisibility()) field.focus();
      else openView("#/sessions", "#search");
    },
    next: () => (view === "inbox" ? stepInbox(1) : step(1)),
    previous: () => (view === "inbox" ? stepInbox(-1) : step(-1)),
    ...(view === "inbox" ? { allow: () => answerInbox("a"), deny: () => answerInbox("d"), done: markDone } : {}),
    ...(["", "list", "sessions"].includes(view) ? { pin: () => togglePin(id) } : {}),
    create: () => me?.scope !== "observe" && create(""),
    help: () => showHelp(true),
  });

  const measured = useAgents(api, view === "agents" ? 2000 : 8000);
  const bad = measured.agents.some((agent) => ["warning", "error"].includes(str((agent.health as { severity?: string } | undefined)?.severity)));
  const cluster = useHosts(api, view === "hosts" ? 2000 : 15_000);
  const lost = cluster.hosts.some((host) => host.state === "lost");
  const alerts: { [view: string]: string } = { ...(bad ? { agents: "An agent needs a look" } : {}), ...(lost ? { hosts: "A host is lost" } : {}) };
  const tabs: [string, string, boolean][] = [["inbox", "Inbox", true], ["sessions", "Sessions", true], ["agents", "Agents", true], ["hosts", "Hosts", cluster.hosts.length > 0], ["usage", "Usage", hasUsage], ["browsers", "Browsers", true]];
  const current = view === "" || view === "list" ? "sessions" : view === "search" || tabs.some(([name]) => name === view) ? view : "unknown";
  useShown(me?.name, shownName(current, id));
  const goTo = (hash: string) => (): void => {
    location.hash = hash;
  };
  const commands: Command[] = [
    ...(me?.scope !== "observe" ? [{ label: "New session", key: keyOf("create"), run: () => create("") }] : []),
    ...(id !== "" && current === "sessions" ? [
      { label: "Find in the session", key: keyOf("find"), run: () => dispatchEvent(new Event("console:find")) },
      { label: "Wire view", key: keyOf("wire"), run: () => dispatchEvent(new Event("console:wire")) },
      { label: "Settings of the session", key: "", run: () => dispatchEvent(new Event("console:settings")) },
    ] : []),
    ...tabs.filter(([, , shown]) => shown).map(([name, label]) => ({ label, key: "", run: goTo(`#/${name}`) })),
    { label: "Search all sessions", key: "", run: goTo(searchHref("")) },
    { label: "Keys", key: keyOf("help"), run: () => showHelp(true) },
    { label: "Sign out", key: "", run: out },
  ];
  return (
    <ShellContext.Provider value={{ api, me }}>
    <LiveContext.Provider value={live}>
      <div class={`shell view-${current} ${id !== "" && current === "sessions" ? "chosen" : ""}`}>
        <header class="top">
          <a class="brand" href="#/sessions"><Logo size={20} /> trunkline</a>
          <nav aria-label="Views">
            {tabs.filter(([, , shown]) => shown).map(([name, label]) => (
              <a href={`#/${name}`} aria-current={name === current ? "page" : undefined}>
                <Icon name={name} /><span class="label">{label}</span>{name === "inbox" && <WaitingCount />}{alerts[name] && <i class="alert" role="img" aria-label={alerts[name]} />}
              </a>
            ))}
          </nav>
          {me?.scope === "observe" && <span class="badge">reads only</span>}
          <span class="dim version" title={me ? `You are ${me.name}` : ""}>{me && `v${me.version}`}</span>
          <a class="quiet button" href={searchHref("")} aria-label="Search all sessions" title="Search all sessions" aria-current={current === "search" ? "page" : undefined}><Icon name="find" /></a>
          <button type="button" class="quiet" onClick={() => showHelp(true)} aria-label="Keys" title="Keys (?)"><Icon name="help" /></button>
          <Theme />
          <button type="button" class="quiet" onClick={out} aria-label="Sign out" title="Sign out"><Icon name="out" /></button>
        </header>
        {current === "agents" ? (
          <Agents {...measured} mayRestart={me?.scope === "admin" || (isPaired && me?.scope === "control")} create={me === undefined || me.scope === "observe" ? undefined : create} />
        ) : current === "hosts" ? (
          <Hosts {...cluster} />
        ) : current === "search" ? (
          <Search initial={id} />
        ) : current === "usage" ? (
          <Usage />
        ) : current === "inbox" ? (
          <Inbox chosen={id === "" ? "" : itemKey(id, seq)} />
        ) : current === "unknown" ? (
          <UnknownView />
        ) : current === "browsers" ? (
          <Browsers leave={leave} />
        ) : (
          <main class="work" tabIndex={-1}>
            <Sessions current={id} query={query} folders={measured.folders} create={() => create("")} />
            {id === "" ? <Welcome create={create} agents={measured.agents} /> : <SessionPage id={id} at={/^\d{1,15}$/.test(seq) ? Number(seq) : undefined} key={id} />}
          </main>
        )}
        <DropTarget />
        {creating !== undefined && <CreateDialog agent={creating} close={() => create(undefined)} />}
        {palette && <Palette commands={commands} close={() => showPalette(false)} />}
        {help && <KeysDialog close={() => showHelp(false)} />}
      </div>
    </LiveContext.Provider>
    </ShellContext.Provider>
  );
}

const THEMES = ["", "light", "dark"] as const;

function applyTheme(theme: string): void {
  if (theme === "") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function Theme(): JSX.Element {
  const [theme, set] = useState(() => localStorage.getItem("trunkline.theme") ?? "");
  const label = theme === "" ? "as the system" : theme;
  return (
    <button
      type="button"
      class="quiet"
      aria-label={`Theme: ${label}`}
      title={`Theme: ${label}`}
      onClick={() => {
        const next = THEMES[(THEMES.indexOf(theme as "") + 1) % THEMES.length] ?? "";
        localStorage.setItem("trunkline.theme", next);
        applyTheme(next);
        set(next);
      }}
    >
      <Icon name="theme" />
    </button>
  );
}

applyTheme(localStorage.getItem("trunkline.theme") ?? "");
const root = document.getElementById("app");
if (root) {
  keepFocus(root);
  render(<App />, root);
}
