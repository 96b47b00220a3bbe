/** The key of this browser, with which it signs in, and the pasted token of a tab. */

import { Problem, problem } from "./api.ts";
import { num, obj, str } from "./types.ts";
import type { Obj } from "./types.ts";

/** Gives the bearer tokens of requests. */
export interface Credential {
  /** The bearer for the next request. */
  bearer(): Promise<string>;
  /** A bearer in place of a refused one; nothing where there is none. */
  renew(refused: string): Promise<string | undefined>;
}

/** A token that was pasted, for this tab. */
export class PastedToken implements Credential {
  constructor(readonly token: string) {}

  async bearer(): Promise<string> {
    return this.token;
  }

  async renew(): Promise<undefined> {
    return undefined;
  }
}

/** This browser, as it was paired. The page can use the key, and cannot read it. */
export interface Pairing {
  id: string;
  key: CryptoKey;
  /** Whether a token paired it, which limits its rights. */
  byToken: boolean;
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256" };
/** How long before its end a bearer is renewed, in milliseconds. */
const MARGIN = 60_000;

/** Whether the page may make keys here: only over https, or from this machine. */
export const canPair = (): boolean => isSecureContext && typeof crypto.subtle === "object" && typeof indexedDB === "object";

/** The text that the daemon checks; the origin keeps a signature from being of use elsewhere. */
export const textToSign = (origin: string, id: string, challenge: string): string => `trunkline sign-in 1\n${origin}\n${id}\n${challenge}`;

const hex = (bytes: ArrayBuffer): string => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

async function post(path: string, body: unknown, token = "", signal?: AbortSignal): Promise<Obj> {
  let answer: Response;
  try {
    const headers = { "Content-Type": "application/json", ...(token !== "" ? { Authorization: `Bearer ${token}` } : {}) };
    answer = await fetch(path, { method: "POST", body: JSON.stringify(body), headers, cache: "no-store", redirect: "error", signal: signal ?? null });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "the daemon is not reachable");
  }
  if (!answer.ok) throw await problem(answer);
  return obj(await answer.json());
}

/** Opens the store of this origin, which has one record. */
async function withStore<T>(mode: IDBTransactionMode, use: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const opened = indexedDB.open("trunkline", 1);
  opened.onupgradeneeded = () => opened.result.createObjectStore("browser");
  const database = await done(opened);
  try {
    return await done(use(database.transaction("browser", mode).objectStore("browser")));
  } finally {
    database.close();
  }
}

const done = <T>(request: IDBRequest<T>): Promise<T> => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

/** The pairing of this browser, if it has one. */
export async function storedPairing(): Promise<Pairing | undefined> {
  if (!canPair()) return undefined;
  return withStore<Pairing | undefined>("readonly", (store) => store.get("this")).catch(() => undefined);
}

export async function forgetPairing(): Promise<void> {
  if (canPair()) await withStore("readwrite", (store) => store.delete("this")).catch(() => undefined);
}

/** Pairs this browser by a code, or by a token. With a code of a terminal it waits for the confirmation there. */
export async function pairBrowser(by: { code?: string; token?: string }, name: string, signal?: AbortSignal): Promise<Pairing> {
  const pair = await crypto.subtle.generateKey(ALGORITHM, false, ["sign"]);
  const key = hex(await crypto.subtle.exportKey("raw", pair.publicKey));
  const body = { name, key, ...(by.code !== undefined ? { code: by.code } : {}) };
  const id = str((await post("/v1/browsers", body, by.token, signal)).id);
  const pairing = { id, key: pair.privateKey, byToken: by.code === undefined };
  await withStore("readwrite", (store) => store.put(pairing, "this"));
  return pairing;
}

/** Signs in by the key of this browser, and again when a bearer ends. */
export class BrowserKey implements Credential {
  private current = "";
  private until = 0;
  private pending: Promise<string> | undefined;

  constructor(readonly pairing: Pairing) {}

  async bearer(): Promise<string> {
    return this.current !== "" && Date.now() < this.until ? this.current : this.again();
  }

  async renew(refused: string): Promise<string> {
    if (this.current === refused) this.current = "";
    return this.bearer();
  }

  /** All requests that wait share one sign-in. */
  private again(): Promise<string> {
    // The daemon can restart between a challenge and its answer.
    const twice = (): Promise<string> => this.signIn().catch((error: unknown) => {
      if (error instanceof Problem && error.status === 401) return this.signIn();
      throw error;
    });
    this.pending ??= twice().finally(() => (this.pending = undefined));
    return this.pending;
  }

  private async signIn(): Promise<string> {
    const { id, key } = this.pairing;
    const path = `/v1/browsers/${encodeURIComponent(id)}`;
    const challenge = str((await post(`${path}/challenge`, {})).challenge);
    const text = new TextEncoder().encode(textToSign(location.origin, id, challenge));
    const signature = hex(await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, key, text));
    const given = await post(`${path}/bearer`, { challenge, signature });
    this.until = Date.now() + (num(given.expires_in) ?? 0) * 1000 - MARGIN;
    return (this.current = str(given.token));
  }
}

const BROWSERS: [RegExp, string][] = [[/Edg/, "Edge"], [/OPR\//, "Opera"], [/SamsungBrowser/, "Samsung Internet"], [/Firefox|FxiOS/, "Firefox"], [/Chrome|CriOS/, "Chrome"], [/Safari/, "Safari"]];
const SYSTEMS: [RegExp, string][] = [[/Android/, "Android"], [/iPhone/, "iPhone"], [/iPad/, "iPad"], [/Mac OS/, "macOS"], [/Windows/, "Windows"], [/CrOS/, "ChromeOS"], [/Linux/, "Linux"]];

/** A name for this browser, such as `Chrome on Android`. */
export function browserName(agent: string): string {
  const named = (all: [RegExp, string][], other: string): string => all.find(([form]) => form.test(agent))?.[1] ?? other;
  return `${named(BROWSERS, "Browser")} on ${named(SYSTEMS, "a device")}`;
}

/** The code in `#/pair/CODE`, as a link or a QR code has it. */
export function codeOfLink(hash: string): string {
  return /^#\/pair\/([0-9A-Za-z-]{1,20})$/.exec(hash)?.[1] ?? "";
}
