import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../core/api.ts";
import type { Api } from "../core/api.ts";
import { ago, clock } from "../core/format.ts";
import { visible } from "../core/safe.ts";
import { titlePage } from "../core/title.ts";
import { list, num, obj, str } from "../core/types.ts";
import type { Obj } from "../core/types.ts";
import { Dialog, Fault } from "./bits.tsx";
import { usePoll, useShell } from "./hooks.ts";

const iso = (seconds: number | undefined): string => (seconds === undefined ? "" : new Date(seconds * 1000).toISOString());
const tokenName = (token: Obj): string => [str(token.name), str(token.id)].filter((part) => part !== "").join(" ");

/** The paired browsers, and how another device is paired. */
export function Browsers({ leave }: { leave: () => void }): JSX.Element {
  const { api } = useShell();
  const [browsers, set] = useState<Obj[] | undefined>(undefined);
  const [origins, setOrigins] = useState<string[]>([]);
  const [fault, say] = useState("");
  const [chosen, choose] = useState<{ browser: Obj; does: "rename" | "revoke" } | undefined>(undefined);
  useEffect(() => titlePage("Browsers"), []);
  const load = async (): Promise<void> => {
    try {
      set(await api.browsers());
      say("");
      setOrigins(await api.origins().catch(() => []));
    } catch (error) {
      say(error instanceof Error ? error.message : "not loaded");
    }
  };
  usePoll(load, 5000, []);
  const close = (): void => {
    choose(undefined);
    void load();
  };
  const secure = origins.filter((each) => each.startsWith("https://"));
  return (
    <main class="page browsers" aria-label="Browsers" tabIndex={0}>
      <h1>Browsers</h1>
      <Fault text={fault} />
      <div class="cards">
        {browsers?.map((browser) => {
          const [used, created] = [iso(num(browser.used)), iso(num(browser.created))];
          const facts: [string, string, string][] = [
            ["paired", created, clock(created)], ["last sign-in", used, ago(used) === "now" ? "now" : `${ago(used)} ago`],
            ["address", "", str(browser.address)], ["rights", "", `${str(browser.scope)}${browser.may_approve === true ? ", answers permissions" : ""}`],
          ];
          return (
            <section class="card" key={str(browser.id)} aria-label={visible(str(browser.name))}>
              <header>
                <h2>{visible(str(browser.name))}</h2>
                {browser.is_this === true && <span class="badge">this one</span>}
              </header>
              <dl class="grid">{facts.map(([name, title, value]) => <div><dt>{name}</dt><dd title={title}>{visible(value)}</dd></div>)}</dl>
              <footer>
                <button type="button" onClick={() => choose({ browser, does: "rename" })}>Rename</button>
                <button type="button" class="danger" onClick={() => choose({ browser, does: "revoke" })}>{browser.is_this === true ? "Sign out" : "Revoke"}</button>
              </footer>
            </section>
          );
        })}
      </div>
      {browsers?.length === 0 && <p class="empty">No browser is paired. This page uses a token, for this tab.</p>}
      <h2>Another device</h2>
      {secure.length > 0 ? (
        <p>Run <code>trunkline open --pair</code> in a terminal, and open {secure.map((each, at) => <>{at > 0 && " or "}<a href={each}>{each}</a></>)} on the device, or scan the code there. The terminal asks before it pairs.</p>
      ) : (
        <p>The daemon serves no https address, which a phone needs. Start it with <code>--listen ADDRESS:PORT</code>, <code>--tls-cert</code> and <code>--tls-key</code>, and a certificate that the phone trusts; then run <code>trunkline open --pair</code>.</p>
      )}
      {chosen?.does === "rename" && <RenameDialog api={api} browser={chosen.browser} close={close} />}
      {chosen?.does === "revoke" && <RevokeDialog api={api} browser={chosen.browser} close={close} leave={leave} />}
    </main>
  );
}

interface BrowserDialog {
  api: Api;
  browser: Obj;
  close: () => void;
}

/** Runs an action, and shows how the terminal gives this page the scope `admin` where the action needs it. */
export function useAdminAction(api: Api, action: () => Promise<void>, close: () => void): { fault: string; busy: boolean; run: () => Promise<void>; elevation: JSX.Element | null } {
  const [fault, say] = useState("");
  const [busy, work] = useState(false);
  const [needsCode, need] = useState(false);
  const [code, set] = useState("");
  const life = useRef(new AbortController());
  const run = async (): Promise<void> => {
    work(true);
    say("");
    try {
      if (code.trim() !== "") await api.elevate(code.trim(), life.current.signal);
      await action();
      close();
    } catch (error) {
      if (error instanceof Problem && error.status === 403 && code === "") need(true);
      else say(error instanceof Error ? error.message : String(error));
      set("");
    }
    work(false);
  };
  const elevation = needsCode ? (
    <>
      <p>This needs the rights of an administrator, for five minutes. Run <code>trunkline open --pair</code> in a terminal of the daemon’s machine and enter its code.</p>
      <label class="field">
        <span>Code</span>
        <input type="text" name="code" value={code} disabled={busy} autocomplete="off" autocapitalize="characters" spellcheck={false} maxLength={20} onInput={(event) => set(event.currentTarget.value)} />
      </label>
      <p role="status">{busy && code !== "" ? "Confirm it at the terminal." : ""}</p>
    </>
  ) : null;
  return { fault, busy, run, elevation };
}

function RenameDialog({ api, browser, close }: BrowserDialog): JSX.Element {
  const [name, set] = useState(str(browser.name));
  const { fault, busy, run, elevation } = useAdminAction(api, () => api.renameBrowser(str(browser.id), name.trim()), close);
  return (
    <Dialog title="Rename the browser" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <label class="field"><span>Name</span><input type="text" name="name" value={name} maxLength={64} autocomplete="off" onInput={(event) => set(event.currentTarget.value)} /></label>
        {elevation}
        <Fault text={visible(fault)} />
        <button type="submit" class="primary" disabled={busy || name.trim() === ""}>Rename</button>
      </form>
    </Dialog>
  );
}

function RevokeDialog({ api, browser, close, leave }: BrowserDialog & { leave: () => void }): JSX.Element {
  const isThis = browser.is_this === true;
  const tokens = list(browser.tokens).map(obj);
  const [withTokens, take] = useState(true);
  const does = isThis ? "Sign out" : "Revoke";
  const { fault, busy, run, elevation } = useAdminAction(api, () => api.revokeBrowser(str(browser.id), tokens.length > 0 && !withTokens), isThis ? leave : close);
  return (
    <Dialog title={`${does}: ${visible(str(browser.name))}`} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <p>{isThis ? "This browser forgets its key, in all of its tabs." : "It is signed out at once, and its streams end."} It can be paired again.</p>
        {tokens.length > 0 && (
          <fieldset>
            <legend>Tokens that it made</legend>
            <ul>{tokens.map((token) => <li key={str(token.id)}>{visible(tokenName(token))}: {str(token.scope)}</li>)}</ul>
            <label class="check"><input type="checkbox" name="tokens" checked={withTokens} onChange={(event) => take(event.currentTarget.checked)} /> Revoke them too</label>
          </fieldset>
        )}
        {elevation}
        <Fault text={visible(fault)} />
        <button type="submit" class="danger" disabled={busy}>{does}</button>
      </form>
    </Dialog>
  );
}

/** Asks before the browser of this page is signed out. */
export function SignOutDialog({ api, id, close, leave }: { api: Api; id: string; close: () => void; leave: () => void }): JSX.Element | null {
  const [browser, set] = useState<Obj | undefined>(undefined);
  usePoll(async () => {
    const own = (await api.browsers()).find((each) => str(each.id) === id);
    if (own) set(own);
  }, 5000, [id]);
  return browser ? <RevokeDialog api={api} browser={browser} close={close} leave={leave} /> : null;
}
