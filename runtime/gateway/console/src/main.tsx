import type { JSX } from "preact";
import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Api, Problem } from "./core/api.ts";
import { str } from "./core/types.ts";
import type { Me } from "./core/types.ts";
import { Agents, useAgents } from "./ui/agents.tsx";
import { Dialog, Icon } from "./ui/bits.tsx";
import { CreateDialog } from "./ui/create.tsx";
import { DropTarget } from "./ui/drop.tsx";
import { Hosts, useHosts } from "./ui/hosts.tsx";
import { ShellContext, useRoute } from "./ui/hooks.ts";
import { Palette } from "./ui/palette.tsx";
import type { Command } from "./ui/palette.tsx";
import { SessionPage } from "./ui/session.tsx";
import { Sessions, Welcome, step } from "./ui/sessions.tsx";
import { SignIn } from "./ui/signin.tsx";
import { Usage } from "./ui/usage.tsx";

const TOKEN = "trunkline.token";

/** Takes the token out of the page that `POST /open` gave, so that neither address nor document holds it. */
function firstToken(): string {
  const meta = document.querySelector<HTMLMetaElement>('meta[name="trunkline-token"]');
  if (meta) {
    sessionStorage.setItem(TOKEN, meta.content);
    meta.remove();
    history.replaceState(null, "", `/${location.hash}`);
  }
  return sessionStorage.getItem(TOKEN) ?? "";
}

function App(): JSX.Element {
  const [token, set] = useState(firstToken);
  const [why, say] = useState("");
  const out = (reason: string): void => {
    sessionStorage.removeItem(TOKEN);
    say(reason);
    set("");
  };
  // A late answer to a token that was refused before says nothing of the one that is used now.
  const refused = (reason: string): void => {
    if (sessionStorage.getItem(TOKEN) === token) out(`The token was refused: ${reason}`);
  };
  const api = useMemo(() => new Api(token, refused), [token]);
  if (token === "") {
    return (
      <SignIn
        why={why}
        enter={(given) => {
          sessionStorage.setItem(TOKEN, given);
          say("");
          set(given);
        }}
      />
    );
  }
  const leave = (): void => {
    // Drafts and what was not sent are of the one who leaves; pictures and samples go with the page.
    for (const key of Object.keys(sessionStorage)) if (key.startsWith("trunkline.")) sessionStorage.removeItem(key);
    location.replace("/");
    location.reload();
  };
  return <Shell key={token} api={api} out={leave} />;
}

function Shell({ api, out }: { api: Api; out: () => void }): JSX.Element {
  const [me, know] = useState<Me | undefined>(undefined);
  const [hasUsage, setUsage] = useState(false);
  const [creating, create] = useState(false);
  const [help, showHelp] = useState(false);
  const [palette, showPalette] = useState(false);
  const [view = "", id = ""] = useRoute();
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

  const keys = useRef((_event: KeyboardEvent): void => undefined);
  keys.current = (event) => {
    const target = event.target instanceof HTMLElement ? event.target : undefined;
    if (event.key === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !document.querySelector("dialog")) {
      event.preventDefault();
      return showPalette(true);
    }
    if (event.key === "Escape" && target?.matches("input, textarea, select") && !target.closest("dialog")) return target.blur();
    if (event.ctrlKey || event.metaKey || event.altKey || target?.closest("input, textarea, select, dialog")) return;
    const run: { [key: string]: () => void } = {
      "/": () => {
        const field = document.getElementById("search");
        if (field?.checkVisibility()) return field.focus();
        location.hash = "#/sessions";
        setTimeout(() => document.getElementById("search")?.focus(), 50);
      },
      j: () => step(1),
      k: () => step(-1),
      n: () => me?.scope !== "observe" && create(true),
      i: () => document.getElementById("input")?.focus(),
      w: () => dispatchEvent(new Event("console:wire")),
      "?": () => showHelp(true),
    };
    const action = run[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  };
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => keys.current(event);
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);

  const measured = useAgents(api, view === "agents" ? 2000 : 8000);
  const bad = measured.agents.some((agent) => ["warning", "error"].includes(str((agent.health as { severity?: string } | undefined)?.severity)));
  const cluster = useHosts(api, view === "hosts" ? 2000 : 15_000);
  const lost = cluster.hosts.some((host) => host.state === "lost");
  const alerts: { [view: string]: string } = { ...(bad ? { agents: "An agent needs a look" } : {}), ...(lost ? { hosts: "A host is lost" } : {}) };
  const tabs: [string, string, boolean][] = [["sessions", "Sessions", true], ["agents", "Agents", true], ["hosts", "Hosts", cluster.hosts.length > 0], ["usage", "Usage", hasUsage]];
  const current = view === "" ? "sessions" : view;
  const goTo = (hash: string) => (): void => {
    location.hash = hash;
  };
  const commands: Command[] = [
    ...(me?.scope !== "observe" ? [{ label: "New session", key: "n", run: () => create(true) }] : []),
    ...(id !== "" && current === "sessions" ? [
      { label: "Find in the session", key: "Ctrl+F", run: () => dispatchEvent(new Event("console:find")) },
      { label: "Wire view", key: "w", run: () => dispatchEvent(new Event("console:wire")) },
      { label: "Settings of the session", key: "", run: () => dispatchEvent(new Event("console:settings")) },
    ] : []),
    ...tabs.filter(([, , shown]) => shown).map(([name, label]) => ({ label, key: "", run: goTo(`#/${name}`) })),
    { label: "Keys", key: "?", run: () => showHelp(true) },
    { label: "Sign out", key: "", run: out },
  ];
  return (
    <ShellContext.Provider value={{ api, me }}>
      <div class={`shell view-${current} ${id !== "" ? "chosen" : ""}`}>
        <header class="top">
          <a class="brand" href="#/sessions"><img src="/icon.svg" alt="" width={20} height={20} /> trunkline</a>
          <nav aria-label="Views">
            {tabs.filter(([, , shown]) => shown).map(([name, label]) => (
              <a href={`#/${name}`} aria-current={name === current ? "page" : undefined}>
                {label}{alerts[name] && <i class="alert" role="img" aria-label={alerts[name]} />}
              </a>
            ))}
          </nav>
          {me?.scope === "observe" && <span class="badge">reads only</span>}
          <span class="dim version" title={me ? `You are ${me.name}` : ""}>{me && `v${me.version}`}</span>
          <button type="button" class="quiet" onClick={() => showHelp(true)} aria-label="Keys" title="Keys (?)"><Icon name="help" /></button>
          <Theme />
          <button type="button" class="quiet" onClick={out} aria-label="Sign out" title="Sign out"><Icon name="out" /></button>
        </header>
        {current === "agents" ? (
          <Agents {...measured} />
        ) : current === "hosts" ? (
          <Hosts {...cluster} />
        ) : current === "usage" ? (
          <Usage />
        ) : (
          <main class="work">
            <Sessions current={id} create={() => create(true)} />
            {id === "" ? <Welcome create={() => create(true)} /> : <SessionPage id={id} key={id} />}
          </main>
        )}
        <DropTarget />
        {creating && <CreateDialog close={() => create(false)} />}
        {palette && <Palette commands={commands} close={() => showPalette(false)} />}
        {help && <Help close={() => showHelp(false)} />}
      </div>
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

const KEYS: [string, string][] = [
  ["Ctrl+K", "commands and sessions by name"],
  ["/", "search sessions; agent:NAME for those of one agent"], ["j  k", "next session, session before"], ["n", "new session"], ["i", "to the input"],
  ["Ctrl+F", "find in the session; Enter and Shift+Enter go on and back"], ["Ctrl+Enter", "send"], ["w", "wire view"], ["Esc", "leave a field, close a dialog"], ["?", "this list"],
];

function Help({ close }: { close: () => void }): JSX.Element {
  return (
    <Dialog title="Keys" close={close}>
      <dl class="keys">{KEYS.map(([key, what]) => <div><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}</dl>
    </Dialog>
  );
}

applyTheme(localStorage.getItem("trunkline.theme") ?? "");
const root = document.getElementById("app");
if (root) render(<App />, root);
