/** The paths of the daemon. Each call carries the token; an answer that is no success becomes a `Problem`. */

import type { Credential } from "./pairing.ts";
import { readSearchPage } from "./search.ts";
import type { SearchPage } from "./search.ts";
import { splitPage } from "./stream.ts";
import type { Connection, HistoryPage } from "./stream.ts";
import { choices, conversation, list, listed, num, obj, str } from "./types.ts";
import type { Choice, Conversation, Json, ListedSession, Me, Obj } from "./types.ts";

/** What the daemon says is wrong (RFC 9457), or that it is not there (status 0). */
export class Problem extends Error {
  constructor(public status: number, public detail: string, public category = "") {
    super(detail);
  }
}

export interface Page {
  sessions: ListedSession[];
  next: string;
  /** Hosts that did not answer: their sessions are not among these. */
  missing: string[];
}

/** A file of an input, by its SHA-256. */
export interface GivenFile {
  sha256: string;
  name: string;
  mime_type?: string;
}

/** What an input says; `steer` names the running turn that it adds to. */
export interface Given {
  content: string;
  files?: GivenFile[];
  steer?: string;
}

export interface Filter {
  text: string;
  state: string;
  agent: string;
  archived?: boolean;
  cursor?: string;
  limit?: number;
}

export async function problem(answer: Response): Promise<Problem> {
  let body: Obj = {};
  try {
    body = obj(JSON.parse((await answer.text()).slice(0, 65_536)));
  } catch {
    // No problem document: the status says what there is to say.
  }
  const detail = str(body.detail) || str(body.title) || answer.statusText || `status ${answer.status}`;
  return new Problem(answer.status, detail, str(body.category));
}

/** Time for which the limits of the agents are kept, in milliseconds. */
const LIMITS_FRESH = 60_000;

export class Api {
  private limits: { at: number; answer: Promise<Obj> } = { at: -Infinity, answer: Promise.resolve({}) };

  /** `refused` hears that this page is not signed in any more, and why. */
  constructor(private credential: Credential, private refused: (why: string) => void) {}

  private async send(method: string, path: string, init: RequestInit = {}): Promise<Response> {
    try {
      const bearer = await this.credential.bearer();
      const answer = await this.fetch(method, path, init, bearer);
      if (answer.status !== 401) return answer;
      // A daemon that was restarted knows no bearer of before.
      const renewed = await this.credential.renew(bearer);
      const again = renewed === undefined ? answer : await this.fetch(method, path, init, renewed);
      if (again.status === 401) throw await problem(again);
      return again;
    } catch (error) {
      if (error instanceof Problem && error.status === 401) this.refused(error.detail);
      throw error;
    }
  }

  private async fetch(method: string, path: string, init: RequestInit, bearer: string): Promise<Response> {
    const headers = new Headers(init.headers);
    headers.set("Authorization", `Bearer ${bearer}`);
    try {
      return await fetch(path, { ...init, method, headers, cache: "no-store", redirect: "error" });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new Problem(0, "the daemon is not reachable");
    }
  }

  private async json(method: string, path: string, body?: unknown, headers: HeadersInit = {}, signal?: AbortSignal): Promise<Obj> {
    const init: RequestInit = { headers, ...(signal ? { signal } : {}) };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
      init.headers = { ...headers, "Content-Type": "application/json" };
    }
    const answer = await this.send(method, path, init);
    if (!answer.ok) throw await problem(answer);
    if (answer.status === 204) return {};
    const text = await answer.text();
    try {
      return text === "" ? {} : obj(JSON.parse(text));
    } catch {
      throw new Problem(answer.status, "the daemon's answer is not JSON");
    }
  }

  async me(): Promise<Me> {
    const it = await this.json("GET", "/v1/me");
    return { scope: str(it.scope), may_approve: it.may_approve === true, version: str(it.version), name: str(it.name) };
  }

  /** The largest file that an agent takes, in bytes; nothing if the daemon does not report it. */
  async maxFileBytes(agent: string): Promise<number | undefined> {
    const now = Date.now();
    if (now - this.limits.at > LIMITS_FRESH) this.limits = { at: now, answer: this.json("GET", "/v1/agents") };
    return num(obj((await this.limits.answer).max_file_bytes)[agent]);
  }

  /** The agents, the default one, and the folders of sessions: any folder of some agents, and those below others. */
  async agents(): Promise<{ agents: Obj[]; first: string; anyFolder: string[]; folders: Obj }> {
    const it = await this.json("GET", "/v1/agents");
    return { agents: list(it.agents).map(obj), first: str(it.default), anyFolder: list(it.takes_cwd).map(str), folders: obj(it.folders) };
  }

  /** What the last sessions of an agent had: the models and modes that it offered, and their folders. */
  async recent(agent: string): Promise<{ models: Choice[]; modes: Choice[]; folders: string[] }> {
    const { sessions } = await this.sessions({ text: "", state: "", agent, limit: 20 });
    const folders = [...new Set(sessions.map((each) => each.cwd))].filter((folder) => folder !== "");
    const [last] = sessions;
    const lines = last ? (await this.history(last.id, { from: 1 }, 40)).lines : [];
    const offers: Obj = Object.assign({}, ...lines.map((line) => line.entry).filter((each) => each.type === "session.info" || each.type === "session.ready"));
    return { models: choices(offers.models), modes: choices(offers.modes), folders };
  }

  async sessions(filter: Filter, signal?: AbortSignal): Promise<Page> {
    const query = new URLSearchParams({ limit: String(filter.limit ?? 100) });
    if (filter.text !== "") query.set("text", filter.text);
    if (filter.state !== "") query.set("state", filter.state);
    if (filter.agent !== "") query.set("agent", filter.agent);
    if (filter.archived) query.set("archived", "true");
    if (filter.cursor) query.set("cursor", filter.cursor);
    const it = await this.json("GET", `/v1/sessions?${query}`, undefined, {}, signal);
    return { sessions: list(it.sessions).map(listed).filter((each) => each.id !== ""), next: str(it.next), missing: list(it.missing).map(str) };
  }

  /** Searches for about 250 ms, behind the position that the answer before gave. */
  async search(query: { text: string; agent: string; after: string }, signal: AbortSignal): Promise<SearchPage> {
    const { text, agent, after } = query;
    const parameters = new URLSearchParams({ q: text, ...(agent !== "" ? { agent } : {}), ...(after !== "" ? { after } : {}) });
    return readSearchPage(await this.json("GET", `/v1/search?${parameters}`, undefined, {}, signal));
  }

  /** The hosts of the cluster; none where the daemon is alone. */
  async hosts(): Promise<Obj[]> {
    return list((await this.json("GET", "/v1/hosts")).hosts).map(obj);
  }

  async browsers(): Promise<Obj[]> {
    return list((await this.json("GET", "/v1/browsers")).browsers).map(obj);
  }

  async renameBrowser(id: string, name: string): Promise<void> {
    await this.json("PATCH", `/v1/browsers/${encodeURIComponent(id)}`, { name });
  }

  async revokeBrowser(id: string, keepTokens: boolean): Promise<void> {
    await this.json("DELETE", `/v1/browsers/${encodeURIComponent(id)}${keepTokens ? "?keep_tokens=true" : ""}`);
  }

  /** Requests the scope `admin` for this page and some minutes. Waits until the terminal with the code has confirmed it. */
  async elevate(code: string, signal: AbortSignal): Promise<void> {
    // A new bearer does not end before that time.
    await this.credential.renew(await this.credential.bearer());
    await this.json("POST", "/v1/elevation", { code }, {}, signal);
  }

  /** The addresses at which the daemon serves this page. */
  async origins(): Promise<string[]> {
    return list((await this.json("GET", "/readyz")).listeners).map((each) => str(obj(each).origin)).filter((each) => each !== "");
  }

  /** The conversations that an agent itself keeps, the newest first. */
  async conversations(agent: string): Promise<Conversation[]> {
    const it = await this.json("GET", `/v1/agents/${encodeURIComponent(agent)}/conversations?limit=50`);
    return list(it.conversations).map(conversation).filter((each) => each.id !== "");
  }

  /** Ends the process of an agent, and the turns that it runs. */
  async restart(agent: string): Promise<void> {
    await this.json("POST", `/v1/agents/${encodeURIComponent(agent)}/restart`);
  }

  /** Opens a session, which continues a conversation of the agent if one is named. */
  async create(agent: string, options: { [name: string]: string }, native: string): Promise<string> {
    const body = {
      ...(agent !== "" ? { agent } : {}),
      ...(native !== "" ? { native_session_id: native } : {}),
      ...(Object.keys(options).length > 0 ? { options } : {}),
    };
    return str((await this.json("POST", "/v1/sessions", body)).id);
  }

  show(id: string): Promise<Obj> {
    return this.json("GET", path(id));
  }

  /** Reads the last entries before a number or before the end, or the entries from a number on. */
  async history(id: string, range: { before: number | "end" } | { from: number }, limit: number, signal?: AbortSignal): Promise<HistoryPage> {
    const query = new URLSearchParams({ limit: String(limit) });
    for (const [name, value] of Object.entries(range)) query.set(name, String(value));
    const answer = await this.send("GET", `${path(id)}/history?${query}`, signal ? { signal } : {});
    if (!answer.ok) throw await problem(answer);
    return splitPage(await answer.text());
  }

  /** The lasting rules, the oldest first. */
  async rules(): Promise<Obj[]> {
    return list((await this.json("GET", "/v1/rules")).rules).map(obj);
  }

  async removeRule(id: string): Promise<void> {
    await this.json("DELETE", `/v1/rules/${encodeURIComponent(id)}`);
  }

  async close(id: string, remove: boolean): Promise<void> {
    await this.json("DELETE", `${path(id)}${remove ? "?remove=true" : ""}`);
  }

  /** Changes the title of a session, or archives it. */
  async edit(id: string, change: { title?: string; archived?: boolean }): Promise<void> {
    await this.json("PATCH", path(id), change);
  }

  /** Opens a copy of a session up to an entry, or of all of it. Returns its id. */
  async fork(id: string, seq: number | undefined): Promise<string> {
    return str((await this.json("POST", `${path(id)}/fork`, seq === undefined ? {} : { seq })).id);
  }

  /** Reads a whole session as a file. */
  async export(id: string, format: "jsonl" | "markdown"): Promise<Blob> {
    const answer = await this.send("GET", `${path(id)}/export?format=${format}`);
    if (!answer.ok) throw await problem(answer);
    return answer.blob();
  }

  input(id: string, message: string, body: Given, signal?: AbortSignal): Promise<Obj> {
    return this.json("POST", `${path(id)}/inputs`, body, { "Idempotency-Key": message }, signal);
  }

  async stop(id: string, turn: string): Promise<void> {
    await this.json("POST", `${path(id)}/stop`, turn === "" ? {} : { turn_id: turn });
  }

  async answer(id: string, request: string, answer: { [member: string]: Json }): Promise<void> {
    await this.json("POST", `${path(id)}/requests/${encodeURIComponent(request)}`, answer);
  }

  async settings(id: string, options: { [name: string]: string }): Promise<void> {
    await this.json("POST", `${path(id)}/settings`, { options });
  }

  async upload(id: string, name: string, body: Blob): Promise<{ sha256: string; size: number }> {
    const answer = await this.send("PUT", `${path(id)}/files?name=${encodeURIComponent(name)}`, {
      body,
      headers: { "Content-Type": "application/octet-stream" },
    });
    if (!answer.ok) throw await problem(answer);
    const it = obj(await answer.json());
    return { sha256: str(it.sha256), size: num(it.size) ?? body.size };
  }

  async file(id: string, sha256: string): Promise<ArrayBuffer> {
    const answer = await this.send("GET", `${path(id)}/files/${encodeURIComponent(sha256)}`);
    if (!answer.ok) throw await problem(answer);
    return answer.arrayBuffer();
  }

  /** Reads the beginning of a file, or all of a small one. */
  async fileHead(id: string, sha256: string, most: number, signal: AbortSignal): Promise<{ bytes: Uint8Array<ArrayBuffer>; isWhole: boolean }> {
    const answer = await this.send("GET", `${path(id)}/files/${encodeURIComponent(sha256)}`, { signal });
    if (!answer.ok || !answer.body) throw await problem(answer);
    const bytes = new Uint8Array(most);
    const reader = answer.body.getReader();
    for (let length = 0; ; ) {
      const { done, value } = await reader.read();
      if (done) return { bytes: bytes.slice(0, length), isWhole: true };
      const part = value.subarray(0, most - length);
      bytes.set(part, length);
      length += part.length;
      if (part.length < value.length) {
        await reader.cancel();
        return { bytes, isWhole: false };
      }
    }
  }

  async usage(days: number): Promise<Obj[]> {
    return list((await this.json("GET", `/v1/usage?days=${days}`)).days).map(obj);
  }

  /** Opens the stream of the changes of all sessions, behind a position that the daemon gave. */
  async changes(position: string, signal: AbortSignal): Promise<Connection> {
    const headers = { Accept: "text/event-stream", ...(position === "" ? {} : { "Last-Event-ID": position }) };
    return stream(await this.send("GET", "/v1/events", { signal, headers }));
  }

  /** Opens the stream of a session behind an entry, with its epoch: another one there is another journal. */
  async events(id: string, after: number, epoch: number, signal: AbortSignal): Promise<Connection> {
    const behind = `after=${after}${epoch > 0 ? `&epoch=${epoch}` : ""}`;
    const answer = await this.send("GET", `${path(id)}/events?${behind}`, {
      signal,
      headers: { Accept: "text/event-stream" },
    });
    return stream(answer);
  }
}

async function stream(answer: Response): Promise<Connection> {
  if (answer.status === 200 && answer.body) return { status: 200, body: answer.body.getReader() };
  if (answer.ok) return { status: answer.status };
  return { status: answer.status, detail: (await problem(answer)).detail };
}

const path = (id: string): string => `/v1/sessions/${encodeURIComponent(id)}`;
