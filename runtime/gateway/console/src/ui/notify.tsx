import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Api } from "../core/api.ts";
import { readOutcome, readRequest } from "../core/entries.ts";
import { Fold } from "../core/fold.ts";
import { requestSummary } from "../core/inbox.ts";
import { readSwitches, saveSwitches } from "../core/notify.ts";
import type { NotifyPort, NotifySwitches } from "../core/notify.ts";
import type { SessionOverview } from "../core/overview.ts";
import { categoryText } from "../core/words.ts";

/** The name that stands for the requests of all sessions, which the inbox shows. */
const INBOX = "*";
const lockName = (scope: string, shown: string): string => `trunkline.shown.${scope}.${shown}`;

/** Holds a lock while this page is in sight and shows a session or the inbox. Locks of a page that crashes are released. */
export function useShown(scope: string | undefined, shown: string | undefined): void {
  useEffect(() => {
    if (scope === undefined || shown === undefined || !navigator.locks) return undefined;
    let held = new AbortController();
    const update = (): void => {
      held.abort();
      held = new AbortController();
      const { signal } = held;
      if (document.hidden) return;
      const until = (): Promise<void> => new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      navigator.locks.request(lockName(scope, shown), { mode: "shared" }, until).catch(() => undefined);
    };
    update();
    document.addEventListener("visibilitychange", update);
    return () => {
      document.removeEventListener("visibilitychange", update);
      held.abort();
    };
  }, [scope, shown]);
}

export const shownName = (view: string, id: string): string | undefined => (view === "inbox" ? INBOX : view === "sessions" && id !== "" ? id : undefined);

/** The browser's notifications for the sessions of one token. */
export function browserPort(api: Api, overview: SessionOverview, scope: string): NotifyPort {
  return {
    switches: () => (globalThis.Notification?.permission === "granted" ? readSwitches(localStorage) : { requests: false, failed: false, ended: false }),
    isShown: async (session, isRequest) => {
      const { held = [] } = (await navigator.locks?.query()) ?? {};
      const names = [lockName(scope, session), ...(isRequest ? [lockName(scope, INBOX)] : [])];
      return held.some((lock) => names.includes(lock.name ?? ""));
    },
    describe: async (notice) => {
      if (notice.kind === "ended") {
        const { category, message } = await readOutcome(api, notice.session.id);
        return [categoryText(category), message].filter((part) => part !== "").join(": ");
      }
      const fold = new Fold();
      for (const entry of await readRequest(api, notice.session.id, notice.request.id, notice.request.seq)) fold.apply(entry);
      const row = fold.pending.get(notice.request.id);
      return row ? requestSummary(row) : "";
    },
    isOpen: (session, request) => overview.get(session)?.requests.has(request) === true,
    show: (title, body, tag, hash) => {
      const options = { body, tag: `trunkline ${tag}`, icon: "/icon.svg" };
      try {
        const shown = new Notification(title, options);
        shown.onclick = () => {
          window.focus();
          location.hash = hash;
          shown.close();
        };
        return shown;
      } catch {
        return byWorker(title, { ...options, data: hash });
      }
    },
  };
}

// Any page of the browser may be the one that a click leads to.
globalThis.navigator?.serviceWorker?.addEventListener("message", (event: MessageEvent<{ open?: unknown }>) => {
  const hash = event.data.open;
  if (typeof hash === "string" && /^#\/(inbox|sessions)/.test(hash)) location.hash = hash;
});

let worker: Promise<ServiceWorkerRegistration> | undefined;

/** Returns the service worker, which is installed when it is first needed. */
function registered(): Promise<ServiceWorkerRegistration> {
  worker ??= (async () => {
    const { serviceWorker } = navigator;
    const path = "/worker.js";
    const policy = (globalThis as unknown as { trustedTypes?: { createPolicy(name: string, rules: object): { createScriptURL(url: string): string } } }).trustedTypes;
    // The policy of the page takes no address of a script as text.
    await serviceWorker.register(policy?.createPolicy("worker", { createScriptURL: () => path }).createScriptURL(path) ?? path);
    return serviceWorker.ready;
  })();
  return worker;
}

/** Notifies by the service worker: browsers of phones know no other way. */
function byWorker(title: string, options: NotificationOptions): { close(): void } {
  const shown = registered().then((registration) => registration.showNotification(title, options));
  shown.catch(() => undefined);
  return {
    close: () => {
      const close = async (): Promise<void> => {
        await shown;
        for (const each of await (await registered()).getNotifications({ tag: options.tag ?? "" })) each.close();
      };
      void close().catch(() => undefined);
    },
  };
}

const SWITCHES: [keyof NotifySwitches, string][] = [["requests", "requests"], ["failed", "failed turns"], ["ended", "ended turns"]];

/** The choice of what this browser notifies of. Permission is asked for by the button only. */
export function NotifyChoice(): JSX.Element | null {
  const [permission, set] = useState<NotificationPermission | undefined>(() => globalThis.Notification?.permission);
  const [switches, choose] = useState(() => readSwitches(localStorage));
  if (permission === undefined) return <p class="dim">This browser has no notifications here: they need https or this machine's own address.</p>;
  if (permission === "denied") return <p class="dim">The browser blocks notifications of this page. Its settings for the site allow them.</p>;
  if (permission === "default") {
    return <button type="button" onClick={() => void Notification.requestPermission().then(set)}>Notify me in this browser</button>;
  }
  return (
    <fieldset class="notify">
      <legend>Notify of</legend>
      {SWITCHES.map(([name, label]) => (
        <label class="check" key={name}>
          <input
            type="checkbox"
            checked={switches[name]}
            onChange={(event) => {
              const next = { ...readSwitches(localStorage), [name]: event.currentTarget.checked };
              saveSwitches(localStorage, next);
              choose(next);
            }}
          />{" "}
          {label}
        </label>
      ))}
    </fieldset>
  );
}
