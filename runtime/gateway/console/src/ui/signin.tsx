import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../core/api.ts";
import { BrowserKey, PastedToken, browserName, canPair, codeOfLink, forgetPairing, pairBrowser, storedPairing } from "../core/pairing.ts";
import type { Credential } from "../core/pairing.ts";
import { visible } from "../core/safe.ts";
import { titlePage } from "../core/title.ts";
import { Fault, Logo } from "./bits.tsx";

const TOKEN = "trunkline.token";

/** What the daemon wrote into this page, and the code of its address. Neither address nor document keeps it. */
interface Arrival {
  /** Pairs this browser without a confirmation: of the page that `trunkline open` opened. */
  code: string;
  /** The code of a link, which a person still confirms. */
  linked: string;
  why: string;
}

function arrive(): Arrival {
  const take = (name: string): string => {
    const meta = document.querySelector<HTMLMetaElement>(`meta[name="trunkline-${name}"]`);
    meta?.remove();
    return meta?.content ?? "";
  };
  const [code, why, linked] = [take("code"), take("why"), codeOfLink(location.hash)];
  if (location.pathname !== "/" || linked !== "") history.replaceState(null, "", `/${linked !== "" ? "" : location.hash}`);
  return { code, linked, why };
}

const detail = (error: unknown): string => (error instanceof Error ? error.message : String(error));

async function firstCredential({ code }: Arrival): Promise<Credential | undefined> {
  const token = sessionStorage.getItem(TOKEN) ?? "";
  if (token !== "" && code === "") return new PastedToken(token);
  const pairing = await storedPairing();
  if (code === "" || !canPair()) return pairing && new BrowserKey(pairing);
  if (pairing && !pairing.byToken) {
    const key = new BrowserKey(pairing);
    const isPaired = await key.bearer().then(() => true, (error: unknown) => !(error instanceof Problem && error.status === 401));
    if (isPaired) return key;
  }
  const paired = new BrowserKey(await pairBrowser({ code }, browserName(navigator.userAgent)));
  sessionStorage.removeItem(TOKEN);
  return paired;
}

export interface SignInState {
  /** Absent while the page is not signed in. */
  credential: Credential | undefined;
  /** Absent while the page finds out. */
  form: JSX.Element | undefined;
  /** The id of this browser if it is paired. */
  browser: string;
  refused(why: string): void;
  /** Forgets the key or the token, with the drafts, and begins anew. */
  leave(): Promise<void>;
}

/** Signs the page in: by the key of this browser, a code, or a token. */
export function useSignIn(): SignInState {
  const [arrival] = useState(arrive);
  const [credential, set] = useState<Credential | undefined>(undefined);
  const [isReady, setReady] = useState(false);
  const [why, say] = useState(arrival.why);
  const [linked, setLinked] = useState(arrival.linked);
  const [joined, again] = useState(0);
  const latest = useRef(credential);
  latest.current = credential;
  useEffect(() => {
    firstCredential(arrival).then(set, (error: unknown) => say(detail(error))).finally(() => setReady(true));
    // A link that is opened in a tab of this page.
    const changed = (): void => {
      const { linked: code } = arrive();
      if (code === "") return;
      setLinked(code);
      again((count) => count + 1);
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  const enter = (given: Credential): void => {
    if (given instanceof PastedToken) sessionStorage.setItem(TOKEN, given.token);
    else sessionStorage.removeItem(TOKEN);
    say("");
    set(given);
  };
  return {
    credential,
    form: isReady ? <SignIn key={joined} why={why} code={linked} enter={enter} /> : undefined,
    browser: credential instanceof BrowserKey ? credential.pairing.id : "",
    refused: (reason) => {
      // A late answer to a credential that was refused before says nothing of the one that is used now.
      if (latest.current !== credential || !credential) return;
      if (credential instanceof PastedToken) {
        sessionStorage.removeItem(TOKEN);
        say(`The token was refused: ${reason}`);
        return set(undefined);
      }
      void storedPairing().then((pairing) => {
        // Another tab can have paired this browser anew.
        const isNew = credential instanceof BrowserKey && pairing && pairing.id !== credential.pairing.id;
        if (!isNew) say(`This browser is not signed in any more: ${reason}`);
        set(isNew ? new BrowserKey(pairing) : undefined);
      });
    },
    leave: async () => {
      if (credential instanceof BrowserKey) await forgetPairing();
      // Drafts and what was not sent are of the one who leaves; pictures and samples go with the page.
      for (const key of Object.keys(sessionStorage)) if (key.startsWith("trunkline.")) sessionStorage.removeItem(key);
      location.replace("/");
      location.reload();
    },
  };
}

function SignIn({ why, code, enter }: { why: string; code: string; enter: (credential: Credential) => void }): JSX.Element {
  useEffect(() => {
    titlePage("Sign in");
    // The page that had the focus is gone.
    if (why !== "") document.querySelector<HTMLElement>("input[name=code], input[name=token]")?.focus();
  }, []);
  const isSecure = canPair();
  return (
    <main class="signin">
      <div>
        <Logo size={40} />
        <h1>trunkline</h1>
        <Fault text={visible(why)} />
        {isSecure ? (
          <>
            <PairForm code={code} enter={enter} />
            <details>
              <summary>Use a token</summary>
              <TokenForm mayStay enter={enter} />
            </details>
          </>
        ) : (
          <>
            <p>This browser cannot be paired here: browsers keep keys only for pages that come by https or from their own machine. A token works in this tab.</p>
            <TokenForm mayStay={false} enter={enter} />
          </>
        )}
      </div>
    </main>
  );
}

/** Runs one action at a time: its state, and what went wrong. */
function useAction(): { busy: boolean; fault: string; run(action: (signal: AbortSignal) => Promise<void>): void; cancel(): void } {
  const [life, set] = useState<AbortController | undefined>(undefined);
  const [fault, say] = useState("");
  return {
    busy: life !== undefined,
    fault,
    run: (action) => {
      const own = new AbortController();
      set(own);
      say("");
      action(own.signal).catch((error: unknown) => own.signal.aborted || say(detail(error))).finally(() => set(undefined));
    },
    cancel: () => life?.abort(),
  };
}

function PairForm({ code, enter }: { code: string; enter: (credential: Credential) => void }): JSX.Element {
  const [given, set] = useState(code);
  const [name, rename] = useState(() => browserName(navigator.userAgent));
  const { busy, fault, run, cancel } = useAction();
  return (
    <form
      aria-label="Pair this browser"
      onSubmit={(event) => {
        event.preventDefault();
        if (given.trim() === "" || busy) return;
        run(async (signal) => enter(new BrowserKey(await pairBrowser({ code: given.trim() }, name.trim(), signal))));
      }}
    >
      <p>Run <code>trunkline open</code> on the daemon’s machine. For another device, run <code>trunkline open --pair</code> there and enter its code here.</p>
      <label class="field">
        <span>Code</span>
        <input type="text" name="code" value={given} disabled={busy} autocomplete="off" autocapitalize="characters" spellcheck={false} maxLength={20} placeholder="K7QM-3XTB" onInput={(event) => set(event.currentTarget.value)} />
      </label>
      <label class="field">
        <span>Name of this browser</span>
        <input type="text" name="browser" value={name} disabled={busy} autocomplete="off" spellcheck={false} maxLength={64} onInput={(event) => rename(event.currentTarget.value)} />
      </label>
      <Fault text={visible(fault)} />
      <p role="status">{busy ? "Confirm it at the terminal." : ""}</p>
      <button type="submit" class="primary" disabled={busy}>Pair this browser</button>
      {busy && <button type="button" onClick={cancel}>Cancel</button>}
    </form>
  );
}

function TokenForm({ mayStay, enter }: { mayStay: boolean; enter: (credential: Credential) => void }): JSX.Element {
  const [token, set] = useState("");
  const [stays, stay] = useState(mayStay);
  const { busy, fault, run } = useAction();
  return (
    <form
      aria-label="Sign in with a token"
      onSubmit={(event) => {
        event.preventDefault();
        const given = token.trim();
        if (given === "" || busy) return;
        if (!stays) return enter(new PastedToken(given));
        run(async (signal) => enter(new BrowserKey(await pairBrowser({ token: given }, browserName(navigator.userAgent), signal))));
      }}
    >
      <label class="field">
        <span>Token</span>
        <input type="password" name="token" value={token} autocomplete="off" spellcheck={false} placeholder="tlk_…" onInput={(event) => set(event.currentTarget.value)} />
      </label>
      {mayStay && (
        <label class="check">
          <input type="checkbox" name="stay" checked={stays} onChange={(event) => stay(event.currentTarget.checked)} /> Pair this browser, with at most the token’s rights
        </label>
      )}
      <Fault text={fault === "" ? "" : `The token was refused: ${visible(fault)}`} />
      <button type="submit" disabled={busy}>Sign in</button>
    </form>
  );
}
