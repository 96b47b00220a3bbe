import { createContext } from "preact";
import { useContext, useEffect, useReducer, useRef, useState } from "preact/hooks";
import type { Api } from "../core/api.ts";
import type { SessionStore } from "../core/session.ts";
import type { Me } from "../core/types.ts";

export interface Shell {
  api: Api;
  me: Me | undefined;
}

export const ShellContext = createContext<Shell | undefined>(undefined);
export const SessionContext = createContext<SessionStore | undefined>(undefined);

/** The part of a session that a request's card needs. The inbox has it without the session's stream. */
export type RequestSession = Pick<SessionStore, "api" | "id" | "open" | "turn" | "say">;
export const RequestContext = createContext<RequestSession | undefined>(undefined);

export function useShell(): Shell {
  const shell = useContext(ShellContext);
  if (!shell) throw new Error("outside of the shell");
  return shell;
}

export function useSession(): SessionStore {
  const store = useContext(SessionContext);
  if (!store) throw new Error("outside of a session");
  return store;
}

/** Returns the session of a request's card: the one of the inbox, or the one whose page is shown. */
export function useRequestSession(): RequestSession {
  const whole = useContext(SessionContext);
  const session = useContext(RequestContext) ?? whole;
  if (!session) throw new Error("outside of a session");
  return session;
}

/** Draws again when the store has changed. */
export function useChanges(store: { subscribe(listener: () => void): () => void } | undefined): void {
  const [, again] = useReducer((count: number) => count + 1, 0);
  useEffect(() => store?.subscribe(() => again(undefined as never)), [store]);
}

/** Calls at once, each `ms` and when something is known to have changed; seldom while the page is hidden; never two at a time. */
export function usePoll(call: () => Promise<void>, ms: number, keys: unknown[]): void {
  const latest = useRef(call);
  latest.current = call;
  useEffect(() => {
    let timer = 0;
    let stopped = false;
    let busy = false;
    let again = false;
    const run = async (): Promise<void> => {
      busy = true;
      do {
        again = false;
        await latest.current().catch(() => undefined);
      } while (again && !stopped);
      busy = false;
      if (!stopped) timer = window.setTimeout(run, document.hidden ? Math.max(ms, 15_000) : ms);
    };
    void run();
    const seen = (): void => {
      if (document.hidden) return;
      again = true;
      clearTimeout(timer);
      if (!busy) void run();
    };
    document.addEventListener("visibilitychange", seen);
    addEventListener("console:refresh", seen);
    return () => {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
      removeEventListener("console:refresh", seen);
    };
  }, keys);
}

/** Whether the main pointer is a finger: no keys to press, targets of 44 pixels. */
export const isCoarse = (): boolean => globalThis.matchMedia?.("(pointer: coarse)").matches ?? false;

/** What stands behind `#/`, in its parts. */
export function useRoute(): string[] {
  const read = (): string[] => location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  const [route, set] = useState(read);
  useEffect(() => {
    const changed = (): void => set(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

export const sessionHref = (id: string): string => `#/sessions/${encodeURIComponent(id)}`;
/** The list with a search. */
export const listHref = (text: string): string => `#/list/${encodeURIComponent(text)}`;
export const entryHref = (id: string, seq: number): string => `${sessionHref(id)}/${seq}`;
